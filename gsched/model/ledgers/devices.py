"""What the GPUs of a host are good for, whoever holds them: which claims may have them, and which are linked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gsched.base.coded_text import coded
from gsched.model.hosts.host import COUNTER_OF_MODE, ComputeMode, Gpu, GpuReport, MigDevice
from gsched.model.ledgers.allocation import (
    ALONE_CLAIM,
    COUNTER_OF_CLAIM,
    MIG_ALONE_CLAIM,
    MIG_CLAIM,
    PROCESS_CLAIM,
    SHARED_CLAIM,
    HeldGpu,
    HostAllocation,
)

MODE_OF_CLAIM = {
    "ngpus_shared": ComputeMode.DEFAULT,
    "ngpus_excl_t": ComputeMode.EXCLUSIVE_THREAD,
    "ngpus_excl_p": ComputeMode.EXCLUSIVE_PROCESS,
    SHARED_CLAIM: ComputeMode.DEFAULT,
    ALONE_CLAIM: ComputeMode.DEFAULT,
    PROCESS_CLAIM: ComputeMode.EXCLUSIVE_PROCESS,
}
"""Claim -> the compute mode that a GPU must be in for it; plain `ngpus` takes any."""

MIG_CLAIMS = frozenset({MIG_CLAIM, MIG_ALONE_CLAIM})
"""Claims of parts of GPUs by MIG. All others take whole GPUs, which are not split."""

SETTABLE_MODES = (ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS)
"""The modes that agents set, and change, for jobs: what an administrator has prohibited stays so."""

ALONE_CLAIMS = frozenset({ALONE_CLAIM, PROCESS_CLAIM, MIG_ALONE_CLAIM})
"""Claims of -gpu with j_exclusive=yes, which mode=exclusive_process implies."""

MODE_BY_OPTION = frozenset({SHARED_CLAIM, ALONE_CLAIM, PROCESS_CLAIM})
"""Claims for which agents set the mode, where they may: those of -gpu. A counter counts what is in its mode already."""

SUDO_WARNING = coded("warning.sudo")
"""What gsub says of a job that wants GPUs and begins with sudo; true of hosts without a fence alone."""


class GpuPart(Gpu, frozen=True, kw_only=True):
    """A part of a GPU by MIG, as a device of its own: index, address and whatever is wrong are those of its GPU."""

    parent: str
    """UUID of the GPU."""
    profile: str
    sizes: tuple[int, int] | None
    """Slices of its GPU instance and of its compute instance; None when nobody knows."""

    def is_of(self, asked: str) -> bool:
        """Whether it is what `mig=GI[/CI]` asks for. Without /CI a compute instance of any size will do."""
        instance, _, compute = asked.partition("/")
        return self.sizes is not None and self.sizes[0] == int(instance) and compute in ("", str(self.sizes[1]))


def devices_of(report: GpuReport | None) -> dict[str, Gpu]:
    """UUID -> device: the GPUs of a report, and the parts (GpuPart) of those that are split."""
    found: dict[str, Gpu] = {}
    for gpu in report.gpus if report is not None and report.known else ():
        found[gpu.uuid] = gpu
        if gpu.mig:
            found.update((part.uuid, _part(gpu, part)) for part in gpu.mig_devices if part.uuid)
    return found


def _part(gpu: Gpu, part: MigDevice) -> GpuPart:
    return GpuPart(
        uuid=part.uuid,
        index=gpu.index,
        model=gpu.model,
        mode=gpu.mode,
        memory_mib=part.memory_mib,
        pci_bus_id=gpu.pci_bus_id,
        minor=gpu.minor,
        problem=gpu.problem,
        numa=gpu.numa,
        parent=gpu.uuid,
        profile=part.profile,
        sizes=part.sizes,
    )


def held_of(gpu: Gpu, claim: str, share: float = 1.0, gmem_mib: float = 0.0) -> HeldGpu:
    """The device as something that an attempt holds."""
    parent, profile = (gpu.parent, gpu.profile) if isinstance(gpu, GpuPart) else ("", "")
    return HeldGpu(
        uuid=gpu.uuid,
        index=gpu.index,
        claim=claim,
        pci_bus_id=gpu.pci_bus_id,
        share=share,
        gmem_mib=gmem_mib,
        parent=parent,
        profile=profile,
    )


def is_astray(held: HeldGpu, devices: Mapping[str, Gpu]) -> bool:
    """Whether MIG has changed below what is held: a part that is gone, or a whole GPU that is split meanwhile."""
    if held.parent:
        return held.uuid not in devices
    gpu = devices.get(held.uuid)
    return gpu is not None and bool(gpu.mig)


def torn_boards(parts: Iterable[HostAllocation], devices: Mapping[str, Gpu]) -> frozenset[str]:
    """UUIDs of GPUs below whose holders MIG has changed."""
    return frozenset(held.board for part in parts for held in part.gpus if is_astray(held, devices))


def board_of(gpu: Gpu) -> str:
    """UUID of the GPU that it is, or is a part of."""
    return gpu.parent if isinstance(gpu, GpuPart) else gpu.uuid


def islands_of(gpus: Mapping[str, Gpu]) -> dict[str, int]:
    """Groups of GPUs that are of one model and linked with each other, directly or over others; {} if there is one.

    Without links all of a model are one group. Parts of GPUs are in none.
    """
    gpus = {uuid: gpu for uuid, gpu in gpus.items() if not isinstance(gpu, GpuPart)}
    any_links = any(gpu.links for gpu in gpus.values())
    if not any_links and len({gpu.model for gpu in gpus.values()}) < 2:
        return {}
    island: dict[str, int] = {}
    for gpu in gpus.values():
        if gpu.uuid not in island:
            number = len(set(island.values()))
            reached = [gpu]
            while reached:
                one = reached.pop()
                island[one.uuid] = number
                reached += [
                    other
                    for other in gpus.values()
                    if other.uuid not in island
                    and other.model == one.model
                    and (not any_links or other.uuid in one.links or one.uuid in other.links)
                ]
    return island if any_links or len(set(island.values())) > 1 else {}


def usable_by_claim(gpus: Mapping[str, Gpu]) -> dict[str, tuple[Gpu, ...]]:
    """Claim -> the devices that it could ever have; "" for all GPUs that are not at fault.

    By index; those whose mode must be changed for the claim come last. A GPU that is split by MIG can only be had in
    parts; of its parts the smallest come first.
    """
    sound = sorted((gpu for gpu in whole_gpus(gpus) if not gpu.problem), key=lambda gpu: gpu.index)
    usable = tuple(gpu for gpu in sound if _has_mode(gpu) and not gpu.mig)
    found = {claim: tuple(gpu for gpu in usable if suits(gpu, claim)) for claim in MODE_OF_CLAIM}
    for claim in MODE_BY_OPTION if any(gpu.mode_settable for gpu in usable) else ():
        found[claim] = tuple(sorted(found[claim], key=lambda gpu: needs_change(gpu, claim)))
    parts = [gpu for gpu in gpus.values() if isinstance(gpu, GpuPart) and not gpu.problem and _has_mode(gpu)]
    parts.sort(key=lambda gpu: (gpu.index, gpu.sizes or (), gpu.memory_mib or math.inf))
    found |= {claim: tuple(gpu for gpu in parts if suits(gpu, claim)) for claim in MIG_CLAIMS}
    return {"": tuple(sound), "ngpus": usable, **found}


def whole_gpus(gpus: Mapping[str, Gpu]) -> Iterator[Gpu]:
    """The GPUs that are no parts (MIG) of others."""
    return (gpu for gpu in gpus.values() if not isinstance(gpu, GpuPart))


def _has_mode(gpu: Gpu) -> bool:
    return gpu.mode is not None and gpu.mode is not ComputeMode.PROHIBITED


def suits(gpu: Gpu, claim: str) -> bool:
    """Whether the GPU is in the claim's compute mode, or its agent puts it there for the job; not for plain ngpus."""
    if claim in MIG_CLAIMS:  # the mode is that of the whole GPU, and not for one job to set
        return claim == MIG_ALONE_CLAIM or gpu.mode is ComputeMode.DEFAULT
    return gpu.counted_mode is MODE_OF_CLAIM.get(claim) or (gpu.mode_settable and claim in MODE_BY_OPTION)


