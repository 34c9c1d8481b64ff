"""What jobs made of their GPUs, for -json: the numbers of `-l -gpu` under the same names, and the curves.

Numbers are numbers here, and null is what is unknown. Sizes are bytes, times seconds, a curve's three values the
smallest, the mean and the largest of their span of time. Where nobody looked a curve has no point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsched.cli.render.jobs.job_devices import GpuOfJob
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.model.gpus.gpu_curve import GpuCurve, Spread
from gsched.model.gpus.gpu_use import GpuUsage, ProcessShare, of_job
from gsched.model.hosts.host import GpuProcess
from gsched.model.jobs.job import Usage

_MIB = 1 << 20
_QUANTITIES = {
    "sm": ("SM_UTILIZATION", 1),
    "traffic": ("MEMORY_UTILIZATION", 1),
    "mem": ("GPU_MEMORY_USED", _MIB),
    "power": ("POWER", 1),
    "sm_active": ("SM_ACTIVE", 1),
    "occupancy": ("SM_OCCUPANCY", 1),
    "tensor": ("TENSOR_ACTIVE", 1),
    "dram": ("MEMORY_BANDWIDTH", 1),
}
"""Of a curve: the name that is shown, and what a unit of it is."""

Curves = Mapping[tuple[str, str], GpuCurve]
"""By host and UUID."""


def gpu_records(uses: Sequence[GpuUsage], curves: Curves | None = None) -> list[dict[str, Any]]:
    """One for each GPU; with `curves` each has one, null where none is known."""
    found = []
    for use in uses:
        record = _gpu(use)
        if curves is not None:
            curve = curves.get((use.host, use.uuid))
            record["CURVE"] = None if curve is None else _curve(curve)
        found.append(record)
    return found


def _gpu(use: GpuUsage) -> dict[str, Any]:
    return {
        "HOST": use.host,
        "GPU_ID": use.index,
        "UUID": use.uuid,
        "TOTAL_EXECUTION_TIME": _rounded(use.covered_s) if use.samples else None,
        "ENERGY_CONSUMED": _rounded(use.energy_j),
        "ENERGY_COUNTED": use.energy_counted if use.energy_j is not None else None,
        "SM_UTILIZATION": {
            "AVG": _rounded(use.sm_mean),
            "MAX": _rounded(use.sm_max),
            "MIN": _rounded(use.sm_min),
            "MEDIAN": _rounded(use.sm_median),
            "P95": _rounded(use.sm_p95),
        },
        "MEMORY_UTILIZATION": {
            "AVG": _rounded(use.traffic_mean),
            "MAX": _rounded(use.traffic_max),
            "MIN": _rounded(use.traffic_min),
        },
        "MAX_GPU_MEMORY_USED": _bytes(use.mem_max_mib),
        "AVG_GPU_MEMORY_USED": _bytes(use.mem_mean_mib),
        "AVG_POWER": _rounded(use.power_mean_w),
        "IDLE_TIME": _rounded(use.idle_s),
        "TIME_WITHOUT_PROCESS": _rounded(use.no_process_s),
        "THROTTLED_TIME": _rounded(use.throttled_s),
        "THROTTLED_TIME_POWER": _rounded(use.throttled_power_s),
        "THROTTLED_TIME_HEAT": _rounded(use.throttled_heat_s),
        "ECC_UNCORRECTED": _rounded(use.ecc_errors),
        "ECC_CORRECTED": _rounded(use.ecc_corrected),
        "NVLINK_SENT": _bytes(use.nvlink_tx_mib),
        "NVLINK_RECEIVED": _bytes(use.nvlink_rx_mib),
        "PCIE_SENT": _bytes(use.pcie_tx_mib),
        "PCIE_RECEIVED": _bytes(use.pcie_rx_mib),
        "SM_ACTIVE": _rounded(use.sm_active_mean),
        "SM_OCCUPANCY": _rounded(use.occupancy_mean),
        "TENSOR_ACTIVE": _rounded(use.tensor_mean),
        "MEMORY_BANDWIDTH": _rounded(use.dram_mean),
        "PROCESS_USE": [_share(each) for each in use.processes],
        "OTHER_PROCESSES": use.more_processes,
    }


def _share(process: ProcessShare) -> dict[str, Any]:
    return {
        "PID": process.pid,
        "NAME": process.name or None,
        "TIME": _rounded(process.seconds),
        "SM_UTILIZATION": {"AVG": _rounded(process.sm_mean), "MAX": _rounded(process.sm_max)},
        "MAX_GPU_MEMORY_USED": _bytes(process.mem_max_mib),
        "ACCOUNTED": process.is_accounted,
        "ENDED": process.has_ended,
    }


def job_record(job: ShownJob) -> dict[str, Any]:
    """A job with each of its GPUs: what it is, and what the job has made of it."""
    uses = {(use.host, use.uuid): use for use in job.usage.gpus}
    return {
        **named_record(job),
        "STAT": job.view.state,
        "CPU_TIME": cpu_time(job.usage),
        "GPU_ENERGY_CONSUMED": energy_of(job.usage.gpus, len(job.gpus_held)),
        "GPUS": [_held(gpu, uses.get((gpu.host, gpu.uuid))) for gpu in job.gpus_held],
    }


def named_record(job: ShownJob) -> dict[str, Any]:
    """Which job it is."""
    spec = job.spec
    return {
        "JOBID": job.label,
        "USER": spec.user,
        "QUEUE": spec.queue,
        "PROJECT": spec.project,
        "JOB_NAME": job.display_name,
    }


def _held(gpu: GpuOfJob, use: GpuUsage | None) -> dict[str, Any]:
    device = {
        "MODEL": gpu.model or None,
        "MTOTAL": _bytes(gpu.memory_mib),
        "MRSV": _bytes(gpu.reserved_mib),
        "SOCKET": gpu.socket,
        "PROCESSES": [_process(each) for each in gpu.processes],
    }
    return {**_gpu(use or GpuUsage(host=gpu.host, index=gpu.index, uuid=gpu.uuid)), **device}


def _process(process: GpuProcess) -> dict[str, Any]:
    return {
        "PID": process.pid,
        "TYPE": None if process.kind is None else process.kind.value,
        "NAME": process.name or None,
        "MUSED": _bytes(process.used_mib),
    }


def _curve(curve: GpuCurve) -> dict[str, Any]:
    points = []
    for point in curve.points:
        record: dict[str, Any] = {"TIME": _rounded(curve.since + point.slot * curve.step_s)}
        for name, spread in point.values.items():
            shown, unit = _QUANTITIES.get(name, (name.upper(), 1))
            record[shown] = _spread(spread, unit)
        points.append(record)
    return {"SINCE": _rounded(curve.since), "STEP": _rounded(curve.step_s), "POINTS": points}


def _spread(spread: Spread, unit: int) -> list[float]:
    return [round(value * unit) if unit > 1 else round(value, 1) for value in spread]


def cpu_time(usage: Usage | None) -> float | None:
    """Seconds; whatever ran has used some, so 0 is that nobody has looked."""
    return round(usage.cpu_s, 3) if usage is not None and usage.cpu_s > 0.0 else None


def energy_of(uses: Sequence[GpuUsage], devices: int) -> float | None:
    """Energy of so many devices together; None when it is unknown of one."""
    return _rounded(of_job(uses, devices).energy_j)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else round(mib * _MIB)
