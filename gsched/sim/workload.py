"""Workloads: what the jobs of a simulation are, from a file in any of the known forms or made up from a seed.

Forms: our own (gsched.sim.trace), the Standard Workload Format, what Slurm's sacct prints with --parsable2, and the
tasks of the OpenB trace. Which one it is, the first line tells. It runs nothing.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gsched.base.errors import BadRequest
from gsched.sim.sacct_dump import read_sacct
from gsched.sim.text_table import TextRow, header_of, read_text, rows_of
from gsched.sim.trace import Recipe, TraceFault, TraceJob, is_swf, random_trace, read_trace

MOST_RANDOM = 1_000_000
QUARTER_S = 900
"""Run limits of made-up jobs are whole quarters of an hour, as people give them."""
RANDOM_LOAD = 0.9
"""So much of the cluster's GPU time the made-up jobs ask for, while they arrive."""
_RANDOM = re.compile(r"random:([0-9]{1,7})", re.ASCII)
_UNIX_START = re.compile(r"^;\s*UnixStartTime:\s*([0-9]+)", re.MULTILINE)
GPU_MODEL = "gpumodel"
"""A string resource of each simulated host: the model of its GPUs."""


@dataclass(slots=True)
class Workload:
    """Jobs in the order in which they arrive."""

    path: str
    jobs: list[TraceJob]
    begins_at: float | None = None
    """UTC seconds of the moment that `arrives_s` counts from; None: nobody knows."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why entries of the file are no jobs -> how many."""


def read_workload(words: str, seed: int, gpus: int = 0, largest: int = 4) -> Workload:
    """The jobs of a file, or made up by `random:JOBS` from the seed. `gpus` of the cluster: so many keep up with the
    made-up jobs; `largest`: of the host that has most. Raises BadRequest with file and line.
    """
    if is_made_up(words):
        made_up = _RANDOM.fullmatch(words)
        if made_up is None:
            raise BadRequest(f"{words}: wanted is random:JOBS, random:1000 say")
        return Workload(words, _random_jobs(int(made_up[1]), seed, gpus, largest))
    found = _read_file(words)
    if not found.jobs:
        left = ", ".join(f"{count} {why}" for why, count in found.left_out.items())
        raise BadRequest(f"{words}: there is no job in it{f' ({left})' if left else ''}")
    return found


def is_made_up(words: str) -> bool:
    """Whether jobs of these words come from a seed: no file is called so."""
    return words.startswith("random:") and not os.path.exists(words)


def _read_file(words: str) -> Workload:
    text = read_text(words)
    header = header_of(text, "|")
    if "Submit" in header:
        return _of_sacct(words, text)
    if "num_gpu" in header_of(text):
        jobs = [job for row in rows_of(words, text, _OPENB) if (job := _openb_task(row)) is not None]
        never = sum(1 for _ in rows_of(words, text, _OPENB)) - len(jobs)
        return Workload(words, in_order(jobs), None, {"never ran": never} if never else {})
    try:
        jobs = read_trace(text)
    except TraceFault as error:
        raise BadRequest(f"{words}:{error.line}: {error.fault}") from None
    found = Workload(words, jobs)
    first = next((line for line in text.splitlines() if line.strip()), "")
    if is_swf(first):
        start = _UNIX_START.search(text)
        found.begins_at = float(start[1]) if start else None
        entries = sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(";"))
        found.left_out = {"never ran": entries - len(jobs)} if entries > len(jobs) else {}
    found.jobs = [_by_gpu_requirement(job) for job in jobs]
    return found


def in_order(jobs: Sequence[TraceJob]) -> list[TraceJob]:
    """The jobs as they arrive, counted from the first; equals in the order of the file."""
    first = min((job.arrives_s for job in jobs), default=0.0)
    return [replace(job, arrives_s=job.arrives_s - first) for job in sorted(jobs, key=lambda job: job.arrives_s)]


def _by_gpu_requirement(job: TraceJob) -> TraceJob:
    """A job that asks for GPUs by their number alone asks as `-gpu num=` does."""
    return replace(job, gpu_req=f"num={job.gpus}") if job.gpus and not job.gpu_req else job


def _random_jobs(count: int, seed: int, gpus: int, largest: int) -> list[TraceJob]:
    """Jobs of a few users that want up to four GPUs of a host, at a pace that keeps most of the GPUs in use."""
    if not 1 <= count <= MOST_RANDOM:
        raise BadRequest(f"random:{count}: from 1 to {MOST_RANDOM} jobs can be made up")
    recipe = Recipe(
        jobs=count,
        most_gpus=min(4, gpus, largest),
        most_mem_mib=8192.0,
        gaps_s=(0.0, 0.0, 1.0, 2.0, 7.0),
        longest_s=14_400,
        users=("ann", "bob", "cho", "dee"),
    )
    jobs = random_trace(seed, recipe)
    work = math.fsum(max(job.gpus, 0.25) * job.runs_s for job in jobs)
    pace = work / RANDOM_LOAD / max(1, gpus) / max(1.0, jobs[-1].arrives_s)
    return [
        _by_gpu_requirement(
            replace(
                job,
                arrives_s=round(job.arrives_s * pace, 3),
                limit_s=QUARTER_S * math.ceil((job.limit_s or 1) / QUARTER_S),
            )
        )
        for job in jobs
    ]


def _of_sacct(path: str, text: str) -> Workload:
    jobs, left_out = read_sacct(path, text)
    begins_at = min((job.arrives_s for job in jobs), default=None)
    return Workload(path, in_order(jobs), begins_at, left_out)


_OPENB = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")


def _openb_task(row: TextRow) -> TraceJob | None:
    """A task of the OpenB trace; None where it was never scheduled. Source: README of cluster-trace-gpu-v2023."""
    if not row.text("scheduled_time") or not row.text("deletion_time"):
        return None
    created, began, ended = (row.number(name) for name in ("creation_time", "scheduled_time", "deletion_time"))
    if ended < began:
        raise row.fault(f"deletion_time {ended:g} is before scheduled_time {began:g}")
    return _openb_job(row, created, ended - began, max(1, math.ceil(row.number("cpu_milli") / 1000)))


def read_openb_requests(path: str) -> list[TraceJob]:
    """What all tasks of an OpenB list ask for, those that never ran among them: a slot is a thousandth of a CPU. Raises
    BadRequest.
    """
    rows = rows_of(path, read_text(path), ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))
    return [_openb_job(row, 0.0, math.inf, max(1, row.whole("cpu_milli"))) for row in rows]


def _openb_job(row: TextRow, arrives_s: float, runs_s: float, slots: int) -> TraceJob:
    gpus, milli = row.whole("num_gpu"), row.whole("gpu_milli")
    share = f":mode=shared:share={milli / 1000:g}" if gpus == 1 and 0 < milli < 1000 else ""
    models = [name for name in row.text("gpu_spec").split("|") if name]
    bad = [name for name in models if not re.fullmatch(r"[A-Za-z0-9_]+", name, re.ASCII)]
    if bad:
        raise row.fault(f"gpu_spec names {bad[0]!r}, which is no model of a GPU")
    wanted = " || ".join(f"{GPU_MODEL} == {name}" for name in models)
    return TraceJob(
        arrives_s=arrives_s,
        runs_s=runs_s,
        slots=slots,
        mem_mib=row.number("memory_mib"),
        gpus=gpus,
        gpu_req=f"num={gpus}{share}" if gpus else "",
        res_req=f"select[{wanted}]" if wanted else "",
        user=row.text("qos") or "user",
        name=row.text("name"),
        line=row.line,
    )
