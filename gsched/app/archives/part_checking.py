"""A part of an archive is read again, all of it, and compared with the store, line by line.

What the store has no more is no fault of the part: it was removed, or its time was over. It changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from gsched.app.archives.archived_batches import JOBS_AT_ONCE, JobLines, PartSpan, contents_of, lines_of, numbers_of
from gsched.app.archives.known_names import KnownNames
from gsched.app.archives.part_reading import StoredJob, stored_jobs
from gsched.app.archives.part_writing import SEEN
from gsched.base.errors import DamagedData
from gsched.base.ids import array_of, show_job
from gsched.master.archive.archive_files import damaged, read_lines
from gsched.master.archive.archive_lines import read_content
from gsched.master.archive.archive_manifest import Part
from gsched.store.forgotten_jobs import ForgottenJobs
from gsched.store.history_queries import History
from gsched.store.tables.batched import batched


def check_contents(folder: Path, part: Part, store: ForgottenJobs, named: KnownNames) -> None:
    """Each content is what its name says, and none is missing that the store has. `named`: those that events name; what
    was found is taken out of it.
    """
    path = folder / part.contents.name
    for number, line in read_lines(folder, part.contents):
        try:
            name, data = read_content(line)
        except ValueError as problem:
            raise damaged(path, number, problem) from None
        if hashlib.sha256(data).hexdigest() != name:
            raise damaged(path, number, f"the content is not {name}")
        if not named.remove(name):
            raise damaged(path, number, f"no event of this part names the content {name}")
    for names in named.all():
        for name, _ in store.contents(names):
            raise DamagedData(f"{path}: the content {name} is missing, and the store has it")


class PartCheck:
    """Compares parts of one folder with one store. Raises DamagedData for what is not the same, BadRequest for a file
    that cannot be read, Unavailable for a store that cannot be.
    """

    def __init__(self, history: History, store: ForgottenJobs, folder: Path) -> None:
        self._history, self._store, self._folder = history, store, folder

    def check(self, part: Part) -> None:
        """Read it all, and compare what the store has."""
        count = 0
        with contextlib.closing(KnownNames(self._folder / SEEN)) as named:
            for some in batched(stored_jobs(self._folder, part), JOBS_AT_ONCE):
                count += self._compare(part, some, named)
            check_contents(self._folder, part, self._store, named)
        self._compare_count(part, count)

    def files_alone(self, part: Part) -> None:
        """That its files are what was written, of a part that the store has no more."""
        for file in part.files:
            for _ in read_lines(self._folder, file):
                pass

    def _compare(self, part: Part, some: list[StoredJob], named: KnownNames) -> int:
        """Returns how many of them the store has."""
        numbers = [job.number for job in some]
        newest = self._store.last_events({*numbers, *map(array_of, numbers)})
        found = {each.row.job_id: each for each in lines_of(self._history, numbers, part.last_event)}
        for job in some:
            named.add(contents_of(job.records))
            stored = found.get(job.number)
            if stored is not None:
                # What happened after the part was written may have changed its row; then another part has it.
                is_later = newest.get(job.number, 0) > part.last_event
                is_whole = bool(stored.events) and array_of(job.number) in newest
                self._compare_job(part, job, stored, is_later=is_later, is_whole=is_whole)
        return len(found)

    def _compare_job(self, part: Part, job: StoredJob, stored: JobLines, *, is_later: bool, is_whole: bool) -> None:
        # The store may have let go of events before the jobs, of many some at a time (EVENT_HISTORY_DAYS).
        is_whole = is_whole and len(stored.events) == len(job.events)
        if stored.events != job.events and (is_whole or not set(stored.events) <= set(job.events)):
            raise self._differs(part, job, "has other events in the store")
        # Without its events, or those of its array, a job tells less.
        is_same = job.job == stored.job if is_whole else job.row == stored.row
        if not is_same and not is_later:
            raise self._differs(part, job, "is another one in the store")

    def _compare_count(self, part: Part, found: int) -> None:
        """No job of the store's may be missing in the files."""
        span = PartSpan(part.since, part.until, part.after_event, part.last_event)
        stored = sum(len(numbers) for numbers in numbers_of(self._history, self._store, span))
        if stored > found:
            path = self._folder / part.jobs.name
            raise DamagedData(f"{path}: it has {found} jobs, the store has {stored} that belong here")

    def _differs(self, part: Part, job: StoredJob, how: str) -> DamagedData:
        return damaged(self._folder / part.jobs.name, job.line, f"job {show_job(job.number)} {how}")
