"""NVML's accounting statistics: what each process has made of a GPU in its whole life, also after its end.

Read-only: nobody turns accounting mode on here (`nvidia-smi -am 1` does). Runs in the process of `nvml`. Source of
functions and units: NVIDIA's NVML API reference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from gsched.model.gpus.gpu_use import ProcessAccount
from gsched.probe.nvidia.nvml_read import GpuReader

MOST_ENDED = 256
"""Processes that have ended since the last look of which is told, of one GPU."""

_MIB = 1 << 20
_MOST_BYTES = 1 << 50
_MOST_MS = 1 << 45
_MOST_US = 1 << 60
_ON = 1
_BY_PROCESS = 5
"""From this compute capability on a GPU tells processes apart; on those before (Kepler) use is that of all."""

Accounts = dict[int, ProcessAccount]
"""By process id."""


class AccountReader:
    """Remembers of which processes each GPU has told."""

    def __init__(self) -> None:
        self._kept: dict[str, frozenset[int]] = {}
        """UUID -> processes of which it kept accounts at the last look."""
        self._listed: dict[str, frozenset[int]] = {}
        """UUID -> those that were there then."""

    def read(self, read: GpuReader, uuid: str, listed: Collection[int] | None) -> tuple[Accounts, Accounts]:
        """Of the processes that are on the GPU (`listed`), and of those that have ended since the last look. Empty
        where it keeps no accounts, or nobody knows who is there.
        """
        pids = read("nvmlDeviceGetAccountingPids") if read("nvmlDeviceGetAccountingMode") == _ON else None
        if pids is None or listed is None:
            self._kept.pop(uuid, None)
            self._listed.pop(uuid, None)
            return {}, {}
        kept, here = frozenset(pids), frozenset(listed)
        before = self._kept.get(uuid, kept)
        gone = (kept - before | self._listed.get(uuid, frozenset())) - here
        self._kept[uuid], self._listed[uuid] = kept, here
        capability = read("nvmlDeviceGetCudaComputeCapability")
        by_process = bool(capability) and capability[0] >= _BY_PROCESS
        running = _accounts(read, here, by_process=by_process)
        ended = _accounts(read, sorted(gone)[:MOST_ENDED], by_process=by_process)
        return running, {pid: account for pid, account in ended.items() if account.life_s is not None}


def _accounts(read: GpuReader, pids: Iterable[int], *, by_process: bool) -> Accounts:
    found = {pid: _account(_stats(read, pid), by_process=by_process) for pid in pids}
    return {pid: account for pid, account in found.items() if account is not None}


def _stats(read: GpuReader, pid: int) -> Any:
    try:
        return read("nvmlDeviceGetAccountingStats", pid)
    except TypeError:  # pynvml fails where a driver says that it does not know the memory
        return None


def _account(stats: Any, *, by_process: bool) -> ProcessAccount | None:
    """What one says; values that no process can have are unknown. None: it says nothing."""
    if stats is None or not 0 < stats.startTime <= _MOST_US:
        return None
    life_ms = stats.time
    return ProcessAccount(
        began_at=stats.startTime / 1e6,
        sm_percent=float(stats.gpuUtilization) if by_process and 0 <= stats.gpuUtilization <= 100 else None,
        peak_mib=stats.maxMemoryUsage / _MIB if stats.maxMemoryUsage <= _MOST_BYTES else None,
        life_s=None if stats.isRunning or not 0 <= life_ms <= _MOST_MS else life_ms / 1000.0,
    )
