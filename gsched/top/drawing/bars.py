"""Bars and sparklines of block characters. What is unknown is a blank with a point, never an empty bar."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_EIGHTHS = " ▏▎▍▌▋▊▉"
_HEIGHTS = "▁▂▃▄▅▆▇█"
UNKNOWN = "·"


def bar(percent: int | None, columns: int) -> str:
    """A bar of so many columns, `columns` long at 100 percent."""
    if percent is None:
        return UNKNOWN * columns
    eighths = round(min(100, max(0, percent)) * columns * 8 / 100)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(columns, "░" if full + part == 0 else " ")


def percent_text(percent: int | None) -> str:
    """`  7%`, `100%`, `   -`."""
    return "   -" if percent is None else f"{min(percent, 999):3d}%"


def sparkline(points: Sequence[int | None], columns: int) -> str:
    """The newest points, one for a column; where there are more of them, the highest of those that share one."""
    if columns <= 0 or not points:
        return ""
    if len(points) <= columns:
        return "".join(_height(point) for point in points)
    starts = [round(column * len(points) / columns) for column in range(columns + 1)]
    return "".join(_height(_highest(points[begin:end])) for begin, end in pairwise(starts))


def _highest(points: Sequence[int | None]) -> int | None:
    return max((point for point in points if point is not None), default=None)


def _height(percent: int | None) -> str:
    return UNKNOWN if percent is None else _HEIGHTS[min(7, max(0, percent) * 8 // 100)]
