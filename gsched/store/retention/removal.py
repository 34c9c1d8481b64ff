"""What an open store is asked to let go: a slice at a time, each in one transaction with the floor that it leaves.

Whoever is killed between two slices leaves a store that is whole. It never takes away what a replay from the oldest
checkpoint that is kept needs, nor anything of a job that the engine has not forgotten by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, func, select

from gsched.base.errors import Conflict
from gsched.base.ids import array_of
from gsched.model.event import ConfigApplied
from gsched.store.backends.backend import Backend
from gsched.store.backends.reading import answered, reading
from gsched.store.checkpoint_parts import looked_through
from gsched.store.retention.blob_uses import release_uses
from gsched.store.retention.half_removed import note_half_removed, note_removed
from gsched.store.retention.left_over_events import LeftOver, may_be_left_over, remove_left_over
from gsched.store.retention.removable_jobs import (
    FIRST,
    LAST_NUMBER,
    JobPlace,
    RemovableJobs,
    count_of,
    removable_jobs,
    removable_of,
)
from gsched.store.retention.unneeded_submissions import LookedAtSubmissions, remove_unneeded_submissions
from gsched.store.safeguards.first_look import last_seq
from gsched.store.tables.batched import first_within
from gsched.store.tables.floor import (
    Floor,
    lower_begins,
    read_begin,
    read_floor,
    write_begin,
    write_floor,
    write_numbers_given_out,
)
from gsched.store.tables.records import FORGOTTEN
from gsched.store.tables.schema import JobRow, checkpoint, event, job, start_estimate

MOST_EVENTS = 4_000
"""That go at a time, if nothing else is said."""
MOST_BYTES = 4 << 20
"""Of the rows of events of no job that go at a time: what a submission was made of may be some MB."""
_CONFIG_APPLIED = str(ConfigApplied.__struct_config__.tag)


class RemovedJobs(NamedTuple):
    """What one slice has taken away."""

    jobs: int
    events: int
    last: JobPlace | None
    """Where the next slice begins (`after`); None: there was nothing left to look at."""
    first_kept: JobPlace | None
    """The first job of the slice that stays for now."""


class SummedEvents(NamedTuple):
    """Some events that follow each other."""

    content_bytes: int
    first: int
    """Number of the oldest."""
    at: float
    """When that was, UTC seconds."""


class RemovedArchivedJobs(NamedTuple):
    """What one slice has done."""

    gone: int
    """So many of the jobs that were named the store has no more."""
    are_more: bool
    """Whether to call it again with the same."""


class HistoryRemoval:
    """Of one open store; for any thread. `today` gives the day since 1970. Raises StoreFull, StoreBroken, and what a
    backend says of reads that fail.
    """

    def __init__(self, backend: Backend, mutex: threading.Lock, today: Callable[[], int]) -> None:
        self._backend = backend
        self._mutex = mutex
        self._today = today
        self._newest_begin: float | None = None
        """Jobs that end later than that come behind every begin; None: it has not been read. Guarded by the mutex."""
        self._oldest_end = {False: float("inf"), True: float("inf")}
        """Of the jobs that were stored since `begin` was asked for, of events only or not."""
        self.removals_of_jobs = 0
        """So many slices have taken jobs out since the store was opened."""

    def floor(self) -> Floor:
        """From which event on everything is there, and since when what is kept."""
        with reading(self._backend) as connection:
            return read_floor(connection)

    def next_floor(self, before: float) -> int | None:
        """The number of the newest checkpoint from before that time (UTC seconds) that may become the floor if it is
        whole; None: none is above the floor that there is. The newest checkpoint of all never does, for it may be
        damaged.
        """
        with reading(self._backend) as connection:
            newest = select(func.max(checkpoint.c.seq)).scalar_subquery()
            query = select(func.max(checkpoint.c.seq)).where(checkpoint.c.at <= before, checkpoint.c.seq < newest)
            found = connection.scalar(query)
            return None if found is None or int(found) <= read_floor(connection).seq else int(found)

    def looked_through(self, seq: int) -> Iterator[bool]:
        """Whether the checkpoint of event `seq` is whole, as far as it has been looked at: a part at each step."""
        with answered(self._backend):
            with self._backend.readers.connect() as connection:
                last = last_seq(connection)
            yield from looked_through(self._backend.readers, seq, last)

    def is_checkpoint_older(self, at: float) -> bool:
        """Whether the newest checkpoint is from before that time, UTC seconds, and something has happened since."""
        with reading(self._backend) as connection:
            query = select(checkpoint.c.seq, checkpoint.c.at).order_by(checkpoint.c.seq.desc()).limit(1)
            row: Any = connection.execute(query).one_or_none()
            seq, made_at = (0, float("-inf")) if row is None else (int(row[0]), float(row[1]))
            return last_seq(connection) > seq and made_at < at

    def floors_above(self, seq: int) -> list[int]:
        """Numbers of the checkpoints above that event that may become the floor if they are whole, the oldest first.
        The newest of all never does, as above.
        """
        with reading(self._backend) as connection:
            newest = select(func.max(checkpoint.c.seq)).scalar_subquery()
            query = select(checkpoint.c.seq).where(checkpoint.c.seq > seq, checkpoint.c.seq < newest)
            found: list[Any] = list(connection.scalars(query.order_by(checkpoint.c.seq)))
        return [int(each) for each in found]

    def raise_floor(self, seq: int) -> Floor:
        """Let the checkpoint of event `seq` be the oldest that is kept, and drop those before it. Returns the floor.

        Raises Conflict where there is no such checkpoint (any more), or none above it.
        """
        raised = Floor()

        def write(connection: Connection) -> None:
            nonlocal raised
            at = connection.scalar(select(checkpoint.c.at).where(checkpoint.c.seq == seq))
            newest = connection.scalar(select(func.max(checkpoint.c.seq)))
            if at is None or int(newest or 0) <= seq:
                raise Conflict(f"event {seq} has no checkpoint that could be the oldest one")
            floor = read_floor(connection)
            raised = floor if floor.seq >= seq else floor._replace(seq=seq, at=float(at))
            connection.execute(delete(checkpoint).where(checkpoint.c.seq < raised.seq))
            write_floor(connection, raised)

        with self._mutex:
            self._backend.transact(write)
        return raised

    def remove_finished_jobs(
        self,
        since: float,
        until: float,
        most: int,
        *,
        after: JobPlace = FIRST,
        below: int | None = None,
        keep_rows: bool = False,
        most_events: int = MOST_EVENTS,
    ) -> RemovedJobs:
        """Take away jobs that ended from `since` on and before `until` (UTC seconds), with their events, rows and what
        was said of their starts: those of the next `most` behind `after` that the engine had forgotten at event `below`
        (at most, and without it, the floor). An element goes once all of its array ended before `until`.

        `keep_rows`: only the events go; gacct still counts the jobs. No more than `most_events` go at a time: of a job
        that has more, those between its first and its last ones go before it. Call it again with `after=last` until
        that is None. Scripts and environments go later (`unused_contents`).
        """
        start = after if after.finished_at >= since else JobPlace(since, LAST_NUMBER)
        found = RemovableJobs([], None, None)
        events = 0

        def write(connection: Connection) -> None:
            nonlocal found, events
            floor = read_floor(connection)
            bound = floor.seq if below is None else min(below, floor.seq)
            found = removable_jobs(
                connection, start, until, most, bound, with_events=keep_rows, most_events=most_events
            )
            events = _remove(connection, found.ids, self._today(), keep_rows=keep_rows)
            if found.too_large is not None:
                events = _remove_some_events(connection, found.too_large.job_id, most_events, self._today())
            if events or found.ids:
                write_floor(connection, _risen(floor, found, is_of_jobs=bool(found.ids) and not keep_rows))

        with self._mutex:
            self._backend.transact(write)
        self.removals_of_jobs += bool(found.ids) and not keep_rows
        return RemovedJobs(len(found.ids), events, found.last, found.first_kept)

    def sum_back(self, before: int | None, most: int, most_bytes: int) -> SummedEvents | None:
        """The size of the `most` events before that number (None: of the newest), as far as they are no more than
        `most_bytes` and the one that is too much; None: there are none.
        """
        with reading(self._backend) as connection:
            some = select(event.c.seq, event.c.at, func.length(event.c.payload))
            if before is not None:
                some = some.where(event.c.seq < before)
            rows: list[Any] = list(connection.execute(some.order_by(event.c.seq.desc()).limit(most)))
        found = None
        for seq, at, size in rows:
            found = SummedEvents(int(size) + (found.content_bytes if found is not None else 0), int(seq), float(at))
            if found.content_bytes > most_bytes:
                break
        return found

    def begin(self, *, events_only: bool) -> JobPlace:
        """Behind which job the next look through all of them begins (`after`): those before have gone, or, with
        `events_only`, their events have.
        """
        with self._mutex:
            self._oldest_end[events_only] = float("inf")
        return self._begin(events_only=events_only)

    def _begin(self, *, events_only: bool) -> JobPlace:
        with reading(self._backend) as connection:
            found = read_begin(connection, events_only=events_only)
        return FIRST if found is None else JobPlace(*found)

    def note_begin(self, begin: JobPlace, *, events_only: bool) -> None:
        """Keep it, also for the next start. An older job that comes later is looked at nevertheless, also one that came
        since `begin` was asked for.
        """
        with self._mutex:
            oldest = self._oldest_end[events_only]
            begin = begin if begin.finished_at < oldest else JobPlace(oldest, LAST_NUMBER)
            if begin in {FIRST, self._begin(events_only=events_only)}:
                return
            self._backend.transact(lambda connection: write_begin(connection, begin, events_only=events_only))
            if self._newest_begin is not None:
                self._newest_begin = max(self._newest_begin, begin.finished_at)

    def note_ends(self, connection: Connection, rows: Sequence[JobRow]) -> None:
        """Rows are stored in that transaction, by who has the mutex: of jobs that ended long ago, it may be, when their
        host was away, or of another batch system.
        """
        oldest = min((row.finished_at for row in rows if row.finished_at is not None), default=float("inf"))
        for events_only, end in self._oldest_end.items():
            self._oldest_end[events_only] = min(oldest, end)
        if self._newest_begin is None:
            found = (read_begin(connection, events_only=each) or FIRST for each in (False, True))
            self._newest_begin = max(begin[0] for begin in found)
        if oldest <= self._newest_begin:
            lower_begins(connection, (oldest, LAST_NUMBER))

    def remove_archived_jobs(
        self, archived: Mapping[int, int], until: float, last_event: int, most_events: int = MOST_EVENTS
    ) -> RemovedArchivedJobs:
        """Take away those of these jobs (number -> how many events an archive has, none above `last_event`) of which it
        has all that there is: they ended before `until` (UTC seconds), the engine had forgotten them below the floor,
        and nothing has happened to them, or to elements of theirs, since. They go as those of `remove_finished_jobs`.
        """
        left, are_more = 0, False

        def write(connection: Connection) -> None:
            nonlocal left, are_more
            floor = read_floor(connection)
            bound = min(floor.seq, last_event + 1)
            found, are_more = removable_of(connection, archived, until, bound, most_events=most_events)
            _remove(connection, found.ids, self._today(), keep_rows=False, keep_estimates=True)
            if found.too_large is not None:
                _remove_some_events(connection, found.too_large.job_id, most_events, self._today())
            if found.ids or found.too_large is not None:
                write_floor(connection, _risen(floor, found, is_of_jobs=bool(found.ids)))
            left = count_of(connection, archived)

        with self._mutex:
            self._backend.transact(write)
        self.removals_of_jobs += left < len(archived)
        return RemovedArchivedJobs(len(archived) - left, are_more)

    def may_be_left_over(self) -> bool:
        """Whether `remove_left_over` has something to look at."""
        with reading(self._backend) as connection:
            return may_be_left_over(connection, read_floor(connection))

    def remove_left_over(self, most: int) -> LeftOver:
        """Look at up to `most` events, and take away those that were recorded of jobs when these had gone."""
        done = LeftOver(0, are_more=False)

        def write(connection: Connection) -> None:
            nonlocal done
            done = remove_left_over(connection, read_floor(connection), most, self._today())

        with self._mutex:
            self._backend.transact(write)
        return done

    def remove_unneeded_submissions(self, after: int, most: int) -> LookedAtSubmissions:
        """Look at up to `most` submissions of many jobs behind event `after`; those go whose jobs have gone."""
        done = LookedAtSubmissions(0, None)

        def write(connection: Connection) -> None:
            nonlocal done
            done = remove_unneeded_submissions(connection, read_floor(connection), after, most)

        with self._mutex:
            self._backend.transact(write)
        return done

    def remove_other_events(self, before: float, most: int) -> int:
        """Take away up to so many events below the floor that are of no job, from before that time (UTC seconds), but
        for the configuration that was in force at the floor: no more than MOST_BYTES of them, and one at the least.
        Returns how many went.
        """
        removed = 0

        def write(connection: Connection) -> None:
            nonlocal removed
            floor = read_floor(connection)
            of_none = and_(event.c.job_id.is_(None), event.c.seq < floor.seq)
            configurations = select(event.c.seq).where(of_none, event.c.kind == _CONFIG_APPLIED)
            in_force = connection.scalar(configurations.order_by(event.c.seq.desc()).limit(1))
            old = and_(of_none, event.c.at < before, event.c.seq != (in_force or 0))
            sizes = select(event.c.seq, func.length(event.c.payload)).where(old).order_by(event.c.seq).limit(most)
            rows: list[Any] = list(connection.execute(sizes))
            some = first_within(((int(seq), int(size or 0)) for seq, size in rows), MOST_BYTES)
            gone = and_(old, event.c.seq <= (some[-1] if some else 0))
            release_uses(connection, gone, self._today())
            removed = connection.execute(delete(event).where(gone)).rowcount

        with self._mutex:
            self._backend.transact(write)
        return removed


def _risen(floor: Floor, found: RemovableJobs, *, is_of_jobs: bool) -> Floor:
    place = found.too_large or found.last
    last = place.finished_at if place is not None else 0.0
    floor = floor._replace(events_from=max(floor.events_from, last))
    return floor._replace(jobs_from=max(floor.jobs_from, last)) if is_of_jobs else floor


def _remove_some_events(connection: Connection, job_id: int, most: int, day: int) -> int:
    """Of a job that goes later: by its first event and those that say that it was forgotten it is known until then.
    Returns how many went.
    """
    first = select(func.min(event.c.seq)).where(event.c.job_id == job_id).scalar_subquery()
    between = and_(event.c.job_id == job_id, event.c.seq > first, event.c.kind.not_in(FORGOTTEN))
    some = select(event.c.seq).where(between).order_by(event.c.seq).limit(most).subquery()
    gone = and_(between, event.c.seq <= (connection.scalar(select(func.max(some.c.seq))) or 0))
    release_uses(connection, gone, day)
    note_half_removed(connection, job_id)
    return connection.execute(delete(event).where(gone)).rowcount


def _remove(connection: Connection, ids: list[int], day: int, *, keep_rows: bool, keep_estimates: bool = False) -> int:
    """Returns how many events went. `keep_estimates`: what was said of starts goes by its own age."""
    if not ids:
        return 0
    of_jobs = event.c.job_id.in_(ids)
    release_uses(connection, of_jobs, day)
    note_removed(connection, ids)
    events = connection.execute(delete(event).where(of_jobs)).rowcount
    if keep_rows:
        return events
    write_numbers_given_out(connection, 1 + max(map(array_of, ids)))
    connection.execute(delete(job).where(job.c.job_id.in_(ids)))
    # What was said of an array stands under its own number.
    if not keep_estimates:
        connection.execute(delete(start_estimate).where(start_estimate.c.job_id.in_(ids)))
    return events
