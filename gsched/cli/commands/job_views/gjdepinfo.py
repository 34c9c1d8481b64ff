"""`gjdepinfo` (bjdepinfo): which jobs a job waits for, or which wait for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.base.ids import array_of, element_id, show_job
from gsched.cli.options.job_selection import not_found, parse_job_ids
from gsched.cli.render.jobs.dependencies import Dependence, render_dependences
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.calls.client import Client

TABLE = OptionTable(
    summary="show which jobs a job waits for, or which wait for it",
    operands="JOB",
    options=(
        Option("c", help="the jobs that wait for it"),
        Option("r", "LEVELS", "also the jobs that those wait for, so many levels up (with -c: down)", "-r 3"),
        Option("w", help="do not cut names"),
        Option("noheader", help="no heading"),
        *GENERAL,
        *unsupported("l", "p", because="-r follows dependencies, gjobs -p says what a job waits for"),
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM -c -r 2 1153"),
)
MOST_LEVELS = 100
_TARGET = re.compile(r"[a-z_]+\((\d+)(?:\[(\d+|\*)\])?")
"""A condition with its job, as the master shows it: `done(5)`, `exit(5[3], > 2)`, `ended(5[*])`."""

Next = Callable[[int], Iterable[JobView]]
"""The jobs next to one: those it waits for, or those that wait for it."""


def main(call: Call) -> int:
    """Run `gjdepinfo`."""
    options = read_options(call, TABLE)
    job_ids = parse_job_ids(options.rest)
    if len(job_ids) != 1 or 0 in job_ids:
        raise BadRequest(f"{program(call)}: name one job")
    levels = _levels(program(call), options.last("r", "1"))
    (job_id,) = job_ids
    with connected(call) as session:
        if not _views(session.client, (job_id,)):
            call.error(not_found(job_ids))
            return LSF_FAILURE
        following = options.has("c")
        find = _children(session.client) if following else _parents(session.client)
        found = _walk(job_id, find, levels)
    if not found:
        other = "has no jobs that wait for it" if following else "waits for no job"
        call.error(f"Job <{show_job(job_id)}> {other}\n")
        return 0
    header = not options.has("noheader")
    call.write(render_dependences(found, following=following, header=header, wide=options.has("w")))
    return 0


def _walk(start: int, find: Next, levels: int) -> list[Dependence]:
    """Breadth first; each job's own lines come once."""
    found: list[Dependence] = []
    layer, seen = [start], {start}
    for level in range(1, levels + 1):
        following: list[int] = []
        for job_id in layer:
            for view in find(job_id):
                name = view.spec.shown_name(view.job_id)
                found.append(Dependence(job_id, view.job_id, view.state, name, level))
                if view.job_id not in seen:
                    seen.add(view.job_id)
                    following.append(view.job_id)
        layer = following
    return found


def _parents(client: Client) -> Next:
    def find(job_id: int) -> list[JobView]:
        own = _views(client, (job_id,))
        numbers = sorted({number for view in own for number in parents_of_spec(view)})
        return _views(client, numbers) if numbers else []

    return find


def _children(client: Client) -> Next:
    """One question for all jobs: what waits is unfinished, and says itself for what."""
    waiting = [(view, parents_of_spec(view)) for view in client.jobs(JobFilter(user="all")) if view.spec.conditions]

    def find(job_id: int) -> list[JobView]:
        return [view for view, parents in waiting if {job_id, array_of(job_id)} & parents]

    return find


def parents_of_spec(view: JobView) -> frozenset[int]:
    """Numbers of the jobs and arrays that the job's condition names."""
    return frozenset(
        element_id(int(number), int(index)) if index and index != "*" else int(number)
        for number, index in _TARGET.findall(view.spec.conditions)
    )


def _views(client: Client, numbers: Iterable[int]) -> list[JobView]:
    return list(client.jobs(JobFilter(ids=tuple(numbers), user="all", finished=True)))


def _levels(name: str, text: str) -> int:
    """Raises BadRequest."""
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_LEVELS:
        return int(text)
    raise BadRequest(f"{name}: -r {text[:60]}: not a number of levels from 1 to {MOST_LEVELS}")
