"""gtop and gbot: another place in the order of a queue. Users move their own jobs among their own, administrators all.

Only jobs of the same priority (-sp) are passed. Source of the rules: btop(1).
"""

from __future__ import annotations

from typing import NamedTuple

from gsched.base.ids import array_of
from gsched.core.cluster import ClusterState
from gsched.core.job import Job
from gsched.core.waits import Item, item_id


class Place(NamedTuple):
    """Where a job stands among its equals: `ages_from` as of JobMoved; then by `order`."""

    ages_from: float
    order: float


class _Other(NamedTuple):
    place: Place
    user: str


def place_at(state: ClusterState, job: Job, position: int, *, to_top: bool, everybody: bool, whole: bool) -> Place:
    """The place `position` from the top or the bottom; one beyond the end is the end.

    `everybody`: positions count the jobs of all users. `whole`: the job stands for its array, which is no other.
    """
    others = _others(state, job, whole=whole)
    counted = [other.place for other in others if everybody or other.user == job.spec.user]
    if not counted:
        return _place_of(job)
    if to_top:
        return _after(counted[-1], others) if position > len(counted) else _before(counted[position - 1], others)
    return _before(counted[0], others) if position > len(counted) else _after(counted[-position], others)


def _others(state: ClusterState, job: Job, *, whole: bool) -> list[_Other]:
    """The other waiting jobs and arrays of the queue that have the job's priority, in order."""
    waits, queue = state.waits, job.spec.queue
    numbers = [entry for bucket, line in waits.room.lines() if bucket.queue == queue for entry in line.entries()]
    numbers += [*waits.delayed, *waits.blocked, *waits.forced]
    found = []
    for number in numbers:
        item = state.item(number)
        is_own = array_of(number) == array_of(job.job_id) if whole else number == job.job_id
        if not is_own and item.spec.queue == queue and item.spec.priority == job.spec.priority:
            found.append((_place_of(item), item_id(item), item.spec.user))
    return [_Other(place, user) for place, _, user in sorted(found)]


def _place_of(item: Item) -> Place:
    aged = item.submitted_at if item.ages_from is None else item.ages_from
    return Place(aged if item.spec.aging_per_s else 0.0, item.order)


def _before(place: Place, others: list[_Other]) -> Place:
    """Right before `place`: nobody else is passed."""
    lower = [other.place.order for other in others if other.place.ages_from == place.ages_from]
    below = max((order for order in lower if order < place.order), default=None)
    return Place(place.ages_from, place.order - 1.0 if below is None else (below + place.order) / 2)


def _after(place: Place, others: list[_Other]) -> Place:
    """Right after `place`."""
    higher = [other.place.order for other in others if other.place.ages_from == place.ages_from]
    above = min((order for order in higher if order > place.order), default=None)
    return Place(place.ages_from, place.order + 1.0 if above is None else (above + place.order) / 2)
