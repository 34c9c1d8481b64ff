"""Parameters of LSF that gsched knows by name but gives no meaning, and why.

`REFUSED_*`: what they ask for would not happen, so the configuration is refused. `WITHOUT_EFFECT_*`: ignoring them
harms nobody, and a note says that they do nothing. A name that becomes supported must leave these tables.
Where the names come from, gsched.config.grammar.lsf_names says; what belongs to a part of LSF that is not there is
explained in gsched.config.grammar.lsf_topics, and what is said here of single names comes before it.
"""

from __future__ import annotations

from gsched.config.grammar import lsf_names, lsf_topics


def _names(text: str, reason: str = "") -> dict[str, str]:
    return dict.fromkeys(text.split(), reason)


def _of_lsf(names: frozenset[str]) -> dict[str, str]:
    return dict.fromkeys(names, "") | lsf_topics.refused(names)


REFUSED_CONF: dict[str, str] = _of_lsf(lsf_names.CONF) | {
    "LSF_ROOT_REX": "LSF_ROOT_USER=Y lets root submit jobs",
    "LSF_STRICT_RESREQ": "requirements are always read strictly",
    "LSF_GPU_AUTOCONFIG": "agents always look for GPUs by themselves",
    "LSF_PROCESS_TRACKING": "processes of jobs are always followed",
    "LSF_LINUX_CGROUP_ACCT": "processes of jobs are always followed",
    "EGO_DEFINE_NCPUS": "MXJ in lsb.hosts says how many slots a host has",
    "LSF_DYNAMIC_HOST_WAIT_TIME": "hosts are listed in the Host section of lsf.cluster",
    "LSF_DYNAMIC_HOST_TIMEOUT": "hosts are listed in the Host section of lsf.cluster",
}

_NO_EGO, _NO_RES, _OWN = "there is no EGO", "there is no RES", "gsched is installed and started in its own way"
_LOGS = "LSF_LOG_MASK says how much is logged"
_METRICS = "gadmin metrics shows what the master counts and times"

WITHOUT_EFFECT_CONF: dict[str, str] = (
    lsf_topics.noted(lsf_names.CONF)
    | _names(
        "LSF_LIBDIR LSF_MANDIR LSF_INCLUDEDIR LSF_MISC LSF_VERSION LSF_TOP LSF_INDEP LSF_MACHDEP XLSF_APPDIR", _OWN
    )
    | _names("XLSF_UIDDIR LSF_DEFAULT_INSTALL LSF_LINK_PATH LSF_QUIET_INST LSF_GET_CONF LSF_LIVE_CONFDIR", _OWN)
    | _names("LSB_MODE LSF_LOGFILE_OWNER LSF_LIM_API_NTRIES", _OWN)
    | _names("EGO_WORKDIR LSF_EGO_ENVDIR EGO_LOCAL_CONFDIR EGO_LIM_PORT EGO_RSH EGO_DYNAMIC_HOST_WAIT_TIME", _NO_EGO)
    | _names("LSB_CMD_LOG_MASK LSF_CMD_LOG_MASK", "commands write no log")
    | _names("LSF_LOG_MASK_LIM LSF_LOG_MASK_RES", "one agent is LIM, RES and sbatchd: LSB_LOG_MASK_SBD")
    | _names("LSB_LOG_MASK_SCH", "the scheduler is in the master: LSB_LOG_MASK_MBD")
    | _names("LSF_DEBUG_LIM LSF_DEBUG_RES LSF_DEBUG_CMD LSF_DEBUG_PROXYD LSF_NIOS_DEBUG", _LOGS)
    | _names("LSB_DEBUG_MBD LSB_DEBUG_SBD LSB_DEBUG_SCH LSB_DEBUG_CMD LSB_DEBUG_GPD", _LOGS)
    | _names("LSF_TIME_LIM LSF_TIME_RES LSF_TIME_CMD EGO_LOG_MASK", _LOGS)
    | _names("LSB_TIME_MBD LSB_TIME_SBD LSB_TIME_SCH LSB_TIME_CMD LSB_TIME_GPD", _LOGS)
    | _names("LSB_PROFILE_MBD LSB_PROFILE_SCH", _LOGS)
    | _names("LSF_ENABLE_PERF_METRICS_LOG LSB_ENABLE_PERF_METRICS_LOG", _METRICS)
    | _names("LSF_PERF_METRICS_LOGDIR LSB_PERF_METRICS_LOGDIR", _METRICS)
    | _names("LSF_PERF_METRICS_SAMPLE_PERIOD LSB_PERF_METRICS_SAMPLE_PERIOD", _METRICS)
    | _names("LSF_HOST_CACHE_PTTL LSF_HOST_CACHE_NTTL LSF_HOST_CACHE_DISABLE", "names of hosts are kept by the system")
    | _names("LSF_CALL_LIM_WITH_TCP LSF_ANNOUNCE_MASTER_TCP_WAITTIME", "there is no LIM; all goes over TCP")
    | _names(
        "LSB_API_CONNTIMEOUT LSB_API_RECVTIMEOUT LSF_API_CONNTIMEOUT LSF_API_RECVTIMEOUT", "use GSCHED_COMMAND_WAIT"
    )
    | _names("LSF_PIM_SLEEPTIME LSF_PIM_SLEEPTIME_UPDATE LSF_PIM_INFODIR LSF_PIM_LINUX_ENHANCE", "there is no PIM")
    | _names("LSF_RES_ACCT LSF_RES_ACCTDIR LSF_RES_TIMEOUT LSF_RES_CLIENT_TIMEOUT", _NO_RES)
    | {
        "LSB_GPU_NEW_SYNTAX": "-gpu and the older ngpus_* resources are both understood",
        "LSF_BINDIR": "commands are found by PATH",
        "LSF_LIM_PORT": "there is no LIM",
        "LSF_RES_PORT": _NO_RES,
        "LSB_SBD_PORT": "there is no sbatchd; agents call the master",
        "LSB_QUERY_PORT": "one port serves all",
        "LSB_QUERY_ENH": "queries do not wait for each other",
        "LSF_ENABLE_EXTSCHEDULER": "gsub refuses -extsched",
        "LSF_LICENSE_FILE": "no licence is needed",
        "LSF_ENTITLEMENT_FILE": "no licence is needed",
        "LSF_AUTH": "who asks is known by the kernel, by certificates or by munge",
        "LSF_EAUTH_KEY": "who asks is known by the kernel, by certificates or by munge",
        "LSF_SERVER_HOSTS": "commands know the master's host",
        "LSF_STRICT_CHECKING": "messages are always checked",
        "LSB_SHORT_HOSTLIST": "hosts of a job are always listed in the short form",
        "LSF_HOST_MAX_GPU": "any number of GPUs is seen",
    }
)

