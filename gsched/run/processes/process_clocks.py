"""The kernel's clocks of processor time: whether processes have run since somebody looked.

One system call for each process and no file: an idle job costs next to nothing to watch. The clock of a process counts
all of its threads, those too that have ended, in nanoseconds. Source: clock_getcpuclockid(3). Never raises.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

_OF_PROCESS = 2
"""CPUCLOCK_SCHED of the kernel's include/linux/posix-timers.h: what the scheduler has counted."""
GONE = -1


def ran_ns(pid: int) -> int:
    """For how many nanoseconds the process has run; GONE where there is none, or where the kernel does not tell."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _OF_PROCESS)
    except OSError:
        return GONE


def readings(pids: Iterable[int]) -> dict[int, int]:
    """The clocks of these processes."""
    return {pid: ran_ns(pid) for pid in pids}


def have_rested(since: dict[int, int]) -> bool:
    """Whether all of them live and none has run since these readings. Of no process nothing is known: False."""
    return bool(since) and all(before != GONE and ran_ns(pid) == before for pid, before in since.items())
