"""What it means for a host's GPUs that administrators have closed some: they are offered to nobody, whoever holds them.

A job that holds one runs on: a closed GPU has a `problem`, never a `fault`. What an error has closed is no matter of
this module: agents report it as such (`agent.gpu.gpu_health`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gsched.base.coded_text import CodedText, coded
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.hosts.host import Gpu, GpuReport

ClosedGpus = Mapping[tuple[str, str], GpuClosure]
"""(host, UUID) -> why it is closed."""


def without_closed(host: str, report: GpuReport | None, closed: ClosedGpus) -> GpuReport | None:
    """What the host offers of its report."""
    if report is None or not closed or not any(name == host for name, _ in closed):
        return report
    gpus = tuple(_shut(gpu, closed.get((host, gpu.uuid))) for gpu in report.gpus)
    return msgspec.structs.replace(report, gpus=gpus)


def _shut(gpu: Gpu, closure: GpuClosure | None) -> Gpu:
    """The GPU as it is offered: whatever else is wrong with it is told first."""
    if closure is None or gpu.problem:
        return gpu
    return msgspec.structs.replace(gpu, problem=_why(closure))


def _why(closure: GpuClosure) -> CodedText:
    """Who closed it and why."""
    if closure.comment:
        return coded("gpu.closed_because", closure.by, closure.comment)
    return coded("gpu.closed", closure.by)
