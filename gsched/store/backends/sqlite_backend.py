"""A store in a file of SQLite: its folder's lock, the mark beside it, room that is kept, the one writing connection.

It refuses a file that is not what was acknowledged, and changes nothing then; it never removes a file.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from gsched.base.clock import Clock
from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound
from gsched.store.backends.sqlite_writer import SqliteWriter
from gsched.store.mark import MARK_NAME, MarkFile, StoreMark
from gsched.store.safeguards import filesystem, lineage
from gsched.store.safeguards.continuity import StoreFault, StoreLost, loss_of, numbers_from
from gsched.store.safeguards.failure import StoreBroken, StoreDamaged, StoreFull, before_commit, error_text
from gsched.store.safeguards.first_look import (
    FirstLook,
    has_log_at,
    last_seq,
    look_at,
    note_closed,
    note_open,
    was_left_open,
)
from gsched.store.safeguards.lock import StoreLock
from gsched.store.safeguards.reserve import DiskReserve
from gsched.store.tables.migrations import migrate, read_meta
from gsched.store.tables.sqlite import reader_engine, writer_engine

RESERVE_BYTES = 32 << 20
"""With less room than this new commands are better refused: what still runs must be able to report its end."""

_log = logging.getLogger("gsched.store")


class SqliteBackend:
    """As `backend.Backend`. Raises as EventLog."""

    def __init__(self, path: Path, clock: Clock, witnesses: Mapping[str, StoreMark], *, renew: bool) -> None:
        self._path = path
        self.place = self.name = str(path)
        self._clock = clock
        self._renew = renew
        self._reserve = DiskReserve(path.parent)
        self.renewed: lineage.Renewal | None = None
        self.epoch = 0
        if not path.parent.is_dir():
            raise BadRequest(f"the folder of the store does not exist: {path.parent}")
        if path.exists() and not path.is_file():
            raise BadRequest(f"the store {path} is not a file")
        filesystem.check_filesystem(path.parent)
        self._lock = StoreLock(path.parent)
        try:
            self._open_on_any_disk(dict(witnesses))
        except GschedError:
            self._lock.release()
            raise
        except DBAPIError as error:
            self._lock.release()
            raise self._opening_error(error) from error
        except OSError as error:
            self._lock.release()
            raise BadRequest(f"cannot open the store {path}: {error.strerror}") from None
        except BaseException:
            self._lock.release()
            raise

    def _open_on_any_disk(self, witnesses: dict[str, StoreMark]) -> None:
        """On a full disk with the room that was kept for it."""
        reserve = self._reserve
        if reserve.is_needed() and reserve.release():
            _log.warning("the disk of %s is full: what room was kept is used to open it", self._path)
        try:
            self._open(witnesses)
        except DBAPIError as error:
            if not isinstance(before_commit(error, str(self._path)), StoreFull) or not reserve.release():
                raise
            self._open(witnesses)
        reserve.keep()

    def _open(self, witnesses: dict[str, StoreMark]) -> None:
        self._mark_file = MarkFile(self._path.parent)
        if self._mark_file.is_damaged:
            _log.warning("%s cannot be read, and is written anew", self._mark_file.path)
        if self._mark_file.mark is not None:
            witnesses = {MARK_NAME: self._mark_file.mark, **witnesses}
        origin = self._checked(witnesses)
        engine = writer_engine(self._path)
        try:
            migrate(engine, str(self._path), self._clock.now(), origin)
        except BaseException:
            engine.dispose()
            raise
        self._writer = SqliteWriter(engine, self._path)
        self.readers = reader_engine(self._path)
        with self.readers.connect() as connection:
            newest = last_seq(connection)
            values = read_meta(connection)
        self.cluster_id = values["cluster_id"]
        self.generation = int(values.get("generation", "1"))
        self.created_at = float(values["created_at"])
        found = StoreMark(cluster_id=self.cluster_id, generation=self.generation, seq=newest)
        self.numbers_from = numbers_from(found, witnesses, MARK_NAME)
        self._begin_mark(msgspec.structs.replace(found, next_job_id=self.numbers_from))
        if not was_left_open(values):  # else the file says so since that process began
            self._begin_use()

    def _begin_use(self) -> None:
        try:
            self._writer.transact(note_open)
            self._writer.copy_log()
        except StoreFull as error:  # then the mark alone tells that a log is gone
            _log.warning("%s: cannot note that it is in use: %s", self._path, error.text)

    def _checked(self, witnesses: Mapping[str, StoreMark]) -> StoreMark | None:
        """Returns whose store it is to be, where that is to be written down; raises StoreLost."""
        has_log, damage = has_log_at(self._path), ""
        try:
            look = look_at(self._path)
        except (Conflict, DBAPIError) as error:
            if not lineage.is_unusable(error) or all(mark.is_empty for mark in witnesses.values()):
                raise
            look = FirstLook(has_log=has_log)
            damage = error_text(error) if isinstance(error, DBAPIError) else "another program's database"
        found = look.mark
        loss = loss_of(found, witnesses, without_log=None if look.has_log else self._without_log(look))
        if loss is None:
            return None
        text = loss.text(str(self._path), log_missing=not look.has_log, damage=damage)
        if not self._renew:
            raise StoreLost(text, loss)
        self.renewed = lineage.renewal(self._path, text, found, witnesses, self._clock.now())
        return self.renewed.origin

    def _without_log(self, look: FirstLook) -> StoreFault | None:
        """Of a database that has no log, where nobody knows more than it: whether something may have been in one."""
        if self._mark_file.mark is not None:  # it is written with each commit, and lost with the machine alone
            return StoreFault.DOUBTFUL if self._mark_file.may_lag else None
        return StoreFault.UNCLOSED if look.was_left_open else None

    def _begin_mark(self, mark: StoreMark) -> None:
        try:
            self._mark_file.begin(mark)
        except OSError as error:  # it is tried again with each commit
            self._mark_file.mark = mark
            _log.warning("%s cannot be written: %s", self._mark_file.path, error.strerror or error)

    def _opening_error(self, error: DBAPIError) -> GschedError:
        if "not a database" in str(error.orig):
            return BadRequest(f"{self._path} is not a gsched store: it is not an SQLite database")
        if "unable to open" in str(error.orig):
            return BadRequest(f"cannot open the store {self._path}: {error_text(error)}")
        if lineage.is_unusable(error):
            return StoreDamaged(f"the store {self._path} is damaged: {error_text(error)}")
        outcome = before_commit(error, str(self._path))
        if isinstance(outcome, StoreFull) and self._reserve.is_needed():
            return StoreFull(f"the disk of {self._path.parent} is full: {outcome.text}")
        return outcome

    @property
    def mark(self) -> StoreMark:
        """How far the store has come, as it is noted outside the database."""
        assert self._mark_file.mark is not None
        return self._mark_file.mark

    def transact(
        self,
        write: Callable[[Connection], None],
        *,
        landed: Callable[[], bool] | None = None,
        batch: object = None,
    ) -> None:
        """See Backend. What is not known stays so: SQLite's own file has to be read by another process then."""
        self._writer.transact(write, landed)

    def note(self, seq: int, next_job_id: int) -> None:
        """See Backend."""
        self._mark_file.note(seq, next_job_id)

    def disown(self, known: StoreMark) -> None:
        """See Backend."""
        self._mark_file.disown(known)

    def hand_over(self, among: Sequence[str]) -> str:
        """See Backend. A file has one master."""
        raise NotFound("no other master waits: a store in a file has one")

    def check_lease(self) -> None:
        """See Backend. A file has one master."""

    def lead_while(self, is_well: Callable[[], bool]) -> None:
        """See Backend. Nobody waits for a file."""

    def reading_failure(self, error: DBAPIError) -> GschedError:
        """See Backend."""
        return before_commit(error, self.name)

    def shortage(self) -> str:
        """See Backend. Where the room that is left cannot be told, writing will tell why."""
        try:
            is_full = filesystem.room_left(self._path.parent) < RESERVE_BYTES
        except OSError:
            return ""
        return f"the disk of {self._path.parent} is full" if is_full else ""

    def close(self) -> None:
        """See Backend."""
        with contextlib.suppress(StoreFull, StoreBroken):
            self._writer.transact(note_closed)
        self._mark_file.close(clean=not self._writer.broken)
        self.readers.dispose()
        self._writer.close()
        self._reserve.keep()
        self._lock.release()
