"""The state of a cluster: jobs, who waits where, who holds what. Events build it; replay reproduces it exactly.

Indexes (buckets of pending jobs, tokens, the ledger's holdings) are derived from the jobs and never stored. What hosts
report (load, devices) is observation, not state: see gsched.core.observed.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Hashable, Iterable, Iterator
from itertools import pairwise
from typing import TypeVar

import msgspec

from gsched.base.errors import Internal
from gsched.core import machine
from gsched.core.job import Job
from gsched.model.event import AnyEvent, JobEvent
from gsched.model.job import FINISHED, PENDING, STARTED, JobState
from gsched.model.ledger import Ledger, double_owners
from gsched.model.snapshot import Bucket

K = TypeVar("K", bound=Hashable)


class _Stored(msgspec.Struct, kw_only=True):
    """What a checkpoint holds."""

    jobs: list[Job]
    next_job_id: int
    closed_hosts: dict[str, tuple[str, str]]
    config_digest: str
    quarantined: dict[int, str]


class ClusterState:
    """All of it. Only `apply` changes it."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.next_job_id = 1
        self.closed_hosts: dict[str, tuple[str, str]] = {}
        """Host -> (who closed it, comment)."""
        self.config_digest = ""
        self.quarantined: dict[int, str] = {}
        """Jobs set aside because of an unreadable record -> what was wrong."""
        self.ledger = Ledger()
        self.pending: dict[Bucket, list[int]] = {}
        """Ids in ascending order; only jobs in PEND."""
        self.delayed: dict[int, float] = {}
        """Pending jobs that must not start before a time -> that time."""
        self.tokens: dict[str, dict[int, int]] = {}
        """Submission token -> place in the submission -> job id, of jobs in memory."""
        self.avoiding: dict[int, str] = {}
        """Pending jobs whose last start failed -> the host where it did."""
        self._finished: list[tuple[float, int]] = []
        """Heap of (end, job id); jobs that are gone already are skipped when they come up."""
        self.queue_slots: dict[str, int] = {}
        self.queue_user_slots: dict[tuple[str, str], int] = {}
        self.touched: set[int] = set()
        """Jobs changed since the last `take_touched`."""
        self.touched_hosts: set[str] = set()

    # -- events ---------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Change the state by one event. Raises machine.IllegalEvent and then changes nothing."""
        if isinstance(event, JobEvent) and event.job_id in self.quarantined:
            return
        machine.apply(self, event)
        if isinstance(event, JobEvent):
            self.touched.add(event.job_id)

    def set_aside(self, job_id: int, reason: str) -> None:
        """Quarantine a job: it is neither scheduled nor shown as a job. To be called during recovery only.

        What it held need not be kept here: nothing is started on a host before its agent's hello, and that tells of
        whatever runs there.
        """
        self.next_job_id = max(self.next_job_id, job_id + 1)
        if job_id in self.quarantined:
            return
        job = self.jobs.pop(job_id, None)
        if job is not None and job.state is JobState.PEND:
            self.unqueue(job)
        elif job is not None and job.state in STARTED:
            self.release(job)
        self.quarantined[job_id] = reason
        self.touched.add(job_id)

    def take_touched(self) -> tuple[set[int], set[str]]:
        """Jobs and hosts that changed since the last call."""
        jobs, hosts = self.touched, self.touched_hosts
        self.touched, self.touched_hosts = set(), set()
        return jobs, hosts

    # -- what time brings about -----------------------------------------------------------------------------------

    def let_go_on(self, now: float) -> None:
        """The waits of `delayed` that are over by `now` are forgotten."""
        for job_id in [job_id for job_id, at in self.delayed.items() if at <= now]:
            del self.delayed[job_id]

    def first_end(self) -> float | None:
        """When the job that has been finished for longest ended; None without finished jobs."""
        while self._finished and not self._is_finished(self._finished[0][1]):
            heapq.heappop(self._finished)
        return self._finished[0][0] if self._finished else None

    def forgettable(self, now: float, after_s: float, most: int) -> list[int]:
        """Up to `most` ids of jobs that finished `after_s` seconds ago or earlier, in order of their ends."""
        found: list[tuple[float, int]] = []
        while len(found) < most and (ended := self.first_end()) is not None and ended + after_s <= now:
            found.append(heapq.heappop(self._finished))
        for entry in found:  # they stay until the event that lets go of them
            heapq.heappush(self._finished, entry)
        return [job_id for _, job_id in found]

    def _is_finished(self, job_id: int) -> bool:
        job = self.jobs.get(job_id)
        return job is not None and job.state in FINISHED

    # -- used by the machine --------------------------------------------------------------------------------------

    def job(self, job_id: int) -> Job:
        """The job. Raises machine.IllegalEvent if there is none."""
        try:
            return self.jobs[job_id]
        except KeyError:
            raise machine.IllegalEvent(f"there is no job {job_id}") from None

    def add(self, job: Job) -> None:
        """Enter a job: a new one, or one of a checkpoint."""
        self.jobs[job.job_id] = job
        self.next_job_id = max(self.next_job_id, job.job_id + 1)
        if job.token:
            self.tokens.setdefault(job.token, {})[job.place] = job.job_id
        if job.state is JobState.PEND:
            self.enqueue(job)
        elif job.state in STARTED:
            self.hold(job)
        elif job.state in FINISHED:
            self.note_end(job)

    def remove(self, job: Job) -> None:
        """Let go of a finished job."""
        del self.jobs[job.job_id]
        places = self.tokens.get(job.token)
        if places is not None:
            places.pop(job.place, None)
            if not places:
                del self.tokens[job.token]

    def enqueue(self, job: Job) -> None:
        """Put a job into its bucket, in order of submission."""
        ids = self.pending.setdefault(job.bucket(), [])
        if ids and ids[-1] > job.job_id:
            insort(ids, job.job_id)
        else:
            ids.append(job.job_id)
        if job.not_before:
            self.delayed[job.job_id] = job.not_before
        if job.avoid_host:
            self.avoiding[job.job_id] = job.avoid_host

    def unqueue(self, job: Job) -> None:
        """Take a job out of its bucket."""
        bucket = job.bucket()
        ids = self.pending[bucket]
        ids.remove(job.job_id)
        self.delayed.pop(job.job_id, None)
        self.avoiding.pop(job.job_id, None)
        if not ids:
            del self.pending[bucket]

    def note_end(self, job: Job) -> None:
        """Remember a finished job's end, for the time when it is forgotten."""
        heapq.heappush(self._finished, (job.finished_at or 0.0, job.job_id))

    def hold(self, job: Job) -> None:
        """Enter what the job's attempt holds."""
        assert job.allocation is not None
        self.ledger.take(job.key, job.allocation)
        self._count(job, 1)

    def release(self, job: Job) -> None:
        """Free what the job's attempt holds."""
        assert job.allocation is not None
        self.ledger.give(job.key, job.allocation)
        self._count(job, -1)

    def touch_hosts(self, job: Job) -> None:
        """The job's hosts look different now."""
        if job.allocation is not None:
            self.touched_hosts.update(part.host for part in job.allocation.hosts)

    def _count(self, job: Job, sign: int) -> None:
        assert job.allocation is not None
        slots = sign * job.allocation.slots
        _add(self.queue_slots, job.spec.queue, slots)
        _add(self.queue_user_slots, (job.spec.queue, job.spec.user), slots)
        self.touch_hosts(job)

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """The state as bytes that `load` reads back."""
        return msgspec.json.encode(
            _Stored(
                jobs=list(self.jobs.values()),
                next_job_id=self.next_job_id,
                closed_hosts=self.closed_hosts,
                config_digest=self.config_digest,
                quarantined=self.quarantined,
            )
        )

    @classmethod
    def load(cls, payload: bytes) -> ClusterState:
        """The state of a checkpoint. Raises Internal with one line if it cannot be read."""
        state = cls()
        try:
            stored = msgspec.json.decode(payload, type=_Stored)
            for job in stored.jobs:
                state.add(job)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AssertionError, ValueError) as error:
            raise Internal(f"the checkpoint cannot be read: {str(error) or 'a started job holds nothing'}") from None
        state.next_job_id = max(state.next_job_id, stored.next_job_id)
        state.closed_hosts = stored.closed_hosts
        state.config_digest = stored.config_digest
        state.quarantined = stored.quarantined
        return state


