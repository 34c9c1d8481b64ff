"""What NVML tells of a GPU beside its readings: identity, peers, MIG layout, and the processes on it.

Read-only. Runs in the process of `nvml`, where a call that hangs harms nobody else. Source of functions:
NVIDIA's NVML API reference; of NUMA nodes: the kernel's Documentation/ABI/testing/sysfs-bus-pci.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gsched.base.coded_text import AnyText, coded
from gsched.base.machine.program_name import program_name
from gsched.model.hosts.host import MOST_PROCESSES, GpuProcess, MigDevice, ProcessKind
from gsched.probe.nvidia.nvml_read import GpuReader, one_line, value_of

DEVICES = Path("/sys/bus/pci/devices")
MOST_MIG_DEVICES = 64
MOST_LINKED = 64
"""Peers are asked for pair by pair; on a host with more GPUs than this they are unknown."""

_MIB = 1024 * 1024
_NVLINK = 2
_PEER_OK = 0
_SLOWDOWN = 1
_WHOLE_NUMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""nvmlValueType_t -> where the value stands."""
_PROCESS_LISTS = {
    "nvmlDeviceGetComputeRunningProcesses": ProcessKind.COMPUTE,
    "nvmlDeviceGetGraphicsRunningProcesses": ProcessKind.GRAPHICS,
    "nvmlDeviceGetMPSComputeRunningProcesses": ProcessKind.MPS_CLIENT,
}


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot change while the driver is loaded. `minor` is that of /dev/nvidiaMINOR, which is not the index."""

    model: str
    pci_bus_id: str
    minor: int | None
    numa: int | None
    can_mig: bool
    slowdown_c: int | None = None
    factor: float | None = None
    """CUDA compute capability."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing that a later look could find."""
        return bool(self.model and self.pci_bus_id) and self.minor is not None


