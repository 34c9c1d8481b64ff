"""The ledger: who holds what on which host. "Does it fit?" is asked of gsched.policy.match.

The policy works on a fork, the engine on the original. The ledger never decides who gets what.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter as Counts
from collections.abc import Collection, Iterable, Iterator

from gsched.model.hosts.host import GpuReport
from gsched.model.ledgers.allocation import SHARING, Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey, HostLedger


class Ledger:
    """The ledgers of all hosts."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostLedger] = {}
        self.changed: set[str] = set()
        """Hosts whose ledgers have changed since whoever keeps values derived from them last emptied it."""
        self.origin: Ledger | None = None
        """Of a fork: the ledger that it was made from."""
        self.own_hosts: dict[str, None] = {}
        """Of a fork: the hosts whose ledgers are its own already, in the order in which they became so."""
        self.put_off: dict[str, list[tuple[AttemptKey, HostAllocation]]] = {}
        """Of a fork: host -> what is entered there as soon as anybody looks at its ledger."""
        self.suspended: dict[AttemptKey, Allocation] = {}
        """Preempted attempts -> what they hold but for the slots."""
        self.at = -math.inf
        """The time, UTC seconds, at which all ledgers show what is held."""
        self._next: dict[str, float] = {}
        """Host -> when it gives something back next."""
        self._due: list[tuple[float, str]] = []
        """Heap of these; entries that `_next` does not have any more are skipped."""

    def host(self, name: str) -> HostLedger:
        """The ledger of `name`, opened when they are first needed."""
        if name in self.put_off:
            return self._enter(name)
        ledger = self.hosts.get(name)
        if ledger is None:
            ledger = self.hosts[name] = HostLedger(name, self.changed)
        return ledger

    def used_hosts(self) -> dict[str, None]:
        """Of a fork: the hosts whose ledgers may differ from those it was made from."""
        return self.own_hosts | dict.fromkeys(self.put_off)

    def fork(self) -> Ledger:
        """A ledger for trying things: hosts are copied only when something is taken there."""
        twin = Ledger()
        twin.hosts = dict(self.hosts)
        twin.origin = self
        twin.suspended = dict(self.suspended)
        twin.at, twin._next = self.at, dict(self._next)
        return twin

    def advance(self, now: float) -> set[tuple[str, AttemptKey]]:
        """Give back what is due by `now`, UTC seconds: (host, attempt) of all that hold something else than before.

        Not for a fork, whose time stands still.
        """
        back = now < self.at
        self.at = now
        hosts = (
            {name for name, host_ledger in self.hosts.items() if host_ledger.is_falling} if back else self._due_by(now)
        )
        changed: set[tuple[str, AttemptKey]] = set()
        for name in hosts:
            host_ledger = self.hosts[name]
            changed.update((name, key) for key in host_ledger.advance(now))
            self._next.pop(name, None)
            self._expect(name)
        return changed

    def next_change(self) -> float | None:
        """When something is given back next, UTC seconds; None if nothing is before its attempt ends."""
        while self._due and self._next.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def giving_back(self) -> Collection[str]:
        """Hosts where something is given back before its attempt ends."""
        return self._next.keys()

    def _due_by(self, now: float) -> set[str]:
        found = set()
        while (at := self.next_change()) is not None and at <= now:
            _, name = heapq.heappop(self._due)
            del self._next[name]
            found.add(name)
        return found

    def _expect(self, name: str) -> None:
        at = min(self.hosts[name].changes(), default=math.inf)
        if at < self._next.get(name, math.inf):
            self._next[name] = at
            heapq.heappush(self._due, (at, name))

    def holds(self, host: str, key: AttemptKey) -> bool:
        """Whether the attempt holds something on the host."""
        ledger = self.hosts.get(host)
        return ledger is not None and key in ledger.held

    def reserved_on(self, hosts: Iterable[str], resource: str) -> float:
        """How much of a resource is reserved on these hosts together."""
        known = self.hosts
        return math.fsum(known[host].reserved.get(resource, 0.0) for host in hosts if host in known)

    def take(self, key: AttemptKey, allocation: Allocation, since: float = math.inf) -> None:
        """Enter all parts of an allocation; `since`: as HostLedger.take."""
        for part in allocation.parts:
            host_ledger = self._own(part.host)
            if part.courses:
                host_ledger.advance(self.at)  # nothing is due there
            host_ledger.take(key, part, since)
            if part.courses:
                self._expect(part.host)

    def observe_gpus(self, host: str, report: GpuReport | None) -> None:
        """Take over other devices of a host. Of a fork: to see what would be if they were these."""
        self._own(host).observe_gpus(report)

    def take_later(self, key: AttemptKey, part: HostAllocation) -> None:
        """Enter one part, without courses, as soon as its host is looked at. Of a fork alone: most of what
        a cycle takes nobody looks at before the fork is thrown away.
        """
        waiting = self.put_off.get(part.host)
        if waiting is None:
            self.put_off[part.host] = [(key, part)]
        else:
            waiting.append((key, part))

    def _enter(self, name: str) -> HostLedger:
        waiting = self.put_off.pop(name)
        host_ledger = self._own(name)
        for key, part in waiting:
            host_ledger.take(key, part)
        return host_ledger

    def give(self, key: AttemptKey, allocation: Allocation) -> None:
        """Take all parts of an allocation off the ledger."""
        self.suspended.pop(key, None)
        for part in allocation.parts:
            self._own(part.host).give(key)

    def suspend(self, key: AttemptKey, allocation: Allocation) -> None:
        """Free the slots of a preempted attempt on all its hosts; GPUs and amounts stay held."""
        for part in allocation.parts:
            self._own(part.host).suspend(key)
        self.suspended[key] = allocation

    def move_off(self, key: AttemptKey, allocation: Allocation) -> None:
        """Free the GPUs of a suspended attempt that is moved off them."""
        for part in allocation.hosts:
            self._own(part.host).move_off(key)

    def move_back(self, key: AttemptKey, allocation: Allocation) -> None:
        """Give it its GPUs again."""
        for part in allocation.hosts:
            self._own(part.host).move_back(key, part.gpus)

    def resume(self, key: AttemptKey, allocation: Allocation) -> None:
        """Give a preempted attempt its slots again, on all its hosts."""
        for part in allocation.parts:
            self._own(part.host).resume(key)
        self.suspended.pop(key, None)

    def _own(self, name: str) -> HostLedger:
        if name in self.put_off:
            return self._enter(name)
        if self.origin is not None and name not in self.own_hosts:
            self.own_hosts[name] = None
            if name in self.hosts:
                found = self.hosts[name] = self.hosts[name].copy(self.changed)
                return found
        return self.host(name)


