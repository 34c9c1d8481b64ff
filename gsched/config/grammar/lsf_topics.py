"""Why parameters of LSF mean nothing here, by topic: the ones that belong to a part of LSF that gsched does not have.

`NOTED` harms nobody: it tunes a part that is not there, or says how it already is. `REFUSED` asks for something that
would not happen. gsched.config.grammar.unsupported joins them with what it says of single names; a name here must be
one of gsched.config.grammar.lsf_names. A pattern ends in `*`; it must never catch what is said elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NOTED: dict[str, str] = {
    "EGO_*": "there is no EGO",
    "MBD_EGO_* MBD_USE_EGO_MXJ EGO_SLOTBASED_VELOCITY_SLA ENABLE_DEFAULT_EGO_SLA": "there is no EGO",
    "DEFAULT_SLA_VELOCITY SLA_TIMER": "service classes have no goals of time",
    "SIMPLIFIED_GUARANTEE GUARANTEE_POOL_POLICY": "what is guaranteed is counted over all hosts of a pool",
    "LSB_GSLA_*": "what is guaranteed is counted over all hosts of a pool",
    "LSB_RC_* LSF_MQ_BROKER_HOSTS MQTT_BROKER_* LSB_START_EBROKERD": "there is no resource connector",
    "DEFAULT_RC_ACCOUNT_PER_PROJECT RC_ACCOUNT": "there is no resource connector",
    "LSB_DATA_* LSF_DATA_*": "there is no data manager",
    "LSF_LIC_SCHED_* LSB_STOP_ASKING_LICENSES_TO_LS LSF_MONITOR_LICENSE_TOOL": "there is no licence scheduler",
    "LSF_LICENSE_*": "no licence is needed",
    "LSB_DEBUG_NQS LSB_MAX_NQS_QUEUES LSB_NQS_PORT NQS_*": "there is no NQS",
    "LSB_KRB_* LSF_AFS_CELLNAME LSB_AFS_*": "tickets of Kerberos and tokens of AFS are left to the system",
    "LSF_PROXYD_* PROXYD_POLICIES": "each user has a share of the master (GSCHED_MAX_REQUESTS_PER_S)",
    "SSCHED_*": "there is no session scheduler; an array of short jobs does the same",
    "ESTIMATOR_* LSB_ENABLE_ESTIMATION": "the scheduling cycle itself plans when jobs start; gjobs -l shows it",
    "LSB_FUJITSU_* LSF_FUJITSU_*": "it concerns hosts with Fujitsu's Tofu network",
    "LSB_CPUSET_* LSF_CPUSETLIB LSB_PSET_BIND_DEFAULT LSB_RMS* LSF_ENABLE_DUALCORE": "it concerns hosts of long ago",
    "LSF_LIM_SOL27_PLUGLIB LSF_ULDB_DOMAIN LSF_MSH LSF_BMPLUGIN": "it concerns hosts of long ago",
    "LSB_SLURM_BESTFIT LSF_SLURM_* LSF_ASPLUGIN LSF_VPLUGIN LSF_ADDON_HOSTS": "it concerns hosts of long ago",
    "LSF_PAM_* LSF_AM_OPTIONS LSF_POE_* LSF_PE_* LSF_MVAPICH_OPTIONS": "MPI's own launchers start the processes",
    "LSF_HPC_* NOREEXEC_PAM_FIXED STRIPING_WITH_MINIMUM_NETWORK": "MPI's own launchers start the processes",
    "LSF_LOGDIR_USE_WIN_REG LSF_LOG_MASK_WIN LSF_WINDOWS_HOST_TYPES": "there are no hosts with Windows",
    "LSF_USER_DOMAIN LSB_QUEUE_TO_DOMAIN LSF_LOAD_USER_PROFILE LSF_PASSWD_DIR": "there are no hosts with Windows",
    "LSF_SHIFT_JIS_INPUT LSB_TSJOBS_*": "there are no hosts with Windows",
    "LSB_MC_* LSF_MC_* MC_* LSB_MAX_FORWARD_PER_SESSION FWD_*": "there is one cluster",
    "LSB_BMGROUP_ALLREMOTE_EXPAND REMOTE_MAX_PREEXEC_RETRY": "there is one cluster",
    "IMPT_* GLOBAL_LIMITS": "there is one cluster",
    "POWER_*": "hosts are not switched off to save power",
    "LSB_GPU_POWEROFF_DURATION LSB_GPU_AUTOBOOST": "the state of GPUs' power is left to the driver",
    "LSF_LIM_DEBUG LSF_RES_DEBUG LSB_TIME_DMD LSB_DEBUG LSF_CRASH_LOG": "LSF_LOG_MASK says how much is logged",
    "LSB_CMD_LOGDIR LSF_CMD_LOGDIR LSF_NIOS_ERR_LOGDIR LSF_DISPATCHER_LOGDIR DIAGNOSE_LOGDIR": "logs are in LSF_LOGDIR",
    "LSF_RES_* LSF_SEND_CONFINFO_TCP_THRESHOLD LSF_BROADCAST_ENABLE": (
        "there are neither LIM nor RES; all goes over TCP"
    ),
    "LSF_CONF_RETRY_* LSF_MASTER_NSLOOKUP_TIMEOUT LSF_MAX_TRY_ADD_HOST": "there is no LIM",
    "LSF_LIM_IGNORE_CHECKSUM LSB_SYNC_HOST_STAT_* LSB_LOAD_TO_SERVER_HOSTS": "there is no LIM",
    "LSF_REPLACE_PIM_WITH_LINUX_CGROUP LSF_SWITCH_LINUX_CGROUP": "there is no PIM; processes are always followed",
    "LSF_NIOS_*": "the terminal of an interactive job goes through the daemons",
    "LSB_MAX_PROBE_SBD LSB_FANOUT_TIMEOUT_PER_LAYER LSB_NO_FORK LSF_UDP_PORT_RANGE": "each agent has one connection",
    "LSF_ACCEPT_* LSB_NUM_NIOS_CALLBACK_THREADS LSB_FORK_JOB_REQUEST": "each agent has one connection",
    "DAEMON_CORES DAEMON_SHUTDOWN_DELAY LSF_DAEMONS_CPUS LSF_DAEMON_WRAP": "daemons are left to the system's services",
    "PLANNER_CPUS SCH_PREFILTER_THRESHOLD LSB_IMPROVED_DISPATCH LSB_SKIP_FULL_HOSTS": (
        "jobs that are alike are matched once"
    ),
    "LSB_HJOB_PER_SESSION SCHED_PER_JOB_SORT": "jobs that are alike are matched once",
    "LSB_NEWJOB_REFRESH MAX_JOBINFO_QUERY_PERIOD LSB_BLOCK_JOBINFO_TIMEOUT": "queries always see what is committed",
    "LSF_HIERARCHICAL_QUERY LSF_QUERY_ES_* LSB_MBD_MAX_SIG_COUNT": "queries always see what is committed",
    "CONCURRENT_QUERY LSF_ALLOW_MAX_BSLA": "each user has a share of the master (GSCHED_MAX_REQUESTS_PER_S)",
    "LSB_EVENTS_FILE_KEEP_OPEN LSB_SWITCH_GROUP LSB_LOCALDIR LSB_JOBINFO_DIR": "events are kept in a database",
    "JOB_SWITCH2_EVENT RUNTIME_LOG_INTERVAL LSF_DISCARD_LOG LSB_INDEX_BY_JOB": "events are kept in a database",
    "EVENT_STREAM_* ALLOW_EVENT_TYPE MAX_EVENT_STREAM_* STREAM_MAX_SUSPEND": (
        "there is no event stream; see gadmin metrics"
    ),
    "EVENT_LIST LSF_EVENT_* LSF_ENABLE_BEAT_SERVICE": "there is no event stream; see gadmin metrics",
    "PEND_REASON_MAX_JOBS INCLUDE_DETAIL_REASONS LIMIT_REASONS TRACK_ELIGIBLE_PENDINFO": (
        "every pending job has its reasons"
    ),
    "LSB_SUPPRESS_* ORDER_RES_REQ_DISPLAY GROUP_PEND_JOBS_BY BJOBS_RES_REQ_DISPLAY": (
        "every pending job has its reasons"
    ),
    "ENABLE_DIAGNOSE PERFORMANCE_THRESHOLD_FILE": "gadmin metrics shows what the master counts and times",
    "LSB_ECHKPNT_* LSB_MIG2PEND": "a job saves its state itself, by a signal of its choice: gsub --signal",
    "LSB_DYNAMIC_HOST_TIMEOUT LSF_DHCP_ENV FLOAT_CLIENTS*": "hosts are listed in the Host section of lsf.cluster",
    "LSF_EAUTH_* LSB_EAUTH_* LSF_AUTH_* LSF_USE_HOSTEQUIV": (
        "who asks is known by the kernel, by certificates or by munge"
    ),
    "LSF_ID_PORT LSF_NON_PRIVILEGED_PORTS NON_PRIVILEGED_PORTS": (
        "who asks is known by the kernel, by certificates or by munge"
    ),
    "LSF_EXT_SERVERDIR LSF_SECUREDIR LSF_LD_PRELOAD_PRESERVE LSF_CURL_LIB_PATH": "gsched starts its own programs alone",
    "LSF_LD_SECURITY LSF_DOCKER_CONTAINER_WRAP_LIB LSF_PRIVILEGED_CONTAINERS": "gsched starts its own programs alone",
    "LSF_PLATFORM_COMPUTERS LSF_XL_INTERVAL LSF_INVOKE_CMD LSB_ACL": "the part of LSF that reads it is not there",
    "LSF_TOPD_*": "the topology of hosts is read by each agent",
    "LSF_HWLOC_DYNAMIC LSF_INTELLIGENT_CPU_BIND": "the topology of hosts is read by each agent",
    "LSF_DCGM_PORT LSF_SMARTGPU LSF_GPU_HARDWARE_CHANGE": "agents ask the driver for GPUs themselves",
    "LSB_GPD_*": "there is no GPD; certificates are files",
    "LSB_RLA_* CSM_VALID_SMT": "there is no adapter for such machines",
    "LSF_ENABLE_CSA LSF_CSA_TRACKING LSB_UTMP": "accounting of the system is left to the system",
    "LSB_MBD_BUSY_MSG LSB_MBD_CONNECT_FAIL_MSG LSB_MBD_DOWN_MSG LSB_SBD_CONNECT_FAIL_MSG": (
        "commands say so in words of their own"
    ),
    "LSB_API_VERBOSE LSB_BSUB_ERR_RETRY LSB_BWAIT_REREG_INTERVAL": "commands wait for a master that is away",
    "MAX_PROTOCOL_INSTANCES NETWORK_REQ": "networks of IBM's Parallel Environment are not allocated",
    "LSF_UGROUP_TRANSFER LSB_UNIXGROUP_INT LSF_UNIXGROUP_INT": "groups of users are asked from the system on each host",
    "BCONF_DUPLICATE_UNIX_UG PERSIST_LIVE_CONFIG": "there is no bconf; the files say what holds",
    "LSB_SHORT_HOSTLIST_DISPLAY LSB_JOBID_DISP_LENGTH LSB_UGNAME_MAXLEN": "columns are as wide as what they show",
    "LSF_STRIP_DOMAIN LSF_DUALSTACK_PREFER_IPV6 LS_DUALSTACK_PREFER_IPV6": "names of hosts are kept by the system",
    "LSF_ENABLE_SUPPORT_IPV6 LSF_HOST_CACHE_ADDRESS": "names of hosts are kept by the system",
    "CHUNK_JOB_SIZE CHUNK_JOB_DURATION LSB_CHUNK_RUSAGE": "chunks are not needed: a job starts within milliseconds",
    "MAX_SBD_CONNS LSB_RMSACCT_DELAY LSB_DISPATCH_CREDENTIALS": "each agent has one connection",
    "EVALUATE_JOB_DEPENDENCY EVALUATE_JOB_DEPENDENCY_TIMEOUT": (
        "a dependency is judged when a job that it names changes"
    ),
    "EVALUATE_WAIT_CONDITION_TIMEOUT LSB_BWAIT_IN_JOBS": "a condition is judged when a job that it names changes",
    "FAIRSHARE_SCHED_CYCLE RELAX_JOB_DISPATCH_ORDER": "jobs that are alike are matched once",
    "EADMIN_TRIGGER_DURATION EXTEND_JOB_EXCEPTION_NOTIFY": "gjobs -x shows exceptions; there is no eadmin",
    "JOB_ATTA_DIR": "files that gpost attaches are kept in the database",
    "DISPATCH_BY_QUEUE": "commands are answered during a scheduling cycle anyway",
    "MAX_RSCHED_TIME": "there is one cluster",
    "ACCT_ARCHIVE_SIZE": "gacct reads a database; gadmin history archive takes finished months out of it",
    "LSB_BENABLE_HOSTGROUPS LSB_BJOBS_DISPLAY_ENH LSB_AC_MONITOR_TIMEOUT": "the part of LSF that reads it is not there",
    "LSB_OUTPUT_FORMAT_DECODE LSB_MAX_PACK_JOBS LSB_PACK_MESUB": (
        "gsub -pack takes files of any length, each line with its esubs"
    ),
    "LSB_BPEEK_METHOD LSB_BPEEK_REMOTE_OUTPUT LSB_BPEEK_WAIT_TIME": "gpeek reads the output through the daemons",
    "LSB_CRDIR": "there is no program chkpnt",
    "LSB_INTERACT_MSG_*": "an interactive gsub always says what it waits for",
    "LSB_DISPATCH_CHECK_RESUME_INTVL": "whether a suspended job goes on is judged when something changes",
    "LSB_SUBK_WAITTIME": "gsub -K is told when its job ends",
    "LSF_CMD_MAX_HOST": "commands ask for any number of hosts",
    "LSF_ENABLE_TMP_UNIT": "sizes in tmp always take units",
    "LSF_ACL": "the part of LSF that reads it is not there",
    "MBD_QUERY_CPUS": "the kernel chooses processors for the master",
    "LSF_DJOB_TASK_REG_WAIT_TIME DJOB_TASK_REG_WAIT_TIME": "the agents themselves start tasks and know of them",
    "DJOB_HB_INTERVAL": "the agents themselves start tasks and know of them",
    "ELIM_ABORT_VALUE": "an elim that ends is started again, and its values are unknown until then",
    "PEND_TIME_LIMIT ELIGIBLE_PEND_TIME_LIMIT ELIGIBLE_PENDING_TIME_LIMIT EPTL": (
        "LSF too ends no job for it and only passes it on to RTM; gsub -t ends a job at a time"
    ),
    "SUB_TRY_INTERVAL": "commands wait for a master that is away",
    "LSF_EXTERNAL_FILES": "the part of LSF that reads it is not there",
    "DISABLE_UACCT_MAP": "there is no mapping of users' names",
    "DEFAULT_HOST_SPEC": "times are not scaled by the speed of hosts",
    "JOB_SPOOL_DIR": "what is copied at submission is kept in the database",
    "ATTR_*": "there is no battr; a Boolean resource in lsf.shared tells of hosts",
    "SYSTEM_MAPPING_ACCOUNT": "there are no hosts with Windows",
    "LSF_SHELL_AT_USERS": "there is no lstcsh",
    "LSB_STAGE_* LSF_STAGE_IN_EXEC": "there is no data manager; gsub -f copies files",
    "RC_DEMAND_POLICY RC_RECLAIM_ACTION": "there is no resource connector",
    "AR_*": "a reservation is for one time, and jobs end by their own limits",
    "LSB_EXCLUDE_HOST_PERIOD": "a host that is excluded for a job stays so",
    "ENABLE_JOB_INFO_BY_ADMIN_ROLE": "what gjobs shows is shown to everybody",
    "LSB_HUNG_JOB_THRESHOLD": "GPU_IDLE tells of jobs whose GPUs are idle",
}
"""Names, or patterns of them -> why ignoring them harms nobody."""

REFUSED: dict[str, str] = {
    "RC_HOSTS": "there is no resource connector",
    "LSF_DATA_HOSTS DATA_TRANSFER": "there is no data manager; gsub -f copies files",
    "LSF_LIC_SCHED_HOSTS": "there is no licence scheduler",
    "LSB_KRB_TGT_FWD USE_PAM_CREDS LSB_AFS_JOB_SUPPORT": "jobs get no credentials; munge or a key tab serve instead",
    "LSF_PROXYD_HOSTS": "each user has a share of the master (GSCHED_MAX_REQUESTS_PER_S)",
    "SNDJOBS_TO RCVJOBS_FROM FWD_USER": "there is one cluster",
    "NQS_QUEUES": "there is no NQS",
    "MIG CHKPNT CHKPNT_*": "a job saves its state itself, by a signal of its choice: gsub --signal, CHKPNT_SIGNAL",
    "MANDATORY_EXTSCHED DEFAULT_EXTSCHED LSF_DEFAULT_EXTSCHED TOPOLOGY DC_RES_REQ": "there are no external schedulers",
    "APS_PRIORITY ABSOLUTE_PRIORITY": "the order is that of queue, fairshare and -sp; see policies.md",
    "SLOT_POOL SLOT_SHARE MAX_SLOTS_IN_POOL USE_PRIORITY_IN_POOL QUEUE_GROUP": (
        "fairshare is a queue's own; one queue with user groups that hold shares does the same"
    ),
    "ALLOCATION_PLANNER PLAN LSB_PLAN_KEEP_RESERVE": "RESERVATION says how starts are planned",
    "INTERRUPTIBLE_BACKFILL": "BACKFILL = Y lets only jobs start that end before a planned start",
    "DJOB_RESIZE_GRACE_PERIOD RESIZE_NOTIFY_CMD": "no command is run when the slots of a job change; see gresize",
    "PREEMPT_FOR PREEMPT_JOBTYPE PREEMPT_DELAY PREEMPTION_WAIT_TIME MAX_TOTAL_TIME_PREEMPT": (
        "PREEMPT_ACTION, MIN_RUN_BEFORE_PREEMPT and MAX_JOB_PREEMPT of lsb.params rule preemption"
    ),
    "MAX_JOB_PREEMPT_RESET USE_SUSP_SLOTS JOB_STOP_SUSPEND_RES": (
        "PREEMPT_ACTION, MIN_RUN_BEFORE_PREEMPT and MAX_JOB_PREEMPT of lsb.params rule preemption"
    ),
    "FAIRSHARE_ADJUSTMENT_* FAIRSHARE_USER_GROUP RUN_TIME_DECAY": ("the factors of fairshare are those of policies.md"),
    "CU_REQ": "give cu[...] in RES_REQ",
    "RESOURCE_RESERVE_WITHOUT_RUSAGE": "what a job asks for is reserved, and nothing else",
    "CPUFREQUENCY CPU_FREQUENCY LSF_MANAGE_FREQUENCY LSF_DEFAULT_FREQUENCY": "frequencies are left to the system",
    "LSF_COLLECT_ENERGY_USAGE": "geff shows what GPUs used; there is no meter for hosts",
    "CSM_REQ STEP_CGROUP DOCKER_IMAGE_AFFINITY EXEC_DRIVER": "CONTAINER and --container say how containers run",
    "SECURE_INFODIR_USER_ACCESS": "nobody reads the master's files; ghist and gacct show everybody's jobs",
    "USER_ADVANCE_RESERVATION": "administrators make advance reservations (grsvadd)",
    "HOSTLIMIT_PER_JOB": "span[ptile=SLOTS] or -nnodes say how many hosts a job has",
    "LSF_LIVE_CONFDIR": "there is no bconf; the files say what holds",
    "LSF_RES_RLIMIT_UNLIM": "GSCHED_PAM_LIMITS says whose limits of the system hold",
    "EGO_DEFINE_NCPUS": "MXJ in lsb.hosts says how many slots a host has",
    "EGO_DYNAMIC_HOST_TIMEOUT LSF_DYNAMIC_HOST_*": "hosts are listed in the Host section of lsf.cluster",
    "LSF_LOCAL_RESOURCES": "RESOURCES of the Host section and ResourceMap of lsf.cluster say what resources hosts have",
    "LSF_MLS_*": "labels of SELinux are not passed on",
    "LSF_ROOT_REX": "LSF_ROOT_USER=Y lets root submit jobs",
    "LSF_BIND_JOB LSB_BIND_CPU_LIST MULTICORE_BIND BIND_JOB LSF_DJOB_TASK_BIND": (
        "AFFINITY in lsb.hosts and affinity[...] in -R bind jobs to CPUs"
    ),
    "LSF_MANAGE_MIG": "parts of a GPU (MIG) are used as the driver shows them",
    "ALTERNATIVE_GPU_REQ": "several GPU requirements in order are not taken; -R with || chooses among hosts",
    "LSF_GPU_RESOURCE_IGNORE GPU_RESOURCE_IGNORE": "GPUs are always counted as devices",
    "JOB_RUNLIMIT_RATIO": "run limits and estimates are counted apart",
    "TASK_MEMLIMIT MEMLIMIT_TYPE LSB_MEMLIMIT_ENF_CONTROL": "the memory limit is always that of the whole job",
    "LSB_JOB_SWAP_LIMIT": "-v is always the limit of the whole job",
    "REMOVE_HUNG_JOBS_FOR": "GPU_IDLE ends jobs whose GPUs are idle",
    "EXTENDABLE_RUNLIMIT": "gmod -W changes the limit of a running job",
    "LSF_HPC_EXTENSIONS LSB_ENABLE_HPC_ALLOCATION": (
        "tasks and slots are always shown apart, and usage is always summed"
    ),
    "LSB_JOB_MEMLIMIT LSB_JOB_CPULIMIT LSB_MEMLIMIT_ENFORCE": "limits are always those of the whole job, and kept",
    "LSB_ALLOC_CPU_LIST LSB_NCPU_ENFORCE": "AFFINITY in lsb.hosts and affinity[...] in -R bind jobs to CPUs",
    "BLIMITS_DEFAULT_FORMAT LSB_BJGROUP_FORMAT": "the columns of that command are fixed",
    "LSB_COREDUMP": "gsub -C and CORELIMIT say how large core files may be",
    "LSB_LIMLOCK_EXCLUSIVE LSB_DISABLE_LIMLOCK_EXCL": "a host of an exclusive job takes no other, and is not locked",
    "LSB_DISABLE_RERUN_POST_EXEC": "a post-execution command runs after each run of a job",
    "LSB_DJOB_DISABLE_STDOUT_BUFFER LSB_MULTI_STDOUT_DIRECT": "output is in its file while a job runs",
    "LSB_JOB_ARRAY_CONDENSED": "gjobs -A shows an array on one line",
    "LSB_JOB_OUTPUT_LOGGING": "gsub -o says where output goes",
    "LSB_KEEP_SYSDEF_RLIMIT LSB_PROPAGATE_JOB_PROCESSLIMIT": "GSCHED_PAM_LIMITS says whose limits of the system hold",
    "LSB_MAILSIZE_LIMIT LSB_MAIL_FROM_DOMAIN LSB_POSTEXEC_SEND_MAIL": (
        "LSB_MAILTO and LSB_MAILPROG say how mail is sent"
    ),
    "LSB_MIXED_CASE_ENABLE": "names are as they are written",
    "LSB_MOD_ALL_JOBS": "gmod says of each change whether a running job takes it",
    "LSB_PTILE_PACK": "span[ptile=SLOTS] is an exact number",
    "LSB_REQUEUE_HOLD": "grequeue -H holds a job that is requeued",
    "LSB_REQUEUE_TO_BOTTOM LSB_USER_REQUEUE_TO_BOTTOM": "a requeued job keeps its place; gbot moves it",
    "LSB_RESTRICT_MULTI_SUBMIT": "an esub can refuse a submission",
    "LSB_SACCT_ONE_UG STRICT_UG_CONTROL ENFORCE_ONE_UG_LIMITS ENFORCE_UG_TREE": "-G chooses the group a job counts for",
    "INTERSECT_INFERRED_UG DEFAULT_LIMIT_IGNORE_USER_GROUP": "-G chooses the group a job counts for",
    "LSB_SIGSTOP": "gstop freezes all processes of a job, or stops them with SIGSTOP",
    "LSB_SSH_XFORWARD_CMD": "windows of X are not passed on",
    "LSB_START_MPS": "-gpu mps=yes and GPU_REQ ask for MPS",
    "LSB_STOP_IGNORE_IT PG_SUSP_IT": "STOP_COND and thresholds say when jobs are suspended",
    "LSB_SUBK_SHOW_EXEC_HOST LSB_SUBK_SHOW_JOBID LSB_SUB_COMMANDNAME LSF_INTERACTIVE_STDERR": "that is always so",
    "LSB_TERMINATE_CONTROL_TIMEOUT": "JOB_TERMINATE_INTERVAL says how long a job has to end",
    "LSF_DAEMONS_RUN_AS_ADMIN": "agents that start jobs of several users run as root",
    "LSF_ENABLE_EGO LSF_EGO_DAEMON_CONTROL": "there is no EGO",
    "LSF_ENV_OVERRIDE": "what the environment sets always comes before lsf.conf",
    "LSF_JOB_STARTER": "JOB_STARTER of a queue or an application profile",
    "LSF_PROLOGUE": "PRE_EXEC of a queue",
    "ALLOW_SPANNING_RSRC_TYPES": "same[...] says what hosts of a job have in common",
    "BSWITCH_MODIFY_RUSAGE": "gswitch of a running job keeps what it holds",
    "CONDENSE_PENDING_REASONS": "gjobs -p0 shows one reason for each job",
    "DEFAULT_BSUB_MEMLIMIT": "MEMLIMIT of a queue gives a default",
    "DEFAULT_RESREQ_ORDER": "order[...] in RES_REQ of a queue",
    "ENABLE_EVENT_STREAM": "there is no event stream; see gadmin metrics",
    "ENABLE_GPU_MULTI_HOST_GROUP": "a host may be in several groups",
    "JOB_ARRAY_INDEX JOB_SUB_ARRAY_MAX": "an array keeps the indices that were given",
    "JOB_DISTRIBUTE_ON_HOST": "order[...] and cu[...] say how jobs are spread",
    "JOB_GROUP_IDLE_TTL": "gbgdel deletes job groups",
    "PARALLEL_SCHED_BY_SLOT": "MXJ in lsb.hosts says how many slots a host has",
    "JOB_CWD_TTL": "folders of jobs are never removed; POST_EXEC can do so",
    "JOB_INCLUDE_POSTPROC": "a post-execution command is part of the job: gjobs shows DONE when it is over",
    "PRIORITY": "PRIORITY of a queue, -sp of a job",
    "WATCHDOG": "GPU_IDLE ends jobs that do nothing",
    "LOAD_INDEX": "a threshold stands under the name of its load index",
    "DJOB_COMMFAIL_ACTION": "a job that has lost a host waits for it (UNKWN), or runs again if it is rerunnable",
    "RTASK_GONE_ACTION": "gsub --launch ends all tasks when one fails; otherwise the command of the job decides",
    "DJOB_DISABLED DJOB_ENV_SCRIPT": "glaunch starts tasks in the job's own environment",
    "PERSISTENT_HOST_ORDER": "the hosts of a job are in the order in which it got them",
    "IGNORE_DEADLINE INFERRED_DEADLINE_LIMIT": "a job starts while its queue is open, however long it runs",
}
"""Names, or patterns of them -> why, or what does the same."""


def _by_word(topics: Mapping[str, str]) -> dict[str, str]:
    return {word: reason for words, reason in topics.items() for word in words.split()}


_NOTED, _REFUSED = _by_word(NOTED), _by_word(REFUSED)
_WORDS = _NOTED.keys() | _REFUSED.keys()


def noted(names: Iterable[str]) -> dict[str, str]:
    """Name -> reason of those that a topic passes over with a note."""
    return {name: _NOTED[word] for name in names if (word := _word(name)) in _NOTED}


def refused(names: Iterable[str]) -> dict[str, str]:
    """Name -> reason of those that a topic refuses."""
    return {name: _REFUSED[word] for name in names if (word := _word(name)) in _REFUSED}


def _word(name: str) -> str:
    """The word of a topic that says most of the name: itself, else the longest pattern; empty: none does."""
    if name in _WORDS:
        return name
    # Looked up, not compared with each: this is done for a thousand names at the start of every process.
    ends = range(len(name), -1, -1)
    return next((pattern for end in ends if (pattern := f"{name[:end]}*") in _WORDS), "")
