"""The log of events: append a batch and the rows of its jobs durably, replay it, keep checkpoints and blobs.

It never interprets what it stores. One process has it (see `lock`), one connection writes. Whatever `append` has
returned for is on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from sqlalchemy import Connection, Integer, delete, func, literal_column, select
from sqlalchemy.exc import DBAPIError

from gsched.base.clock import Clock, SystemClock
from gsched.base.errors import BadRequest, Conflict, GschedError, Internal, NotFound
from gsched.model.event import AnyEvent, encode_event, kind_of
from gsched.model.views.start_estimate import StartEstimate
from gsched.store import checkpoint_parts
from gsched.store.checkpoint_retention import superseded
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
from gsched.store.safeguards.quarantine import Quarantine, Quarantined, read_events
from gsched.store.safeguards.reserve import DiskReserve
from gsched.store.tables.migrations import migrate, read_meta
from gsched.store.tables.records import StoredEvent, stream_events
from gsched.store.tables.schema import (
    HostRecordRow,
    JobRow,
    blob,
    checkpoint,
    event,
    host_record,
    insert_new,
    put_job,
    rename_job,
    start_estimate,
    upsert,
)
from gsched.store.tables.sqlite import reader_engine, store_path, writer_engine
from gsched.store.writer import Writer, insert_rows

RESERVE_BYTES = 32 << 20
"""With less room than this new commands are better refused: what still runs must be able to report its end."""
MAX_BYTES = 900_000_000
"""Most a blob or a checkpoint may hold; SQLite's own limit is 1,000,000,000 for a row."""

_log = logging.getLogger("gsched.store")
_ADD_EVENT = event.insert()
_PUT_JOB = put_job()
_RENAME_JOB = rename_job()
_ADD_BLOB = insert_new(blob)
_PUT_CHECKPOINT = upsert(checkpoint)
_ADD_HOSTS = host_record.insert()
_ADD_ESTIMATE = insert_new(start_estimate)


