"""GPUs of attempts of which nobody on this host knows what they hold: none is offered that one of these may have.

That is so when an attempt's spool folder was removed and its supervisor killed (lost_folders). The master may
know, but it may have lost its store. So every GPU that no other attempt holds stays closed until they have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from gsched.base.coded_text import coded
from gsched.model.hosts.host import Gpu, GpuReport


class LostGpus:
    """A judge. `unknown()`: names of those that have not ended; `held()`: UUIDs of whole GPUs of the others."""

    def __init__(self, unknown: Callable[[], Collection[str]], held: Callable[[], Collection[str]]) -> None:
        self._unknown = unknown
        self._held = held

    def judge(self, report: GpuReport) -> GpuReport:
        """The report with the GPUs closed that may be held; what is wrong with one already stays said."""
        names = sorted(self._unknown())
        if not names:
            return report
        held, problem = self._held(), coded("gpu.unrecorded", ",".join(names))

        def verdict(gpu: Gpu) -> Gpu:
            return gpu if gpu.problem or gpu.uuid in held else msgspec.structs.replace(gpu, problem=problem)

        return msgspec.structs.replace(report, gpus=tuple(verdict(gpu) for gpu in report.gpus))
