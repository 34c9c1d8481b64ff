"""The GPUs of one host and who holds them: which could be claimed, and what the counters say of them.

Devices are the truth; ngpus, ngpus_excl_p … are projections of them (`HostDevices.counter`), never a second ledger.
Who holds what is entered by gsched.model.ledgers.host_ledger alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gsched.model.hosts.host import COUNTER_OF_MODE, ComputeMode, Gpu, GpuReport
from gsched.model.ledgers.allocation import SHARING, HeldGpu, HostAllocation
from gsched.model.ledgers.devices import (
    MIG_CLAIMS,
    MODE_BY_OPTION,
    GpuPart,
    board_of,
    counter_of,
    devices_of,
    islands_of,
    room_mib,
    suits,
    torn_boards,
    usable_by_claim,
    whole_gpus,
)

AttemptKey = tuple[int, int]
"""(job id, attempt)."""

_ROUNDING = 1e-9
_NOBODY: dict[AttemptKey, str] = {}


class DeviceCounter(NamedTuple):
    """A projection of a host's devices: what is left to claim, and what is claimed."""

    total: float
    reserved: float


class HostDevices:
    """The GPUs of one host, as they were observed, with their holders."""

    __slots__ = (
        "_are_alike",
        "_changes",
        "_holds_strange",
        "_in_mode",
        "_plain",
        "_torn",
        "_usable",
        "gpus",
        "gpus_known",
        "held",
        "holders",
        "host",
        "islands",
        "shared_jobs",
    )

    def __init__(self, host: str, changes: set[str] | None = None) -> None:
        """`changes`: where to note the host's name whenever something is taken, given or observed."""
        self.host = host
        self._changes: set[str] = set() if changes is None else changes
        self.shared_jobs = 1
        self.gpus: dict[str, Gpu] = {}
        """UUID -> device: GPUs, and the parts of those that MIG has split."""
        self.gpus_known = False
        self._usable: dict[str, tuple[Gpu, ...]] = {}
        """What gsched.model.ledgers.devices.usable_by_claim says of `gpus`."""
        self.islands: dict[str, int] = {}
        """GPU uuid -> number of the group of linked GPUs of one model that it is in; empty when all are alike."""
        self.held: dict[AttemptKey, HostAllocation] = {}
        self.holders: dict[str, dict[AttemptKey, str]] = {}
        """GPU uuid -> attempt -> what it was claimed as."""
        self._in_mode: dict[str, int] = {}
        """What `devices_in_mode` says of `gpus`, as far as it was asked."""
        self._holds_strange = False
        """Whether a GPU may be held that is not among `gpus`."""
        self._torn: frozenset[str] | None = frozenset()
        """What `inconsistent` says; None until it is asked again."""
        self._are_alike = True
        self._plain = 0
        """How many claims as plain `ngpus` there are."""

    def observe_gpus(self, report: GpuReport | None) -> None:
        """Take over what a probe saw; None (or a failed probe) makes the devices unknown, and nothing is offered."""
        self.gpus_known = report is not None and report.known
        self.gpus = devices_of(report)
        self._torn = None
        self._in_mode = {}
        self.islands = islands_of(self.gpus)
        self._usable = usable_by_claim(self.gpus)
        self._holds_strange = not self.holders.keys() <= self.gpus.keys()
        counts = {len(devices) for devices in self._usable.values()}
        self._are_alike = counts <= {0, len(self.gpus)} and len(set(self.islands.values())) < 2
        self._changes.add(self.host)

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
        if not self._are_alike or self._holds_strange or self.inconsistent:
            return None
        holders = self.holders
        return [gpu for gpu in self._usable.get("", ()) if gpu.uuid not in holders]

    def is_idle(self, gpu: Gpu) -> bool:
        """Whether the GPU could be used and nobody holds it."""
        return gpu.uuid not in self.holders and gpu in self._offered("ngpus")

    @property
    def inconsistent(self) -> frozenset[str]:
        """UUIDs of GPUs whose MIG layout was changed below a job that holds one of them, or a part: nobody gets
        anything of them until it has ended, for old and new parts may be the same memory.
        """
        if self._torn is None:
            self._torn = torn_boards(self.held.values(), self.gpus)
        return self._torn

    def _offered(self, claim: str) -> tuple[Gpu, ...]:
        """Devices that the claim could have if nobody held them."""
        devices, inconsistent = self._usable.get(claim, ()), self.inconsistent
        return tuple(gpu for gpu in devices if board_of(gpu) not in inconsistent) if inconsistent else devices

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

    def counter(self, name: str) -> DeviceCounter | None:
        """Total (what is left) and Reserved of a GPU counter; None while the devices are unknown.

        `ngpus` counts as LSF does: all devices but those claimed as `ngpus` itself, so that `select[ngpus>0]` holds on
        a host whose GPUs are all claimed by mode. Whether a device can be had is asked of `claimable`, never of this.
        """
        left = self.left(name)
        if left is None:
            return None
        claims = [(uuid, claim) for uuid, holders in self.holders.items() for claim in holders.values()]
        reserved = sum([counter_of(self.gpus.get(uuid), claim) == name for uuid, claim in claims])
        return DeviceCounter(left, float(reserved))

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
        return float(len(self.claimable(name)) if name in SHARING else self.idle(name))

    def devices_in_mode(self, name: str) -> int:
        """How many devices count as `name` by the administrator's will, held or not."""
        found = self._in_mode.get(name)
        if found is None:
            modes = [gpu.counted_mode for gpu in whole_gpus(self.gpus)]
            of_name = sum([mode is not None and COUNTER_OF_MODE[mode] == name for mode in modes])
            found = self._in_mode[name] = len(modes) if name == "ngpus" else of_name
        return found

    def devices_for(self, claim: str) -> int:
        """How many GPUs are in the claim's mode, or would be put into it, held or not."""
        if claim in MODE_BY_OPTION:
            return sum(suits(gpu, claim) for gpu in whole_gpus(self.gpus))
        return self.devices_in_mode(claim)

    def may_hold(self, held: HeldGpu) -> bool:
        """Whether one more attempt could hold the device so, as far as devices go."""
        gpu = self.gpus.get(held.uuid)
        return gpu is not None and self._may_claim(gpu, held.claim, held.share, held.gmem_mib)

    def _may_claim(self, gpu: Gpu, claim: str, share: float = 1.0, gmem_mib: float = 0.0) -> bool:
        holders = self.holders.get(gpu.uuid)
        if holders and claim not in SHARING:
            return False
        if gpu.problem or gpu.mode is None or gpu.mode is ComputeMode.PROHIBITED or board_of(gpu) in self.inconsistent:
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