def _add(table: dict[K, int], key: K, amount: int) -> None:
    left = table.get(key, 0) + amount
    if left:
        table[key] = left
    else:
        table.pop(key, None)


def replay(events: Iterable[AnyEvent], state: ClusterState | None = None) -> ClusterState:
    """The state that the events add up to. Raises machine.IllegalEvent."""
    state = state or ClusterState()
    for event in events:
        state.apply(event)
    return state


def audit(state: ClusterState, strays: Iterable[tuple[int, int]] = ()) -> list[str]:
    """Every broken invariant as one line; empty when all is well. `strays`: holdings known only from agents."""
    return [
        *double_owners(state.ledger.hosts.values()),
        *_audit_jobs(state),
        *_audit_holdings(state, set(strays)),
        *_audit_sums(state),
        *_audit_waiting(state),
    ]


def _audit_jobs(state: ClusterState) -> Iterator[str]:
    for job in state.jobs.values():
        if job.state in STARTED and (job.allocation is None or job.attempt < 1 or job.dispatched_at is None):
            yield f"job {job.job_id} is {job.state} without an attempt and its allocation"
        elif job.state in FINISHED and (job.result is None or job.finished_at is None):
            yield f"job {job.job_id} is {job.state} without a result"
        elif job.state in PENDING and job.allocation is not None:
            yield f"job {job.job_id} is {job.state} and has an allocation"
        if (job.known_state is not None) != (job.state is JobState.UNKWN):
            yield f"job {job.job_id} is {job.state} and was {job.known_state} before"
        if job.job_id >= state.next_job_id:
            yield f"job {job.job_id} exists, and the next one gets number {state.next_job_id}"
        if job.token and state.tokens.get(job.token, {}).get(job.place) != job.job_id:
            yield f"job {job.job_id} cannot be found by its token"


