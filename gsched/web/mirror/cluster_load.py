"""How busy the cluster was since this process began, a day at most: use of GPUs, how many were held, what waited."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from gsched.model.views.view import HostView, QueueView

EVERY_S = 15.0
MOST_SAMPLES = 5_760
"""A day."""
MOST_TOLD = 720
"""Points of a chart."""


class LoadSample(msgspec.Struct, frozen=True, gc=False):
    """`at`: UTC seconds. `use` and `held`: percent of all GPUs; None where nothing is known."""

    at: float
    use: float | None
    held: float | None
    pending: int
    """Slots of jobs that waited."""


class ClusterLoad:
    """One thread adds, any thread reads."""

    def __init__(self) -> None:
        self._samples: deque[LoadSample] = deque(maxlen=MOST_SAMPLES)

    def add(self, at: float, hosts: Iterable[HostView], queues: Iterable[QueueView]) -> None:
        """Take note of it, unless the last time was just now."""
        if self._samples and at - self._samples[-1].at < EVERY_S:
            return
        views = [view for host in hosts for view in host.gpus]
        uses = [view.gpu.utilization_percent for view in views if view.gpu.utilization_percent is not None]
        self._samples.append(
            LoadSample(
                at=at,
                use=sum(uses) / len(uses) if uses else None,
                held=100 * sum(bool(view.holders) for view in views) / len(views) if views else None,
                pending=sum(queue.pend for queue in queues),
            )
        )

    def samples(self) -> Sequence[LoadSample]:
        """In order of time, MOST_TOLD or some more; of many samples each so-manieth."""
        found = list(self._samples)
        return found[:: max(1, len(found) // MOST_TOLD)]
