"""What is said of the starts of jobs that wait for a place, noted for the store, so that it can be judged later.

Of each job once, after the first cycle that has found no place for it; again, at most MOST_AGAIN times, when the
scheduler plans its start for the first time, or plans it otherwise by more than MOVED_S and than half of what was left
to wait. Plans are looked at once in LOOK_S. It knows how long jobs of each kind have waited, decides nothing, and is
no part of the state: what a master of before knew is learned anew from its store.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

from gsched.base.errors import RequirementError
from gsched.base.ids import array_of
from gsched.core.dispatch.snapshot_builder import local_type_of
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import (
    AnyEvent,
    ArrayElementsFinished,
    JobDispatched,
    JobFinished,
    JobModified,
    JobRequeued,
    JobSubmitted,
    JobSwitched,
)
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Bucket, RequirementClass
from gsched.model.views.start_estimate import StartEstimate
from gsched.policy.future.past_waits import AT_ONCE_S, PastStart, PastWaits, WaitEstimate, waits_of
from gsched.policy.future.wait_forecasts import WaitForecasts
from gsched.policy.future.waiting_work import WaitingShape, WaitingWork
from gsched.policy.requirement.demand_cache import Demands

AT_ONCE = 300
"""Jobs that are looked at in one turn."""
MOST_READ = 30
"""Requirements that are read for the first time in one turn."""
LOOK_S = 60.0
MOVED_S = 600.0
MOST_AGAIN = 4
MOST_WAITING = 200_000
"""Jobs that are remembered until they start; of more nothing is said."""
MOST_CLASSES = 4_096
GATHER_S = 5.0
"""How long what was said is gathered, where nothing else is stored that it could go with."""


class _Said:
    """What was said of a job, or of an array."""

    __slots__ = ("again", "at", "guess_s", "plan_at", "usual")

    def __init__(self, usual: WaitEstimate | None, guess_s: float, at: float, plan_at: float | None) -> None:
        self.usual = usual
        """If it came from waits alone."""
        self.guess_s = guess_s
        """How long it waits from its submission on, by the work that waited before it."""
        self.at = at
        self.plan_at = plan_at
        self.again = 0


class StartEstimates:
    """Of one engine. Times are UTC seconds."""

    def __init__(self, state: ClusterState, config: ClusterConfig) -> None:
        self._state = state
        self._known = PastWaits()
        """What is said by it where too little is known of guesses."""
        self._work = WaitingWork()
        self._forecasts = WaitForecasts()
        self._new: list[int] = []
        """Jobs and arrays that no cycle has looked at yet."""
        self._due: deque[int] = deque()
        """Those of which something is to be said."""
        self._before: set[int] = set()
        """Of these, those that waited before there was this engine: others wait for them, and nothing is said."""
        self._said: dict[int, _Said] = {}
        self._rows: list[StartEstimate] = []
        self._looked_at = -math.inf
        self._flush_at = 0.0
        self._read = 0
        self.configure(config)

    def configure(self, config: ClusterConfig) -> None:
        """What jobs ask for is read by this configuration from now on."""
        self._local_type = local_type_of(config)
        self._demands = Demands(self._local_type)
        self._gpus: dict[RequirementClass, float] = {}
        self._work.configure({name: queue.priority for name, queue in config.queues.items()})

    def learn(self, past: Iterable[PastStart]) -> None:
        """These jobs have started before there was this engine; what its state holds waited and ran by then."""
        self._known = waits_of(past)
        for job in self._state.jobs.values():
            if job.is_pending():
                self._due.append(job.job_id)
                self._before.add(job.job_id)
            elif job.allocation is not None and job.dispatched_at is not None and job.finished_at is None:
                self._work.begin(job.job_id, _held(job.bucket(), job.allocation), job.dispatched_at)
        for number, array in self._state.arrays.items():
            if array.count:
                self._due.append(number)
                self._before.add(number)

    # -- what happens ---------------------------------------------------------------------------------------------

    def note(self, events: Iterable[AnyEvent]) -> None:
        """This has been applied to the state."""
        for event in events:
            if isinstance(event, JobSubmitted):
                self._new.append(event.job_id)
            elif isinstance(event, JobDispatched):
                self._note_start(event)
            elif isinstance(event, JobFinished | JobRequeued):
                self._work.end(event.job_id, event.at)
                if isinstance(event, JobFinished):
                    self._forget_started(event.job_id)
            elif isinstance(event, ArrayElementsFinished):
                self._forget_started(event.job_id)
            elif isinstance(event, JobModified | JobSwitched):
                said = self._said.get(event.job_id)
                if said is not None:  # it asks for something else than when that was said
                    said.usual = None
                    self._forecasts.leave(event.job_id)

    def _note_start(self, event: JobDispatched) -> None:
        number = array_of(event.job_id)
        job = self._state.jobs.get(event.job_id)
        if job is None:
            return
        self._work.begin(event.job_id, _held(job.bucket(), event.allocation), event.at)
        said = self._said.get(number)
        if said is not None and event.attempt == 1:
            spec, gpus = job.spec, self._shape_of(job.spec.queue, job.bucket().requirement).gpus
            self._known.note(PastStart(spec.user, spec.queue, gpus, job.submitted_at, event.at), said.usual)
            self._forecasts.started(number, event.at, self._left(number))
        self._forget_started(number)

    def _left(self, number: int) -> int:
        """How many elements of that array wait; 0 for a job."""
        array = self._state.arrays.get(number)
        return 0 if array is None else array.count

    def _forget_started(self, number: int) -> None:
        left = self._left(number)
        self._work.leave(number, left)
        if not left:
            self._said.pop(number, None)
            self._forecasts.leave(number)

    def has_cycled(self) -> None:
        """A cycle was carried out: whatever still waits has to wait."""
        self._due.extend(self._new)
        self._new.clear()

    # -- what is said ---------------------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Whether `look` has something to do at once."""
        return bool(self._due)

    def look(self, now: float, planned: Mapping[int, PlannedStart], most: int = AT_ONCE) -> None:
        """Say something of so many jobs that a cycle has found no place for, and of starts that are planned otherwise.
        `planned`: what the last cycle planned.
        """
        self._read, left = 0, min(most, len(self._due))
        while left and (self._read < MOST_READ or most > AT_ONCE):
            left, number = left - 1, self._due.popleft()
            if len(self._said) < MOST_WAITING and number not in self._said:
                self._say(number, now, planned.get(number))
        if not 0 <= now - self._looked_at < LOOK_S:
            self._looked_at = now
            for number, plan in planned.items():
                said = self._said.get(array_of(number))
                if said is not None and plan.at is not None and self._is_news(said, plan.at, now):
                    self._say_again(array_of(number), said, now, plan)

    def of(
        self, spec: JobSpec, requirement: RequirementClass, now: float, waiting: JobRecord | None = None
    ) -> WaitEstimate | None:
        """How long such jobs wait, of one that is submitted now or waits; None: too few are known."""
        shape = self._shape_of(spec.queue, requirement)
        if waiting is None:
            return self._usual(spec, shape, self._work.guess_s(shape, now), now)
        waited_s, said = now - waiting.submitted_at, self._said.get(array_of(waiting.job_id))
        if said is None:
            return self._known.estimate(spec.user, spec.queue, shape.gpus, max(waited_s, AT_ONCE_S))
        return self._usual(spec, shape, said.guess_s, now, waited_s)

    def _usual(
        self, spec: JobSpec, shape: WaitingShape, guess_s: float, now: float, waited_s: float = 0.0
    ) -> WaitEstimate | None:
        known = (spec.user, spec.queue, shape.gpus)
        found = self._forecasts.estimate(*known, guess_s, now, waited_s)
        return found or self._known.estimate(*known, max(waited_s, AT_ONCE_S))

    def is_due(self, now: float) -> bool:
        """Whether what was said is to be stored now, though nothing else is."""
        return bool(self._rows) and (now >= self._flush_at or self._flush_at > now + GATHER_S)

    def take(self) -> list[StartEstimate]:
        """All that was said and not taken yet."""
        rows, self._rows = self._rows, []
        return rows

    def put_back(self, rows: list[StartEstimate], now: float) -> None:
        """They could not be stored: they are to be taken once more, after a while."""
        self._rows, self._flush_at = rows + self._rows, now + GATHER_S

    def _say(self, number: int, now: float, plan: PlannedStart | None) -> None:
        job = self._waiting(number)
        if job is None:
            self._before.discard(number)
            return
        spec, count = job.spec, max(1, self._left(number))
        shape = self._shape_of(spec.queue, job.bucket().requirement)
        guess_s = self._work.guess_s(shape, now, count)
        self._work.wait(number, shape, count)
        if number in self._before:
            self._before.discard(number)
            return
        known = (spec.user, spec.queue, shape.gpus)
        by_guess = self._forecasts.estimate(*known, guess_s, now)
        usual = by_guess or self._known.estimate(*known)
        self._said[number] = _Said(None if by_guess else usual, guess_s, now, None if plan is None else plan.at)
        p90_s = None if usual is None else usual.p90_s
        self._forecasts.told(number, spec.user, spec.queue, shape.gpus, job.submitted_at, guess_s, p90_s)
        self._add(number, job.submitted_at, now, usual, plan)

    def _say_again(self, number: int, said: _Said, now: float, plan: PlannedStart) -> None:
        job = self._waiting(number)
        if job is None:
            return
        usual = self.of(job.spec, job.bucket().requirement, now, job)
        said.again, said.plan_at, said.at = said.again + 1, plan.at, now
        self._add(number, job.submitted_at, now, usual, plan)

    def _add(
        self, number: int, submitted_at: float, now: float, usual: WaitEstimate | None, plan: PlannedStart | None
    ) -> None:
        if not self._rows:
            self._flush_at = now + GATHER_S
        mean_s, plan_at = self._known.mean_s, None if plan is None else plan.at
        row = StartEstimate(
            job_id=number,
            at=now,
            p50_at=None if usual is None else submitted_at + usual.p50_s,
            p90_at=None if usual is None else submitted_at + usual.p90_s,
            mean_at=submitted_at + mean_s if mean_s else None,
            plan_at=plan_at,
            limit_at=None if plan is None or plan.text else plan_at,  # its text says what it rests on besides limits
        )
        self._rows.append(row)

    def _is_news(self, said: _Said, at: float, now: float) -> bool:
        if said.again >= MOST_AGAIN or now <= said.at:
            return False
        if said.plan_at is None:
            return True
        return abs(at - said.plan_at) > max(MOVED_S, 0.5 * (said.plan_at - said.at))

    def _waiting(self, number: int) -> JobRecord | None:
        """The job, or one that stands for the waiting elements of the array, if it waits for nothing but a place."""
        waits = self._state.waits
        if number in waits.held or number in waits.blocked or number in waits.forced or number in waits.delayed:
            return None
        array = self._state.arrays.get(number)
        if array is not None:
            return array.template() if array.count else None
        job = self._state.jobs.get(number)
        return job if job is not None and job.is_pending() else None

    def _shape_of(self, queue: str, requirement: RequirementClass) -> WaitingShape:
        gpus = self._gpus.get(requirement)
        if gpus is None:
            if len(self._gpus) >= MOST_CLASSES:
                self._demands, self._gpus = Demands(self._local_type), {}
            self._read += 1
            demand = self._demands.of(requirement)
            gpus = 0.0 if isinstance(demand, RequirementError) else round(demand.usual_gpus(), 2)
            self._gpus[requirement] = gpus
        return WaitingShape(queue, gpus, requirement.slots, _stated_s(requirement))


def _held(bucket: Bucket, allocation: Allocation) -> WaitingShape:
    """What a started job has."""
    gpus = math.fsum(gpu.share for part in allocation.hosts for gpu in part.gpus)
    return WaitingShape(bucket.queue, round(gpus, 2), allocation.slots, _stated_s(bucket.requirement))


def _stated_s(requirement: RequirementClass) -> float | None:
    return requirement.estimate_s if requirement.run_s is None else requirement.run_s
