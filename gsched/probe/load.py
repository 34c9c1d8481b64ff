"""The built-in load indices of this host, from /proc.

A value that cannot be read is None; a rate is None until there are two readings to take it from. Sampling is cheap
and never blocks: each file is read once, with no more of it looked at than is told, because a private cluster samples
every second. Who is logged in, which terminals are used, and what runs containers, is looked at every half minute, as
LSF's LIM does. Source of the indices' meaning: lsload(1); of /proc: proc(5).
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from gsched.base.clock import Clock, RecentValue, SystemClock
from gsched.model.hosts.host import LoadReport
from gsched.probe.container_runtimes import container_runtimes

T = TypeVar("T")

PEOPLE_S = 30.0
"""So often logins, terminals and programs are looked at. Source: lsload(1), the intervals of ls and it."""
_MEMORY = frozenset((b"MemTotal", b"MemAvailable", b"MemFree", b"Buffers", b"Cached", b"SwapTotal", b"SwapFree"))

_MIB = 1024 * 1024
_TERMINAL = re.compile(r"tty[1-9][0-9]*|ttyS[0-9]+|pts/[0-9]+", re.ASCII)

# Disks whose traffic another entry counts already: partitions, loops, memory, mapped and striped devices.
_NOT_A_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)\d+|((sd|vd|xvd|hd)[a-z]+\d+)|((nvme\d+n\d+|mmcblk\d+)p\d+)")


class LoadSampler:
    """Samples the host's load. Rates and averages hold for the time between two samples."""

    def __init__(self, clock: Clock | None = None, *, tmp_dir: str = "/tmp", dev_dir: str = "/dev") -> None:
        self._clock = clock or SystemClock()
        self._tmp_dir = tmp_dir
        self._queue = Average(15.0)
        self._paging = Rate()
        self._disk = Rate()
        self._busy = Utilization()
        self._system = operating_system()
        self._people = People(self._clock, dev_dir)
        self._runtimes = RecentValue(container_runtimes, PEOPLE_S, self._clock.monotonic)

    def sample(self) -> LoadReport:
        """The load now. Never raises."""
        now = self._clock.monotonic()
        memory = _try(memory_kib) or {}
        tmp = _try(lambda: os.statvfs(self._tmp_dir))
        averages = _try(os.getloadavg)
        running = _try(running_processes)
        indices: dict[str, float | None] = {
            "r15s": None if running is None else self._queue.add(float(running), now),
            "r1m": None if averages is None else averages[0],
            "r15m": None if averages is None else averages[2],
            "ut": _try(lambda: self._busy.add(*processor_times())),
            "pg": _try(lambda: self._paging.add(paged_pages(), now)),
            "io": _try(lambda: self._disk.add(disk_kib(), now)),
            "ls": self._people.logged_in(now),
            "it": self._people.idle_minutes(now),
            "tmp": None if tmp is None else tmp.f_bavail * tmp.f_frsize / _MIB,
            "swp": _mib(memory.get(b"SwapFree")),
            "mem": _mib(memory.get(b"MemAvailable")),
        }
        return LoadReport(
            indices=indices,
            ncpus=_try(lambda: len(os.sched_getaffinity(0))) or os.cpu_count() or 1,
            maxmem_mib=_mib(memory.get(b"MemTotal")),
            maxswp_mib=_mib(memory.get(b"SwapTotal")),
            maxtmp_mib=None if tmp is None else tmp.f_blocks * tmp.f_frsize / _MIB,
            ostype=self._system["ostype"],
            osrel=self._system["osrel"],
            osver=self._system["osver"],
            machine=self._system["machine"],
            container_runtimes=" ".join(self._runtimes()),
        )


class People:
    """Who uses the host at its terminals, looked at every half minute."""

    def __init__(self, clock: Clock, dev_dir: str) -> None:
        self._clock = clock
        self._dev_dir = dev_dir
        self._looked_at = float("-inf")
        self._users: float | None = None
        self._used_at: float | None = None

    def logged_in(self, now: float) -> float | None:
        """How many sessions there are; None: unknown. `now` is monotonic."""
        self._look(now)
        return self._users

    def idle_minutes(self, now: float) -> float | None:
        """Minutes since somebody touched a terminal; None: there is none."""
        self._look(now)
        return None if self._used_at is None else max(0.0, (self._clock.now() - self._used_at) / 60)

    def _look(self, now: float) -> None:
        if 0.0 <= now - self._looked_at < PEOPLE_S:
            return
        self._looked_at = now
        users = _try(psutil.users)
        self._users = None if users is None else float(len(users))
        self._used_at = _try(lambda: terminal_used_at(self._dev_dir))


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


