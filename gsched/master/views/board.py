"""What readers see: views of committed state, replaced after each commit and never before.

The engine's thread publishes, any thread reads. A reader never waits for a scheduling cycle or for the disk. Elements
of an array that have not started are views only while somebody reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from gsched.base.coded_text import coded
from gsched.base.ids import array_of, index_of, show_job
from gsched.core.control.job_filter import admits
from gsched.core.dispatch.host_queue_views import host_view
from gsched.core.engine import Engine
from gsched.core.pending.pending_reasons import WAITING, ClassReasons
from gsched.core.pending.reason_times import ReasonTimes
from gsched.core.records.entities import JobGroup, QueueState, StoredReservation
from gsched.core.records.host_allocations import together
from gsched.core.records.job import JobRecord, bucket_of
from gsched.master.views.array_views import ArrayCopy, copy_of
from gsched.master.views.charged_share import Charged
from gsched.master.views.listing_order import Listing
from gsched.master.views.published_jobs import FoundReasons, Traits, Untouched, Views, view_of
from gsched.model.config import ClusterConfig
from gsched.model.gpus.gpu_idle import GpuIdleness
from gsched.model.jobs.job import FINISHED, PENDING, JobState, Usage
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.scheduling.snapshot import Rank
from gsched.model.views.view import ArrayView, HostView, JobFilter, JobView

_PLAIN = Traits(Rank(0.0, 0.0))
"""Of a job that is as most are, but for its rank."""
_NEW = (WAITING,)
"""Reasons of a job that no cycle has looked at; one object, so that jobs are seen to wait for the same."""


@dataclass(frozen=True, slots=True)
class SharedViews:
    """Everything but jobs and hosts; swapped whole, so that a reader sees one moment."""

    config: ClusterConfig
    reasons: ClassReasons = field(default_factory=dict)
    reason_times: ReasonTimes = field(default_factory=ReasonTimes)
    planned: Mapping[int, PlannedStart] = field(default_factory=dict)
    summary: str = ""
    quarantined: tuple[str, ...] = ()
    queue_states: Mapping[str, QueueState] = field(default_factory=dict)
    groups: Mapping[str, JobGroup] = field(default_factory=dict)
    reservations: Mapping[str, StoredReservation] = field(default_factory=dict)
    gpu_hosts: frozenset[str] = frozenset()
    """Hosts that have GPUs."""


class Board:
    """Views of jobs, hosts and queues as they were published last."""

    def __init__(self, config: ClusterConfig) -> None:
        self._jobs: dict[int, JobView | Untouched] = {}
        self._traits: dict[int, Traits] = {}
        """Of those pending jobs that are not as most are: in order of submission, waiting for a place."""
        self._arrays: dict[int, ArrayCopy] = {}
        self._elements: dict[int, dict[int, None]] = {}
        """Array -> its elements that are jobs of their own."""
        self._hosts: dict[str, HostView] = {}
        self._shared = SharedViews(config)
        self._away: list[str] | None = None
        """Hosts that have had jobs and are not in the configuration; None: not looked for."""
        self.leaving: frozenset[str] = frozenset()
        """Those of them that still hold jobs: their agents are heard until these have ended."""
        self._charged = Charged(config)

    # -- the engine's thread --------------------------------------------------------------------------------------

    def publish(self, engine: Engine) -> None:
        """Take over what changed since the last call; called after a commit only."""
        state = engine.state
        numbers, hosts = state.take_touched()
        # Jobs before arrays: a reader takes them the other way round, and so finds every element at least once.
        for number in numbers:
            job = state.jobs.get(number)
            if job is not None:
                self._publish_job(job, engine)
            elif number in self._jobs:
                self._forget_job(number)
        for number in numbers:
            array = state.arrays.get(number)
            if array is not None:
                self._arrays[number] = copy_of(
                    array, engine.own_reasons(number), engine.never_going_on(number), self._arrays.get(number)
                )
            elif self._arrays.pop(number, None) is not None:
                self._elements.pop(number, None)
        self._publish_hosts(engine, hosts)
        if engine.config is not self._shared.config:
            self._charged = Charged(engine.config)
        self._shared = SharedViews(
            config=engine.config,
            reasons=engine.cycles.reasons,
            reason_times=engine.cycles.reason_times,
            planned=engine.cycles.planned,
            summary=engine.cycles.summary,
            quarantined=tuple(f"Job <{show_job(job_id)}>: {text}" for job_id, text in state.quarantined.items()),
            queue_states=dict(state.queue_states),
            groups=dict(state.groups),
            reservations=dict(state.reservations),
            gpu_hosts=state.gpu_hosts,
        )

    def _publish_job(self, job: JobRecord, engine: Engine) -> None:
        number = job.job_id
        traits = _traits(job, engine.own_reasons(number)) if job.state in PENDING else None
        if traits is not None:
            self._traits[number] = traits
        else:
            self._traits.pop(number, None)
        is_new = job.state is JobState.PEND and not job.attempt and job.happened() is None
        self._jobs[number] = (
            Untouched(number, job.spec, job.submitted_at)
            if is_new
            else job.view(_usage(job, engine), _idle(job, engine))
        )
        if index_of(number):
            self._elements.setdefault(array_of(number), {})[number] = None

    def _forget_job(self, number: int) -> None:
        self._jobs.pop(number, None)
        self._traits.pop(number, None)
        members = self._elements.get(array_of(number))
        if members is not None:
            members.pop(number, None)

    def _publish_hosts(self, engine: Engine, hosts: set[str]) -> None:
        config = engine.config
        if config is not self._shared.config:
            hosts.update(config.hosts)
            self._hosts = {name: view for name, view in self._hosts.items() if name in config.hosts}
        ledgers = engine.state.ledger.hosts
        if self._away is None or config is not self._shared.config:
            self._away = [name for name in ledgers if name not in config.hosts]
        self.leaving = frozenset(name for name in self._away if ledgers[name].held)
        for name in hosts:
            if name in config.hosts:
                self._hosts[name] = host_view(config.hosts[name], config, engine.state, engine.observations.of(name))

    # -- any thread -----------------------------------------------------------------------------------------------

    @property
    def shared(self) -> SharedViews:
        """Queues, groups, reservations and reasons of one moment."""
        return self._shared

    @property
    def config(self) -> ClusterConfig:
        return self._shared.config

    @property
    def summary(self) -> str:
        """One sentence about the last scheduling cycle."""
        return self._shared.summary

    @property
    def quarantined(self) -> tuple[str, ...]:
        return self._shared.quarantined

    def job(self, job_id: int) -> JobView | None:
        """One job or element of an array, or None if it is not in memory."""
        job = self._jobs.get(job_id)
        if job is not None:
            return view_of(job)
        if not index_of(job_id):
            return None
        array = self._arrays.get(array_of(job_id))
        if array is None:
            return None
        if array.has_waiting(index_of(job_id)):
            return array.view(index_of(job_id))
        end = array.end_of(index_of(job_id))
        return array.ended_view(index_of(job_id), end) if end is not None else None

    def array(self, job_id: int) -> ArrayCopy | None:
        """The array of that number, or None."""
        return self._arrays.get(job_id)

    def jobs(self, wanted: JobFilter) -> Iterator[JobView]:
        """Jobs that the filter admits: started ones by id, then pending ones in serving order, then finished ones.

        They are those of this moment, however long reading them takes.
        """
        shared, listing = self.listed(wanted)
        reasons: dict[int, FoundReasons] = {}
        return (self._complete(view_of(job), shared, array, reasons) for job, array in listing)

    def listed(self, wanted: JobFilter) -> tuple[SharedViews, Listing]:
        """The same jobs as they were published, nothing made or found of them yet, and all else of their moment."""
        shared = self._shared
        arrays, jobs = self.records(wanted)
        listing = Listing(wanted, shared.config, self._rank)
        for array in arrays:
            listing.add_array(array, jobs)
        for job in jobs.values():
            listing.add(job)
        return shared, listing

    def open_jobs(self) -> tuple[list[ArrayCopy], Views]:
        """All arrays, and all jobs of their own that are in memory, finished ones too."""
        return list(self._arrays.values()), Views(list(self._jobs.values()))

    def arrays(self, wanted: JobFilter) -> list[ArrayView]:
        """Lines of gjobs -A: arrays that the filter admits, by number."""
        loose = msgspec.structs.replace(wanted, ids=(), states=(), host="", arrays=False, finished=True)
        found, numbers = [], {array_of(each) for each in wanted.ids}
        for number, array in sorted(self._arrays.items()):
            if numbers and number not in numbers:
                continue
            if admits(loose, array.template):
                found.append(array.summary())
        return found

    def hosts(self) -> list[HostView]:
        """All hosts, in lsf.cluster's order."""
        hosts = self._hosts
        return [hosts[name] for name in self._shared.config.hosts if name in hosts]

    def are_single(self, numbers: Iterable[int]) -> bool:
        """Whether each of the numbers means one job at most: no elements of an array are gone through for them."""
        return all(array_of(number) not in self._arrays and not self._elements.get(number) for number in numbers)

    def is_plain(self, number: int) -> bool:
        """Whether nothing of the pending job but its spec decides on its reasons."""
        return number not in self._traits

    def reasons_of(self, job: JobView) -> tuple[PendingReason, ...]:
        """Why the pending job waits; never empty."""
        array = self._arrays.get(array_of(job.job_id)) if job.job_id not in self._jobs else None
        return self._reasons(job, array, self._shared)[0]

    def found_reasons(
        self,
        job: JobView | Untouched,
        array: ArrayCopy | None,
        shared: SharedViews,
        reasons: dict[int, FoundReasons],
    ) -> FoundReasons:
        """Why a pending job of a listing waits, and since when that is known. `array`: it waits in that array's record.

        `reasons` are those of arrays seen before: waiting elements have the same, but for own conditions.
        """
        if array is None:
            return self._reasons(job, None, shared)
        if own := array.own_of(index_of(job.job_id)):
            return own, None
        if array.array_id not in reasons:
            reasons[array.array_id] = self._reasons(job, array, shared)
        return reasons[array.array_id]

    def reasons_of_array(self, array: ArrayCopy) -> tuple[PendingReason, ...]:
        """Why the array's waiting elements wait; never empty."""
        return self._reasons(array.template, array, self._shared)[0]

    def members(self, array_id: int) -> list[int]:
        """Numbers of the array's elements that are jobs of their own."""
        return list(self._elements.get(array_id, ()))

    def records(self, wanted: JobFilter) -> tuple[list[ArrayCopy], dict[int, JobView | Untouched]]:
        """The arrays and jobs that the filter's numbers mean; all without numbers."""
        if not wanted.ids:
            return list(self._arrays.values()), dict(self._jobs)
        arrays: dict[int, ArrayCopy] = {}
        jobs: dict[int, JobView | Untouched] = {}
        for number in wanted.ids:
            array = self._arrays.get(array_of(number))
            if array is not None:
                arrays[array.array_id] = array
        for number in wanted.ids:
            for each in (number, *self._elements.get(number, ())):
                job = self._jobs.get(each)
                if job is not None:
                    jobs[each] = job
        return list(arrays.values()), jobs

    def _rank(self, job: JobView | Untouched) -> Rank:
        traits = self._traits.get(job.job_id)
        return traits.rank if traits is not None else _plain_rank(job.job_id)

    def _complete(
        self,
        job: JobView,
        shared: SharedViews,
        array: ArrayCopy | None,
        reasons: dict[int, FoundReasons],
    ) -> JobView:
        """The view with what is known of it only when it is asked for. `array`, `reasons` as of `found_reasons`."""
        queue = shared.config.queues.get(job.spec.queue)
        priority = queue.priority if queue is not None else 0
        if queue is not None and queue.fairshare is not None:
            spec = job.spec
            job = msgspec.structs.replace(job, share_group=self._charged.of(spec.queue, spec.user, spec.user_group))
        if job.state not in PENDING:
            return msgspec.structs.replace(job, queue_priority=priority) if priority else job
        why, at = self.found_reasons(job, array, shared, reasons)
        found = shared.planned.get(job.job_id)
        # A cycle keeps more with its plans than readers are told.
        is_told = found is not None and (found.hosts or found.text)
        planned = PlannedStart(found.at, found.hosts, found.text) if found is not None and is_told else None
        return msgspec.structs.replace(
            job, pending_reasons=why, pending_reasons_at=at, queue_priority=priority, planned=planned
        )

    def _reasons(self, job: JobView | Untouched, array: ArrayCopy | None, shared: SharedViews) -> FoundReasons:
        traits = self._traits.get(job.job_id) or _PLAIN
        own = array.own_of(index_of(job.job_id)) if array is not None else traits.own
        if own:
            return own, None
        about = (traits.avoid_host, traits.excluded_hosts, traits.waited_s)
        bucket = array.bucket if array is not None else bucket_of(job.spec, job.job_id, *about)
        waiting = bucket if shared.reasons.get(bucket) else (bucket.queue, bucket.requirement)
        known = shared.reasons.get(waiting)
        found, at = (known, shared.reason_times.of(waiting)) if known else (_NEW, None)
        spec = job.spec
        gone = [host for host in spec.hosts if host not in shared.config.hosts] if not spec.other_hosts else ()
        if not gone or spec.queue not in shared.config.queues:
            return found, at
        left = len(spec.hosts) - len(gone)
        detail = coded("numbers.host_left" if left == 1 else "numbers.hosts_left", left, len(spec.hosts))
        lost = PendingReason(coded("pending.host_gone", gone[0]), detail=detail if len(spec.hosts) > 1 else "")
        return ((*found, lost) if left else (lost, *found)), at


