"""Events: facts in the past tense, true for ever. The state of a cluster is what they add up to.

Events carry everything (full allocation, times, ids, reasons): applying one computes nothing anew. They are stored as
JSON objects tagged by `kind`; a field may be added with a default, none may change its meaning. Times are UTC seconds.
"""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText
from gsched.model.gpus.gpu_idle import IdleWarning
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.jobs.job_signal import OwedSignal
from gsched.model.jobs.notice import Notice
from gsched.model.ledgers.allocation import Allocation


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True, gc=False):
    """What all events have: `at`, when it happened, in UTC seconds.

    A field with its default is not written: a default must never change once events are stored.
    """

    at: float


class JobEvent(Event, frozen=True, kw_only=True):
    """An event of one job."""

    job_id: int


class JobSubmitted(JobEvent, frozen=True, kw_only=True, tag="job_submitted"):
    """A submission was accepted. The same `token` and `place` in it never make a second job."""

    spec: JobSpec
    token: str = ""
    place: int = 0
    not_before: float = 0.0
    """It does not start before this time (NEW_JOB_SCHED_DELAY)."""


class SubmissionAccepted(Event, frozen=True, kw_only=True, tag="submission_accepted"):
    """A submission of many jobs was accepted: those numbered from `first_id` on are made of it, in this order. Each has
    an event of its own in the commits that follow.
    """

    first_id: int
    user: str
    token: str = ""
    specs: tuple[msgspec.Raw, ...]
    """The different specifications (JobSpec), each as it is stored."""
    places: tuple[int, ...] = ()
    """Of each job, which of `specs` it has; empty: each has its own."""
    jobs: int
    """Elements of arrays counted."""
    slots: int
    """What they want at the least, together."""

    @property
    def count(self) -> int:
        """Numbers that were given out; that of an array is one."""
        return len(self.places) or len(self.specs)

    def spec_at(self, place: int) -> msgspec.Raw:
        """What the job at that place is made of."""
        return self.specs[self.places[place] if self.places else place]


class JobReleased(JobEvent, frozen=True, kw_only=True, tag="job_released"):
    """The job's dependency condition has come true; it stays true."""


class JobModified(JobEvent, frozen=True, kw_only=True, tag="job_modified"):
    """The job (of an array: all its elements that have not started) is as `spec` says now.

    `changes` tells of each change in words, for the history.
    """

    by: str
    spec: JobSpec
    changes: tuple[AnyText, ...] = ()
    allocation: Allocation | None = None
    """What a started job holds from now on, as if since its dispatch; None: what it held."""
    effective_req: str = ""
    """The requirement it runs by, with that allocation."""


class JobSwitched(JobEvent, frozen=True, kw_only=True, tag="job_switched"):
    """The job is in another queue; `spec` holds that queue and what follows from it."""

    by: str
    spec: JobSpec


class JobMoved(JobEvent, frozen=True, kw_only=True, tag="job_moved"):
    """gtop, gbot: the job's place in the order of its queue is `order` now."""

    by: str
    order: float
    position: int
    to_top: bool
    ages_from: float | None = None
    """JOB_PRIORITY_OVER_TIME: its priority is that of a job submitted then, as of those it was put among."""
    exchanged_with: int = 0
    """The job whose place this is; `position` says nothing then. 0: it was put somewhere else."""


class JobForced(JobEvent, frozen=True, kw_only=True, tag="job_forced"):
    """grun: the job is to start on these hosts at once, whatever the policies say; empty: wherever there is room."""

    by: str
    hosts: tuple[str, ...]


class JobDispatched(JobEvent, frozen=True, kw_only=True, tag="job_dispatched"):
    """The job was given an allocation; its attempt is about to be started there."""

    attempt: int
    allocation: Allocation
    effective_req: str


class JobStarted(JobEvent, frozen=True, kw_only=True, tag="job_started"):
    """The attempt's first process runs."""

    attempt: int
    pid: int
    home: str = ""
    cwd: str = ""
    boot_id: str = ""


class JobPartStarted(JobEvent, frozen=True, kw_only=True, tag="job_part_started"):
    """The attempt's part on `host`, which is not its first one, is open. The job starts when all of them are."""

    attempt: int
    host: str


