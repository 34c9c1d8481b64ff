"""Jobs of another batch system that the history goes on from: their one event told as those that such a job has here.

Whoever asks is told no other kinds of events. It runs in the process that reads for the master, and only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import msgspec

from gsched.base.ids import index_of
from gsched.model.event import (
    PAST_JOB,
    AnyEvent,
    JobDispatched,
    JobFinished,
    JobNoted,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    PastJobRecorded,
    decode_event,
    encode_event,
    kind_of,
)
from gsched.model.jobs.job import AttemptResult
from gsched.model.views.view import EventRecord


def told(records: Iterable[EventRecord]) -> Iterator[EventRecord]:
    """The same records, with those of such jobs told apart, where the first of the job is. Of an array, of which a
    record tells more than the one before, the first alone is told; of a job, of which each tells another run, all.
    """
    every = list(records)
    past: dict[int, list[EventRecord]] = {}
    for record in every:
        if record.kind == PAST_JOB:
            past.setdefault(record.job_id, []).append(record)
    for record in every:
        if record.kind != PAST_JOB:
            yield record
        elif (own := past.pop(record.job_id, None)) is not None:
            yield from _parts(own)


def newest_told(records: Sequence[EventRecord]) -> list[EventRecord]:
    """The same, with the last record of an array: it knows most of its elements."""
    past = [record for record in records if record.kind == PAST_JOB]
    return list(told(record for record in records if record.kind != PAST_JOB or record is past[-1]))


def _parts(records: Sequence[EventRecord]) -> Iterator[EventRecord]:
    first = records[0]
    for event in _events([fact for record in records if (fact := _read(record)) is not None]):
        payload = encode_event(event).decode()
        yield EventRecord(seq=first.seq, at=event.at, kind=kind_of(event), job_id=first.job_id, payload=payload)


def _read(record: EventRecord) -> PastJobRecorded | None:
    try:
        fact = decode_event(record.payload.encode())
    except (msgspec.MsgspecError, ValueError):
        return None
    return fact if isinstance(fact, PastJobRecorded) else None


def _events(facts: Sequence[PastJobRecorded]) -> Iterator[AnyEvent]:
    # Runs may have been taken over in another order than they were in.
    runs = sorted((fact for fact in facts if fact.result is not None), key=attrgetter("finished_at"))
    if facts and not index_of(facts[0].job_id):  # of an element the array's tells it
        fact = runs[-1] if runs else facts[0]
        yield JobSubmitted(at=fact.submitted_at, job_id=fact.job_id, spec=fact.spec)
    if runs:
        text = f"It was a job of cluster {runs[0].cluster}, from whose accounting this was taken over"
        yield JobNoted(at=runs[0].submitted_at, job_id=runs[0].job_id, text=text, is_warning=False)
    attempt = 0
    for run in runs:
        attempt += run.allocation is not None
        yield from _start(run, attempt)
        yield _end(run, attempt if run.allocation is not None else 0, is_last=run is runs[-1])


def _start(run: PastJobRecorded, attempt: int) -> Iterator[AnyEvent]:
    at, allocation = run.dispatched_at, run.allocation
    if at is not None and allocation is not None:
        yield JobDispatched(
            at=at, job_id=run.job_id, attempt=attempt, allocation=allocation, effective_req=run.effective_req
        )
        yield JobStarted(at=at, job_id=run.job_id, attempt=attempt, pid=0)


def _end(run: PastJobRecorded, attempt: int, *, is_last: bool) -> AnyEvent:
    result = run.result or AttemptResult()
    if is_last:
        return JobFinished(at=run.finished_at, job_id=run.job_id, attempt=attempt, result=result)
    return JobRequeued(
        at=run.finished_at,
        job_id=run.job_id,
        attempt=attempt,
        reason="it was requeued there",
        failed_start=not result.started,
        result=result,
    )
