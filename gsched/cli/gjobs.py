"""`gjobs` (bjobs): which jobs there are, where they stand, and why they wait.

Streams, texts and exit codes are bjobs'; LSB_BJOBS_CONSISTENT_EXIT_CODE=Y makes "nothing found" a failure.
"""

from __future__ import annotations

import pwd
import time
from collections.abc import Sequence

import msgspec

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.call import Call
from gsched.cli.command import CHOSEN_FIELDS, FILTERS, GENERAL, chosen_format, program, read_options
from gsched.cli.projection import job_record
from gsched.cli.render import jobs, jobs_long
from gsched.cli.render.formats import Format, Setting, render_json, render_text
from gsched.cli.render.job_fields import JOB_FIELDS
from gsched.cli.render.records import JobRecord
from gsched.cli.selection import not_found, nothing_found, parse_job_ids
from gsched.cli.session import connected
from gsched.cli.zone import zone_of
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.model.view import JobFilter

TABLE = OptionTable(
    summary="show jobs: without options, yours that have not finished",
    operands="[JOB ...]",
    options=(
        Option("a", help="all states, also those that finished within the last hour or so (CLEAN_PERIOD)"),
        Option("d", help="finished jobs"),
        Option("r", help="running jobs"),
        Option("s", help="suspended jobs, with the reason"),
        Option("p", help="pending jobs, with every reason, the main one first"),
        *(Option(f"p{level}", help="the same; -p1 shows the main reason alone") for level in range(4)),
        Option("l", help="everything about each job"),
        Option("UF", help="the same, without folding lines"),
        Option("w", help="cut nothing"),
        Option("W", help="more columns: project, use of resources, start and end"),
        *CHOSEN_FIELDS,
        Option("hms", help="with -o: durations as HH:MM:SS"),
        Option("noheader", help="no heading"),
        Option("P", "PROJECT", "only jobs of this project"),
        Option("X", help="taken for LSF's sake: host groups are never condensed"),
        *FILTERS,
        *GENERAL,
        *unsupported("A", "aff", "app", "aps", "cname", "env", "fwd", "G", "g", "gpu", "Jd", "Lp", "N", "psum", "plan"),
        *unsupported("rusage", "script", "sla", "ss", "sum", "U", "WF", "WL", "WP", "x", "data", "clusters", "gpfsio"),
    ),
    interspersed=True,
    examples=("PROGRAM -u all", "PROGRAM -l 1153", "PROGRAM -p", "PROGRAM -noheader -o 'jobid stat' 1153 1154"),
)

_STATES = {
    "d": ("DONE", "EXIT"),
    "r": ("RUN", "UNKWN", "ZOMBI"),
    "s": ("PSUSP", "USUSP", "SSUSP"),
    "p": ("PEND", "PSUSP"),
}
_KINDS = {"d": "DONE/EXIT", "r": "running", "s": "suspended", "p": "pending"}
EVERY = 0


def main(call: Call) -> int:
    """Run `gjobs`."""
    options = read_options(call, TABLE)
    if options.has("noheader") and options.has("l", "UF"):
        raise BadRequest(f"{program(call)}: -noheader and -l cannot be given together")
    chosen = chosen_format(call, options, JOB_FIELDS, "LSB_BJOBS_FORMAT", "l UF w W")
    job_ids = parse_job_ids(options.rest)
    named = () if EVERY in job_ids else job_ids
    with connected(call) as session:
        views = list(session.client.jobs(_wanted(call, options, named)))
        external = session.client.cluster().external_resources if options.has("l", "UF") and views else ()
    records = [_levelled(job_record(view, external), options) for view in views]
    found = {view.job_id for view in views}
    missing = [job_id for job_id in named if job_id not in found]
    if chosen is not None and options.has("json"):
        return _answer_json(call, options, chosen, records, missing)
    if records:
        call.write(_layout(call, options, chosen, records))
    if missing:
        call.error(not_found(missing))
    elif not records and not _is_user(options.last("u", "all")):
        call.error(f"{options.last('u')}: Unknown user\n")
        return LSF_FAILURE
    elif not records:
        call.error(_nothing(options))
    return LSF_FAILURE if missing or (not records and _is_consistent(call)) else 0


def _is_user(name: str) -> bool:
    """Whether this host knows the user; asked only when nothing was found, as a user may be known elsewhere."""
    if name == "all":
        return True
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _answer_json(
    call: Call, options: Parsed, chosen: Format[JobRecord], records: Sequence[JobRecord], missing: Sequence[int]
) -> int:
    """A job that does not exist is a record of its own, and neither a text on stderr nor a failure: clients read on."""
    errors = [{"JOBID": str(job_id), "ERROR": not_found([job_id]).rstrip()} for job_id in missing]
    setting = _setting(call, options)
    call.write(render_json(records, chosen, setting, command="bjobs", counted="JOBS", errors=errors))
    return LSF_FAILURE if _is_consistent(call) and (missing or not records) else 0


def _is_consistent(call: Call) -> bool:
    """Source: lsf.conf(5), LSB_BJOBS_CONSISTENT_EXIT_CODE; clients set it in the environment."""
    return call.env.get("LSB_BJOBS_CONSISTENT_EXIT_CODE", "").upper() == "Y"


def _setting(call: Call, options: Parsed) -> Setting:
    return Setting(zone=zone_of(call.env), now=time.time(), hms=options.has("hms"))


def _chosen(options: Parsed) -> list[str]:
    """The letters of _STATES that were given; -p0 … -p3 count as -p."""
    given = {name[0] if name in ("p0", "p1", "p2", "p3") else name for name, _ in options.given}
    return [name for name in _STATES if name in given]


def _wanted(call: Call, options: Parsed, job_ids: tuple[int, ...]) -> JobFilter:
    chosen = _chosen(options)
    states = () if options.has("a") else tuple(dict.fromkeys(state for name in chosen for state in _STATES[name]))
    return JobFilter(
        ids=job_ids,
        user=options.last("u", "all" if job_ids else call.user),
        queue=options.last("q"),
        host=options.last("m"),
        name=options.last("J"),
        project=options.last("P"),
        states=states,
        finished=bool(job_ids) or options.has("a", "d"),
    )


def _levelled(record: JobRecord, options: Parsed) -> JobRecord:
    return msgspec.structs.replace(record, pending_reasons=record.pending_reasons[:1]) if options.has("p1") else record


def _nothing(options: Parsed) -> str:
    chosen = _chosen(options)
    kind = "" if options.has("a") or len(chosen) > 1 else _KINDS[chosen[0]] if chosen else "unfinished"
    return nothing_found(kind, options.last("q"), options.last("m"), options.last("P"))


def _layout(call: Call, options: Parsed, chosen: Format[JobRecord] | None, records: Sequence[JobRecord]) -> str:
    zone = zone_of(call.env)
    header = not options.has("noheader")
    if chosen is not None:
        return render_text(records, chosen, _setting(call, options), header=header)
    if options.has("l", "UF"):
        year = call.env.get("LSB_BJOBS_DISPLAY_YEAR", "").upper() == "Y"
        return jobs_long.render_long(records, zone, unfolded=options.has("UF"), year=year)
    if options.has("W"):
        return jobs.render_all_columns(records, zone, header=header)
    reasons = bool({"p", "s"} & set(_chosen(options)))
    render = jobs.render_wide if options.has("w") else jobs.render_short
    return render(records, zone, header=header, reasons=reasons)