class JobPartEnded(JobEvent, frozen=True, kw_only=True, tag="job_part_ended"):
    """The attempt's part on `host` is over: nothing of it is left there, before the job's end or after it."""

    attempt: int
    host: str
    usage: Usage = Usage()
    """What was used there."""
    late_cpu_s: float = 0.0
    """CPU seconds of it that were not counted with the job's end."""


class JobMessagePosted(JobEvent, frozen=True, kw_only=True, tag="job_message_posted"):
    """An external message was put into one of the job's message boxes."""

    user: str
    box: int
    text: str
    attachment: str = ""
    """Id of the blob that goes with it; empty: one that the box has stays there."""
    attached_bytes: int = 0


class JobNoted(JobEvent, frozen=True, kw_only=True, tag="job_noted"):
    """A remark for the job's history: how to ask for a GPU, where the output went instead.

    `is_warning`: something is not as it was asked for, so `gjobs -l` shows it too.
    """

    text: AnyText
    is_warning: bool = True


class JobIdleWarned(JobEvent, frozen=True, kw_only=True, tag="job_idle_warned"):
    """All GPUs of the job have been idle for so long (GPU_IDLE) that it was told."""

    attempt: int
    warning: IdleWarning


class JobIdleActed(JobEvent, frozen=True, kw_only=True, tag="job_idle_acted"):
    """What follows a warning was done, or could not be: `text` says which, and why."""

    attempt: int
    number: int
    action: str
    text: AnyText


class JobIdleOver(JobEvent, frozen=True, kw_only=True, tag="job_idle_over"):
    """The warning with this number is taken back; `text` says why. The next one counts anew."""

    attempt: int
    number: int
    text: AnyText


class JobServiceAnswered(JobEvent, frozen=True, kw_only=True, tag="job_service_answered"):
    """The attempt listens on the port of its service."""

    attempt: int
    port: int


class JobFinished(JobEvent, frozen=True, kw_only=True, tag="job_finished"):
    """The attempt is over and what it held is free again, on other hosts than the first when its part there has ended;
    `attempt` is 0 for a job that never ran.
    """

    attempt: int
    result: AttemptResult
    parts_cpu_s: dict[str, float] = {}
    """Host that is not the first -> CPU seconds used there that `result` counts."""
    post_processed: bool = False
    """Nothing of the job is left on its hosts: no JobPostProcessed follows. Stores of before say that by the latter."""


class JobPostProcessed(JobEvent, frozen=True, kw_only=True, tag="job_post_processed"):
    """Nothing of the job is left on its hosts, some time after its end."""

    attempt: int
    failed: bool = False
    """A post-execution command failed (POST_ERR)."""


class ArrayElementsFinished(JobEvent, frozen=True, kw_only=True, tag="array_elements_finished"):
    """Elements of the array `job_id` that had not started ended all at once (killed, dependency never satisfied)."""

    indices: str
    """As gsched.base.indices prints them."""
    result: AttemptResult


class ArrayElementsRequeued(JobEvent, frozen=True, kw_only=True, tag="array_elements_requeued"):
    """Elements of the array `job_id` that ended without having been started wait again."""

    indices: str
    """As gsched.base.indices prints them."""
    by: str
    hold: bool = False
    """They are PSUSP; the array has no other waiting elements then."""


class JobRequeueRequested(JobEvent, frozen=True, kw_only=True, tag="job_requeue_requested"):
    """The started job is to end and then wait again: grequeue, preemption by job `preempted_by`, a failed GPU."""

    by: str
    hold: bool = False
    """It is to be PSUSP then."""
    preempted_by: int = 0
    gpu_fault: AnyText = ""
    """The system asks, because a GPU of the job has failed: which one, and how."""
    reason: AnyText = ""
    """Why the system asks otherwise."""
    save_by: float | None = None
    """It is asked to save its state, and has until then, UTC seconds; None: it is ended at once."""
    resize: Allocation | None = None
    """The system asks, so that it goes on at once with another number of GPUs: what it is to hold then."""
    gives_to: tuple[int, ...] = ()
    """The jobs that wait for what it gives back so, also those that it was asked for before."""
    gives: tuple[int, ...] = ()
    """How many of its GPUs each of `gives_to` gets; empty in events of before it was recorded."""


class JobPreemptionWithdrawn(JobEvent, frozen=True, kw_only=True, tag="job_preemption_withdrawn"):
    """Job `preempted_by` needs the job's place no more, before its time to save its state was over: it is not ended
    then. What it was asked for stands as long: an attempt that ends by `save_by` is run again.
    """

    attempt: int
    preempted_by: int


