"""A course of values over time in at most MOST_POINTS points, however long it becomes. Pure: time comes as an argument.

Each point covers the same number of seconds and has the smallest, the mean and the largest value of each quantity. When
there are too many, two become one and the next ones cover twice the time. Where nobody has looked there is no point.
"""

from __future__ import annotations

import msgspec

from gsched.agent.gpu_use.timed_measure import TimedMeasure
from gsched.model.gpus.gpu_curve import MOST_POINTS, CurvePoint, GpuCurve


class KeptPoint(msgspec.Struct, array_like=True):
    """What was seen in one span of time; a quantity that was not seen then is missing."""

    slot: int
    measures: dict[str, TimedMeasure]


class UseCurve(msgspec.Struct):
    """Point n covers `step_s` seconds from `since` + n * `step_s` on."""

    since: float
    step_s: float
    points: list[KeptPoint] = []

    def add(self, at: float, seconds: float, values: dict[str, float]) -> None:
        """Values that were seen at `at` (UTC seconds) and stand for so many seconds. What lies before the beginning,
        by a clock that was set back, is left out.
        """
        if at < self.since:
            return
        while (slot := int((at - self.since) / self.step_s)) >= MOST_POINTS:
            self.halve()
        point = self._point(slot)
        for name, value in values.items():
            point.measures.setdefault(name, TimedMeasure()).add(value, seconds)

    def _point(self, slot: int) -> KeptPoint:
        """That of this slot, which is most often the last one."""
        place = len(self.points)
        while place and self.points[place - 1].slot > slot:
            place -= 1
        if place and self.points[place - 1].slot == slot:
            return self.points[place - 1]
        point = KeptPoint(slot, {})
        self.points.insert(place, point)
        return point

    def halve(self) -> None:
        """Half the resolution: every two spans of time become one."""
        self.step_s *= 2
        points, self.points = self.points, []
        for point in points:
            into = self._point(point.slot // 2)
            for name, measure in point.measures.items():
                into.measures.setdefault(name, TimedMeasure()).merge(measure)

    def told(self, uuid: str, index: int) -> GpuCurve:
        """The course as it is told of this GPU."""
        points = tuple(CurvePoint(point.slot, values) for point in self.points if (values := _spreads(point)))
        return GpuCurve(uuid=uuid, index=index, since=self.since, step_s=self.step_s, points=points)


def _spreads(point: KeptPoint) -> dict[str, tuple[float, float, float]]:
    """Smallest, mean and largest value of each quantity; what was seen for no time has no mean."""
    return {
        name: (measure.low, measure.mean, measure.high)
        for name, measure in point.measures.items()
        if measure.low is not None and measure.mean is not None and measure.high is not None
    }
