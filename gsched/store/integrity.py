"""What a look through all of a store finds damaged or missing: blobs, checkpoints, rows of jobs, the newest events.

It reads committed records, also while a master writes, and changes nothing. It interprets no event: which blobs must be
there it is told.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping

from sqlalchemy import Connection, exists, select

from gsched.model.event import JobDispatched, JobFinished, JobSubmitted
from gsched.store.checkpoint_parts import fault_of, part_id
from gsched.store.history_queries import History
from gsched.store.mark import StoreMark
from gsched.store.packing.packed_blobs import Dictionaries, unpack
from gsched.store.safeguards.continuity import loss_of
from gsched.store.safeguards.first_look import last_seq
from gsched.store.safeguards.read_failure import unavailable
from gsched.store.tables.migrations import read_meta
from gsched.store.tables.schema import blob, checkpoint, event, job
from gsched.store.tables.sources import open_source

MOST_OF_FILE = 1_000
"""Places of a damaged file of SQLite that are told."""
BLOBS_AT_ONCE = 50
ROWS_AT_ONCE = 5_000
_HAVE_ROWS = tuple(str(kind.__struct_config__.tag) for kind in (JobSubmitted, JobDispatched, JobFinished))
"""Events that only a job can have of which there is a row: it was written with them."""


class Integrity:
    """Of the store of `history`. Raises Unavailable where it cannot be read."""

    def __init__(self, history: History) -> None:
        self._name = history.name
        self._engine = open_source(history.place).engine
        self._is_file = self._engine.dialect.name == "sqlite"

    def file_damage(self) -> Iterator[str]:
        """What SQLite finds wrong with its file; PostgreSQL looks after its own."""
        if not self._is_file:
            return
        with self._reading() as connection:
            said = connection.exec_driver_sql(f"PRAGMA quick_check({MOST_OF_FILE})").all()
        yield from (str(row[0]) for row in said if row[0] != "ok")

    def damaged_blobs(self) -> Iterator[str]:
        """All are read."""
        options = {"stream_results": True, "yield_per": BLOBS_AT_ONCE}
        words_of = Dictionaries(self._engine)
        with self._reading(at_one_moment=True) as connection:
            for row in connection.execute(select(blob.c.id, blob.c.data), execution_options=options):
                name, content = str(row[0]), unpack(bytes(row[1]), words_of)
                if name not in (hashlib.sha256(content).hexdigest(), part_id(content)):
                    yield f"blob {name} is not what was stored"

    def missing_blobs(self, names: Iterable[str]) -> set[str]:
        """Those of a few that are not there."""
        wanted = set(names)
        if not wanted:
            return wanted
        with self._reading() as connection:
            return wanted - set(connection.scalars(select(blob.c.id).where(blob.c.id.in_(wanted))))

    def damaged_checkpoints(self) -> Iterator[str]:
        """What is wrong with each that a master would pass over."""
        with self._reading() as connection:
            numbers = [int(row[0]) for row in connection.execute(select(checkpoint.c.seq).order_by(checkpoint.c.seq))]
            last = last_seq(connection)
        for seq in numbers:
            with unavailable(self._name):
                fault = fault_of(self._engine, seq, last)
            if fault and self._has_checkpoint(seq):  # a master takes old ones away, their parts after them
                yield f"the checkpoint of event {seq} is damaged: {fault}"

    def _has_checkpoint(self, seq: int) -> bool:
        with self._reading() as connection:
            return bool(connection.scalar(select(exists().where(checkpoint.c.seq == seq))))

    def jobs_without_row(self) -> Iterator[int]:
        """Numbers of jobs that events tell of and that queries of the past do not find."""
        after = -1
        query = select(event.c.job_id).where(
            event.c.kind.in_(_HAVE_ROWS), ~exists().where(job.c.job_id == event.c.job_id)
        )
        while True:
            page = query.where(event.c.job_id > after).distinct().order_by(event.c.job_id).limit(ROWS_AT_ONCE)
            with self._reading() as connection:
                found = [int(row[0]) for row in connection.execute(page)]
            yield from found
            if len(found) < ROWS_AT_ONCE:
                return
            after = found[-1]

    def loss(self, witnesses: Mapping[str, StoreMark]) -> str:
        """What the witnesses know of and the store has not; empty: nothing. Ask them before."""
        with self._reading() as connection:
            values = read_meta(connection)
            generation = int(values.get("generation", "1"))
            found = StoreMark(cluster_id=values["cluster_id"], generation=generation, seq=last_seq(connection))
        lost = loss_of(found, witnesses)
        return lost.text(self._name, log_missing=False) if lost is not None else ""

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _reading(self, *, at_one_moment: bool = False) -> Iterator[Connection]:
        # SQLite's readers see one moment in any case, and PostgreSQL streams only within a transaction.
        wants = at_one_moment and not self._is_file
        engine = self._engine.execution_options(isolation_level="REPEATABLE READ") if wants else self._engine
        with unavailable(self._name), engine.connect() as connection:
            yield connection
