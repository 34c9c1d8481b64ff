"""The GPUs of a job one by one: GPU_ALLOCATION of `gjobs -l -gpu` and `ghist -l -gpu`.

Layout: bjobs of LSF 10.1 (FP14). What is unknown is `-`, as LSF's factor of a GPU, and where on it a part by MIG lies.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.units import format_scaled_mib
from gsched.cli.render.hosts.gpu_tables import model_name
from gsched.cli.render.jobs.job_devices import GpuOfJob
from gsched.cli.render.text.text_columns import cell, left, printable

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


def gpu_table(gpus: Iterable[GpuOfJob]) -> str:
    """The heading and the rows; the host stands on its first row alone."""
    lines = [" " + "".join(left(name, width) for name, width in _COLUMNS) + "\n"]
    host = ""
    for gpu in gpus:
        cells = (
            "" if gpu.host == host else printable(gpu.host),
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
        host = gpu.host
        lines.append(" " + "".join(left(text, width) for text, (_, width) in zip(cells, _COLUMNS, strict=True)) + "\n")
    return "\n GPU_ALLOCATION:\n" + "".join(lines)
