"""What the GPUs of a host are good for, whoever holds them: which claims may have them, and which are linked."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.model.allocation import ALONE_CLAIM, PROCESS_CLAIM, SHARED_CLAIM
from gsched.model.host import ComputeMode, Gpu

MODE_OF_CLAIM = {
    "ngpus_shared": ComputeMode.DEFAULT,
    "ngpus_excl_t": ComputeMode.EXCLUSIVE_THREAD,
    "ngpus_excl_p": ComputeMode.EXCLUSIVE_PROCESS,
    SHARED_CLAIM: ComputeMode.DEFAULT,
    ALONE_CLAIM: ComputeMode.DEFAULT,
    PROCESS_CLAIM: ComputeMode.EXCLUSIVE_PROCESS,
}
"""Claim -> the compute mode that a GPU must be in for it; plain `ngpus` takes any."""


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
    """Claim -> the GPUs that it could ever have, by index; "" for all that are not at fault."""
    sound = sorted((gpu for gpu in gpus.values() if not gpu.problem), key=lambda gpu: gpu.index)
    usable = tuple(gpu for gpu in sound if gpu.mode is not None and gpu.mode is not ComputeMode.PROHIBITED)
    found = {claim: tuple(gpu for gpu in usable if gpu.mode is mode) for claim, mode in MODE_OF_CLAIM.items()}
    return {"": tuple(sound), "ngpus": usable, **found}
