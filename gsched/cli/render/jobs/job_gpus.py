"""The GPUs of jobs one by one: GPU_ALLOCATION of `gjobs -l -gpu` and `ghist -l -gpu`, and the table of `gjobs -gpu`.

Layout: bjobs of LSF 10.1 (FP14). What is unknown is `-`, as LSF's factor of a GPU, and where on it a part by MIG lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gsched.base.units import format_scaled_mib
from gsched.cli.render.hosts.gpu_tables import model_name
from gsched.cli.render.jobs.job_devices import GpuOfJob
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.render.text.text_columns import cell, cut_head, left, printable
from gsched.model.gpus.gpu_use import GpuUsage

_COLUMNS = (
    ("HOST", 17),
    ("TASK", 5),
    ("GPU_ID", 8),
    ("GI_PLACEMENT/SIZE", 21),
    ("CI_PLACEMENT/SIZE", 21),
    ("MODEL", 13),
    ("MTOTAL", 8),
    ("FACTOR", 7),
    ("MRSV", 8),
    ("SOCKET", 7),
    ("NVLINK/XGMI", 33),
)
_MODEL_WIDTH = 12


_OF_JOB = (("JOBID", 10), ("USER", 8), ("STAT", 6))
_OF_USE = (("UT", 6), ("MUSED", 8), ("MPEAK", 8), ("ENERGY", 12), ("IDLE", 9))
"""Behind LSF's columns: what the job has made of the GPU so far."""


def gpu_table(gpus: Iterable[GpuOfJob]) -> str:
    """The heading and the rows; the host stands on its first row alone."""
    lines = [" " + "".join(left(name, width) for name, width in _COLUMNS) + "\n"]
    host = ""
    for gpu in gpus:
        cells = _cells(gpu, "" if gpu.host == host else gpu.host)
        host = gpu.host
        lines.append(" " + "".join(left(text, width) for text, (_, width) in zip(cells, _COLUMNS, strict=True)) + "\n")
    return "\n GPU_ALLOCATION:\n" + "".join(lines)


_OF_PROCESS = (("HOST", 17), ("GPU_ID", 8), ("PID", 10), ("TYPE", 6), ("PROCESS_NAME", 41), ("GPU_MEMORY", 0))
"""As nvidia-smi has them; gsched's own table."""
_NAME_WIDTH = 40


def process_table(gpus: Iterable[GpuOfJob]) -> str:
    """The job's processes on its GPUs; empty when nobody has told of any."""
    found: dict[tuple[str, int, int], tuple[str, ...]] = {}
    for gpu in gpus:
        for each in gpu.processes:
            memory = "-" if each.used_mib is None else f"{each.used_mib}MiB"
            name = cut_head(printable(each.name), _NAME_WIDTH) or "-"
            cells = (printable(gpu.host), str(gpu.index), str(each.pid), each.kind or "-", name, memory)
            found.setdefault((gpu.host, gpu.index, each.pid), cells)
    if not found:
        return ""
    rows = [tuple(name for name, _ in _OF_PROCESS), *found.values()]
    return "\n GPU_PROCESSES:\n" + "".join(f" {_row(cells, _OF_PROCESS)}\n" for cells in rows)


def _cells(gpu: GpuOfJob, host: str) -> tuple[str, ...]:
    return (
        printable(host),
        "0",
        str(gpu.index),
        *(("-", "-") if gpu.sizes is None else (f"-/{slices}" for slices in gpu.sizes)),
        cell(model_name(gpu.model), _MODEL_WIDTH),
        "-" if gpu.memory_mib is None else format_scaled_mib(gpu.memory_mib),
        "-",
        format_scaled_mib(gpu.reserved_mib),
        "-" if gpu.socket is None else str(gpu.socket),
        "/".join(gpu.links) or "-",
    )


def job_gpu_rows(jobs: Iterable[ShownJob], *, header: bool) -> str:
    """`gjobs -gpu`: a line for each GPU of each job, with the columns of GPU_ALLOCATION; the job stands on its first
    line alone.
    """
    columns = (*_OF_JOB, *_COLUMNS, *_OF_USE)
    rows = [[name for name, _ in columns]] if header else []
    for job in jobs:
        uses = {(use.host, use.uuid): use for use in job.usage.gpus}
        whose = (job.label, printable(job.spec.user), job.view.state)
        for gpu in job.gpus_held:
            use = uses.get((gpu.host, gpu.uuid), GpuUsage())
            rows.append([*whose, *_cells(gpu, gpu.host), *_of_use(use)])
            whose = ("", "", "")
    return "".join(_row(cells, columns) + "\n" for cells in rows)


def _row(cells: Sequence[str], columns: Sequence[tuple[str, int]]) -> str:
    """A cell that is too long moves what follows: names that programs read are never cut."""
    return "".join(left(text, width - 1) + " " for text, (_, width) in zip(cells, columns, strict=True)).rstrip()


def _of_use(use: GpuUsage) -> tuple[str, ...]:
    return (
        _shown(use.sm_mean, "%"),
        _size(use.mem_mean_mib),
        _size(use.mem_max_mib),
        _shown(use.energy_j, "J"),
        _shown(use.idle_s, "s"),
    )


def _shown(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _size(mib: float | None) -> str:
    return "-" if mib is None else format_scaled_mib(mib)
