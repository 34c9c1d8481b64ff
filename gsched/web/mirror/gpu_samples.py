"""What GPUs did since this process began, a reading every few seconds: for curves of jobs that still run.

The master keeps curves of attempts that have ended. Memory is bounded: MOST_SAMPLES of each GPU, a few bytes each, and
nothing of GPUs that are gone. Unknown is not zero.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from gsched.model.hosts.host import Gpu
from gsched.model.views.view import HostView

MOST_SAMPLES = 720
"""An hour at the usual pace."""
QUANTITIES = ("sm", "mem", "power", "temperature")
"""Percent of the time, MiB, watts, degrees."""
_UNKNOWN = -1


class GpuSample(msgspec.Struct, frozen=True, gc=False):
    """One reading; `at`: UTC seconds. What is unknown is missing in `values`."""

    at: float
    values: dict[str, float]


class GpuSamples:
    """Readings of all GPUs by UUID. One thread adds, any thread reads."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[array[int]]] = {}

    def add(self, at: float, hosts: Iterable[HostView]) -> None:
        """Take note of what the hosts have told. The numbers of a GPU that nobody tells of any more are dropped."""
        seen = set()
        for host in hosts:
            for each in host.gpus:
                gpu = each.gpu
                seen.add(gpu.uuid)
                samples = self._samples.get(gpu.uuid)
                if samples is None:
                    samples = self._samples[gpu.uuid] = deque(maxlen=MOST_SAMPLES)
                samples.append(array("q", (round(at), *_values(gpu))))
        for uuid in self._samples.keys() - seen:
            del self._samples[uuid]

    def of(self, uuid: str, since: float) -> Iterator[GpuSample]:
        """Readings of the GPU from `since` (UTC seconds) on, in order."""
        for sample in list(self._samples.get(uuid, ())):
            if sample[0] >= since:
                known = zip(QUANTITIES, sample[1:], strict=True)
                yield GpuSample(sample[0], {name: value for name, value in known if value != _UNKNOWN})


def _values(gpu: Gpu) -> Iterator[int]:
    for value in (gpu.utilization_percent, gpu.used_mib, gpu.power_w, gpu.temperature_c):
        yield _UNKNOWN if value is None else value
