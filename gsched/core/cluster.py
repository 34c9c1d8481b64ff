"""The state of a cluster: jobs, who waits where, who holds what. Events build it; replay reproduces it exactly.

Indexes (buckets of pending jobs, tokens, the ledger's holdings) are derived from the jobs and never stored. What hosts
report (load, devices) is observation, not state: see gsched.core.observed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable
from typing import TypeVar

import msgspec

from gsched.base.errors import Internal
from gsched.core import machine
from gsched.core.job import Job
from gsched.model.event import AnyEvent, JobEvent
from gsched.model.job import FINISHED, STARTED, JobState
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
        """Submission token -> place in the submission -> job id."""
        self.queue_slots: dict[str, int] = {}
        self.queue_user_slots: dict[tuple[str, str], int] = {}
        self.touched: set[int] = set()
        """Jobs changed since the last `take_touched`."""
        self.touched_hosts: set[str] = set()

    # -- events ---------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Change the state by one event. Raises machine.IllegalEvent and then changes nothing."""
        if isinstance(event, JobEvent):
            if event.job_id in self.quarantined:
                return
            self.touched.add(event.job_id)
        machine.apply(self, event)

    def set_aside(self, job_id: int, reason: str) -> None:
        """Quarantine a job: it is neither scheduled nor shown as a job, and what it holds stays held."""
        self.next_job_id = max(self.next_job_id, job_id + 1)
        if job_id in self.quarantined:
            return
        job = self.jobs.pop(job_id, None)
        if job is not None and job.state is JobState.PEND:
            self.unqueue(job)
        self.quarantined[job_id] = reason
        self.touched.add(job_id)

    def take_touched(self) -> tuple[set[int], set[str]]:
        """Jobs and hosts that changed since the last call."""
        jobs, hosts = self.touched, self.touched_hosts
        self.touched, self.touched_hosts = set(), set()
        return jobs, hosts

    # -- used by the machine --------------------------------------------------------------------------------------

    def job(self, job_id: int) -> Job:
        """The job. Raises machine.IllegalEvent if there is none."""
        try:
            return self.jobs[job_id]
        except KeyError:
            raise machine.IllegalEvent(f"there is no job {job_id}") from None

    def add(self, job: Job) -> None:
        """Enter a new job."""
        self.jobs[job.job_id] = job
        self.next_job_id = max(self.next_job_id, job.job_id + 1)
        if job.token:
            self.tokens.setdefault(job.token, {})[job.place] = job.job_id
        if job.state is JobState.PEND:
            self.enqueue(job)
            if job.not_before > job.submitted_at:
                self.delayed[job.job_id] = job.not_before
        elif job.state in STARTED:
            self.hold(job)

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

    def unqueue(self, job: Job) -> None:
        """Take a job out of its bucket."""
        bucket = job.bucket()
        ids = self.pending[bucket]
        ids.remove(job.job_id)
        self.delayed.pop(job.job_id, None)
        if not ids:
            del self.pending[bucket]

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

    def _count(self, job: Job, sign: int) -> None:
        assert job.allocation is not None
        slots = sign * job.allocation.slots
        _add(self.queue_slots, job.spec.queue, slots)
        _add(self.queue_user_slots, (job.spec.queue, job.spec.user), slots)
        self.touched_hosts.update(part.host for part in job.allocation.hosts)

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
        try:
            stored = msgspec.json.decode(payload, type=_Stored)
        except msgspec.DecodeError as error:
            raise Internal(f"the checkpoint cannot be read: {error}") from None
        state = cls()
        state.next_job_id = stored.next_job_id
        state.closed_hosts = dict(stored.closed_hosts)
        state.config_digest = stored.config_digest
        state.quarantined = stored.quarantined
        for job in stored.jobs:
            state.add(job)
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
    found = double_owners(state.ledger.hosts.values())
    stray_keys = set(strays)
    expected = {}
    for job in state.jobs.values():
        if job.state in STARTED:
            if job.allocation is None or job.attempt < 1:
                found.append(f"job {job.job_id} is {job.state} without an attempt and its allocation")
                continue
            expected.update({(part.host, job.key): part for part in job.allocation.hosts})
        elif job.state in FINISHED and job.result is None:
            found.append(f"job {job.job_id} is {job.state} without a result")
    held = {}
    for host, ledger in state.ledger.hosts.items():
        slots = sum(part.slots for part in ledger.held.values())
        if slots != ledger.slots_used:
            found.append(f"{host}: {ledger.slots_used} slots are counted, {slots} are held")
        held.update({(host, key): part for key, part in ledger.held.items()})
    for (host, key), part in held.items():
        if key in stray_keys or key[0] in state.quarantined:
            continue
        if expected.get((host, key)) != part:
            found.append(f"{host}: the ledger holds {part} for attempt {key}, the job does not")
    found.extend(f"{host}: attempt {key} is not in the ledger" for host, key in expected if (host, key) not in held)
    waiting = {job_id for ids in state.pending.values() for job_id in ids}
    pending = {job.job_id for job in state.jobs.values() if job.state is JobState.PEND}
    if waiting != pending:
        found.append(f"pending jobs {sorted(pending ^ waiting)} are not where they wait")
    return found
