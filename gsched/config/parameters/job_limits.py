"""Limits that a queue sets on each of its jobs: `[default] maximum` of times, sizes and counts, and of slots
`[min [default]] max`.

Bare sizes are in LSF_UNIT_FOR_LIMITS. Source: lsb.queues(5), RUNLIMIT, CPULIMIT, MEMLIMIT …, TASKLIMIT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gsched.base.errors import BadRequest
from gsched.base.units import parse_limit_mib, parse_mib, parse_run_limit
from gsched.config.grammar.findings import Findings, show
from gsched.config.grammar.values import KeyValues, integer
from gsched.model.jobs.job import GROWS, KEEPS_SLOTS, RELEASES
from gsched.model.queues.queue import RunLimits

LimitNumber = TypeVar("LimitNumber", int, float)

MAX_SLOTS = 1_000_000
MOST_SIZES = 1000
"""Of one JOB_SIZE_LIST."""
_COUNT = integer(1, 2**31 - 2)
_SLOTS = integer(1, MAX_SLOTS)


def default_and_maximum(read: Callable[[str], LimitNumber]) -> Callable[[str], tuple[LimitNumber | None, LimitNumber]]:
    """A reader of `[default] maximum`: (default, maximum)."""

    def read_both(text: str) -> tuple[LimitNumber | None, LimitNumber]:
        words = text.split()
        if len(words) not in (1, 2):
            raise BadRequest(f"'{show(text)}' is not of the form [default] maximum")
        limits = [read(word) for word in words]
        if limits[0] > limits[-1]:
            raise BadRequest(f"the default {show(words[0])} exceeds the maximum {show(words[-1])}")
        return (limits[0] if len(limits) == 2 else None), limits[-1]

    return read_both


def time_s(text: str) -> int:
    """Seconds of `[hours:]minutes`. Raises BadRequest."""
    if "/" in text:
        raise BadRequest(f"'{show(text)}': a limit normalized by a host is not supported yet")
    return parse_run_limit(text)


def task_limit(text: str) -> tuple[int, int, int]:
    """(least, default, most) of `[min [default]] max`. Raises BadRequest."""
    words = text.split()
    if len(words) not in (1, 2, 3):
        raise BadRequest(f"'{show(text)}' is not of the form [minimum [default]] maximum")
    numbers = [_SLOTS(word) for word in words]
    if numbers != sorted(numbers):
        raise BadRequest(f"'{show(text)}': each number must be at least as large as the one before it")
    least = numbers[0] if len(numbers) > 1 else 1
    return least, numbers[1] if len(numbers) == 3 else least, numbers[-1]


def job_limits(settings: KeyValues, unit: str) -> dict[str, RunLimits]:
    """All limits but RUNLIMIT that the queue sets, by name; CPULIMIT in s, memory in MiB, other sizes in KiB.

    `unit` is the letter of LSF_UNIT_FOR_LIMITS.
    """
    found: dict[str, RunLimits] = {}
    for name, read in _READERS.items():
        both = settings.take(name, default_and_maximum(_in(unit, read)), None)
        if both is not None:
            default, maximum = both
            found[name] = RunLimits(float(maximum), None if default is None else float(default))
    return found


def _in(unit: str, read: Callable[[str, str], float]) -> Callable[[str], float]:
    return lambda text: read(text, unit)


def _positive_mib(text: str, unit: str) -> float:
    size = parse_mib(text, unit)
    if size <= 0:
        raise BadRequest(f"'{show(text)}': a limit of 0 lets nothing run")
    return size


def _memory_mib(text: str, unit: str) -> float:
    _positive_mib(text, unit)
    return parse_limit_mib(text, unit)


def _positive_kib(text: str, unit: str) -> float:
    return _positive_mib(text, unit) * 1024


def _kib(text: str, unit: str) -> float:
    return parse_mib(text, unit) * 1024


def _count(text: str, unit: str) -> float:
    return _COUNT(text)


_READERS: dict[str, Callable[[str, str], float]] = {
    "CPULIMIT": lambda text, unit: time_s(text),
    "MEMLIMIT": _memory_mib,
    "SWAPLIMIT": _memory_mib,
    "PROCESSLIMIT": _count,
    "THREADLIMIT": _count,
    "FILELIMIT": _positive_kib,
    "DATALIMIT": _positive_kib,
    "STACKLIMIT": _positive_kib,
    # 0 is the usual value here: no core files.
    "CORELIMIT": _kib,
}


def job_sizes(text: str) -> tuple[int, ...]:
    """JOB_SIZE_LIST: slots that a job may have, the default first. Raises BadRequest."""
    words = text.split()
    if not words:
        raise BadRequest("it names no size")
    if len(words) > MOST_SIZES:
        raise BadRequest(f"it names more than {MOST_SIZES} sizes")
    return tuple(dict.fromkeys(_SLOTS(word) for word in words))


def tasks(settings: KeyValues, sizes: tuple[int, ...], findings: Findings) -> tuple[int, int, int] | None:
    """TASKLIMIT, or PROCLIMIT as it was called before; `sizes`, those of JOB_SIZE_LIST, count in its place."""
    limits = {name: settings.take(name, task_limit, None) for name in ("TASKLIMIT", "PROCLIMIT")}
    at = settings.place("PROCLIMIT")
    if at is not None and settings.place("TASKLIMIT") is not None:
        findings.error(at, "PROCLIMIT is the older name of TASKLIMIT; only one of them may be set")
    if sizes:
        for name in limits:
            at = settings.place(name)
            if at is not None:
                findings.note(at, f"{name} has no effect: JOB_SIZE_LIST is set")
        return min(sizes), sizes[0], max(sizes)
    return limits["TASKLIMIT"] or limits["PROCLIMIT"]


_RESIZABLE = {"y": RELEASES, "yes": RELEASES, "n": KEEPS_SLOTS, "no": KEEPS_SLOTS, "auto": GROWS}


def resizable_jobs(text: str) -> str:
    """RESIZABLE_JOBS: whether the slots of jobs may change while they run. Raises BadRequest."""
    found = _RESIZABLE.get(text.strip().casefold())
    if found is None:
        raise BadRequest(f"'{text[:60]}' is neither Y, N nor auto")
    return found


def resizable_text(value: str) -> str:
    """RESIZABLE_JOBS as it is written."""
    return {KEEPS_SLOTS: "N", RELEASES: "Y"}.get(value, value)
