"""Processes that the kernel has killed because there was no memory left.

The control group of a job counts its own where the memory controller is there. Otherwise there is the count of the
whole machine: it tells of a job only if the job's main process was killed while it rose, and nobody else is known to
have killed it. Source: the kernel's Documentation/admin-guide/cgroup-v2.rst (memory.events), mm/vmstat.c (oom_kill).

Runs in the fork server's bare interpreter: standard library only. Never raises: what cannot be read is 0.
"""

from __future__ import annotations

import signal

from gsched.run.fence import cgroup_files

VMSTAT = "/proc/vmstat"


def of_machine(path: str = VMSTAT) -> int:
    """Since it was booted."""
    return cgroup_files.figure(path, "oom_kill")


def of_group(folders: tuple[str, ...]) -> int:
    """Processes killed for want of memory in the control group in these folders, and of those below it."""
    return max((cgroup_files.figure(f"{folder}/memory.events", "oom_kill") for folder in folders), default=0)


def of_job(folders: tuple[str, ...], risen: int, died_of: int) -> int:
    """Processes killed for want of memory, of a job that has ended by that signal (0: by none), in whose time the
    machine's count has `risen`.
    """
    counted = of_group(folders)
    if counted:
        return counted
    return 1 if risen > 0 and died_of == signal.SIGKILL else 0
