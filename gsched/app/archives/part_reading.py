"""The jobs of a part as its files tell them. It only reads, and knows no store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gsched.base.ids import show_job
from gsched.master.archive.archive_files import damaged, read_lines
from gsched.master.archive.archive_lines import job_of_event, read_event, read_job, row_of
from gsched.master.archive.archive_manifest import Part
from gsched.model.views.view import EventRecord
from gsched.store.tables.schema import JobRow


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job's lines as they lie in the files."""

    number: int
    line: int
    """In the file of jobs."""
    job: bytes
    row: JobRow
    events: list[bytes]
    records: list[EventRecord]
    """The events that these lines tell."""


def stored_jobs(folder: Path, part: Part) -> Iterator[StoredJob]:
    """All jobs of a part with their events, in order. Raises DamagedData, BadRequest."""
    jobs, events = read_lines(folder, part.jobs), read_lines(folder, part.events)
    for number, line in jobs:
        try:
            job = read_job(line)
            row = row_of(job)
        except ValueError as problem:
            raise damaged(folder / part.jobs.name, number, problem) from None
        told = [_event(folder, part, events, row.job_id) for _ in range(job.events)]
        yield StoredJob(row.job_id, number, line, row, [text for text, _ in told], [record for _, record in told])
    for number, _ in events:
        raise damaged(folder / part.events.name, number, "an event of no job of this part")


def _event(folder: Path, part: Part, events: Iterator[tuple[int, bytes]], job_id: int) -> tuple[bytes, EventRecord]:
    number, line = next(events, (0, b""))
    try:
        if job_of_event(line) != job_id:
            raise ValueError(f"an event of job {show_job(job_id)} should be here")
        return line, read_event(line)
    except ValueError as problem:
        raise damaged(folder / part.events.name, number, problem) from None


def stored_numbers(folder: Path, part: Part) -> Iterator[tuple[int, int]]:
    """Number of each job of a part, and how many events it has there; the events are not read. Raises DamagedData,
    BadRequest.
    """
    for number, line in read_lines(folder, part.jobs):
        try:
            job = read_job(line)
            yield row_of(job).job_id, job.events
        except ValueError as problem:
            raise damaged(folder / part.jobs.name, number, problem) from None
