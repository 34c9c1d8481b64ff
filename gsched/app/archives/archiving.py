"""`gadmin history archive`: months that are over become files, which are read again before the store lets go of them.

All parts are written and compared before the first job is removed, and the manifest on disk says so; whoever is killed
in between goes on from there. What is done again does no harm.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from gsched.app.archives.archived_batches import PartSpan
from gsched.app.archives.months import Month, month_of, months
from gsched.app.archives.part_checking import PartCheck
from gsched.app.archives.part_removal import Remove, remove_part
from gsched.app.archives.part_writing import PartWriter
from gsched.app.archives.planned_part import find_planned, refuse_strangers
from gsched.base.errors import BadRequest, Conflict
from gsched.base.moments import shown_utc
from gsched.master.archive.archive_manifest import (
    KeptCluster,
    Manifest,
    Part,
    PartState,
    find_manifest,
    sync,
    write_manifest,
)
from gsched.store.forgotten_jobs import ForgottenJobs
from gsched.store.history_queries import History
from gsched.wire.identity.caller_identity import user_name

LOCK = ".lock"
_FOLDER_MODE = 0o750

_Say = Callable[[str], None]
Remover = contextlib.AbstractContextManager[Remove]
_NEEDED = "the next start of the master may need the others: say it again while it runs"
_CHANGED = "the others have changed since: say it again, and another part has them"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be archived, and where to."""

    cluster: str
    before: Month
    folder: Path
    kept: KeptCluster | None
    """None: what the manifest has stays."""
    job_history_days: int = 0
    jobs_since: float = 0.0
    """Jobs that ended before, UTC seconds, may be gone by JOB_HISTORY_DAYS."""


def archive_history(store: str, wanted: Wanted, remover: Remover | None, say: _Say) -> None:
    """Write and compare the archives of all months before one; then have what is in them removed, unless `remover` is
    None. It is entered when all is sure.

    Raises BadRequest (a folder that cannot be written), Conflict (another one works there; an archive of another
    cluster), DamagedData (a file is not what was written: nothing was removed), Unavailable, and what `remover`
    raises.
    """
    with _locked(wanted.folder), contextlib.ExitStack() as stack:
        history = stack.enter_context(contextlib.closing(History(store)))
        forgotten = stack.enter_context(contextlib.closing(ForgottenJobs(history)))
        archiving = _Archiving(history, forgotten, wanted, say)
        archiving.write_and_check()
        if remover is not None and archiving.has_more:
            archiving.remove(stack.enter_context(remover))