def double_owners(ledgers: Iterable[HostLedger]) -> list[str]:
    """One line for each GPU, CPU or host that has an exclusive owner beside another holder; empty when all is well."""
    found = []
    for ledger in ledgers:
        for uuid, holders in ledger.holders.items():
            if len(holders) > 1 and any(claim not in SHARING for claim in holders.values()):
                found.append(f"GPU {uuid} of {ledger.host} is held by {sorted(holders)}")
        split = {held.parent for part in ledger.held.values() for held in part.gpus if held.parent}
        found += [
            f"GPU {uuid} of {ledger.host} is held as a whole and in parts" for uuid in split & ledger.holders.keys()
        ]
        cpus = Counts(cpu for part in ledger.held.values() for cpu in part.cpus)
        found += [f"CPU {cpu} of {ledger.host} is held {times} times" for cpu, times in cpus.items() if times > 1]
        if len(ledger.held) > 1 and ledger.exclusive is not None:
            found.append(f"{ledger.host} is held alone by {ledger.exclusive}, and by others of {sorted(ledger.held)}")
    return found


def miscounts(ledger: HostLedger) -> Iterator[str]:
    """One line for each number that is not the sum of what is held."""
    slots = sum(part.slots for key, part in ledger.held.items() if key not in ledger.suspended)
    if not ledger.suspended <= ledger.held.keys():
        yield f"{ledger.host}: {sorted(ledger.suspended - ledger.held.keys())} are suspended and hold nothing"
    if slots != ledger.slots_used:
        yield f"{ledger.host}: {ledger.slots_used} slots are counted, {slots} are held"
    holders: dict[str, dict[AttemptKey, str]] = {}
    reserved: dict[str, float] = {}
    for key, part in ledger.held.items():
        for gpu in part.gpus:
            holders.setdefault(gpu.uuid, {})[key] = gpu.claim
        for name, amount in part.amounts.items():
            reserved[name] = reserved.get(name, 0.0) + amount
    if holders != ledger.holders:
        yield f"{ledger.host}: GPUs are booked as {ledger.holders}, held as {holders}"
    if any(abs(reserved.get(name, 0.0) - ledger.reserved.get(name, 0.0)) > 1e-6 for name in reserved | ledger.reserved):
        yield f"{ledger.host}: {ledger.reserved} is counted as reserved, {reserved} is held"
