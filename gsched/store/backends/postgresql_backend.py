"""A store in PostgreSQL: lock and epoch of its one master, the one writing connection, the mark on this machine.

It refuses a database that is not what was acknowledged, and a server that keeps no promises; it removes no table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from gsched.base.clock import Clock
from gsched.base.errors import BadRequest, Conflict, GschedError, Unavailable
from gsched.model.store_url import StoreUrl
from gsched.store.backends.leadership import LeadershipLock, Standing, begin_epoch, make_leader_table
from gsched.store.backends.lease import LeaseKeeper, grant, hand_over
from gsched.store.backends.postgresql_writer import PostgresqlWriter
from gsched.store.mark import MARK_NAME, MarkFile, StoreMark
from gsched.store.safeguards import lineage
from gsched.store.safeguards.continuity import StoreLost, loss_of, numbers_from
from gsched.store.safeguards.failure import error_text
from gsched.store.safeguards.first_look import last_seq
from gsched.store.safeguards.lock import StoreLock
from gsched.store.safeguards.server_failure import is_passing
from gsched.store.safeguards.server_promises import check_promises
from gsched.store.tables.migrations import check_version, migrate, read_meta, schema_version
from gsched.store.tables.postgresql import ANSWER_S, reader_engine, writer_engine

_log = logging.getLogger("gsched.store")


class PostgresqlBackend:
    """As `backend.Backend`. Raises as EventLog. The mark lies in `folder`, which one master of this machine has.

    `lost`: there are other masters, so a lease is kept; hears from another thread why it is lost.
    """

    def __init__(
        self,
        url: StoreUrl,
        folder: Path,
        clock: Clock,
        witnesses: Mapping[str, StoreMark],
        *,
        renew: bool,
        lost: Callable[[str], None] | None = None,
    ) -> None:
        self.place, self.name = url.text, url.name
        self._url = url
        self._lost = lost
        self._lease: LeaseKeeper | None = None
        self.epoch = 0
        self._clock = clock
        self._renew = renew
        self.renewed: lineage.Renewal | None = None
        if not folder.is_dir():
            raise BadRequest(f"the folder for what is known of the store does not exist: {folder}")
        self._engine = writer_engine(url, ANSWER_S)
        self._patient_engine = writer_engine(url)  # to bring tables up to date may take long
        self.readers = reader_engine(url, ANSWER_S)
        self._lock = LeadershipLock(url)
        self._folder_lock = StoreLock(folder)
        try:
            self._mark_file = MarkFile(folder)
            self._open(witnesses)
        except DBAPIError as error:
            self._give_back()
            raise self._opening_error(error) from error
        except GschedError:
            self._give_back()
            raise
        except OSError as error:
            self._give_back()
            raise BadRequest(f"cannot open the store {self.name}: {error.strerror}") from None
        except BaseException:
            self._give_back()
            raise

    def _open(self, witnesses: Mapping[str, StoreMark]) -> None:
        if self._mark_file.is_damaged:
            _log.warning("%s cannot be read, and is written anew", self._mark_file.path)
        if self._mark_file.mark is not None:
            witnesses = {MARK_NAME: self._mark_file.mark, **witnesses}
        with self._engine.connect() as connection:
            check_promises(connection, self.name)
            version = schema_version(connection, self.name)
            check_version(version, self.name)
        self._lock.take()
        standing = self._lead() if version else None
        origin = self._checked(witnesses)
        migrate(self._patient_engine, self.name, self._clock.now(), origin)
        standing = standing or self._lead()
        self._writer = PostgresqlWriter(self._engine, self.name, self._lock, standing)
        with self._engine.connect() as connection:  # a reader may be connected to a standby that lags behind
            newest, values = last_seq(connection), read_meta(connection)
        self.cluster_id = values["cluster_id"]
        self.generation = int(values.get("generation", "1"))
        self.created_at = float(values["created_at"])
        found = StoreMark(cluster_id=self.cluster_id, generation=self.generation, seq=newest, epoch=self.epoch)
        self.numbers_from = numbers_from(found, witnesses, MARK_NAME)
        mark = msgspec.structs.replace(found, next_job_id=self.numbers_from)
        try:
            self._mark_file.begin(mark)
        except OSError as error:  # it is tried again with each commit
            self._mark_file.mark = mark
            _log.warning("%s cannot be written: %s", self._mark_file.path, error.strerror or error)
        if self._lease is not None:
            self._lease.acknowledged = lambda: self.mark.seq

    def _lead(self) -> Standing:
        """Fence off whoever led before; what it had committed by then is in the store."""
        with self._engine.begin() as connection:
            make_leader_table(connection)
            standing = begin_epoch(connection)
            began = grant(connection, standing, is_renewed=self._lost is not None)
        self.epoch = standing.epoch
        if self._lost is not None:
            self._lease = LeaseKeeper(self._url, standing.epoch, self._lost, began)
        return standing

    def _checked(self, witnesses: Mapping[str, StoreMark]) -> StoreMark | None:
        """Returns whose store it is to be, where that is to be written down; raises StoreLost."""
        found = look_at_server(self._engine, self.name)
        loss = loss_of(found, witnesses)
        if loss is None:
            return None
        text = loss.text(self.name, log_missing=False)
        if not self._renew:
            raise StoreLost(text, loss)
        self.renewed = lineage.renewal(None, text, found, witnesses, self._clock.now())
        if found is not None and not self.renewed.goes_on:
            raise Conflict(f"{text}. Name another database, which is empty: this one is left as it is")
        return self.renewed.origin

    def _opening_error(self, error: DBAPIError) -> GschedError:
        text = f"cannot open the store {self.name}: {error_text(error)}"
        return Unavailable(text) if is_passing(error) else BadRequest(text)

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
        """See Backend. Whether a batch has landed is said by its number."""
        self._writer.transact(write, batch)

    def note(self, seq: int, next_job_id: int) -> None:
        """See Backend."""
        self._mark_file.note(seq, next_job_id)

    def disown(self, known: StoreMark) -> None:
        """See Backend."""
        self._mark_file.disown(known)

    def hand_over(self, among: Sequence[str]) -> str:
        """See Backend."""
        return hand_over(self._url, self.epoch, among)

    def check_lease(self) -> None:
        """See Backend."""
        if self._lease is not None:
            self._lease.check()

    def lead_while(self, is_well: Callable[[], bool]) -> None:
        """See Backend."""
        if self._lease is not None:
            self._lease.is_well = is_well

    def reading_failure(self, error: DBAPIError) -> GschedError:
        """See Backend."""
        return Unavailable(f"the store {self.name} cannot be read: {error_text(error)}")

    def shortage(self) -> str:
        """See Backend. How much room a server has left is not known here."""
        return ""

    def close(self) -> None:
        """See Backend."""
        self._mark_file.close(clean=not self._writer.broken)
        self._writer.close()
        self._give_back()

    def _give_back(self) -> None:
        if self._lease is not None:
            self._lease.close()
        self.readers.dispose()
        self._engine.dispose()
        self._lock.release()
        self._folder_lock.release()


def look_at_server(engine: Engine, name: str) -> StoreMark | None:
    """How far the store in the database has come; None: there is none. Raises Conflict for somebody else's."""
    with engine.connect() as connection:
        version = schema_version(connection, name)
        check_version(version, name)
        if not version:
            return None
        values = read_meta(connection)
        generation = int(values.get("generation", "1"))
        return StoreMark(cluster_id=values["cluster_id"], generation=generation, seq=last_seq(connection))
