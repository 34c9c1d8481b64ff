"""`ghist` (bhist): what happened to jobs, and how long they spent in each state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import tzinfo
from fnmatch import fnmatchcase

from gsched.base.errors import LSF_FAILURE, BadRequest, GschedError
from gsched.base.ids import array_of, show_job
from gsched.cli.call import Call
from gsched.cli.chronicle import history_record
from gsched.cli.command import FILTERS, GENERAL, GROUP, program, read_options, shows_year
from gsched.cli.render import history
from gsched.cli.render.chronology import render_chronology
from gsched.cli.render.history import HistoryRecord
from gsched.cli.selection import parse_job_ids
from gsched.cli.session import connected
from gsched.cli.sizes import unit_of
from gsched.cli.zone import zone_of
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.dialect.spans import parse_span
from gsched.model.view import JobFilter, JobHistory
from gsched.wire.protocol import HISTORY_LIMIT

TABLE = OptionTable(
    summary="show what happened to jobs and how long they spent in each state",
    operands="[JOB ...]   (without JOB: yours that have not finished)",
    options=(
        Option("l", help="every event of each job"),
        Option("UF", help="the same, without folding lines"),
        Option("w", help="cut nothing"),
        Option("a", help="finished jobs too"),
        Option("d", help="jobs that are done"),
        Option("e", help="jobs that exited"),
        Option("p", help="pending jobs"),
        Option("r", help="running jobs"),
        Option("s", help="suspended jobs"),
        Option("t", help="the events of all these jobs in order of time, of the last week"),
        Option("T", "TIMES", "with -t: of that time", "-T .-3,"),
        Option("C", "TIMES", "only jobs that ended in that time", "-C 2026/11/1,2026/11/30"),
        Option("S", "TIMES", "only jobs that were submitted in that time", "-S .-7,"),
        Option("D", "TIMES", "only jobs that were dispatched in that time", "-D 21/12:00,21/13:00"),
        Option("n", "LOGS", "taken for LSF's sake: all of the history is searched anyway"),
        Option("P", "PROJECT", "only jobs of this project"),
        Option("app", "PROFILE", "only jobs of this application profile"),
        Option("Jd", "TEXT", "only jobs of this description; * stands for anything"),
        *FILTERS,
        GROUP,
        *GENERAL,
        *unsupported("A", "b", "cname", "f", "hms", "N", "sla", "x", "X"),
    ),
    interspersed=True,
    examples=("PROGRAM -l 1153", "PROGRAM -a"),
)

WEEK_S = 7 * 24 * 3600.0

_STATES = {
    "d": ("DONE",),
    "e": ("EXIT",),
    "p": ("PEND", "PSUSP"),
    "r": ("RUN", "UNKWN"),
    "s": ("PSUSP", "USUSP", "SSUSP"),
}


def main(call: Call) -> int:
    """Run `ghist`."""
    options = read_options(call, TABLE)
    zone, now = zone_of(call.env), time.time()
    if options.has("T") and not options.has("t"):
        raise BadRequest(f"{program(call)}: -T is given together with -t")
    wanted = _wanted(call, options)
    is_meant = _within(options, now, zone)
    chosen = _chosen(options)
    with connected(call) as session:
        reader = _Reader(call, wanted)
        stored = reader.read(session.client.history(wanted))
        records = [record for record in stored if is_meant(record) and chosen(record)]
    if reader.count >= HISTORY_LIMIT and not wanted.group:
        call.error(f"The newest {HISTORY_LIMIT} jobs were looked at; -q, -u, -m, -J, -P or numbers tell of others\n")
    records.sort(key=lambda record: (record.job.job_id, record.job.index))
    if not records:
        if not reader.problems:
            call.write("No matching job found\n")
        return LSF_FAILURE
    year = shows_year(call, "LSB_BHIST_DISPLAY_YEAR")
    if options.has("t"):
        since, until = parse_span(options.last("T"), now, zone) if options.has("T") else (now - WEEK_S, now)
        text = render_chronology(records, zone, since or 0.0, until, unfolded=options.has("UF"), year=year)
        call.write(text or "No matching job/event found\n")
        return LSF_FAILURE if reader.problems or not text else 0
    if options.has("l", "UF"):
        call.write(history.render_history(records, zone, now, unfolded=options.has("UF"), year=year))
    else:
        call.write(history.render_summary(records, now, wide=options.has("w")))
    return LSF_FAILURE if reader.problems else 0


def _within(options: Parsed, now: float, zone: tzinfo) -> Callable[[HistoryRecord], bool]:
    """Whether a job was submitted, dispatched and ended in the times of -S, -D and -C. Raises BadRequest."""
    spans = [(moments, parse_span(options.last(name), now, zone)) for name, moments in _MOMENTS if options.has(name)]

    def is_meant(record: HistoryRecord) -> bool:
        return all(any((since or 0.0) <= at < until + 1 for at in moments(record)) for moments, (since, until) in spans)

    return is_meant


def _chosen(options: Parsed) -> Callable[[HistoryRecord], bool]:
    """Whether a job is one of -app and -Jd."""
    description = options.last("Jd").replace("[", "[[]").replace("?", "[?]")

    def is_chosen(record: HistoryRecord) -> bool:
        job = record.job
        if options.has("app") and job.application != options.last("app"):
            return False
        return not options.has("Jd") or fnmatchcase(job.description, description)

    return is_chosen


def _ends(record: HistoryRecord) -> list[float]:
    ends = [event.at for event in record.events if event.state == "END"]
    return ends[-1:] if history.has_ended(record) else []


_MOMENTS: tuple[tuple[str, Callable[[HistoryRecord], list[float]]], ...] = (
    ("S", lambda record: [record.job.submitted_at]),
    ("D", lambda record: [event.at for event in record.events if isinstance(event, history.Dispatched)]),
    ("C", _ends),
)


def _wanted(call: Call, options: Parsed) -> JobFilter:
    job_ids = tuple(job_id for job_id in parse_job_ids(options.rest) if job_id)
    states = tuple(dict.fromkeys(state for name in _STATES if options.has(name) for state in _STATES[name]))
    return JobFilter(
        ids=job_ids,
        user=options.last("u", "all" if job_ids else call.user),
        queue=options.last("q"),
        host=options.last("m"),
        name=options.last("J"),
        project=options.last("P"),
        group=options.last("g"),
        states=states,
        finished=bool(job_ids) or options.has("a", "d", "e", "t", "S", "D", "C"),
    )


class _Reader:
    """Turns stored histories into records; what cannot be told is said on standard error and counted."""

    def __init__(self, call: Call, wanted: JobFilter) -> None:
        self._call = call
        self._wanted = wanted
        self._unit = unit_of(call)
        self.problems = 0
        self.count = 0

    def read(self, stored: Iterator[JobHistory]) -> Iterator[HistoryRecord]:
        found: set[int] = set()
        for each in stored:
            self.count += 1
            found.update((each.job_id, array_of(each.job_id)))
            try:
                yield history_record(each, self._unit)
            except GschedError as problem:
                self._complain(problem.text)
        missing = [job_id for job_id in self._wanted.ids if job_id not in found]
        if found:
            for job_id in missing:
                self._complain(f"Job <{show_job(job_id)}>: No matching job found")

    def _complain(self, text: str) -> None:
        self.problems += 1
        self._call.error(text + "\n")
