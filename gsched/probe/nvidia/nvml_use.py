"""What is made of one GPU now, by NVML: computing, memory, power, the counter of energy, and what its processes do.

Read-only. Runs in the process of `nvml`, where a call that hangs harms nobody else. A value that no device
can have is taken for one that the driver cannot tell. Source of functions and units: NVIDIA's NVML API reference.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gsched.model.gpus.gpu_use import DeviceUse, ProcessUse
from gsched.model.hosts.host import ProcessKind
from gsched.probe.nvidia.nvml_accounts import AccountReader, Accounts
from gsched.probe.nvidia.nvml_facts import MOST_MIG_DEVICES, memory_of_processes
from gsched.probe.nvidia.nvml_gpm import GpmReader, GpmValues
from gsched.probe.nvidia.nvml_read import GpuReader, one_line, read_clock_reasons
from gsched.probe.nvidia.nvml_traffic import read_traffic

MOST_LISTED = 1024
"""Processes on one GPU that are told."""

_MIB = 1024 * 1024
_MOST_MW = 10_000_000
_MOST_MJ = 1 << 62
_MOST_ERRORS = 1 << 53
_NOT_BUSY = (0.0, 0.0)
_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0


class UseReader:
    """Remembers up to when each GPU has told what its processes do."""

    def __init__(self) -> None:
        self._told_us: dict[str, int] = {}
        self._hiding: set[str] = set()
        """GPUs whose driver tells of their MPS server, and not of its clients, that it computes."""
        self._gpm = GpmReader()
        self._accounts = AccountReader()

    def read(self, api: Any, index: int) -> DeviceUse | None:
        """The GPU with this index; None when it cannot be found."""
        try:
            handle = api.nvmlDeviceGetHandleByIndex(index)
            uuid = one_line(api.nvmlDeviceGetUUID(handle))
        except api.NVMLError:
            return None
        read = GpuReader(api, handle)
        rates = read("nvmlDeviceGetUtilizationRates")
        modes = read("nvmlDeviceGetMigMode")
        is_split = bool(modes and modes[0])
        gpm = self._gpm.read(api, read, uuid)
        used, kinds = memory_of_processes(read)
        accounts, ended = self._accounts.read(read, uuid, None if used is None else sorted(used)[:MOST_LISTED])
        return DeviceUse(
            uuid=uuid,
            sm_percent=_percent(None if rates is None else rates.gpu),
            traffic_percent=_percent(None if rates is None else rates.memory),
            used_mib=_used_mib(api, read),
            power_w=_within(read("nvmlDeviceGetPowerUsage"), _MOST_MW, 1000.0),
            power_limit_w=_within(read("nvmlDeviceGetEnforcedPowerLimit"), _MOST_MW, 1000.0) or None,
            energy_j=_within(read("nvmlDeviceGetTotalEnergyConsumption"), _MOST_MJ, 1000.0),
            throttle=read_clock_reasons(read),
            counters={**read_traffic(api, read), **_errors(read)},
            rates=gpm.rates,
            profile=gpm.profile,
            processes=None if used is None else self._processes(api, read, uuid, used, kinds, accounts),
            ended=tuple(ProcessUse(pid=pid, account=account) for pid, account in ended.items()),
            parts=self._parts(api, read, uuid) if is_split else (),
        )

    def _parts(self, api: Any, board: GpuReader, board_uuid: str) -> tuple[DeviceUse, ...]:
        """The parts by MIG. NVML tells of their memory and processes, of their work where the GPU has GPM and nobody
        else is in the same GPU instance, and never of their power.
        """
        most = min(board("nvmlDeviceGetMaxMigDeviceCount") or 0, MOST_MIG_DEVICES)
        handles = (board("nvmlDeviceGetMigDeviceHandleByIndex", place) for place in range(most))
        readers = [GpuReader(api, handle) for handle in handles if handle is not None]
        instances = [read("nvmlDeviceGetGpuInstanceId") for read in readers]
        found = []
        for read, instance in zip(readers, instances, strict=True):
            uuid, gpm = one_line(read("nvmlDeviceGetUUID")), GpmValues()
            if instance is not None and instances.count(instance) == 1:
                gpm = self._gpm.read_part(api, board, board_uuid, uuid, instance)
            found.append(_part(api, read, uuid, gpm))
        return tuple(found)

    def _processes(
        self,
        api: Any,
        read: GpuReader,
        uuid: str,
        used: dict[int, int | None],
        kinds: dict[int, set[ProcessKind]],
        accounts: Accounts,
    ) -> tuple[ProcessUse, ...]:
        busy = self._sm_percents(api, read, uuid)
        unknown = self._hidden_clients(uuid, busy or {}, kinds)
        return tuple(
            ProcessUse(
                pid=pid,
                # Of one that is not listed there the driver says by that that it did not compute.
                sm_percent=None if busy is None or pid in unknown else busy.get(pid, _NOT_BUSY)[0],
                sm_peak=None if busy is None or pid in unknown else busy.get(pid, _NOT_BUSY)[1],
                used_mib=None if used[pid] is None else (used[pid] or 0) / _MIB,
                account=accounts.get(pid),
            )
            for pid in sorted(used)[:MOST_LISTED]
        )

    def _hidden_clients(self, uuid: str, busy: Collection[int], kinds: dict[int, set[ProcessKind]]) -> Collection[int]:
        """Clients of MPS of which the driver does not tell whether they compute: they do it through a server, and where
        that one is told instead of them nobody knows whose work it was. `busy`: processes of which it tells.
        """
        clients = {pid for pid, lists in kinds.items() if ProcessKind.MPS_CLIENT in lists}
        if not clients.isdisjoint(busy):
            self._hiding.discard(uuid)
        elif clients and busy:
            self._hiding.add(uuid)
        return clients if uuid in self._hiding else ()

    def _sm_percents(self, api: Any, read: GpuReader, uuid: str) -> dict[int, tuple[float, float]] | None:
        """Process id -> its mean use since the last look, and the most of it; None where the driver does not tell."""
        since_us = self._told_us.get(uuid, 0)
        try:
            samples = api.nvmlDeviceGetProcessUtilization(read.handle, since_us)
        except AttributeError:  # bindings older than the function
            return None
        except api.NVMLError as problem:
            is_silent = isinstance(problem, api.NVMLError_NotFound)
            return {} if is_silent and not self._was_set_back(api, read, uuid) else None
        found: dict[int, list[int]] = {}
        for each in samples:
            if each.timeStamp > since_us and each.smUtil <= 100:
                found.setdefault(int(each.pid), []).append(int(each.smUtil))
        latest_us = max((int(each.timeStamp) for each in samples), default=0)
        if latest_us:
            self._told_us[uuid] = latest_us  # also an earlier one: its clock was set back
        return {pid: (sum(values) / len(values), float(max(values))) for pid, values in found.items()}

    def _was_set_back(self, api: Any, read: GpuReader, uuid: str) -> bool:
        """Whether the driver's clock stands earlier than what it told last: nothing is newer than that, whatever the
        processes do. From now on its own time counts again.
        """
        try:
            samples = api.nvmlDeviceGetProcessUtilization(read.handle, 0)
        except api.NVMLError:
            return False
        latest_us = max((int(each.timeStamp) for each in samples), default=0)
        if not 0 < latest_us < self._told_us.get(uuid, 0):
            return False
        self._told_us[uuid] = latest_us
        return True


def _part(api: Any, read: GpuReader, uuid: str, gpm: GpmValues) -> DeviceUse:
    used, _ = memory_of_processes(read)
    listed = None if used is None else sorted(used.items())[:MOST_LISTED]
    return DeviceUse(
        uuid=uuid,
        sm_percent=gpm.busy,
        used_mib=_used_mib(api, read),
        profile=gpm.profile,
        processes=None
        if listed is None
        else tuple(ProcessUse(pid=pid, used_mib=None if size is None else size / _MIB) for pid, size in listed),
    )


def _errors(read: GpuReader) -> dict[str, float]:
    """Memory errors since the driver was loaded."""
    found = {
        "ecc_errors": _within(read("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE), _MOST_ERRORS, 1.0),
        "ecc_corrected": _within(read("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE), _MOST_ERRORS, 1.0),
    }
    return {name: count for name, count in found.items() if count is not None}


def _used_mib(api: Any, read: GpuReader) -> float | None:
    memory = read("nvmlDeviceGetMemoryInfo", getattr(api, "nvmlMemory_v2", 0))
    if memory is None:  # a driver before 510 has the first version alone
        memory = read("nvmlDeviceGetMemoryInfo")
    return None if memory is None or memory.used > memory.total else memory.used / _MIB


def _percent(value: int | None) -> float | None:
    return _within(value, 100, 1.0)


def _within(value: int | None, most: int, unit: float) -> float | None:
    return None if value is None or not 0 <= value <= most else value / unit
