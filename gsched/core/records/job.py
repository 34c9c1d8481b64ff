"""A job's record in the state: plain and mutable, changed only by applying events, and small enough to have 100,000."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, TypeVar, overload

import msgspec

from gsched.base.coded_text import AnyText
from gsched.base.ids import array_of, index_of
from gsched.model.gpus.gpu_idle import GpuIdleness, IdleWarning
from gsched.model.jobs.job import FINISHED, MOST_RESTARTS, PENDING, STARTED, AttemptResult, JobSpec, JobState, Usage
from gsched.model.jobs.job_signal import OwedSignal
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.ledgers.allocation import SHARING, Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.queues.container import runtimes_of
from gsched.model.scheduling.snapshot import Bucket, Rank, RequirementClass, Running
from gsched.model.views.view import JobView, Message

AT_HEAD = 1e12
"""Taken off the order of a job that is to be served before its equals."""
ANYWHERE = ("*",)
"""Where a job is forced to run that may start on any host that has room; no host has this name."""


class JobProgress(msgspec.Struct, omit_defaults=True, gc=False):
    """What has become of a job since it was submitted; what belongs to an attempt is reset when it is requeued.

    `Job` has an attribute for each field.
    """

    allocation: Allocation | None = None
    effective_req: str = ""
    dispatched_at: float | None = None
    started_at: float | None = None
    pid: int | None = None
    boot_id: str = ""
    exec_home: str = ""
    exec_cwd: str = ""
    finished_at: float | None = None
    result: AttemptResult | None = None
    post_processed: bool = False
    messages: tuple[Message, ...] = ()
    notes: tuple[AnyText, ...] = ()
    kill_by: str = ""
    """Who asked for its end; empty when nobody did."""
    kill_reason: str = ""
    """Why, in that one's words."""
    ends_done: bool = False
    """By that end it is DONE."""
    stopped_by: str = ""
    """Who suspended it; empty when it is not suspended."""
    known_state: JobState | None = None
    """While UNKWN: the state it was in before."""
    failed_starts: int = 0
    start_problem: AnyText = ""
    """Why the last start failed."""
    not_before: float = 0.0
    avoid_host: str = ""
    stale: tuple[int, ...] = ()
    """Attempts whose late results are on record."""
    unrecorded: tuple[int, ...] = ()
    """Attempts that a store had ordered which is lost."""
    order: float | None = None
    """Place among equals, where gtop, gbot or a requeue changed it; None: the number of the submission."""
    ages_from: float | None = None
    """See gsched.model.event.JobMoved."""
    released: bool = False
    """The dependency condition has come true."""
    waited_s: float = 0.0
    """Delay of the requirement's alternative that may be used by now."""
    forced_hosts: tuple[str, ...] = ()
    """grun: where it is to start whatever the policies say, or ANYWHERE."""
    requeue_by: str = ""
    """Who asked for the attempt to end and the job to wait again; empty when nobody did."""
    requeue_hold: bool = False
    preempted_by: int = 0
    """The job that took, or is to get, what this one holds."""
    preempted: int = 0
    """How often it has been preempted."""
    gave_slots: bool = False
    """It was suspended to make room: somebody else may have its slots."""
    moving_off: bool = False
    """It is to be moved off its GPU, and nobody has said what has come of that."""
    moved_off: bool = False
    """It is off its GPU, which somebody else may have."""
    gpus_kept: AnyText = ""
    """Why it cannot be moved off its GPU."""
    resumed_at: float | None = None
    """When it last went on after that."""
    requeues: int = 0
    """How often it went back to pending after it had run."""
    code_requeues: int = 0
    """How often of these by its exit code."""
    excluded_hosts: tuple[str, ...] = ()
    """Where it must not run again (EXCLUDE of the requeue exit values)."""
    suspend_reason: AnyText = ""
    relimited: bool = False
    """Its limits were changed after it was dispatched: its agent may not know."""
    gpu_fault: AnyText = ""
    """The GPU of the attempt that has failed, and how: why the system asked for its end."""
    kill_keyword: str = ""
    """LSF's keyword for a job that the system ends; empty: a failed GPU's or a deadline's."""
    open_parts: tuple[str, ...] = ()
    """Hosts but the first where the attempt's part has been opened."""
    ended_parts: tuple[str, ...] = ()
    """Hosts where it has ended."""
    released_parts: tuple[str, ...] = ()
    """Hosts that its attempt had parts on, and has given back while it ran."""
    part_usage: dict[str, Usage] = {}
    """Host -> what was used there, of parts that have ended."""
    parts_cpu_s: dict[str, float] = {}
    """Host -> CPU seconds of its part that the result counts."""
    gpu_faults: int = 0
    """How often it was requeued because a GPU had failed."""
    signals: tuple[int, ...] = ()
    """Which its attempt was sent because somebody asked for it."""
    owed_signals: tuple[OwedSignal, ...] = ()
    """Those that not all its hosts have told to have sent."""
    last_signal: int = 0
    """Number of the last one of its attempt (OwedSignal.number)."""
    retries: dict[str, int] = {}
    """Class of failure -> how often it was run again because of it (RETRY)."""
    requeue_reason: AnyText = ""
    """Why the system asks for that, where it is not a GPU's failure or another job."""
    idle_warning: IdleWarning | None = None
    """What it was told because its GPUs are idle, as long as they are."""
    idle_warnings: int = 0
    """How often that was, in all its attempts."""
    idle_requeues: int = 0
    """How often it was requeued because of it."""
    save_by: float | None = None
    """It was asked to save its state before its attempt is ended, and has until then."""
    save_s: int = 0
    """How long it was given for that, in seconds."""
    end_warned: bool = False
    """Its first host has warned it of its run limit, or of -t."""
    ends_by: float | None = None
    """When that ends it, by that host's clock."""
    restarts: int = 0
    """How often the system has run it again for a RestartCause."""
    resize: Allocation | None = None
    """What its next attempt is to hold, with another number of GPUs: it is asked to end for that, or waits for it. Of
    one that was asked and is spared: what it has.
    """
    gives_to: tuple[int, ...] = ()
    """Jobs that wait for what it is asked to give back."""
    gives: tuple[int, ...] = ()
    """How many GPUs each of those gets; empty: that was not recorded."""
    resizes: int = 0
    """How often it went on with another number of GPUs."""
    short_runs: int = 0
    """See gsched.model.event.JobRequeued."""
    counted_as: str = ""
    """Of an element: the state its array counts it under."""
    service_port: int | None = None
    """On which its service listens."""
    service_at: float | None = None
    """Since when."""
    told: tuple[str, ...] = ()
    """Keys of the notices that were made about it (gsched.model.event.JobNoticeMade)."""


