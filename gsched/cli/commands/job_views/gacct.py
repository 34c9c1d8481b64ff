"""`gacct` (bacct): what finished jobs took, also those that gjobs has long forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo

from msgspec.structs import replace

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.base.wildcards import Wildcards
from gsched.cli.answers.exceptions_of_jobs import JobExceptions
from gsched.cli.host_answers.cpu_factors import NORMALIZED, CpuFactors
from gsched.cli.options.account_filters import ENDED_IN, OF_PROJECTS, OF_QUEUES, OF_USERS, ON_HOSTS, account_filter
from gsched.cli.options.job_filters import OF_DESCRIPTION, WITH_RUSAGE, chosen_filter
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.options.past_time import since_when
from gsched.cli.options.size_units import unit_of
from gsched.cli.render.gpu_use.use_json import job_record
from gsched.cli.render.gpu_use.use_lines import gpu_use_block
from gsched.cli.render.gpu_use.use_summary import GpuUseSummary, render_use_summary, use_summary_record
from gsched.cli.render.hosts.topology import affinity_table
from gsched.cli.render.jobs import accounts
from gsched.cli.render.jobs.job_devices import affinity_units, gpus_of
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.output_formats import json_pieces
from gsched.cli.session.archive_session import FROM_ARCHIVE, HistorySource, asked
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, SERVICE_CLASS, program, read_options, shows_year
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.dialect.times import parse_span
from gsched.model.views.archive_question import ArchiveQuestion
from gsched.model.views.catalogue import MOST_NAMED, Account, AccountFilter, TimeSpan
from gsched.model.views.view import JobView
from gsched.wire.calls.catalogue_calls import Catalogue
from gsched.wire.calls.past_calls import KeptSince

TABLE = OptionTable(
    summary="show what finished jobs took: without options, a summary of yours",
    operands="[JOB ...]",
    options=(
        Option("l", help="everything about each job, then the summary"),
        Option("UF", help="the same, without folding lines"),
        Option("b", help="a line per job, then the summary"),
        Option("w", help="with -b: cut nothing"),
        Option("aff", help="with -l: the processor units of each task of a job with affinity[]"),
        Option("gpu", help="what the jobs made of their GPUs, in sum; with -l of each job"),
        Option("json", help="with -gpu: that as JSON"),
        Option("d", help="only jobs that are done"),
        Option("e", help="only jobs that exited"),
        Option("x", help="only jobs that ran too long, failed too soon or were idle, as their queues see it"),
        NORMALIZED,
        OF_USERS,
        OF_QUEUES,
        ON_HOSTS,
        Option("M", "FILE", "the same, with the hosts in a file"),
        OF_PROJECTS,
        Option("U", "RESERVATION", "only jobs of this advance reservation"),
        Option("app", "APPLICATION", "only jobs of this application profile"),
        SERVICE_CLASS,
        Option("J", "NAME", "only jobs of this name; * stands for anything", "-J 'train*'"),
        OF_DESCRIPTION,
        WITH_RUSAGE,
        ENDED_IN,
        Option("S", "TIMES", "only jobs that were submitted in that time", "-S .-7,"),
        Option("D", "TIMES", "only jobs that were dispatched in that time", "-D 21/12:00,21/13:00"),
        FROM_ARCHIVE,
        *GENERAL,
        *unsupported("cname", "Lp", "rcacct"),
        *unsupported("f", because="gacct reads a database, not a file of LSF"),
        *unsupported("E", because="only the time in which jobs waited is counted, whatever they waited for"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l 1153", "PROGRAM -u all -C .-30,"),
)

_LOOKED_AT_HERE = ("x", "J", "Jd", "rusage")
"""Filters that no question to the master can say."""
_OF_EACH = (*_LOOKED_AT_HERE, "gpu", "N")
"""Options for which more must be known of a job than its sums."""
MANY = 2_500
"""Accounts that the door adds up for a caller; of more the sum is made in his own process."""
NOTHING = "No matching job found\n"


def main(call: Call) -> int:
    """Run `gacct`."""
    options = read_options(call, TABLE)
    if options.has("b") and options.has("l", "UF"):
        raise BadRequest(f"{program(call)}: -b and -l cannot be given together")
    if options.has("gpu") and options.has("b"):
        raise BadRequest(f"{program(call)}: -b and -gpu cannot be given together")
    if options.has("aff") and not options.has("l", "UF"):
        raise BadRequest(f"{program(call)}: -aff is given together with -l")
    if options.has("json") and not options.has("gpu"):
        raise BadRequest(f"{program(call)}: -json is given together with -gpu")
    zone = zone_of(call.env)
    wanted = _wanted(call, options, zone)
    detailed = options.has("l", "UF", "b")
    summary, use = accounts.Summary(), GpuUseSummary()
    whole = detailed or options.has(*_OF_EACH)
    with asked(call, options, ArchiveQuestion(accounts=wanted, with_jobs=whole)) as session:
        accounted = _found(call, session.client.catalogue, wanted, jobs=whole)
        exceptions = JobExceptions(session.client.queues(), time.time()) if options.has("l", "UF", "x") else None
        accounted = _looked_at(call, options, session, accounted, exceptions)
        found = _counted(accounted, summary, use)
        if detailed:
            # In the order in which they ended, as an accounting file has them.
            jobs = sorted(found, key=lambda account: (account.finished_at, account.job_id))
        else:
            jobs = []
            for _ in found:
                pass
        kept = session.client.past.kept() if wanted.ids and not summary.cpu.count else KeptSince()
        if options.has("json"):
            call.write("".join(_json(call, options, jobs, summary, use)))
            return LSF_FAILURE if wanted.ids and not summary.cpu.count else 0
        call.write(accounts.heading(wanted, zone))
        for text in _jobs(call, options, jobs, zone, exceptions) if detailed else ():
            call.write(text)
    if wanted.ids and not summary.cpu.count:
        call.error(NOTHING + since_when(kept._replace(events=None), zone))
        return LSF_FAILURE
    call.write(accounts.render_summary(summary, zone))
    if options.has("gpu"):
        call.write(render_use_summary(use))
    return 0


def _admits(options: Parsed, exceptions: JobExceptions | None) -> Callable[[JobView], bool]:
    """Whether a job is one that the filters of _LOOKED_AT_HERE choose."""
    chosen, named = chosen_filter(options), Wildcards(options.last("J", "*"), any_one=False)

    def admits(view: JobView) -> bool:
        names = (view.spec.name, view.spec.listed_name(view.job_id))
        is_exception = not options.has("x") or (exceptions is not None and bool(exceptions.of(view)))
        return is_exception and chosen(view) and any(map(named.fits, names))

    return admits


def _json(
    call: Call, options: Parsed, found: list[Account], summary: accounts.Summary, use: GpuUseSummary
) -> Iterator[str]:
    """With -l a record for each job, else one for all of them."""
    if options.has("l", "UF"):
        unit = unit_of(call)
        jobs = (_record(account, unit) for account in found)
        shown = (replace(job, gpus_held=gpus_of(job.view, {})) for job in jobs)
        return json_pieces(map(job_record, shown), command="bacct", counted="JOBS")
    total = {"DONE": summary.done, "EXIT": summary.exited, "GPU_TIME": round(summary.gpu.total, 3)}
    return json_pieces([{**total, **use_summary_record(use)}], command="bacct", counted="SUMMARIES")


def _found(call: Call, catalogue: Catalogue, wanted: AccountFilter, *, jobs: bool) -> Iterable[Account]:
    """The accounts; when there are many the command goes on by itself, before it has said anything."""
    if not call.own_streams:
        found = catalogue.few_accounts(wanted, MANY, jobs=jobs)
        if found is not None:
            return found
        call.take_over()
    return catalogue.accounts(wanted, jobs=jobs)


def _looked_at(
    call: Call, options: Parsed, session: HistorySource, found: Iterable[Account], exceptions: JobExceptions | None
) -> Iterable[Account]:
    """Those that the filters of _LOOKED_AT_HERE choose, with their CPU time as -N wants it."""
    if options.has(*_LOOKED_AT_HERE):
        admits = _admits(options, exceptions)
        found = (each for each in found if each.job is not None and admits(each.job))
    if options.has("N"):
        found = _normalized(found, CpuFactors(call, session.client, options.last("N")))
    return found


def _normalized(found: Iterable[Account], factors: CpuFactors) -> Iterator[Account]:
    for account in found:
        view = account.job
        yield (
            account
            if view is None
            else replace(account, cpu_s=account.cpu_s * factors.of(view.allocation), job=factors.scaled(view))
        )


def _counted(found: Iterable[Account], summary: accounts.Summary, use: GpuUseSummary) -> Iterator[Account]:
    for account in found:
        summary.add(account)
        if account.job is not None:
            use.add(account.job)
        yield account


def _jobs(
    call: Call, options: Parsed, found: list[Account], zone: tzinfo, exceptions: JobExceptions | None
) -> Iterator[str]:
    unit = unit_of(call)
    rows = [(account, _record(account, unit, exceptions)) for account in found]
    if options.has("b"):
        yield accounts.render_brief(rows, zone, wide=options.has("w")) + accounts.RULE + "\n"
        return
    year = shows_year(call, "LSB_BACCT_DISPLAY_YEAR")
    for account, job in rows:
        text = accounts.render_job(account, job, zone, unfolded=options.has("UF"), year=year)
        if options.has("aff") and (units := affinity_units(job.view)):
            text += affinity_table(units)
        used = gpu_use_block(job.usage.gpus, account.cpu_s) if options.has("gpu") else ""
        yield text + used + accounts.RULE + "\n"


def _record(account: Account, unit: str, exceptions: JobExceptions | None = None) -> ShownJob:
    view = account.job
    if view is None:
        raise BadRequest("the master gave no account of the job itself")
    return ShownJob(view=view, unit=unit, exceptions=exceptions.of(view) if exceptions is not None else ())


def _wanted(call: Call, options: Parsed, zone: tzinfo) -> AccountFilter:
    now = time.time()
    ids = parse_job_ids(options.rest)
    named = () if 0 in ids else ids
    if len(named) > MOST_NAMED:
        raise BadRequest(f"{program(call)}: {len(named)} jobs are named; {MOST_NAMED} are the most")
    states = tuple(state for name, state in (("d", "DONE"), ("e", "EXIT")) if options.has(name))
    hosts = _hosts_of_file(call, options.last("M"))
    if options.has("M") and not hosts:
        raise BadRequest(f"{program(call)}: {options.last('M')}: no host is named there")

    def span(name: str) -> TimeSpan:
        if not options.has(name):
            return TimeSpan()
        since, until = parse_span(options.last(name), now, zone)
        return TimeSpan(since=since, until=until)

    wanted = account_filter(call, options, "all" if ids else "me", span("C"))
    return replace(
        wanted,
        ids=named,
        hosts=(*wanted.hosts, *hosts),
        states=states if len(states) == 1 else (),
        submitted=span("S"),
        dispatched=span("D"),
        reservation=options.last("U"),
        application=options.last("app"),
        service_class=options.last("sla"),
    )


def _hosts_of_file(call: Call, path: str) -> tuple[str, ...]:
    """Names between blanks and lines; `#` begins a comment."""
    if not path:
        return ()
    try:
        text = call.read_file(path).decode("utf-8", "replace")
    except OSError as problem:
        raise BadRequest(f"{program(call)}: {path}: {problem.strerror}") from None
    return tuple(word for line in text.splitlines() for word in line.partition("#")[0].split())
