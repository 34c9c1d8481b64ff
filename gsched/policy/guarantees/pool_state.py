"""One guaranteed pool in one cycle: what its hosts have and have free, what each owner uses, what is owed to them.

The rule of a pool stands here, in `refusal`: a job may take units that are within the guarantee of its own service
class, and beyond that only what is left when all guarantees that are not used up are kept free; a loan may take some of
these too. Source: lsb.resources(5), GuaranteedResourcePool; the administrator's guide of LSF 10.1, "Guaranteed
resource pools".
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.guarantee import GuaranteePool
from gsched.model.queues.limit import SLOTS
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.guarantees.held_there import HeldThere
from gsched.policy.guarantees.pool_units import (
    free_units,
    is_member,
    lost_units,
    taken_units,
    total_units,
    whole_units,
)

_ROUNDING = 1e-6


class PoolRefusal(NamedTuple):
    """Why a pool keeps its units from a job."""

    pool: GuaranteePool
    wanted: float
    """Free units that the job would use up."""
    free: float
    owed: float
    """Units that must stay free."""
    owners: tuple[str, ...]
    """To whom they are owed."""
    may_borrow: bool = False
    """It may borrow, when the owners have had their turn."""
    is_owners_host: bool = False
    """The host is in use as one that is guaranteed as a whole to another class."""
    slots_per_host: bool = False

    @property
    def is_of_one_host(self) -> bool:
        """Whether another host of the pool may still have room for the job."""
        return self.is_owners_host or self.slots_per_host


class PoolState:
    """A pool in a cycle. Units are those of gsched.policy.guarantees.pool_units."""

    def __init__(self, pool: GuaranteePool, snapshot: Snapshot, held: Mapping[tuple[str, str], float]) -> None:
        """`held`: (owner or "", host) -> units of the started jobs; not asked for of pools that count GPUs."""
        self.pool = pool
        self._snapshot = snapshot
        ledger = snapshot.ledger.host
        closed = _reserved_hosts(snapshot)
        self.hosts = {
            name: host
            for name, host in snapshot.hosts.items()
            if not host.closed and name not in closed and is_member(pool, host)
        }
        """Those that count now."""
        self._totals = {name: total_units(pool, host, ledger(name)) for name, host in self.hosts.items()}
        self.total = sum(self._totals.values())
        self._free = {name: free_units(pool, host, ledger(name)) for name, host in self.hosts.items()}
        self.free = sum(self._free.values())
        self.guaranteed = {owner: portion.of(self.total) for owner, portion in pool.shares.items()}
        self._held = self._held_there() if pool.counts_gpus else {}
        """(owner or "", host) -> what his jobs hold there; of pools that count GPUs only."""
        if pool.counts_gpus:
            held = {key: whole_units(pool, each.in_units()) for key, each in self._held.items()}
        self._handed_out: dict[str, list[HostAllocation]] = {}
        """Host -> what jobs that grow get there, which no ledger of the cycle shows."""
        self._by_host: dict[str, dict[str, float]] = {}
        for (owner, host_name), units in held.items():
            if host_name in self.hosts:
                self._by_host.setdefault(host_name, {})[owner] = units
        self.used: dict[str, float] = {}
        """Owner, or "" for all others -> units in use."""
        for users in self._by_host.values():
            self._sum(users, 1)

    def _held_there(self) -> dict[tuple[str, str], HeldThere]:
        found: dict[tuple[str, str], HeldThere] = {}
        for running in self._snapshot.running.values():
            for part in running.allocation.hosts:
                if part.host in self.hosts and (part.gpus or not self.pool.is_linear):
                    key = (self.owner_of(running.bucket), part.host)
                    found.setdefault(key, HeldThere(self.pool.unit)).add(part)
        return found

    def _sum(self, users: Mapping[str, float], sign: int) -> None:
        """Add what is used on a host. A whole host is in use by an owner when all of its jobs are his."""
        if self.pool.is_of_hosts:
            users = {next(iter(users)) if len(users) == 1 else "": 1.0} if users else {}
        for owner, units in users.items():
            self.used[owner] = self.used.get(owner, 0.0) + sign * units

    def unmet(self, owner: str) -> float:
        """What of the owner's guarantee he does not use."""
        return max(0.0, self.guaranteed[owner] - self.used.get(owner, 0.0))

    @property
    def owed(self) -> float:
        """What of all guarantees is not in use."""
        return sum(map(self.unmet, self.guaranteed))

    @property
    def lent(self) -> float:
        """How many units that are owed others use now."""
        return max(0.0, self.owed - self.free)

    @property
    def is_overcommitted(self) -> bool:
        """Whether more is guaranteed than there is."""
        return sum(self.guaranteed.values()) > self.total + _ROUNDING

    def has_part(self, parts: Sequence[HostAllocation]) -> bool:
        """Whether any of the parts is on a host of the pool."""
        return any(part.host in self.hosts for part in parts)

    def owner_of(self, bucket: Bucket) -> str:
        """The service class whose guarantee jobs of the bucket use; empty when they have none here."""
        return bucket.service_class if bucket.service_class in self.guaranteed else ""

    def is_within(self, bucket: Bucket, parts: Sequence[HostAllocation]) -> bool:
        """Whether all that a job of the bucket would take of the pool is guaranteed to its class."""
        owner = self.owner_of(bucket)
        if not owner or not self.has_part(parts):
            return False
        return self.used.get(owner, 0.0) + self._taken(owner, parts) <= self.guaranteed[owner] + _ROUNDING

    def refusal(
        self, bucket: Bucket, parts: Sequence[HostAllocation], *, lends: bool, demanding: Container[str] = ()
    ) -> PoolRefusal | None:
        """Why a job of the bucket may not have those parts. `lends`: it is the time for loans; `demanding`: owners of
        whom jobs wait.
        """
        here = [part for part in parts if part.host in self.hosts]
        owner = self.owner_of(bucket)
        against = self._on_hosts(owner, here)
        if against is not None or not here or self.is_within(bucket, here):
            return against
        wanted = sum(self._lost(part) for part in here)
        if wanted <= _ROUNDING:
            return None
        owed = {other: self.unmet(other) for other in self.guaranteed if other != owner}
        if owner:
            owed[owner] = max(0.0, self.unmet(owner) - self._taken(owner, here))
        whole = sum(owed.values())
        left = self.free - wanted
        if left >= whole - _ROUNDING:
            return None
        may_borrow = self._lends_to(bucket) and left >= self._kept(owed, demanding) - _ROUNDING
        at_once = self.pool.loans.at_once if self.pool.loans is not None else ()
        if may_borrow and (lends or bucket.queue in at_once):
            return None
        owners = tuple(name for name, units in owed.items() if units > _ROUNDING)
        return PoolRefusal(self.pool, wanted, self.free, whole, owners, may_borrow)

    def _lends_to(self, bucket: Bucket) -> bool:
        """Whether jobs of the bucket may borrow at all."""
        loans = self.pool.loans
        return loans is not None and loans.lends_to(bucket.queue, bucket.requirement.run_s)

    def _kept(self, owed: Mapping[str, float], demanding: Container[str]) -> float:
        """How many units stay free of those that are owed, whoever asks for a loan."""
        loans = self.pool.loans
        assert loans is not None
        whole = sum(owed.values())
        if loans.close_on_demand and any(units > _ROUNDING and owner in demanding for owner, units in owed.items()):
            return whole
        kept = 0.0
        if loans.retain is not None:
            retain = loans.retain
            kept = sum(min(units, retain.of(self.guaranteed[owner])) for owner, units in owed.items())
        if loans.idle_buffer is not None:
            kept = max(kept, min(whole, loans.idle_buffer.of(sum(self.guaranteed.values()))))
        return kept

    def _on_hosts(self, owner: str, parts: Sequence[HostAllocation]) -> PoolRefusal | None:
        """What single hosts say: those that an owner has as a whole, and SLOTS_PER_HOST."""
        pool = self.pool
        for part in parts:
            users = self._by_host.get(part.host, {})
            if pool.is_of_hosts and len(users) == 1 and "" not in users and owner not in users:
                return PoolRefusal(pool, 1.0, self.free, 0.0, tuple(users), is_owners_host=True)
            if pool.slots_per_host is not None and owner and SLOTS in pool.unit:
                owners = sum(units for name, units in users.items() if name) * pool.unit[SLOTS]
                if owners + part.slots > pool.slots_per_host:
                    return PoolRefusal(pool, part.slots, owners, pool.slots_per_host, (owner,), slots_per_host=True)
        return None

    def _taken(self, owner: str, parts: Sequence[HostAllocation]) -> float:
        """What an owner's use grows by with those parts."""
        if not self.pool.is_of_hosts:
            return sum(self._taken_there(owner, part) for part in parts if part.host in self.hosts)
        return float(sum(not self._by_host.get(part.host) for part in parts if part.host in self.hosts))

    def _taken_there(self, owner: str, part: HostAllocation) -> float:
        """The same on one host. A GPU that he uses already counts no more."""
        if not self.pool.counts_gpus:
            return taken_units(self.pool, part)
        held = self._held.get((owner, part.host)) or HeldThere(self.pool.unit)
        return whole_units(self.pool, held.in_units(part)) - whole_units(self.pool, held.in_units())

    def _use_changes(self, owner: str, part: HostAllocation, sign: int) -> float:
        """By how much the use of an owner, or "" for all others, changes when a job takes the part or (-1) gives it."""
        if not self.pool.counts_gpus:
            return sign * taken_units(self.pool, part)
        held = self._held.setdefault((owner, part.host), HeldThere(self.pool.unit))
        before = whole_units(self.pool, held.in_units())
        held.add(part, sign)
        return whole_units(self.pool, held.in_units()) - before

    def taken(self, parts: Sequence[HostAllocation]) -> float:
        """Units that parts on hosts of the pool count as, whoever has them; of whole hosts one for each host."""
        return sum(taken_units(self.pool, part) for part in parts if part.host in self.hosts)

    def available(self, bucket: Bucket, parts: Sequence[HostAllocation]) -> float:
        """Free units that a job of the bucket may use up, if it takes those parts and does not borrow."""
        owner = self.owner_of(bucket)
        owed = sum(self.unmet(other) for other in self.guaranteed if other != owner)
        if owner:
            owed += max(0.0, self.unmet(owner) - self._taken(owner, parts))
        return self.free - owed

    def _lost(self, part: HostAllocation) -> float:
        host = self.hosts[part.host]
        beside = self._handed_out.get(part.host, ())
        return lost_units(self.pool, host, self._snapshot.ledger.host(part.host), part, beside)

    def hand_out(self, part: HostAllocation) -> None:
        """A job that grows gets this; it is counted separately."""
        if part.host in self.hosts:
            self._handed_out.setdefault(part.host, []).append(part)

    def count(self, bucket: Bucket, parts: Sequence[HostAllocation], sign: int = 1) -> None:
        """A job of the bucket has taken those parts from the cycle's ledger; or (-1) has them no more."""
        owner = self.owner_of(bucket)
        for part in parts:
            host = self.hosts.get(part.host)
            if host is None:
                continue
            users = self._by_host.setdefault(part.host, {})
            self._sum(users, -1)
            users[owner] = users.get(owner, 0.0) + self._use_changes(owner, part, sign)
            self._sum(users, 1)
            beside = self._handed_out.get(part.host, ())
            left = free_units(self.pool, host, self._snapshot.ledger.host(part.host), beside)
            self.free += left - self._free[part.host]
            self._free[part.host] = left

    def users_of(self, host: str) -> Mapping[str, float]:
        """Owner, or "" for all others -> units in use on the host; of whole hosts jobs."""
        return self._by_host.get(host, {})

    def is_used_whole(self, host: str) -> bool:
        """Whether the pool is of whole hosts and jobs use this one."""
        return self.pool.is_of_hosts and bool(self._by_host.get(host))

    def units_of(self, host: str) -> tuple[float, float]:
        """(units that the host has, units that are free)."""
        return self._totals[host], self._free[host]


def _reserved_hosts(snapshot: Snapshot) -> frozenset[str]:
    """Hosts of which an advance reservation keeps something now: they are in no pool meanwhile."""
    now = snapshot.ledger.at
    active = (each for each in snapshot.reservations if each.start <= now < each.end)
    return frozenset(host for each in active for host in (*each.slots, *each.gpus))