class JobResizeWithdrawn(JobEvent, frozen=True, kw_only=True, tag="job_resize_withdrawn"):
    """None of the jobs `gives_to` needs the lent GPUs any more, before the job's time to save its state was over: it
    keeps them and is not ended then. An attempt that ends for it all the same by `save_by` goes on with as many.
    """

    attempt: int
    gives_to: tuple[int, ...]


class JobEndWarned(JobEvent, frozen=True, kw_only=True, tag="job_end_warned"):
    """The attempt was warned on its first host before its run limit, or the time of -t, ends it: at `ends_by` by that
    host's clock; None: it was not told when.
    """

    attempt: int
    ends_by: float | None = None


class JobRequeued(JobEvent, frozen=True, kw_only=True, tag="job_requeued"):
    """The attempt is given up (or was over) and the job is pending again; what it held is free."""

    attempt: int
    reason: AnyText
    avoid_host: str = ""
    not_before: float = 0.0
    """No new attempt before this time (back-off of starts that fail, and of attempts that end at once)."""
    failed_start: bool = True
    """Its command was never executed; otherwise it ran, and is to run again."""
    result: AttemptResult | None = None
    """How the attempt ended, where that is known."""
    by: str = ""
    """Who asked for it; empty: nobody."""
    hold: bool = False
    at_head: bool = False
    """It is served before its equals (requeue exit values)."""
    exclude_host: str = ""
    """The job must not run there again."""
    retry: str = ""
    """The class of the failure that it is run again for (RETRY); empty: another reason."""
    restart: str = ""
    """What it is run again after (RestartCause); empty: that does not count as a restart."""
    resized: bool = False
    """It goes on with what was said when it was asked to end (JobRequeueRequested.resize)."""
    short_runs: int = 0
    """So many attempts in a row, with this one, ended soon and asked for another: the reason of `not_before`."""


class JobSuspended(JobEvent, frozen=True, kw_only=True, tag="job_suspended"):
    """PEND -> PSUSP or RUN -> USUSP; by the system RUN -> SSUSP. Of an array: its elements that have not started."""

    by: str
    by_system: bool = False
    reason: AnyText = ""
    """For SSUSP: LSF's suspending reason; else what the user said of it."""
    preempted_by: int = 0
    """The job that took its slots; 0 when it keeps them."""
    moves_gpus: bool = False
    """It is to be moved off its GPU as well, where that can be done."""
    unrecorded: int = 0
    """This attempt runs somewhere without a record, by the word of a store that is lost; 0 when none does."""


class JobGpusMoved(JobEvent, frozen=True, kw_only=True, tag="job_gpus_moved"):
    """The suspended attempt is off its GPU, which is free: what it had in its memory is in that of the host."""

    attempt: int


class JobGpusKept(JobEvent, frozen=True, kw_only=True, tag="job_gpus_kept"):
    """The suspended attempt could not be moved off its GPU, and keeps it; it is not tried again."""

    attempt: int
    why: AnyText


class JobResumed(JobEvent, frozen=True, kw_only=True, tag="job_resumed"):
    """PSUSP -> PEND, USUSP or SSUSP -> RUN. Of an array: its elements that have not started."""

    by: str
    by_system: bool = False
    reason: str = ""
    """What the user said of it."""


class JobSignalRequested(JobEvent, frozen=True, kw_only=True, tag="job_signal_requested"):
    """Somebody asked for a signal; `signal` 0 stands for "terminate" (INT, TERM, KILL with an interval between)."""

    by: str
    signal: int
    as_done: bool = False
    """gkill -d: a job that ends by it is DONE, as if it had exited with 0."""
    gpu_fault: AnyText = ""
    """The system asks, because a GPU of the job has failed: which one, and how."""
    reason: str = ""
    """gkill -C: why, in words."""
    lost_part: str = ""
    """The system asks, because the job's part on this host has ended."""
    keyword: str = ""
    """LSF's keyword for a job that the system ends by it; empty: a failed GPU's or a deadline's."""
    step: int | None = None
    """This step of the job alone is meant (scancel JOB.STEP)."""
    owed: OwedSignal | None = None
    """How it is kept for the hosts of a job that has started; None: it was not."""


