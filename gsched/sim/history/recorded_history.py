"""The recorded history of a cluster as a workload: what was submitted, when, and how long each job held what it had.

It reads committed events of a store, also while a master writes it, and changes nothing. A job's run is from its last
dispatch to its end, without the time that it was suspended. What the record does not tell stays out: load, failures of
hosts, what people did to running jobs.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.ids import array_of, index_of
from gsched.model.config import STORE_FILE
from gsched.model.event import (
    AnyEvent,
    JobDispatched,
    JobFinished,
    JobModified,
    JobReleased,
    JobRequeued,
    JobSubmitted,
    JobSwitched,
    SubmissionAccepted,
    decode_event,
)
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation
from gsched.sim.trace import TraceJob
from gsched.sim.workload import Workload, in_order
from gsched.store.history_queries import History
from gsched.store.past_queries import PastStore

PAGE = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedJob(TraceJob):
    """A job of a history."""

    wish: JobSpec
    """What it asked for, without what only its processes needed."""
    began_at: float
    """UTC seconds of its last dispatch."""
    place: Allocation
    """What it got then."""

    def spec(self) -> JobSpec:
        return self.wish


@dataclass(slots=True)
class _Record:
    """What is known of a job so far."""

    spec: JobSpec
    arrived_at: float
    began_at: float | None = None
    place: Allocation | None = None
    held_s: float | None = None
    """None: it has not ended."""


def read_history(path: str, since: float | None = None, until: float | None = None) -> Workload:
    """The jobs of a store that arrived within that time (UTC seconds; None: open): the folder of a master's state, or
    its database. Raises NotFound or Conflict for what is no
    store, or one of a newer gsched, BadRequest for an event that cannot be read or a history without jobs that ran.
    """
    with closing(store_of(path)) as store:
        floor = store.floor()
    if since is not None and (gone := floor.why_not(since)):
        raise BadRequest(f"{path}: {gone}")
    reader = _Reader(path)
    for seq, event in _events(path, floor.seq):
        try:
            reader.follow(event)
        except (KeyError, ValueError) as error:
            raise BadRequest(f"{path}: event {seq} does not follow from those before it: {error}") from None
    begin = floor.at or -math.inf  # of jobs from before some are gone
    jobs, left_out = reader.jobs(begin if since is None else since, math.inf if until is None else until)
    if not jobs:
        within = "" if since is None and until is None else " within that time"
        raise BadRequest(f"{path}: no job of this history has ended{within}")
    begins_at = min(job.arrives_s for job in jobs)
    return Workload(path, in_order(jobs), begins_at, left_out)


def store_of(path: str) -> PastStore:
    """What looks at the past read of the store. Raises as `read_history` for what is none."""
    return PastStore(History(_file_of(path)))


def _file_of(path: str) -> str:
    return os.path.join(path, STORE_FILE) if os.path.isdir(path) else path


def _events(path: str, floor: int) -> Iterator[tuple[int, AnyEvent]]:
    """`floor`: events below that number may be gone."""
    history, seq = History(_file_of(path)), 0
    while page := history.events_after(seq, PAGE):
        for record in page:
            first = record.seq if record.seq == seq + 1 else max(seq + 1, floor)
            if record.seq > first:
                if history.floor().seq > floor:
                    raise BadRequest(f"{path}: old jobs were taken away while it was read: read it again")
                raise BadRequest(f"{path}: events {first} to {record.seq - 1} are missing")
            seq = record.seq
            try:
                yield seq, decode_event(record.payload.encode())
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise BadRequest(f"{path}: event {seq} cannot be read: {error}") from None


@dataclass(slots=True)
class _Reader:
    path: str
    records: dict[int, _Record] = field(default_factory=dict)
    arrays: dict[int, _Record] = field(default_factory=dict)

    def follow(self, event: AnyEvent) -> None:
        """What the event says of a job."""
        match event:
            case JobSubmitted():
                kept = self.arrays if event.spec.indices else self.records
                kept[event.job_id] = _Record(event.spec, max(event.at, event.not_before))
            case JobModified() | JobSwitched():
                self._of(event.job_id).spec = event.spec
            case JobReleased():
                self._of(event.job_id).arrived_at = event.at
            case JobDispatched():
                record = self._of(event.job_id)
                record.began_at, record.place, record.held_s = event.at, event.allocation, None
            case JobRequeued():
                record = self._of(event.job_id)
                record.began_at = record.place = record.held_s = None
            case JobFinished():
                record = self._of(event.job_id)
                if record.began_at is not None and event.attempt:
                    record.held_s = max(0.0, event.at - record.began_at - event.result.suspended_s)
            case SubmissionAccepted():
                pass  # an event follows for each of its jobs

    def _of(self, number: int) -> _Record:
        if index_of(number) and number not in self.records:
            array = self.arrays[array_of(number)]
            self.records[number] = _Record(array.spec, array.arrived_at)
        return self.records[number] if number in self.records else self.arrays[number]

    def jobs(self, since: float, until: float) -> tuple[list[RecordedJob], dict[str, int]]:
        """Jobs that arrived within that time and have ended, by number, and why others are none."""
        left_out: Counter[str] = Counter()
        found = []
        for number, record in self.records.items():
            if not since <= record.arrived_at <= until:
                left_out["arrived at another time"] += 1
            elif record.began_at is None or record.place is None:
                left_out["never ran"] += 1
            elif record.held_s is None:
                left_out["still run"] += 1
            else:
                found.append(_job(number, record, record.began_at, record.place, record.held_s))
        return found, dict(left_out)


def _job(number: int, record: _Record, began_at: float, place: Allocation, held_s: float) -> RecordedJob:
    spec = record.spec
    return RecordedJob(
        arrives_s=record.arrived_at,
        runs_s=held_s,
        limit_s=None,  # the record tells how long it ran: no limit ends it once more
        slots=spec.slots,
        gpus=len(place.hosts[0].gpus),
        queue=spec.queue,
        user=spec.user,
        project=spec.project,
        name=spec.name,
        line=number,
        wish=_wish(spec),
        began_at=began_at,
        place=place,
    )


def _wish(spec: JobSpec) -> JobSpec:
    """What decides where and when it runs, as it was asked for: admission completes it anew."""
    defaulted = set(spec.defaulted)
    return JobSpec(
        command="sim",
        user=spec.user,
        queue=spec.queue,
        project=spec.project,
        name=spec.name,
        slots=spec.slots,
        max_slots=spec.max_slots,
        res_req=spec.res_req,
        gpu_req=spec.gpu_req,
        hosts=spec.hosts,
        host_levels=spec.host_levels,
        other_hosts=spec.other_hosts,
        first_hosts=spec.first_hosts,
        exclusive=spec.exclusive,
        priority=None if "priority" in defaulted else spec.priority,
        run_limit_s=None if "run_limit_s" in defaulted else spec.run_limit_s,
        estimate_s=None if "estimate_s" in defaulted else spec.estimate_s,
        rerunnable=None if "rerunnable" in defaulted else spec.rerunnable,
        warning_signal="" if "warning_signal" in defaulted else spec.warning_signal,
        warning_s=None if "warning_signal" in defaulted else spec.warning_s,
        saves_on_signal=spec.saves_on_signal and "warning_signal" not in defaulted,
        application="" if "application" in defaulted else spec.application,
        user_group=spec.user_group,
    )
