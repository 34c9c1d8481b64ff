"""What processes have read and written, by the kernel's counters of each process.

A process counts in those children, too, that it has waited for, as it does with their CPU time. Source: proc(5),
/proc/PID/io. Runs in the fork server's bare interpreter: standard library only. Never raises: what this user may not
read is unknown, and makes the sum unknown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

_NAMES = (b"rchar:", b"wchar:", b"read_bytes:", b"write_bytes:")
FIELDS = ("read_mib", "written_mib", "disk_read_mib", "disk_written_mib")
"""Of gsched.model.jobs.job.Usage, in the order of IoBytes."""
_MIB = 1 << 20
_MOST_BYTES = 4096
"""Seven lines of a name and a number."""

IoBytes = tuple[int, int, int, int]
"""Read and written by system calls, whatever from and to; read from and written to storage."""
NOTHING: IoBytes = (0, 0, 0, 0)


def read_io(pid: int | str) -> IoBytes | None:
    """Bytes that one process (`self`: this one) has read and written; of one that is gone none: its parent counts it.
    None: unknown.
    """
    try:
        fd = os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
        try:
            words = os.read(fd, _MOST_BYTES).split()
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):
        return NOTHING
    except OSError:
        return None
    told = dict(zip(words[::2], words[1::2], strict=False))
    try:
        read, written, from_disk, to_disk = [int(told[name]) for name in _NAMES]
    except LookupError:
        return None
    return read, written, from_disk, to_disk


def sum_io(pids: Iterable[int]) -> IoBytes | None:
    """Input and output of all of them; None when one of them is unknown."""
    total = NOTHING
    for pid in pids:
        found = read_io(pid)
        if found is None:
            return None
        total = (total[0] + found[0], total[1] + found[1], total[2] + found[2], total[3] + found[3])
    return total


def joined(before: IoBytes | None, left: IoBytes | None, now: IoBytes | None) -> IoBytes | None:
    """`before`, as if nothing had been read or written from `left` to `now`."""
    if before is None or left is None or now is None:
        return None
    early, then, late, *rest = (b + n - m for b, m, n in zip(before, left, now, strict=True))
    return early, then, late, rest[0]


def fields_since(before: IoBytes | None, now: IoBytes | None) -> dict[str, float]:
    """How much it has become since then, as FIELDS in MiB; empty when one of them is unknown."""
    if before is None or now is None:
        return {}
    return {name: (late - early) / _MIB for name, early, late in zip(FIELDS, before, now, strict=True)}