class JobSignalsSent(JobEvent, frozen=True, kw_only=True, tag="job_signals_sent"):
    """A host has told that it has sent the attempt the signals up to this number."""

    attempt: int
    host: str
    number: int


class JobStatusLost(JobEvent, frozen=True, kw_only=True, tag="job_status_lost"):
    """The job's host no longer answers: the job is UNKWN."""

    host: str


class JobStatusRegained(JobEvent, frozen=True, kw_only=True, tag="job_status_regained"):
    """The host answers again and still runs the attempt."""

    host: str


class JobForgotten(JobEvent, frozen=True, kw_only=True, tag="job_forgotten"):
    """CLEAN_PERIOD after its end the job leaves the memory; its history stays in the store."""


class StaleResultRecorded(JobEvent, frozen=True, kw_only=True, tag="stale_result_recorded"):
    """An attempt that was already given up has ended after all: recorded, and changes nothing."""

    attempt: int
    host: str
    result: AttemptResult


class JobGpuCurves(JobEvent, frozen=True, kw_only=True, tag="job_gpu_curves"):
    """What the attempt made of its GPUs on this host over time, as it ended there. Nothing follows from it: it is for
    the history alone, and the state keeps none of it.
    """

    attempt: int
    host: str
    data: bytes
    """Packed by `gsched.model.gpus.gpu_curve`."""


class JobOutputRemoved(JobEvent, frozen=True, kw_only=True, tag="job_output_removed"):
    """What its host had kept of a finished run's output has gone, as the output of all jobs without -o was too much."""

    attempt: int
    host: str
    size: int
    """Bytes that it took."""
    limit_mib: int
    of_user: bool = False
    """The limit is that of the job's user; else that of the host."""


class JobNoticeMade(JobEvent, frozen=True, kw_only=True, tag="job_notice_made"):
    """A notice about the job (of an array: about all of it) is to be sent by the agent of `notice.host`."""

    notice: Notice
    key: str
    """What the job remembers, so that the same is not told again."""


class JobNoticeSettled(JobEvent, frozen=True, kw_only=True, tag="job_notice_settled"):
    """The notice was sent, or is given up because of `problem`. Without an id it was never to be sent."""

    notice_id: str
    event: str
    way: str
    problem: AnyText = ""
    tries: int = 0


class HostClosed(Event, frozen=True, kw_only=True, tag="host_closed"):
    """An administrator closed the host."""

    host: str
    by: str
    comment: str = ""


class HostOpened(Event, frozen=True, kw_only=True, tag="host_opened"):
    """An administrator opened the host again."""

    host: str
    by: str


class GpuClosed(Event, frozen=True, kw_only=True, tag="gpu_closed"):
    """An administrator closed one GPU of the host, until he opens it or until a time. `index` is what it was then."""

    host: str
    uuid: str
    index: int
    by: str
    comment: str = ""
    until: float | None = None


class GpuOpened(Event, frozen=True, kw_only=True, tag="gpu_opened"):
    """The GPU was opened again. `by` is empty where its time was over."""

    host: str
    uuid: str
    index: int
    by: str


class QueueControlled(Event, frozen=True, kw_only=True, tag="queue_controlled"):
    """An administrator opened or closed the queue for submission, activated or inactivated it for dispatch."""

    queue: str
    by: str
    is_open: bool = True
    is_active: bool = True
    comment: str = ""
    action: str = ""
    """`open`, `close`, `activate` or `inactivate`; empty in records of before it was written down."""


class JobGroupMade(Event, frozen=True, kw_only=True, tag="job_group_made"):
    """A job group exists, or has this limit now. None: no limit. Groups above it are made with it."""

    group: str
    by: str
    job_limit: int | None = None


class JobGroupRemoved(Event, frozen=True, kw_only=True, tag="job_group_removed"):
    """The job group, which was empty, is gone."""

    group: str
    by: str


class ReservationMade(Event, frozen=True, kw_only=True, tag="reservation_made"):
    """An advance reservation (grsvadd, grsvmod): so many slots and GPUs on each host from `start` to `end`."""

    name: str
    by: str
    users: tuple[str, ...]
    """Users and user groups as named."""
    start: float
    end: float
    slots: dict[str, int] = {}
    gpus: dict[str, int] = {}


class ReservationRemoved(Event, frozen=True, kw_only=True, tag="reservation_removed"):
    """The advance reservation was deleted, or its time is over."""

    name: str
    by: str


