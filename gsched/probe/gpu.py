"""What GPUs does this host have, and in which compute mode: the probes, and which one a provider's name means.

A probe never guesses: what it could not read is None, and a sample that failed says `known=False` with the reason.
The only thing a probe may change is a compute mode, and only when it is asked to. NVML itself is not touched here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import BadRequest, Conflict, GschedError
from gsched.model.gpus.gpu_use import DeviceUse
from gsched.model.hosts.host import COUNTER_OF_MODE, ComputeMode, Gpu, GpuReport, GpuXid
from gsched.model.hosts.resource import GPU_COUNTERS
from gsched.probe.simulated import inventory


class GpuProbe(Protocol):
    """The GPUs of one host."""

    async def sample(self) -> GpuReport:
        """What the GPUs are like now. Never raises; a failure is a report with `known=False` and the reason."""
        ...

    async def use(self, indexes: Sequence[int]) -> tuple[DeviceUse, ...]:
        """What is made of the GPUs with these indexes now; those that do not tell are missing. Never raises."""
        ...

    async def set_mode(self, indexes: Sequence[int], mode: ComputeMode) -> None:
        """Put the GPUs with these indexes into a compute mode. Raises GschedError with one line saying why not."""
        ...

    def why_no_modes(self) -> AnyText:
        """Why no compute mode can be set, as far as is known before it is tried; empty when one may be."""
        ...

    async def close(self) -> None:
        """End what the probe has started. May be called twice; nothing else may be called after it."""
        ...


class NullProbe:
    """A host without GPUs by decision: nothing is looked for."""

    async def sample(self) -> GpuReport:
        return GpuReport(provider="none", reason=coded("probe.off_so_none"))

    async def use(self, indexes: Sequence[int]) -> tuple[DeviceUse, ...]:
        return ()

    async def set_mode(self, indexes: Sequence[int], mode: ComputeMode) -> None:
        if indexes:
            raise Conflict(coded("probe.none_set"))

    def why_no_modes(self) -> AnyText:
        return coded("probe.off")

    async def close(self) -> None:
        return None


class SimulatedProbe:
    """GPUs from an inventory file, read anew for every sample so that a change of the file shows at the next one."""

    def __init__(self, path: str | os.PathLike[str], host: str) -> None:
        self._path = Path(path)
        self._host = host
        self._told: dict[str, tuple[GpuXid, ...]] = {}
        """UUID -> the errors that were listed at the last sample."""

    async def sample(self) -> GpuReport:
        try:
            gpus = inventory.read_inventory(self._path, self._host)
        except GschedError as problem:
            return GpuReport(provider="simulated", known=False, reason=problem.said)
        before, self._told = self._told, {gpu.uuid: gpu.xids for gpu in gpus}
        gpus = tuple(_with_new_xids(gpu, before.get(gpu.uuid, gpu.xids)) for gpu in gpus)
        return GpuReport(gpus=gpus, provider="simulated", reason=coded("probe.simulated", str(self._path)))

    async def use(self, indexes: Sequence[int]) -> tuple[DeviceUse, ...]:
        return ()  # no job computes on a GPU that is not there

    async def set_mode(self, indexes: Sequence[int], mode: ComputeMode) -> None:
        inventory.change(self._path, self._host, indexes, {"compute_mode": mode.value})

    def why_no_modes(self) -> AnyText:
        folder = self._path.parent  # files are replaced whole
        return "" if os.access(folder, os.W_OK | os.X_OK) else coded("mode.not_written", str(folder))

    async def close(self) -> None:
        return None


def _with_new_xids(gpu: Gpu, before: tuple[GpuXid, ...]) -> Gpu:
    """The GPU with those errors alone that were added at the end of `before`."""
    if not gpu.xids:
        return gpu
    kept = next(size for size in range(len(before), -1, -1) if before[len(before) - size :] == gpu.xids[:size])
    return msgspec.structs.replace(gpu, xids=gpu.xids[kept:])


def inventory_path(provider: str, host: str) -> Path | None:
    """Where the inventory of `host` lies under the provider "sim:FOLDER"; None for another provider."""
    kind, _, folder = provider.partition(":")
    return Path(folder) / f"{host}.json" if kind == "sim" and folder else None


def probe_for(provider: str, host: str, on_news: Callable[[], None] = lambda: None) -> GpuProbe:
    """The probe that GSCHED_GPU_PROVIDER names: "nvml", "none" or "sim:FOLDER" (inventory FOLDER/HOST.json).

    `on_news` is called, in the event loop, when the driver has told of something that a sample would show. Raises
    BadRequest for another name.
    """
    if provider == "none":
        return NullProbe()
    if provider == "nvml":
        # Only here: a host that simulates or has no GPUs does not pay for what it does not use.
        from gsched.probe.nvidia.nvml_child import NvmlProbe

        return NvmlProbe(on_news=on_news)
    path = inventory_path(provider, host)
    if path is None:
        raise BadRequest(coded("probe.unknown", provider))
    return SimulatedProbe(path, host)


def count_gpus(report: GpuReport) -> dict[str, int]:
    """What each elim counter says of a report: `ngpus` is every GPU seen, each of the others those in its mode."""
    counts = dict.fromkeys(GPU_COUNTERS, 0)
    counts["ngpus"] = len(report.gpus)
    for gpu in report.gpus:
        if gpu.mode is not None:
            counts[COUNTER_OF_MODE[gpu.mode]] += 1
    return counts
