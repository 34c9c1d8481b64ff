"""`ghist` (bhist): what happened to jobs, and how long they spent in each state."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gsched.base.errors import LSF_FAILURE, GschedError
from gsched.base.ids import array_of, show_job
from gsched.cli.call import Call
from gsched.cli.chronicle import history_record
from gsched.cli.command import FILTERS, GENERAL, GROUP, read_options
from gsched.cli.render import history
from gsched.cli.render.history import HistoryRecord
from gsched.cli.selection import parse_job_ids
from gsched.cli.session import connected, setting
from gsched.cli.zone import zone_of
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.model.view import JobFilter, JobHistory

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
        Option("n", "LOGS", "taken for LSF's sake: all of the history is searched anyway"),
        Option("P", "PROJECT", "only jobs of this project"),
        *FILTERS,
        GROUP,
        *GENERAL,
        *unsupported("A", "app", "b", "C", "cname", "D", "f", "hms", "Jd", "N", "S", "sla", "T", "t", "x", "X"),
    ),
    interspersed=True,
    examples=("PROGRAM -l 1153", "PROGRAM -a"),
)

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
    wanted = _wanted(call, options)
    with connected(call) as session:
        reader = _Reader(call, wanted)
        records = list(reader.read(session.client.history(wanted)))
    if not records:
        if not reader.problems:
            call.write("No matching job found\n")
        return LSF_FAILURE
    zone, now = zone_of(call.env), time.time()
    if options.has("l", "UF"):
        year = setting(call, "LSB_BHIST_DISPLAY_YEAR").upper() == "Y"
        call.write(history.render_history(records, zone, now, unfolded=options.has("UF"), year=year))
    else:
        call.write(history.render_summary(records, now, wide=options.has("w")))
    return LSF_FAILURE if reader.problems else 0


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
        finished=bool(job_ids) or options.has("a", "d", "e"),
    )


class _Reader:
    """Turns stored histories into records; what cannot be told is said on standard error and counted."""

    def __init__(self, call: Call, wanted: JobFilter) -> None:
        self._call = call
        self._wanted = wanted
        self.problems = 0

    def read(self, stored: Iterator[JobHistory]) -> Iterator[HistoryRecord]:
        found: set[int] = set()
        for each in stored:
            found.update((each.job_id, array_of(each.job_id)))
            try:
                yield history_record(each)
            except GschedError as problem:
                self._complain(problem.text)
        missing = [job_id for job_id in self._wanted.ids if job_id not in found]
        if found:
            for job_id in missing:
                self._complain(f"Job <{show_job(job_id)}>: No matching job found")

    def _complain(self, text: str) -> None:
        self.problems += 1
        self._call.error(text + "\n")
