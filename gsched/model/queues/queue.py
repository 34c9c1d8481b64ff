"""Queues as configured in lsb.queues."""

from __future__ import annotations

import msgspec

from gsched.model.queues.gpu_idle_policy import GpuIdlePolicy
from gsched.model.queues.job_controls import JobControls
from gsched.model.queues.preempt_sparing import Sparing
from gsched.model.queues.user import Share
from gsched.model.queues.window import Window

LOAD, WINDOW, PREEMPT = "LOAD", "WINDOW", "PREEMPT"
"""For what jobs may be ended that would be suspended elsewhere (TERMINATE_WHEN)."""


class Threshold(msgspec.Struct, frozen=True):
    """`loadSched/loadStop` of a load index: beyond the first no job starts, beyond the second jobs are suspended."""

    sched: float | None = None
    stop: float | None = None

    @property
    def text(self) -> str:
        """`0.7/2.0`, `-` where there is none."""
        return "/".join("-" if value is None else f"{value:.6g}" for value in (self.sched, self.stop))


class RunLimits(msgspec.Struct, frozen=True):
    """`[default] maximum` of a per-job limit of a queue, in the limit's unit."""

    maximum: float | None = None
    default: float | None = None


class Preemption(msgspec.Struct, frozen=True):
    """PREEMPTION. `preemptive`: queues whose jobs this queue's may preempt (None: none; empty: every lower one), each
    with its preference (`low+2`; larger is preempted first). `preemptable_by`: queues that may preempt this one
    (None: only those that say so themselves; empty: every higher one).
    """

    preemptive: tuple[tuple[str, int], ...] | None = None
    preemptable_by: tuple[str, ...] | None = None