_OFF, _ON = frozenset({"n", "no", "0"}), frozenset({"y", "yes", "1"})

_GPUS_ARE_DEVICES = (_ON, "GPUs are counted as devices, not by load indices")
_NOT_BOUND = (_OFF | {"none"}, "jobs are bound to CPUs that ask for it, by affinity[...] in -R")
_NO_CREDENTIALS = (_OFF, "jobs get no credentials")
_KEEPS_PLACE = (_OFF, "a requeued job keeps its place")
_RESERVES_ASKED = (_OFF, "what a job asks for is reserved, and nothing else")

_FRESH = (_ON, "queries always see what is committed")

AS_HERE_CONF: dict[str, tuple[frozenset[str], str]] = {
    "LSB_NEWJOB_REFRESH": _FRESH,
    "LSB_SHORT_HOSTLIST": (frozenset({"1"}), "hosts of a job are always listed in the short form"),
    "LSB_GPU_NEW_SYNTAX": (frozenset({"extend"}), "-gpu and the older ngpus_* resources are both understood"),
    "LSF_STRICT_CHECKING": (_ON, "messages are always checked"),
    "LSF_ENABLE_TMP_UNIT": (_ON, "sizes in tmp always take units"),
    "LSF_ENABLE_EGO": (_OFF, _NO_EGO),
    "LSF_EGO_DAEMON_CONTROL": (_OFF, _NO_EGO),
    "LSF_ROOT_REX": (_OFF, "that is so"),
    "LSF_DAEMONS_RUN_AS_ADMIN": (_OFF, "that is so"),
    "LSF_COLLECT_ENERGY_USAGE": (_OFF, "that is so"),
    "LSF_STRICT_RESREQ": (_ON, "requirements are always read strictly"),
    "LSF_GPU_AUTOCONFIG": (_ON, "agents always look for GPUs by themselves"),
    "LSF_PROCESS_TRACKING": (_ON, "processes of jobs are always followed"),
    "LSF_LINUX_CGROUP_ACCT": (_ON, "processes of jobs are always followed"),
    "EGO_DEFINE_NCPUS": (frozenset({"threads"}), "that is so"),
    "LSB_SUBK_SHOW_EXEC_HOST": (_ON, "that is so"),
    "LSB_SUBK_SHOW_JOBID": (_ON, "that is so"),
    "LSF_INTERACTIVE_STDERR": (_ON, "gsub -I shows output and errors apart"),
    "LSB_SUB_COMMANDNAME": (_ON, "an esub always gets LSB_SUB_COMMAND_LINE and LSB_SUB_COMMANDNAME"),
    "LSB_MEMLIMIT_ENFORCE": (_ON, "a job over its memory limit is always ended"),
    "LSF_ENV_OVERRIDE": (_ON, "what the environment sets always comes before lsf.conf"),
    "LSB_JOB_MEMLIMIT": (_ON, "the memory limit is always that of the whole job"),
    "LSB_JOB_CPULIMIT": (_ON, "the CPU limit is always that of the whole job"),
    "LSB_ENABLE_HPC_ALLOCATION": (_ON, "tasks and slots are always shown apart"),
    "LSB_MOD_ALL_JOBS": (_ON, "what can be changed of a job while it runs, gmod changes"),
    "LSB_DISABLE_LIMLOCK_EXCL": (_ON, "a host of an exclusive job takes no other, and is not locked"),
    "LSB_LIMLOCK_EXCLUSIVE": (_OFF, "a host of an exclusive job takes no other, and is not locked"),
    "LSB_JOB_SWAP_LIMIT": (_ON, "-v is always the limit of the whole job"),
    "LSB_DISABLE_RERUN_POST_EXEC": (_OFF, "a post-execution command runs after each run of a job"),
    "LSB_DJOB_DISABLE_STDOUT_BUFFER": (_ON, "what tasks print is not kept back"),
    "LSB_MIXED_CASE_ENABLE": (_ON, "names are as they are written"),
    "LSB_SIGSTOP": (frozenset({"sigstop", "stop", "19"}), "jobs are stopped by SIGSTOP, or frozen"),
    "LSF_GPU_RESOURCE_IGNORE": _GPUS_ARE_DEVICES,
    "LSF_BIND_JOB": _NOT_BOUND,
    "LSF_DJOB_TASK_BIND": _NOT_BOUND,
    "LSF_MANAGE_FREQUENCY": (_OFF, "frequencies are left to the system"),
    "LSF_MANAGE_MIG": (_OFF, "parts of a GPU (MIG) are used as the driver shows them"),
    "LSB_START_MPS": (_OFF, "jobs get MPS that ask for it"),
    "LSB_POSTEXEC_SEND_MAIL": (_OFF, "no mail is sent of post-execution commands"),
    "LSB_KRB_TGT_FWD": _NO_CREDENTIALS,
    "LSB_AFS_JOB_SUPPORT": _NO_CREDENTIALS,
    "LSB_PLAN_KEEP_RESERVE": (_OFF, "RESERVATION says how starts are planned"),
    "LSB_PTILE_PACK": (_OFF, "span[ptile=SLOTS] is an exact number"),
    "LSB_REQUEUE_HOLD": (_OFF, "a job that is requeued waits, unless grequeue -H holds it"),
    "LSB_REQUEUE_TO_BOTTOM": _KEEPS_PLACE,
    "LSB_USER_REQUEUE_TO_BOTTOM": _KEEPS_PLACE,
    "RESOURCE_RESERVE_WITHOUT_RUSAGE": _RESERVES_ASKED,
    "LSF_HPC_EXTENSIONS": (
        frozenset({"cumulative_rusage", "lsb_hclose_by_res", "short_eventfile", "short_pidlist"}),
        "usage is counted over all processes, and events are kept in a database",
    ),
}
"""Parameters that do nothing where each word of their value is one of these: what they ask for is so. Other values are
refused."""

