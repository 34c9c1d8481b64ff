"""Trackable resources as Slurm writes them, `cpu=4,gres/gpu=2,mem=16G,node=1`, and sizes with their units.

Source: sacct(1), AllocTRES and TRESUsageInTot, of Slurm 22.05.
"""

from __future__ import annotations

from gsched.cli.slurm.facts.job_facts import SlurmJob
from gsched.cli.slurm.facts.job_steps import SlurmStep
from gsched.cli.slurm.facts.slurm_clock import long_duration
from gsched.model.gpus.gpu_use import of_job

_LETTERS = "KMGTP"


def shown_size(mib: float, unit: str = "") -> str:
    """`16G`, `1500M`: the largest unit in which it is a whole number, or the one that is asked for (`raw`: in MiB)."""
    if unit == "raw":
        return f"{mib:.0f}M"
    if unit:
        amount = mib * 1024 / 1024 ** _LETTERS.index(unit)
        return f"{amount:.2f}{unit}" if amount % 1 else f"{amount:.0f}{unit}"
    size, letter = round(mib), 1
    while size and not size % 1024 and letter < len(_LETTERS) - 1:
        size, letter = size // 1024, letter + 1
    return f"{size}{_LETTERS[letter]}"


def shown_use(mib: float | None, unit: str = "") -> str:
    """Memory or bytes that were used: `10536K`, with `raw` in bytes; empty where nobody knows."""
    if mib is None:
        return ""
    if unit == "raw":
        return f"{mib * 1024 * 1024:.0f}"
    return shown_size(mib, unit) if unit else f"{mib * 1024:.0f}K"


def held_tres(job: SlurmJob, unit: str = "") -> str:
    """What it holds or held; empty while it waits."""
    return _tres(job, unit) if job.parts else ""


def requested_tres(job: SlurmJob, unit: str = "") -> str:
    """What it asked for."""
    return _tres(job, unit)


def _tres(job: SlurmJob, unit: str) -> str:
    memory = job.memory_mib * job.nodes
    found = [f"billing={job.cpus}", f"cpu={job.cpus}"]
    found += [f"gres/gpu={job.gpus}"] if job.gpus else []
    found += [f"mem={shown_size(memory, unit)}"] if memory else []
    return ",".join([*found, f"node={job.nodes}"])


def step_tres(step: SlurmStep, unit: str = "") -> str:
    """What a step has of its job."""
    if step.facts is None:
        return held_tres(step.job, unit)
    gpus = [f"gres/gpu={step.facts.gpus}"] if step.facts.gpus else []
    return ",".join([f"cpu={step.cpus}", *gpus, f"node={step.nodes}"])


def used_by_step(step: SlurmStep, unit: str = "") -> str:
    """What the tasks of a step have used that have ended; nothing of it is known of others."""
    found = [f"cpu={long_duration(step.cpu_s)}"] if step.cpu_s is not None else []
    return ",".join([*found, *([f"mem={shown_use(step.max_mem_mib, unit)}"] if step.max_mem_mib is not None else [])])


def used_tres(job: SlurmJob, unit: str = "") -> str:
    """What its script and all that it started have used; `gres/gpuutil` is the percentage of the mean GPU."""
    usage = job.usage
    gpus = of_job(usage.gpus, sum(len(part.gpus) for part in job.parts))
    found = [f"cpu={long_duration(usage.cpu_s)}"]
    if gpus.energy_j is not None:
        found.append(f"energy={gpus.energy_j:.0f}")
    if usage.read_mib is not None:
        found.append(f"fs/disk={usage.read_mib * 1024 * 1024:.0f}")
    if gpus.mem_max_mib is not None:
        found.append(f"gres/gpumem={shown_size(gpus.mem_max_mib, unit)}")
    if gpus.util_percent is not None:
        found.append(f"gres/gpuutil={gpus.util_percent:.0f}")
    if usage.max_mem_mib is not None:
        found.append(f"mem={shown_use(usage.max_mem_mib, unit)}")
    if usage.max_swap_mib is not None:
        found.append(f"vmem={shown_use(usage.max_swap_mib + (usage.max_mem_mib or 0.0), unit)}")
    return ",".join(found)


def written_tres(job: SlurmJob) -> str:
    """What it has written."""
    written = job.usage.written_mib
    return f"fs/disk={written * 1024 * 1024:.0f}" if written is not None else ""


def gres_per_node(job: SlurmJob) -> str:
    """`gres:gpu:2`, or `N/A`."""
    return f"gres:gpu:{job.gpus_per_node}" if job.gpus_per_node else "N/A"
