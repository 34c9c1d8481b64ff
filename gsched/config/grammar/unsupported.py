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
        "LSF_TMPDIR": "jobs find their own TMPDIR",
    }
)

_OFF, _ON = frozenset({"n", "no", "0"}), frozenset({"y", "yes", "1"})

AS_HERE_CONF: dict[str, tuple[frozenset[str], str]] = {
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
    "LSF_HPC_EXTENSIONS": (
        frozenset({"cumulative_rusage", "lsb_hclose_by_res", "short_eventfile", "short_pidlist"}),
        "usage is counted over all processes, and events are kept in a database",
    ),
}
"""Parameters that do nothing where each word of their value is one of these: what they ask for is so. Other values are
refused."""

_NO_FAILOVER = "whoever waits to lead takes over when the lease of 6 seconds in the database is over"

REFUSED_CLUSTER: dict[str, str] = _of_lsf(lsf_names.CLUSTER) | {
    "ELIMARGS": "elims are started without arguments",
    "HOST_INACTIVITY_LIMIT": "GSCHED_HOST_LOST in lsf.conf says after how many seconds a host is lost",
    "MASTER_INACTIVITY_LIMIT": _NO_FAILOVER,
    "RETRY_LIMIT": _NO_FAILOVER,
    "PROBE_TIMEOUT": _NO_FAILOVER,
    "LSF_HOST_ADDR_RANGE": "hosts are listed in the Host section",
}

WITHOUT_EFFECT_CLUSTER: dict[str, str] = lsf_topics.noted(lsf_names.CLUSTER) | {
    "ELIM_POLL_INTERVAL": "what an elim writes is read as it comes",
    "ADJUST_DURATION": "what jobs hold is counted exactly",
    "PRODUCTS": "no licence is needed",
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
    "ACCT_ARCHIVE_AGE": "gacct reads a database, which is not archived",
    "ACCT_ARCHIVE_SIZE": "gacct reads a database, which is not archived",
    "ACCT_ARCHIVE_TIME": "gacct reads a database, which is not archived",
    "MAX_ACCT_ARCHIVE_FILE": "gacct reads a database, which is not archived",
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

_NOT_RESIZED = (_OFF, "jobs keep the slots that they were given")

AS_HERE_PARAMS: dict[str, tuple[frozenset[str], str]] = {
    "JOB_INCLUDE_POSTPROC": _POSTPROC,
    "JOB_CWD_TTL": _NEVER_REMOVED,
    "RESIZABLE_JOBS": _NOT_RESIZED,
    "ABS_RUNLIMIT": (_ON, "run limits are never scaled by the speed of hosts"),
    "ENABLE_EVENT_STREAM": (_OFF, "that is so"),
    "CONDENSE_PENDING_REASONS": (_OFF, "that is so"),
    "PARALLEL_SCHED_BY_SLOT": (_ON, "MXJ in lsb.hosts says how many slots a host has"),
}

REFUSED_QUEUE: dict[str, str] = _of_lsf(lsf_names.QUEUE)

WITHOUT_EFFECT_QUEUE: dict[str, str] = lsf_topics.noted(lsf_names.QUEUE)

AS_HERE_QUEUE: dict[str, tuple[frozenset[str], str]] = {
    "RESIZABLE_JOBS": _NOT_RESIZED,
    "IGNORE_DEADLINE": (_ON, "a job starts while the run window is open, however long it runs"),
}

WITHOUT_EFFECT_APPLICATION: dict[str, str] = lsf_topics.noted(lsf_names.APPLICATION)

REFUSED_APPLICATION: dict[str, str] = _of_lsf(lsf_names.APPLICATION) | {
    "ABS_RUNLIMIT": "run limits are never scaled by the speed of hosts"
}

AS_HERE_APPLICATION: dict[str, tuple[frozenset[str], str]] = {
    "ABS_RUNLIMIT": AS_HERE_PARAMS["ABS_RUNLIMIT"],
    "JOB_CWD_TTL": _NEVER_REMOVED,
    "RESIZABLE_JOBS": _NOT_RESIZED,
    "JOB_INCLUDE_POSTPROC": _POSTPROC,
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