def _plain_rank(job_id: int) -> Rank:
    return Rank(0.0, float(array_of(job_id)), index_of(job_id))


def _idle(job: JobRecord, engine: Engine) -> tuple[GpuIdleness, ...]:
    """What its hosts say of how idle its GPUs are."""
    if job.allocation is None or job.state in FINISHED:
        return ()
    told = [engine.observations.of(part.host).idle.get(job.key) for part in job.allocation.hosts if part.gpus]
    return tuple(gpu for idle in told if idle is not None for gpu in idle.gpus)


def _usage(job: JobRecord, engine: Engine) -> Usage | None:
    """What its hosts say that it uses."""
    if job.allocation is None:
        return None
    told = [engine.observations.of(part.host).usage.get(job.key) for part in job.allocation.hosts]
    return told[0] if len(told) == 1 else together(told[0], filter(None, told[1:]))


def _traits(job: JobRecord, own: tuple[PendingReason, ...]) -> Traits | None:
    """What is special about the pending job; None when nothing is, as for most of a hundred thousand."""
    if not own and job.is_untouched() and not job.spec.priority and not job.spec.aging_per_s:
        return None
    rank = job.rank()
    traits = Traits(rank, own, job.avoid_host, job.excluded_hosts, job.waited_s)
    return traits if traits != Traits(_plain_rank(job.job_id)) else None
