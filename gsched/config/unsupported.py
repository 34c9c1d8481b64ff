"""Parameters of LSF that gsched knows by name but gives no meaning, and why.

`REFUSED_*`: what they ask for would not happen, so the configuration is refused. `WITHOUT_EFFECT_*`: ignoring them
harms nobody, and a note says that they do nothing. A name that becomes supported must leave these tables.
Source of the names: lsf.conf(5), lsf.cluster(5), lsb.params(5), lsb.queues(5), lsb.resources(5).
"""

from __future__ import annotations


def _names(text: str, reason: str = "") -> dict[str, str]:
    return dict.fromkeys(text.split(), reason)


REFUSED_CONF: dict[str, str] = _names(
    """
    LSF_LOG_MASK LSB_SBD_PORT LSF_AUTH LSF_EAUTH_KEY LSB_MEMLIMIT_ENFORCE LSB_JOB_MEMLIMIT LSB_JOB_CPULIMIT
    LSB_SHORT_HOSTLIST LSB_BHOSTS_FORMAT LSB_BQUEUES_FORMAT LSB_BUSERS_FORMAT
    LSF_LSLOAD_FORMAT
    LSF_GPU_RESOURCE_IGNORE
    LSF_HOST_MAX_GPU LSF_DCGM_PORT LSF_PROCESS_TRACKING LSF_LINUX_CGROUP_ACCT LSB_LOCALDIR
    LSF_ENABLE_EGO LSF_DYNAMIC_HOST_TIMEOUT LSF_DYNAMIC_HOST_WAIT_TIME
    LSF_LOCAL_RESOURCES LSF_STRIP_DOMAIN LSF_STRICT_RESREQ LSF_STRICT_CHECKING
    LSF_TMPDIR LSB_API_CONNTIMEOUT LSB_API_RECVTIMEOUT LSF_HPC_EXTENSIONS
    LSF_DAEMONS_RUN_AS_ADMIN
    """
) | {
    "LSF_ROOT_REX": "LSF_ROOT_USER=Y lets root submit jobs",
    "LSF_SERVER_HOSTS": "LSF_MASTER_LIST or the first server of lsf.cluster is the master",
    "LSF_GPU_AUTOCONFIG": "GPU resources are defined in lsf.shared and mapped in lsf.cluster",
}

WITHOUT_EFFECT_CONF: dict[str, str] = _names("LSF_LIBDIR LSF_MANDIR LSF_INCLUDEDIR LSF_MISC LSF_VERSION LSF_TOP") | {
    "LSB_GPU_NEW_SYNTAX": "-gpu and the older ngpus_* resources are both understood",
    "LSF_BINDIR": "commands are found by PATH",
    "LSF_LIM_PORT": "there is no LIM",
    "LSF_RES_PORT": "there is no RES",
    "LSF_LICENSE_FILE": "no licence is needed",
    "LSF_ENTITLEMENT_FILE": "no licence is needed",
}

_NO_FAILOVER = "there is no fail-over of the master"

REFUSED_CLUSTER: dict[str, str] = _names("FLOAT_CLIENTS PRODUCTS") | {
    "ELIMARGS": "elims are started without arguments",
    "HOST_INACTIVITY_LIMIT": "GSCHED_HOST_LOST in lsf.conf says after how many seconds a host is lost",
    "MASTER_INACTIVITY_LIMIT": _NO_FAILOVER,
    "RETRY_LIMIT": _NO_FAILOVER,
    "PROBE_TIMEOUT": _NO_FAILOVER,
    "LSF_HOST_ADDR_RANGE": "hosts are listed in the Host section",
}

WITHOUT_EFFECT_CLUSTER: dict[str, str] = {
    "ELIM_POLL_INTERVAL": "what an elim writes is read as it comes",
    "ADJUST_DURATION": "what jobs hold is counted exactly",
}

