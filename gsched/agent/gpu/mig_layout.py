"""The MIG layout of GPUs from look to look: one that has just changed is not offered before it has stayed as it is.

Whoever changes a layout does so in several steps, each of which a look may see. Only that GPU is closed, and nothing
has to be restarted. A GPU on which a job holds what is no longer there stays closed until the job has ended.

It changes no layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from gsched.agent.gpu.gpu_health import HeldParts
from gsched.base.coded_text import AnyText, coded
from gsched.base.ids import show_job
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.ledgers.devices import devices_of, is_astray
from gsched.probe.nvidia.mig_device_nodes import Capabilities, capabilities

_Layout = tuple[tuple[str, str], ...]
"""(UUID, profile) of each part, sorted; empty for a GPU that is whole."""


class MigLayouts:
    """A judge of reports (see GpuWatch). `holdings()`: what the attempts of this host have."""

    def __init__(
        self, holdings: HeldParts, capabilities_of: Callable[[int], Capabilities | None] = capabilities
    ) -> None:
        self._holdings = holdings
        self._capabilities_of = capabilities_of
        self._known: dict[str, _Layout] = {}
        """UUID of a GPU -> its layout when it was seen last."""
        self.notes: tuple[AnyText, ...] = ()
        """What an administrator should know, for `ghosts -l`."""

    def __call__(self, report: GpuReport) -> GpuReport:
        """The report; GPUs whose layout is not to be relied on have a problem."""
        if not report.known or not (any(gpu.mig for gpu in report.gpus) or any(self._known.values())):
            self._known.update((gpu.uuid, ()) for gpu in report.gpus)
            self.notes = ()
            return report
        lost = self._lost(report)
        self.notes = tuple(self._open_parts(report))
        return msgspec.structs.replace(report, gpus=tuple(self._judged(gpu, lost) for gpu in report.gpus))

    def _judged(self, gpu: Gpu, lost: Mapping[str, AnyText]) -> Gpu:
        layout = _layout_of(gpu)
        before = self._known.get(gpu.uuid, layout)
        self._known[gpu.uuid] = layout
        problem: AnyText = lost.get(gpu.uuid, "")
        if not problem and layout != before:
            problem = coded("gpu.mig_changed", _text(before), _text(layout))
        return msgspec.structs.replace(gpu, problem=problem) if problem and not gpu.problem else gpu

    def _lost(self, report: GpuReport) -> dict[str, AnyText]:
        """UUID of a GPU -> which job holds something of it that its layout does not have."""
        devices = devices_of(report)
        found: dict[str, AnyText] = {}
        for (job_id, _), part in self._holdings().items():
            for held in part.gpus:
                if held.board in devices and is_astray(held, devices):
                    job = show_job(job_id)
                    part_lost, whole_lost = coded("gpu.mig_part_lost", job, held.uuid), coded("gpu.mig_whole_lost", job)
                    found.setdefault(held.board, part_lost if held.parent else whole_lost)
        return found

    def _open_parts(self, report: GpuReport) -> Iterable[AnyText]:
        for gpu in report.gpus if report.provider == "nvml" else ():
            if gpu.mig_devices and (gpu.minor is None or self._capabilities_of(gpu.minor) is None):
                yield coded("remark.mig_open", gpu.index)


def _layout_of(gpu: Gpu) -> _Layout:
    return tuple(sorted((part.uuid, part.profile) for part in gpu.mig_devices)) if gpu.mig else ()


def _text(layout: _Layout) -> str:
    return "+".join(sorted(profile or "?" for _, profile in layout)) or "whole"
