"""The state of a cluster: jobs, who waits where, who holds what. Events build it; replay reproduces it exactly.

Indexes (the pending jobs, tokens, the ledger's holdings) are derived from jobs and arrays and never stored. What hosts
report (load, devices) is observation, not state: see gsched.core.resources.observed_hosts.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.ids import array_of, element_id, index_of
from gsched.core.records import job_groups
from gsched.core.records.accepted_submissions import AcceptedSubmission
from gsched.core.records.array import JobArray
from gsched.core.records.entities import JobGroup, QueueState, StoredReservation
from gsched.core.records.host_allocations import Leaving, is_ordered, others
from gsched.core.records.job import JobRecord
from gsched.core.records.job_groups import add, groups_above
from gsched.core.records.job_inputs import JobInputs
from gsched.core.records.job_names import JobNames
from gsched.core.records.lost_store import LostStore
from gsched.core.records.run_times import RunTimes
from gsched.core.records.spec_interning import SpecPool
from gsched.core.records.tallies import LimitTally
from gsched.core.records.unsent_notices import UnsentNotices
from gsched.core.records.usage_accounts import UsageAccounts
from gsched.core.resources.gpu_job_kinds import KindsSeen
from gsched.core.state import apply_events, checkpoint, quarantine
from gsched.core.state.pending_jobs import PendingJobs
from gsched.core.state.retention import Retention
from gsched.core.state.wait_index import WaitIndex
from gsched.model.event import AnyEvent, JobEvent, ReservationMade
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobSpec, JobState
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.ledgers.ledger import Ledger
from gsched.model.scheduling.snapshot import Running
from gsched.resreq.parsing.gpu import RANGE


class ClusterState:
    """All of it. Only `apply` changes it, and time what it says under "what time brings about"."""

    def __init__(self) -> None:
        self.jobs: dict[int, JobRecord] = {}
        self.arrays: dict[int, JobArray] = {}
        self.next_job_id, self.generation = 1, 1
        """`generation` is that of the store."""
        self.lost_store = LostStore()
        self.closed_hosts: dict[str, tuple[str, str]] = {}
        """Host -> (who closed it, comment)."""
        self.closed_gpus: dict[tuple[str, str], GpuClosure] = {}
        """(host, UUID) of GPUs that administrators have closed."""
        self.gpu_hosts: frozenset[str] = frozenset()
        """Hosts of the configuration that have reported GPUs."""
        self.config_digest = ""
        self.quarantined: dict[int, str] = {}
        """Jobs set aside because of an unreadable record -> what was wrong."""
        self.queue_states: dict[str, QueueState] = {}
        self.groups: dict[str, JobGroup] = {}
        self.reservations: dict[str, StoredReservation] = {}
        self.accounts, self.run_times = UsageAccounts(), RunTimes()
        self.notices = UnsentNotices()
        self.specs = SpecPool()
        self.ledger = Ledger()
        self.seen = KindsSeen()
        self.retention = Retention(self.jobs, self.arrays, self._is_needed)
        self.waits = WaitIndex(self.retention.nobody_depends)
        """What each pending job waits for."""
        self.tokens: dict[str, dict[int, int]] = {}
        """Submission token -> place in the submission -> job id, of jobs in memory."""
        self.accepted: dict[int, AcceptedSubmission] = {}
        """First number -> submission of which jobs are still to be made, the oldest first."""
        self.avoiding: dict[int, str] = {}
        """Pending jobs whose last start failed -> the host where it did."""
        self.running: dict[int, Running] = {}
        """Started jobs as the policies see them."""
        self.running_changed: set[int] = set()
        """Jobs that `running` no longer shows as it did; whoever counts what they hold empties it."""
        self.suspended: set[int] = set()
        """Started jobs in SSUSP: they may go on when there is room."""
        self.growing, self.elastic = set[int](), set[int]()
        """Started jobs that are to have more slots (JobSpec.wanted_slots); those with a range of numbers of GPUs."""
        self.saving: dict[int, tuple[int, ...]] = {}
        """Started jobs that save their state -> those that are to get their place, or GPUs of them."""
        self.deadlines: dict[int, float] = {}
        """Unfinished jobs (and arrays) with a termination time -> that time."""
        self.tally = LimitTally()
        self.group_members: dict[str, int] = {}
        """Job group -> jobs and arrays in memory that are in it itself."""
        self.names, self.inputs = JobNames(), JobInputs()
        """Which jobs and arrays in memory have which name; blobs that they read (-is) -> by how many."""
        self._born: tuple[JobArray, int, int] | None = None
        """While an event is applied: the array whose element became a job by it, its index, and `first` before."""
        self.leaving = Leaving()
        """Finished jobs of which parts are still there."""
        self.given_up: list[tuple[AttemptKey, HostAllocation]] = []
        """What attempts that were just given up may have left on several hosts; whoever ends it empties it."""
        self.touched: set[int] = set()
        """Jobs and arrays changed since the last `take_touched`."""
        self.touched_hosts: set[str] = set()
        self.changed_parents: set[tuple[int, int]] = set()
        """(job or array that others depend on, what of it has changed); whoever judges dependencies empties it."""

    @property
    def pending(self) -> PendingJobs:
        """Jobs that wait for nothing but a place."""
        return self.waits.pending

    def _is_needed(self, job_id: int) -> bool:
        return job_id in self.waits.dependents

    # -- events ---------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Change the state by one event. Raises machine.IllegalEvent and then changes nothing."""
        if not isinstance(event, JobEvent):
            apply_events.apply(self, event)
            return
        job_id = event.job_id
        if self.quarantined and (job_id in self.quarantined or array_of(job_id) in self.quarantined):
            return
        self._born = None
        try:
            apply_events.apply(self, event)
        except apply_events.IllegalEvent:
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
        else:
            self.hide_running(job_id)
        dependents = self.waits.dependents
        if dependents and (job_id in dependents or array_of(job_id) in dependents):
            if job_id in dependents:
                self.changed_parents.add((job_id, job_id))
            if array_of(job_id) in dependents:
                self.changed_parents.add((array_of(job_id), job_id))

    def _show_running(self, job: JobRecord) -> None:
        self.running[job.job_id] = job.running(self.ledger.at)
        self.running_changed.add(job.job_id)
        (self.suspended.add if job.state is JobState.SSUSP else self.suspended.discard)(job.job_id)
        if RANGE in job.spec.combined_gpu_req:
            self.elastic.add(job.job_id)
        wants_more = job.allocation is not None and job.spec.wanted_slots > job.allocation.slots
        (self.growing.add if wants_more else self.growing.discard)(job.job_id)
        self._note_saving(job.job_id, job.saves_for)

    def hide_running(self, job_id: int) -> None:
        """It is no started job, or no more."""
        if self.running.pop(job_id, None) is not None:
            self.running_changed.add(job_id)
            self.suspended.discard(job_id)
            self.elastic.discard(job_id)
            self.growing.discard(job_id)
            self._note_saving(job_id, ())

    def _note_saving(self, job_id: int, for_jobs: tuple[int, ...]) -> None:
        """`for_jobs`: for whom it saves its state. Who waits for it looks different."""
        before = self.saving.get(job_id, ())
        if before == for_jobs:
            return
        self.touched.update(before, for_jobs)
        if for_jobs:
            self.saving[job_id] = for_jobs
            return
        del self.saving[job_id]
        if not self.saving:
            self.waits.needs_changed.clear()

    def _count_element(self, job: JobRecord | None) -> None:
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

    def skip_numbers(self, next_job_id: int) -> None:
        """Numbers below are not given out any more."""
        if next_job_id > self.next_job_id:
            self.lost_store.numbers.append((self.next_job_id, next_job_id - 1))
            self.next_job_id = next_job_id

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

        def find(number: int) -> JobRecord | JobArray:
            self.touched.add(number)
            return self.item(number)

        return self.waits.let_go_on(now, find)

    # -- used by the machine --------------------------------------------------------------------------------------

    def job(self, job_id: int) -> JobRecord:
        """The job; a waiting element of an array becomes a job by this. Raises machine.IllegalEvent."""
        job = self.jobs.get(job_id)
        if job is not None:
            return job
        array = self.arrays.get(array_of(job_id)) if index_of(job_id) else None
        if array is None or not array.has_waiting(index_of(job_id)):
            raise apply_events.IllegalEvent(f"there is no job {job_id}")
        return self._element(array, index_of(job_id))

    def _element(self, array: JobArray, index: int) -> JobRecord:
        job = array.element(index)
        self._born = (array, index, array.first)
        if array.count == 1:
            self.unqueue_array(array)
        else:
            self.tally.waiting(array.spec, -1)
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
            self.tally.waiting(array.spec, 1)

    def add(self, job: JobRecord) -> None:
        """Enter a job: a new one, or one of a checkpoint."""
        self.jobs[job.job_id] = job
        if not index_of(job.job_id):
            self._enter(job.job_id, job.token, job.place, job.spec)
        if job.state in PENDING:
            self.enqueue(job)
        elif job.state in STARTED:
            self.hold(job)
            self._show_running(job)
        elif job.state in FINISHED and not index_of(job.job_id):
            self.retention.note_end(job.job_id, job.finished_at or 0.0)
        self.leaving.enter(job)
        if job.state not in FINISHED:
            self.seen.note(job.spec)
            self._mind_deadline(job.job_id, job.spec.terminate_at)

    def add_array(self, array: JobArray) -> None:
        """Enter an array: a new one, or one of a checkpoint."""
        self.arrays[array.array_id] = array
        self._enter(array.array_id, array.token, array.place, array.spec)
        self.seen.note(array.spec, array.count)
        self.enqueue_array(array)
        if array.is_over():
            self.retention.note_end(array.array_id, array.last_end)
        else:
            self._mind_deadline(array.array_id, array.spec.terminate_at)

    def _enter(self, job_id: int, token: str, place: int, spec: JobSpec) -> None:
        self.next_job_id = max(self.next_job_id, job_id + 1)
        if token:
            self.tokens.setdefault(token, {})[place] = job_id
        self.belong(job_id, spec)

    def remove(self, job_id: int) -> None:
        """Let go of a finished job, or of an array with all its elements."""
        array = self.arrays.pop(job_id, None)
        item: JobRecord | JobArray = array if array is not None else self.jobs.pop(job_id)
        if isinstance(item, JobRecord):
            self.leaving.leave(item)
        if array is not None:
            for index in array.indices:
                member = index << 32 | job_id
                if (job := self.jobs.pop(member, None)) is not None:
                    self.leaving.leave(job)
                    self.touched.add(member)
        self.deadlines.pop(job_id, None)
        self.retention.drop(job_id)
        self.belong_no_more(job_id, item.spec)
        places = self.tokens.get(item.token)
        if places is not None:
            places.pop(item.place, None)
            if not places:
                del self.tokens[item.token]

    def item(self, number: int) -> JobRecord | JobArray:
        """The array, or else the job, of that number."""
        return self.arrays.get(number) or self.jobs[number]

    def enqueue(self, job: JobRecord) -> None:
        """The job is PEND or PSUSP: it joins those that wait for a place, a time, other jobs, or to be resumed."""
        if not job.is_untouched() and job.avoid_host and job.state is JobState.PEND:
            self.avoiding[job.job_id] = job.avoid_host
        self.tally.waiting(job.spec, 1)
        self.waits.enter(job)

    def unqueue(self, job: JobRecord) -> None:
        """Take a job that is PEND or PSUSP out of wherever it waits."""
        self.avoiding.pop(job.job_id, None)
        self.tally.waiting(job.spec, -1)
        self.waits.leave(job)

    def enqueue_array(self, array: JobArray) -> None:
        """The elements in the array's record, if there are any, join those that wait."""
        if array.count:
            self.tally.waiting(array.spec, array.count)
            self.waits.enter(array)

    def unqueue_array(self, array: JobArray) -> None:
        """Take the elements in the array's record, if there are any, out of wherever they wait."""
        if array.count:
            self.tally.waiting(array.spec, -array.count)
            self.waits.leave(array)

    def element_ended(self, array: JobArray, at: float, count: int = 1) -> None:
        """So many elements of the array have ended."""
        array.left -= count
        array.last_end = max(array.last_end, at)
        if array.is_over():
            self.deadlines.pop(array.array_id, None)
            self.retention.note_end(array.array_id, array.last_end)

    def _mind_deadline(self, job_id: int, at: float | None) -> None:
        if at is not None:
            self.deadlines[job_id] = at

    def hold(self, job: JobRecord) -> None:
        """Enter what the job's attempt holds."""
        assert job.allocation is not None
        self.ledger.take(job.key, job.allocation, job.held_since)
        if job.gave_slots:
            self.ledger.suspend(job.key, job.allocation)
        if job.moved_off:
            self.ledger.move_off(job.key, job.allocation)
        self.tally.started(job, 1)
        self.touch_hosts(job)

    def release(self, job: JobRecord) -> None:
        """Free what the job's attempt holds."""
        assert job.allocation is not None
        self.ledger.give(job.key, job.allocation)
        self.tally.started(job, -1)
        self.touch_hosts(job)

    def give_up(self, job: JobRecord) -> None:
        """The job's attempt is over as far as the job is concerned: what it may have on several hosts is to end."""
        if job.allocation is None or len(job.allocation.hosts) < 2:
            return
        if is_ordered(job):
            self.given_up.append((job.key, job.allocation.hosts[0]))
        self.given_up += [(job.key, part) for part in job.left_parts()]

    def give_parts_up(self, job: JobRecord, allocation: Allocation) -> None:
        """The started job goes on with that allocation: what it has on hosts that are not in it is to end."""
        hosts = {part.host for part in allocation.hosts}
        self.given_up += [(job.key, part) for part in job.left_parts() if part.host not in hosts]
        gone = (part.host for part in others(job) if part.host not in hosts)
        job.released_parts = (*job.released_parts, *gone)
        job.open_parts = tuple(host for host in job.open_parts if host in hosts)
        job.ended_parts = tuple(host for host in job.ended_parts if host in hosts)

    def touch_hosts(self, job: JobRecord) -> None:
        """The job's hosts look different now."""
        if job.allocation is not None:
            self.touched_hosts.update(part.host for part in job.allocation.parts)

    def join_group(self, group: str, sign: int) -> None:
        """A job or an array joins (1) or leaves (-1) the group; groups that are needed come into being."""
        job_groups.join(self.groups, self.group_members, group, sign)

    def belong(self, number: int, spec: JobSpec) -> None:
        """A job or an array, no element, is in its group and has its name from now on."""
        self.join_group(spec.group, 1)
        self.names.enter(number, spec.user, spec.name)
        self.inputs.enter(spec.spooled_input)

    def belong_otherwise(self, number: int, old: JobSpec, new: JobSpec) -> None:
        """It has another spec."""
        self.join_group(new.group, 1)
        self.join_group(old.group, -1)
        if (old.user, old.name) != (new.user, new.name):
            self.names.leave(number, old.user, old.name)
            self.names.enter(number, new.user, new.name)

    def belong_no_more(self, number: int, spec: JobSpec) -> None:
        """It is, and has, no longer."""
        self.join_group(spec.group, -1)
        self.names.leave(number, spec.user, spec.name)
        self.inputs.leave(spec.spooled_input)

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
        job_groups.make(self.groups, group, job_limit, by)

    def make_reservation(self, made: ReservationMade) -> None:
        """An advance reservation is there."""
        old = self.reservations.get(made.name)
        owner = made.by if old is None else old.owner
        self.reservations[made.name] = StoredReservation(
            made.name, made.users, made.start, made.end, made.slots, made.gpus, owner
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
