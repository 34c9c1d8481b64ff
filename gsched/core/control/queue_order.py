"""gtop and gbot: another place in the order of a queue. Users move their own jobs among their own, administrators all.

Only jobs of the same priority (-sp) are passed. Source of the rules: btop(1).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import chain, islice
from typing import NamedTuple

from gsched.base.ids import array_of
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.pending_jobs import PendingLine
from gsched.core.state.wait_index import WaitingItem, item_id


class QueuePlace(NamedTuple):
    """Where a job stands among its equals: `ages_from` as of JobMoved; then by `order`."""

    ages_from: float
    order: float


_Found = tuple[QueuePlace, int, str]
"""A waiting job or array: its place, its number, whose it is. They compare in serving order."""


def place_at(
    state: ClusterState, job: JobRecord, position: int, *, to_top: bool, everybody: bool, whole: bool
) -> QueuePlace:
    """The place `position` from the top or the bottom; one beyond the end is the end.

    `everybody`: positions count the jobs of all users. `whole`: the job stands for its array, which is no other.
    """
    others = _Others(state, job, whole=whole)
    user = None if everybody else job.spec.user
    found = None
    if position > others.most(user):
        last = others.at_end(user, to_top=not to_top)
    elif position == 1:
        last = found = others.at_end(user, to_top=to_top)
    else:
        last = None
        for count, last in enumerate(others.from_end(user, to_top=to_top), 1):
            if count == position:
                found = last
                break
    if last is None:
        return _place_of(job)
    if found is not None:
        return others.before(found[0]) if to_top else others.after(found[0])
    return others.after(last[0]) if to_top else others.before(last[0])


def place_of(state: ClusterState, number: int) -> QueuePlace:
    """Where the waiting job or array of this number stands."""
    return _place_of(state.item(number))


class _Others:
    """The other waiting jobs and arrays of the queue that have the job's priority. Looks at no more than it must."""

    def __init__(self, state: ClusterState, job: JobRecord, *, whole: bool) -> None:
        self._state, self._job, self._whole = state, job, whole
        waits, queue = state.waits, job.spec.queue
        self._lines = [(bucket.user, line) for bucket, line in waits.pending.lines() if bucket.queue == queue]
        aside = (self._found(number) for number in chain(waits.delayed, waits.blocked, waits.forced))
        self._aside = sorted(each for each in aside if each is not None)
        """Those that wait for something else than a place."""

    def most(self, user: str | None) -> int:
        """How many there are of the user (None: of all) at the most."""
        lined = sum(line.entered for owner, line in self._lines if user in (None, owner))
        return lined + sum(user in (None, each[2]) for each in self._aside)

    def at_end(self, user: str | None, *, to_top: bool) -> _Found | None:
        """The first that `from_end` gives: a merge of thousands of lines, most of them short, would cost more."""
        aside = iter(self._aside) if to_top else reversed(self._aside)
        ends = list(islice((each for each in aside if user in (None, each[2])), 1))
        for owner, line in self._lines:
            if user in (None, owner):
                ends.extend(islice(self._along(line, to_top=to_top), 1))
        return (min if to_top else max)(ends, default=None)

    def from_end(self, user: str | None, *, to_top: bool) -> Iterator[_Found]:
        """Those of the user, or all, from the top or from the bottom."""
        runs = [self._along(line, to_top=to_top) for owner, line in self._lines if user in (None, owner)]
        aside = [each for each in self._aside if user in (None, each[2])]
        return merge(*runs, aside if to_top else reversed(aside), reverse=not to_top)

    def _along(self, line: PendingLine, *, to_top: bool) -> Iterator[_Found]:
        for number in line.entries() if to_top else line.entries_back():
            found = self._found(number)
            if found is not None:
                yield found

    def before(self, place: QueuePlace) -> QueuePlace:
        """Right before that place: nobody else is passed."""
        below = max((order for order in self._orders(place, -1) if order < place.order), default=None)
        return QueuePlace(place.ages_from, place.order - 1.0 if below is None else (below + place.order) / 2)

    def after(self, place: QueuePlace) -> QueuePlace:
        """Right after it."""
        above = min((order for order in self._orders(place, 1) if order > place.order), default=None)
        return QueuePlace(place.ages_from, place.order + 1.0 if above is None else (above + place.order) / 2)

    def _orders(self, place: QueuePlace, step: int) -> Iterator[float]:
        """Orders of those that have the same age, among them the next one in that direction."""
        yield from (found[0].order for found in self._aside if found[0].ages_from == place.ages_from)
        spec = self._job.spec
        priority = spec.aging_per_s * place.ages_from - float(spec.priority or 0)
        for _, line in self._lines:
            for number in line.next_to(priority, place.order, step):
                found = self._found(number)
                if found is not None:
                    if found[0].ages_from == place.ages_from:
                        yield found[0].order
                    break

    def _found(self, number: int) -> _Found | None:
        """None for the job itself, and for those of another queue or priority."""
        job = self._job
        is_own = array_of(number) == array_of(job.job_id) if self._whole else number == job.job_id
        item = self._state.item(number)
        if is_own or item.spec.queue != job.spec.queue or item.spec.priority != job.spec.priority:
            return None
        return _place_of(item), item_id(item), item.spec.user


def _place_of(item: WaitingItem) -> QueuePlace:
    aged = item.submitted_at if item.ages_from is None else item.ages_from
    return QueuePlace(aged if item.spec.aging_per_s else 0.0, item.order)
