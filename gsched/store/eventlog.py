"""The log of events: append a batch and the rows of its jobs durably, replay it, keep checkpoints and blobs.

It never interprets what it stores. One process has it (see `lock`), one connection writes. Whatever `append` has
returned for is on disk.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, select

from gsched.base.clock import Clock, SystemClock
from gsched.base.errors import BadRequest, Internal, NotFound
from gsched.model.event import AnyEvent
from gsched.model.views.start_estimate import StartEstimate
from gsched.store import checkpoint_parts, passing_blobs
from gsched.store.backends.opening import open_backend
from gsched.store.backends.reading import answered, reading
from gsched.store.checkpoint_retention import superseded
from gsched.store.mark import StoreMark
from gsched.store.packing.blob_packing import REMEMBERED
from gsched.store.packing.packed_blobs import Dictionaries, unpack
from gsched.store.packing.row_packing import ADD_BLOBS, RowPacking
from gsched.store.retention.removal import HistoryRemoval
from gsched.store.retention.unused_contents import UnusedContents
from gsched.store.safeguards.first_look import last_seq
from gsched.store.safeguards.lineage import Renewal
from gsched.store.safeguards.quarantine import Quarantine, Quarantined, read_events
from gsched.store.tables.estimates import dropping_estimates
from gsched.store.tables.records import StoredEvent, stream_events
from gsched.store.tables.schema import (
    HostRecordRow,
    JobRow,
    blob,
    checkpoint,
    dictionary,
    host_record,
    start_estimate,
)
from gsched.store.tables.statements import ADD_HOSTS, insert_new, insert_rows, put_jobs, upsert

MAX_BYTES = 900_000_000
"""Most a blob or a checkpoint may hold; SQLite's own limit is 1,000,000,000 for a row."""

DAY_S = 86_400.0
_log = logging.getLogger("gsched.store")
_PUT_CHECKPOINT = upsert(checkpoint)
_ADD_ESTIMATE = insert_new(start_estimate)


