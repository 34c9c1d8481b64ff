"""Jobs set aside because a record of theirs cannot be read: one bad record costs one job, never a master's start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from gsched.model.event import AnyEvent, decode_event, kind_of
from gsched.store.tables.records import StoredEvent


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that is not to be applied. `job_id` is None when it is of no job; `text` is for the administrator."""

    seq: int
    job_id: int | None
    text: str


class Quarantine:
    """The jobs set aside so far, with the first reason of each.

    Begin with the reasons of the checkpoint that the replay starts from: a job set aside before it stays aside after.
    The reader of events may `add` a job while it iterates (its event decodes but does not apply): from the next record
    on the job's events come as Quarantined.
    """

    def __init__(self, reasons: Mapping[int, str] | None = None) -> None:
        self._reasons = dict(reasons or {})

    @property
    def reasons(self) -> Mapping[int, str]:
        """Job id -> why it is set aside."""
        return MappingProxyType(self._reasons)

    def add(self, job_id: int, text: str) -> None:
        """Set a job aside; the first reason stays."""
        self._reasons.setdefault(job_id, text)

    def holds(self, job_id: int) -> bool:
        """Is the job set aside?"""
        return job_id in self._reasons

    def lines(self) -> tuple[str, ...]:
        """One line per job, by number, for people."""
        return tuple(f"job {job_id}: {text}" for job_id, text in sorted(self._reasons.items()))


def read_events(
    records: Iterable[StoredEvent], after_seq: int, quarantine: Quarantine, floor_seq: Callable[[], int] = lambda: 0
) -> Iterator[tuple[int, AnyEvent] | Quarantined]:
    """Decode `records` in order; what cannot be read, and all later records of its job, come as Quarantined.

    A hole in the numbering (`after_seq` is the number before the first) is reported the same way, without a job, but
    for what is below the floor (gsched.store.tables.floor): `floor_seq` is asked at each hole, for it may rise
    while this reads.
    """
    expected = after_seq + 1
    for record in records:
        first = record.seq if record.seq == expected else max(expected, floor_seq())
        if record.seq > first:
            yield Quarantined(first, None, _hole(first, record.seq - 1))
        expected = record.seq + 1
        if record.job_id is not None and quarantine.holds(record.job_id):
            yield Quarantined(record.seq, record.job_id, quarantine.reasons[record.job_id])
            continue
        try:
            event = decode_event(record.payload)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            yield _set_aside(record, str(error), quarantine)
            continue
        problem = _contradiction(record, event)
        if problem:
            # Either number may be the wrong one, so both jobs are in doubt.
            named = getattr(event, "job_id", None)
            if named is not None and named != record.job_id:
                quarantine.add(named, f"record {record.seq} is damaged: {problem}")
            yield _set_aside(record, problem, quarantine)
            continue
        yield record.seq, event


def _contradiction(record: StoredEvent, event: AnyEvent) -> str:
    """What the record's columns and its payload disagree about; empty when nothing."""
    named: int | None = getattr(event, "job_id", None)
    if named != record.job_id:
        return f"its payload speaks of job {named}, its row of job {record.job_id}"
    if kind_of(event) != record.kind:
        return f"its payload is a {kind_of(event)}, its row says {record.kind}"
    return ""


def _set_aside(record: StoredEvent, problem: str, quarantine: Quarantine) -> Quarantined:
    text = f"record {record.seq} ({record.kind}) cannot be read: {problem}"
    if record.job_id is not None:
        quarantine.add(record.job_id, text)
    return Quarantined(record.seq, record.job_id, text)


def _hole(first: int, last: int) -> str:
    return f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
