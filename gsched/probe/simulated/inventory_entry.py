"""One GPU of an inventory file: the object that stands for it, how it is checked, and how it is written.

No file is touched here. What an object may hold is told in gsched.probe.simulated.inventory.
"""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from gsched.base.errors import BadRequest
from gsched.model.gpus import clock_reasons
from gsched.model.hosts.host import MOST_PROCESSES, ComputeMode, Gpu, GpuProcess, GpuXid, MigDevice, ProcessKind

MOST_TOLD = MOST_PROCESSES
"""Most errors of the driver that are listed for one GPU; older ones are dropped."""

DEFAULT_MODEL = "Tesla K80"
DEFAULT_MEMORY_MIB = 11441
DEFAULT_FACTOR = 3.7
"""The compute capability of the default model."""

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "simulated-gpu.gsched")
_MODES = {**{mode.value: mode for mode in ComputeMode}, "shared": ComputeMode.DEFAULT}

RANGES: dict[str, tuple[int, int]] = {
    "memory_mib": (0, 1 << 40),
    "used_mib": (0, 1 << 40),
    "utilization_percent": (0, 100),
    "temperature_c": (-273, 1000),
    "slowdown_c": (-273, 1000),
    "reserved_mib": (0, 1 << 40),
    "memory_utilization_percent": (0, 100),
    "power_w": (0, 100_000),
    "ecc_errors": (0, 1 << 40),
    "ecc_corrected": (0, 1 << 40),
    "throttle": (0, clock_reasons.MOST),
    "pstate": (0, 15),
    "recovery": (0, 100),
}
"""Reading -> the values that it may have."""


class _Process(msgspec.Struct, forbid_unknown_fields=True):
    pid: int
    user: str = ""
    used_mib: int | None = None
    kind: ProcessKind | None = None
    name: str = ""


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    uuid: str
    profile: str = ""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_mib: int | None = None


class InventoryEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One object of an inventory file."""

    uuid: str = ""
    index: int | None = None
    model: str = DEFAULT_MODEL
    memory_mib: int | None = DEFAULT_MEMORY_MIB
    compute_mode: str | None = ComputeMode.DEFAULT.value
    minor: int | None = None
    pci_bus_id: str = ""
    used_mib: int | None = 0
    utilization_percent: int | None = 0
    temperature_c: int | None = 30
    numa: int | None = None
    links: list[str] = []
    problem: str = ""
    reserved_mib: int | None = None
    memory_utilization_percent: int | None = None
    power_w: int | None = None
    ecc_errors: int | None = None
    ecc_corrected: int | None = None
    throttle: int | None = None
    pstate: int | None = None
    processes: list[_Process] | None = None
    mig: bool | None = None
    mig_devices: list[_Part] = []
    fault: str = ""
    xids: list[int] = []
    recovery: int | None = None
    slowdown_c: int | None = None
    factor: float | None = None


def simulated_uuid(host: str, index: int) -> str:
    """The UUID of a simulated GPU: the same host and index always give the same one."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{host}/{index}')}"


def simulated_gpu(host: str, index: int, mode: ComputeMode = ComputeMode.DEFAULT) -> Gpu:
    """A GPU of the default model at `index` of `host`."""
    return _gpu(InventoryEntry(compute_mode=mode.value), index, host, mode)


def parse_mode(text: str) -> ComputeMode:
    """The compute mode that a word names; "shared" is another word for default. Raises BadRequest."""
    mode = _MODES.get(text)
    if mode is None:
        raise BadRequest(f"'{text}' is no compute mode (known: {', '.join(_MODES)})")
    return mode


def checked(entry: InventoryEntry, place: int, host: str) -> Gpu:
    """The GPU at `place` of the list. Raises BadRequest naming the key that is wrong."""
    index = place if entry.index is None else entry.index
    within("index", index, 0, 1_000_000)
    within("minor", entry.minor, 0, 1_000_000)
    within("numa", entry.numa, 0, 1_000)
    for link in entry.links:
        one_line("links", link)
    for name, (low, high) in RANGES.items():
        within(name, getattr(entry, name), low, high)
    for number in entry.xids[:MOST_TOLD]:
        within("xids", number, 0, 999_999)
    for name in ("uuid", "model", "pci_bus_id", "problem", "fault"):
        one_line(name, getattr(entry, name))
    _check_lists(entry)
    mode = None if entry.compute_mode is None else parse_mode(entry.compute_mode)
    return _gpu(entry, index, host, mode)


