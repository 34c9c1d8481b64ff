"""What GPUs did since a job was opened: MOST_POINTS points each, and nothing of GPUs that it does not hold any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gsched.top.watching.look import ClusterLook

MOST_POINTS = 360


class GpuCurves:
    """By UUID: use and memory in percent, oldest first; None where it was not known."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._points: dict[str, deque[tuple[int | None, int | None]]] = {}

    def add(self, look: ClusterLook, uuids: Iterable[str]) -> None:
        """Take note of these GPUs; a look that was noted last is not noted twice, one from before begins anew."""
        if self._at is not None and look.at < self._at:
            self._points = {}
        known, wanted = self._at, dict.fromkeys(uuids)
        self._at = look.at
        for uuid in self._points.keys() - wanted.keys():
            del self._points[uuid]
        gpus = {gpu.uuid: gpu for host in look.hosts for gpu in host.gpus if gpu.uuid in wanted}
        for uuid in wanted:
            points = self._points.setdefault(uuid, deque(maxlen=MOST_POINTS))
            if look.at == known and points:
                continue
            gpu = gpus.get(uuid)
            points.append((gpu.use, gpu.memory_percent) if gpu is not None else (None, None))

    def use(self, uuid: str) -> list[int | None]:
        """Percent of the time in which it computed."""
        return [point[0] for point in self._points.get(uuid, ())]

    def memory(self, uuid: str) -> list[int | None]:
        """Percent of its memory that was in use."""
        return [point[1] for point in self._points.get(uuid, ())]
