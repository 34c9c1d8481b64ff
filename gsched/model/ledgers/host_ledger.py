"""The ledger of one host: who holds which slots, GPUs, processors and amounts there.

It never decides who gets what, nor whether more would fit (gsched.policy.match.fit_condition does). The GPUs with their
holders are gsched.model.ledgers.host_devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from gsched.model.hosts.topology import Processor
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.devices import is_astray
from gsched.model.ledgers.host_devices import AttemptKey, HostDevices

__all__ = ["AttemptKey", "HostLedger"]


class HostLedger(HostDevices):
    """The ledger of one host. Devices and slot limit come from observation, holders from events."""

    __slots__ = (
        "_at",
        "_falling",
        "exclusive",
        "max_slots",
        "no_processors",
        "processors",
        "reserved",
        "slots_used",
        "suspended",
    )

    def __init__(self, host: str, changes: set[str] | None = None) -> None:
        """`changes`: where to note the host's name whenever something is taken, given or observed."""
        super().__init__(host, changes)
        self.max_slots: int | None = None
        """None: no limit."""
        self.slots_used = 0
        self.processors: tuple[Processor, ...] = ()
        """Those that jobs with affinity[] may have, in the order in which they lie."""
        self.no_processors = ""
        """Why there are none."""
        self.exclusive: AttemptKey | None = None
        """The attempt that has the host for itself (-x, cu[excl])."""
        self.reserved: dict[str, float] = {}
        self.suspended: set[AttemptKey] = set()
        """Preempted attempts: they keep GPUs and amounts, but not their slots."""
        self._falling: dict[AttemptKey, float] = {}
        """Attempts whose amounts are given back in time -> when they took them."""
        self._at = -math.inf
        """The time at which `held` shows these."""

    def copy(self, changes: set[str] | None = None) -> HostLedger:
        """A ledger of its own: changes to it leave this one alone, and are noted in `changes`."""
        twin = HostLedger.__new__(HostLedger)  # all of it is set here; this is done for every host that a cycle uses
        twin.host = self.host
        twin._changes = set() if changes is None else changes
        twin.max_slots, twin.shared_jobs, twin.slots_used = self.max_slots, self.shared_jobs, self.slots_used
        # These, and the values of `holders`, are replaced whole, never changed in place.
        twin.gpus, twin.gpus_known, twin.islands, twin._usable = self.gpus, self.gpus_known, self.islands, self._usable
        twin._in_mode = self._in_mode  # of the same GPUs
        twin.processors, twin.no_processors = self.processors, self.no_processors
        twin.held = dict(self.held)
        twin.holders = dict(self.holders)
        twin.reserved = dict(self.reserved)
        twin.exclusive, twin._plain, twin._holds_strange = self.exclusive, self._plain, self._holds_strange
        twin._are_alike = self._are_alike
        twin.suspended = set(self.suspended)
        twin._falling, twin._at, twin._torn = dict(self._falling), self._at, self._torn
        return twin

    def emptied(self) -> HostLedger:
        """A ledger of its own of the same host, as it will be when nobody holds anything."""
        twin = self.copy()
        twin.held, twin.holders, twin.reserved, twin._falling = {}, {}, {}, {}
        twin.suspended, twin.exclusive, twin.slots_used = set(), None, 0
        twin._plain, twin._holds_strange, twin._torn = 0, False, frozenset()
        return twin

    def observe_processors(self, processors: tuple[Processor, ...], why_none: str = "") -> None:
        """The processors that jobs with affinity[] may have from now on, or why there are none."""
        self.processors, self.no_processors = processors, why_none
        self._changes.add(self.host)

    def bound_cpus(self) -> set[int]:
        """CPUs that jobs with affinity[] hold."""
        return {cpu for part in self.held.values() if part.bindings for cpu in part.cpus}

    @property
    def free_slots(self) -> int | None:
        """Slots left, never below 0; None when there is no limit."""
        return None if self.max_slots is None else max(0, self.max_slots - self.slots_used)

    def take(self, key: AttemptKey, part: HostAllocation, since: float = math.inf) -> None:
        """Enter a holding as a fact (it may come from replay, so nothing is checked). Raises ValueError if repeated.

        `since`: when its courses begin (UTC seconds); infinite: never, all of it is held to the end.
        """
        if key in self.held:
            raise ValueError(f"attempt {key} already holds something on {self.host}")
        self._changes.add(self.host)
        if part.courses and since < math.inf:
            self._falling[key] = since
            part = part.as_of(self._at, since)
        self.held[key] = part
        if part.exclusive:
            self.exclusive = key
        self.slots_used += part.slots
        self._occupy(key, part.gpus)
        reserved = self.reserved
        for name, amount in part.amounts.items():
            reserved[name] = reserved.get(name, 0.0) + amount

    def _occupy(self, key: AttemptKey, gpus: Iterable[HeldGpu]) -> None:
        holders = self.holders
        for gpu in gpus:
            uuid, claim = gpu.uuid, gpu.claim
            others = holders.get(uuid)
            holders[uuid] = {key: claim} if others is None else {**others, key: claim}
            if claim == "ngpus":
                self._plain += 1
            if uuid not in self.gpus:
                self._holds_strange = True
            if is_astray(gpu, self.gpus):
                self._torn = None

    def give(self, key: AttemptKey) -> None:
        """End a holding. Raises KeyError if there is none."""
        part = self.held.pop(key)
        self._falling.pop(key, None)
        self._changes.add(self.host)
        if self.exclusive == key:
            self.exclusive = next((other for other, its in self.held.items() if its.exclusive), None)
        if key in self.suspended:
            self.suspended.remove(key)
        else:
            self.slots_used -= part.slots
        if self._torn:
            self._torn = None
        self._free(key, part.gpus)
        self._sum(part.amounts)

    def _free(self, key: AttemptKey, gpus: Iterable[HeldGpu]) -> None:
        for gpu in gpus:
            self._plain -= gpu.claim == "ngpus"
            others = {other: claim for other, claim in self.holders[gpu.uuid].items() if other != key}
            if others:
                self.holders[gpu.uuid] = others
            else:
                del self.holders[gpu.uuid]

    def _sum(self, names: Iterable[str]) -> None:
        for name in names:
            # Summed anew, so that rounding never leaves a crumb of a reservation behind.
            left = sum(other.amounts.get(name, 0.0) for other in self.held.values())
            if left:
                self.reserved[name] = left
            else:
                self.reserved.pop(name, None)

    def advance(self, now: float) -> list[AttemptKey]:
        """Give back what is due by `now`, UTC seconds; the attempts that hold something else than before.

        A time before the last one (a clock that was set back) shows the holdings as they were then.
        """
        self._at = now
        changed = []
        for key, since in self._falling.items():
            part = self.held[key]
            left = part.as_of(now, since)
            if left is not part:
                self.held[key] = left
                changed.append(key)
        if changed:
            self._changes.add(self.host)
            self._sum({course.resource for key in changed for course in self.held[key].courses})
        return changed

    def changes(self) -> Iterator[float]:
        """When something is given back before its attempt ends, after the time to which the ledger was brought."""
        for key, since in self._falling.items():
            yield from (at for at in self.held[key].changes(since) if at > self._at)

    def taken_at(self, key: AttemptKey) -> float:
        """Since when the attempt holds amounts that it gives back in time; infinite when it holds none such."""
        return self._falling.get(key, math.inf)

    @property
    def is_falling(self) -> bool:
        """Whether anything is held that is given back before its attempt ends."""
        return bool(self._falling)

    def suspend(self, key: AttemptKey) -> None:
        """Free the slots of a preempted attempt; it keeps GPUs and amounts. A repetition changes nothing.

        Raises KeyError if the attempt holds nothing here.
        """
        part = self.held[key]
        if key not in self.suspended:
            self._changes.add(self.host)
            self.suspended.add(key)
            self.slots_used -= part.slots

    def resume(self, key: AttemptKey) -> None:
        """Give a preempted attempt its slots again (as a fact: nothing is checked). A repetition changes nothing.

        Raises KeyError if the attempt holds nothing here.
        """
        part = self.held[key]
        if key in self.suspended:
            self._changes.add(self.host)
            self.suspended.remove(key)
            self.slots_used += part.slots

    def move_off(self, key: AttemptKey) -> None:
        """Free the GPUs of a suspended attempt that is moved off them. Raises KeyError if it holds nothing here."""
        part = self.held[key]
        if part.gpus:
            self._changes.add(self.host)
            self._free(key, part.gpus)
            self.held[key] = msgspec.structs.replace(part, gpus=())
            self._torn = None if self._torn else self._torn

    def move_back(self, key: AttemptKey, gpus: tuple[HeldGpu, ...]) -> None:
        """Give it these GPUs again (as a fact: nothing is checked). Raises KeyError if it holds nothing here."""
        part = self.held[key]
        if not part.gpus:
            self._changes.add(self.host)
            self.held[key] = msgspec.structs.replace(part, gpus=gpus)
            self._occupy(key, gpus)
