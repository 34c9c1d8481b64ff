"""Whether the plan of the cycle before stands, or what a search finds for a job, within what a cycle may look at.

Jobs have to come in serving order. What is found is entered by plan_entry; who may be planned, reservation_table says.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

from gsched.base.coded_text import AnyText
from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.backfill.plan_entry import PlanEntry
from gsched.policy.backfill.reservation_table import ReservationTable
from gsched.policy.backfill.reserved_start import NOT_LOOKED_AT, Obstacle, ReservedStart, start_of
from gsched.policy.backfill.start_planner import OTHERS_FIRST, Planner
from gsched.policy.future.bookings import Booking
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.future_limits import LimitsAhead
from gsched.policy.match.host_conditions import closed_hosts
from gsched.policy.requirement.demand import Demand

MOST_SEARCHES = 32
"""Searches over the whole cluster in one cycle."""
SEARCH_AGAIN_S = 60.0
"""After so long it is looked again at the latest, whether a plan holds or there is none: better may have come up."""
MOST_TRIES_AGAIN = 32
MOST_SEARCHES_AGAIN = 16
"""Until another place was tried so often in one cycle, and so much was searched for, plans that hold are looked at
again in each cycle, in serving order, and so are jobs that found no place beside others; the first one of a queue
always is. The rest is left to those that were not looked at yet.
"""


class PlanMaking:
    """For one cycle."""

    def __init__(
        self,
        snapshot: Snapshot,
        future: Future,
        ahead: LimitsAhead,
        planner: Planner,
        table: ReservationTable,
        entry: PlanEntry,
    ) -> None:
        self._snapshot = snapshot
        self._now = future.now
        self._future = future
        self._ahead = ahead
        self._planner = planner
        self._table = table
        self._entry = entry
        self._tries_again = 0

    def plan(self, job_id: int, bucket: Bucket, demand: Demand, before: ReservedStart | None) -> ReservedStart:
        """The plan of the cycle before while it holds, else (or now and then) what a search finds."""
        kept = None if before is None else self._kept(job_id, bucket, demand, before)
        is_first = self._table.is_untouched(bucket.queue)
        if before is not None and self._now - before.searched_at < SEARCH_AGAIN_S:
            is_answered = self.is_answered(before)
            if is_answered and before.text != OTHERS_FIRST:
                return self._again_nothing(job_id, bucket, before)
            if not is_first and (kept is not None or is_answered):
                return self._look_again(job_id, bucket, demand, kept, before)
        return self._search(job_id, bucket, demand, kept, before)

    def _again_nothing(self, job_id: int, bucket: Bucket, before: ReservedStart) -> ReservedStart:
        """What was said of a job that nothing is reserved for is said again."""
        return self._entry.answer(job_id, bucket, before.text, before.searched_at, before.open_hosts, before.obstacles)

    def _look_again(
        self, job_id: int, bucket: Bucket, demand: Demand, kept: Booking | None, before: ReservedStart
    ) -> ReservedStart:
        """A plan that holds, or what is better; or a plan where there was none: jobs may have ended early, or who comes
        before starts elsewhere.
        """
        if self._tries_again >= MOST_TRIES_AGAIN or self._planner.searches >= MOST_SEARCHES_AGAIN:
            if kept is None:
                return self._again_nothing(job_id, bucket, before)
            return self._entry.keep(kept, before, before.text, before.searched_at)
        tries = self._planner.fit.tries
        found = self._search(job_id, bucket, demand, kept, before)
        self._tries_again += self._planner.fit.tries - tries
        return found

    def _kept(self, job_id: int, bucket: Bucket, demand: Demand, before: ReservedStart) -> Booking | None:
        """What was planned, as early as its hosts get free by now, if it still fits beside those who come before."""
        allocation = before.allocation
        if allocation is None or start_of(before) + SEARCH_AGAIN_S < self._now:
            return None  # its time is long past, and it has not started: look elsewhere
        if not self.is_open(allocation):
            return None
        start = max(start_of(before), self._future.soon)
        booking = replace(
            self._planner.fit.booking(job_id, bucket, allocation, start), later=self._entry.beside(before.later)
        )
        found = self._planner.slipped(booking)
        return None if found is None else self._planner.earlier(found, demand)

    def is_open(self, allocation: Allocation) -> bool:
        """Whether its hosts are there and take jobs."""
        hosts = self._snapshot.hosts
        return all(part.host in hosts and not hosts[part.host].closed for part in allocation.hosts)

    def is_answered(self, before: ReservedStart) -> bool:
        """Whether nothing was found by a search, and nothing has changed that it depended on."""
        return (
            before.allocation is None
            and before.open_hosts == self.open_hosts
            and all(self._is_unchanged(each) for each in before.obstacles)
        )

    def _is_unchanged(self, obstacle: Obstacle) -> bool:
        planned = self._future.bookings.get(obstacle[0])
        return planned is not None and _obstacle(planned) == obstacle

    def _search(
        self, job_id: int, bucket: Bucket, demand: Demand, kept: Booking | None, before: ReservedStart | None
    ) -> ReservedStart:
        """What a search finds that is better than `kept`, if it may still be made."""
        text: AnyText = ""
        searched_at, open_hosts, obstacles = -math.inf, -1, frozenset[Obstacle]()
        if before is not None and (before.allocation is None or kept is not None):
            text, searched_at = before.text, before.searched_at
            open_hosts, obstacles = before.open_hosts, before.obstacles
        if self._planner.searches < MOST_SEARCHES:
            found, text = self._planner.search(job_id, bucket, demand, kept)
            is_lasting = not self._ahead.concerns(bucket)  # what limits leave to it changes by the cycle
            searched_at, open_hosts = self._now, self.open_hosts if is_lasting else -1
            obstacles = frozenset(_obstacle(each) for each in self._future.bookings.values())
            if found is not None and math.isinf(found.start) and not _is_where(found, before):
                before = None  # what was reserved is lost: nobody who started here since was held against it
            kept = found or kept
        if kept is not None:
            return self._entry.keep(kept, before, text, searched_at)
        return self._entry.answer(job_id, bucket, text or NOT_LOOKED_AT, searched_at, open_hosts, obstacles)

    @cached_property
    def open_hosts(self) -> int:
        columns = self._snapshot.columns
        if columns is None:
            return sum(not host.closed for host in self._snapshot.hosts.values())
        return columns.size - int(closed_hosts(columns).sum())


def _obstacle(planned: Booking) -> Obstacle:
    return planned.job_id, tuple(part.host for part in planned.allocation.hosts), planned.start < math.inf


def _is_where(found: Booking, before: ReservedStart | None) -> bool:
    """Whether a job is planned on the very hosts where it was before."""
    return before is not None and {part.host for part in found.allocation.hosts} == set(before.hosts)
