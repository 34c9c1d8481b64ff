"""The built-in load indices of this host, from psutil and /proc.

A value that cannot be read is None; a rate is None until there are two readings to take it from. Sampling is cheap
and never blocks. Source of the indices' meaning: lsload(1); of /proc: proc(5).
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from gsched.base.clock import Clock, SystemClock
from gsched.model.hosts.host import LoadReport

T = TypeVar("T")

_MIB = 1024 * 1024
_TERMINAL = re.compile(r"tty[1-9][0-9]*|ttyS[0-9]+|pts/[0-9]+", re.ASCII)

# Disks whose traffic another entry counts already: partitions, loops, memory, mapped and striped devices.
_NOT_A_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)\d+|((sd|vd|xvd|hd)[a-z]+\d+)|((nvme\d+n\d+|mmcblk\d+)p\d+)")


class LoadSampler:
    """Samples the host's load. Rates and averages hold for the time between two samples."""

    def __init__(self, clock: Clock | None = None, *, tmp_dir: str = "/tmp") -> None:
        self._clock = clock or SystemClock()
        self._tmp_dir = tmp_dir
        self._queue = Average(15.0)
        self._paging = Rate()
        self._disk = Rate()
        self._busy = Utilization()
        self._system = operating_system()

    def sample(self) -> LoadReport:
        """The load now. Never raises."""
        now = self._clock.monotonic()
        memory = _try(psutil.virtual_memory)
        swap = _try(psutil.swap_memory)
        tmp = _try(lambda: os.statvfs(self._tmp_dir))
        averages = _try(os.getloadavg)
        running = _try(running_processes)
        users = _try(psutil.users)
        indices: dict[str, float | None] = {
            "r15s": None if running is None else self._queue.add(float(running), now),
            "r1m": None if averages is None else averages[0],
            "r15m": None if averages is None else averages[2],
            "ut": _try(lambda: self._busy.add(*processor_times())),
            "pg": _try(lambda: self._paging.add(paged_pages(), now)),
            "io": _try(lambda: self._disk.add(disk_kib(), now)),
            "ls": None if users is None else float(len(users)),
            "it": _try(lambda: idle_minutes(self._clock.now())),
            "tmp": None if tmp is None else tmp.f_bavail * tmp.f_frsize / _MIB,
            "swp": None if swap is None else swap.free / _MIB,
            "mem": None if memory is None else memory.available / _MIB,
        }
        return LoadReport(
            indices=indices,
            ncpus=_try(lambda: len(os.sched_getaffinity(0))) or os.cpu_count() or 1,
            maxmem_mib=None if memory is None else memory.total / _MIB,
            maxswp_mib=None if swap is None else swap.total / _MIB,
            maxtmp_mib=None if tmp is None else tmp.f_blocks * tmp.f_frsize / _MIB,
            ostype=self._system["ostype"],
            osrel=self._system["osrel"],
            osver=self._system["osver"],
            machine=self._system["machine"],
        )


def operating_system() -> dict[str, str]:
    """What the host runs, as LoadReport has it."""
    system = os.uname()
    release = _try(platform.freedesktop_os_release) or {}
    version = release.get("ID", "") + release.get("VERSION_ID", "")
    return {"ostype": system.sysname, "osrel": system.release, "osver": version, "machine": system.machine}


class Average:
    """An exponential average over `span_s` seconds, in the manner of the kernel's load averages."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._value: float | None = None
        self._at = 0.0

    def add(self, value: float, now: float) -> float:
        """The average after `value` was seen at `now`; the first value is the first average."""
        if self._value is None:
            self._value = value
        else:
            old = math.exp(-max(0.0, now - self._at) / self._span_s)
            self._value = self._value * old + value * (1.0 - old)
        self._at = now
        return self._value


class Rate:
    """Growth of a counter per second between two readings."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._rate: float | None = None

    def add(self, count: float, now: float) -> float | None:
        """The rate up to `now`; None at the first reading and when the counter has gone back (a device was removed)."""
        before, self._before = self._before, (count, now)
        if before is None or count < before[0]:
            self._rate = None
        elif now > before[1]:
            self._rate = (count - before[0]) / (now - before[1])
        return self._rate


class Utilization:
    """Share of the processors' time that was not idle between two readings, 0 to 1."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._share: float | None = None

    def add(self, busy: float, total: float) -> float | None:
        """The share since the last reading; None at the first one."""
        before, self._before = self._before, (busy, total)
        if before is not None and total > before[1]:
            self._share = min(1.0, max(0.0, (busy - before[0]) / (total - before[1])))
        return self._share


def running_processes() -> int:
    """Processes that run or wait for a CPU, without the one that asks."""
    entities = Path("/proc/loadavg").read_text("ascii").split()[3]
    return max(0, int(entities.partition("/")[0]) - 1)


def processor_times() -> tuple[float, float]:
    """(busy, total) seconds of all CPUs since boot; waiting for a disk is idle, as uptime and top have it."""
    times = psutil.cpu_times()
    # Time of guests is in user and nice already.
    total = sum(getattr(times, name, 0.0) for name in times._fields if not name.startswith("guest"))
    return total - times.idle - getattr(times, "iowait", 0.0), total


def paged_pages(path: str = "/proc/vmstat") -> float:
    """Pages swapped in and out since boot. Reading and writing of files is no paging. Raises OSError, ValueError."""
    counts = dict(line.split() for line in Path(path).read_text("ascii").splitlines())
    if "pswpin" not in counts or "pswpout" not in counts:
        raise ValueError(f"{path} counts no swapping")
    return float(int(counts["pswpin"]) + int(counts["pswpout"]))


def disk_kib() -> float:
    """KiB read from and written to all disks since boot, each byte counted once."""
    disks = psutil.disk_io_counters(perdisk=True, nowrap=False)
    counted = [disk for name, disk in disks.items() if _NOT_A_DISK.fullmatch(name) is None]
    return sum(disk.read_bytes + disk.write_bytes for disk in counted) / 1024


def idle_minutes(now: float, folder: str = "/dev") -> float | None:
    """Minutes since somebody last touched a terminal of this host; None where there is no terminal."""
    newest: float | None = None
    for place, prefix in ((Path(folder), ""), (Path(folder) / "pts", "pts/")):
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if _TERMINAL.fullmatch(prefix + entry.name):
                    with contextlib.suppress(OSError):
                        used = entry.stat().st_atime
                        newest = used if newest is None else max(newest, used)
    return None if newest is None else max(0.0, (now - newest) / 60)


def _try(read: Callable[[], T]) -> T | None:
    """What `read` gives, None if the system will not say."""
    try:
        return read()
    except (OSError, RuntimeError, ValueError, IndexError, KeyError, AttributeError, psutil.Error):
        return None
