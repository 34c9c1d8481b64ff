"""Finished jobs of long ago: which ones a program means, and where their archives are asked without a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime

from gsched.api.named import NamesJob, numbers_of
from gsched.api.options import refuses_unknown_options
from gsched.api.values import nearest, one_text, path, texts
from gsched.base.errors import BadRequest
from gsched.model.jobs.job import JobState
from gsched.model.views.archive_question import ArchiveQuestion
from gsched.model.views.catalogue import MOST_NAMED, AccountFilter, TimeSpan
from gsched.model.views.view import JobView
from gsched.wire.archive_process import ArchiveProcess
from gsched.wire.calls.catalogue_calls import Catalogue
from gsched.wire.identity.caller_identity import user_name

ArchiveFolders = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@refuses_unknown_options
def history(
    archive: ArchiveFolders,
    *,
    ids: Iterable[NamesJob] | NamesJob = (),
    user: str = "",
    queue: str = "",
    project: str = "",
    states: str | Iterable[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[JobView]:
    """Finished jobs of the archives in one folder, or in several (`gadmin history archive`), by number: as
    `Cluster.history` yields them, whose options these are. No cluster is asked.

    Raises BadRequest for a folder that has no archive, DamagedData for files that are not what was written.
    """
    named = [archive] if isinstance(archive, str | os.PathLike) else list(archive)
    folders = [os.path.abspath(path("archive", each)) for each in named]
    if not folders:
        raise BadRequest("archive is empty: name a folder")
    wanted = account_filters(ids, user, queue, project, states, since, until)
    return _from_archives(folders, list(wanted))


def _from_archives(folders: list[str], wanted: list[AccountFilter]) -> Iterator[JobView]:
    for each in wanted:
        with ArchiveProcess(ArchiveQuestion(accounts=each, with_jobs=True), folders).client() as client:
            yield from views(client.catalogue, each)


def views(catalogue: Catalogue, wanted: AccountFilter) -> Iterator[JobView]:
    """What is known of the jobs, read while they arrive."""
    return (each.job for each in catalogue.accounts(wanted, jobs=True) if each.job is not None)


def account_filters(
    ids: Iterable[NamesJob] | NamesJob,
    user: str,
    queue: str,
    project: str,
    states: str | Iterable[str],
    since: datetime | None,
    until: datetime | None,
) -> Iterator[AccountFilter]:
    """The questions for the jobs that these options mean, one after the other. Raises BadRequest."""
    numbers = tuple(numbers_of("ids", ids))
    owner = one_text("user", user) or ("all" if numbers else user_name(os.getuid()))
    chosen_queues, projects = texts("queue", queue or ()), texts("project", project or ())
    ended = TimeSpan(since=timestamp(since, "since"), until=timestamp(until, "until"))
    for start in range(0, len(numbers) or 1, MOST_NAMED):
        yield AccountFilter(
            ids=numbers[start : start + MOST_NAMED],
            users=() if owner == "all" else (owner,),
            queues=tuple(chosen_queues),
            projects=tuple(projects),
            states=states_of(states),
            completed=ended,
        )


def states_of(states: str | Iterable[str]) -> tuple[str, ...]:
    """The states that are named. Raises BadRequest for one that is none."""
    found, known = tuple(texts("states", states)), [str(state) for state in JobState]
    for state in found:
        if state not in known:
            raise BadRequest(f"states={state!r} is no state of a job{nearest(state, known)}")
    return found


def timestamp(at: datetime | None, name: str) -> float | None:
    """UTC seconds of a time; one without a zone is of this machine's. Raises BadRequest."""
    if at is None:
        return None
    if not isinstance(at, datetime):
        raise BadRequest(f"{name}={at!r}: give a datetime")
    return at.timestamp()