def memory_kib(path: str = "/proc/meminfo") -> dict[bytes, int]:
    """Memory and swap space of the host: MemTotal, MemAvailable, SwapTotal, SwapFree.

    Source: proc_meminfo(5). A kernel before 3.14 does not say what is available: then what is free or holds files.
    Raises OSError, ValueError, KeyError.
    """
    lines = (line.partition(b":") for line in _read(path).splitlines())
    found = {name: int(rest.split()[0]) for name, _, rest in lines if name in _MEMORY}
    if b"MemAvailable" not in found:
        found[b"MemAvailable"] = found[b"MemFree"] + found.get(b"Buffers", 0) + found.get(b"Cached", 0)
    # Inside of a container the one may be the host's and the other the container's.
    found[b"MemAvailable"] = min(found[b"MemAvailable"], found[b"MemTotal"])
    return found


def running_processes() -> int:
    """Processes that run or wait for a CPU, without the one that asks."""
    entities = _read("/proc/loadavg").split()[3]
    return max(0, int(entities.partition(b"/")[0]) - 1)


def processor_times(path: str = "/proc/stat") -> tuple[float, float]:
    """(busy, total) clock ticks of all CPUs since boot; waiting for a disk is idle, as uptime and top have it."""
    words = _read(path).partition(b"\n")[0].split()
    if words[0] != b"cpu":
        raise ValueError(f"{path} begins with something else than the time of all processors")
    # user nice system idle iowait irq softirq steal; time of guests, behind these, is in user and nice already.
    times = [int(word) for word in words[1:9]]
    total = sum(times)
    return float(total - times[3] - (times[4] if len(times) > 4 else 0)), float(total)


def paged_pages(path: str = "/proc/vmstat") -> float:
    """Pages swapped in and out since boot. Reading and writing of files is no paging. Raises OSError, ValueError."""
    text = b"\n" + _read(path)
    found = [text.partition(b"\n" + name + b" ")[2].partition(b"\n")[0] for name in (b"pswpin", b"pswpout")]
    if not all(found):
        raise ValueError(f"{path} counts no swapping")
    return float(sum(map(int, found)))


def disk_kib(path: str = "/proc/diskstats") -> float:
    """KiB read from and written to all disks since boot, each byte counted once. Raises OSError, ValueError.

    Source: the kernel's iostats.rst; a sector is 512 bytes whatever the disk says.
    """
    sectors, count = 0, 0
    for line in _read(path).splitlines():
        words = line.split()
        if _is_disk(words[2]):
            sectors, count = sectors + int(words[5]) + int(words[9]), count + 1
    if not count:
        raise ValueError(f"{path} has no disk")
    return sectors / 2


@functools.lru_cache(maxsize=1024)
def _is_disk(name: bytes) -> bool:
    return _NOT_A_DISK.fullmatch(name.decode("utf-8", "replace")) is None


def terminal_used_at(folder: str = "/dev") -> float | None:
    """When somebody last touched a terminal of this host (UTC seconds); None where there is no terminal."""
    newest: float | None = None
    for place, prefix in ((Path(folder), ""), (Path(folder) / "pts", "pts/")):
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if _TERMINAL.fullmatch(prefix + entry.name):
                    with contextlib.suppress(OSError):
                        used = entry.stat().st_atime
                        newest = used if newest is None else max(newest, used)
    return newest


def _read(path: str) -> bytes:
    """A file of /proc as a whole. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while chunk := os.read(fd, 1 << 15):
            data += chunk
        return data
    finally:
        os.close(fd)


def _mib(kib: int | None) -> float | None:
    return None if kib is None else kib / 1024


def _try(read: Callable[[], T]) -> T | None:
    """What `read` gives, None if the system will not say."""
    try:
        return read()
    except (OSError, RuntimeError, ValueError, IndexError, KeyError, AttributeError, psutil.Error):
        return None