_BY_LEASE = "whoever waits to lead takes over when the lease of 6 seconds in the database is over"

REFUSED_CLUSTER: dict[str, str] = _of_lsf(lsf_names.CLUSTER) | {
    "LSF_HOST_ADDR_RANGE": "hosts are listed in the Host section",
}

WITHOUT_EFFECT_CLUSTER: dict[str, str] = lsf_topics.noted(lsf_names.CLUSTER) | {
    "ELIM_POLL_INTERVAL": "what an elim writes is read as it comes",
    "ADJUST_DURATION": "what jobs hold is counted exactly",
    "PRODUCTS": "no licence is needed",
    "HOST_INACTIVITY_LIMIT": "GSCHED_HOST_LOST in lsf.conf says after how many seconds a host is lost",
    "MASTER_INACTIVITY_LIMIT": _BY_LEASE,
    "RETRY_LIMIT": _BY_LEASE,
    "PROBE_TIMEOUT": _BY_LEASE,
}

REFUSED_PARAMS: dict[str, str] = _of_lsf(lsf_names.PARAMS) | {
    "ABS_RUNLIMIT": "run limits are never scaled by the speed of hosts",
    "NEW_JOB_SCHED_DELAY": "it is a parameter of queues",
    "SECURE_JOB_INFO_LEVEL": "what gjobs shows is shown to everybody",
    "SECURE_INFODIR_USER_ACCESS": "nobody reads the master's files; ghist and gacct show everybody's jobs",
}

