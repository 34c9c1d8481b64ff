"""What a look at the past reads of a store: the checkpoint before, the events after it, configurations, hosts.

Committed records only, on connections that cannot write and never hold the writer up. It interprets nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlalchemy import func, select

from gsched.base.errors import Internal
from gsched.model.event import AnyEvent, ConfigApplied, decode_event
from gsched.store.checkpoint_parts import whole_checkpoint
from gsched.store.history_queries import History
from gsched.store.packing.packed_blobs import Dictionaries, unpack
from gsched.store.safeguards.quarantine import Quarantine, Quarantined, read_events
from gsched.store.safeguards.read_failure import unavailable
from gsched.store.tables.floor import Floor, read_floor
from gsched.store.tables.records import select_events, stored, stream_events
from gsched.store.tables.schema import HostRecordRow, blob, checkpoint, event, host_record
from gsched.store.tables.sources import open_source

CONFIG_APPLIED = str(ConfigApplied.__struct_config__.tag)
HOST_ROWS_AT_ONCE = 500


class PastStore:
    """The store of `history`, for looks at the past. Raises Unavailable where it cannot be read."""

    def __init__(self, history: History) -> None:
        self._name = history.name
        self._engine = open_source(history.place).engine
        self._dictionaries = Dictionaries(self._engine)

    def configurations(self) -> list[ConfigApplied]:
        """When configurations were applied whose files are kept, oldest first."""
        query = select_events().where(event.c.job_id.is_(None), event.c.kind == CONFIG_APPLIED)
        with unavailable(self._name), self._engine.connect() as connection:
            rows = [stored(row) for row in connection.execute(query)]
        found = []
        for row in rows:
            with contextlib.suppress(ValueError):  # an unreadable record is as good as none
                fact = decode_event(row.payload)
                if isinstance(fact, ConfigApplied) and fact.files:
                    found.append(fact)
        return found

    def files_of(self, fact: ConfigApplied) -> bytes:
        """What the files said, as gsched.config.kept_files packs it. Raises Internal where that is gone."""
        with unavailable(self._name):
            with self._engine.connect() as connection:
                data: bytes | None = connection.scalar(select(blob.c.data).where(blob.c.id == fact.files))
            if data is not None:
                return unpack(data, self._dictionaries)
        raise Internal(f"the store {self._name} has lost the files of a configuration: there is no blob {fact.files}")

    def checkpoint_before(self, at: float) -> tuple[int, bytes] | None:
        """(number of the last event in it, state) of the newest whole checkpoint that was there at that time."""
        query = select(checkpoint.c.seq).where(checkpoint.c.at <= at).order_by(checkpoint.c.seq.desc())
        with unavailable(self._name), self._engine.connect() as connection:
            numbers = [int(row[0]) for row in connection.execute(query)]
            last = int(connection.scalar(select(func.max(event.c.seq))) or 0)
        for seq in numbers:
            with unavailable(self._name):
                payload = whole_checkpoint(self._engine, seq, last)
            if payload is not None:
                return seq, payload
        return None

    def events(self, after_seq: int, quarantine: Quarantine) -> Iterator[tuple[int, AnyEvent] | Quarantined]:
        """As EventLog.read."""
        with unavailable(self._name):
            records = stream_events(self._engine, after_seq)
            yield from read_events(records, after_seq, quarantine, lambda: self.floor().seq)

    def floor(self) -> Floor:
        """From which event on everything is there, and since when what is kept."""
        with unavailable(self._name), self._engine.connect() as connection:
            return read_floor(connection)

    def hosts_since(self) -> float | None:
        """From when on it is known what was seen of hosts, UTC seconds; None: nothing is."""
        with unavailable(self._name), self._engine.connect() as connection:
            at = connection.scalar(select(func.min(host_record.c.at)).where(host_record.c.whole == 1))
        return None if at is None else float(at)

    def host_rows(self, at: float) -> Iterator[bytes]:
        """Records of hosts from the last whole one by then on, in order, up to that time."""
        number = host_record.c.number
        begin = select(func.max(number)).where(host_record.c.whole == 1, host_record.c.at <= at)
        with unavailable(self._name), self._engine.connect() as connection:
            first = connection.scalar(begin)
        last = None if first is None else int(first) - 1
        while last is not None:
            query = select(number, host_record.c.data).where(number > last, host_record.c.at <= at)
            with unavailable(self._name), self._engine.connect() as connection:
                rows = connection.execute(query.order_by(number).limit(HOST_ROWS_AT_ONCE)).all()
            for row in rows:
                yield bytes(row[1])
            last = int(rows[-1][0]) if len(rows) == HOST_ROWS_AT_ONCE else None

    def host_rows_from(self, seq: int) -> Iterator[HostRecordRow]:
        """Records of hosts from the last whole one on by event `seq`; where there is none, all of them."""
        number = host_record.c.number
        begin = select(func.max(number)).where(host_record.c.whole == 1, host_record.c.seq <= seq)
        with unavailable(self._name), self._engine.connect() as connection:
            last: int | None = int(connection.scalar(begin) or 1) - 1
        columns = (number, host_record.c.at, host_record.c.seq, host_record.c.whole, host_record.c.data)
        while last is not None:
            query = select(*columns).where(number > last).order_by(number).limit(HOST_ROWS_AT_ONCE)
            with unavailable(self._name), self._engine.connect() as connection:
                rows = connection.execute(query).all()
            for row in rows:
                yield HostRecordRow(float(row[1]), int(row[2]), int(row[3]), bytes(row[4]))
            last = int(rows[-1][0]) if len(rows) == HOST_ROWS_AT_ONCE else None

    def time_of(self, seq: int) -> float | None:
        """When event `seq` was, UTC seconds; None where there is no such event."""
        with unavailable(self._name), self._engine.connect() as connection:
            at = connection.scalar(select(event.c.at).where(event.c.seq == seq))
        return None if at is None else float(at)

    def span(self) -> tuple[float, float] | None:
        """When the first and the last event were, UTC seconds; None where there is none."""
        with unavailable(self._name), self._engine.connect() as connection:
            ends = [
                connection.execute(select(event.c.at).order_by(order).limit(1)).scalar()
                for order in (event.c.seq, event.c.seq.desc())
            ]
        return None if ends[0] is None else (float(ends[0]), float(ends[1] or ends[0]))

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()
