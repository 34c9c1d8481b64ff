"""The books of one host: who holds which slots, GPUs, processors and amounts there, and whether more would fit.

Devices are the truth; ngpus, ngpus_excl_p … are projections of them (`HostLedger.counter`), never second books. It
never decides who gets what.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gsched.model.allocation import SHARING, HeldGpu, HostAllocation
from gsched.model.devices import (
    MIG_CLAIMS,
    MODE_BY_OPTION,
    GpuPart,
    board_of,
    counter_of,
    devices_of,
    is_astray,
    islands_of,
    room_mib,
    suits,
    torn_boards,
    usable_by_claim,
    whole_gpus,
)
from gsched.model.host import COUNTER_OF_MODE, ComputeMode, Gpu, GpuReport
from gsched.model.topology import Processor, cpu_misfit

AttemptKey = tuple[int, int]
"""(job id, attempt)."""

_ROUNDING = 1e-9
_NOBODY: dict[AttemptKey, str] = {}


class Counter(NamedTuple):
    """A projection of a host's devices: what is left to claim, and what is claimed."""

    total: float
    reserved: float


class HostLedger:
    """The books of one host. Devices and slot limit come from observation, holders from events."""

    __slots__ = (
        "_are_alike",
        "_at",
        "_changes",
        "_falling",
        "_holds_strange",
        "_plain",
        "_torn",
        "_usable",
        "exclusive",
        "gpus",
        "gpus_known",
        "held",
        "holders",
        "host",
        "islands",
        "max_slots",
        "no_processors",
        "processors",
        "reserved",
        "shared_jobs",
        "slots_used",
        "suspended",
    )

    def __init__(self, host: str, changes: set[str] | None = None) -> None:
        """`changes`: where to note the host's name whenever something is taken, given or observed."""
        self.host = host
        self._changes: set[str] = set() if changes is None else changes
        self.max_slots: int | None = None
        """None: no limit."""
        self.shared_jobs = 1
        self.slots_used = 0
        self.gpus: dict[str, Gpu] = {}
        """UUID -> device: GPUs, and the parts of those that MIG has split."""
        self.gpus_known = False
        self._usable: dict[str, tuple[Gpu, ...]] = {}
        """What gsched.model.devices.usable_by_claim says of `gpus`."""
        self.islands: dict[str, int] = {}
        """GPU uuid -> number of the group of linked GPUs of one model that it is in; empty when all are alike."""
        self.processors: tuple[Processor, ...] = ()
        """Those that jobs with affinity[] may have, in the order in which they lie."""
        self.no_processors = ""
        """Why there are none."""
        self.held: dict[AttemptKey, HostAllocation] = {}
        self.holders: dict[str, dict[AttemptKey, str]] = {}
        """GPU uuid -> attempt -> what it was claimed as."""
        self._holds_strange = False
        """Whether a GPU may be held that is not among `gpus`."""
        self._torn: frozenset[str] | None = frozenset()
        """What `torn` says; None until it is asked again."""
        self._are_alike = True
        self._plain = 0
        """How many claims as plain `ngpus` there are."""
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
        twin.processors, twin.no_processors = self.processors, self.no_processors
        twin.held = dict(self.held)
        twin.holders = dict(self.holders)
        twin.reserved = dict(self.reserved)
        twin.exclusive, twin._plain, twin._holds_strange = self.exclusive, self._plain, self._holds_strange
        twin._are_alike = self._are_alike
        twin.suspended = set(self.suspended)
        twin._falling, twin._at, twin._torn = dict(self._falling), self._at, self._torn
        return twin

    def observe_gpus(self, report: GpuReport | None) -> None:
        """Take over what a probe saw; None (or a failed probe) makes the devices unknown, and nothing is offered."""
        self.gpus_known = report is not None and report.known
        self.gpus = devices_of(report)
        self._torn = None
        self.islands = islands_of(self.gpus)
        self._usable = usable_by_claim(self.gpus)
        self._holds_strange = not self.holders.keys() <= self.gpus.keys()
        counts = {len(devices) for devices in self._usable.values()}
        self._are_alike = counts <= {0, len(self.gpus)} and len(set(self.islands.values())) < 2
        self._changes.add(self.host)

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

    def claimable(self, claim: str, share: float = 1.0, gmem_mib: float = 0.0) -> list[Gpu]:
        """GPUs that one more attempt may claim as `claim` (see HeldGpu): least shared first, then those whose mode is
        right already, then by index.
        """
        holders = self.holders
        devices = self._offered(claim)
        if gmem_mib:
            devices = tuple(gpu for gpu in devices if self._has_room(gpu, gmem_mib))
        free = [gpu for gpu in devices if gpu.uuid not in holders]
        if claim in SHARING and len(free) < len(devices):
            shared = [gpu for gpu in devices if gpu.uuid in holders and self._can_share(gpu, share, gmem_mib)]
            shared.sort(key=lambda gpu: (len(holders[gpu.uuid]), gpu.index))
            free += shared
        return free

    def idle_alike(self) -> list[Gpu] | None:
        """The GPUs that nobody holds, by index, where counting says all of them: each claim could have all of the
        host's GPUs or none, and one is as good as another. None where that is not so.
        """
        if not self._are_alike or self._holds_strange or self.torn:
            return None
        holders = self.holders
        return [gpu for gpu in self._usable.get("", ()) if gpu.uuid not in holders]

    def is_idle(self, gpu: Gpu) -> bool:
        """Whether the GPU could be used and nobody holds it."""
        return gpu.uuid not in self.holders and gpu in self._offered("ngpus")

    @property
    def torn(self) -> frozenset[str]:
        """UUIDs of GPUs whose MIG layout was changed below a job that holds one of them, or a part: nobody gets
        anything of them until it has ended, for old and new parts may be the same memory.
        """
        if self._torn is None:
            self._torn = torn_boards(self.held.values(), self.gpus)
        return self._torn

    def _offered(self, claim: str) -> tuple[Gpu, ...]:
        """Devices that the claim could have if nobody held them."""
        devices, torn = self._usable.get(claim, ()), self.torn
        return tuple(gpu for gpu in devices if board_of(gpu) not in torn) if torn else devices

    def idle(self, claim: str = "ngpus") -> int:
        """How many GPUs that could be claimed as `claim` nobody holds; 0 while they are unknown."""
        holders = self.holders
        devices = self._offered(claim)
        if not holders:
            return len(devices)
        if len(devices) == len(self.gpus) and not self._holds_strange:
            return len(devices) - len(holders)  # all are of the kind, so there is nothing to look through
        return sum([gpu.uuid not in holders for gpu in devices])

    def load_of(self, uuid: str) -> float:
        """How much of a shared GPU is taken: the sum of its holders' parts, each 1/shared_jobs unless he named one."""
        return sum(self._part(held.share) for held in self._holdings(uuid))

    def counter(self, name: str) -> Counter | None:
        """Total (what is left) and Reserved of a GPU counter; None while the devices are unknown.

        `ngpus` counts as LSF does: all devices but those claimed as `ngpus` itself, so that `select[ngpus>0]` holds on
        a host whose GPUs are all claimed by mode. Whether a device can be had is asked of `claimable`, never of this.
        """
        left = self.left(name)
        if left is None:
            return None
        claims = ((uuid, claim) for uuid, holders in self.holders.items() for claim in holders.values())
        return Counter(left, float(sum(counter_of(self.gpus.get(uuid), claim) == name for uuid, claim in claims)))

    def left(self, name: str) -> float | None:
        """Total (what is left) of a GPU counter, as `counter` says."""
        if not self.gpus_known:
            return None
        if name == "ngpus":
            sound = self._usable[""]
            if not self._plain:
                return float(len(sound))
            return float(len(sound) - sum("ngpus" in self.holders.get(gpu.uuid, _NOBODY).values() for gpu in sound))
        if name == "ngpuprohibited":
            return float(sum(gpu.mode is ComputeMode.PROHIBITED for gpu in whole_gpus(self.gpus)))
        return float(len(self.claimable(name)))

    def devices_in_mode(self, name: str) -> int:
        """How many devices count as `name` by the administrator's will, held or not."""
        if name == "ngpus":
            return sum(1 for _ in whole_gpus(self.gpus))
        modes = (gpu.counted_mode for gpu in whole_gpus(self.gpus))
        return sum(mode is not None and COUNTER_OF_MODE[mode] == name for mode in modes)

    def devices_for(self, claim: str) -> int:
        """How many GPUs are in the claim's mode, or would be put into it, held or not."""
        if claim in MODE_BY_OPTION:
            return sum(suits(gpu, claim) for gpu in whole_gpus(self.gpus))
        return self.devices_in_mode(claim)

    def misfit(self, part: HostAllocation) -> str:
        """Why `part` does not fit here now; empty when it does."""
        free = self.free_slots
        if free is not None and part.slots > free:
            return f"{part.slots} slots wanted on {self.host}, {free} free"
        if self.held and part.exclusive:
            return f"{self.host} is wanted alone, {len(self.held)} attempts hold something there"
        if self.exclusive is not None:
            return f"{self.host} is held by attempt {self.exclusive} alone"
        if len({held.uuid for held in part.gpus}) != len(part.gpus):
            return f"a GPU of {self.host} is named twice"
        for held in part.gpus:
            gpu = self.gpus.get(held.uuid)
            if gpu is None:
                return f"GPU {held.uuid} is not on {self.host}"
            if not self._may_claim(gpu, held.claim, held.share, held.gmem_mib):
                return f"GPU {held.uuid} of {self.host} cannot be claimed as {held.claim} now"
        return cpu_misfit(self.host, part.cpus, self.processors, self.bound_cpus()) if part.bindings else ""

    def may_hold(self, held: HeldGpu) -> bool:
        """Whether one more attempt could hold the device so, as far as devices go."""
        gpu = self.gpus.get(held.uuid)
        return gpu is not None and self._may_claim(gpu, held.claim, held.share, held.gmem_mib)

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
        holders = self.holders
        for gpu in part.gpus:
            uuid, claim = gpu.uuid, gpu.claim
            others = holders.get(uuid)
            holders[uuid] = {key: claim} if others is None else {**others, key: claim}
            if claim == "ngpus":
                self._plain += 1
            if uuid not in self.gpus:
                self._holds_strange = True
            if is_astray(gpu, self.gpus):
                self._torn = None
        reserved = self.reserved
        for name, amount in part.amounts.items():
            reserved[name] = reserved.get(name, 0.0) + amount

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
        for gpu in part.gpus:
            self._plain -= gpu.claim == "ngpus"
            others = {other: claim for other, claim in self.holders[gpu.uuid].items() if other != key}
            if others:
                self.holders[gpu.uuid] = others
            else:
                del self.holders[gpu.uuid]
        self._sum(part.amounts)

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
        """When something is given back before its attempt ends, after the time to which the books were brought."""
        for key, since in self._falling.items():
            yield from (at for at in self.held[key].changes(since) if at > self._at)

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

    def _may_claim(self, gpu: Gpu, claim: str, share: float = 1.0, gmem_mib: float = 0.0) -> bool:
        holders = self.holders.get(gpu.uuid)
        if holders and claim not in SHARING:
            return False
        if gpu.problem or gpu.mode is None or gpu.mode is ComputeMode.PROHIBITED or board_of(gpu) in self.torn:
            return False
        if isinstance(gpu, GpuPart) is not (claim in MIG_CLAIMS) or gpu.mig:
            return False
        if gmem_mib and not self._has_room(gpu, gmem_mib):
            return False
        if claim == "ngpus":
            return True
        return suits(gpu, claim) and (not holders or self._can_share(gpu, share, gmem_mib))

    def _can_share(self, gpu: Gpu, share: float, gmem_mib: float) -> bool:
        """Whether one more fits beside those who hold a part of the GPU already."""
        is_to_be_set = gpu.mode_settable and gpu.mode_given is None  # for the first of them
        if gpu.mode is not ComputeMode.DEFAULT and not is_to_be_set:
            return False
        parts, memory = self._part(share), gmem_mib
        for held in self._holdings(gpu.uuid):
            if held.claim not in SHARING:
                return False
            parts += self._part(held.share)
            memory += held.gmem_mib
        return parts <= 1.0 + _ROUNDING and (not memory or self._has_room(gpu, memory))

    def _has_room(self, gpu: Gpu, gmem_mib: float) -> bool:
        """Whether so much memory is left of the GPU by the driver and by what is not ours."""
        room = room_mib(gpu, is_held=gpu.uuid in self.holders)
        return room is not None and gmem_mib <= room

    def _part(self, share: float) -> float:
        return share if share < 1.0 else 1.0 / max(1, self.shared_jobs)

    def _holdings(self, uuid: str) -> Iterator[HeldGpu]:
        for key in self.holders.get(uuid, ()):
            for held in self.held[key].gpus:
                if held.uuid == uuid:
                    yield held