WITHOUT_EFFECT_PARAMS: dict[str, str] = lsf_topics.noted(lsf_names.PARAMS) | {
    "JOB_SCHEDULING_INTERVAL": "a scheduling cycle starts when something happened",
    "MAX_JOB_NUM": "events are kept in a database, not in files that are switched",
    "PEND_REASON_UPDATE_INTERVAL": "pending reasons are always up to date",
    "NEWJOB_REFRESH": "queries always see what is committed",
    "MBD_REFRESH_TIME": "queries always see what is committed",
    "MAX_SBD_FAIL": "GSCHED_HOST_LOST in lsf.conf says after how many seconds a host is lost",
    "MAX_CONCURRENT_QUERY": "each user has a share of the master (GSCHED_MAX_REQUESTS_PER_S)",
    "MAX_CONCURRENT_JOB_QUERY": "each user has a share of the master (GSCHED_MAX_REQUESTS_PER_S)",
    "MBD_QUERY_CPUS": "the kernel chooses processors for the master",
    "MAX_INFO_DIRS": "scripts of jobs are kept in a database",
    "MIN_SWITCH_PERIOD": "events are kept in a database, not in files that are switched",
    "ACCT_ARCHIVE_AGE": "gacct reads a database; gadmin history archive takes finished months out of it",
    "ACCT_ARCHIVE_SIZE": "gacct reads a database; gadmin history archive takes finished months out of it",
    "ACCT_ARCHIVE_TIME": "gacct reads a database; gadmin history archive takes finished months out of it",
    "MAX_ACCT_ARCHIVE_FILE": "gacct reads a database; gadmin history archive takes finished months out of it",
    "JOB_INFO_MEMORY_CACHE_SIZE": "scripts of jobs are kept in a database",
    "JOB_INFO_EVENT_DUMP_INTERVAL": "scripts of jobs are kept in a database",
    "JOB_INFO_PACK_SIZE": "answers are sent in pieces",
    "MIN_REFRESH_TIME": "queries always see what is committed",
    "MAX_SBD_CONNS": "each agent has one connection",
    "SCHED_METRIC_ENABLE": _METRICS,
    "SCHED_METRIC_SAMPLE_PERIOD": _METRICS,
    "SCHEDULER_THREADS": "the kernel chooses processors for the master",
    "EVENT_UPDATE_INTERVAL": "events are kept in one place",
    "LOG_EVENT_LOCALLY": "events are kept in one place",
}

_POSTPROC = (_ON, "a job has ended when its post-execution commands have")

_NEVER_REMOVED = (frozenset({"2147483647"}), "folders of jobs are never removed")

_PLANS = (_OFF, "RESERVATION says how starts are planned")
_AT_ONCE = (frozenset({"0"}), "a job preempts as soon as it can start by that")
_FAIRSHARE_AS_IT_IS: dict[str, tuple[frozenset[str], str]] = {
    "RUN_TIME_DECAY": (_OFF, "the time that a job has run so far counts whole"),
    "FAIRSHARE_ADJUSTMENT_FACTOR": (frozenset({"0", "0.0"}), "it counts for nothing"),
}
_OF_JOBS: dict[str, tuple[frozenset[str], str]] = {
    "MEMLIMIT_TYPE": (frozenset({"job"}), "the memory limit is always that of the whole job"),
    "USE_PAM_CREDS": _NO_CREDENTIALS,
    "DATA_TRANSFER": (_OFF, "there is no data manager"),
    "STEP_CGROUP": (_OFF, "all processes of a job are in one control group"),
    "PLAN": _PLANS,
    "PREEMPT_DELAY": _AT_ONCE,
}
"""In lsb.queues and lsb.applications."""