def blob_id(data: bytes) -> str:
    """Name of a blob: SHA-256 of its content, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


class EventLog:
    """The store of one cluster, held exclusively until `close`. Methods may be called from several threads.

    Raises BadRequest (no such folder, network filesystem, a database that is not SQLite's), Unavailable (a server does
    not answer), StoreInUse (another process has it), Conflict (not a gsched store, or one of a newer gsched), StoreLost
    (not what the mark beside it, or one of the `witnesses`, knows of), StoreDamaged, StoreFull, StoreBroken.

    `place`: a file of SQLite, or the address of a database in PostgreSQL; `folder`: where the mark of a database lies.
    `renew`: go on where something is lost, as a new generation: with what is left, or empty. `lost`: other masters wait
    for the store (in PostgreSQL); hears from another thread why this process leads no more.
    """

    def __init__(
        self,
        place: str | Path,
        *,
        clock: Clock | None = None,
        witnesses: Mapping[str, StoreMark] | None = None,
        renew: bool = False,
        folder: Path | None = None,
        lost: Callable[[str], None] | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._mutex = threading.Lock()
        self._is_closed = False
        self._successor = ""
        self._backend = open_backend(place, folder, self._clock, dict(witnesses or {}), renew=renew, lost=lost)
        self._last_seq = self._backend.mark.seq
        self._dictionaries = Dictionaries(self._backend.readers)
        self.removal = HistoryRemoval(self._backend, self._mutex, self._today)
        self.contents = UnusedContents(self._backend, self._mutex, self._today, lambda: self._packing)
        try:
            self._packing = RowPacking(*self._newest_dictionaries())
        except BaseException:
            self._backend.close()
            raise

    @property
    def place(self) -> str:
        """What opens the store, also for readers in other processes."""
        return self._backend.place

    @property
    def name(self) -> str:
        """The store, as people are told of it."""
        return self._backend.name

    @property
    def cluster_id(self) -> str:
        """Made with the cluster's first store, the same for ever."""
        return self._backend.cluster_id

    @property
    def generation(self) -> int:
        """One more with each renewal."""
        return self._backend.generation

    @property
    def epoch(self) -> int:
        """Higher with each master that has taken the store; 0: it is in a file, which has one master."""
        return self._backend.epoch

    @property
    def created_at(self) -> float:
        """UTC seconds."""
        return self._backend.created_at

    @property
    def numbers_from(self) -> int:
        """No job may get a number below this one, as far as is known outside the database."""
        return self._backend.numbers_from

    @property
    def renewed(self) -> Renewal | None:
        """What was begun in place of what; None: nothing was lost, or nothing was to be renewed."""
        return self._backend.renewed

    @property
    def last_seq(self) -> int:
        """Number of the newest stored event; 0 in a new store."""
        return self._last_seq

    @property
    def mark(self) -> StoreMark:
        """How far this store has come."""
        return self._backend.mark

    def disown(self, known: StoreMark) -> None:
        """This store should not be there: the next start refuses it, for `known` is missing. Raises OSError."""
        self._backend.disown(known)

    def hand_over(self, among: Sequence[str]) -> str:
        """Promise the store to another master, which takes it when this process closes it: the first that waits of
        those on these hosts. Returns its host. Raises NotFound when none waits, Unavailable, BadRequest.
        """
        self._successor = self._backend.hand_over(among)
        return self._successor

    @property
    def is_promised(self) -> bool:
        """Whether another master waits for this one to close it."""
        return bool(self._successor)

    def check_lease(self) -> None:
        """Before anything is told of the store. Where another master may lead by now, `lost` hears of it at once, and
        this waits for the end of the process instead of returning. Raises Unavailable when the store is closed then.
        """
        self._backend.check_lease()

    def lead_while(self, is_well: Callable[[], bool]) -> None:
        """Lead only while this says yes: where other masters wait, the lease of one that hangs is not renewed. It is
        asked once a second, from another thread.
        """
        self._backend.lead_while(is_well)

    def append(
        self,
        events: Sequence[AnyEvent],
        rows: Sequence[JobRow] = (),
        blobs: Mapping[str, bytes] | None = None,
        next_job_id: int = 1,
        hosts: Sequence[HostRecordRow] = (),
        estimates: Sequence[StartEstimate] = (),
        dropped: Collection[str] = (),
    ) -> int:
        """Store events, the job rows they lead to and blobs they refer to (id -> content) in one transaction, and drop
        those of the blobs `dropped` that are passing (gsched.store.passing_blobs).

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
            rows_of = self._packing.rows_of(before + 1, events, blobs or {})

            def write(connection: Connection) -> None:
                for statement in passing_blobs.dropping(sorted(dropped)):
                    connection.execute(statement)
                rows_of.write(connection)
                put_jobs(connection, rows)
                self.removal.note_ends(connection, rows)
                _add_hosts(connection, hosts)
                _add_estimates(connection, estimates)

            self._backend.transact(write, landed=lambda: self._read_last_seq() != before, batch=rows_of.events)
            self._packing.stored(rows_of)
            self._last_seq = before + len(events)
            self._backend.note(self._last_seq, next_job_id)
            return self._last_seq

    def add_hosts(self, hosts: Sequence[HostRecordRow], estimates: Sequence[StartEstimate] = ()) -> None:
        """Store what was seen of hosts, and said of starts, in a transaction of its own.

        Raises StoreFull, StoreBroken.
        """

        def write(connection: Connection) -> None:
            _add_hosts(connection, hosts)
            _add_estimates(connection, estimates)

        with self._mutex:
            self._backend.transact(write)

    @property
    def has_unpacked(self) -> bool:
        """Whether there is work for `pack_some`."""
        return self._packing.has_more

    def pack_some(self) -> None:
        """Make some rows small that a large batch has left as they were. Raises StoreFull, StoreBroken."""
        with self._mutex:
            with reading(self._backend) as connection:
                piece = self._packing.next_piece(connection)
            self._backend.transact(piece.write)
            self._packing.done(piece)

    def drop_estimates(self, before: float, most: int) -> bool:
        """Take away up to so many of what was said of starts before that time (UTC seconds), the oldest first; says
        whether there may be more. Raises StoreFull, StoreBroken.
        """
        dropped = 0

        def write(connection: Connection) -> None:
            nonlocal dropped
            dropped = connection.execute(dropping_estimates(connection.dialect, before, most)).rowcount

        with self._mutex:
            self._backend.transact(write)
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
            self._backend.transact(write)
        return dropped == most

    def _read_last_seq(self) -> int:
        """Raises DBAPIError as it is: what a read that fails means here is for the backend to say."""
        with self._backend.readers.connect() as connection:
            return last_seq(connection)

    def replay(self, after_seq: int = 0) -> Iterator[StoredEvent]:
        """Stored events with a number greater than `after_seq`, in order, undecoded. Raises StoreBroken for a file that
        cannot be read at all."""
        with answered(self._backend):
            yield from stream_events(self._backend.readers, after_seq)

    def read(
        self, after_seq: int = 0, quarantine: Quarantine | None = None
    ) -> Iterator[tuple[int, AnyEvent] | Quarantined]:
        """Like `replay`, decoded: (number, event), or Quarantined for a record that is not to be applied.

        `quarantine` collects the jobs set aside; give the one that the checkpoint knew.
        """
        aside = quarantine if quarantine is not None else Quarantine()
        return read_events(self.replay(after_seq), after_seq, aside, lambda: self.removal.floor().seq)

    def save_checkpoint(self, seq: int, payload: bytes) -> None:
        """Keep the state as of event `seq`; of others those that gsched.store.checkpoint_retention says. Appends wait
        meanwhile.

        Raises StoreFull and StoreBroken as `append`, ValueError for a number that is not stored yet.
        """
        _check_size(payload, "a checkpoint")
        record = (seq, self._clock.now(), checkpoint_parts.checksum(seq, payload), payload)

        def write(connection: Connection) -> None:
            insert_rows(connection, _PUT_CHECKPOINT, [record])
            connection.execute(delete(checkpoint).where(checkpoint.c.seq.in_(superseded(connection))))

        with self._mutex:
            if not 0 <= seq <= self._last_seq:
                raise ValueError(f"a checkpoint of event {seq}, but {self._last_seq} is the newest")
            self._backend.transact(write)

    def put_part(self, data: bytes) -> str:
        """Store a part of a checkpoint, and return its name. Raises StoreFull, StoreBroken."""
        return self.put_parts([data])[0]

    def put_parts(self, parts: Iterable[bytes]) -> list[str]:
        """Store parts of a checkpoint at one go, and return their names. Raises StoreFull, StoreBroken."""
        names: list[str] = []

        def write(connection: Connection) -> None:
            for data in parts:
                names.append(checkpoint_parts.part_id(data))
                insert_rows(connection, ADD_BLOBS, [(names[-1], data)])

        with self._mutex:
            self._backend.transact(write)
        return names

    def save_checkpoint_of(self, seq: int, names: Sequence[str]) -> None:
        """Keep the state as of event `seq` that these parts make up. Raises as `save_checkpoint`."""
        self.save_checkpoint(seq, checkpoint_parts.list_of(names))

    def drop_parts(self, most: int) -> bool:
        """Take away up to so many parts of checkpoints that are not kept; says whether there may be more."""
        with reading(self._backend) as connection:
            gone = checkpoint_parts.unnamed(connection, most)

        def write(connection: Connection) -> None:
            connection.execute(delete(blob).where(blob.c.id.in_(gone)))

        if gone:
            with self._mutex:
                self._backend.transact(write)
        return len(gone) == most

    def newest_checkpoint(self) -> int:
        """Number of the last event in the newest checkpoint, whole or not; 0 where there is none."""
        with reading(self._backend) as connection:
            return int(connection.scalar(select(func.max(checkpoint.c.seq))) or 0)

    def load_checkpoint(self) -> tuple[int, bytes] | None:
        """(number of the last event in it, state) of the newest checkpoint that is whole, or None.

        A damaged one is passed over with a line in the daemon's log: the replay then only takes longer. Raises as
        `replay` where the database does not answer: an older one would be no answer to that.
        """
        with reading(self._backend) as connection:
            rows = connection.execute(select(checkpoint.c.seq).order_by(checkpoint.c.seq.desc())).all()
        for seq in [int(row[0]) for row in rows]:
            with answered(self._backend):
                payload = checkpoint_parts.whole_checkpoint(self._backend.readers, seq, self._last_seq)
            if payload is not None:
                return seq, payload
            _log.warning("store %s: the checkpoint of event %d is damaged and not used", self.name, seq)
        return None

    def get_blob(self, name: str) -> bytes:
        """Content of a blob. Raises NotFound, or Internal when it is not what was stored."""
        with reading(self._backend) as connection:
            row: bytes | None = connection.scalar(select(blob.c.data).where(blob.c.id == name))
            if row is None:
                raise NotFound(f"the store {self.name} has no blob {name}")
            data = unpack(row, self._dictionaries)
        if blob_id(data) != name:
            raise Internal(f"blob {name} of the store {self.name} is damaged")
        return data

    def _newest_dictionaries(self) -> tuple[list[tuple[int, bytes]], int]:
        """And how many there are."""
        query = select(dictionary.c.number, dictionary.c.words).order_by(dictionary.c.number.desc()).limit(REMEMBERED)
        with reading(self._backend) as connection:
            rows: list[Any] = list(connection.execute(query))
            count = int(connection.scalar(select(func.count()).select_from(dictionary)) or 0)
        return [(int(number), bytes(words)) for number, words in reversed(rows)], count

    def _today(self) -> int:
        """Day since 1970."""
        return max(0, int(self._clock.now() // DAY_S))

    def shortage(self) -> str:
        """Why new commands are better refused, though no write has failed yet; empty: nothing of that kind is known."""
        return self._backend.shortage()

    def close(self) -> None:
        """Give the store back. May be called twice; nothing else may be called afterwards."""
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            self._backend.close()


def _add_hosts(connection: Connection, hosts: Sequence[HostRecordRow]) -> None:
    insert_rows(connection, ADD_HOSTS, [(row.at, row.seq, int(row.whole), row.data) for row in hosts])


def _add_estimates(connection: Connection, estimates: Sequence[StartEstimate]) -> None:
    insert_rows(connection, _ADD_ESTIMATE, [msgspec.structs.astuple(each) for each in estimates])


def _check_size(data: bytes, what: str) -> None:
    if len(data) > MAX_BYTES:
        raise BadRequest(f"{what} of {len(data)} bytes is too large for the store: {MAX_BYTES} are the most")
