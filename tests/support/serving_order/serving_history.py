"""What happened on a cluster, as an outsider saw it: jobs, when and where they ran, and what was free at each moment.

It knows events only: nothing of a scheduler's plans or reasons. `gsched` is not imported here, on purpose.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

SAME_TIME_S = 1e-4
"""Times of day that differ by less are one, but for rounding."""
Room = npt.NDArray[np.int64]
"""A row for each host: GPUs, slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt of a job: from `start` to `end`, on these hosts."""

    start: float
    end: float = math.inf
    hosts: tuple[str, ...]
    ended_as: int = 0
    """Of those that ended at one time, the one with the lowest was recorded first; it matters for estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job that takes the same on each of so many hosts. Times are seconds on any one clock."""

    number: int
    submitted: float
    queue: str = "normal"
    user: str = "ann"
    hosts: int = 1
    gpus: int = 1
    """On each of its hosts, for itself."""
    slots: int = 1
    """On each of its hosts."""
    priority: int = 0
    """-sp."""
    limit_s: float | None = None
    """The run limit, or the estimate, as it was known when the job was submitted."""
    usable: frozenset[str] | None = None
    """Hosts that it may run on; None: all."""
    held: tuple[tuple[float, float], ...] = ()
    """From when to when something of its own kept it from starting: a hold, a dependency, a closed window."""
    counts_in: tuple[str, ...] = ()
    """Limits on the number of jobs that it counts in (`PastCluster.most_jobs`)."""
    runs: tuple[Run, ...] = ()
    left_at: float = math.inf
    """When it was killed as it waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastQueue:
    """A queue."""

    priority: int = 0
    reserved: int = 1
    """The first so many waiting jobs have a reservation: 0 `none`, 1 `easy`, N `conservative`."""
    reserves_without_time: bool = True
    """Whether a job of which nobody knows when it starts has a reservation, too."""
    backfill: bool = True
    """Whether its jobs may use what is reserved until it is needed."""
    plan_delay: float = 0.0
    """How long others may put off a reservation that rests on estimates, in multiples of the wait told first."""
    shares: Mapping[str, int] | None = None
    """User -> shares, of a queue with fairshare."""
    factors: Mapping[str, float] = field(default_factory=lambda: {"run_time": 0.7, "gpu_run_time": 0.0, "job": 3.0})
    """What a user's dynamic priority counts, by hours of the jobs that run, GPU hours of them and their slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptHosts:
    """Whole hosts that an advance reservation keeps for others from `start` to `end`."""

    start: float
    end: float
    hosts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCluster:
    """What there was to be had."""

    hosts: Mapping[str, tuple[int, int]]
    """Name -> GPUs, slots."""
    queues: Mapping[str, PastQueue] = field(default_factory=lambda: {"normal": PastQueue()})
    most_jobs: Mapping[str, int] = field(default_factory=dict)
    """Limit -> how many of the jobs that count in it may run at once."""
    kept: tuple[KeptHosts, ...] = ()
    """Advance reservations that nobody used; they were made before the first job came."""
    estimate_s: float | None = None
    """How long a job without a limit was taken to run; None: nobody knows."""
    learns: bool = False
    """Whether the past says how long a job without a limit is taken to run (`RunTimes`)."""


class RunTimes:
    """How long jobs without a limit are taken to run, by those of their kind that have ended: 9 in 10 of the last 20
    took no longer. At least 5 must have ended. It rises at once, and falls when it would be less than 4/5 of it.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[object, ...], list[float]] = {}
        self._known: dict[tuple[object, ...], float] = {}

    def of(self, job: PastJob) -> float | None:
        return self._known.get(self._kind(job))

    def note(self, job: PastJob, run: Run) -> None:
        kind = self._kind(job)
        last = self._last[kind] = [*self._last.get(kind, []), max(1.0, round(run.end - run.start, 3))][-20:]
        if len(last) >= 5:
            found, before = sorted(last)[math.ceil(0.9 * len(last)) - 1], self._known.get(kind, math.inf)
            if found > before or found < 0.8 * before:
                self._known[kind] = found

    @staticmethod
    def _kind(job: PastJob) -> tuple[object, ...]:
        return job.user, job.queue, job.hosts, job.gpus, job.slots


