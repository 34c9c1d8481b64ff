"""The state of a cluster: jobs, who waits where, who holds what. Events build it; replay reproduces it exactly.

Indexes (the waiting room, tokens, the ledger's holdings) are derived from jobs and arrays and never stored. What hosts
report (load, devices) is observation, not state: see gsched.core.observed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from gsched.base.ids import array_of, element_id, index_of
from gsched.core import checkpoint, groups, machine, quarantine
from gsched.core.accounting import Accounts
from gsched.core.array import JobArray
from gsched.core.entities import JobGroup, QueueState, StoredReservation
from gsched.core.groups import add, groups_above
from gsched.core.job import Job
from gsched.core.kinds_seen import KindsSeen
from gsched.core.parts import Leaving, is_ordered
from gsched.core.specs import SpecPool
from gsched.core.waiting import WaitingRoom
from gsched.core.waits import Waits
from gsched.model.allocation import HostAllocation
from gsched.model.event import AnyEvent, JobEvent, ReservationMade
from gsched.model.host_ledger import AttemptKey
from gsched.model.job import FINISHED, PENDING, STARTED, JobSpec, JobState
from gsched.model.ledger import Ledger
from gsched.model.snapshot import Running


class ClusterState:
    """All of it. Only `apply` changes it, and time what it says under "what time brings about"."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.arrays: dict[int, JobArray] = {}
        self.next_job_id = 1
        self.closed_hosts: dict[str, tuple[str, str]] = {}
        """Host -> (who closed it, comment)."""
        self.config_digest = ""
        self.quarantined: dict[int, str] = {}
        """Jobs set aside because of an unreadable record -> what was wrong."""
        self.queue_states: dict[str, QueueState] = {}
        self.groups: dict[str, JobGroup] = {}
        self.reservations: dict[str, StoredReservation] = {}
        self.accounts = Accounts()
        self.specs = SpecPool()
        self.ledger = Ledger()
        self.seen = KindsSeen()
        self.waits = Waits(self._nobody_depends)
        """What each pending job waits for."""
        self.tokens: dict[str, dict[int, int]] = {}
        """Submission token -> place in the submission -> job id, of jobs in memory."""
        self.avoiding: dict[int, str] = {}
        """Pending jobs whose last start failed -> the host where it did."""
        self.running: dict[int, Running] = {}
        """Started jobs as the policies see them."""
        self.running_changed: set[int] = set()
        """Jobs that `running` no longer shows as it did; whoever counts what they hold empties it."""
        self.suspended: set[int] = set()
        """Started jobs in SSUSP: they may go on when there is room."""
        self.deadlines: dict[int, float] = {}
        """Unfinished jobs (and arrays) with a termination time -> that time."""
        self._ends: list[tuple[float, int]] = []
        """Heap of (end, job or array); those that are gone already are skipped when they come up."""
        self._kept: dict[int, float] = {}
        """Finished jobs that others still depend on -> their end."""
        self.queue_slots: dict[str, int] = {}
        self.queue_user_slots: dict[tuple[str, str], int] = {}
        self.group_jobs: dict[str, int] = {}
        """Job group -> started jobs in it and below."""
        self.group_members: dict[str, int] = {}
        """Job group -> jobs and arrays in memory that are in it itself."""
        self.array_jobs: dict[int, int] = {}
        """Array -> started elements."""
        self.pending_jobs: dict[str, int] = {}
        """User -> jobs and elements in PEND or PSUSP."""
        self.pending_slots: dict[str, int] = {}
        """User -> slots that these want at the least."""
        self._born: tuple[JobArray, int, int] | None = None
        """While an event is applied: the array whose element became a job by it, its index, and `first` before."""
        self.leaving = Leaving()
        """Finished jobs of which parts are still there."""
        self.given_up: list[tuple[AttemptKey, HostAllocation]] = []
        """What attempts of several hosts may have left where, that have just been given up; whoever ends it empties it.
        """
        self.touched: set[int] = set()
        """Jobs and arrays changed since the last `take_touched`."""
        self.touched_hosts: set[str] = set()
        self.changed_parents: set[tuple[int, int]] = set()
        """(job or array that others depend on, what of it has changed); whoever judges dependencies empties it."""

    @property
    def pending(self) -> WaitingRoom:
        """Jobs that wait for nothing but a place."""
        return self.waits.room

    # -- events ---------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Change the state by one event. Raises machine.IllegalEvent and then changes nothing."""
        if not isinstance(event, JobEvent):
            machine.apply(self, event)
            return
        job_id = event.job_id
        if self.quarantined and (job_id in self.quarantined or array_of(job_id) in self.quarantined):
            return
        self._born = None
        try:
            machine.apply(self, event)
        except machine.IllegalEvent:
            self._take_back()
            raise
        self._note_change(job_id)

    def _note_change(self, job_id: int) -> None:
        self.touched.add(job_id)
        job = self.jobs.get(job_id)
        if index_of(job_id):
            self.touched.add(array_of(job_id))
            self._count_element(job)
        if job is not None and job.state in STARTED:
            self._show_running(job)
        elif self.running.pop(job_id, None) is not None:
            self.running_changed.add(job_id)
            self.suspended.discard(job_id)
        dependents = self.waits.dependents
        if dependents and (job_id in dependents or array_of(job_id) in dependents):
            if job_id in dependents:
                self.changed_parents.add((job_id, job_id))
            if array_of(job_id) in dependents:
                self.changed_parents.add((array_of(job_id), job_id))

    def _show_running(self, job: Job) -> None:
        self.running[job.job_id] = job.running(self.ledger.at)
        self.running_changed.add(job.job_id)
        (self.suspended.add if job.state is JobState.SSUSP else self.suspended.discard)(job.job_id)

    def _count_element(self, job: Job | None) -> None:
        array = self.arrays.get(job.array_id) if job is not None else None
        if job is None or array is None or job.counted_as == job.state:
            return
        if job.counted_as:
            add(array.counts, job.counted_as, -1)
        add(array.counts, job.state.value, 1)
        job.counted_as = job.state.value

    def set_aside(self, job_id: int, reason: str) -> None:
        """Quarantine a job, an array or an element. To be called during recovery only."""
        quarantine.set_aside(self, job_id, reason)

    def take_touched(self) -> tuple[set[int], set[str]]:
        """Jobs, arrays and hosts that changed since the last call."""
        jobs, hosts = self.touched, self.touched_hosts
        self.touched, self.touched_hosts = set(), set()
        return jobs, hosts

    # -- what time brings about -----------------------------------------------------------------------------------

    def give_back(self, now: float) -> bool:
        """Started jobs give back the amounts that they need no longer at `now`; says whether there were any."""
        changed = self.ledger.advance(now)
        for host, (job_id, _) in changed:
            self.touched_hosts.add(host)
            job = self.jobs.get(job_id)
            if job is not None and job.state in STARTED:
                self._show_running(job)
        return bool(changed)

    def let_go_on(self, now: float) -> bool:
        """Jobs whose waits are over by `now` join the others; says whether there were any."""

        def find(number: int) -> Job | JobArray:
            self.touched.add(number)
            return self.item(number)

        return self.waits.let_go_on(now, find)

    def first_end(self) -> float | None:
        """When the job that has been finished for longest ended; None without finished jobs that may be forgotten."""
        while self._ends and not self._may_go(*self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def forgettable(self, now: float, after_s: float, most: int) -> list[int]:
        """Up to `most` jobs (arrays as a whole) that ended `after_s` seconds ago or earlier, in order of their ends.

        A job that others depend on stays.
        """
        found: list[tuple[float, int]] = []
        while len(found) < most and (ended := self.first_end()) is not None and ended + after_s <= now:
            found.append(heapq.heappop(self._ends))
        for entry in found:  # they stay until the event that lets go of them
            heapq.heappush(self._ends, entry)
        return [job_id for _, job_id in dict.fromkeys(found)]

    def _may_go(self, at: float, job_id: int) -> bool:
        """Whether the entry of the heap still tells of a job that may be forgotten."""
        array, job = self.arrays.get(job_id), self.jobs.get(job_id)
        if array is not None:
            is_over = array.is_over() and array.last_end == at
        else:
            is_over = job is not None and job.state in FINISHED and job.finished_at == at
        if is_over and job_id in self.waits.dependents:
            self._kept[job_id] = at
            return False
        return is_over

    # -- used by the machine --------------------------------------------------------------------------------------

    def job(self, job_id: int) -> Job:
        """The job; a waiting element of an array becomes a job by this. Raises machine.IllegalEvent."""
        job = self.jobs.get(job_id)
        if job is not None:
            return job
        array = self.arrays.get(array_of(job_id)) if index_of(job_id) else None
        if array is None or not array.has_waiting(index_of(job_id)):
            raise machine.IllegalEvent(f"there is no job {job_id}")
        return self._element(array, index_of(job_id))

    def _element(self, array: JobArray, index: int) -> Job:
        job = array.element(index)
        self._born = (array, index, array.first)
        if array.count == 1:
            self.unqueue_array(array)
        else:
            self._count_waiting(array.spec, -1)
        array.take(index)
        self.jobs[job.job_id] = job
        self.enqueue(job)
        self._mind_deadline(job.job_id, job.spec.terminate_at)
        return job

    def _take_back(self) -> None:
        """The event was refused: the element that it was about is no job of its own after all."""
        if self._born is None:
            return
        array, index, first = self._born
        job = self.jobs.pop(element_id(array.array_id, index))
        self.unqueue(job)
        self.deadlines.pop(job.job_id, None)
        was_empty = not array.count
        array.take_back(index, first)
        if was_empty:
            self.enqueue_array(array)
        else:
            self._count_waiting(array.spec, 1)

    def add(self, job: Job) -> None:
        """Enter a job: a new one, or one of a checkpoint."""
        self.jobs[job.job_id] = job
        if not index_of(job.job_id):
            self._enter(job.job_id, job.token, job.place, job.spec.group)
        if job.state in PENDING:
            self.enqueue(job)
        elif job.state in STARTED:
            self.hold(job)
            self._show_running(job)
        elif job.state in FINISHED and not index_of(job.job_id):
            self.note_end(job.job_id, job.finished_at or 0.0)
        self.leaving.enter(job)
        if job.state not in FINISHED:
            self.seen.note(job.spec)
            self._mind_deadline(job.job_id, job.spec.terminate_at)

    def add_array(self, array: JobArray) -> None:
        """Enter an array: a new one, or one of a checkpoint."""
        self.arrays[array.array_id] = array
        self._enter(array.array_id, array.token, array.place, array.spec.group)
        self.seen.note(array.spec, array.count)
        self.enqueue_array(array)
        if array.is_over():
            self.note_end(array.array_id, array.last_end)
        else:
            self._mind_deadline(array.array_id, array.spec.terminate_at)

    def _enter(self, job_id: int, token: str, place: int, group: str) -> None:
        self.next_job_id = max(self.next_job_id, job_id + 1)
        if token:
            self.tokens.setdefault(token, {})[place] = job_id
        self.join_group(group, 1)

    def remove(self, job_id: int) -> None:
        """Let go of a finished job, or of an array with all its elements."""
        array = self.arrays.pop(job_id, None)
        item: Job | JobArray = array if array is not None else self.jobs.pop(job_id)
        if isinstance(item, Job):
            self.leaving.leave(item)
        if array is not None:
            for index in array.indices:
                member = index << 32 | job_id
                if (job := self.jobs.pop(member, None)) is not None:
                    self.leaving.leave(job)
                    self.touched.add(member)
        self.deadlines.pop(job_id, None)
        self._kept.pop(job_id, None)
        self.join_group(item.spec.group, -1)
        places = self.tokens.get(item.token)
        if places is not None:
            places.pop(item.place, None)
            if not places:
                del self.tokens[item.token]

    def item(self, number: int) -> Job | JobArray:
        """The array, or else the job, of that number."""
        return self.arrays.get(number) or self.jobs[number]

    def _count_waiting(self, spec: JobSpec, jobs: int) -> None:
        add(self.pending_jobs, spec.user, jobs)
        add(self.pending_slots, spec.user, jobs * spec.slots)

    def enqueue(self, job: Job) -> None:
        """The job is PEND or PSUSP: it joins those that wait for a place, a time, other jobs, or to be resumed."""
        if job.avoid_host and job.state is JobState.PEND:
            self.avoiding[job.job_id] = job.avoid_host
        self._count_waiting(job.spec, 1)
        self.waits.enter(job)

    def unqueue(self, job: Job) -> None:
        """Take a job that is PEND or PSUSP out of wherever it waits."""
        self.avoiding.pop(job.job_id, None)
        self._count_waiting(job.spec, -1)
        self.waits.leave(job)

    def enqueue_array(self, array: JobArray) -> None:
        """The elements in the array's record, if there are any, join those that wait."""
        if array.count:
            self._count_waiting(array.spec, array.count)
            self.waits.enter(array)

    def unqueue_array(self, array: JobArray) -> None:
        """Take the elements in the array's record, if there are any, out of wherever they wait."""
        if array.count:
            self._count_waiting(array.spec, -array.count)
            self.waits.leave(array)

    def _nobody_depends(self, job_id: int) -> None:
        at = self._kept.pop(job_id, None)
        if at is not None:
            self.note_end(job_id, at)

    def note_end(self, job_id: int, at: float) -> None:
        """Remember when a job (or array) was over, for the time when it is forgotten."""
        heapq.heappush(self._ends, (at, job_id))

    def element_ended(self, array: JobArray, at: float, count: int = 1) -> None:
        """So many elements of the array have ended."""
        array.left -= count
        array.last_end = max(array.last_end, at)
        if array.is_over():
            self.deadlines.pop(array.array_id, None)
            self.note_end(array.array_id, array.last_end)

    def _mind_deadline(self, job_id: int, at: float | None) -> None:
        if at is not None:
            self.deadlines[job_id] = at

    def hold(self, job: Job) -> None:
        """Enter what the job's attempt holds."""
        assert job.allocation is not None
        self.ledger.take(job.key, job.allocation, job.held_since)
        if job.gave_slots:
            self.ledger.suspend(job.key, job.allocation)
        self._count(job, 1)

    def release(self, job: Job) -> None:
        """Free what the job's attempt holds."""
        assert job.allocation is not None
        self.ledger.give(job.key, job.allocation)
        self._count(job, -1)

    def give_up(self, job: Job) -> None:
        """The job's attempt is over as far as the job is concerned: what it may have on several hosts is to end."""
        if job.allocation is None or len(job.allocation.hosts) < 2:
            return
        if is_ordered(job):
            self.given_up.append((job.key, job.allocation.hosts[0]))
        self.given_up += [(job.key, part) for part in job.left_parts()]

    def touch_hosts(self, job: Job) -> None:
        """The job's hosts look different now."""
        if job.allocation is not None:
            self.touched_hosts.update(part.host for part in job.allocation.parts)

    def _count(self, job: Job, sign: int) -> None:
        assert job.allocation is not None
        slots = sign * job.allocation.slots
        add(self.queue_slots, job.spec.queue, slots)
        add(self.queue_user_slots, (job.spec.queue, job.spec.user), slots)
        for group in groups_above(job.spec.group):
            add(self.group_jobs, group, sign)
        if index_of(job.job_id):
            add(self.array_jobs, array_of(job.job_id), sign)
        self.touch_hosts(job)

    def join_group(self, group: str, sign: int) -> None:
        """A job or an array joins (1) or leaves (-1) the group; groups that are needed come into being."""
        groups.join(self.groups, self.group_members, group, sign)

    def want_groups(self, group: str) -> None:
        """An unfinished job is in the group: it and those above it are there."""
        for each in groups_above(group):
            self.groups.setdefault(each, JobGroup())

    def set_queue(self, queue: str, is_open: bool, is_active: bool, comment: str) -> None:
        """What an administrator did to the queue."""
        if is_open and is_active:
            self.queue_states.pop(queue, None)
        else:
            self.queue_states[queue] = QueueState(is_open, is_active, comment)

    def make_group(self, group: str, job_limit: int | None, by: str) -> None:
        """A job group is there and has this limit; groups above it come with it."""
        groups.make(self.groups, group, job_limit, by)

    def make_reservation(self, made: ReservationMade) -> None:
        """An advance reservation is there."""
        self.reservations[made.name] = StoredReservation(
            made.name, made.users, made.start, made.end, made.slots, made.gpus
        )

    def dump(self) -> bytes:
        """The state as bytes that `load` reads back."""
        return checkpoint.dump(self)

    @classmethod
    def load(cls, payload: bytes) -> ClusterState:
        """The state of a checkpoint. Raises Internal with one line if it cannot be read."""
        return checkpoint.load(payload, cls())


def replay(events: Iterable[AnyEvent], state: ClusterState | None = None) -> ClusterState:
    """The state that the events add up to. Raises machine.IllegalEvent."""
    state = state or ClusterState()
    for event in events:
        state.apply(event)
    return state
