"""How far an array is: `37/100, 2 failed, about 14 min`. What cannot be estimated is not said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gsched.model.jobs.job import FINISHED, JobState

ElementTimes = tuple[str, float | None, float | None]
"""State of an element, when it started and when it ended, UTC seconds."""
BAR = 20


def finished_in(counts: Mapping[str, int]) -> int:
    """Elements that are over, of counts by state."""
    return sum(counts.get(state, 0) for state in FINISHED)


def time_left(elements: Iterable[ElementTimes], now: float) -> float | None:
    """Seconds until all are over: the mean run time of those that have ended, for each of the others, over as many as
    run now. None while none has ended, and while none runs.
    """
    runs: list[float] = []
    running: list[float] = []
    waiting = 0
    for state, started, ended in elements:
        if state in FINISHED:
            if started is not None and ended is not None:
                runs.append(max(0.0, ended - started))
        elif state == JobState.RUN and started is not None:
            running.append(max(0.0, now - started))
        else:
            waiting += 1
    if not runs or not running:
        return None
    mean = sum(runs) / len(runs)
    work = sum(max(0.0, mean - ran) for ran in running) + waiting * mean
    return max(work / len(running), mean - min(running))


def about(seconds: float) -> str:
    """`about 40 s`, `about 14 min`, `about 3 h`, `about 2 d`."""
    for unit, size, most in (("s", 1, 90), ("min", 60, 5400), ("h", 3600, 129_600)):
        if seconds < most:
            return f"about {max(1, round(seconds / size))} {unit}"
    return f"about {round(seconds / 86_400)} d"


def progress_text(counts: Mapping[str, int], left_s: float | None = None) -> str:
    """`37/100, 2 failed, 4 running, about 14 min`."""
    parts = [f"{finished_in(counts)}/{sum(counts.values())}"]
    if failed := counts.get(JobState.EXIT, 0):
        parts.append(f"{failed} failed")
    if running := counts.get(JobState.RUN, 0):
        parts.append(f"{running} running")
    if left_s is not None:
        parts.append(about(left_s))
    return ", ".join(parts)


def progress_line(counts: Mapping[str, int], left_s: float | None = None) -> str:
    """`[#######             ] 37/100, …`, of ASCII alone."""
    total = sum(counts.values())
    filled = BAR * finished_in(counts) // total if total else 0
    return f"[{'#' * filled}{' ' * (BAR - filled)}] {progress_text(counts, left_s)}"
