"""`geff`: how well jobs used the GPUs, processors, memory and time that they asked for. LSF has no such command."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.base.ids import array_of
from gsched.cli.answers.job_judge import JobJudge
from gsched.cli.options.account_filters import ENDED_IN, OF_PROJECTS, OF_QUEUES, OF_USERS, ON_HOSTS, account_filter
from gsched.cli.options.job_selection import not_found, parse_job_ids
from gsched.cli.render.efficiency.efficiency_json import efficiency_json, sums_json
from gsched.cli.render.efficiency.efficiency_long import efficiency_record
from gsched.cli.render.efficiency.efficiency_table import efficiency_rows
from gsched.cli.render.efficiency.gpu_sums_table import gpu_sum_rows
from gsched.cli.render.efficiency.judged_job import JudgedJob
from gsched.cli.render.text.output_formats import json_pieces
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import Session, connected
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, OptionTable, Parsed
from gsched.dialect.times import parse_span
from gsched.model.efficiency.cost import Prices
from gsched.model.views.catalogue import MOST_NAMED, AccountFilter, TimeSpan
from gsched.model.views.gpu_sums import BY, MOST_WEEKS, GpuSums, GpuSumsQuery

TABLE = OptionTable(
    summary="show how well jobs used the GPUs, processors, memory and time that they asked for",
    operands="[JOB ...]   (without JOB: yours that finished within the last day)",
    options=(
        Option("l", help="everything about each job; of named jobs that is always shown"),
        Option("w", help="cut nothing"),
        Option("json", help="as JSON"),
        Option("r", help="jobs that have started and not ended, so far"),
        OF_USERS,
        OF_QUEUES,
        OF_PROJECTS,
        ON_HOSTS,
        Option(
            "since", "TIME", "only jobs that finished since then: 7d, 12h, 30m, or a time as -C takes it", "-since 7d"
        ),
        ENDED_IN,
        Option("sum", "NAME", "sums by user, project or queue, week by week", "-sum user"),
        Option("weeks", "COUNT", "with -sum: so many weeks, this one among them (4)", "-weeks 12"),
        *GENERAL,
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM -u me -since 7d", "PROGRAM -sum project -u all -weeks 12"),
)

EVERY = 0
DAY_S = 86_400.0
WEEKS = 4
NOTHING = "No matching job found\n"
_AGE = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_S, "w": 7 * DAY_S}


def main(call: Call) -> int:
    """Run `geff`."""
    options = read_options(call, TABLE)
    _check(call, options)
    zone, now = zone_of(call.env), time.time()
    with connected(call) as session:
        judge = JobJudge(call, session, now)
        if options.has("sum"):
            return _sums(call, options, session, judge.prices, zone)
        ids = parse_job_ids(options.rest)
        if ids and EVERY not in ids:
            return _named(call, options, judge, ids)
        wanted = account_filter(call, options, "me", TimeSpan()) if ids else _wanted(call, options, now, zone)
        jobs = judge.running(wanted) if options.has("r") else judge.finished(wanted)
        is_any = _write(call, options, judge, jobs, is_long=options.has("l"))
    if not is_any and not options.has("json"):
        call.write(NOTHING)
    return 0


def _check(call: Call, options: Parsed) -> None:
    """Raises BadRequest for options that do not go together."""

    def refuse(text: str) -> None:
        raise BadRequest(f"{program(call)}: {text}")

    if options.has("weeks") and not options.has("sum"):
        refuse("-weeks is given together with -sum")
    if options.has("since") and options.has("C"):
        refuse("-since and -C cannot be given together")
    for name in ("l", "r", "w", "since", "C"):
        if options.has("sum") and options.has(name):
            refuse(f"-sum and -{name} cannot be given together")
    if options.has("r") and options.has("since", "C"):
        refuse("-r is about jobs that have not ended: -since and -C are about those that have")
    if options.rest and options.has("sum", "r", "u", "q", "P", "m", "since", "C"):
        refuse("jobs are named, or chosen by options, not both")


def _named(call: Call, options: Parsed, judge: JobJudge, ids: tuple[int, ...]) -> int:
    """Jobs by their numbers, finished or not."""
    if len(ids) > MOST_NAMED:
        raise BadRequest(f"{program(call)}: {len(ids)} jobs are named; {MOST_NAMED} are the most")
    found: set[int] = set()
    finished = judge.finished(AccountFilter(ids=ids))

    def jobs() -> Iterator[JudgedJob]:
        for job in finished:
            found.update((job.view.job_id, array_of(job.view.job_id)))
            yield job
        ended = frozenset(found)
        others = tuple(job_id for job_id in ids if job_id not in ended or job_id == array_of(job_id))
        for job in judge.unfinished(others):
            if job.view.job_id not in ended:
                found.update((job.view.job_id, array_of(job.view.job_id)))
                yield job

    _write(call, options, judge, jobs(), is_long=True)
    missing = [job_id for job_id in ids if job_id not in found]
    call.error("".join(dict.fromkeys(not_found([job_id]) for job_id in missing)))
    return LSF_FAILURE if missing else 0


def _write(call: Call, options: Parsed, judge: JobJudge, jobs: Iterator[JudgedJob], *, is_long: bool) -> bool:
    """In the layout that was asked for; whether there was any."""
    if options.has("json"):
        records = (efficiency_json(judge.completed(job)) for job in jobs)
        for text in json_pieces(records, command="geff", counted="JOBS"):
            call.write(text)
        return True
    is_any = False
    if is_long:
        for job in jobs:
            call.write(("\n" if is_any else "") + efficiency_record(judge.completed(job)))
            is_any = True
        return is_any
    for text in efficiency_rows(jobs, judge.prices, wide=options.has("w")):
        call.write(text)
        is_any = True
    return is_any


def _wanted(call: Call, options: Parsed, now: float, zone: tzinfo) -> AccountFilter:
    if options.has("C"):
        since, until = parse_span(options.last("C"), now, zone)
        completed = TimeSpan(since=since, until=until)
    else:
        completed = TimeSpan(since=_since(options.last("since", "1d"), now, zone))
    return account_filter(call, options, "me", completed)


def _since(text: str, now: float, zone: tzinfo) -> float | None:
    """`7d` is seven days ago; else the begin of a time as -C takes it. Raises BadRequest."""
    found = _AGE.fullmatch(text.strip())
    if found is not None:
        return now - int(found[1]) * _SECONDS[found[2]]
    return parse_span(text, now, zone)[0]


def _sums(call: Call, options: Parsed, session: Session, prices: Prices, zone: tzinfo) -> int:
    by, count = options.last("sum"), options.last("weeks", str(WEEKS))
    if by not in BY:
        raise BadRequest(f"{program(call)}: -sum takes user, project or queue, not '{by[:40]}'")
    if not (count.isascii() and count.isdigit() and 0 < int(count[:9]) <= MOST_WEEKS and len(count) < 9):
        raise BadRequest(f"{program(call)}: -weeks takes a number from 1 to {MOST_WEEKS}, not '{count[:40]}'")
    days = _weeks(int(count), datetime.now(zone))
    asked = GpuSumsQuery(
        jobs=account_filter(call, options, "me", TimeSpan()),
        by=by,
        bounds=tuple(float(day.timestamp()) for day in days),
    )
    sums = ((f"{days[each.week]:%Y-%m-%d}", each) for each in session.client.past.gpu_sums(asked))
    if options.has("json"):
        records = (sums_json(each, week, by, prices) for week, each in sums)
        for text in json_pieces(records, command="geff", counted="SUMS"):
            call.write(text)
        return 0
    is_any = False
    for text in gpu_sum_rows(_ended(sums), by, prices):
        call.write(text)
        is_any = True
    if not is_any:
        call.write(NOTHING)
    return 0


def _ended(sums: Iterator[tuple[str, GpuSums]]) -> Iterator[tuple[str, GpuSums]]:
    """Those of jobs that there were."""
    return (each for each in sums if each[1].jobs)


def _weeks(count: int, now: datetime) -> list[datetime]:
    """The Mondays with which the last weeks begin, and the one with which the next does, in the zone of `now`."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = today - timedelta(days=today.weekday())
    return [monday + timedelta(weeks=place) for place in range(1 - count, 2)]