_NOTHING = JobProgress()
"""The course of all jobs to which nothing has happened; never changed."""
_T = TypeVar("_T")

if TYPE_CHECKING:

    class _Kept(Generic[_T]):
        """An attribute of a job that stands in its course."""

        def __init__(self, name: str) -> None: ...

        @overload
        def __get__(self, job: None, owner: type[JobRecord]) -> _Kept[_T]: ...

        @overload
        def __get__(self, job: JobRecord, owner: type[JobRecord]) -> _T: ...

        def __get__(self, job: JobRecord | None, owner: type[JobRecord]) -> _Kept[_T] | _T: ...

        def __set__(self, job: JobRecord, value: _T) -> None: ...

else:

    class _Kept(property):
        """An attribute of a job that stands in its course. Reading it costs no call of Python."""

        def __class_getitem__(cls, kind):
            return cls

        def __init__(self, name):
            super().__init__(attrgetter(f"course.{name}"), lambda job, value: job.change(name, value))


def bucket_of(
    spec: JobSpec, job_id: int, avoid_host: str = "", excluded_hosts: tuple[str, ...] = (), waited_s: float = 0.0
) -> Bucket:
    """Where a job of that number waits."""
    requirement = RequirementClass(
        requirement=spec.combined_req,
        slots=spec.slots,
        asked_hosts=spec.hosts,
        avoid_host=avoid_host,
        auto_gpu=spec.auto_gpu,
        max_slots=spec.max_slots,
        gpu=spec.combined_gpu_req,
        host_levels=spec.host_levels,
        other_hosts=spec.other_hosts,
        first_hosts=spec.first_hosts,
        exclusive=spec.exclusive,
        run_s=spec.run_limit_s,
        estimate_s=spec.estimate_s if spec.run_limit_s is None else None,
        reservation=spec.reservation,
        waited_s=waited_s,
        excluded_hosts=excluded_hosts,
        container_runtimes=runtimes_of(spec.container) if spec.container else (),
    )
    array = array_of(job_id) if spec.array_limit else 0
    return Bucket(
        spec.queue,
        spec.user,
        requirement,
        spec.project,
        spec.user_group,
        spec.group,
        array,
        spec.application,
        spec.service_class,
    )