REFUSED_PARAMS: dict[str, str] = _names(
    """
    MAX_SBD_FAIL PG_SUSP_IT FAIRSHARE_ADJUSTMENT_FACTOR ABS_RUNLIMIT BJOBS_RES_REQ_DISPLAY RESOURCE_RESERVE_PER_TASK
    DEFAULT_HOST_SPEC DEFAULT_USER_GROUP DEFAULT_JOBGROUP JOB_SPOOL_DIR
    PREEMPT_FOR SUB_TRY_INTERVAL PARALLEL_SCHED_BY_SLOT CHUNK_JOB_DURATION
    ACCT_ARCHIVE_AGE ACCT_ARCHIVE_SIZE ACCT_ARCHIVE_TIME RELAX_JOB_DISPATCH_ORDER RUN_TIME_DECAY FWD_JOB_FACTOR
    """
) | {
    "NEW_JOB_SCHED_DELAY": "it is a parameter of queues",
    "SECURE_JOB_INFO_LEVEL": "what gjobs shows is shown to everybody",
    "SECURE_INFODIR_USER_ACCESS": "nobody reads the master's files; ghist and gacct show everybody's jobs",
}

WITHOUT_EFFECT_PARAMS: dict[str, str] = {
    "JOB_SCHEDULING_INTERVAL": "a scheduling cycle starts when something happened",
    "MAX_JOB_NUM": "events are kept in a database, not in files that are switched",
    "PEND_REASON_UPDATE_INTERVAL": "pending reasons are always up to date",
    "NEWJOB_REFRESH": "queries always see what is committed",
    "MBD_REFRESH_TIME": "queries always see what is committed",
}

REFUSED_QUEUE: dict[str, str] = _names(
    """
    SUCCESS_EXIT_VALUES HOST_PRE_EXEC HOST_POST_EXEC JOB_CONTROLS
    TERMINATE_WHEN FAIRSHARE_QUEUES DISPATCH_ORDER MIG CHKPNT IGNORE_DEADLINE DEFAULT_HOST_SPEC ROUND_ROBIN_POLICY
    RESRSV_LIMIT CHUNK_JOB_SIZE SLOT_POOL SLOT_SHARE JOB_IDLE JOB_OVERRUN JOB_UNDERRUN INTERRUPTIBLE_BACKFILL
    APS_PRIORITY RCVJOBS_FROM SNDJOBS_TO CONTAINER RUN_TIME_DECAY FWD_JOB_FACTOR FAIRSHARE_ADJUSTMENT_FACTOR
    """
) | {"MAX_JOB_PREEMPT": "it is set for the whole cluster in lsb.params"}

REFUSED_APPLICATION: dict[str, str] = _names(
    """
    SUCCESS_EXIT_VALUES HOST_PRE_EXEC HOST_POST_EXEC JOB_CONTROLS TERMINATE_CONTROL SUSPEND_CONTROL RESUME_CONTROL
    CHKPNT_DIR CHKPNT_INITPERIOD CHKPNT_PERIOD CHKPNT_METHOD MIG CHUNK_JOB_SIZE ENV_VARS JOB_CWD JOB_CWD_TTL
    JOB_INCLUDE_POSTPROC JOB_POSTPROC_TIMEOUT JOB_PREPROC_TIMEOUT LOCAL_MAX_PREEXEC_RETRY MAX_PREEXEC_RETRY
    REMOTE_MAX_PREEXEC_RETRY NICE NO_PREEMPT_INTERVAL NO_PREEMPT_FINISH_TIME NO_PREEMPT_RUN_TIME MAX_JOB_PREEMPT
    PERSISTENT_HOST_ORDER RESIZABLE_JOBS RESIZE_NOTIFY_CMD RESUME_CONTROL RTASK_GONE_ACTION DJOB_COMMFAIL_ACTION
    DJOB_DISABLED DJOB_ENV_SCRIPT DJOB_HB_INTERVAL DJOB_RESIZE_GRACE_PERIOD BIND_JOB USE_PAM_CREDS CONTAINER
    EXEC_DRIVER JOB_SIZE_LIST ELIGIBLE_PEND_TIME_LIMIT PEND_TIME_LIMIT ESTIMATED_RUNTIME RELAX_JOB_DISPATCH_ORDER
    SWAPLIMIT_TYPE OUTDIR DOCKER_IMAGE_AFFINITY WATCHDOG STEP_CGROUP CONTAINER
    """
) | {"PROCLIMIT": "it is the older name of TASKLIMIT"}

REFUSED_LIMIT: dict[str, str] = _names("LIC_PROJECTS PER_LIC_PROJECT INELIGIBLE SLOTS_PER_HOST") | {
    "JOBS_PER_SCHED_CYCLE": "a cycle looks at jobs that are alike once, however many there are",
    "ELIGIBLE_PEND_JOBS": "a cycle looks at jobs that are alike once, however many there are",
    "LICENSE": "use RESOURCE = [NAME, AMOUNT]",
}
