"""What jobs hold of limits, and when they will have given it back: those that run, and those that a cycle has placed.

It knows no planned jobs and refuses nobody. Times are UTC seconds, infinite when nobody knows.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.scheduling.snapshot import Bucket, Running
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.started_later import StartedLater
from gsched.policy.limits.limit_claims import LimitClaim, LimitCounter

ROUNDING = 1e-6
"""Amounts that differ by no more are the same."""


class _Profile(NamedTuple):
    """How much of a counter those hold who run, by their ends: ascending, and added up."""

    ends: list[float]
    sums: list[float]

    def ended_by(self, at: float) -> float:
        """What they will have given back by the time."""
        return self.sums[bisect_right(self.ends, at)]


class _Placed(NamedTuple):
    """A job that was placed in this cycle."""

    job_id: int
    bucket: Bucket
    parts: Sequence[HostAllocation]
    end: float


class LimitHoldings:
    """What counts for limits in one cycle."""

    def __init__(self, future: Future) -> None:
        self._future = future
        self._snapshot = future.snapshot
        self._placed: list[_Placed] = []
        self._placed_ends: dict[Bucket, set[float]] = {}
        """When those of a bucket end: mostly one time however many were placed, where each plan would look at all."""
        self._owners: dict[tuple[str, str], list[Running]] | None = None
        self._profiles: dict[LimitCounter, _Profile] = {}
        self._known_changes = (0, 0)
        self._estimated: dict[LimitCounter, list[tuple[float, int, Bucket]]] = {}
        """What `estimated_in` says of those that run."""

    # -- what a cycle has placed ----------------------------------------------------------------------------------

    def placed(self, job_id: int, bucket: Bucket, parts: Sequence[HostAllocation], ends_at: float) -> None:
        """A job was placed in this cycle, and is counted in the cycle's limits."""
        self._placed.append(_Placed(job_id, bucket, parts, ends_at))
        self._placed_ends.setdefault(bucket, set()).add(ends_at)

    def placed_for_long(self) -> Iterator[int]:
        """Those of them that nobody knows the end of."""
        return (each.job_id for each in self._placed if math.isinf(each.end))

    def ends_of_placed(self) -> Iterator[tuple[Bucket, set[float]]]:
        """When those of each bucket end."""
        return iter(self._placed_ends.items())

    # -- what is held ---------------------------------------------------------------------------------------------

    def used(self, claim: LimitClaim, at: float) -> float:
        """What is used of it when all has ended that ends by the time."""
        if not claim.used or at < self._future.soon:
            return claim.used
        return max(0.0, claim.used - self.given_back(claim.counter, at))

    def given_back(self, counter: LimitCounter, at: float) -> float:
        """What those hold of it who end by the time."""
        given = sum(amount for end, amount in self._given_by_placed(counter) if end <= at)
        return self._profile(counter).ended_by(at) + given

    def opens_at(self, claim: LimitClaim) -> float:
        """When enough of the counter has been given back by those that run."""
        lacks = claim.used + claim.take - claim.allowed - ROUNDING
        ends = self._profile(claim.counter).ends
        if self._placed:
            ends = sorted([*ends, *(end for end, _ in self._given_by_placed(claim.counter))])
        place = bisect_left(ends, lacks, key=lambda end: self.given_back(claim.counter, end))
        return ends[place] if place < len(ends) else math.inf

    def staying(self, counter: LimitCounter, later: StartedLater) -> float:
        """What those of the later jobs hold whose end nobody knows."""
        started = (each for each in self._running_in(counter) if later.has(each.job_id, None))
        old = sum(
            counter.amount_of(each.bucket, each.allocation.hosts)
            for each in started
            if math.isinf(self._future.end_of_running(each))
        )
        placed = (each for each in self._placed if later.has(each.job_id, self._future.turn_of(each.job_id)))
        return old + sum(counter.amount_of(each.bucket, each.parts) for each in placed if math.isinf(each.end))

    def estimated_in(self, counter: LimitCounter) -> list[tuple[float, int, Bucket]]:
        """(expected end, job, its bucket) of those that count for it and have no run limit; who was placed in this
        cycle comes last.
        """
        found = self._estimated.get(counter)
        if found is None:
            found = self._estimated[counter] = [
                (self._future.end_of_running(each), each.job_id, each.bucket)
                for each in self._running_in(counter)
                if math.isinf(each.ends_at) and counter.amount_of(each.bucket, each.allocation.hosts)
            ]
        return [
            *found,
            *(
                (each.end, each.job_id, each.bucket)
                for each in self._placed
                if each.bucket.requirement.run_s is None and counter.amount_of(each.bucket, each.parts)
            ),
        ]

    def _given_by_placed(self, counter: LimitCounter) -> Iterator[tuple[float, float]]:
        for each in self._placed:
            yield from self._given(counter, each.bucket, each.parts, [self._future.now] * len(each.parts), each.end)

    def _profile(self, counter: LimitCounter) -> _Profile:
        changed = len(self._future.ending), len(self._future.stopped)
        if changed != self._known_changes:
            self._profiles.clear()
            self._estimated.clear()
            self._known_changes = changed
        found = self._profiles.get(counter)
        if found is None:
            held = sorted(step for each in self._running_in(counter) for step in self._given_by(counter, each))
            sums = [0.0, *accumulate(amount for _, amount in held)]
            found = self._profiles[counter] = _Profile([end for end, _ in held], sums)
        return found

    def _given_by(self, counter: LimitCounter, running: Running) -> Iterator[tuple[float, float]]:
        """(time, amount) of what a started job will give back."""
        parts, end = running.allocation.hosts, self._future.end_of_running(running)
        host_ledger = self._snapshot.ledger.host
        since = (
            [host_ledger(part.host).taken_at(running.key) for part in parts] if any(p.courses for p in parts) else []
        )
        yield from self._given(counter, running.bucket, parts, since, end)

    def _given(
        self,
        counter: LimitCounter,
        bucket: Bucket,
        parts: Sequence[HostAllocation],
        since: Sequence[float],
        end: float,
    ) -> Iterator[tuple[float, float]]:
        """(time, amount) of what a job gives back that ends then: of what it reserves for a time only, before its end.

        `since`: when it took each part.
        """
        held = counter.amount_of(bucket, parts)
        if held and any(part.courses for part in parts):
            changes = {at for part, taken in zip(parts, since, strict=True) for at in part.changes(taken)}
            for at in sorted(each for each in changes if self._future.now < each < end):
                then = [part.as_of(at, taken) for part, taken in zip(parts, since, strict=True)]
                left = counter.amount_of(bucket, then)
                if left < held:
                    yield at, held - left
                    held = left
        if held:
            yield end, held

    def _running_in(self, counter: LimitCounter) -> Iterator[Running]:
        """Started jobs that may count for it, and others."""
        running = self._snapshot.running
        if counter.on_host:
            for job_id, attempt in self._snapshot.ledger.host(counter.on_host).held:
                found = running.get(job_id)
                if found is not None and found.attempt == attempt:
                    yield found
            return
        if self._owners is None:
            self._owners = {}
            for each in running.values():
                self._owners.setdefault((each.bucket.queue, each.bucket.user), []).append(each)
        for (queue, user), jobs in self._owners.items():
            if counter.may_count(queue, user):
                yield from jobs