def blob_id(data: bytes) -> str:
    """Name of a blob: SHA-256 of its content, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


class EventLog:
    """The store of one cluster, held exclusively until `close`. Methods may be called from several threads.

    Raises BadRequest (no such folder, network filesystem, a database that is not SQLite's), StoreInUse (another process
    has it), Conflict (not a gsched store, or one of a newer gsched), StoreLost (not what the mark beside it, or one of
    the `witnesses`, knows of), StoreDamaged, StoreFull, StoreBroken.

    `renew`: go on where something is lost, as a new generation: with what is left, or empty.
    """

    def __init__(
        self,
        url_or_path: str | Path,
        *,
        clock: Clock | None = None,
        witnesses: Mapping[str, StoreMark] | None = None,
        renew: bool = False,
    ) -> None:
        self.path = store_path(url_or_path)
        self._clock = clock or SystemClock()
        self._mutex = threading.Lock()
        self._is_closed = False
        self._renew = renew
        self._reserve = DiskReserve(self.path.parent)
        self.renewed: lineage.Renewal | None = None
        """What was begun in place of what; None: nothing was lost, or nothing was to be renewed."""
        if not self.path.parent.is_dir():
            raise BadRequest(f"the folder of the store does not exist: {self.path.parent}")
        if self.path.exists() and not self.path.is_file():
            raise BadRequest(f"the store {self.path} is not a file")
        filesystem.check_filesystem(self.path.parent)
        self._lock = StoreLock(self.path.parent)
        try:
            self._open_on_any_disk(dict(witnesses or {}))
        except GschedError:
            self._lock.release()
            raise
        except DBAPIError as error:
            self._lock.release()
            raise self._opening_error(error) from error
        except OSError as error:
            self._lock.release()
            raise BadRequest(f"cannot open the store {self.path}: {error.strerror}") from None
        except BaseException:
            self._lock.release()
            raise

    def _open_on_any_disk(self, witnesses: dict[str, StoreMark]) -> None:
        """On a full disk with the room that was kept for it."""
        reserve = self._reserve
        if reserve.is_needed() and reserve.release():
            _log.warning("the disk of %s is full: what room was kept is used to open it", self.path)
        try:
            self._open(witnesses)
        except DBAPIError as error:
            if not isinstance(before_commit(error, str(self.path)), StoreFull) or not reserve.release():
                raise
            self._open(witnesses)
        reserve.keep()

    def _open(self, witnesses: dict[str, StoreMark]) -> None:
        self._mark_file = MarkFile(self.path.parent)
        if self._mark_file.is_damaged:
            _log.warning("%s cannot be read, and is written anew", self._mark_file.path)
        if self._mark_file.mark is not None:
            witnesses = {MARK_NAME: self._mark_file.mark, **witnesses}
        origin = self._checked(witnesses)
        engine = writer_engine(self.path)
        try:
            migrate(engine, str(self.path), self._clock.now(), origin)
        except BaseException:
            engine.dispose()
            raise
        self._writer = Writer(engine, self.path)
        self._readers = reader_engine(self.path)
        with self._readers.connect() as connection:
            self._last_seq = last_seq(connection)
            values = read_meta(connection)
        self.cluster_id = values["cluster_id"]
        """Made with the cluster's first store, the same for ever."""
        self.generation = int(values.get("generation", "1"))
        """One more with each renewal."""
        self.created_at = float(values["created_at"])
        """UTC seconds."""
        found = StoreMark(cluster_id=self.cluster_id, generation=self.generation, seq=self._last_seq)
        self.numbers_from = numbers_from(found, witnesses, MARK_NAME)
        """No job may get a number below this one, as far as is known outside the database."""
        self._begin_mark(msgspec.structs.replace(found, next_job_id=self.numbers_from))
        if not was_left_open(values):  # else the file says so since that process began
            self._begin_use()

    def _begin_use(self) -> None:
        try:
            self._writer.transact(note_open)
            self._writer.copy_log()
        except StoreFull as error:  # then the mark alone tells that a log is gone
            _log.warning("%s: cannot note that it is in use: %s", self.path, error.text)

    def _checked(self, witnesses: Mapping[str, StoreMark]) -> StoreMark | None:
        """Returns whose store it is to be, where that is to be written down; raises StoreLost."""
        has_log, damage = has_log_at(self.path), ""
        try:
            look = look_at(self.path)
        except (Conflict, DBAPIError) as error:
            if not lineage.is_unusable(error) or all(mark.is_empty for mark in witnesses.values()):
                raise
            look = FirstLook(has_log=has_log)
            damage = error_text(error) if isinstance(error, DBAPIError) else "another program's database"
        found = look.mark
        loss = loss_of(found, witnesses, without_log=None if look.has_log else self._without_log(look))
        if loss is None:
            return None
        text = loss.text(str(self.path), log_missing=not look.has_log, damage=damage)
        if not self._renew:
            raise StoreLost(text, loss)
        self.renewed = lineage.renewal(self.path, text, found, witnesses, self._clock.now())
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
            return BadRequest(f"{self.path} is not a gsched store: it is not an SQLite database")
        if "unable to open" in str(error.orig):
            return BadRequest(f"cannot open the store {self.path}: {error_text(error)}")
        if lineage.is_unusable(error):
            return StoreDamaged(f"the store {self.path} is damaged: {error_text(error)}")
        outcome = before_commit(error, str(self.path))
        if isinstance(outcome, StoreFull) and self._reserve.is_needed():
            return StoreFull(f"the disk of {self.path.parent} is full: {outcome.text}")
        return outcome

    @property
    def last_seq(self) -> int:
        """Number of the newest stored event; 0 in a new store."""
        return self._last_seq

    @property
    def mark(self) -> StoreMark:
        """How far this store has come."""
        assert self._mark_file.mark is not None
        return self._mark_file.mark

    def disown(self, known: StoreMark) -> None:
        """This store should not be there: the next start refuses it, for `known` is missing. Raises OSError."""
        self._mark_file.disown(known)

    def append(
        self,
        events: Sequence[AnyEvent],
        rows: Sequence[JobRow] = (),
        blobs: Mapping[str, bytes] | None = None,
        next_job_id: int = 1,
        hosts: Sequence[HostRecordRow] = (),
        estimates: Sequence[StartEstimate] = (),
    ) -> int:
        """Store events, the job rows they lead to and blobs they refer to (id -> content) in one transaction.

        `next_job_id`: no number from here on has been given out; it is noted outside the database as well. `hosts`:
        what was seen of hosts before. `estimates`: what was said of starts.

        Returns the number of the newest event, when all is on disk. Raises StoreFull (nothing is stored; give the same
        batch again later), StoreBroken (unknown: leave the process and replay), ValueError for a blob under a wrong id.
        """
        for name, data in (blobs or {}).items():
            _check_size(data, "a script or environment")
            if name != blob_id(data):
                raise ValueError(f"blob {name} does not have the content of that name")
        with self._mutex:
            before = self._last_seq
            records = [
                (seq, entry.at, kind_of(entry), getattr(entry, "job_id", None), encode_event(entry))
                for seq, entry in enumerate(events, before + 1)
            ]

            def write(connection: Connection) -> None:
                insert_rows(connection, _ADD_BLOB, list((blobs or {}).items()))
                insert_rows(connection, _ADD_EVENT, records)
                _put_jobs(connection, rows)
                _add_hosts(connection, hosts)
                _add_estimates(connection, estimates)

            self._writer.transact(write, landed=lambda: self._read_last_seq() != before)
            self._last_seq = before + len(records)
            self._mark_file.note(self._last_seq, next_job_id)
            return self._last_seq

    def add_hosts(self, hosts: Sequence[HostRecordRow], estimates: Sequence[StartEstimate] = ()) -> None:
        """Store what was seen of hosts, and said of starts, in a transaction of its own.

        Raises StoreFull, StoreBroken.
        """

        def write(connection: Connection) -> None:
            _add_hosts(connection, hosts)
            _add_estimates(connection, estimates)

        with self._mutex:
            self._writer.transact(write)

    def drop_estimates(self, before: float, most: int) -> bool:
        """Take away up to so many of what was said of starts before that time (UTC seconds), the oldest first; says
        whether there may be more. Raises StoreFull, StoreBroken.
        """
        row = literal_column("rowid", Integer)  # rows are added in the order of their times
        oldest = select(row).select_from(start_estimate).order_by(row).limit(most)
        old = delete(start_estimate).where(row.in_(oldest), start_estimate.c.at < before)
        dropped = 0

        def write(connection: Connection) -> None:
            nonlocal dropped
            dropped = connection.execute(old).rowcount

        with self._mutex:
            self._writer.transact(write)
        return dropped == most

    def drop_hosts(self, before: float, most: int) -> bool:
        """Take away up to so many records of hosts that no look at a time from `before` (UTC seconds) on needs; says
        whether there may be more. Raises StoreFull, StoreBroken.
        """
        number = host_record.c.number
        needed = select(func.max(number)).where(host_record.c.whole == 1, host_record.c.at <= before)
        gone = select(number).where(number < needed.scalar_subquery()).order_by(number).limit(most)
        dropped = 0

        def write(connection: Connection) -> None:
            nonlocal dropped
            dropped = connection.execute(delete(host_record).where(number.in_(gone))).rowcount

        with self._mutex:
            self._writer.transact(write)
        return dropped == most

    def _read_last_seq(self) -> int:
        with self._readers.connect() as connection:
            return last_seq(connection)

    def replay(self, after_seq: int = 0) -> Iterator[StoredEvent]:
        """Stored events with a number greater than `after_seq`, in order, undecoded. Raises StoreBroken for a file that
        cannot be read at all."""
        try:
            yield from stream_events(self._readers, after_seq)
        except DBAPIError as error:
            raise before_commit(error, str(self.path)) from error

    def read(
        self, after_seq: int = 0, quarantine: Quarantine | None = None
    ) -> Iterator[tuple[int, AnyEvent] | Quarantined]:
        """Like `replay`, decoded: (number, event), or Quarantined for a record that is not to be applied.

        `quarantine` collects the jobs set aside; give the one that the checkpoint knew.
        """
        return read_events(self.replay(after_seq), after_seq, quarantine if quarantine is not None else Quarantine())

    def save_checkpoint(self, seq: int, payload: bytes) -> None:
        """Keep the state as of event `seq`; of others those that gsched.store.checkpoint_retention says. Appends wait
        meanwhile.

        Raises StoreFull and StoreBroken as `append`, ValueError for a number that is not stored yet.
        """
        _check_size(payload, "a checkpoint")
        record = {
            "seq": seq,
            "at": self._clock.now(),
            "crc": checkpoint_parts.checksum(seq, payload),
            "payload": payload,
        }

        def write(connection: Connection) -> None:
            connection.execute(_PUT_CHECKPOINT, record)
            connection.execute(delete(checkpoint).where(checkpoint.c.seq.in_(superseded(connection))))

        with self._mutex:
            if not 0 <= seq <= self._last_seq:
                raise ValueError(f"a checkpoint of event {seq}, but {self._last_seq} is the newest")
            self._writer.transact(write)

    def put_part(self, data: bytes) -> str:
        """Store a part of a checkpoint, and return its name. Raises StoreFull, StoreBroken."""
        name = checkpoint_parts.part_id(data)

        def write(connection: Connection) -> None:
            connection.execute(_ADD_BLOB, {"id": name, "data": data})

        with self._mutex:
            self._writer.transact(write)
        return name

    def save_checkpoint_of(self, seq: int, names: Sequence[str]) -> None:
        """Keep the state as of event `seq` that these parts make up. Raises as `save_checkpoint`."""
        self.save_checkpoint(seq, checkpoint_parts.list_of(names))

    def drop_parts(self, most: int) -> bool:
        """Take away up to so many parts of checkpoints that are not kept; says whether there may be more."""
        with self._readers.connect() as connection:
            gone = checkpoint_parts.unnamed(connection, most)

        def write(connection: Connection) -> None:
            connection.execute(delete(blob).where(blob.c.id.in_(gone)))

        if gone:
            with self._mutex:
                self._writer.transact(write)
        return len(gone) == most

    def load_checkpoint(self) -> tuple[int, bytes] | None:
        """(number of the last event in it, state) of the newest checkpoint that is whole, or None.

        A damaged one is passed over with a line in the daemon's log: the replay then only takes longer.
        """
        with self._readers.connect() as connection:
            rows = connection.execute(select(checkpoint.c.seq).order_by(checkpoint.c.seq.desc())).all()
        for seq in [int(row[0]) for row in rows]:
            payload = checkpoint_parts.whole_checkpoint(self._readers, seq, self._last_seq)
            if payload is not None:
                return seq, payload
            _log.warning("store %s: the checkpoint of event %d is damaged and not used", self.path, seq)
        return None

    def get_blob(self, name: str) -> bytes:
        """Content of a blob. Raises NotFound, or Internal when it is not what was stored."""
        with self._readers.connect() as connection:
            data: bytes | None = connection.scalar(select(blob.c.data).where(blob.c.id == name))
        if data is None:
            raise NotFound(f"the store {self.path} has no blob {name}")
        if blob_id(data) != name:
            raise Internal(f"blob {name} of the store {self.path} is damaged")
        return data

    def room_left(self) -> int:
        """Bytes left in the store's filesystem; -1 when that cannot be told."""
        try:
            return filesystem.room_left(self.path.parent)
        except OSError:
            return -1

    def has_room(self) -> bool:
        """Should new commands be taken, as far as room goes? Where that cannot be told, writing will tell why."""
        left = self.room_left()
        return left < 0 or left >= RESERVE_BYTES

    def close(self) -> None:
        """Give the store back. May be called twice; nothing else may be called afterwards."""
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            with contextlib.suppress(StoreFull, StoreBroken):
                self._writer.transact(note_closed)
            self._mark_file.close(clean=not self._writer.broken)
            self._readers.dispose()
            self._writer.close()
            self._reserve.keep()
            self._lock.release()


def _add_hosts(connection: Connection, hosts: Sequence[HostRecordRow]) -> None:
    if hosts:
        connection.execute(_ADD_HOSTS, [row._asdict() for row in hosts])


def _add_estimates(connection: Connection, estimates: Sequence[StartEstimate]) -> None:
    insert_rows(connection, _ADD_ESTIMATE, [msgspec.structs.astuple(each) for each in estimates])


def _put_jobs(connection: Connection, rows: Sequence[JobRow]) -> None:
    if not rows:
        return
    insert_rows(connection, _PUT_JOB, [msgspec.structs.astuple(row) for row in rows])
    names = [(row.queue, row.name, row.project) for row in rows]
    renamed = [(*given, row.job_id, *given) for row, given in zip(rows, names, strict=True)]
    connection.exec_driver_sql(_RENAME_JOB, renamed)


def _check_size(data: bytes, what: str) -> None:
    if len(data) > MAX_BYTES:
        raise BadRequest(f"{what} of {len(data)} bytes is too large for the store: {MAX_BYTES} are the most")