def needs_change(gpu: Gpu, claim: str) -> bool:
    """Whether the claim takes another compute mode than the GPU is in by the administrator's will."""
    return claim in MODE_OF_CLAIM and gpu.counted_mode is not MODE_OF_CLAIM[claim]


def counter_of(gpu: Gpu | None, claim: str) -> str:
    """Where a held GPU shows as reserved: one whose mode is set for jobs by -gpu in that of its standing mode."""
    if claim not in MODE_BY_OPTION or gpu is None or not gpu.mode_settable or gpu.counted_mode is None:
        return COUNTER_OF_CLAIM.get(claim, claim)
    return COUNTER_OF_MODE[gpu.counted_mode]


_FOREIGN_STEP_MIB = 256
"""Memory of foreign processes counts in steps of so much: what flickers is no news."""


def room_mib(gpu: Gpu, *, is_held: bool) -> int | None:
    """Memory that jobs may have of the GPU together now; None when its size is unknown.

    What the driver keeps and what processes of nobody's job use is not to be had. Where processes cannot be seen, all
    that is in use on a GPU that no job holds is foreign; on a held one it is taken for the jobs'.
    """
    usable = gpu.usable_mib
    if usable is None:
        return None
    unseen = 0 if is_held else gpu.used_mib
    foreign = gpu.foreign_mib if gpu.foreign_mib is not None else unseen
    return max(0, usable - (foreign or 0))


def offer_of(report: GpuReport | None) -> GpuReport | None:
    """The report without what moves all the time: two that have the same offer let the same jobs start."""
    if report is None:
        return None
    return msgspec.structs.replace(report, gpus=tuple(_offer_of(gpu) for gpu in report.gpus))


def _offer_of(gpu: Gpu) -> Gpu:
    foreign = gpu.foreign_mib if gpu.foreign_mib is not None else gpu.used_mib
    return msgspec.structs.replace(
        gpu,
        used_mib=None,
        foreign_mib=None if foreign is None else -(-foreign // _FOREIGN_STEP_MIB),
        utilization_percent=None,
        memory_utilization_percent=None,
        temperature_c=None,
        power_w=None,
        ecc_errors=None,
        ecc_corrected=None,
        throttle=None,
        pstate=None,
        process_count=None,
        processes=(),
        over_gmem=(),
        foreign_pids=(),
        left_behind=(),
        problem="yes" if gpu.problem else "",
        hit=(),
        xids=(),
    )
