"""Limits as they will stand at later times: jobs that end give back what they count for, planned ones take it.

It says whether a planned start keeps within all limits, when limits let a job in, and whether a job that starts now
would leave a planned one too little of a limit. It plans nothing and refuses nobody. Where no limit concerns a job it
is not asked. Times are UTC seconds, infinite when nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence

from gsched.base.coded_text import AnyText, coded
from gsched.model.jobs.reason import NEVER, UNKNOWN
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.window import WEEK_MIN
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.future.bookings import Booking
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.least_needs import Need
from gsched.policy.future.limit_holdings import ROUNDING, LimitHoldings
from gsched.policy.future.started_later import NOBODY, StartedLater, of_all
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.limits.limit_claims import LimitClaim, LimitCounter
from gsched.policy.requirement.reasons import Reason

_SOME = tuple(HeldGpu(uuid="", index=number, claim="ngpus") for number in range(64))
"""Devices of no host, to ask limits about their number."""
_MOST_EDGES = 8
"""Times at which windows open or close that are looked at."""
NOT_HERE = coded("limit.another_user")


class LimitsAhead:
    """The limits of one cycle at later times."""

    def __init__(self, future: Future, limits: LimitUse | None) -> None:
        self._future = future
        self._snapshot = future.snapshot
        self._limits = limits
        self._holdings = LimitHoldings(future)
        self._sharing: dict[tuple[Bucket, Bucket], bool] = {}

    def concerns(self, bucket: Bucket) -> bool:
        """Whether any limit has to do with the bucket's jobs."""
        return self._limits is not None and not self._limits.says_nothing(bucket)

    def placed(self, job_id: int, bucket: Bucket, allocation: Allocation, ends_at: float) -> None:
        """A job was placed in this cycle, and is counted in the cycle's limits."""
        if self.concerns(bucket):
            self._holdings.placed(job_id, bucket, allocation.hosts, ends_at)

    def placed_for_long(self, bucket: Bucket) -> Iterator[tuple[int, int]]:
        """(job, turn) of those that were placed in this cycle, that nobody knows the end of, and that limits count;
        none where no limit counts the bucket's jobs.
        """
        for job_id in self._holdings.placed_for_long():
            if self.concerns(bucket):
                yield job_id, self._future.turn_of(job_id)

    # -- who is planned -------------------------------------------------------------------------------------------

    def sharing(self, bucket: Bucket, bookings: Iterable[Booking]) -> list[Booking]:
        """Those of the planned jobs that may count for a limit for which jobs of the bucket count."""
        if self._limits is None or not self.concerns(bucket):
            return []
        return [each for each in bookings if self._share(bucket, each.bucket)]

    def _share(self, bucket: Bucket, other: Bucket) -> bool:
        """Whether there may be a limit for which jobs of both count."""
        pair = (bucket, other)
        if pair not in self._sharing:
            self._sharing[pair] = self._limits is not None and self._limits.may_share(*pair)
        return self._sharing[pair]

    def fits(self, booking: Booking) -> bool:
        """Whether the planned job keeps within its limits when it starts, and leaves the others what they will take."""
        if not self.concerns(booking.bucket):
            return True
        every = self.sharing(booking.bucket, self._future.bookings.values())
        others = [each for each in every if each.job_id != booking.job_id]
        parts, later_jobs = booking.allocation.hosts, self._later(booking, others)
        if any(True for _ in self._over(booking.bucket, parts, booking.start, others, later_jobs)):
            return False
        later = [each for each in others if booking.start < each.start and booking.is_active(each.start)]
        for start in {each.start for each in later}:
            begin = [each for each in later if each.start == start]
            for claim in self._over(booking.bucket, parts, start, others, later_jobs):
                if any(_amount(claim.counter, each) for each in begin):
                    return False
        return True

    @staticmethod
    def _later(booking: Booking, others: Sequence[Booking]) -> StartedLater:
        """Who of unknown end stands against the planned job: nobody but beside one of a known time that stays as long
        as they.
        """
        every = [booking, *others]
        if not any(each.start < math.inf and math.isinf(each.end) for each in every):
            return NOBODY
        return of_all(each.later for each in every if math.isinf(each.start))

    def delayed(
        self, candidate: Booking, respected: Sequence[Booking], later: StartedLater
    ) -> tuple[Booking, str] | None:
        """The planned job that would find too little left of a limit if the candidate started now, and of what.

        `later`: of them those of unknown end still hold theirs when a job starts of which nobody knows when.
        """
        parts, end = candidate.allocation.hosts, candidate.end
        shared = self.sharing(candidate.bucket, respected)
        for booking in shared:
            if booking.start >= end and end < math.inf:
                continue
            for claim in self._over(candidate.bucket, parts, booking.start, shared, later):
                wanted = _amount(claim.counter, booking)
                if wanted:
                    return booking, f"{wanted:g} {claim.counter.said} of the {claim.allowed:g} that are allowed"
        return None

    def _over(
        self,
        bucket: Bucket,
        parts: Sequence[HostAllocation],
        at: float,
        others: Sequence[Booking],
        later: StartedLater = NOBODY,
    ) -> Iterator[LimitClaim]:
        """What such a job would take beyond what is allowed at the time, beside those of the others that run then.
        `used` is what is used then.
        """
        assert self._limits is not None
        for claim in self._limits.claims(bucket, parts, self._minute(at)):
            active = [each for each in others if each.is_active(at)]
            planned = sum(_amount(claim.counter, each) for each in active)
            if claim.used + planned + claim.take <= claim.allowed + ROUNDING:
                continue
            used = self._holdings.used(claim, at) + planned
            if math.isinf(at) and later is not NOBODY:
                used += self._holdings.staying(claim.counter, later)
            if used + claim.take > claim.allowed + ROUNDING:
                yield claim._replace(used=used)

    def estimated(self, booking: Booking) -> Iterator[tuple[float, int, Bucket]]:
        """(expected end, job, its bucket) of those without a run limit that leave the planned job, before it starts,
        what limits do not let it have now.
        """
        if self._limits is None or not self.concerns(booking.bucket):
            return
        soon, start = self._future.soon, booking.start
        for claim in self._limits.claims(booking.bucket, booking.allocation.hosts, self._snapshot.minute_of_week):
            if claim.used + claim.take > claim.allowed + ROUNDING:
                yield from (each for each in self._holdings.estimated_in(claim.counter) if soon < each[0] <= start)
        for other in self.sharing(booking.bucket, self._future.bookings.values()):
            if other.bucket.requirement.run_s is None and other.end == start and other.job_id != booking.job_id:
                yield other.end, other.job_id, other.bucket

    # -- when limits let a job in ---------------------------------------------------------------------------------

    def then(self, bucket: Bucket, at: float, job_id: int) -> LimitsThen | None:
        """What limits leave to a job of the bucket at the time, the other planned jobs reckoned with; None when no
        limit concerns it.
        """
        if not self.concerns(bucket):
            return None
        every = self.sharing(bucket, self._future.bookings.values())
        return LimitsThen(self, bucket, at, [each for each in every if each.job_id != job_id])

    def opens(self, bucket: Bucket, needs: Sequence[Need], host: str = "") -> float:
        """When limits may let the job in, on the host or (without one) wherever it is, as far as the ends of what runs
        tell: minus infinity for now, infinite when nobody knows or never.
        """
        assert self._limits is not None
        if host and self._limits.bars(bucket, host):
            return math.inf
        return min(self._opens(bucket, need, host) for need in needs)

    def opens_on(self, bucket: Bucket, needs: Sequence[Need], hosts: Iterable[str]) -> Iterator[float]:
        """`opens` for each of the hosts: asked once of those that are alike to limits."""
        assert self._limits is not None
        known: dict[tuple[bool, ...], float] = {}
        for host in hosts:
            kind = self._limits.alike(bucket, host)
            if kind is None:
                yield self.opens(bucket, needs, host)
                continue
            if kind not in known:
                known[kind] = self.opens(bucket, needs, host)
            yield known[kind]

    def shared_lacks(self, bucket: Bucket, need: Need, host: str) -> dict[LimitCounter, float]:
        """What the job lacks on the host of resources that hosts share when those have ended that are ending; empty
        where it lacks nothing, or where another limit keeps it out.
        """
        soon, lacks = self._future.soon, {}
        closed = [claim for place in ("", host) for _, claim in self._closed(bucket, need, place)]
        for claim in closed:
            section = claim.counter.section
            if section is None or not section.shared or claim.take > claim.allowed:
                return {}
            more = self._holdings.used(claim, soon) + claim.take - claim.allowed
            if more > ROUNDING:
                lacks[claim.counter] = more
        return lacks

    def closed_by(self, bucket: Bucket, needs: Sequence[Need], host: str) -> AnyText:
        """Which limit lets the job in on the host nobody knows when, or never as limits are now: in words."""
        closed = [*self._closed(bucket, needs[0], ""), *self._closed(bucket, needs[0], host)]
        if not closed:
            return coded(NEVER, NOT_HERE)
        _, claim = max(closed, key=lambda each: each[0])
        return coded(NEVER if claim.take > claim.allowed else UNKNOWN, claim.text)

    def _opens(self, bucket: Bucket, need: Need, host: str) -> float:
        return max((at for at, _ in self._closed(bucket, need, host)), default=-math.inf)

    def _closed(self, bucket: Bucket, need: Need, host: str) -> Iterator[tuple[float, LimitClaim]]:
        """When each limit may let the job in that does not do so now, and what it would take of it."""
        assert self._limits is not None
        minute = self._snapshot.minute_of_week
        slots, amounts = (need.slots, need.amounts) if host else (need.total, need.total_amounts)
        least = HostAllocation(host=host, slots=slots, gpus=_SOME[: need.gpus], amounts=dict(amounts))
        change = self._limits.until_change_min(bucket, minute)
        for claim in self._limits.claims(bucket, (least,), minute):
            if claim.used + claim.take <= claim.allowed + ROUNDING:
                continue
            at = self._holdings.opens_at(claim)
            if claim.counter.section is not None and change is not None:
                at = min(at, self._edge(change))
            yield at, claim

    def times(self, bucket: Bucket) -> set[float]:
        """Times that let a job of the bucket in: at which planned jobs end or those that this cycle started beside them
        (a plan that waits for one of these moves with its end), or windows of limits open or close.
        """
        if self._limits is None or not self.concerns(bucket):
            return set()
        found = {each.end for each in self.sharing(bucket, self._future.bookings.values()) if each.end < math.inf}
        if found:
            for other, ends in self._holdings.ends_of_placed():
                if self._share(bucket, other):
                    found.update(end for end in ends if end < math.inf)
        minutes = 0
        for _ in range(_MOST_EDGES):
            change = self._limits.until_change_min(bucket, (self._snapshot.minute_of_week + minutes) % WEEK_MIN)
            if change is None:
                break
            minutes += change
            found.add(self._edge(minutes))
        return found

    def is_stopped(self, bucket: Bucket) -> bool:
        """Whether its jobs are kept back by something else than what others hold: nobody knows for how long."""
        return self._limits is not None and self._limits.is_stopped(bucket)

    # -- what a job would take ------------------------------------------------------------------------------------

    def over(
        self, bucket: Bucket, parts: Sequence[HostAllocation], at: float, others: Sequence[Booking]
    ) -> LimitClaim | None:
        """The first limit that such a job would break at the time."""
        return next(self._over(bucket, parts, at, others), None)

    def breaks_limits(self, bucket: Bucket, parts: Sequence[HostAllocation]) -> bool:
        """Whether a job of the bucket may not have these parts now for a limit's sake."""
        return self.concerns(bucket) and self.over(bucket, parts, self._future.now, ()) is not None

    def bars(self, bucket: Bucket, host: str) -> bool:
        return self._limits is not None and self._limits.bars(bucket, host)

    def alike(self, bucket: Bucket, host: str) -> tuple[bool, ...] | None:
        return None if self._limits is None else self._limits.alike(bucket, host)

    def slots_left(self, bucket: Bucket, at: float, others: Sequence[Booking]) -> float:
        """Slots that a job of the bucket may take at the time, wherever they are."""
        one = HostAllocation(host="", slots=1)
        assert self._limits is not None
        left = math.inf
        for claim in self._limits.claims(bucket, (one,), self._minute(at)):
            if claim.counter.counts_slots:
                planned = sum(_amount(claim.counter, each) for each in others if each.is_active(at))
                left = min(left, claim.allowed - self._holdings.used(claim, at) - planned)
        return max(0.0, left)

    def _minute(self, at: float) -> int:
        """The minute of the week at the time; that of now for a time that nobody knows."""
        minute, now = self._snapshot.minute_of_week, self._future.now
        if math.isinf(at):
            return minute
        return (minute + int((now % 60.0 + max(0.0, at - now)) // 60.0)) % WEEK_MIN

    def _edge(self, minutes: int) -> float:
        """The time at which so many minutes have begun since the one that it is."""
        now = self._future.now
        return now - now % 60.0 + 60.0 * minutes


class LimitsThen:
    """What limits leave to a job at one time: what a trial asks of the places that it finds."""

    def __init__(self, ahead: LimitsAhead, bucket: Bucket, at: float, others: Sequence[Booking]) -> None:
        self._ahead = ahead
        self._bucket = bucket
        self._at = at
        self._others = others
        self._known: dict[Hashable, Reason | None] = {}
        """What was said of parts on hosts that are alike to limits."""

    def part_reason(self, part: HostAllocation) -> Reason | None:
        """Why the job may not have the part."""
        if self._ahead.bars(self._bucket, part.host):
            return Reason(NOT_HERE, part.host)
        kind = None if part.gpus else self._ahead.alike(self._bucket, part.host)
        if kind is None:
            return self.reason((part,))
        asked = (kind, part.slots, tuple(part.amounts.items()), part.courses)
        if asked not in self._known:
            self._known[asked] = self.reason((part,))
        return self._known[asked]

    def reason(self, parts: Sequence[HostAllocation]) -> Reason | None:
        """Why the job may not have all the parts."""
        claim = self._ahead.over(self._bucket, parts, self._at, self._others)
        if claim is None:
            return None
        return Reason(claim.text, coded("limit.used_then", claim.take, claim.used, claim.allowed))

    def slots_left(self) -> float:
        """Slots that it may take in all."""
        return self._ahead.slots_left(self._bucket, self._at, self._others)


def _amount(counter: LimitCounter, booking: Booking) -> float:
    return counter.amount_of(booking.bucket, booking.allocation.hosts)
