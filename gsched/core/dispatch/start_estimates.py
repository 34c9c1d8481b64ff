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
    JobSubmitted,
    JobSwitched,
)
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.reason import PlannedStart
from gsched.model.scheduling.snapshot import RequirementClass
from gsched.model.views.start_estimate import StartEstimate
from gsched.policy.future.past_waits import AT_ONCE_S, PastStart, PastWaits, WaitEstimate, waits_of
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

    __slots__ = ("again", "at", "plan_at", "usual")

    def __init__(self, usual: WaitEstimate | None, at: float, plan_at: float | None) -> None:
        self.usual = usual
        self.at = at
        self.plan_at = plan_at
        self.again = 0


class StartEstimates:
    """Of one engine. Times are UTC seconds."""

    def __init__(self, state: ClusterState, config: ClusterConfig) -> None:
        self._state = state
        self._known = PastWaits()
        self._new: list[int] = []
        """Jobs and arrays that no cycle has looked at yet."""
        self._due: deque[int] = deque()
        """Those of which something is to be said."""
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

    def learn(self, past: Iterable[PastStart]) -> None:
        """These jobs have started before there was this engine."""
        self._known = waits_of(past)

    # -- what happens ---------------------------------------------------------------------------------------------

    def note(self, events: Iterable[AnyEvent]) -> None:
        """This has been applied to the state."""
        for event in events:
            if isinstance(event, JobSubmitted):
                self._new.append(event.job_id)
            elif isinstance(event, JobDispatched):
                self._note_start(event)
            elif isinstance(event, JobFinished):
                self._said.pop(event.job_id, None)
            elif isinstance(event, ArrayElementsFinished):
                self._forget_started(event.job_id)
            elif isinstance(event, JobModified | JobSwitched):
                said = self._said.get(event.job_id)
                if said is not None:  # it asks for something else than when that was said
                    said.usual = None

    def _note_start(self, event: JobDispatched) -> None:
        number = array_of(event.job_id)
        said = self._said.get(number)
        if said is None or event.attempt != 1:
            return
        job = self._state.jobs.get(event.job_id)
        if job is not None:
            start = PastStart(
                job.spec.user, job.spec.queue, self._gpus_of(job.bucket().requirement), job.submitted_at, event.at
            )
            self._known.note(start, said.usual)
        self._forget_started(number)

    def _forget_started(self, number: int) -> None:
        array = self._state.arrays.get(number)
        if array is None or not array.count:
            self._said.pop(number, None)

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

    def of(self, spec: JobSpec, requirement: RequirementClass, waited_s: float) -> WaitEstimate | None:
        """How long such jobs wait, of one that has waited for so long; None: too few are known."""
        gpus = self._gpus_of(requirement)
        return self._known.estimate(spec.user, spec.queue, gpus, max(waited_s, AT_ONCE_S))

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
            return
        usual = self.of(job.spec, job.bucket().requirement, now - job.submitted_at)
        self._said[number] = _Said(usual, now, None if plan is None else plan.at)
        self._add(number, job.submitted_at, now, usual, plan)

    def _say_again(self, number: int, said: _Said, now: float, plan: PlannedStart) -> None:
        job = self._waiting(number)
        if job is None:
            return
        usual = self.of(job.spec, job.bucket().requirement, now - job.submitted_at)
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

    def _gpus_of(self, requirement: RequirementClass) -> float:
        found = self._gpus.get(requirement)
        if found is None:
            if len(self._gpus) >= MOST_CLASSES:
                self._demands, self._gpus = Demands(self._local_type), {}
            self._read += 1
            found = self._gpus[requirement] = round(self._demands.least(requirement).get("ngpus", 0.0), 2)
        return found
