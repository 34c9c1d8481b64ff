"""`geff -l`: what a job asked for and used, line by line, what is to be said, and what would have been enough."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.base.coded_text import sentence
from gsched.cli.render.efficiency.amounts import duration, energy, money, percent, size
from gsched.cli.render.efficiency.judged_job import JudgedJob
from gsched.cli.render.text.text_columns import fold, left, printable
from gsched.model.efficiency.job_use import JobUse, JudgedGpu
from gsched.model.gpus.gpu_use import is_mig_device

_WHAT, _AMOUNT = 22, 22


def efficiency_record(job: JudgedJob) -> str:
    """All of one job."""
    return "".join(_lines(job))


def _lines(job: JudgedJob) -> Iterator[str]:
    spec = job.view.spec
    name = f", Job Name <{printable(spec.shown_name(job.view.job_id))}>" if spec.name else ""
    yield fold(
        f"Job <{job.label}>{name}, User <{printable(spec.user)}>, Project <{printable(spec.project)}>, "
        f"Status <{job.view.state}>, Queue <{printable(spec.queue)}>, Command <{printable(spec.command)}>"
    )
    yield _row("", "USED", "ASKED FOR", "%")
    if job.use is not None:
        yield from _used(job, job.use)
    yield _row("Waiting time", duration(job.waited_s), "", "")
    if job.use is not None and job.use.gpus:
        yield _row("GPU time", f"{job.gpu_s / 3600:.2f} hours", "", "")
        yield _row("GPU energy", energy(job.energy_j), "", "")
    if job.prices.are_known:
        yield _row("Cost", _cost(job), "", "")
    for verdict in job.verdicts:
        yield f" VERDICT {printable(sentence(job.said(verdict)))}\n"
    if job.enough:  # never folded: it is to be copied
        yield f" ENOUGH  {printable(job.enough)}\n"


def _used(job: JudgedJob, use: JobUse) -> Iterator[str]:
    for gpu in use.gpus:
        yield from _gpu(gpu, job.gpu_mib.get(gpu.asked.uuid))
    usage, asked = use.usage, use.asked
    cores = "-" if use.cores is None else f"{use.cores:.2f} cores"
    peak = "" if usage.cpu_peak is None else f" (peak {usage.cpu_peak:.1f})"
    yield _row("CPU", cores + peak, f"{asked.slots} slot{'s' * (asked.slots > 1)}", percent(use.cpu_percent))
    asked_mib = "-" if asked.mem_mib is None else size(asked.mem_mib)
    yield _row("Memory (peak)", size(usage.max_mem_mib), asked_mib, percent(use.mem_percent))
    limit = "-" if asked.run_limit_s is None else duration(asked.run_limit_s)
    yield _row("Run time", duration(use.run_s), limit, percent(use.time_percent))


def _gpu(gpu: JudgedGpu, whole_mib: int | None) -> Iterator[str]:
    name = f"GPU {printable(gpu.asked.host)}:{gpu.asked.index}{' (MIG)' * is_mig_device(gpu.asked.uuid)}"
    share = "1" if gpu.asked.share == 1.0 else f"{gpu.asked.share:g}"
    mean, p95 = gpu.use.sm_mean, gpu.use.sm_p95
    used = "-" if mean is None else f"{mean:.0f} % busy"
    yield _row(name, used + ("" if p95 is None else f" (p95 {p95:.0f})"), share, percent(gpu.percent))
    asked_mib = gpu.asked.gmem_mib or None
    most = gpu.use.mem_max_mib
    of_asked = None if most is None or asked_mib is None else 100.0 * most / asked_mib
    of_gpu = "" if whole_mib is None else f" of {size(whole_mib)}"
    yield _row(
        "  its memory (peak)", size(most) + of_gpu, "-" if asked_mib is None else size(asked_mib), percent(of_asked)
    )


def _row(what: str, used: str, asked: str, part: str) -> str:
    return f" {left(what, _WHAT)}{left(used, _AMOUNT)} {left(asked, 12)} {part}".rstrip() + "\n"


def _cost(job: JudgedJob) -> str:
    """The whole, and its parts where both have a price."""
    cost, currency = job.cost, job.prices.currency
    total = money(cost.total, currency)
    if job.prices.gpu_hour is None or job.prices.kwh is None:
        return total
    return f"{total} (GPU time {money(cost.gpu_time, currency)}, energy {money(cost.energy, currency)})"
