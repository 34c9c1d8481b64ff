"""Of archives what one question is about, into a store that is made for it: then whoever asks a store can be asked.

Rows of all jobs that may be meant come first; of those that the store finds then, and of their arrays, the events. What
is not asked for is read over, and its lines are not taken apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from gsched.base.errors import DamagedData
from gsched.base.ids import array_of, index_of
from gsched.master.archive.archive_files import damaged, read_lines
from gsched.master.archive.archive_lines import job_of_event, read_event, read_job, row_of
from gsched.master.archive.archive_manifest import KeptCluster, Manifest, Part, read_manifest
from gsched.model.views.archive_question import ArchiveQuestion
from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.model.views.element_names import split_name
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import EventRecord
from gsched.store.history_queries import History
from gsched.store.loaded_store import LoadedStore
from gsched.store.tables.schema import ARRAY, JobRow

_ALL = 1 << 62


class Archives:
    """Several folders, as if they were one. Raises BadRequest, Conflict, DamagedData."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._read: list[tuple[Path, Manifest]] = [(folder, read_manifest(folder)) for folder in folders]

    def kept(self) -> KeptCluster:
        """What is known of the cluster; of what several folders tell the last one counts."""
        queues, hosts, models = {}, {}, {}
        for _, manifest in self._read:
            queues.update({each.name: each for each in manifest.kept.queues})
            hosts.update({each.name: each for each in manifest.kept.hosts})
            models.update({each.name: each for each in manifest.kept.models})
        return KeptCluster(queues=tuple(queues.values()), hosts=tuple(hosts.values()), models=tuple(models.values()))

    def load(self, question: ArchiveQuestion, path: Path) -> None:
        """Make a store there that answers the question as one would that still had all of it."""
        parts = [(folder, part) for folder, manifest in self._read for part in manifest.parts]
        parts = [(folder, part) for folder, part in parts if may_have(part, question)]
        store = LoadedStore(path)
        try:
            store.add_jobs(row for folder, part in parts for row in _rows(folder, part, question))
            history = History(path)
            try:
                wanted = _with_events(history, question)
            finally:
                history.close()
            if wanted:
                store.add_events(record for folder, part in parts for record in _events(folder, part, wanted))
        finally:
            store.close()


def may_have(part: Part, question: ArchiveQuestion) -> bool:
    """Whether a job of the part can be meant, by the times that the manifest tells."""
    asked = question.histories or question.accounts
    assert asked is not None
    spans = [(asked.submitted, part.submitted_since, part.submitted_until)]
    if isinstance(asked, HistoryQuery):
        spans.append((TimeSpan(until=asked.active.until), part.submitted_since, part.submitted_until))
    # An element may have ended months before its array did: only the end of the month is a bound.
    since = max((span.since for span in _ends(asked) if span.since is not None), default=None)
    if since is not None and part.until <= since:
        return False
    return all(_overlap(span, first, last) for span, first, last in spans)


def _ends(asked: HistoryQuery | AccountFilter) -> Iterator[TimeSpan]:
    yield asked.completed
    if isinstance(asked, HistoryQuery):
        yield TimeSpan(since=asked.active.since)


def _overlap(span: TimeSpan, first: float, last: float) -> bool:
    is_after = span.since is not None and last < span.since
    # Times are typed to the second or minute: what happened within that second is meant.
    return not is_after and not (span.until is not None and first >= span.until + 1.0)


def _rows(folder: Path, part: Part, question: ArchiveQuestion) -> Iterator[JobRow]:
    """Of jobs that may be meant; each line is read."""
    users, groups = _users(question), {array_of(number) for number in _ids(question)}
    for number, line in read_lines(folder, part.jobs):
        try:
            row = row_of(read_job(line))
        except ValueError as problem:
            raise damaged(folder / part.jobs.name, number, problem) from None
        if (not users or row.user in users) and (not groups or array_of(row.job_id) in groups):
            yield row


def _ids(question: ArchiveQuestion) -> tuple[int, ...]:
    if question.histories is not None:
        return question.histories.jobs.ids
    return question.accounts.ids if question.accounts is not None else ()


def _users(question: ArchiveQuestion) -> frozenset[str]:
    """Empty: everybody."""
    if question.histories is not None:
        user = question.histories.jobs.user
        return frozenset() if user in ("", "all") else frozenset((user,))
    return frozenset(question.accounts.users) if question.accounts is not None else frozenset()


def _with_events(history: History, question: ArchiveQuestion) -> set[int]:
    """Jobs of which the events are needed, with the arrays of those that are elements."""
    ids = _ids(question)
    if question.histories is not None:
        found = _found(history, question.histories) if not ids else set(history.numbers())
        is_brief = question.histories.brief and not question.histories.jobs.service_class
    else:
        assert question.accounts is not None
        found = set(history.accounted(replace(question.accounts, ids=())))
        is_brief = not question.with_jobs and not question.accounts.is_of_submission
        if ids:
            found = set(history.numbers())
    arrays = {array_of(number) for number in found if index_of(number)}
    if not is_brief:
        return found | arrays
    traits = history.traits_of(found | arrays)
    # What happened to an array counts for its elements.
    return arrays | {
        number
        for number in found
        if traits.get(number) != 0 or (index_of(number) and traits.get(array_of(number)) != ARRAY)
    }


def _found(history: History, wanted: HistoryQuery) -> set[int]:
    """Numbers of the jobs that are asked for, and of the arrays that elements without a row may be of."""
    _, name = split_name(wanted.jobs.name)
    jobs = replace(wanted.jobs, name=name)
    return {number for number, _ in history.newest(replace(wanted, jobs=jobs), _ALL)}


def _events(folder: Path, part: Part, wanted: set[int]) -> Iterator[EventRecord]:
    for number, line in read_lines(folder, part.events):
        try:
            if job_of_event(line) in wanted:
                yield read_event(line)
        except ValueError as problem:
            raise damaged(folder / part.events.name, number, problem) from None


def check_folders(folders: Iterable[Path]) -> None:
    """Raises DamagedData for folders of several clusters: numbers of jobs would mean two."""
    seen: dict[str, Path] = {}
    for folder in folders:
        seen.setdefault(read_manifest(folder).cluster_id, folder)
    if len(seen) > 1:
        first, second, *_ = seen.values()
        raise DamagedData(f"{first} and {second} are archives of two clusters: ask one at a time")