class JobRecord(msgspec.Struct, kw_only=True, gc=False):
    """One job. Times are UTC seconds. What most pending jobs have no use for is kept apart, in a course of its own."""

    job_id: int
    spec: JobSpec
    state: JobState
    submitted_at: float
    token: str = ""
    place: int = 0
    attempt: int = 0
    course: JobProgress = msgspec.field(default_factory=lambda: _NOTHING)

    allocation = _Kept[Allocation | None]("allocation")
    effective_req = _Kept[str]("effective_req")
    dispatched_at = _Kept[float | None]("dispatched_at")
    started_at = _Kept[float | None]("started_at")
    pid = _Kept[int | None]("pid")
    boot_id = _Kept[str]("boot_id")
    exec_home = _Kept[str]("exec_home")
    exec_cwd = _Kept[str]("exec_cwd")
    finished_at = _Kept[float | None]("finished_at")
    result = _Kept[AttemptResult | None]("result")
    post_processed = _Kept[bool]("post_processed")
    messages = _Kept[tuple[Message, ...]]("messages")
    notes = _Kept[tuple[AnyText, ...]]("notes")
    kill_by = _Kept[str]("kill_by")
    kill_reason = _Kept[str]("kill_reason")
    ends_done = _Kept[bool]("ends_done")
    stopped_by = _Kept[str]("stopped_by")
    known_state = _Kept[JobState | None]("known_state")
    failed_starts = _Kept[int]("failed_starts")
    start_problem = _Kept[AnyText]("start_problem")
    not_before = _Kept[float]("not_before")
    avoid_host = _Kept[str]("avoid_host")
    stale = _Kept[tuple[int, ...]]("stale")
    unrecorded = _Kept[tuple[int, ...]]("unrecorded")
    ages_from = _Kept[float | None]("ages_from")
    released = _Kept[bool]("released")
    waited_s = _Kept[float]("waited_s")
    forced_hosts = _Kept[tuple[str, ...]]("forced_hosts")
    requeue_by = _Kept[str]("requeue_by")
    requeue_hold = _Kept[bool]("requeue_hold")
    preempted_by = _Kept[int]("preempted_by")
    preempted = _Kept[int]("preempted")
    gave_slots = _Kept[bool]("gave_slots")
    moving_off = _Kept[bool]("moving_off")
    moved_off = _Kept[bool]("moved_off")
    gpus_kept = _Kept[AnyText]("gpus_kept")
    resumed_at = _Kept[float | None]("resumed_at")
    requeues = _Kept[int]("requeues")
    code_requeues = _Kept[int]("code_requeues")
    excluded_hosts = _Kept[tuple[str, ...]]("excluded_hosts")
    suspend_reason = _Kept[AnyText]("suspend_reason")
    relimited = _Kept[bool]("relimited")
    gpu_fault = _Kept[AnyText]("gpu_fault")
    gpu_faults = _Kept[int]("gpu_faults")
    resize = _Kept[Allocation | None]("resize")
    resizes = _Kept[int]("resizes")
    gives_to = _Kept[tuple[int, ...]]("gives_to")
    gives = _Kept[tuple[int, ...]]("gives")
    counted_as = _Kept[str]("counted_as")
    kill_keyword = _Kept[str]("kill_keyword")
    open_parts = _Kept[tuple[str, ...]]("open_parts")
    ended_parts = _Kept[tuple[str, ...]]("ended_parts")
    released_parts = _Kept[tuple[str, ...]]("released_parts")
    part_usage = _Kept[dict[str, Usage]]("part_usage")
    parts_cpu_s = _Kept[dict[str, float]]("parts_cpu_s")
    signals = _Kept[tuple[int, ...]]("signals")
    owed_signals = _Kept[tuple[OwedSignal, ...]]("owed_signals")
    last_signal = _Kept[int]("last_signal")
    retries = _Kept[dict[str, int]]("retries")
    requeue_reason = _Kept[AnyText]("requeue_reason")
    idle_warning = _Kept[IdleWarning | None]("idle_warning")
    idle_warnings = _Kept[int]("idle_warnings")
    idle_requeues = _Kept[int]("idle_requeues")
    restarts = _Kept[int]("restarts")
    short_runs = _Kept[int]("short_runs")
    save_by = _Kept[float | None]("save_by")
    save_s = _Kept[int]("save_s")
    end_warned = _Kept[bool]("end_warned")
    ends_by = _Kept[float | None]("ends_by")
    service_port = _Kept[int | None]("service_port")
    service_at = _Kept[float | None]("service_at")
    told = _Kept[tuple[str, ...]]("told")

    def change(self, name: str, value: object) -> None:
        """Set what stands in its course."""
        default = getattr(_NOTHING, name)
        is_default = value == default
        if self.course is _NOTHING:
            if is_default:
                return
            self.course = JobProgress()
        setattr(self.course, name, default if is_default else value)  # what is left out of checkpoints goes by identity

    @property
    def order(self) -> float:
        """Place among equals: the number of the submission, unless gtop, gbot or a requeue changed it."""
        order = self.course.order
        return float(array_of(self.job_id)) if order is None else order

    @order.setter
    def order(self, order: float) -> None:
        self.change("order", None if order == array_of(self.job_id) else order)

    def happened(self) -> JobProgress | None:
        """Its course; None when nothing has happened to the job but its submission, or nothing is left of it."""
        return None if self.course is _NOTHING or self.course == _NOTHING else self.course

    def is_untouched(self) -> bool:
        """Nothing has ever happened to it but its submission; `happened` looks whether anything is left of what has."""
        return self.course is _NOTHING

    @property
    def key(self) -> AttemptKey:
        return (self.job_id, self.attempt)

    @property
    def held_since(self) -> float:
        """When what its attempt holds was given to it; infinite when nobody knows."""
        return math.inf if self.dispatched_at is None else self.dispatched_at

    def left_parts(self) -> tuple[HostAllocation, ...]:
        """Its parts on other hosts than the first that have not ended.

        A job that was started when there were no parts yet has none.
        """
        if self.allocation is None or len(self.allocation.hosts) == 1 or self.post_processed:
            return ()
        ended, is_new = self.ended_parts, self.started_at is None
        return tuple(
            part
            for part in self.allocation.hosts[1:]
            if part.host not in ended and (is_new or part.host in self.open_parts)
        )

    def runs_again_after(self, cause: RestartCause) -> bool:
        """Whether the system may run it again after that: -r, or --restart-on, so often at most as it has said."""
        return (cause in self.spec.restart_on or bool(self.spec.rerunnable)) and self.has_restart_left

    @property
    def has_restart_left(self) -> bool:
        """Whether its --max-restarts allows another; those of jobs that do not save their state are not counted."""
        most = self.spec.max_restarts
        return not self.spec.saves_itself or self.restarts < (MOST_RESTARTS if most is None else most)

    @property
    def saves_for_another(self) -> bool:
        """Whether it was asked to save its state for a job that is to get its place, and is ended afterwards."""
        is_asked = self.save_by is not None and bool(self.preempted_by and self.requeue_by)
        return is_asked and not (self.kill_by or self.requeue_reason) and self.resize is None

    @property
    def saves_for(self) -> tuple[int, ...]:
        """Jobs that are to get its place, or GPUs of it, when it has saved its state."""
        if self.is_resizing:
            return self.gives_to if self.save_by is not None else ()
        return (self.preempted_by,) if self.saves_for_another else ()

    @property
    def is_spared(self) -> bool:
        """Whether it was asked to save its state for others, and none of them needs what it has any more."""
        asked = self.save_by is not None and self.state in STARTED
        return asked and not self.requeue_by and not self.kill_by

    @property
    def is_resizing(self) -> bool:
        """Whether its attempt is asked to end so that it goes on with another number of GPUs."""
        return self.resize is not None and bool(self.requeue_by) and not (self.kill_by or self.gpu_fault)

    def has_time_to_save(self, now: float) -> bool:
        """Whether it saves its state now, and is ended or goes on with other GPUs afterwards."""
        return bool(self.requeue_by) and not self.kill_by and self.save_by is not None and now < self.save_by

    @property
    def may_move(self) -> bool:
        """Whether it may be moved off its GPU as far as it is concerned: it has all of one, on one host."""
        if self.allocation is None or len(self.allocation.hosts) != 1 or self.gpus_kept:
            return False
        gpus = self.allocation.hosts[0].gpus
        return len(gpus) == 1 and not gpus[0].parent and gpus[0].claim not in SHARING

    def is_pending(self) -> bool:
        return self.state in PENDING

    @property
    def array_id(self) -> int:
        """Number of the array whose element it is; 0 if it is none."""
        return array_of(self.job_id) if index_of(self.job_id) else 0

    def bucket(self) -> Bucket:
        """Where the job waits."""
        return bucket_of(self.spec, self.job_id, self.avoid_host, self.excluded_hosts, self.waited_s)

    def rank(self) -> Rank:
        """Its place within the queue; a submission that is older by t has gained `t * aging_per_s` of priority."""
        spec, course, number = self.spec, self.course, self.job_id
        aged = self.submitted_at if course.ages_from is None else course.ages_from
        priority = spec.aging_per_s * aged - float(spec.priority or 0)
        return Rank(priority, float(array_of(number)) if course.order is None else course.order, index_of(number))

    def running(self, now: float) -> Running:
        """The started job as the policies see it, with what it still holds at `now`."""
        assert self.allocation is not None
        held = self.allocation.without_gpus() if self.moved_off else self.allocation
        began = self.started_at or self.dispatched_at or 0.0
        limit = self.spec.run_limit_s
        return Running(
            job_id=self.job_id,
            attempt=self.attempt,
            bucket=self.bucket(),
            allocation=held.as_of(now, self.held_since),
            state=self.state.value,
            started_at=began,
            ends_at=float("inf") if limit is None else began + limit,
            is_ending=bool(self.kill_by or self.requeue_by or self.moving_off),
            may_move=self.may_move,
            moved_off=self.allocation if self.moved_off else None,
            rerunnable=self.runs_again_after(RestartCause.PREEMPT),
            preempted=self.preempted,
            resumed_at=float("-inf") if self.resumed_at is None else self.resumed_at,
            save_by=float("-inf") if self.save_by is None or self.kill_by else self.save_by,
            saves_s=float(self.spec.warning_s or 0) if self.spec.saves_on_signal else 0.0,
            keeps=self.resize if self.is_resizing and self.state is not JobState.USUSP else None,
            gives_to=self.gives_to,
            wants_slots=self.spec.wanted_slots,
        )

    def _awaited(self) -> tuple[str, ...]:
        """Hosts that have to do something before the job begins."""
        if self.allocation is None or self.started_at is not None or self.state is not JobState.RUN:
            return ()
        unopened = tuple(part.host for part in self.allocation.hosts[1:] if part.host not in self.open_parts)
        return unopened or (self.allocation.first_host,)

    def view(self, usage: Usage | None = None, idle: tuple[GpuIdleness, ...] = ()) -> JobView:
        """A frozen copy for readers; pending reasons are added when asked for."""
        return JobView(
            job_id=self.job_id,
            spec=self.spec,
            state=self.state.value,
            submitted_at=self.submitted_at,
            attempt=self.attempt,
            allocation=self.allocation,
            effective_req=self.effective_req,
            dispatched_at=self.dispatched_at,
            started_at=self.started_at,
            pid=self.pid,
            exec_home=self.exec_home,
            exec_cwd=self.exec_cwd,
            finished_at=self.finished_at,
            result=self.result,
            usage=usage,
            messages=self.messages,
            notes=self.notes,
            suspending_reason=self.suspend_reason,
            requeues=self.requeues,
            retries=self.retries,
            restarts=self.restarts,
            resizes=self.resizes,
            save_by=self.save_by,
            is_spared=self.is_spared,
            moved_off=self.moved_off,
            gpus_kept=self.gpus_kept,
            idle=idle,
            idle_warning=self.idle_warning,
            kill_reason=self.kill_reason,
            leaving=tuple(part.host for part in self.left_parts()) if self.state in FINISHED else (),
            awaited=self._awaited(),
            service_port=self.service_port,
            service_at=self.service_at,
        )
