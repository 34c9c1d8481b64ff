"""What an archive is made of: finished jobs that no engine has in memory any more, in the order of their ends.

It reads committed records alone, beside a master, and decides nothing: who asks says which events count.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, func, select, tuple_

from gsched.store.history_queries import History
from gsched.store.packing.packed_blobs import Dictionaries, unpack
from gsched.store.retention.half_removed import half_removed
from gsched.store.safeguards.read_failure import unavailable
from gsched.store.tables.batched import batched
from gsched.store.tables.migrations import read_meta
from gsched.store.tables.records import BEGUN, FORGOTTEN
from gsched.store.tables.schema import blob, event, job
from gsched.store.tables.selection import ARRAY_MASK
from gsched.store.tables.sources import open_source

IDS_AT_ONCE = 500


Ended = tuple[float, int]
"""When a job or a whole array was over, UTC seconds, and its number."""


class ForgottenJobs:
    """Of the store of `history`, whose connections are not used. Raises Unavailable where it cannot be read."""

    def __init__(self, history: History) -> None:
        self._name = history.name
        self._engine = open_source(history.place).engine
        self._is_file = self._engine.dialect.name == "sqlite"
        self._words_of = Dictionaries(self._engine)

    def cluster_id(self) -> str:
        """Made with the cluster's first store, the same for ever."""
        with self._reading() as connection:
            return read_meta(connection)["cluster_id"]

    def generation(self) -> int:
        """One more with each renewal, from which on numbers of events may mean others than before."""
        with self._reading() as connection:
            return int(read_meta(connection).get("generation", "1"))

    def first_end(self) -> float | None:
        """When the job that is over for longest ended; None: there is none."""
        query = select(func.min(job.c.finished_at)).where(job.c.finished_at.is_not(None))
        with self._reading() as connection:
            found = connection.scalar(query)
        return None if found is None else float(found)

    def ended(self, since: float, until: float, after: Ended | None, most: int) -> list[Ended]:
        """`most` jobs and arrays (no elements) that were over in that time, oldest first, from behind `after` on."""
        times = (job.c.finished_at, job.c.job_id)
        query = select(*times).where(job.c.finished_at >= since, job.c.finished_at < until)
        query = query.where(job.c.job_id <= ARRAY_MASK)
        if after is not None:
            query = query.where(job.c.finished_at >= after[0], tuple_(*times) > tuple_(*after))
        query = query.order_by(*times).limit(most)
        if self._is_file:
            query = query.execution_options(indexed_by=(job.name, "job_finished"))
        with self._reading() as connection:
            return [(float(row[0]), int(row[1])) for row in connection.execute(query)]

    def forgotten(self, numbers: Sequence[int], last_event: int) -> set[int]:
        """Those of these jobs and arrays that were forgotten by that event."""
        found: set[int] = set()
        query = select(event.c.job_id).where(event.c.kind.in_(FORGOTTEN), event.c.seq <= last_event)
        with self._reading() as connection:
            for some in batched(numbers, IDS_AT_ONCE):
                found.update(connection.scalars(query.where(event.c.job_id.in_(some))))
        return found

    def begun(self, numbers: Iterable[int]) -> set[int]:
        """Those of these jobs and arrays of which the first event is there."""
        found: set[int] = set()
        query = select(event.c.job_id).where(event.c.kind.in_(BEGUN))
        with self._reading() as connection:
            for some in batched(numbers, IDS_AT_ONCE):
                found.update(connection.scalars(query.where(event.c.job_id.in_(some))))
        return found

    def half_removed(self) -> set[int]:
        """Jobs of which some events have gone already, and others have not."""
        with self._reading() as connection:
            return half_removed(connection)

    def last_events(self, numbers: Iterable[int]) -> dict[int, int]:
        """Number of a job -> that of its newest event."""
        found: dict[int, int] = {}
        query = select(event.c.job_id, func.max(event.c.seq)).group_by(event.c.job_id)
        with self._reading() as connection:
            for some in batched(numbers, IDS_AT_ONCE):
                rows = connection.execute(query.where(event.c.job_id.in_(some)))
                found.update((int(row[0]), int(row[1])) for row in rows)
        return found

    def elements_of(self, arrays: Sequence[int]) -> dict[int, list[int]]:
        """Array -> those of its elements that have rows; without those that have none."""
        found: dict[int, list[int]] = {}
        array = job.c.job_id.op("&")(ARRAY_MASK)
        with self._reading() as connection:
            for some in batched(arrays, IDS_AT_ONCE):
                # They are found by the time of their submission, which is that of the array.
                begun = select(job.c.submitted_at).where(job.c.job_id.in_(some))
                query = select(array, job.c.job_id).where(job.c.submitted_at.in_(begun))
                for row in connection.execute(query.where(job.c.job_id > ARRAY_MASK, array.in_(some))):
                    found.setdefault(int(row[0]), []).append(int(row[1]))
        return found

    def contents(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Name and content of those that are there, and are what their names say."""
        for some in batched(sorted(set(names)), IDS_AT_ONCE):
            with self._reading() as connection:
                rows = connection.execute(select(blob.c.id, blob.c.data).where(blob.c.id.in_(some))).all()
            for row in rows:
                data = unpack(bytes(row[1]), self._words_of)
                if hashlib.sha256(data).hexdigest() == row[0]:
                    yield str(row[0]), data

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with unavailable(self._name), self._engine.connect() as connection:
            yield connection
