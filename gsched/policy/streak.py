"""Equal jobs that are served one after the other and go to one host: each takes its part without a new look at all.

Where the fewest devices left idle (or the load alone) decide, a host that has just got a job is still the best for the
next of its class, for as long as that fits there. So the host's books are the only thing to be asked, and its columns
are read again once, when the streak ends. Where anything else has a say there is no streak: order[], shared devices,
limits, plans for others, select[] on what is held.
"""

from __future__ import annotations

from gsched.model.allocation import HostAllocation
from gsched.model.host import Gpu
from gsched.model.host_ledger import AttemptKey, HostLedger
from gsched.model.snapshot import Bucket, HostSnapshot, RequirementClass
from gsched.policy import gpus
from gsched.policy.demand import HostNeed


class Streak:
    """What one host has for further jobs of a class. Nobody else may take from its books meanwhile."""

    __slots__ = ("_amounts", "_books", "_claim", "_count", "_free", "_need", "queue", "requirement", "row")

    def __init__(
        self, queue: str, requirement: RequirementClass, row: int, host: HostSnapshot, books: HostLedger, need: HostNeed
    ) -> None:
        self.queue = queue
        self.requirement = requirement
        self.row = row
        self._books = books
        self._need = need
        self._claim, self._count = "", 0
        self._free: list[Gpu] = []
        for kind, count in need.devices:
            self._claim, self._count = kind.claim, count
            self._free = books.claimable(kind.claim)
        self._amounts = [(name, amount, host.values[name]) for name, amount in need.amounts.items()]

    @classmethod
    def begin(
        cls, queue: str, requirement: RequirementClass, row: int, host: HostSnapshot, books: HostLedger, need: HostNeed
    ) -> Streak | None:
        """A streak on a host that has just got a job of the class; None where it would not be what each would get."""
        is_simple = need == HostNeed(need.slots, need.amounts, need.devices, auto_gpu=False, exclusive=False)
        if not is_simple or len(need.devices) > 1 or "slots" in need.amounts:
            return None
        if need.devices and (books.islands or not gpus.is_plain(need.devices[0].kind)):
            return None
        found = cls(queue, requirement, row, host, books, need)
        return found if found._has_room() else None

    def goes_on(self, bucket: Bucket) -> bool:
        """Whether the bucket's jobs are of the class."""
        return bucket.requirement is self.requirement and bucket.queue == self.queue

    def take(self, key: AttemptKey) -> HostAllocation | None:
        """The next job's part, which stands in the books then; None when it does not fit."""
        if not self._has_room():
            return None
        need, claim, count = self._need, self._claim, self._count
        held = gpus.held_whole(self._free[:count], claim)
        del self._free[:count]
        part = HostAllocation(host=self._books.host, slots=need.slots, gpus=held, amounts=dict(need.amounts))
        self._books.take(key, part)
        return part

    def _has_room(self) -> bool:
        books = self._books
        free = books.free_slots
        if (free is not None and free < self._need.slots) or len(self._free) < self._count:
            return False
        reserved = books.reserved
        for name, amount, value in self._amounts:
            if not isinstance(value, float | int) or not value - reserved.get(name, 0.0) >= amount:
                return False
        return True
