"""What many finished jobs made of their GPUs together: `gacct -gpu`.

A job of which something is unknown is left out of that sum, and counted as unknown. Layout: as the lines of bacct's
summary, behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gsched.model.gpus.gpu_use import of_job
from gsched.model.views.view import JobView

_MIB = 1 << 20


@dataclass(slots=True)
class KnownSum:
    """A sum over those jobs of which the value is known."""

    jobs: int = 0
    total: float = 0.0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.jobs += 1
            self.total += value

    @property
    def known(self) -> float | None:
        """None: it is known of no job."""
        return self.total if self.jobs else None


@dataclass(slots=True)
class GpuUseSummary:
    """What all jobs that had GPUs made of them."""

    jobs: int = 0
    energy_j: KnownSum = field(default_factory=KnownSum)
    idle_s: KnownSum = field(default_factory=KnownSum)
    busy_s: KnownSum = field(default_factory=KnownSum)
    """Utilization by time, summed over GPUs."""
    looked_s: float = 0.0
    """GPU seconds that `busy_s` is of."""
    most_mib: float | None = None

    def add(self, job: JobView) -> None:
        """Count a job in, if it had GPUs."""
        held = sum(len(part.gpus) for part in job.allocation.hosts) if job.allocation is not None else 0
        if not held:
            return
        self.jobs += 1
        uses = job.result.usage.gpus if job.result is not None else ()
        whole = of_job(uses, held)
        self.energy_j.add(whole.energy_j)
        self.idle_s.add(whole.idle_s)
        if whole.util_percent is not None:
            self.busy_s.add(sum((use.sm_mean or 0.0) / 100.0 * use.covered_s for use in uses))
            self.looked_s += sum(use.covered_s for use in uses)
        if whole.mem_max_mib is not None:
            self.most_mib = max(self.most_mib or 0.0, whole.mem_max_mib)

    @property
    def util_percent(self) -> float | None:
        """By time and GPU."""
        return 100.0 * self.busy_s.total / self.looked_s if self.looked_s else None


def render_use_summary(summary: GpuUseSummary) -> str:
    """The block; empty when no job had GPUs."""
    if not summary.jobs:
        return ""
    energy, idle, busy = summary.energy_j, summary.idle_s, summary.busy_s
    most = "-" if summary.most_mib is None else f"{summary.most_mib * _MIB:.0f} bytes"
    lines = [
        f"GPU USAGE:    ( of {summary.jobs} job(s) with GPUs; a job of which it is unknown does not count ) ",
        f" Total GPU energy consumed: {_number(energy.known)} Joules, in {energy.jobs} job(s)",
        f" Average SM utilization: {_number(summary.util_percent)} %, in {busy.jobs} job(s)",
        f" Total idle time of GPUs: {_number(idle.known)} seconds, in {idle.jobs} job(s)",
        f" Maximum GPU memory used on one GPU: {most}",
    ]
    return "\n" + "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def use_summary_record(summary: GpuUseSummary) -> dict[str, Any]:
    """The same for -json: null is unknown."""
    return {
        "GPU_JOBS": summary.jobs,
        "GPU_ENERGY_CONSUMED": _rounded(summary.energy_j.known),
        "GPU_ENERGY_JOBS": summary.energy_j.jobs,
        "SM_UTILIZATION": _rounded(summary.util_percent),
        "SM_UTILIZATION_JOBS": summary.busy_s.jobs,
        "IDLE_TIME": _rounded(summary.idle_s.known),
        "IDLE_TIME_JOBS": summary.idle_s.jobs,
        "MAX_GPU_MEMORY_USED": None if summary.most_mib is None else round(summary.most_mib * _MIB),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
