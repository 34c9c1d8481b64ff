"""GPUs of hosts, a line each: `ghosts -gpu`, `gload -gpu` and `-gpuload`, `glshosts -gpu`.

Source of the layouts: transcripts of bhosts -w -gpu, lsload -gpu, lsload -gpuload and lshosts -gpu of LSF 10.1. The
host's name stands before its first GPU only. What nobody measures prints `-`, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gsched.base.units import format_scaled_mib
from gsched.cli.render.fold import cell, head, left, printable, right
from gsched.cli.render.load import load_status
from gsched.model.host import ComputeMode, Gpu
from gsched.model.view import HostView

_MODE_NUMBER = {
    ComputeMode.DEFAULT: 0,
    ComputeMode.EXCLUSIVE_THREAD: 1,
    ComputeMode.PROHIBITED: 2,
    ComputeMode.EXCLUSIVE_PROCESS: 3,
}
"""NVML's numbers."""


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs have of one GPU."""

    run: int = 0
    suspended: int = 0
    reserved_mib: float = 0.0


def render_use(
    hosts: Iterable[HostView],
    uses: Mapping[tuple[str, str], GpuUse],
    *,
    header: bool = True,
    wide: bool = False,
) -> str:
    """`ghosts -gpu`; `uses`: (host, UUID) -> what jobs have of it. `wide` (-w) cuts nothing."""
    titles = ("GPU_ID", "MODEL", "MUSED", "MRSV", "NJOBS", "RUN", "SUSP", "RSV")
    widths = (6, 20, 9, 9, 6, 6, 6, 6)
    lines = [_use_line("HOST_NAME", titles, widths, wide)] if header else []
    for name, host, gpu in _gpus(hosts):
        use = uses.get((host.name, gpu.uuid), GpuUse())
        cells = (
            *(str(gpu.index), _model(gpu), _gigabytes(gpu.used_mib), _gigabytes(use.reserved_mib)),
            *(str(use.run + use.suspended), str(use.run), str(use.suspended), "0"),
        )
        lines.append(_use_line(name, cells, widths, wide))
    return "".join(lines)


def _use_line(name: str, cells: Sequence[str], widths: Sequence[int], wide: bool) -> str:
    shown = (right(text if wide else head(text, width), width) for text, width in zip(cells, widths, strict=True))
    return f"{left(name, 20) if wide else cell(name, 20)} {' '.join(shown)} \n"


def _gpus(hosts: Iterable[HostView]) -> Iterator[tuple[str, HostView, Gpu]]:
    """Every GPU with its host, and the name to print before it."""
    for host in hosts:
        name = host.name
        for view in sorted(host.gpus, key=lambda view: view.gpu.index):
            yield name, host, view.gpu
            name = ""


def _model(gpu: Gpu) -> str:
    """One word, as LSF joins them."""
    return "".join(printable(gpu.model).split()) or "-"


def _gigabytes(mib: float | None) -> str:
    return "-" if mib is None else f"{mib / 1024:.1f}".removesuffix(".0") + "G"


def render_summary(hosts: Iterable[HostView], *, header: bool = True, wide: bool = False) -> str:
    """`gload -gpu`: a line per host; utilization is the mean of the GPUs that jobs share."""
    titles = ("status", "ngpus", "gpu_shared_avg_mut", "gpu_shared_avg_ut", "ngpus_physical")
    widths = (6, 6, 19, 18, 15)
    lines = [_line("HOST_NAME", titles, widths, wide)] if header else []
    for host in hosts:
        status = load_status(host.status)
        count = "-" if status == "unavail" or not host.gpu_provider else str(len(host.gpus))
        lines.append(_line(host.name, (status, count, "-", _shared_utilization(host), count), widths, wide))
    return "".join(lines)


def _shared_utilization(host: HostView) -> str:
    known = [
        view.gpu.utilization_percent
        for view in host.gpus
        if view.gpu.mode is ComputeMode.DEFAULT and view.gpu.utilization_percent is not None
    ]
    return f"{sum(known) / len(known):.0f}%" if known else "-"


def _line(name: str, cells: Sequence[str], widths: Sequence[int], wide: bool) -> str:
    shown = (right(text, width) for text, width in zip(cells, widths, strict=True))
    return f"{left(name, 15) if wide else cell(name, 15)} {' '.join(shown)}\n"


_LOAD = {
    "gpuid": 6,
    "gpu_model": 12,
    "gpu_mode": 11,
    "gpu_temp": 10,
    "gpu_ecc": 10,
    "gpu_ut": 8,
    "gpu_mut": 9,
    "gpu_mtotal": 11,
    "gpu_mused": 10,
    "gpu_pstate": 13,
    "gpu_status": 13,
    "gpu_error": 12,
}
"""Column -> its width with the blanks before it."""


def render_load(hosts: Iterable[HostView], *, header: bool = True, wide: bool = False) -> str:
    """`gload -gpuload`: a line per GPU."""
    lines = [_columns("HOST_NAME", dict.fromkeys(_LOAD, ""), wide, titles=True)] if header else []
    for name, _, gpu in _gpus(hosts):
        mode = "-" if gpu.mode is None else f"{_MODE_NUMBER[gpu.mode]}.0"
        values = {
            "gpuid": str(gpu.index),
            "gpu_model": head(_model(gpu), 11),
            "gpu_mode": mode,
            "gpu_temp": "-" if gpu.temperature_c is None else f"{gpu.temperature_c}C",
            "gpu_ut": "-" if gpu.utilization_percent is None else f"{gpu.utilization_percent}%",
            "gpu_mtotal": "-" if gpu.memory_mib is None else format_scaled_mib(gpu.memory_mib),
            "gpu_mused": "-" if gpu.used_mib is None else format_scaled_mib(gpu.used_mib),
            "gpu_status": "error" if gpu.problem else "ok",
            "gpu_error": printable(gpu.problem) or "-",
        }
        lines.append(_columns(name, values, wide))
    return "".join(lines)


def _columns(name: str, values: Mapping[str, str], wide: bool, *, titles: bool = False) -> str:
    cells = (" " + right(title if titles else values.get(title, "-"), size - 1) for title, size in _LOAD.items())
    return (left(name, 15) if wide else cell(name, 15)) + "".join(cells) + "\n"


def render_models(hosts: Iterable[HostView], *, header: bool = True, wide: bool = False) -> str:
    """`glshosts -gpu`: a line per GPU; its driver and factor are not told."""
    titles, widths = ("gpu_id", "gpu_model", "gpu_driver", "gpu_factor", "numa_id"), (6, 15, 12, 12, 12)
    lines = [_models_line("HOST_NAME", titles, widths, wide)] if header else []
    for name, _, gpu in _gpus(hosts):
        numa = "-" if gpu.numa is None else str(gpu.numa)
        model = _model(gpu) if wide else head(_model(gpu), 15)
        lines.append(_models_line(name, (str(gpu.index), model, "-", "-", numa), widths, wide))
    return "".join(lines)


def _models_line(name: str, cells: Sequence[str], widths: Sequence[int], wide: bool) -> str:
    shown = (right(text, width) for text, width in zip(cells, widths, strict=True))
    return f"{left(name, 11) if wide else cell(name, 11)} {' '.join(shown)}\n"
