"""`gjobs` (bjobs): which jobs there are, where they stand, and why they wait.

Streams, texts and exit codes are bjobs'; LSB_BJOBS_CONSISTENT_EXIT_CODE=Y makes "nothing found" a failure.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.base.ids import array_of, show_job
from gsched.cli.answers.job_explanations import check_explaining, show_explanations
from gsched.cli.answers.job_listing import PENDING_KINDS, JobListing
from gsched.cli.answers.job_texts import TEXTS, show_text, wants_text
from gsched.cli.host_answers.cpu_factors import NORMALIZED
from gsched.cli.options.job_filters import NARROWING, ONLY_HERE, asked_jobs
from gsched.cli.options.job_selection import not_found, nothing_found, parse_job_ids
from gsched.cli.options.past_time import AT, past_time
from gsched.cli.render.gpu_use.use_json import job_record
from gsched.cli.render.jobs import job_table, jobs_long
from gsched.cli.render.jobs.arrays import render_arrays
from gsched.cli.render.jobs.job_fields import JOB_FIELDS, TIME_COLUMNS, USUAL_FIELDS
from gsched.cli.render.jobs.job_gpus import job_gpu_rows
from gsched.cli.render.jobs.pending_summary import render_summary
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.jobs.slot_sums import render_slot_sums, slots_by_state
from gsched.cli.render.text.output_formats import Format, FormatSetting, json_pieces, render_json, render_text
from gsched.cli.render.text.reason_texts import DEFAULT_LEVEL
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import (
    CHOSEN_FIELDS,
    FILTERS,
    GENERAL,
    GROUP,
    chosen_format,
    program,
    read_options,
    shows_hms,
    shows_year,
)
from gsched.cli.session.session import Session, setting
from gsched.cli.session.time_zone import zone_of
from gsched.cli.session.watch import WATCH, shown
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.model.views.view import JobFilter
from gsched.wire.identity.caller_identity import uid_of_user

_LEVELS = (
    "every reason; with -l the names of the hosts",
    "the main reason alone",
    "reasons of the hosts that the job could use, most hosts first",
    "reasons of all hosts",
)

TABLE = OptionTable(
    summary="show jobs: without options, yours that have not finished",
    operands="[JOB ...]",
    options=(
        Option("a", help="all states, also those that finished within the last hour or so (CLEAN_PERIOD)"),
        Option("d", help="finished jobs"),
        Option("r", help="running jobs"),
        Option("s", help="suspended jobs, with the reason"),
        Option("p", help="pending jobs with their reasons (-p2, or what LSB_BJOBS_PENDREASON_LEVEL says)"),
        *(Option(f"p{level}", help=f"pending jobs: {what}") for level, what in enumerate(_LEVELS)),
        Option("p4", help="everything about why each of the named jobs waits: who is in its way, and until when"),
        Option("pe", help="pending jobs that are eligible: they wait for a place alone"),
        Option("pi", help="pending jobs that are ineligible: they could not start even on an empty cluster"),
        Option("pei", help="both, one after the other"),
        Option("plan", help="pending jobs whose start is planned; with -l, when and where"),
        Option("psum", help="what all pending jobs of the cluster wait for, counted by reason"),
        Option("A", help="a line per job array with the counts of its elements"),
        Option("l", help="everything about each job"),
        Option("UF", help="the same, without folding lines"),
        Option("gpu", help="the GPUs of jobs, a line each, and what the jobs make of them; with -l more of each"),
        Option("aff", help="with -l: the processor units of each task of a job with affinity[]"),
        Option("hostfile", help="with -l: the hosts and slots of a job that was submitted with -hostfile"),
        Option("x", help="only jobs that run too long, ended too soon or are idle, as their queues see it; -l: which"),
        Option("w", help="cut nothing"),
        Option("WL", help="as without, and the time that is left until the run limit ends the job"),
        Option("WP", help="as without, and how much of its run limit the job has used"),
        Option("WF", help="as without, and when it ended, or its run limit will end it"),
        Option("sum", help="the slots of all these jobs, by state"),
        Option("W", help="more columns: project, use of resources, start and end"),
        NORMALIZED,
        *CHOSEN_FIELDS,
        Option("hms", help="with -o: durations as HH:MM:SS"),
        Option("noheader", help="no heading"),
        Option("P", "PROJECT", "only jobs of this project"),
        Option("X", help="taken for LSF's sake: host groups are never condensed"),
        *FILTERS,
        GROUP,
        *NARROWING,
        *TEXTS,
        AT,
        WATCH,
        *GENERAL,
        *unsupported("aps", "cname", "fwd", "Lp"),
        *unsupported("prio", because="-p says of each pending job what it waits for"),
        *unsupported("ss", "data", "clusters", "gpfsio"),
    ),
    interspersed=True,
    examples=(
        *("PROGRAM -u all", "PROGRAM -l 1153", "PROGRAM -p", "PROGRAM '1160[3,5-7]'", "PROGRAM -A 1160"),
        "PROGRAM -noheader -o 'jobid jobindex stat' 1153 1154",
    ),
)

_STATES = {
    "d": ("DONE", "EXIT"),
    "r": ("RUN", "UNKWN", "ZOMBI"),
    "s": ("PSUSP", "USUSP", "SSUSP"),
    "p": ("PEND", "PSUSP"),
}
_KINDS = {"d": "DONE/EXIT", "r": "running", "s": "suspended", "p": "pending"}
_TABLES = "l UF w W WL WP WF A psum sum"
"""Options with a layout of their own."""
_NOT_WITH_GPU = "o w W WL WP WF A psum sum hms"
_LEVELLED = ("p0", "p1", "p2", "p3")
_AS = {**dict.fromkeys((*_LEVELLED, *PENDING_KINDS), "p"), "N": "d"}
"""Options that choose by state, too -> the letter of _STATES that they stand for."""
_OF_MANY = ("A", "psum", "p4")
"""Layouts that are not of single jobs as they run."""
_ONLY_NOW = ("A", "psum", "p4", *(each.name for each in TEXTS))
"""What is not told of the past."""
_UNFINISHED = ("PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN", "ZOMBI")
EVERY = 0
JOBS_PER_PIECE = 500


def main(call: Call) -> int:
    """Run `gjobs`."""
    options = read_options(call, TABLE)
    if options.has("noheader") and options.has("l", "UF"):
        raise BadRequest(f"{program(call)}: -noheader and -l cannot be given together")
    for name in ("aff", "hostfile"):
        if options.has(name) and not options.has("l", "UF"):
            raise BadRequest(f"{program(call)}: -{name} is given together with -l")
    choosing = next((name for name in ("x", *PENDING_KINDS) if options.has(name)), "")
    if choosing and options.has(*_OF_MANY):
        raise BadRequest(f"{program(call)}: -{choosing} cannot be given together with -{', -'.join(_OF_MANY)}")
    chosen = None if options.has("gpu") else _chosen_format(call, options)
    _check_gpu(call, options)
    job_ids = parse_job_ids(options.rest)
    check_explaining(call, options, job_ids)
    named = () if EVERY in job_ids else job_ids
    at = past_time(call, options, _ONLY_NOW)
    is_text = wants_text(call, options, job_ids)

    def show(session: Session) -> int:
        if is_text:
            return show_text(call, session, options, job_ids[0])
        if options.has("psum"):
            return _summary(call, session)
        if options.has("p4"):
            return show_explanations(call, session, named)
        if options.has("A"):
            return _arrays(call, options, session, named)
        return _show(call, options, session, named, chosen, at)

    return shown(call, options, show)


def _chosen_format(call: Call, options: Parsed) -> Format[ShownJob] | None:
    return chosen_format(call, options, JOB_FIELDS, "LSB_BJOBS_FORMAT", _TABLES, USUAL_FIELDS)


def _check_gpu(call: Call, options: Parsed) -> None:
    """Raises BadRequest for what -gpu cannot stand beside."""
    if not options.has("gpu"):
        return
    clashing = next((name for name in _NOT_WITH_GPU.split() if options.has(name)), "")
    if clashing:
        raise BadRequest(f"{program(call)}: -gpu and -{clashing} cannot be given together")
    if options.has("json") and options.has("noheader"):
        raise BadRequest(f"{program(call)}: -json and -noheader cannot be given together")


def _show(
    call: Call,
    options: Parsed,
    session: Session,
    named: tuple[int, ...],
    chosen: Format[ShownJob] | None,
    at: float | None,
) -> int:
    """Jobs one by one, in the layout that was asked for; `at`: as they were then."""
    if options.has("sum") and not named and at is None and not options.has("x", *PENDING_KINDS, *ONLY_HERE):
        wanted = _wanted_of_master(call, options, named)
        counts = session.client.slot_sums(wanted)
        call.write(render_slot_sums(counts, header=not options.has("noheader")))
        return 0
    if at is None and _is_short(options, named, chosen):
        return _short(call, options, session)
    wanted, level = _wanted(call, options, named), _level(call, options)
    about: dict[str, Any] = {"level": level, "fields": _fields(chosen), "at": at}
    if options.has("pei") and not options.has("json", "sum"):
        parts = [JobListing(call, options, session, wanted, eligible=each, **about) for each in (True, False)]
        return _divided(call, options, chosen, parts)
    listing = JobListing(call, options, session, wanted, **about)
    if options.has("sum"):
        counts = slots_by_state(listing.records())
        call.write(render_slot_sums(counts, header=not options.has("noheader")))
        return _ending_of(call, options, listing) if listing.missing() else 0
    if options.has("gpu") and options.has("json"):
        return _gpu_json(call, listing)
    if chosen is not None and options.has("json"):
        return _answer_json(call, options, chosen, listing)
    for text in _layout(call, options, chosen, listing):
        call.write(text)
    return _ending_of(call, options, listing)


def _divided(call: Call, options: Parsed, chosen: Format[ShownJob] | None, parts: list[JobListing]) -> int:
    """-pei: the jobs that are eligible, and those that are not. A job that was named and is in neither is missing."""
    for heading, listing in zip(("Eligible pending jobs:", "Ineligible pending jobs:"), parts, strict=True):
        call.write(f"{heading}\n")
        for text in _layout(call, options, chosen, listing):
            call.write(text)
    return _ending_of(call, options, max(parts, key=lambda listing: listing.count))


def _fields(chosen: Format[ShownJob] | None) -> frozenset[str]:
    return frozenset() if chosen is None else frozenset(column.field.name for column in chosen.columns)


def _is_short(options: Parsed, named: tuple[int, ...], chosen: Format[ShownJob] | None) -> bool:
    """Whether a row shows little of its job, and nothing is looked at here but the row."""
    further = (*ONLY_HERE, *TIME_COLUMNS, "W", "l", "UF", "gpu", "sum", "x", "N", *PENDING_KINDS)
    return not named and chosen is None and not options.has(*further)


def _short(call: Call, options: Parsed, session: Session) -> int:
    """The usual tables: there may be a hundred thousand rows, each of little."""
    wanted = _wanted_of_master(call, options, ())
    zone, level, reasons = zone_of(call.env), _level(call, options), _reason_lines(call, options)
    count = 0
    for part in session.client.tables.read(wanted, reasons=reasons is not None):
        header = not count and not options.has("noheader")
        call.write(
            job_table.render_columns(part, zone, wide=options.has("w"), header=header, reasons=reasons, level=level)
        )
        count += len(part.job_ids)
    return _ending(call, options, count)


def _summary(call: Call, session: Session) -> int:
    summary, cluster = session.client.pending_summary(), session.client.cluster().cluster
    call.write(render_summary(summary, cluster, zone_of(call.env)))
    return 0


def _arrays(call: Call, options: Parsed, session: Session, named: tuple[int, ...]) -> int:
    """-A: whole arrays; an element stands for its array."""
    wanted = msgspec.structs.replace(_wanted(call, options, named), ids=(), states=())
    numbers = tuple(dict.fromkeys(array_of(job_id) for job_id in named))
    found = session.client.arrays(numbers, wanted)
    if not named and not options.has("a"):
        found = [array for array in found if any(array.counts.get(state, 0) for state in _UNFINISHED)]
    known = {array.job_id for array in found}
    missing = [number for number in numbers if number not in known]
    plain = {job.job_id for job in session.client.jobs(JobFilter(ids=tuple(missing), finished=True))} if missing else ()
    if found:
        call.write(render_arrays(found, header=not options.has("noheader"), wide=options.has("w")))
    for number in missing:
        is_plain = number in plain
        call.error(f"Job <{number}> is not a job array\n" if is_plain else f"Job array <{number}> is not found\n")
    if not found and not missing:
        call.error("No job array found\n")
    return LSF_FAILURE if missing or (not found and _is_consistent(call)) else 0


def _ending_of(call: Call, options: Parsed, listing: JobListing) -> int:
    """What is said, and the exit code, when all that was found has been shown."""
    if listing.missing():
        call.error(listing.why_missing())
        return LSF_FAILURE
    return _ending(call, options, listing.count)


def _ending(call: Call, options: Parsed, count: int) -> int:
    """The same where no job was named that was not found; so many were."""
    if count:
        return 0
    if not _is_user(options.last("u", "all")):
        call.error(f"{options.last('u')}: Unknown user\n")
        return LSF_FAILURE
    call.error(_nothing(options))
    return LSF_FAILURE if _is_consistent(call) else 0


def _is_user(name: str) -> bool:
    """Whether this host knows the user; asked only when nothing was found, as a user may be known elsewhere."""
    return name == "all" or uid_of_user(name) is not None


def _answer_json(call: Call, options: Parsed, chosen: Format[ShownJob], listing: JobListing) -> int:
    """A job that does not exist is a record of its own, and neither a text on stderr nor a failure: clients read on."""
    records = list(listing.records())
    missing = listing.missing()
    errors = [{"JOBID": show_job(job_id), "ERROR": not_found([job_id]).rstrip()} for job_id in missing]
    setting = _setting(call, options, listing.now)
    call.write(render_json(records, chosen, setting, command="bjobs", counted="JOBS", errors=errors))
    return LSF_FAILURE if _is_consistent(call) and (missing or not records) else 0


def _gpu_json(call: Call, listing: JobListing) -> int:
    """The jobs that hold GPUs, and what they make of them; a job that does not exist is a record of its own."""

    def records() -> Iterator[dict[str, Any]]:
        yield from map(job_record, listing.records())
        for job_id in listing.missing():
            yield {"JOBID": show_job(job_id), "ERROR": not_found([job_id]).rstrip()}

    call.write("".join(json_pieces(records(), command="bjobs", counted="JOBS")))
    return LSF_FAILURE if _is_consistent(call) and (listing.missing() or not listing.count) else 0


def _is_consistent(call: Call) -> bool:
    """Source: lsf.conf(5), LSB_BJOBS_CONSISTENT_EXIT_CODE; clients set it in the environment."""
    return setting(call, "LSB_BJOBS_CONSISTENT_EXIT_CODE").upper() == "Y"


def _setting(call: Call, options: Parsed, now: float) -> FormatSetting:
    return FormatSetting(zone=zone_of(call.env), now=now, hms=options.has("hms") or shows_hms(call))


def _chosen(options: Parsed) -> list[str]:
    """The letters of _STATES that were given; -p0 … -p3 count as -p, and -pe and the like leave nothing but -p."""
    if options.has(*PENDING_KINDS):
        return ["p"]
    given = {_AS.get(name, name) for name, _ in options.given}
    return [name for name in _STATES if name in given]


def _wants_all(options: Parsed) -> bool:
    return options.has("a") and not options.has(*PENDING_KINDS)


def _wanted(call: Call, options: Parsed, job_ids: tuple[int, ...]) -> JobFilter:
    chosen = _chosen(options)
    is_all = _wants_all(options)
    states = () if is_all else tuple(dict.fromkeys(state for name in chosen for state in _STATES[name]))
    asked = asked_jobs(call, options, job_ids, states=states, finished=is_all or "d" in chosen)
    # Looked at here: a job of another profile or class is not missing.
    return msgspec.structs.replace(asked, application="", service_class="")


def _wanted_of_master(call: Call, options: Parsed, job_ids: tuple[int, ...]) -> JobFilter:
    """The same where nothing is looked at here."""
    wanted = _wanted(call, options, job_ids)
    return msgspec.structs.replace(wanted, application=options.last("app"), service_class=options.last("sla"))


def _level(call: Call, options: Parsed) -> int:
    """How much of the pending reasons is told. Source: lsf.conf(5), LSB_BJOBS_PENDREASON_LEVEL."""
    given = [name for name, _ in options.given if name in _LEVELLED]
    text = given[-1][1] if given else setting(call, "LSB_BJOBS_PENDREASON_LEVEL")
    return int(text) if text in ("0", "1", "2", "3") else DEFAULT_LEVEL


def _nothing(options: Parsed) -> str:
    if options.has("gpu") and not options.has("l", "UF"):
        return "No job with GPUs found\n"
    chosen = _chosen(options)
    kind = "" if _wants_all(options) or len(chosen) > 1 else _KINDS[chosen[0]] if chosen else "unfinished"
    return nothing_found(kind, options.last("q"), options.last("m"), options.last("P"), options.last("g"))


def _layout(call: Call, options: Parsed, chosen: Format[ShownJob] | None, listing: JobListing) -> Iterator[str]:
    """The text, some hundred jobs at a time."""
    zone, records = zone_of(call.env), listing.records()
    moment = _setting(call, options, listing.now)
    header = not options.has("noheader")
    year = shows_year(call, "LSB_BJOBS_DISPLAY_YEAR")
    extra = _time_column(options, moment)
    reasons = _reason_lines(call, options)
    asked_at = _asked_at(call)
    is_first = True
    while part := list(itertools.islice(records, JOBS_PER_PIECE)):
        if chosen is not None:
            yield render_text(part, chosen, moment, header=header)
        elif options.has("l", "UF"):
            yield "" if is_first else jobs_long.SEPARATOR
            yield jobs_long.render_long(part, zone, unfolded=options.has("UF"), year=year, asked_at=asked_at)
        elif options.has("gpu"):
            yield job_gpu_rows(part, header=header)
        elif options.has("W"):
            yield job_table.render_all_columns(part, zone, header=header)
        else:
            render = job_table.render_wide if options.has("w") else job_table.render_short
            yield render(part, zone, header=header, reasons=reasons, extra=extra)
        header = is_first = False


def _asked_at(call: Call) -> float | None:
    """Now, where the text says when something was found; programs read bjobs' text."""
    return None if program(call) == "bjobs" else time.time()


def _reason_lines(call: Call, options: Parsed) -> job_table.ReasonLines | None:
    """-p, -s: rows are followed by reasons."""
    return job_table.ReasonLines(_asked_at(call)) if options.has("p", "s", *_LEVELLED) else None


def _time_column(options: Parsed, moment: FormatSetting) -> job_table.Extra | None:
    """-WL, -WP, -WF; the last one counts."""
    given = [name for name, _ in options.given if name in TIME_COLUMNS]
    if not given:
        return None
    heading, value = TIME_COLUMNS[given[-1]]
    return heading, lambda job: str(value(job, moment) or "-")