AS_HERE_PARAMS: dict[str, tuple[frozenset[str], str]] = {
    "NEWJOB_REFRESH": _FRESH,
    "JOB_INCLUDE_POSTPROC": _POSTPROC,
    "JOB_CWD_TTL": _NEVER_REMOVED,
    "ABS_RUNLIMIT": (_ON, "run limits are never scaled by the speed of hosts"),
    "ENABLE_EVENT_STREAM": (_OFF, "that is so"),
    "CONDENSE_PENDING_REASONS": (_OFF, "that is so"),
    "PARALLEL_SCHED_BY_SLOT": (_ON, "MXJ in lsb.hosts says how many slots a host has"),
    "ALLOCATION_PLANNER": _PLANS,
    "PLAN": _PLANS,
    "BSWITCH_MODIFY_RUSAGE": (_OFF, "gswitch of a running job keeps what it holds"),
    "SECURE_JOB_INFO_LEVEL": (frozenset({"0"}), "what gjobs shows is shown to everybody"),
    "SECURE_INFODIR_USER_ACCESS": (_OFF, "ghist and gacct show everybody's jobs"),
    "GPU_RESOURCE_IGNORE": _GPUS_ARE_DEVICES,
    "JOB_STOP_SUSPEND_RES": (_OFF, "a job that gstop has suspended keeps what it holds"),
    "MULTICORE_BIND": _NOT_BOUND,
    "PREEMPT_DELAY": _AT_ONCE,
    "RESOURCE_RESERVE_WITHOUT_RUSAGE": _RESERVES_ASKED,
    "TASK_MEMLIMIT": (_OFF, "the memory limit is always that of the whole job"),
    "USER_ADVANCE_RESERVATION": (
        _OFF,
        "whom ResourceReservation of lsb.resources names makes advance reservations",
    ),
    **_FAIRSHARE_AS_IT_IS,
}

REFUSED_QUEUE: dict[str, str] = _of_lsf(lsf_names.QUEUE)

WITHOUT_EFFECT_QUEUE: dict[str, str] = lsf_topics.noted(lsf_names.QUEUE)

AS_HERE_QUEUE: dict[str, tuple[frozenset[str], str]] = {
    "IGNORE_DEADLINE": (_ON, "a job starts while the run window is open, however long it runs"),
    "RC_HOSTS": (frozenset({"none"}), "there is no resource connector"),
    "USE_PRIORITY_IN_POOL": (_OFF, "there are no pools of slots"),
    **_FAIRSHARE_AS_IT_IS,
    **_OF_JOBS,
}

WITHOUT_EFFECT_APPLICATION: dict[str, str] = lsf_topics.noted(lsf_names.APPLICATION)

REFUSED_APPLICATION: dict[str, str] = _of_lsf(lsf_names.APPLICATION) | {
    "ABS_RUNLIMIT": "run limits are never scaled by the speed of hosts"
}

AS_HERE_APPLICATION: dict[str, tuple[frozenset[str], str]] = {
    "ABS_RUNLIMIT": AS_HERE_PARAMS["ABS_RUNLIMIT"],
    "JOB_CWD_TTL": _NEVER_REMOVED,
    "JOB_INCLUDE_POSTPROC": _POSTPROC,
    "BIND_JOB": _NOT_BOUND,
    "DJOB_DISABLED": (_OFF, "glaunch starts tasks"),
    **_OF_JOBS,
}

REFUSED_LIMIT: dict[str, str] = {
    "LIC_PROJECTS": "there is no licence scheduler",
    "PER_LIC_PROJECT": "there is no licence scheduler",
    "INELIGIBLE": "a job that a limit holds back is looked at in each cycle, with all that are alike",
    "SLOTS_PER_HOST": "use SLOTS with PER_HOST",
    "JOBS_PER_SCHED_CYCLE": "a cycle looks at jobs that are alike once, however many there are",
    "ELIGIBLE_PEND_JOBS": "a cycle looks at jobs that are alike once, however many there are",
    "LICENSE": "use RESOURCE = [NAME, AMOUNT]",
}

_NO_GOALS = "it belongs to goals of time (DEADLINE, VELOCITY, THROUGHPUT)"

REFUSED_SERVICE_CLASS: dict[str, str] = {
    "EGO_RES_REQ": "there is no EGO; RES_SELECT of a guaranteed pool chooses hosts",
    "CONTROL_ACTION": _NO_GOALS,
    "ADMINS": "administrators of the cluster and of queues control jobs",
}

WITHOUT_EFFECT_POOL: dict[str, str] = {
    "ADMINISTRATORS": "it says who may change the pool by bconf, which gsched does not have",
}

WITHOUT_EFFECT_SERVICE_CLASS: dict[str, str] = {
    "PRIORITY": f"{_NO_GOALS}; the priority of queues says who comes first",
    "CONSUMER": _NO_EGO,
    "MAX_HOST_IDLE_TIME": _NO_EGO,
}
