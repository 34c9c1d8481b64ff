"""What parameters of LSF that are read mean otherwise than in LSF, and why some sections must be empty.

Read by what takes over the files of an installation of LSF, and by docs/lsf-coverage.md. A name that is not here means
what it means in LSF. Nothing here is of any effect: the readers of the files decide.
"""

from __future__ import annotations


def _names(table: dict[str, str]) -> dict[str, str]:
    """The reasons by single names; several that share one are written as one text."""
    return {name: reason for names, reason in table.items() for name in names.split()}


DIFFERENCES: dict[str, dict[str, str]] = {
    "lsf.conf": _names(
        {
            "LSF_DISABLE_LSRUN": "the commands see to it themselves; it is no protection",
            "LSF_MASTER_LIST LSF_MANAGEMENT_LIST": "several hosts need a store in PostgreSQL",
            "LSF_CONFDIR": "the folder that is read",
            "LSB_CONFDIR": "the folder that is read, or its lsbatch",
            "LSB_RESOURCE_ENFORCE": "gpu alone, which is the default",
            "LSB_MBD_PORT": "the master's only port",
            "LSB_JOB_TMPDIR": "JOBID.ATTEMPT.RANDOM.tmpdir, made by the job's user, who must be able to write there",
            "LSF_TMPDIR": "counts where LSB_SET_TMPDIR is set",
            "LSB_TIME_RESERVE_NUMJOBS": "so many jobs of each queue that sets no RESERVATION",
            "LSF_RSH": "what starts daemons of other hosts",
            "LSB_PRE_POST_EXEC_USER": "stands in lsf.sudoers in LSF",
            "LSF_UNIT_FOR_LIMITS": "MB where it is not set",
            "LSF_LOG_MASK": "LOG_INFO where it is not set",
            "LSB_LOG_MASK_MBD": "the master, with its scheduler",
            "LSB_LOG_MASK_SBD": "the agent, which is LIM and RES as well",
        }
    ),
    "lsf.cluster": _names(
        {
            "LSF_ELIM_BLOCKTIME": "of the cluster; lsf.conf may set it, too",
        }
    ),
    "lsb.params": _names(
        {
            "MAX_PREEXEC_RETRY": "the older name of LOCAL_MAX_PREEXEC_RETRY",
            "PREEMPTABLE_RESOURCES": "names are checked; PREEMPT_ACTION = requeue frees all of them",
            "JOB_ACCEPT_INTERVAL": "0 where it is not set",
            "RUN_JOB_FACTOR CPU_TIME_FACTOR RUN_TIME_FACTOR GPU_RUN_TIME_FACTOR": (
                "where hosts have GPUs, GPU hours count by default"
            ),
            "ENABLE_GPU_HIST_RUN_TIME": "where hosts have GPUs, Y by default",
            "JOB_GROUP_CLEAN": "Y is so always",
            "MAX_JOB_ATTA_SIZE": "all that is attached to a job has 16 MB at most",
            "MAX_PENDING_JOBS": "the older name of MAX_PEND_JOBS",
        }
    ),
    "lsb.queues": _names(
        {
            "MAX_PREEXEC_RETRY": "the older name of LOCAL_MAX_PREEXEC_RETRY",
            "JOB_WARNING_ACTION": "signals alone",
            "JOB_SIZE_LIST": "jobs that wait already stay as they are",
            "RESRSV_LIMIT": "what RES_REQ of the queue says is not held to it",
            "TERMINATE_WHEN": "of several that could make room those that are suspended come first",
            "JOB_CONTROLS": "signals and commands; SIGKILL follows TERMINATE",
            "SLOT_RESERVE RESOURCE_RESERVE": "whole starts are planned, and GPUs with them",
            "CONTAINER": "by Podman or Apptainer; of the options those that mount",
            "RUNLIMIT": "not scaled by the speed of hosts",
            "INTERACTIVE": "jobs of -I, -Ip and -Is",
            "JOB_OVERRUN JOB_UNDERRUN JOB_IDLE": "gjobs -x and gqueues -l show it; no eadmin is run",
        }
    ),
    "lsb.applications": _names(
        {
            "MAX_PREEXEC_RETRY": "the older name of LOCAL_MAX_PREEXEC_RETRY",
            "JOB_SIZE_LIST": "jobs that wait already stay as they are",
            "ESTIMATED_RUNTIME": "another name of RUNTIME",
            "SUSPEND_CONTROL": "signals and commands",
            "TERMINATE_CONTROL": "signals and commands; SIGKILL follows",
            "CONTAINER": "by Podman or Apptainer; of the options those that mount",
            "RUNLIMIT": "not scaled by the speed of hosts",
        }
    ),
    "lsb.hosts/ComputeUnit": _names(
        {
            "MEMBER": "without (!)",
        }
    ),
    "lsf.shared/Resource": _names(
        {
            "RELEASE": "Y; what a suspended job holds is its own",
        }
    ),
}
"""File, or file/Section -> name -> how it differs."""

NOT_READ_SECTIONS: dict[str, str] = {
    "lsf.cluster/RemoteClusters": "there is one cluster",
    "lsb.hosts/HostPartition": "shares are those of a queue's FAIRSHARE",
    "lsb.users/UserMap": "there is one cluster, in which users have one name",
    "lsb.resources/HostExport": "there is one cluster",
    "lsb.resources/SharedResourceExport": "there is one cluster",
    "lsb.resources/PowerPolicy": "hosts are not switched off to save power",
}
"""File/Section -> why it must be empty, and what does the same."""