class ConfigApplied(Event, frozen=True, kw_only=True, tag="config_applied"):
    """The master started with, or was switched to, the configuration with this digest."""

    digest: str
    by: str
    started: bool = False
    hist_hours: float = 5.0
    """HIST_HOURS of that configuration: past use decays by it from now on."""
    queue_hist_hours: dict[str, float] = {}
    """The same of queues that have their own."""
    host: str = ""
    """The master's; empty in records of before it was written down, as are the rest."""
    cluster: str = ""
    servers: int = 0
    """Hosts that run jobs."""
    queues: int = 0
    files: str = ""
    """Blob with what the files said, as gsched.config.kept_files packs it; empty in records of before."""


class HostGpusKnown(Event, frozen=True, kw_only=True, tag="host_gpus_known"):
    """The host has GPUs, or, as it has left the cluster, none any more: default weights of fairshare go by it.

    A host that is down, or whose driver fails, still has the GPUs that it had.
    """

    host: str
    has_gpus: bool = True


class NumbersRaised(Event, frozen=True, kw_only=True, tag="numbers_raised"):
    """Numbers below this one belong to jobs of a store that is lost, so none of them is given out again."""

    next_job_id: int
    why: str = ""


class PastJobRecorded(JobEvent, frozen=True, kw_only=True, tag="past_job_recorded"):
    """A finished job of another batch system, whose history this one goes on from: what its accounting says. `at` is
    when it was taken over. Without a `result` it is an array, whose elements in `spec.indices` are known so far.
    """

    cluster: str
    spec: JobSpec
    state: str
    submitted_at: float
    dispatched_at: float | None = None
    finished_at: float
    allocation: Allocation | None = None
    effective_req: str = ""
    result: AttemptResult | None = None


class HistoryArchived(Event, frozen=True, kw_only=True, tag="history_archived"):
    """An administrator begins to take jobs out of the store that an archive has. It changes nothing else."""

    by: str
    part: str
    """Name of that part of the archive: `2026-09`, or `2026-09.2` for a second part."""


class StoreRenewed(Event, frozen=True, kw_only=True, tag="store_renewed"):
    """The store goes on as this generation of it, with what was left of one that is lost."""

    generation: int


AnyEvent = (
    JobSubmitted
    | SubmissionAccepted
    | JobReleased
    | JobModified
    | JobSwitched
    | JobMoved
    | JobForced
    | JobDispatched
    | JobStarted
    | JobPartStarted
    | JobPartEnded
    | JobMessagePosted
    | JobNoted
    | JobIdleWarned
    | JobIdleActed
    | JobIdleOver
    | JobServiceAnswered
    | JobFinished
    | JobPostProcessed
    | ArrayElementsFinished
    | ArrayElementsRequeued
    | JobRequeueRequested
    | JobEndWarned
    | JobSignalsSent
    | JobPreemptionWithdrawn
    | JobResizeWithdrawn
    | JobRequeued
    | JobSuspended
    | JobGpusMoved
    | JobGpusKept
    | JobResumed
    | JobSignalRequested
    | JobStatusLost
    | JobStatusRegained
    | JobForgotten
    | StaleResultRecorded
    | JobGpuCurves
    | JobNoticeMade
    | JobNoticeSettled
    | JobOutputRemoved
    | HostClosed
    | HostOpened
    | GpuClosed
    | GpuOpened
    | QueueControlled
    | JobGroupMade
    | JobGroupRemoved
    | ReservationMade
    | ReservationRemoved
    | ConfigApplied
    | HostGpusKnown
    | NumbersRaised
    | HistoryArchived
    | PastJobRecorded
    | StoreRenewed
)

PAST_JOB = "past_job_recorded"
GPU_CURVES = "job_gpu_curves"
"""The kind of the only events that are long and that hardly anybody asks for."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode_event(event: AnyEvent) -> bytes:
    """JSON of the event, with its `kind`."""
    return _encoder.encode(event)


def decode_event(payload: bytes) -> AnyEvent:
    """The event of a payload made by `encode_event`. Raises msgspec.DecodeError for anything else."""
    return _decoder.decode(payload)


def kind_of(event: AnyEvent) -> str:
    """The event's tag, `job_submitted` say."""
    return str(event.__struct_config__.tag)
