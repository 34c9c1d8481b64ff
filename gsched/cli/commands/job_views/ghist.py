"""`ghist` (bhist): what happened to jobs, and how long they spent in each state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from msgspec.structs import replace

from gsched.base.errors import LSF_FAILURE, BadRequest, GschedError
from gsched.base.ids import array_of, show_job
from gsched.cli.answers.attempt_use import attempts_of
from gsched.cli.answers.exceptions_of_jobs import JobExceptions
from gsched.cli.answers.history_view import history_record
from gsched.cli.answers.known_gpus import known_gpus
from gsched.cli.host_answers.cpu_factors import NORMALIZED, CpuFactors
from gsched.cli.options.job_filters import OF_USER_GROUP, asked_jobs
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.options.past_time import since_when
from gsched.cli.options.size_units import unit_of
from gsched.cli.render.gpu_use.use_json import cpu_time, energy_of, gpu_records, named_record
from gsched.cli.render.jobs import history
from gsched.cli.render.jobs.chronology import render_chronology
from gsched.cli.render.jobs.history import HistoryEnd, HistoryRecord
from gsched.cli.render.jobs.jobs_long import SEPARATOR
from gsched.cli.render.text.output_formats import json_pieces
from gsched.cli.session.archive_session import FROM_ARCHIVE, asked
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import (
    FILTERS,
    GENERAL,
    GROUP,
    SERVICE_CLASS,
    program,
    read_options,
    shows_hms,
    shows_year,
)
from gsched.cli.session.session import setting
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.dialect.times import parse_span
from gsched.model.hosts.host import Gpu
from gsched.model.views.archive_question import ArchiveQuestion
from gsched.model.views.catalogue import TimeSpan
from gsched.model.views.past_query import HistoryQuery, JobTimes
from gsched.model.views.view import JobHistory
from gsched.wire.calls.past_calls import KeptSince, PastAnswer, PastCalls
from gsched.wire.messages.protocol import HISTORY_LIMIT

TABLE = OptionTable(
    summary="show what happened to jobs and how long they spent in each state",
    operands="[JOB ...]   (without JOB: yours that have not finished)",
    options=(
        Option("l", help="every event of each job"),
        Option("UF", help="the same, without folding lines"),
        Option("gpu", help="with -l: what each job made of its GPUs"),
        Option("json", help="with -l -gpu: that of each attempt as JSON, with its curves over time"),
        Option("w", help="cut nothing"),
        Option("a", help="finished jobs too"),
        Option("d", help="jobs that are done"),
        Option("e", help="jobs that exited"),
        Option("p", help="pending jobs"),
        Option("r", help="running jobs"),
        Option("s", help="suspended jobs"),
        Option("x", help="only jobs that ran too long, failed too soon or were idle, as their queues see it"),
        Option("t", help="the events of all these jobs in order of time, of the last week"),
        Option("T", "TIMES", "with -t: of that time", "-T .-3,"),
        Option("C", "TIMES", "only jobs that ended in that time", "-C 2026/11/1,2026/11/30"),
        Option("S", "TIMES", "only jobs that were submitted in that time", "-S .-7,"),
        Option("D", "TIMES", "only jobs that were dispatched in that time", "-D 21/12:00,21/13:00"),
        Option("n", "LOGS", "taken for LSF's sake: all of the history is searched anyway"),
        Option("P", "PROJECT", "only jobs of this project"),
        Option("app", "PROFILE", "only jobs of this application profile"),
        SERVICE_CLASS,
        OF_USER_GROUP,
        NORMALIZED,
        Option("b", help="one line for each job, as without -l"),
        Option("X", help="taken for LSF's sake: host groups are never condensed"),
        Option("hms", help="times in states as HH:MM:SS"),
        Option("Jd", "TEXT", "only jobs of this description; * stands for anything"),
        *FILTERS,
        GROUP,
        FROM_ARCHIVE,
        *GENERAL,
        *unsupported("cname"),
        *unsupported("f", because="ghist reads a database, not a file of LSF"),
        *unsupported("A", because="ghist -l shows all of each job, without it a line"),
    ),
    interspersed=True,
    examples=("PROGRAM -l 1153", "PROGRAM -a", "PROGRAM --archive /archive/gsched -l 1153"),
)

WEEK_H = 7 * 24
MOST_HOURS = 1_000_000
MOST_AT_LENGTH = 100_000
"""Jobs of which every event is told; the one-line form goes as far as the master looks (HISTORY_LIMIT)."""
FEW, FEW_AT_LENGTH = 2_500, 250
"""Jobs that the door lays out for a caller; more of them his own process does."""
PIECE = 1 << 18
"""Characters that are written at a time."""

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
    if options.has("b") and options.has("l"):
        raise BadRequest(f"{program(call)}: -b and -l cannot be given together")
    if options.has("gpu") and (options.has("t") or not options.has("l", "UF")):
        raise BadRequest(f"{program(call)}: -gpu is given together with -l")
    if options.has("json") and not options.has("gpu"):
        raise BadRequest(f"{program(call)}: -json is given together with -l -gpu")
    wanted = _wanted(call, options, now, zone)
    year = shows_year(call, "LSB_BHIST_DISPLAY_YEAR")
    with asked(call, options, ArchiveQuestion(histories=wanted)) as session:
        told = _told(call, session.client.past, wanted)
        known = known_gpus(session.client) if options.has("gpu") else None
        exceptions = JobExceptions(session.client.queues(), now) if options.has("x") else None
        factors = CpuFactors(call, session.client, options.last("N")) if options.has("N") else None
        reader = _Reader(call, wanted.jobs.ids, known, _admits(options, exceptions), factors)
        texts: Iterator[str]
        if options.has("t"):
            records = [each for each in reader.read(told) if isinstance(each, HistoryRecord)]
            span = wanted.active
            chronology = (records, zone, span.since or 0.0, now if span.until is None else span.until)
            texts = iter([render_chronology(*chronology, unfolded=options.has("UF"), year=year)] if records else [])
        elif options.has("json"):
            texts = json_pieces(map(_gpu_record, reader.read_with_events(told)), command="bhist", counted="JOBS")
        elif options.has("l", "UF"):
            layout = {"unfolded": options.has("UF"), "year": year, "with_gpus": options.has("gpu")}
            texts = _at_length(reader.read(told), zone, now, **layout)
        else:
            hms = options.has("hms") or shows_hms(call)
            texts = _summary(reader.read(told), now, wide=options.has("w"), hms=hms)
        shown = _write(call, texts, reader)
    found_nothing = not reader.count and not reader.problems and not options.has("json")
    if found_nothing:
        call.write("No matching job found\n")
    elif options.has("t") and reader.count and not shown:
        call.write("No matching job/event found\n")
    if found_nothing or reader.problems or _looks_further_back(wanted, told.kept):
        _say_since(call, told.kept, zone)
    if told.cut_at is not None:
        # A later end of -S goes on where this stops: what was submitted within that second is told once more.
        since = datetime.fromtimestamp(told.cut_at, zone).strftime("%Y/%m/%d/%H:%M:%S")
        call.error(
            f"There are more: only the {wanted.limit} jobs that were submitted last are shown, back to {since}; "
            f"-S ,{since[:-3]} shows older ones, and -C, -u, -q, -m, -J, -P or numbers choose among all\n"
        )
    return 0 if shown and reader.count and not reader.problems else LSF_FAILURE


def _looks_further_back(wanted: HistoryQuery, kept: KeptSince) -> bool:
    """Whether a span that is asked for begins before history does."""
    begins = [span.since for span in (wanted.submitted, wanted.dispatched, wanted.completed, wanted.active) if span]
    asked = [0.0 if since is None else since for since in begins]
    return bool(asked) and min(asked) < max(kept.jobs or 0.0, kept.events or 0.0)


def _say_since(call: Call, kept: KeptSince, zone: tzinfo) -> None:
    if line := since_when(kept, zone):
        call.error(line)


def _admits(options: Parsed, exceptions: JobExceptions | None) -> Callable[[HistoryRecord], bool]:
    """Whether a job is one that -G and -x choose, which no question to the master can say."""
    group = options.last("G")

    def admits(record: HistoryRecord) -> bool:
        is_exception = exceptions is None or bool(exceptions.of(record.last or record.job.view))
        return is_exception and (not group or record.job.spec.user_group == group)

    return admits


def _normalized(record: HistoryRecord, factors: CpuFactors) -> HistoryRecord:
    """The job with its CPU time as on another host; that of earlier attempts, too."""
    by = factors.of(record.job.view.allocation)
    told = tuple(
        replace(event, cpu_s=event.cpu_s * by) if isinstance(event, HistoryEnd) and event.cpu_s is not None else event
        for event in record.events
    )
    return replace(record, job=replace(record.job, view=factors.scaled(record.job.view)), events=told)


def _told(call: Call, past: PastCalls, wanted: HistoryQuery) -> PastAnswer:
    """The answer; when there is much of it the command goes on by itself, and few were looked at to know that."""
    if not call.own_streams:
        told = past.histories(replace(wanted, limit=FEW if wanted.brief else FEW_AT_LENGTH))
        if not told.are_more():
            return told
        told.close()
        call.take_over()
    return past.histories(wanted)


def _write(call: Call, texts: Iterator[str], reader: _Reader) -> bool:
    """Write what there is, as it comes; whether there was anything. Much of it is the business of another process."""
    shown, pieces, size = False, list[str](), 0
    for text in texts:
        pieces.append(text)
        size += len(text)
        if size >= PIECE:
            if not shown and not reader.problems:
                call.take_over()
            call.write("".join(pieces))
            shown, pieces, size = True, [], 0
    call.write("".join(pieces))
    return shown or size > 0


def _summary(records: Iterable[HistoryRecord | JobTimes], now: float, *, wide: bool, hms: bool) -> Iterator[str]:
    head = history.SUMMARY_HEAD if not hms else history.SUMMARY_HEAD_HMS
    for record in records:
        yield head + history.summary_row(record, now, wide=wide, as_hms=hms)
        head = ""


def _at_length(
    records: Iterable[HistoryRecord | JobTimes],
    zone: tzinfo,
    now: float,
    *,
    unfolded: bool,
    year: bool,
    with_gpus: bool,
) -> Iterator[str]:
    separator = ""
    for record in records:
        if isinstance(record, HistoryRecord):
            yield separator + history.render_history(
                [record], zone, now, unfolded=unfolded, year=year, with_gpus=with_gpus
            )
            separator = SEPARATOR


def _wanted(call: Call, options: Parsed, now: float, zone: tzinfo) -> HistoryQuery:
    """Raises BadRequest for times that are none."""

    def span(name: str) -> TimeSpan:
        since, until = parse_span(options.last(name), now, zone) if options.has(name) else (None, None)
        return TimeSpan(since=since, until=until)

    job_ids = tuple(job_id for job_id in parse_job_ids(options.rest) if job_id)
    states = tuple(dict.fromkeys(state for name in _STATES if options.has(name) for state in _STATES[name]))
    active = (
        span("T")
        if options.has("T")
        else TimeSpan(since=now - _hours_of_t(call) * 3600, until=now)
        if options.has("t")
        else TimeSpan()
    )
    jobs = asked_jobs(call, options, job_ids, states=states, finished=options.has("a", "d", "e", "t", "S", "D", "C"))
    brief = not options.has("l", "UF", "t", "x", "G")
    return HistoryQuery(
        jobs=jobs,
        submitted=span("S"),
        dispatched=span("D"),
        completed=span("C"),
        active=active,
        description=options.last("Jd"),
        brief=brief,
        limit=HISTORY_LIMIT if brief else MOST_AT_LENGTH,
        with_curves=options.has("json"),
    )


def _hours_of_t(call: Call) -> int:
    """How far -t looks back (LSB_BHIST_HOURS). Raises BadRequest for what is no number of hours."""
    text = setting(call, "LSB_BHIST_HOURS")
    if not text:
        return WEEK_H
    if text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MOST_HOURS:
        return int(text)
    raise BadRequest(f"{program(call)}: LSB_BHIST_HOURS={text[:40]}: not a number of hours from 1 to {MOST_HOURS}")


def _gpu_record(told: tuple[HistoryRecord, JobHistory]) -> dict[str, Any]:
    """A job for -json: what each of its attempts made of its GPUs."""
    shown, stored = told
    attempts = [
        {
            "ATTEMPT": each.attempt,
            "CPU_TIME": cpu_time(each.usage),
            "GPU_ENERGY_CONSUMED": None if each.usage is None else energy_of(each.usage.gpus, each.devices),
            "GPUS": gpu_records(() if each.usage is None else each.usage.gpus, each.curves),
        }
        for each in attempts_of(stored)
    ]
    return {
        **named_record(shown.job),
        "ATTEMPTS": attempts,
    }


class _Reader:
    """Turns stored histories into records; what cannot be told is said on standard error and counted."""

    def __init__(
        self,
        call: Call,
        named: Sequence[int],
        known: Mapping[str, Gpu] | None,
        admits: Callable[[HistoryRecord], bool],
        factors: CpuFactors | None,
    ) -> None:
        """`admits`: of which jobs is told; `factors`: how CPU time is told, None: as it was."""
        self._call = call
        self._named = named
        self._unit = unit_of(call)
        self._known = known
        self._admits = admits
        self._factors = factors
        self.problems = 0
        self.count = 0

    def read(self, told: Iterable[JobHistory | JobTimes]) -> Iterator[HistoryRecord | JobTimes]:
        for record, _ in self._read(told):
            yield record

    def read_with_events(self, told: Iterable[JobHistory | JobTimes]) -> Iterator[tuple[HistoryRecord, JobHistory]]:
        """Each record with the events that it was made of."""
        for record, stored in self._read(told):
            if isinstance(record, HistoryRecord) and isinstance(stored, JobHistory):
                yield record, stored

    def _read(
        self, told: Iterable[JobHistory | JobTimes]
    ) -> Iterator[tuple[HistoryRecord | JobTimes, JobHistory | JobTimes]]:
        found: set[int] = set()
        for each in told:
            if self._named:
                found.update((each.job_id, array_of(each.job_id)))
            if isinstance(each, JobTimes):
                self.count += 1
                yield each, each
                continue
            try:
                record = history_record(each, self._unit, self._known)
            except GschedError as problem:
                self.count += 1
                self._complain(problem.text)
                continue
            if self._admits(record):
                self.count += 1
                yield (record if self._factors is None else _normalized(record, self._factors)), each
        if found:
            for job_id in self._named:
                if job_id not in found:
                    self._complain(f"Job <{show_job(job_id)}>: No matching job found")

    def _complain(self, text: str) -> None:
        self.problems += 1
        self._call.error(text + "\n")
