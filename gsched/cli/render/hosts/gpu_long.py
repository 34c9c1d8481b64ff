"""`ghosts -gpu -l`: each GPU of a host: what it is, how it does, which jobs hold it and which processes are on it.

Layout: bhosts -gpu -l of LSF 10.1, titles and order of its sections and columns. The device, memory that is free,
power, corrected errors, reasons for low clocks and the GPU PROCESSES are gsched's own: columns behind LSF's, and a
section of their own behind the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo

from gsched.base.coded_text import sentence
from gsched.base.ids import show_job
from gsched.cli.render.hosts.gpu_tables import (
    GpuUse,
    Uses,
    closure_lines,
    gpus_of,
    health,
    is_just_closed,
    model_name,
    number,
    size,
)
from gsched.cli.render.text.text_columns import left, printable
from gsched.model.gpus import clock_reasons
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, MigDevice
from gsched.model.ledgers.devices import room_mib, usable_by_claim
from gsched.model.views.view import HostView

_EXCLUSIVE = (ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.EXCLUSIVE_THREAD)


def render_long_gpus(hosts: Iterable[HostView], uses: Uses, zone: tzinfo) -> str:
    """A record for each host that has GPUs."""
    return "\n".join(_host(host, uses, zone) for host in hosts if host.gpus)


def _host(host: HostView, uses: Uses, zone: tzinfo) -> str:
    gpus = [gpu for _, gpu in gpus_of([host])]
    held = {gpu.uuid: uses.get((host.name, gpu.uuid), GpuUse()) for gpu in gpus}
    return (
        f"HOST: {printable(host.name)}\n"
        + _columns([("NGPUS", "NGPUS_SHARED_AVAIL", "NGPUS_EXCLUSIVE_AVAIL"), _counts(host)])
        + "\nSTATIC ATTRIBUTES\n"
        + _columns([_STATIC, *(_static(host, gpu, gpus) for gpu in gpus)])
        + "\nDYNAMIC ATTRIBUTES\n"
        + _columns([_DYNAMIC, *(_dynamic(gpu, held[gpu.uuid]) for gpu in gpus)])
        + _faults(gpus)
        + "".join(closure_lines(host, zone))
        + "\nGPU JOB INFORMATION\n"
        + _columns([_JOBS, *(_jobs(gpu, held[gpu.uuid]) for gpu in gpus)])
        + _parts(host, gpus, uses)
        + "\nGPU PROCESSES\n"
        + _columns([_PROCESSES, *(row for gpu in gpus for row in _processes(gpu))])
    )


def _counts(host: HostView) -> tuple[str, ...]:
    """GPUs, and of those that nobody holds the ones in shared and in exclusive mode."""
    free = {view.gpu.uuid: view.gpu for view in host.gpus if not view.holders}
    usable = usable_by_claim(free)["ngpus"]
    exclusive = sum(gpu.counted_mode in _EXCLUSIVE for gpu in usable)
    return str(len(host.gpus)), str(len(usable) - exclusive), str(exclusive)


_STATIC = (
    *("GPU_ID", "MODEL", "MTOTAL", "FACTOR", "SOCKET", "VENDOR", "MIG", "NVLINK/XGMI", "PCI", "DEVICE", "UUID"),
    "DRIVER",
)


def _static(host: HostView, gpu: Gpu, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    peers = "/".join("-" if each is gpu else "Y" if each.uuid in gpu.links else "N" for each in gpus)
    return (
        str(gpu.index),
        model_name(gpu.model),
        size(gpu.memory_mib),
        "-",
        number(gpu.numa),
        "Nvidia" if host.gpu_provider in ("nvml", "simulated") else "-",
        _mig(gpu),
        peers if gpu.links else "-",
        printable(gpu.pci_bus_id) or "-",
        "-" if gpu.minor is None else f"/dev/nvidia{gpu.minor}",
        printable(gpu.uuid),
        printable(host.gpu_driver) or "-",
    )


def _mig(gpu: Gpu) -> str:
    """`-` where it cannot be, `N`, or what the GPU is split into: `2*1g.10gb,3g.40gb`."""
    if not gpu.mig:
        return "-" if gpu.mig is None else "N"
    profiles = [printable(part.profile) or "?" for part in gpu.mig_devices]
    counts = {profile: profiles.count(profile) for profile in sorted(profiles)}
    return ",".join(name if count == 1 else f"{count}*{name}" for name, count in counts.items()) or "Y"


_DYNAMIC = (
    *("GPU_ID", "MODE", "MUSED", "MRSV", "TEMP", "ECC", "UT", "MUT", "PSTATE", "STATUS", "ERROR"),
    *("MFREE", "POWER", "ECC_CORR", "THROTTLE"),
)


def _dynamic(gpu: Gpu, use: GpuUse) -> tuple[str, ...]:
    room = room_mib(gpu, is_held=bool(use.running or use.suspended))
    return (
        str(gpu.index),
        "-" if gpu.mode is None else "SHARED" if gpu.mode is ComputeMode.DEFAULT else gpu.mode.name,
        size(gpu.used_mib),
        size(use.reserved_mib),
        number(gpu.temperature_c, "C"),
        number(gpu.ecc_errors),
        number(gpu.utilization_percent, "%"),
        number(gpu.memory_utilization_percent, "%"),
        number(gpu.pstate),
        health(gpu),
        "see below" if gpu.problem else "-",
        size(None if room is None or gpu.used_mib is None else max(0.0, room - use.reserved_mib)),
        number(gpu.power_w, "W"),
        number(gpu.ecc_corrected),
        "-" if gpu.throttle is None else ",".join(clock_reasons.names_of(gpu.throttle)) or "none",
    )


def _faults(gpus: Iterable[Gpu]) -> str:
    failed = (gpu for gpu in gpus if gpu.problem and not is_just_closed(gpu))
    return "".join(f"ERROR of GPU {gpu.index}: {printable(sentence(gpu.problem))}\n" for gpu in failed)


_JOBS = ("GPU_ID", "JEXCL", "RUNJOBIDS", "SUSPJOBIDS", "RSVJOBIDS")


def _jobs(gpu: Gpu, use: GpuUse) -> tuple[str, ...]:
    exclusive = "Y" if use.alone else "N" if use.running or use.suspended else "-"
    return str(gpu.index), exclusive, " ".join(use.running) or "-", " ".join(use.suspended) or "-", "-"


_PARTS = ("GPU_ID", "PROFILE", "GI_ID", "CI_ID", "MTOTAL", "JEXCL", "RUNJOBIDS", "SUSPJOBIDS", "UUID")


def _parts(host: HostView, gpus: Iterable[Gpu], uses: Uses) -> str:
    """What MIG has made of the GPUs and which jobs have it; nothing where no GPU is split."""
    rows = [
        _part(gpu, part, uses.get((host.name, part.uuid), GpuUse()))
        for gpu in gpus
        for part in (gpu.mig_devices if gpu.mig else ())
    ]
    return "\nMIG DEVICES\n" + _columns([_PARTS, *rows]) if rows else ""


def _part(gpu: Gpu, part: MigDevice, use: GpuUse) -> tuple[str, ...]:
    _, *jobs, _ = _jobs(gpu, use)
    ids = (number(part.gpu_instance), number(part.compute_instance))
    return str(gpu.index), printable(part.profile) or "-", *ids, size(part.memory_mib), *jobs, printable(part.uuid)


_PROCESSES = ("GPU_ID", "PID", "USER", "MUSED", "JOBID", "TYPE", "NAME")
_NAME_WIDTH = 40
"""A longer name is cut at its beginning, as nvidia-smi does it."""


def _processes(gpu: Gpu) -> list[tuple[str, ...]]:
    if gpu.process_count is None:
        return [(str(gpu.index), *["-"] * 6)]
    rows: list[tuple[str, ...]] = [
        (
            str(gpu.index),
            str(each.pid),
            printable(each.user) or "-",
            size(each.used_mib),
            _job(each),
            each.kind or "-",
            _cut(printable(each.name)) or "-",
        )
        for each in gpu.processes
    ]
    more = gpu.process_count - len(gpu.processes)
    return [*rows, (str(gpu.index), f"and {more} more", *["-"] * 5)] if more > 0 else rows


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else "..." + name[3 - _NAME_WIDTH :]


def _job(process: GpuProcess) -> str:
    number, _, _ = process.job.partition(".")
    if not number.isdigit():
        return "foreign"
    return show_job(int(number)) + (" ESCAPED" if process.escaped else "")


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Left-justified, each column as wide as what stands in it."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "".join(
        "  ".join(left(text, width) for text, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )
