"""`ghosts -gpu -l -json`: each GPU of each host with its readings, the jobs that hold it and the processes on it.

Names are those of `ghosts -gpu -l`. Numbers are numbers, sizes bytes, and null is what is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gsched.base.coded_text import sentence
from gsched.base.ids import show_job
from gsched.cli.render.hosts.gpu_tables import GpuUse, Uses, gpus_of, health
from gsched.model.gpus import clock_reasons
from gsched.model.hosts.host import Gpu, GpuProcess, MigDevice
from gsched.model.views.view import HostView

_MIB = 1 << 20


def host_gpu_records(hosts: Iterable[HostView], uses: Uses) -> Iterator[dict[str, Any]]:
    """One for each GPU, by host and index."""
    for host, gpu in gpus_of(hosts):
        yield {
            "HOST_NAME": host.name,
            **_device(gpu),
            "DRIVER": host.gpu_driver or None,
            **_readings(gpu),
            **_held(uses.get((host.name, gpu.uuid), GpuUse())),
            "MIG_DEVICES": [_part(part, uses.get((host.name, part.uuid), GpuUse())) for part in gpu.mig_devices],
            "PROCESS_COUNT": gpu.process_count,
            "PROCESSES": None if gpu.process_count is None else [_process(each) for each in gpu.processes],
        }


def _device(gpu: Gpu) -> dict[str, Any]:
    return {
        "GPU_ID": gpu.index,
        "UUID": gpu.uuid,
        "MODEL": gpu.model or None,
        "MTOTAL": _bytes(gpu.memory_mib),
        "SOCKET": gpu.numa,
        "PCI": gpu.pci_bus_id or None,
        "DEVICE": None if gpu.minor is None else f"/dev/nvidia{gpu.minor}",
        "MIG": gpu.mig,
        "LINKS": list(gpu.links),
    }


def _readings(gpu: Gpu) -> dict[str, Any]:
    return {
        "STATUS": health(gpu),
        "ERROR": sentence(gpu.problem) or None,
        "MODE": None if gpu.mode is None else gpu.mode.value,
        "MUSED": _bytes(gpu.used_mib),
        "TEMP": gpu.temperature_c,
        "ECC": gpu.ecc_errors,
        "ECC_CORR": gpu.ecc_corrected,
        "UT": gpu.utilization_percent,
        "MUT": gpu.memory_utilization_percent,
        "PSTATE": gpu.pstate,
        "POWER": gpu.power_w,
        "THROTTLE": None if gpu.throttle is None else list(clock_reasons.names_of(gpu.throttle)),
    }


def _held(use: GpuUse) -> dict[str, Any]:
    return {
        "MRSV": _bytes(use.reserved_mib),
        "JEXCL": use.alone,
        "RUNJOBIDS": list(use.running),
        "SUSPJOBIDS": list(use.suspended),
    }


def _part(part: MigDevice, use: GpuUse) -> dict[str, Any]:
    return {
        "UUID": part.uuid,
        "PROFILE": part.profile or None,
        "GI_ID": part.gpu_instance,
        "CI_ID": part.compute_instance,
        "MTOTAL": _bytes(part.memory_mib),
        **_held(use),
    }


def _process(process: GpuProcess) -> dict[str, Any]:
    number, _, _ = process.job.partition(".")
    return {
        "PID": process.pid,
        "TYPE": None if process.kind is None else process.kind.value,
        "NAME": process.name or None,
        "USER": process.user or None,
        "MUSED": _bytes(process.used_mib),
        "JOBID": show_job(int(number)) if number.isdigit() else None,
        "ESCAPED": process.escaped,
    }


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else round(mib * _MIB)
