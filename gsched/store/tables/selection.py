"""Conditions on the rows of jobs: what a question asks for, in the store's own terms, such that an index serves it.

It asks nothing itself. Rows of stores that were written by an older gsched do not tell everything (`traits` is NULL):
where that matters they are let through, and whoever asked looks at their events.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, literal, not_, or_

from gsched.model.jobs.job import FINISHED
from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter
from gsched.store.tables.schema import ARRAY, job

ARRAY_MASK = 0xFFFF_FFFF
"""The bits of an element's number that are the array's (gsched.base.ids)."""

_AFTER_BRACKET = "\\"
"""The character after `[`: all names that go on with `[` are less than the name with it."""

Conditions = Iterator[ColumnElement[bool]]


def of_histories(wanted: HistoryQuery) -> Conditions:
    """The condition on rows of jobs whose histories are wanted; their numbers are another condition."""
    yield from _of_jobs(wanted.jobs)
    yield from within(job.c.submitted_at, wanted.submitted)
    yield from within(job.c.dispatched_at, wanted.dispatched)
    yield from within(job.c.finished_at, wanted.completed)
    if wanted.description:
        yield or_(_like(job.c.description, wanted.description), job.c.description.is_(None))


class QueryPart(NamedTuple):
    """Some of what is asked for: conditions, and by which index they are served best; empty: SQLite finds that itself.

    SQLite keeps no statistics here (they would have to be gathered while the master waits): without a word it takes an
    index that spares it sorting a few rows, and goes through millions.
    """

    conditions: list[ColumnElement[bool]]
    by: str = ""


def parts_of_histories(wanted: HistoryQuery) -> list[QueryPart]:
    """Questions to be asked one after the other; no row is in the answers to two of them."""
    jobs, span = wanted.jobs, wanted.active
    if jobs.ids or wanted.submitted:
        return [QueryPart(_activity(span))]
    if not jobs.finished and not FINISHED.intersection(jobs.states):
        return [QueryPart([*_activity(span), job.c.finished_at.is_(None)], "job_open")]
    if wanted.completed:
        return [QueryPart(_activity(span), _by_end([jobs.user], [jobs.project]))]
    if wanted.dispatched:
        return [QueryPart(_activity(span), "job_dispatched")]
    if span.since is None:
        return [QueryPart(_activity(span))]
    by_then = within(job.c.submitted_at, TimeSpan(until=span.until))
    earlier = [job.c.submitted_at < span.since, *by_then]
    return [
        QueryPart([job.c.submitted_at >= span.since, *by_then]),
        QueryPart([*earlier, job.c.finished_at >= span.since], _by_end([jobs.user], [jobs.project])),
        QueryPart([*earlier, job.c.finished_at.is_(None)], "job_open"),
    ]


def _activity(span: TimeSpan) -> list[ColumnElement[bool]]:
    """Submitted by the end of the span and not over before its beginning."""
    found = within(job.c.submitted_at, TimeSpan(until=span.until))
    if span.since is not None:
        found.append(or_(job.c.finished_at.is_(None), job.c.finished_at >= span.since))
    return found


def parts_of_accounts(wanted: AccountFilter) -> list[QueryPart]:
    """Likewise. Of an array whose other elements still run the row has no end yet, its elements that were never started
    have: they are told apart later.
    """
    if not wanted.completed:
        return [QueryPart([], "" if wanted.ids or wanted.submitted or not wanted.dispatched else "job_dispatched")]
    not_over = QueryPart([job.c.finished_at.is_(None)], "" if wanted.ids else "job_open")
    is_narrow = wanted.ids or wanted.submitted
    index = "" if is_narrow else _by_end(wanted.users, wanted.projects)
    return [QueryPart(within(job.c.finished_at, wanted.completed), index), not_over]


def _by_end(users: Sequence[str], projects: Sequence[str]) -> str:
    """The index by the end, for rows of these users or projects; empty names restrict nothing."""
    if users and users[0] not in ("", "all"):
        return "job_user_finished"
    return "job_project" if projects and projects[0] else "job_finished"


def of_accounts(wanted: AccountFilter) -> Conditions:
    """The condition on rows of finished jobs that are accounted for; their numbers are another condition."""
    yield job.c.state.in_(wanted.states or sorted(FINISHED))
    for column, names in ((job.c.user, wanted.users), (job.c.queue, wanted.queues), (job.c.project, wanted.projects)):
        if names:
            yield column.in_(names)
    if wanted.hosts:
        hosts = literal(" ") + job.c.host + literal(" ")
        yield or_(*(hosts.contains(f" {name} ", autoescape=True) for name in wanted.hosts))
    if wanted.application:
        yield or_(job.c.application == wanted.application, job.c.application.is_(None))
    yield from within(job.c.submitted_at, wanted.submitted)
    yield from within(job.c.dispatched_at, wanted.dispatched)


def tell_all_of_gpus() -> list[ColumnElement[bool]]:
    """The condition on rows of jobs with GPUs that tell of all their use: of one attempt, written since step 5."""
    return [job.c.traits == 0, job.c.gpus > 0.0, job.c.gpu_seen_s.is_not(None), job.c.dispatched_at.is_not(None)]


def do_not_tell_of_gpus() -> list[ColumnElement[bool]]:
    """The condition on rows of the other jobs that may have had GPUs, in an earlier attempt perhaps. Rows of arrays
    stand for no such job.
    """
    had = or_(job.c.gpus.is_(None), job.c.gpus > 0.0, job.c.traits != 0)
    is_array = job.c.traits.op("&")(ARRAY) != 0
    untold = or_(job.c.traits.is_(None), job.c.traits != 0, job.c.gpu_seen_s.is_(None), job.c.gpus.is_(None))
    return [had, untold, or_(job.c.traits.is_(None), not_(is_array))]


def _of_jobs(wanted: JobFilter) -> Conditions:
    if wanted.user not in ("", "all"):
        yield job.c.user == wanted.user
    if wanted.queue:
        yield job.c.queue == wanted.queue
    if wanted.project:
        yield job.c.project == wanted.project
    if wanted.host:
        # A job on several hosts is found by each of them.
        hosts = literal(" ") + job.c.host + literal(" ")
        yield or_(job.c.host == wanted.host, hosts.contains(f" {wanted.host} ", autoescape=True))
    if wanted.name:
        yield _name_matches(wanted.name)
    if wanted.group.rstrip("/"):
        group = wanted.group.rstrip("/")
        yield or_(job.c.job_group.in_((group, f"{group}/")), job.c.job_group.is_(None))
    if wanted.application:
        yield or_(job.c.application == wanted.application, job.c.application.is_(None))
    yield from _in_state(wanted)


def _in_state(wanted: JobFilter) -> Conditions:
    if wanted.states:
        yield job.c.state.in_(wanted.states)
    elif not wanted.ids:
        # The row of an array all of whose elements are jobs of their own stands for nothing.
        yield job.c.state.not_in(("",) if wanted.finished else ("", *sorted(FINISHED)))


def within(column: ColumnElement[Any], span: TimeSpan) -> list[ColumnElement[bool]]:
    """Conditions that a time lies in the span."""
    found = [column >= span.since] if span.since is not None else []
    # Times are typed to the second or minute: what happened within that second is meant.
    return found + ([column < math.floor(span.until) + 1.0] if span.until is not None else [])


def _name_matches(pattern: str) -> ColumnElement[bool]:
    """`*` stands for any characters; everything else for itself, upper and lower case told apart.

    The name of an array means its elements too, which are called `name[3]`.
    """
    name = job.c.name
    if "*" not in pattern:
        of_element = and_(name > f"{pattern}[", name < f"{pattern}{_AFTER_BRACKET}", job.c.job_id > ARRAY_MASK)
        return or_(name == pattern, and_(of_element, _like(name, pattern, "[%]")))
    matches = or_(_like(name, pattern), and_(job.c.job_id > ARRAY_MASK, _like(name, pattern, "[%]")))
    begin = pattern.partition("*")[0]
    # What names begin with is a range of the index; no character follows the last of Unicode.
    return and_(name >= begin, name < f"{begin}\U0010ffff", matches) if begin else matches


def _like(column: ColumnElement[Any], pattern: str, besides: str = "") -> ColumnElement[bool]:
    escaped = pattern.replace("/", "//").replace("%", "/%").replace("_", "/_").replace("*", "%")
    return column.like(escaped + besides, escape="/")