def _check_lists(entry: InventoryEntry) -> None:
    lists = (("processes", entry.processes or []), ("mig_devices", entry.mig_devices), ("xids", entry.xids))
    for name, listed in lists:
        if len(listed) > MOST_PROCESSES:
            raise BadRequest(f"{name}: more than {MOST_PROCESSES}")
    for process in entry.processes or []:
        within("pid", process.pid, 1, 1 << 31)
        within("used_mib", process.used_mib, *RANGES["used_mib"])
        one_line("user", process.user)
        one_line("name", process.name)
    for part in entry.mig_devices:
        for name in ("gpu_instance", "compute_instance"):
            within(name, getattr(part, name), 0, 1_000)
        within("memory_mib", part.memory_mib, *RANGES["memory_mib"])
        for name in ("uuid", "profile"):
            one_line(name, getattr(part, name))
        if not part.uuid:
            raise BadRequest("mig_devices: a part without uuid")


def _gpu(entry: InventoryEntry, index: int, host: str, mode: ComputeMode | None) -> Gpu:
    return Gpu(
        uuid=entry.uuid or simulated_uuid(host, index),
        index=index,
        model=entry.model,
        mode=mode,
        memory_mib=entry.memory_mib,
        used_mib=entry.used_mib,
        utilization_percent=entry.utilization_percent,
        temperature_c=entry.temperature_c,
        pci_bus_id=entry.pci_bus_id or f"{index // 250:08X}:{index % 250 + 4:02X}:00.0",
        minor=index if entry.minor is None else entry.minor,
        numa=entry.numa,
        links=tuple(entry.links),
        problem=entry.problem,
        fault=entry.fault,
        xids=tuple(GpuXid(number=number) for number in entry.xids),
        slowdown_c=entry.slowdown_c,
        recovery=entry.recovery,
        factor=DEFAULT_FACTOR if entry.factor is None and entry.model == DEFAULT_MODEL else entry.factor,
        reserved_mib=entry.reserved_mib,
        memory_utilization_percent=entry.memory_utilization_percent,
        power_w=entry.power_w,
        ecc_errors=entry.ecc_errors,
        ecc_corrected=entry.ecc_corrected,
        throttle=entry.throttle,
        pstate=entry.pstate,
        process_count=None if entry.processes is None else len(entry.processes),
        processes=tuple(
            GpuProcess(pid=each.pid, user=each.user, used_mib=each.used_mib, kind=each.kind, name=each.name)
            for each in entry.processes or []
        ),
        mig=entry.mig,
        mig_devices=tuple(
            MigDevice(
                uuid=each.uuid,
                profile=each.profile,
                gpu_instance=each.gpu_instance,
                compute_instance=each.compute_instance,
                memory_mib=each.memory_mib,
            )
            for each in entry.mig_devices
        ),
    )


def within(name: str, value: int | None, low: int, high: int) -> None:
    """Raises BadRequest for a value outside of the range."""
    if value is not None and not low <= value <= high:
        raise BadRequest(f"{name} {value} is not between {low} and {high}")


def one_line(name: str, text: str) -> str:
    """The text. Raises BadRequest when it is not one short printable line."""
    if len(text) > 200 or not all(character.isprintable() for character in text):
        raise BadRequest(f"{name}: one line of at most 200 printable characters is wanted")
    return text


def written(gpu: Gpu) -> dict[str, Any]:
    """The object of a GPU: what `InventoryEntry` reads, without what others find out about it."""
    item: dict[str, Any] = msgspec.to_builtins(gpu)
    item["compute_mode"] = item.pop("mode")
    if item.pop("process_count") is None:
        item["processes"] = None
    for process in item["processes"] or ():
        del process["job"], process["escaped"]
    # Whoever looks at them finds that out.
    for what in ("foreign_mib", "over_gmem", "foreign_pids", "left_behind", "mps_lost", "hit"):
        del item[what]
    del item["standing_mode"], item["mode_settable"], item["mode_given"], item["moves_jobs"]
    item["xids"] = [xid["number"] for xid in item["xids"]]
    return item