class Moment:
    """The cluster after everything that happened at one time."""

    def __init__(self, cluster: PastCluster) -> None:
        self.cluster = cluster
        self.now = -math.inf
        self.until = math.inf
        """When the next thing happens."""
        self.rows = {name: row for row, name in enumerate(cluster.hosts)}
        self.free: Room = np.array(list(cluster.hosts.values()), np.int64).reshape(-1, 2)
        self.running: dict[int, tuple[PastJob, Run]] = {}
        self.waiting: dict[int, PastJob] = {}
        self.started: list[PastJob] = []
        self.counts: Counter[str] = Counter()
        """Limit -> jobs that run and count in it."""
        self._needs: dict[tuple[int, int], Room] = {}
        self._times = RunTimes()

    def needs(self, job: PastJob) -> Room:
        """On each host."""
        needs = self._needs.get((job.gpus, job.slots))
        if needs is None:
            needs = self._needs[job.gpus, job.slots] = np.array((job.gpus, job.slots), np.int64)
        return needs

    def rows_of(self, run: Run) -> list[int]:
        return [self.rows[name] for name in run.hosts]

    def lasts(self, job: PastJob) -> float:
        """How long the job was thought to run."""
        known = job.limit_s if job.limit_s is not None else self.estimate(job)
        return math.inf if known is None else known

    def estimate(self, job: PastJob) -> float | None:
        """Of a job without a limit."""
        if self.cluster.estimate_s is not None:
            return self.cluster.estimate_s
        return self._times.of(job) if self.cluster.learns else None

    def known_end(self, job: PastJob, run: Run) -> float:
        """When it was thought to end: at any moment, once the time of its limit is over. Who has no limit and outlasts
        the estimate is given twice as long, and so on.
        """
        lasts = self.lasts(job)
        while job.limit_s is None and run.start + lasts <= self.now + SAME_TIME_S:
            lasts *= 2
        return max(self.now, run.start + lasts)

    def is_held(self, job: PastJob) -> bool:
        return any(since <= self.now < until for since, until in job.held)

    def take(self, job: PastJob, run: Run) -> None:
        rows = self.rows_of(run)
        self.free[rows] -= self.needs(job)
        if (self.free < 0).any():
            raise ValueError(f"job {job.number} started at {self.now} on {', '.join(run.hosts)}, which had no room")
        self.running[job.number] = job, run
        self.started.append(job)
        self.waiting.pop(job.number, None)
        self.counts.update(job.counts_in)

    def give(self, job: PastJob) -> None:
        _, run = self.running.pop(job.number)
        self.free[self.rows_of(run)] += self.needs(job)
        self.counts.subtract(job.counts_in)
        self._times.note(job, run)


_LEAVES, _ENDS, _ARRIVES, _STARTS, _LOOKS = range(5)
"""What is taken first of that which happens at one time."""


def moments(cluster: PastCluster, jobs: list[PastJob]) -> Iterator[Moment]:
    """The cluster after each time at which something happened. It is one object, which changes.

    Raises ValueError where the history cannot be: a job that ran where there was no room for it.
    """
    events: list[tuple[float, int, int, PastJob, Run | None]] = []
    for number, job in enumerate(jobs):
        events.append((job.submitted, _ARRIVES, number, job, None))
        events += [(edge, _LOOKS, number, job, None) for pair in job.held for edge in pair if edge < math.inf]
        if job.left_at < math.inf:
            events.append((job.left_at, _LEAVES, number, job, None))
        for index, run in enumerate(job.runs):
            if run.start < job.submitted or run.end <= run.start or len(set(run.hosts)) != job.hosts:
                raise ValueError(
                    f"job {job.number} of {job.submitted} ran from {run.start} to {run.end} on {len(run.hosts)} hosts"
                )
            events.append((run.start, _STARTS, number, job, run))
            if run.end < math.inf:
                waits_again = index + 1 < len(job.runs)
                events.append((run.end, _ENDS, run.ended_as, job, run if waits_again else None))
    if jobs:
        edges = [edge for kept in cluster.kept for edge in (kept.start, kept.end)]
        events += [(edge, _LOOKS, 0, jobs[0], None) for edge in edges]
    events.sort(key=lambda each: each[:3])
    moment, at = Moment(cluster), 0
    while at < len(events):
        moment.now = events[at][0]
        moment.started.clear()
        while at < len(events) and events[at][0] == moment.now:
            _, what, _, job, attempt = events[at]
            at += 1
            _happen(moment, what, job, attempt)
        moment.until = events[at][0] if at < len(events) else math.inf
        yield moment


def _happen(moment: Moment, what: int, job: PastJob, run: Run | None) -> None:
    if what == _LEAVES:
        moment.waiting.pop(job.number, None)
    elif what == _ENDS:
        moment.give(job)
    elif what == _STARTS:
        assert run is not None
        moment.take(job, run)
    if what == _ARRIVES or (what == _ENDS and run is not None):
        moment.waiting[job.number] = job
