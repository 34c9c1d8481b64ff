"""What is said of how well a job used what it asked for: codes with parameters, the gravest first.

Limits in the manner of Princeton's jobstats (PrincetonUniversity/jobstats, config.py): below the first of a pair it is
grave, below the second worth a note. Nothing is said of what is unknown, and nothing of a job that ran for too short.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from gsched.base.coded_text import CodedText, coded
from gsched.model.efficiency.job_use import JobUse

GPU_GRAVE, GPU_NOTE = 15.0, 25.0
"""Percent of the time that the GPUs which were used at all computed."""
CPU_GRAVE, CPU_NOTE = 65.0, 80.0
"""Percent of the time of all slots."""
TIME_GRAVE, TIME_NOTE = 10.0, 60.0
"""Percent of the run limit."""
MEMORY_NOTE = 70.0
"""Percent of memory that was reserved, on the host or on a GPU."""
LEAST_MIB = 1024.0
"""Of memory that was reserved and not used: less is not worth a word."""
MIN_RUN_S = 300.0
"""EFFICIENCY_MIN_RUN: of a job that ran for a shorter time nothing is said."""
SPARE_CORES = 0.1
"""So much of a core is nobody's need: the shell that waits for a program."""
_GIB = 1024.0
_UNUSED = ("efficiency.gpus_unused", "efficiency.gpus_unused.one", "efficiency.gpus_unused.all")
_IDLE = ("efficiency.gpus_idle", "efficiency.gpus_idle.one", "efficiency.gpus_idle.all")


class Weight(StrEnum):
    """How grave a verdict is. A value never changes: programs read it in JSON."""

    GRAVE = "grave"
    NOTE = "note"
    GOOD = "good"
    """Nothing is wrong."""
    UNKNOWN = "unknown"
    """Nothing can be said."""


class EfficiencyVerdict(msgspec.Struct, frozen=True):
    """One sentence."""

    weight: Weight
    text: CodedText


def verdicts(use: JobUse, min_run_s: float = MIN_RUN_S) -> tuple[EfficiencyVerdict, ...]:
    """All that is to be said of the job, at least one sentence, the gravest first."""
    if use.run_s < min_run_s:
        return (EfficiencyVerdict(Weight.UNKNOWN, coded("efficiency.short", use.run_s, min_run_s)),)
    found = sorted(_blames(use), key=lambda each: each.weight is not Weight.GRAVE)
    if use.gpus and use.gpu_percent is None:
        found.append(EfficiencyVerdict(Weight.UNKNOWN, coded("efficiency.gpus_unknown")))
    if not found and not _is_comparable(use):
        return (EfficiencyVerdict(Weight.UNKNOWN, coded("efficiency.nothing")),)
    return tuple(found) or (EfficiencyVerdict(Weight.GOOD, coded("efficiency.good")),)


def _is_comparable(use: JobUse) -> bool:
    """Whether there is anything that could have been too much."""
    cpu = use.cpu_percent if use.asked.slots > 1 else None
    time = use.time_percent if use.is_done else None
    return any(percent is not None for percent in (use.gpu_percent, cpu, use.mem_percent, time))


def _blames(use: JobUse) -> Iterator[EfficiencyVerdict]:
    if use.was_idle:
        yield EfficiencyVerdict(Weight.GRAVE, coded("efficiency.ended_idle"))
    yield from _of_gpus(use)
    yield from _of_gpu_memory(use)
    yield from _of_cores(use)
    yield from _of_memory(use)
    yield from _of_time(use)


def _of_gpus(use: JobUse) -> Iterator[EfficiencyVerdict]:
    gpus = use.gpus
    unused = sum(gpu.is_unused for gpu in gpus)
    idle = sum(gpu.never_computed for gpu in gpus) - unused
    if unused:
        yield EfficiencyVerdict(Weight.GRAVE, _counted(_UNUSED, unused, len(gpus)))
    if idle:
        yield EfficiencyVerdict(Weight.GRAVE, _counted(_IDLE, idle, len(gpus)))
    busy = [gpu.most_percent for gpu in gpus if not gpu.never_computed]
    known = [percent for percent in busy if percent is not None]
    if known and len(known) == len(busy):
        percent = sum(known) / len(known)
        if percent < GPU_NOTE:
            weight = Weight.GRAVE if percent < GPU_GRAVE else Weight.NOTE
            code = "efficiency.gpus_low" if len(busy) == len(gpus) else "efficiency.other_gpus_low"
            yield EfficiencyVerdict(weight, coded(code, percent))


def _counted(codes: tuple[str, str, str], count: int, of: int) -> CodedText:
    """By the codes for several, one, and all of them."""
    several, one, every = codes
    if count == of:
        return coded(every)
    return coded(one, of) if count == 1 else coded(several, count, of)


def _of_gpu_memory(use: JobUse) -> Iterator[EfficiencyVerdict]:
    percent = use.gmem_percent
    if percent is None or percent >= MEMORY_NOTE:
        return
    used_mib = max(gpu.use.mem_max_mib or 0.0 for gpu in use.gpus)
    asked_mib = max(gpu.asked.gmem_mib for gpu in use.gpus)
    if asked_mib - used_mib >= LEAST_MIB and used_mib > 0.0:
        yield EfficiencyVerdict(Weight.NOTE, coded("efficiency.gpu_memory", used_mib / _GIB, asked_mib / _GIB))


def _of_cores(use: JobUse) -> Iterator[EfficiencyVerdict]:
    """Where its peak takes all of them nothing is said: a mean does not make a job slower."""
    percent, cores, slots = use.cpu_percent, use.cores, use.asked.slots
    if percent is None or cores is None or percent >= CPU_NOTE or slots < 2:
        return
    peak = use.usage.cpu_peak
    if peak is None or peak <= slots - 1 + SPARE_CORES:
        weight = Weight.GRAVE if percent < CPU_GRAVE else Weight.NOTE
        yield EfficiencyVerdict(weight, coded("efficiency.cores", cores, slots))


def _of_memory(use: JobUse) -> Iterator[EfficiencyVerdict]:
    percent, used_mib, asked_mib = use.mem_percent, use.usage.max_mem_mib, use.asked.mem_mib
    if percent is None or used_mib is None or asked_mib is None or percent >= MEMORY_NOTE:
        return
    if asked_mib - used_mib >= LEAST_MIB:
        yield EfficiencyVerdict(Weight.NOTE, coded("efficiency.memory", used_mib / _GIB, asked_mib / _GIB))


def _of_time(use: JobUse) -> Iterator[EfficiencyVerdict]:
    """Of a job that succeeded: another one might have gone on."""
    percent = use.time_percent
    if use.is_done and percent is not None and percent < TIME_NOTE:
        yield EfficiencyVerdict(
            Weight.GRAVE if percent < TIME_GRAVE else Weight.NOTE, coded("efficiency.run_limit", percent)
        )
