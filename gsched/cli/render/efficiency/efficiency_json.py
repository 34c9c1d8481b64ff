"""geff -json: numbers are numbers, null is unknown. Sizes are bytes, times seconds, energies joules."""

from __future__ import annotations

from typing import Any

from gsched.base.coded_text import CodedText, sentence
from gsched.cli.render.efficiency.judged_job import JudgedJob
from gsched.model.efficiency.cost import Cost, Prices, cost_of
from gsched.model.efficiency.job_use import JobUse, JudgedGpu
from gsched.model.views.gpu_sums import GpuSums

_MIB = 1 << 20


def efficiency_json(job: JudgedJob) -> dict[str, Any]:
    """All of one job."""
    spec, use = job.view.spec, job.use
    return {
        "JOBID": job.label,
        "USER": spec.user,
        "QUEUE": spec.queue,
        "PROJECT": spec.project,
        "JOB_NAME": spec.shown_name(job.view.job_id),
        "STAT": job.view.state,
        "WAITED": _rounded(job.waited_s),
        **(_use(use) if use is not None else {}),
        "GPU_TIME": _rounded(job.gpu_s),
        "GPU_ENERGY_CONSUMED": _rounded(job.energy_j),
        "COST": _cost(job.cost, job.prices),
        "VERDICTS": [
            {
                "WEIGHT": each.weight.value,
                "CODE": each.text.code,
                "VALUES": _values(each.text),
                "TEXT": sentence(each.text),
            }
            for each in job.verdicts
        ],
        "ENOUGH": job.enough or None,
    }


def _use(use: JobUse) -> dict[str, Any]:
    asked, usage = use.asked, use.usage
    return {
        "IS_OVER": use.is_over,
        "GPUS": [_gpu(gpu) for gpu in use.gpus],
        "GPU_PERCENT": _rounded(use.gpu_percent),
        "GPU_MEMORY_PERCENT": _rounded(use.gmem_percent),
        "SLOTS": asked.slots,
        "CORES_USED": _rounded(use.cores),
        "CORES_PEAK": _rounded(usage.cpu_peak),
        "CPU_PERCENT": _rounded(use.cpu_percent),
        "MEMORY_ASKED": _bytes(asked.mem_mib),
        "MAX_MEMORY_USED": _bytes(usage.max_mem_mib),
        "MEMORY_PERCENT": _rounded(use.mem_percent),
        "RUN_TIME": _rounded(use.run_s),
        "RUN_LIMIT": asked.run_limit_s,
        "RUN_TIME_PERCENT": _rounded(use.time_percent),
    }


def _gpu(gpu: JudgedGpu) -> dict[str, Any]:
    return {
        "HOST": gpu.asked.host,
        "GPU_ID": gpu.asked.index,
        "UUID": gpu.asked.uuid,
        "SHARE": gpu.asked.share,
        "SM_UTILIZATION": _rounded(gpu.use.sm_mean),
        "SM_UTILIZATION_P95": _rounded(gpu.use.sm_p95),
        "PERCENT": _rounded(gpu.percent),
        "MAX_GPU_MEMORY_USED": _bytes(gpu.use.mem_max_mib),
        "GPU_MEMORY_ASKED": _bytes(gpu.asked.gmem_mib or None),
        "SEEN_TIME": _rounded(gpu.use.covered_s),
        "NEVER_USED": gpu.is_unused,
    }


def sums_json(sums: GpuSums, week: str, by: str, prices: Prices) -> dict[str, Any]:
    """Those of one week and name."""
    known_j = sums.energy_j if sums.energy_jobs else None
    return {
        "WEEK": week,
        by.upper(): sums.name,
        "GPU_JOBS": sums.jobs,
        "GPU_TIME": _rounded(sums.held_s),
        "GPU_TIME_KNOWN": _rounded(sums.seen_s),
        "GPU_TIME_USED": _rounded(sums.busy_s),
        "GPU_TIME_WASTED": _rounded(max(0.0, sums.seen_s - sums.busy_s)),
        "KNOWN_JOBS": sums.seen_jobs,
        "GPU_ENERGY_CONSUMED": _rounded(known_j),
        "GPU_ENERGY_JOBS": sums.energy_jobs,
        "COST": _cost(cost_of(prices, sums.held_s, known_j), prices),
    }


def _cost(cost: Cost, prices: Prices) -> dict[str, Any] | None:
    if not prices.are_known:
        return None
    return {
        "TOTAL": _rounded(cost.total, 6),
        "GPU_TIME": _rounded(cost.gpu_time, 6),
        "ENERGY": _rounded(cost.energy, 6),
        "CURRENCY": prices.currency,
    }


def _values(text: CodedText) -> list[Any]:
    return [sentence(value) if isinstance(value, CodedText) else value for value in text.values]


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else round(mib * _MIB)