def read_facts(read: GpuReader, devices: Path = DEVICES) -> DeviceFacts:
    """The facts of one GPU."""
    pci = read("nvmlDeviceGetPciInfo")
    bus = "" if pci is None else one_line(pci.busId)
    return DeviceFacts(
        model=one_line(read("nvmlDeviceGetName")),
        pci_bus_id=bus,
        minor=read("nvmlDeviceGetMinorNumber"),
        numa=numa_node(bus, devices) if bus else None,
        can_mig=read("nvmlDeviceGetMigMode") is not None,
        slowdown_c=read("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN),
        factor=_factor(read("nvmlDeviceGetCudaComputeCapability")),
    )


def _factor(capability: Any) -> float | None:
    """8.6 for NVML's (8, 6)."""
    return None if not capability else float(f"{capability[0]}.{capability[1]}")


def read_memory_fault(read: GpuReader) -> AnyText:
    """What of the memory has failed for good; empty when nothing has. Rows and pages that are only waiting to be set
    aside at the next reset do not count: the driver keeps programs off them.
    """
    remapped = read("nvmlDeviceGetRemappedRows")
    return coded("gpu.memory_worn") if remapped and remapped[3] else ""


def read_recovery_action(api: Any, read: GpuReader) -> int | None:
    """What the driver wants to have done about the GPU, 0 nothing; older drivers do not say."""
    field = getattr(api, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    values = None if field is None else read("nvmlDeviceGetFieldValues", [field])
    if not values or values[0].nvmlReturn != api.NVML_SUCCESS:
        return None
    member = _WHOLE_NUMBERS.get(values[0].valueType)
    return None if member is None else int(getattr(values[0].value, member))


def numa_node(pci_bus_id: str, devices: Path = DEVICES) -> int | None:
    """The NUMA node that a PCI device hangs on; None where the kernel does not know it."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    try:
        node = int((devices / f"{domain[-4:].rjust(4, '0')}:{rest}" / "numa_node").read_text("ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def read_links(api: Any, uuids: Mapping[int, str]) -> dict[str, tuple[str, ...]]:
    """UUID -> UUIDs of the GPUs that it reaches over NVLink, directly or by a switch. `uuids`: by index."""
    linked: dict[str, list[str]] = {uuid: [] for uuid in uuids.values()}
    handles = {index: value_of(lambda number=index: api.nvmlDeviceGetHandleByIndex(number)) for index in uuids}  # type: ignore[misc]
    for one in uuids if len(uuids) <= MOST_LINKED else ():
        for other in uuids:
            if other > one and _are_peers(api, handles[one], handles[other]):
                linked[uuids[one]].append(uuids[other])
                linked[uuids[other]].append(uuids[one])
    return {uuid: tuple(peers) for uuid, peers in linked.items()}


def _are_peers(api: Any, one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    return value_of(lambda: api.nvmlDeviceGetP2PStatus(one, other, _NVLINK)) == _PEER_OK


def read_mig(api: Any, read: GpuReader) -> tuple[bool | None, tuple[MigDevice, ...]]:
    """Whether the GPU is split now, and into what."""
    modes = read("nvmlDeviceGetMigMode")
    if not modes or not modes[0]:
        return (None if not modes else False), ()
    most = min(read("nvmlDeviceGetMaxMigDeviceCount") or 0, MOST_MIG_DEVICES)
    return True, tuple(part for place in range(most) if (part := _mig_device(api, read, place)) is not None)


def _mig_device(api: Any, read: GpuReader, place: int) -> MigDevice | None:
    handle = read("nvmlDeviceGetMigDeviceHandleByIndex", place)
    if handle is None:
        return None
    of_part = GpuReader(api, handle)
    uuid = one_line(of_part("nvmlDeviceGetUUID"))
    attributes = of_part("nvmlDeviceGetAttributes")
    return MigDevice(
        uuid=uuid,
        profile=one_line(of_part("nvmlDeviceGetName")).rpartition("MIG ")[2],
        gpu_instance=of_part("nvmlDeviceGetGpuInstanceId"),
        compute_instance=of_part("nvmlDeviceGetComputeInstanceId"),
        memory_mib=None if attributes is None else attributes.memorySizeMB,
    )


def processes_of(read: GpuReader) -> tuple[int | None, tuple[GpuProcess, ...]]:
    """How many processes have a context on the GPU, and those that use the most memory. (None, ()): nobody knows.

    Their users are told by number.
    """
    used, kinds = memory_of_processes(read)
    if used is None:
        return None, ()
    found = sorted(used.items(), key=lambda each: (-(each[1] or 0), each[0]))[:MOST_PROCESSES]
    return len(used), tuple(
        GpuProcess(
            pid=pid,
            user=_owner(pid),
            used_mib=None if total is None else total // _MIB,
            kind=_kind(kinds[pid]),
            name=program_name(pid),
        )
        for pid, total in found
    )


def memory_of_processes(read: GpuReader) -> tuple[dict[int, int | None] | None, dict[int, set[ProcessKind]]]:
    """Bytes that each process with a context on the GPU has of its memory, and the lists in which each process stands.

    None: nobody knows which processes there are.
    """
    used: dict[int, int | None] = {}
    kinds: dict[int, set[ProcessKind]] = {}
    is_known = False
    for function, kind in _PROCESS_LISTS.items():
        listed = _listed(read, function)
        is_known = is_known or listed is not None
        for pid, total in _by_pid(listed or ()).items():
            kinds.setdefault(pid, set()).add(kind)
            # A program that computes and draws is in two lists, with the same memory in both.
            before = used.get(pid)
            used[pid] = total if before is None else before if total is None else max(before, total)
    return (used if is_known else None), kinds


def _kind(lists: set[ProcessKind]) -> ProcessKind:
    """What a process is that stands in these lists."""
    if ProcessKind.MPS_CLIENT in lists:
        return ProcessKind.MPS_CLIENT
    return ProcessKind.COMPUTE_AND_GRAPHICS if len(lists) > 1 else next(iter(lists))


def _listed(read: GpuReader, function: str) -> Any:
    """The list by its newest version: the name without one is refused where driver and bindings differ in age."""
    newest = read(f"{function}_v3")
    return newest if newest is not None else read(f"{function}_v2")


def _by_pid(listed: Iterable[Any]) -> dict[int, int | None]:
    """Memory of each process in bytes; on a GPU that is split one process may be listed for several parts."""
    found: dict[int, int | None] = {}
    for each in listed:
        before = found.get(each.pid)
        found[each.pid] = each.usedGpuMemory if before is None else before + (each.usedGpuMemory or 0)
    return found


def _owner(pid: int) -> str:
    """The user's number; empty for a process that is gone, or of a machine around this container.

    Not the owner of its folder in /proc, which becomes root's when a process forbids others to look into it (prctl(2)).
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return next((line.split()[1].decode() for line in file if line.startswith(b"Uid:")), "")
    except OSError:
        return ""