EASY_PLAN_DELAY = 2.0
"""MAX_PLAN_DELAY by default where RESERVATION is `easy`."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """One queue. A larger `priority` is served first; None stands for "no limit" or "all"."""

    name: str
    priority: int = 1
    description: str = ""
    nice: int = 0
    hosts: tuple[str, ...] | None = None
    """Names of hosts, groups resolved."""
    host_levels: dict[str, int] = {}
    """`hostA+2`: hosts that are preferred, larger first; a job's own -m preferences override it."""
    users: tuple[str, ...] | None = None
    """Names of users, groups resolved."""
    excluded_users: tuple[str, ...] = ()
    """`all ~user`."""
    administrators: tuple[str, ...] = ()
    job_limit: int | None = None
    """QJOB_LIMIT: slots the queue's jobs may hold together."""
    user_limit: int | None = None
    """UJOB_LIMIT: slots of one user in the queue."""
    host_limit: int | None = None
    """HJOB_LIMIT: slots of the queue on one host."""
    processor_limit: float | None = None
    """PJOB_LIMIT: slots of the queue on one host for each of its CPUs."""
    task_limit: tuple[int, int, int] | None = None
    """TASKLIMIT (PROCLIMIT): least, default and most slots of one job; with JOB_SIZE_LIST those of its sizes."""
    job_sizes: tuple[int, ...] = ()
    """JOB_SIZE_LIST: the only numbers of slots that a job may have, the default first; empty: any."""
    run_limit_s: int | None = None
    default_run_limit_s: int | None = None
    estimate_s: int | None = None
    """DEFAULT_RUNLIMIT: how long jobs without a run limit are expected to run, for planning; it ends none."""
    limits: dict[str, RunLimits] = {}
    """CPULIMIT (s), MEMLIMIT, SWAPLIMIT (MiB), PROCESSLIMIT, THREADLIMIT (counts), FILELIMIT, DATALIMIT, STACKLIMIT,
    CORELIMIT (KiB) -> default and maximum."""
    res_req: str = ""
    gpu_req: str = ""
    reserve_limits: dict[str, tuple[float, float]] = {}
    """RESRSV_LIMIT: resource -> least and most that one rusage of a job may ask for; sizes in MiB."""
    pre_exec: str = ""
    """PRE_EXEC: runs on the first host before each job."""
    post_exec: str = ""
    host_pre_exec: str = ""
    """HOST_PRE_EXEC: runs on each host of a job before it."""
    host_post_exec: str = ""
    job_starter: str = ""
    container: str = ""
    """CONTAINER: image and mounts of jobs that name no container (gsched.model.queues.container)."""
    controls: JobControls = JobControls()
    """JOB_CONTROLS: what is done to jobs in place of stopping them, letting them go on, ending them."""
    exclusive: bool = False
    """-x may be used."""
    exclusive_units: str = ""
    """Type of compute units that a job may have for itself (cu[excl]), and so those of types within; empty: none."""
    interactive: str = "YES"
    """Which jobs it takes: `NO` none that are interactive, `ONLY` none that are not, `YES` both."""
    rerunnable: bool = False
    resizable: str = ""
    """RESIZABLE_JOBS, see gsched.model.jobs.job.RELEASES; empty: as in lsb.params."""
    requeue_exit_values: str = ""
    success_exit_values: str = ""
    """SUCCESS_EXIT_VALUES: exit codes, beside 0, with which a job is DONE (gsched.model.jobs.requeue_exits)."""
    max_requeue: int | None = None
    """MAX_JOB_REQUEUE."""
    max_preexec_retry: int | None = None
    """LOCAL_MAX_PREEXEC_RETRY; None: as for the cluster."""
    preexec_exit: bool | None = None
    """LOCAL_MAX_PREEXEC_RETRY_ACTION is EXIT; None: as for the cluster."""
    warning_signal: str = ""
    """JOB_WARNING_ACTION: signal that warns jobs of the run limit that name none themselves."""
    warning_s: int | None = None
    """JOB_ACTION_WARNING_TIME: how long before."""
    retry: str = ""
    """RETRY: after which failures jobs wait again (gsched.model.jobs.retry)."""
    save_signal: str = ""
    """CHKPNT_SIGNAL: what asks jobs to save their state that have said nothing (model.jobs.job_signal)."""
    gpu_idle: GpuIdlePolicy | None = None
    """GPU_IDLE; None: nobody minds idle GPUs."""
    service_idle_s: int | None = None
    """SERVICE_IDLE: a job's service that nobody has used for so long is ended; None: never."""
    job_overrun_s: int | None = None
    """JOB_OVERRUN: jobs that run longer are shown as exceptions; None: none is."""
    job_underrun_s: int | None = None
    """JOB_UNDERRUN: jobs that fail before are."""
    job_idle: float | None = None
    """JOB_IDLE: jobs with less CPU time in each second are."""
    orphan_grace_s: float | None = None
    """ORPHAN_JOB_TERM_GRACE_PERIOD: so much later a job ends whose dependency can never hold; None: as the cluster."""
    run_window: tuple[Window, ...] = ()
    """Outside of it no job starts and running ones are suspended."""
    dispatch_window: tuple[Window, ...] = ()
    thresholds: dict[str, Threshold] = {}
    """Load index or external resource -> thresholds."""
    stop_cond: str = ""
    resume_cond: str = ""
    terminate_when: tuple[str, ...] = ()
    """TERMINATE_WHEN: `LOAD`, `WINDOW`, `PREEMPT`: a job that would be suspended for it is ended instead."""
    fairshare: tuple[Share, ...] | None = None
    """USER_SHARES; None: first come first served."""
    share_queues: tuple[str, ...] = ()
    """FAIRSHARE_QUEUES: the queues of one share tree, first the one whose FAIRSHARE divides all; empty: it is alone."""
    serves_queues_in_order: bool = False
    """DISPATCH_ORDER=QUEUE: of one share tree the queue of larger PRIORITY first, and then users by their shares."""
    factors: dict[str, float] = {}
    """Fields of FairshareFactors that the queue states."""
    preemption: Preemption = Preemption()
    sparing: Sparing = Sparing()
    """Which of its started jobs are not preempted."""
    backfill: bool = False
    """BACKFILL: jobs of the queue may use what is reserved for others while it is not needed."""
    reserved_jobs: int = 1
    """RESERVATION: something is reserved at a time for so many jobs that cannot start, the first in serving order: 0 is
    `none`, 1 is `easy`, more is `conservative`."""
    plan_delay: float | None = None
    """MAX_PLAN_DELAY, which see at `max_plan_delay`."""
    reserve_s: float | None = None
    """SLOT_RESERVE or RESOURCE_RESERVE: how long a job that cannot start keeps its reservation before it pauses for one
    cycle; None: no pause."""
    ignores_guarantees: bool = False
    """SLA_GUARANTEES_IGNORE: its jobs may use what is guaranteed to service classes, and preempt jobs of them."""
    new_job_delay_s: float = 0.0
    """NEW_JOB_SCHED_DELAY."""
    accept_interval_s: float | None = None
    """JOB_ACCEPT_INTERVAL x MBD_SLEEP_TIME; None: as for the cluster."""
    source: str = ""

    @property
    def share_owner(self) -> str:
        """The queue whose FAIRSHARE divides it, where any does: itself, or that of its share tree's."""
        return self.share_queues[0] if self.share_queues else self.name

    @property
    def max_plan_delay(self) -> float:
        """How long later jobs may put a planned start off that rests on estimates, in multiples of the wait that was
        told first; 0 where they may not. By default they may with `easy`, which is there to use the GPUs.
        """
        if self.plan_delay is not None:
            return self.plan_delay
        return EASY_PLAN_DELAY if self.reserved_jobs == 1 else 0.0

    def admits(self, user: str) -> bool:
        """Whether USERS lets the user in."""
        return (self.users is None or user in self.users) and user not in self.excluded_users
