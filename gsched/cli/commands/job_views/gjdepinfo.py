"""`gjdepinfo` (bjdepinfo): which jobs a job waits for, or which wait for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from gsched.base.coded_text import has_code
from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.base.ids import array_of, element_id, show_job
from gsched.cli.options.job_selection import not_found, parse_job_ids
from gsched.cli.render.jobs.dependencies import Dependence, render_dependences
from gsched.cli.render.text.text_columns import printable
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable
from gsched.model.jobs.job import PENDING
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.calls.client import Client

TABLE = OptionTable(
    summary="show which jobs a job waits for, or which wait for it",
    operands="JOB",
    options=(
        Option("c", help="the jobs that wait for it"),
        Option("r", "LEVELS", "also the jobs that those wait for, so many levels up (with -c: down)", "-r 3"),
        Option("l", help="each job's condition, and whether it holds, too"),
        Option("p", help="only jobs that keep others waiting: what they are waited for has not come"),
        Option("w", help="do not cut names"),
        Option("noheader", help="no heading"),
        *GENERAL,
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM -c -r 2 1153"),
)
MOST_LEVELS = 100
_TARGET = re.compile(r"([a-z_]+)\((\d+)(?:\[(\d+|\*)\])?")
"""A condition with its job, as the master shows it: `done(5)`, `exit(5[3], > 2)`, `ended(5[*])`."""
_COME = {"done": ("DONE",), "exit": ("EXIT",), "ended": ("DONE", "EXIT")}
"""Condition -> the states in which it has come for its job; of others that is not told by a state."""

Next = Callable[[int], Iterable[JobView]]
"""The jobs next to one: those it waits for, or those that wait for it."""


def main(call: Call) -> int:
    """Run `gjdepinfo`."""
    options = read_options(call, TABLE)
    job_ids = parse_job_ids(options.rest)
    if len(job_ids) != 1 or 0 in job_ids:
        raise BadRequest(f"{program(call)}: name one job")
    if options.has("c") and options.has("l", "p"):
        raise BadRequest(f"{program(call)}: -l and -p tell of jobs that are waited for, not with -c")
    levels = _levels(program(call), options.last("r", "1"))
    (job_id,) = job_ids
    with connected(call) as session:
        if not _views(session.client, (job_id,)):
            call.error(not_found(job_ids))
            return LSF_FAILURE
        following = options.has("c")
        find = _children(session.client) if following else _parents(session.client, only_missing=options.has("p"))
        found = _walk(job_id, find, levels)
        waiting = tuple(dict.fromkeys((job_id, *(each.job_id for each in found))))
        for view in _views(session.client, waiting) if options.has("l") else ():
            call.write(_condition(view))
    if not found:
        other = "has no jobs that wait for it" if following else "waits for no job"
        if options.has("p"):
            other = "waits for nothing that has not come"
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


def _parents(client: Client, *, only_missing: bool) -> Next:
    """`only_missing`: those alone that have not come to what they are waited for."""

    def find(job_id: int) -> list[JobView]:
        own = _views(client, (job_id,))
        if only_missing:
            own = [view for view in own if view.state in PENDING]
        numbers = sorted({number for view in own for number in parents_of_spec(view)})
        found = _views(client, numbers) if numbers else []
        return [view for view in found if not only_missing or _is_missing(view, own)]

    return find


def _is_missing(parent: JobView, waiting: Iterable[JobView]) -> bool:
    """Whether one of the conditions on this job has not come."""
    words = {
        word
        for view in waiting
        for word, number, _ in _TARGET.findall(view.spec.conditions)
        if int(number) == array_of(parent.job_id)
    }
    return any(parent.state not in _COME.get(word, ()) for word in words)


def _condition(view: JobView) -> str:
    """Whether the condition of the job holds; a job that has started, or was given none, waits for nothing."""
    if not view.spec.dependency:
        return ""
    waits = view.state in PENDING and any(
        has_code(each.text, "dependency.not_satisfied", "dependency.invalid") for each in view.pending_reasons
    )
    held = "not satisfied" if waits else "satisfied"
    return f"Dependency condition of job <{show_job(view.job_id)}> is {held}: {printable(view.spec.dependency)}\n"


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
        for _, number, index in _TARGET.findall(view.spec.conditions)
    )


def _views(client: Client, numbers: Iterable[int]) -> list[JobView]:
    return list(client.jobs(JobFilter(ids=tuple(numbers), user="all", finished=True)))


def _levels(name: str, text: str) -> int:
    """Raises BadRequest."""
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_LEVELS:
        return int(text)
    raise BadRequest(f"{name}: -r {text[:60]}: not a number of levels from 1 to {MOST_LEVELS}")
