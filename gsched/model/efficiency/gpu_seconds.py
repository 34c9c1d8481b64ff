"""What a job made of the time for which it held GPUs, in sums that can be added up over many jobs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gsched.model.gpus.gpu_use import GpuUsage, of_job
from gsched.model.ledgers.allocation import Allocation


class GpuSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of GPUs; of a shared one the part that was held."""

    seen_s: float = 0.0
    """In which it is known how much they computed."""
    busy_s: float = 0.0
    """Of these, in which they computed; the rest was wasted."""
    energy_j: float | None = None
    """Of all of them; None when it is unknown of one."""


def gpu_seconds(allocation: Allocation | None, uses: Sequence[GpuUsage]) -> GpuSeconds:
    """GPU seconds of one attempt that held this. What is used beyond a part of a GPU that was held does not count."""
    shares = (
        {}
        if allocation is None
        else {(part.host, gpu.uuid): gpu.share for part in allocation.hosts for gpu in part.gpus}
    )
    if not shares:
        return GpuSeconds()
    seen_s = busy_s = 0.0
    for use in uses:
        share = shares.get((use.host, use.uuid))
        if share is not None and use.sm_mean is not None:
            seen_s += share * use.covered_s
            busy_s += min(share, use.sm_mean / 100.0) * use.covered_s
    return GpuSeconds(seen_s=seen_s, busy_s=busy_s, energy_j=of_job(uses, len(shares)).energy_j)


def together(several: Sequence[GpuSeconds]) -> GpuSeconds:
    """The sum over all attempts of a job that had GPUs."""
    energies = [each.energy_j for each in several]
    known = [energy for energy in energies if energy is not None]
    return GpuSeconds(
        seen_s=sum(each.seen_s for each in several),
        busy_s=sum(each.busy_s for each in several),
        energy_j=sum(known) if known and len(known) == len(energies) else None,
    )
