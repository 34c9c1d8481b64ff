"""The record of a master as moments in their order: what happened, what was seen of hosts, what the scheduler decided.

It reads committed records of a store, also while a master writes it, and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.core.resources.host_entries import HostEntries, unpack_entries
from gsched.core.resources.kept_observations import KeptObservation
from gsched.model.event import (
    AnyEvent,
    ConfigApplied,
    JobDispatched,
    JobForgotten,
    JobGpuCurves,
    JobIdleWarned,
    JobMessagePosted,
    JobNoted,
    JobNoticeMade,
    JobNoticeSettled,
    JobOutputRemoved,
    JobPartStarted,
    JobRequeueRequested,
    JobServiceAnswered,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from gsched.store.past_queries import PastStore
from gsched.store.safeguards.quarantine import Quarantine, Quarantined
from gsched.store.tables.schema import HostRecordRow

_LETS_NOTHING_START = (
    *(JobStarted, JobPartStarted, JobMessagePosted, JobNoted, JobGpuCurves, JobNoticeMade, JobNoticeSettled),
    JobOutputRemoved,
    *(JobServiceAnswered, JobIdleWarned, JobForgotten),
)
_BY_THE_MASTERS_CLOCK = (ConfigApplied, JobSubmitted, JobDispatched)
"""The others may have been told by a host, by its clock."""
AnyRecord = tuple[int, AnyEvent] | Quarantined


@dataclass(slots=True)
class RecordedMoment:
    """What was recorded together. One of the lists has something in it, or a master starts."""

    at: float
    """UTC seconds."""
    events: list[tuple[int, AnyEvent]] = field(default_factory=list)
    seen: list[tuple[str, KeptObservation]] = field(default_factory=list)
    unreadable: list[Quarantined] = field(default_factory=list)
    is_start: bool = False
    """A master has started: it knows nothing of any host."""
    is_decision: bool = False
    """The events are what one scheduling cycle decided, and what followed from it."""


def moments_of(store: PastStore, path: str, after_seq: int, quarantine: Quarantine) -> Iterator[RecordedMoment]:
    """All from the event after this one on; what was seen of hosts before it comes first."""
    events = store.events(after_seq, quarantine)
    yield from _grouped(_as_told(_merged(events, _host_moments(store.host_rows_from(after_seq), path))))


def is_decided(event: AnyEvent) -> bool:
    """Whether a scheduling cycle has decided it."""
    match event:
        case JobDispatched():
            return True
        case JobSuspended():
            return bool(event.preempted_by)
        case JobRequeueRequested():
            return bool(event.preempted_by) or event.resize is not None
    return False


def wakes(moment: RecordedMoment) -> bool:
    """Whether a scheduling cycle followed from it: jobs may start that could not before."""
    return bool(moment.seen) or any(not isinstance(event, _LETS_NOTHING_START) for _, event in moment.events)


def _host_moments(rows: Iterable[HostRecordRow], path: str) -> Iterator[tuple[int, RecordedMoment]]:
    """(number of the event that it comes behind, what was seen)."""
    entries = HostEntries()
    for row in rows:
        try:
            found = unpack_entries(row.data)
            if row.whole:
                entries.begin()
                if not found:
                    yield row.seq, RecordedMoment(row.at, is_start=True)
            for host, at, seq, delta in found:
                entries.follow(host, delta)
                yield seq, RecordedMoment(at, seen=[(host, entries.seen(host))])
        except ValueError as error:
            raise BadRequest(f"{path}: what was seen of hosts behind event {row.seq} cannot be read: {error}") from None


def _merged(events: Iterable[AnyRecord], hosts: Iterator[tuple[int, RecordedMoment]]) -> Iterator[RecordedMoment]:
    """Each record as a moment of its own."""
    pending = next(hosts, None)
    for record in events:
        seq = record.seq if isinstance(record, Quarantined) else record[0]
        while pending is not None and pending[0] < seq:
            yield pending[1]
            pending = next(hosts, None)
        if isinstance(record, Quarantined):
            yield RecordedMoment(0.0, unreadable=[record])
        else:
            yield RecordedMoment(record[1].at, events=[record], is_decision=is_decided(record[1]))
    if pending is not None:
        yield pending[1]
    yield from (moment for _, moment in hosts)


def _as_told(moments: Iterable[RecordedMoment]) -> Iterator[RecordedMoment]:
    """No moment before what the master had recorded by then: an end of which a host tells late was not known before."""
    seen_at = 0.0
    for moment in moments:
        if not moment.events or isinstance(moment.events[0][1], _BY_THE_MASTERS_CLOCK):
            seen_at = max(seen_at, moment.at)
        moment.at = max(seen_at, moment.at)
        yield moment


def _grouped(moments: Iterable[RecordedMoment]) -> Iterator[RecordedMoment]:
    """Events of one time together, and what one cycle decided apart from what came before it at that time."""
    current: RecordedMoment | None = None
    for moment in moments:
        if current is not None and _belongs(current, moment):
            current.events += moment.events
            continue
        if current is not None:
            yield current
        current = moment
    if current is not None:
        yield current


def _belongs(current: RecordedMoment, moment: RecordedMoment) -> bool:
    if not (current.events and moment.events) or moment.at != current.at:
        return False
    if current.is_decision:
        return moment.is_decision or isinstance(moment.events[0][1], JobNoted | JobNoticeMade)
    return not moment.is_decision
