"""Which old jobs and events the master takes away from its store, and when: by the ages and the size of lsb.params.

A pass begins each hour, and is done in slices that grow and shrink with the time that they take: who comes meanwhile
waits for one of them. What belonged to those jobs alone goes after them. It must never take away what the store does
not give (gsched.store.retention says what that is), nor go on where lsb.params has since been changed to keep more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterator
from typing import NamedTuple

from gsched.base.moments import shown_utc
from gsched.master.upkeep.putting_off import put_off
from gsched.master.upkeep.slices import EVENTS_EACH, PAUSE_S, SliceSize
from gsched.model.config import Params
from gsched.store.eventlog import EventLog
from gsched.store.retention.removable_jobs import FIRST, LAST_NUMBER, JobPlace

log = logging.getLogger(__name__)
EVERY_S = 3600.0
"""Between two passes."""
LATER_S = 60.0
"""After one that the store did not take."""
MIB = 1 << 20
PARTS_AT_ONCE = 4
"""Of a checkpoint that is looked through: a MiB, some milliseconds."""
DAY_S = 86_400.0
STEPS = 10
"""What is kept is kept by at most such a part of its age for longer, in a cluster in which little happens."""


class Ages(NamedTuple):
    """From before which times, UTC seconds, what goes; None: nothing does."""

    jobs: float | None
    events: float | None
    checkpoint: float
    """There is to be one that is younger."""

    @staticmethod
    def of(params: Params, now: float) -> Ages:
        """What the parameters say. The events of a job go with its row at the latest."""
        jobs, events = params.job_history_days, params.event_history_days or params.job_history_days
        before_s = [days * DAY_S if days else None for days in (jobs, events)]
        ends = [None if each is None else now - each for each in before_s]
        return Ages(ends[0], ends[1], now - (min(DAY_S, events * DAY_S / STEPS) if events else DAY_S))

    def within(self, at: float | None) -> Ages:
        """Events from before that time go in any case."""
        return self if at is None or at <= (self.events or 0.0) else self._replace(events=at)


def _limits(params: Params) -> tuple[float, ...]:
    """What the parameters keep of jobs and events, as days, and of events as MB; infinity: all."""
    events = params.event_history_days or params.job_history_days
    return tuple(each or float("inf") for each in (params.job_history_days, events, params.event_history_mb))


class HistoryRetention:
    """Of one store; lives in the engine's thread. Times are UTC seconds.

    `held` gives the blobs that something else names than the events of the store; None: that cannot be said now.
    """

    def __init__(self, store: EventLog, held: Callable[[], Collection[str] | None] = frozenset) -> None:
        self._store = store
        self._held = held
        self._looks_at_dictionaries = False
        """Whether blobs have gone since the last look for dictionaries that none has."""
        self._too_much: tuple[float, float | None] | None = None
        """When it was last counted how much there is, and from before when it is too much; None: not yet."""
        self._due: float | None = None
        self._pass: Iterator[int] | None = None
        self._limits: tuple[float, ...] | None = None
        """Those that the pass began with, or the last one did."""
        self._size = SliceSize()
        self._looked_after: int | None = None
        """How often jobs had gone when submissions of many were looked at last; None: not since the start."""
        self.wants_checkpoint = False
        """The newest one is so old that the next floor would be much older than what is to go."""

    def due_at(self, now: float) -> float:
        """When the next slice of a pass is to be done; never outside of one."""
        return float("inf") if self._pass is None else max(now, self._due or now)

    def step(self, params: Params, now: float) -> None:
        """Do a slice, if it is time. Raises StoreBroken."""
        ages = Ages.of(params, now)
        if self._due is None or self._due > now + EVERY_S:  # the clock may have been set back
            self._due = now
        if now < self._due:
            return
        with put_off("old jobs are taken away", lambda: self._end_pass(now + LATER_S)):
            self._heed(_limits(params))
            is_limited = ages.events is not None or params.event_history_mb > 0
            if not is_limited and self._pass is None and not self._is_something_left():
                self._end_pass(now + EVERY_S)
                return
            self._slice(ages, params.event_history_mb * MIB, now)

    def _is_something_left(self) -> bool:
        """Of jobs that an archive has, or lsb.params kept for some time."""
        removal = self._store.removal
        return self._have_jobs_gone() or self._store.contents.are_due() or removal.may_be_left_over()

    def _have_jobs_gone(self) -> bool:
        """Since submissions of many were looked at last."""
        removal = self._store.removal
        return removal.removals_of_jobs != self._looked_after and removal.floor().jobs_from > 0.0

    def _heed(self, limits: tuple[float, ...]) -> None:
        """Give a pass up which would take away what is to be kept now: who has made a mistake can stop it."""
        if self._limits is not None and any(now > before for now, before in zip(limits, self._limits, strict=True)):
            if self._pass is not None:
                log.info("no more is taken away by what lsb.params said before")
            self._pass, self._too_much = None, None
        if self._pass is None:
            self._limits = limits

    def _end_pass(self, next_at: float) -> None:
        self._pass, self._due = None, next_at

    def _slice(self, ages: Ages, most_bytes: int, now: float) -> None:
        if self._pass is None:
            self._pass = self._slices(ages, most_bytes, now)
        with self._size.timed():
            is_over = next(self._pass, None) is None
        if is_over:
            self._end_pass(now + EVERY_S)
            return
        self._due = now + PAUSE_S

    def _slices(self, ages: Ages, most_bytes: int, now: float) -> Iterator[int]:
        """One pass; yields after each slice."""
        if most_bytes:
            ages = ages.within((yield from self._before_when_is_too_much(most_bytes, now)))
        if ages.events is not None:
            yield from self._old_jobs(ages)
        while self._store.removal.remove_left_over(EVENTS_EACH * self._size.now).are_more:
            yield 0
        if ages.events is None:  # else they go with others that are of no job
            yield from self._unneeded_submissions()
        yield from self._unused_contents()

    def _unneeded_submissions(self) -> Iterator[int]:
        """Looked at when jobs have gone since the last time."""
        after: int | None = 0 if self._have_jobs_gone() else None
        self._looked_after = self._store.removal.removals_of_jobs
        while after is not None:
            after = self._store.removal.remove_unneeded_submissions(after, self._size.now).last
            yield 0

    def _before_when_is_too_much(self, most_bytes: int, now: float) -> Generator[int, None, float | None]:
        """From the newest event on back, once a day: before when, UTC seconds, there is more than that; None: there is
        no more. What is not a day old yet stays.
        """
        if self._too_much is not None and 0 <= now - self._too_much[0] < DAY_S:
            return self._too_much[1]
        left, before, at = most_bytes, None, None
        while (found := self._store.removal.sum_back(before, EVENTS_EACH * self._size.now, left)) is not None:
            left, before = left - found.content_bytes, found.first
            if left < 0:
                at = min(found.at, now - DAY_S)
                log.info("what happened before %s is more than %d MB", shown_utc(at), most_bytes // MIB)
                break
            yield 0
        self._too_much = (now, at)
        return at

    def _old_jobs(self, ages: Ages) -> Iterator[int]:
        assert ages.events is not None
        yield from self._raise_floor(ages.events)
        self.wants_checkpoint = self._store.removal.is_checkpoint_older(ages.checkpoint)
        yield 0
        removed = 0
        for count in self._removing(ages):
            removed += count
            yield count
        if removed:
            log.info("%d finished jobs were taken away from the store", removed)

    def _raise_floor(self, before: float) -> Iterator[int]:
        """To the newest checkpoint from before that time that is whole."""
        seq = self._store.removal.next_floor(before)
        if seq is None:
            return
        found = True
        for number, is_whole in enumerate(self._store.removal.looked_through(seq), 1):
            found = is_whole
            if number % PARTS_AT_ONCE == 0:
                yield 0
        if found:  # a checkpoint that was written in between may have superseded this one: then it is tried later
            floor = self._store.removal.raise_floor(seq)
            log.info("all is kept from event %d of %s on", floor.seq, shown_utc(floor.at))

    def _removing(self, ages: Ages) -> Iterator[int]:
        assert ages.events is not None
        if ages.jobs is not None:
            yield from self._jobs(ages.jobs, keep_rows=False)
        if ages.jobs is None or ages.events > ages.jobs:
            yield from self._jobs(ages.events, keep_rows=True)
        while self._store.removal.remove_other_events(ages.events, self._size.now):
            yield 0

    def _unused_contents(self) -> Iterator[int]:
        removed, are_more = 0, True
        while are_more:
            held = self._held()
            if held is None:
                return
            blobs, are_more = self._store.contents.remove_unused(self._size.now, held)
            removed += blobs
            yield 0
        if removed:
            log.info("%d scripts, environments and others of removed jobs were taken away from the store", removed)
            self._looks_at_dictionaries = True
        while self._looks_at_dictionaries:
            self._looks_at_dictionaries = self._store.contents.remove_dictionaries(self._size.now)
            yield 0

    def _jobs(self, until: float, *, keep_rows: bool) -> Iterator[int]:
        """Yields how many went with each slice."""
        after, first_kept = self._store.removal.begin(events_only=keep_rows), None
        while True:
            found = self._store.removal.remove_finished_jobs(
                FIRST.finished_at,
                until,
                self._size.now,
                after=after,
                keep_rows=keep_rows,
                most_events=EVENTS_EACH * self._size.now,
            )
            first_kept = first_kept or found.first_kept
            if found.last is None:
                break
            after = found.last
            yield found.jobs
        begin = JobPlace(first_kept.finished_at, LAST_NUMBER) if first_kept is not None else after
        self._store.removal.note_begin(begin, events_only=keep_rows)
