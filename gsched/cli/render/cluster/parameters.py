"""`gparams` (bparams) and `gclusters` (lsclusters). Source of the layouts: bparams(1), lsclusters(1) of LSF 10.1."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.cli.render.text.text_columns import cell, printable
from gsched.config.parameters.shares import FACTORS
from gsched.model.views.view import ClusterView, HostView, Parameter

_MEANINGS: dict[str, tuple[str, str]] = {
    "DEFAULT_QUEUE": ("Default queue", ""),
    "DEFAULT_PROJECT": ("Default project", ""),
    "DEFAULT_JOB_CWD": ("Working directory of jobs that name none", ""),
    "DEFAULT_JOB_OUTDIR": ("Directory for the output files of jobs that name none", ""),
    "MBD_SLEEP_TIME": ("Unit of JOB_ACCEPT_INTERVAL and MAX_RESERVE_TIME", "seconds"),
    "SBD_SLEEP_TIME": ("Interval between two samples of what a job uses", "seconds"),
    "CPU_PEAK_SAMPLE_DURATION": ("Time over which the peak of a job's CPU use is a mean", "seconds"),
    "JOB_ACCEPT_INTERVAL": ("Interval for a host to accept two jobs", "* MBD_SLEEP_TIME"),
    "CLEAN_PERIOD": ("How long a finished job is listed", "seconds"),
    "CLEAN_PERIOD_DONE": ("How long a job that is done is listed", "seconds"),
    "DEFAULT_JOBGROUP": ("Job group of jobs that name none", ""),
    "MAX_JOB_REQUEUE": ("How often a job may be requeued", "times"),
    "ENABLE_USER_RESUME": ("Users resume jobs of theirs that an administrator has suspended", ""),
    "JOB_POSITION_CONTROL_BY_ADMIN": ("Only administrators move jobs in the order of a queue", ""),
    "PRIVILEGED_USER_FORCE_BKILL": ("Only administrators end jobs at once by gkill -r", ""),
    "ADVRSV_USER_LIMIT": ("Advance reservations of one user", "reservations"),
    "DEFAULT_USER_GROUP": ("User group of jobs that name none", ""),
    "ENABLE_HOST_INTERSECTION": ("Of the hosts of -m those count that the queue uses", ""),
    "MAX_JOB_MSG_NUM": ("Message boxes of a job", "boxes"),
    "MAX_JOB_ATTA_SIZE": ("Most that may be attached to one message", "KB"),
    "JOB_TERMINATE_INTERVAL": ("Time between the signals that end a job", "seconds"),
    "MAX_JOBID": ("Largest job number", ""),
    "MAX_PEND_JOBS": ("Most jobs that may wait", "jobs"),
    "MAX_PEND_SLOTS": ("Most slots that jobs may wait for", "slots"),
    "MAX_JOB_ARRAY_SIZE": ("Largest index of a job array", ""),
    "MAX_USER_PRIORITY": ("Highest priority that a user may give a job", ""),
    "JOB_PRIORITY_OVER_TIME": ("Priority that a pending job gains", "points/minutes"),
    "JOB_DEP_LAST_SUB": ("Of several jobs of a name a dependency means only the newest", "1: yes"),
    "EGROUP_UPDATE_INTERVAL": ("Interval at which egroup is asked for members of groups again", "m: minutes"),
    "KILL_ON_INVALID_DEPENDENCY": ("A job whose dependency can never hold ends", ""),
    "ORPHAN_JOB_TERM_GRACE_PERIOD": ("How long after that has come out", "seconds"),
    "GPU_REQ": ("What -gpu asks for where it does not say", ""),
    "GPU_REQ_MERGE": ("Requirements of job, queue and cluster are joined", ""),
    "GPU_SHARED_JOBS": ("Jobs that may hold one GPU of compute mode Default together", "jobs"),
    "GPU_UNREQUESTED": ("What a job sees that asks for no GPU", ""),
    "GMEM_ACTION": ("What is done about a job that uses more GPU memory than its gmem=", ""),
    "GPU_FOREIGN": ("What is done about GPU processes of nobody's job", ""),
    "GPU_FOREIGN_MIB": ("GPU memory that such a process may use without counting", "MiB"),
    "GPU_FATAL_XIDS": ("Errors of the GPU driver that close a GPU and end its jobs", ""),
    "GPU_CLEAN_PROBES": ("After how many clean looks a GPU that had failed is offered again", "looks"),
    "GPU_MAX_TEMPERATURE": ("From where on a GPU gets no new job", "degrees C"),
    "GPU_HEALTH_CHECK": ("The program that checks a GPU on which something has failed", ""),
    "GPU_HEALTH_TIMEOUT": ("How long that program may take", "seconds"),
    "GPU_HEALTH_INTERVAL": ("After so much time without a job a GPU is checked by it, too", "hours"),
    "GPU_PLACEMENT": ("What decides among devices that could take a job", ""),
    "RESERVE_CORES_PER_GPU": ("Slots that are left for each free GPU", "slots"),
    "GPU_HOUR_PRICE": ("Price of a GPU for an hour", ""),
    "KWH_PRICE": ("Price of electricity", ""),
    "DETECT_IDLE_JOB_AFTER": ("Run time before which no job counts as idle", "minutes"),
    "EFFICIENCY_MIN_RUN": ("Run time from which on it is said how well a job used what it had", "seconds"),
    "HOST_HISTORY_DAYS": ("How long what was seen of hosts and said of starts is kept", "days"),
    "JOB_HISTORY_DAYS": ("How long a finished job is kept (0: for ever)", "days"),
    "EVENT_HISTORY_DAYS": ("How long what happened to a finished job is kept (0: as long as the job)", "days"),
    "EVENT_HISTORY_SIZE": ("How much is kept of what happened to jobs (0: there is no limit)", "MB"),
    "PREEMPT_ACTION": ("What happens to a job that is preempted", ""),
    "MIN_RUN_BEFORE_PREEMPT": ("How long a job runs before it may be preempted", "seconds"),
    "GPU_GROW_INTERVAL": ("How long a job with a range of GPUs runs before it may get more", "seconds"),
    "RESOURCE_RESERVE_PER_TASK": ("What rusage[] names without a method is reserved for each task", ""),
    "PREEXEC_EXCLUDE_HOST_EXIT_VALUES": ("Exit codes of pre-execution commands that keep a job off the host", ""),
    "GLOBAL_EXIT_RATE": ("Jobs that may fail on a host before it is closed", ""),
    "JOB_EXIT_RATE_DURATION": ("Within so much time", "minutes"),
    "EXIT_RATE_TYPE": ("Ends that count for that", ""),
    "ENABLE_EXIT_RATE_PER_SLOT": ("So many for each slot of the host", ""),
    "RESIZABLE_JOBS": (
        "Whether the slots of running jobs may change: N, Y, or auto (by themselves)",
        "",
    ),
    "NO_PREEMPT_INTERVAL": ("How long a job runs, since it last went on, before it may be preempted", "minutes"),
    "MAX_JOB_PREEMPT": ("How often one job may be preempted", "times"),
    "LOCAL_MAX_PREEXEC_RETRY": ("How often a job's pre-execution command may fail", "times"),
    "JOB_PREPROC_TIMEOUT": ("Commands before a job may take", "minutes"),
    "JOB_POSTPROC_TIMEOUT": ("Commands after a job may take", "minutes"),
    "JOB_CONTROLS_FAIL_DEFAULT_ACTION": ("A command of JOB_CONTROLS that fails is followed by the usual action", ""),
    "LOCAL_MAX_PREEXEC_RETRY_ACTION": ("What happens to the job then", ""),
    **{name: (each.meaning, each.unit) for name, each in FACTORS.items()},
    "COMPUTE_UNIT_TYPES": ("Types of compute units", ""),
}
"""Parameter -> what it means, and the unit of its value."""


def render_short(found: Sequence[Parameter]) -> str:
    """The default queue and the intervals."""
    values = {parameter.name: parameter.value for parameter in found}
    accept_s = float(values["JOB_ACCEPT_INTERVAL"]) * float(values["MBD_SLEEP_TIME"])
    return (
        f"Default Queues:  {values['DEFAULT_QUEUE']}\n"
        f"MBD_SLEEP_TIME used for calculations:  {values['MBD_SLEEP_TIME']} seconds\n"
        f"Job Checking Interval:  {values['SBD_SLEEP_TIME']} seconds\n"
        f"Job Accepting Interval:  {accept_s:g} seconds\n"
    )


def render_all(found: Sequence[Parameter]) -> str:
    """A line `NAME = value` for each: programs read them."""
    return "".join(f"    {parameter.name} = {printable(parameter.value)}\n" for parameter in found)


def render_long(found: Sequence[Parameter]) -> str:
    """A sentence for each, then its line with the unit."""
    pieces = []
    for name, value in ((parameter.name, printable(parameter.value)) for parameter in found):
        meaning, unit = _MEANINGS.get(name, ("", ""))
        sentence = f"{meaning}:\n" if meaning else ""
        pieces.append(f"\n{sentence}    {name} = {value}{f' ({unit})' if unit else ''}\n")
    return "".join(pieces)


def render_cluster(cluster: ClusterView, hosts: int, *, wide: bool = False) -> str:
    """The header and the line of the one cluster; programs take the first word of the second line for its name."""
    administrator = next(iter(cluster.administrators), "-")

    def shown(text: str, width: int) -> str:
        return text.ljust(width) if wide else cell(text, width)

    return (
        "CLUSTER_NAME   STATUS   MASTER_HOST               ADMIN    HOSTS  SERVERS\n"
        f"{shown(cluster.cluster, 14)} {'ok':<8} {shown(cluster.master_host, 18)} "
        f"{administrator:>12} {hosts:8d} {hosts:8d}\n"
    )


def render_cluster_long(cluster: ClusterView, hosts: Sequence[HostView]) -> str:
    """-l: the same, and what else is told of the whole cluster."""
    models = sorted({host.model for host in hosts if host.model})
    types = sorted({host.type for host in hosts if host.type})
    facts = (
        ("LSF administrators", cluster.administrators),
        ("Version", (cluster.version,)),
        ("Default queues", cluster.default_queue.split()),
        ("Available resources", cluster.external_resources),
        ("Available host types", types),
        ("Available host models", models),
    )
    return render_cluster(cluster, len(hosts), wide=True) + "".join(
        f"\n{name}:  {' '.join(printable(each) for each in texts) or '-'}\n" for name, texts in facts
    )
