"""`ghist -t`: what happened to all the jobs, in order of time; each line names its job.

Source: bhist(1) of LSF 10.1, option -t.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo

from gsched.cli.render.jobs import job_lines
from gsched.cli.render.jobs.history import HistoryRecord
from gsched.cli.render.text.text_columns import INDENT, INDENT_WITH_YEAR, fold
from gsched.cli.render.text.time_texts import long_stamp


def render_chronology(
    records: Iterable[HistoryRecord],
    zone: tzinfo,
    since: float,
    until: float,
    *,
    unfolded: bool = False,
    year: bool = False,
) -> str:
    """Events from `since` to `until`, both included; empty when there are none. Times: UTC seconds."""
    told = sorted(
        (line for record in records for line in _lines(record, zone) if since <= line[0] < until + 1),
        key=lambda line: line[0],
    )
    texts = (f"{long_stamp(at, zone, year=year)}: {text}" for at, text in told)
    indent = INDENT_WITH_YEAR if year else INDENT
    return "".join(text + "\n" if unfolded else fold(text, indent=indent) for text in texts)


def _lines(record: HistoryRecord, zone: tzinfo) -> Iterator[tuple[float, str]]:
    job = record.job
    header = job_lines.header(job, with_state=False)
    yield job.view.submitted_at, f"{header}, {job_lines.submission(job, with_queue=True, zone=zone)}"
    for event in record.events:
        for text in event.lines():
            yield event.at, f"Job <{job.label}> {text}"
