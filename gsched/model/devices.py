"""What the GPUs of a host are good for, whoever holds them: which claims may have them, and which are linked."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gsched.model.allocation import ALONE_CLAIM, COUNTER_OF_CLAIM, PROCESS_CLAIM, SHARED_CLAIM
from gsched.model.host import COUNTER_OF_MODE, ComputeMode, Gpu, GpuReport

MODE_OF_CLAIM = {
    "ngpus_shared": ComputeMode.DEFAULT,
    "ngpus_excl_t": ComputeMode.EXCLUSIVE_THREAD,
    "ngpus_excl_p": ComputeMode.EXCLUSIVE_PROCESS,
    SHARED_CLAIM: ComputeMode.DEFAULT,
    ALONE_CLAIM: ComputeMode.DEFAULT,
    PROCESS_CLAIM: ComputeMode.EXCLUSIVE_PROCESS,
}
"""Claim -> the compute mode that a GPU must be in for it; plain `ngpus` takes any."""

SETTABLE_MODES = (ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS)
"""The modes that agents set, and change, for jobs: what an administrator has prohibited stays so."""

MODE_BY_OPTION = frozenset({SHARED_CLAIM, ALONE_CLAIM, PROCESS_CLAIM})
"""Claims for which agents set the mode, where they may: those of -gpu. A counter counts what is in its mode already."""

SUDO_WARNING = (
    "Warning: sudo does not pass on CUDA_VISIBLE_DEVICES, so the program sees every GPU of the host; "
    "write sudo --preserve-env=CUDA_VISIBLE_DEVICES (or sudo -E)"
)
"""What gsub says of a job that wants GPUs and begins with sudo; true of hosts without a fence alone."""


def islands_of(gpus: Mapping[str, Gpu]) -> dict[str, int]:
    """Groups of GPUs that are of one model and linked with each other, directly or over others; {} if there is one.

    Without links all of a model are one group.
    """
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
    """Claim -> the GPUs that it could ever have; "" for all that are not at fault.

    By index; those whose mode must be changed for the claim come last.
    """
    sound = sorted((gpu for gpu in gpus.values() if not gpu.problem), key=lambda gpu: gpu.index)
    usable = tuple(gpu for gpu in sound if gpu.mode is not None and gpu.mode is not ComputeMode.PROHIBITED)
    found = {claim: tuple(gpu for gpu in usable if suits(gpu, claim)) for claim in MODE_OF_CLAIM}
    for claim in MODE_BY_OPTION if any(gpu.mode_settable for gpu in usable) else ():
        found[claim] = tuple(sorted(found[claim], key=lambda gpu: needs_change(gpu, claim)))
    return {"": tuple(sound), "ngpus": usable, **found}


def suits(gpu: Gpu, claim: str) -> bool:
    """Whether the GPU is in the claim's compute mode, or its agent puts it there for the job; not for plain ngpus."""
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
"""Memory of strangers counts in steps of so much: what flickers is no news."""


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
        pstate=None,
        process_count=None,
        processes=(),
        over_gmem=(),
    )