class _Archiving:
    """Into one folder."""

    def __init__(self, history: History, forgotten: ForgottenJobs, wanted: Wanted, say: _Say) -> None:
        self._history, self._forgotten = history, forgotten
        self._wanted, self._folder, self._say = wanted, wanted.folder, say
        self._writer = PartWriter(history, forgotten, wanted.folder)
        self._check = PartCheck(history, forgotten, wanted.folder)
        cluster_id, generation = forgotten.cluster_id(), forgotten.generation()
        found = find_manifest(wanted.folder)
        if found is not None and found.cluster_id != cluster_id:
            raise Conflict(f"{wanted.folder} has archives of another cluster, {found.cluster}: choose another folder")
        if found is not None and found.generation not in (0, generation):
            was = f"generation {found.generation} of the store, and this is {generation}"
            raise Conflict(f"{wanted.folder} has archives of {was}: choose another folder")
        self._manifest = found or Manifest(cluster=wanted.cluster, cluster_id=cluster_id)
        self._manifest = replace(self._manifest, generation=generation)
        self._go_on_with_plan()
        refuse_strangers(wanted.folder, self._manifest)

    def _go_on_with_plan(self) -> None:
        """Whoever was killed while a part's files got their names: it is taken, or made again."""
        planned = self._manifest.planned
        if planned is None:
            return
        if find_planned(self._folder, planned, self._say):
            self._keep(planned)
        else:
            self._write(replace(self._manifest, planned=None))

    def write_and_check(self) -> None:
        last_event = self._history.last_seq()
        for part in self._manifest.parts:
            self._check_part(part)
        first = self._forgotten.first_end()
        for month in months(month_of(first), self._wanted.before) if first is not None else ():
            before = self._manifest.of_month(str(month))
            after = before[-1].last_event if before else 0
            span = PartSpan(month.since, month.until, after, last_event)
            written = self._writer.write(str(month), before, span, self._plan) if after < last_event else None
            if written is not None:
                self._keep(written)
                self._check_part(written)
                self._say_missing(month, is_first=not before)
        if not self._manifest.parts:
            self._say(f"no job ended before {self._wanted.before} that could be archived")

    def _say_missing(self, month: Month, *, is_first: bool) -> None:
        """Jobs that went before the first part was written are in none, and nobody knows how many they were."""
        days, since = self._wanted.job_history_days, self._wanted.jobs_since
        if is_first and month.since < since:
            why = f"JOB_HISTORY_DAYS={days}: those that ended before {shown_utc(since)} may have been taken away"
            self._say(f"{month}: attention: jobs may be missing ({why})")

    @property
    def has_more(self) -> bool:
        """Whether jobs of the months that are wanted may be in the store."""
        return any(part.state is not PartState.REMOVED for part in self._wanted_parts())

    def _wanted_parts(self) -> Iterator[Part]:
        return (part for part in self._manifest.parts if part.month < str(self._wanted.before))

    def remove(self, remove: Remove) -> None:
        """The jobs of the parts of the months that are wanted, which were compared just now."""
        self._sync_parent()
        # Of a job that has come into a later part of its month that part has all that there is.
        for part in sorted(self._wanted_parts(), key=lambda each: (each.month, -each.number)):
            if part.state is PartState.REMOVED:
                continue
            jobs = part.jobs.lines
            removed = remove_part(self._folder, self._manifest, part, remove)
            if removed.gone == jobs:
                self._keep(replace(part, state=PartState.REMOVED))
                self._say(f"{part.name}: {jobs} jobs are no longer in the store")
            else:
                why = _CHANGED if removed.is_floor_above else _NEEDED
                self._say(f"{part.name}: {removed.gone} of {jobs} jobs are no longer in the store; {why}")

    def _sync_parent(self) -> None:
        """Whoever made the folder may not have: it is to be there after the machine stops. Raises BadRequest."""
        parent = self._folder.resolve().parent
        try:
            sync(parent)
        except PermissionError:
            os.sync()  # a folder that may be passed through but not read
        except OSError as problem:
            raise BadRequest(f"{problem.filename or parent}: {problem.strerror}") from None

    def _check_part(self, part: Part) -> None:
        if part.state is PartState.REMOVED:
            self._check.files_alone(part)
            self._say(f"{part.name}: {part.jobs.lines} jobs, as they were written")
            return
        self._check.check(part)
        if part.state is PartState.WRITTEN:
            self._keep(replace(part, state=PartState.VERIFIED))
        alone = f", {part.eventless_jobs} jobs had no events any more" if part.eventless_jobs else ""
        alone += f", {part.incomplete_jobs} jobs had lost some of their events" if part.incomplete_jobs else ""
        lost = f", {part.missing_contents} scripts or environments were missing" if part.missing_contents else ""
        self._say(f"{part.name}: {part.jobs.lines} jobs, {part.events.lines} events, as in the store{alone}{lost}")

    def _plan(self, part: Part) -> None:
        self._write(replace(self._manifest, planned=part))

    def _keep(self, part: Part) -> None:
        kept = self._wanted.kept or self._manifest.kept
        self._write(replace(self._manifest.with_part(part), kept=kept))

    def _write(self, manifest: Manifest) -> None:
        self._manifest = manifest
        try:
            write_manifest(self._folder, self._manifest)
        except OSError as problem:
            raise BadRequest(f"{problem.filename or self._folder}: {problem.strerror}") from None


def _refuse_foreign(folder: Path) -> None:
    """A folder in which others may give and take names. Raises BadRequest, OSError."""
    status = os.stat(folder)
    if status.st_uid not in (0, os.geteuid()):
        raise BadRequest(f"{folder} belongs to the user {user_name(status.st_uid)}: choose a folder of your own")
    is_for_group = status.st_mode & stat.S_IWGRP and not status.st_mode & stat.S_ISVTX
    if is_for_group or status.st_mode & stat.S_IWOTH:
        mode = stat.S_IMODE(status.st_mode)
        raise BadRequest(f"{folder}: others may write there (mode {mode:04o}): chmod go-w, or choose another folder")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The folder, which is made where there is none, for this process alone. Raises BadRequest, Conflict."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(_FOLDER_MODE)
            sync(folder.parent)  # what is written in it is not to vanish with it
        _refuse_foreign(folder)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise BadRequest(f"{problem.filename or folder}: {problem.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Conflict(f"{folder}: another gadmin history archive is writing there") from None
    finally:
        os.close(handle)