def _audit_holdings(state: ClusterState, strays: set[tuple[int, int]]) -> Iterator[str]:
    """What the ledger holds is what the started jobs hold, and nothing else."""
    expected = {
        (part.host, job.key): part
        for job in state.jobs.values()
        if job.state in STARTED and job.allocation is not None
        for part in job.allocation.hosts
    }
    held = {(host, key): part for host, ledger in state.ledger.hosts.items() for key, part in ledger.held.items()}
    for (host, key), part in held.items():
        if key not in strays and expected.get((host, key)) != part:
            yield f"{host}: the ledger holds {part} for attempt {key}, the job does not"
    yield from (f"{host}: attempt {key} is not in the ledger" for host, key in expected if (host, key) not in held)


def _audit_sums(state: ClusterState) -> Iterator[str]:
    """Every number that is kept beside the holdings is their sum."""
    for host, ledger in state.ledger.hosts.items():
        yield from ledger.miscounts()
        if ledger.host != host:
            yield f"{host}: its books are those of {ledger.host}"
    by_queue: dict[str, int] = {}
    by_owner: dict[tuple[str, str], int] = {}
    for job in state.jobs.values():
        if job.state in STARTED and job.allocation is not None:
            _add(by_queue, job.spec.queue, job.allocation.slots)
            _add(by_owner, (job.spec.queue, job.spec.user), job.allocation.slots)
    if by_queue != state.queue_slots:
        yield f"slots by queue are counted as {state.queue_slots}, started jobs hold {by_queue}"
    if by_owner != state.queue_user_slots:
        yield f"slots by queue and user are counted as {state.queue_user_slots}, started jobs hold {by_owner}"


def _audit_waiting(state: ClusterState) -> Iterator[str]:
    """Each pending job waits in its bucket, once and in order."""
    waiting = {job_id: bucket for bucket, ids in state.pending.items() for job_id in ids}
    for bucket, ids in state.pending.items():
        if not ids or any(first >= second for first, second in pairwise(ids)):
            yield f"jobs {ids} do not wait in order in {bucket}"
    expected = {job.job_id: job.bucket() for job in state.jobs.values() if job.state is JobState.PEND}
    if waiting != expected:
        wrong = sorted(job_id for job_id in {*waiting, *expected} if waiting.get(job_id) != expected.get(job_id))
        yield f"pending jobs {wrong} are not where they wait"
    for job_id in {*state.delayed, *state.avoiding} - set(waiting):
        yield f"job {job_id} waits for another attempt and is not pending"
