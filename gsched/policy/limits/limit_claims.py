"""What a job takes of each limit, counter by counter: the same for those that run, are planned or ask to start.

A counter is what one limit counts together. It is only named here; what is in use is counted elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gsched.base.coded_text import AnyText, coded
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.limit import PER_PROCESSOR, SLOTS
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.guarantees.pool_state import PoolState
from gsched.policy.limits.limit_counts import CountedSection, Member
from gsched.policy.limits.limit_members import EVERYBODY, groups_above

OF_QUEUE: Final = "queue"
OF_USERS: Final = "users"
OF_QUEUE_USER: Final = "user of a queue"
OF_ARRAY: Final = "array"
OF_JOB_GROUP: Final = "job group"
OF_SECTION: Final = "section"
OF_POOL: Final = "pool"


# Pending reasons of LSF for limits of slots: it is full; it has not enough for a parallel job.
QUEUE_TEXTS = (coded("limit.queue_full"), coded("limit.queue_too_few"))
QUEUE_USER_TEXTS = (coded("limit.queue_user_full"), coded("limit.queue_user_too_few"))
USER_TEXTS = (coded("limit.user_full"), coded("limit.user_too_few"))
GROUP_TEXTS = (coded("limit.group_full"), coded("limit.group_too_few"))


class LimitCounter(NamedTuple):
    """Slots of a queue or of users, on one host or on all; started jobs of an array or a job group; or what a member
    of a section uses of one of its amounts.
    """

    kind: str
    name: str = ""
    """Of the queue, array or job group."""
    members: tuple[str, ...] = ()
    """The users."""
    host: str = ""
    section: CountedSection | None = None
    member: Member = ("", "", "", "", "")
    resource: str = ""
    pool: PoolState | None = None
    """Units of it that are guaranteed to none but `members`."""

    @property
    def on_host(self) -> str:
        """The only host that counts; empty when several do."""
        return self.host or self.member[2]

    @property
    def counts_slots(self) -> bool:
        return self.kind in (OF_QUEUE, OF_USERS, OF_QUEUE_USER) or self.resource in (SLOTS, PER_PROCESSOR)

    @property
    def said(self) -> str:
        """`slots of queue q on h1`, `ngpus (limit L)`, `jobs of job group /a`: for people."""
        if self.section is not None:
            return f"{self.resource} (limit {self.section.name})"
        if self.kind in (OF_ARRAY, OF_JOB_GROUP):
            return f"jobs of {self.kind} {self.name}"
        if self.pool is not None:
            return f"{self.pool.pool.noun} of pool {self.name} that are guaranteed to no other service class"
        whose = f"queue {self.name}" if self.name else ""
        users = f"{', '.join(self.members[:3])}{', ...' if len(self.members) > 3 else ''}"
        owner = " by ".join(each for each in (whose, users) if each)
        return f"slots of {owner}{f' on {self.host}' if self.host else ''}"

    def may_count(self, queue: str, user: str) -> bool:
        """Whether jobs of that queue and user can count at all."""
        if self.kind in (OF_QUEUE, OF_QUEUE_USER) and queue != self.name:
            return False
        return self.kind not in (OF_USERS, OF_QUEUE_USER) or user in self.members or EVERYBODY in self.members

    def amount_of(self, bucket: Bucket, parts: Sequence[HostAllocation]) -> float:
        """How much of it a job of the bucket has that holds those parts."""
        if self.section is not None:
            if not self.section.concerns(bucket):
                return 0.0
            return self.section.takes(bucket, parts).get(self.member, {}).get(self.resource, 0.0)
        if self.pool is not None:
            owner = self.pool.owner_of(bucket)
            return self.pool.taken(parts) if not owner or owner in self.members else 0.0
        if self.kind == OF_ARRAY:
            return float(str(bucket.array) == self.name)
        if self.kind == OF_JOB_GROUP:
            return float(bool(bucket.job_group) and self.name in groups_above(bucket.job_group))
        if not self.may_count(bucket.queue, bucket.user):
            return 0.0
        return float(sum(part.slots for part in parts if self.host in ("", part.host)))


class LimitClaim(NamedTuple):
    """So much of a counter that a job would take, beside what is used."""

    counter: LimitCounter
    take: float
    used: float
    """By started jobs now, and by those that the cycle has placed."""
    allowed: float
    text: AnyText
    """Which limit it is, for people."""
