"""Process trees: who belongs to an attempt, and how all of them are signalled, stopped or killed.

A supervisor is the subreaper of its job, so whatever a job starts, double-forked and with sessions of its own, stays a
descendant of the supervisor. Where the supervisor is gone, processes are found by the attempt's mark in their
environment. A process is known by its pid *and* its start time; a pid alone is never trusted.

Reads /proc only (proc(5)); imports next to nothing, because the fork server loads it. Never signals a process that it
has not just seen to be the one meant.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator

MARK_VARIABLE = "GSCHED_ATTEMPT_ID"
"""Environment variable whose value is unique to one attempt of one cluster."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
UNKILLABLE_AFTER_S = 5.0
"""A process that is there so long after SIGKILL hangs in the kernel: a driver or a file system does not answer."""
_MAX_ROUNDS = 100
_HAS_CHILDREN_FILES = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


class Process:
    """One process as /proc/PID/stat shows it. `start` is in clock ticks since boot, CPU times are in clock ticks."""

    __slots__ = (
        "children_ticks",
        "name",
        "pgid",
        "pid",
        "ppid",
        "rss_pages",
        "session",
        "start",
        "state",
        "threads",
        "ticks",
    )

    def __init__(self, pid: int, stat_line: bytes) -> None:
        head, _, tail = stat_line.rpartition(b")")
        fields = tail.split()
        self.pid = pid
        self.name = head.partition(b"(")[2].decode(errors="replace")
        self.state = fields[0].decode()
        self.ppid = int(fields[1])
        self.pgid = int(fields[2])
        self.session = int(fields[3])
        self.ticks = int(fields[11]) + int(fields[12])
        self.children_ticks = int(fields[13]) + int(fields[14])
        self.threads = int(fields[17])
        self.start = int(fields[19])
        self.rss_pages = int(fields[21])

    @property
    def is_dead(self) -> bool:
        """A zombie: it runs nothing any more and only waits to be reaped.

        Where its first thread alone has ended the others run on, or hang in the kernel: that is alive.
        """
        return self.state in "ZX" and self.threads <= 1

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"

    def __str__(self) -> str:
        return f"{self.pid} ({self.name}, state {self.state})"


Finder = Callable[[], list[Process]]
"""Finds the living processes of a tree, anew at each call."""


def read_process(pid: int) -> Process | None:
    """The process `pid`, None when there is none."""
    data = _read(f"/proc/{pid}/stat")
    return Process(pid, data) if data else None


def is_alive(pid: int, start: int) -> bool:
    """Whether the process that started at `start` still runs under `pid` (a zombie does not)."""
    process = read_process(pid)
    return process is not None and process.start == start and not process.is_dead


def boot_id() -> str:
    """The kernel's name for this boot; empty where /proc does not tell."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def scan() -> dict[int, Process]:
    """All processes of this host by pid."""
    table: dict[int, Process] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            process = read_process(int(entry))
            if process is not None:
                table[process.pid] = process
    return table


def ancestors(pid: int) -> Iterator[Process]:
    """The process itself, its parent and so on up, as they are now."""
    seen: set[int] = set()
    while pid > 0 and pid not in seen and (process := read_process(pid)) is not None:
        seen.add(pid)
        yield process
        pid = process.ppid


def mark_of(pid: int) -> str:
    """The mark in the environment of a process; empty where there is none, or none that this user may read."""
    prefix = f"{MARK_VARIABLE}=".encode()
    found = next((each for each in _read(f"/proc/{pid}/environ").split(b"\0") if each.startswith(prefix)), prefix)
    return found[len(prefix) :].decode(errors="replace")


def owner_of(pid: int) -> int | None:
    """Number of the user whose process it is; None when it is gone."""
    return _real_id(pid, b"Uid:")


def group_of(pid: int) -> int | None:
    """Number of that user's group; None when it is gone."""
    return _real_id(pid, b"Gid:")


def catches(pid: int, signum: int) -> bool:
    """Whether the process has a handler of its own for the signal."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def _real_id(pid: int, which: bytes) -> int | None:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(which):
            return int(line.split()[1])
    return None


def descendants(root: int, table: dict[int, Process]) -> list[Process]:
    """Living descendants of `root`, parents before their children, without `root` itself."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process)
    found: list[Process] = []
    frontier = [root]
    while frontier:
        for child in children.pop(frontier.pop(0), []):
            frontier.append(child.pid)
            found.append(child)
    return [process for process in found if not process.is_dead]


def family(root: int, most: int | None = None) -> list[Process]:
    """Like `descendants`, but it reads nothing of other processes: for frequent looks at one job.

    `most`: where more are found than that, so many and one are enough.

    A process that is handed to another parent at this very moment may be missed. Source: proc(5), task/TID/children;
    a kernel without those files has all its processes read.
    """
    limit = None if most is None else most + 1
    if not _HAS_CHILDREN_FILES:
        return descendants(root, scan())[:limit]
    found: list[Process] = []
    frontier = [(root, 0)]
    while frontier and (limit is None or len(found) < limit):
        parent, threads = frontier.pop(0)
        for pid in _children(parent, threads):
            process = read_process(pid)
            if process is not None:
                frontier.append((pid, process.threads))
                if not process.is_dead:
                    found.append(process)
            if len(found) == limit:
                break
    return found


def _children(pid: int, count: int) -> list[int]:
    """Children of a process: each of its threads has a list of its own. `count`: of threads; 0: unknown."""
    if count == 1:
        return [int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def marked(mark: str, table: dict[int, Process], uid: int | None = None) -> list[Process]:
    """Living processes whose environment carries `mark`, and their descendants. Sees only what this user may read.

    `uid`: of that user alone; anybody can put any mark into the environment of processes of his own.
    """
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    found: dict[int, Process] = {}
    for process in table.values():
        if process.is_dead or wanted not in _read(f"/proc/{process.pid}/environ").split(b"\0"):
            continue
        if uid is None or owner_of(process.pid) == uid:
            found[process.pid] = process
    for root in list(found):
        found.update((process.pid, process) for process in descendants(root, table))
    return list(found.values())


def joined(found: list[Process], pids: Iterable[int], table: dict[int, Process] | None = None) -> list[Process]:
    """`found`, and the living ones of these pids behind it: read from `table` where there is one."""
    known = {process.pid for process in found}
    more = [table.get(pid) if table is not None else read_process(pid) for pid in pids if pid not in known]
    return [*found, *(process for process in more if process is not None and not process.is_dead)]


def send(process: Process, signum: int) -> str:
    """Signal exactly this process. Empty when sent or when it is gone already, else why it could not be."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return ""
    except OSError:
        fd = -1  # a kernel or a sandbox without pidfds
    try:
        current = read_process(process.pid)
        if current is None or current.start != process.start:
            return ""
        if fd >= 0:
            signal.pidfd_send_signal(fd, signum)
        else:
            os.kill(process.pid, signum)
    except ProcessLookupError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    finally:
        if fd >= 0:
            os.close(fd)
    return ""


def send_each(processes: Iterable[Process], signum: int) -> tuple[list[Process], list[tuple[Process, str]]]:
    """Signal each of them; those that could be or are gone, and those that could not be, each with the reason."""
    reached: list[Process] = []
    refused: list[tuple[Process, str]] = []
    for process in processes:
        problem = send(process, signum)
        if problem:
            refused.append((process, problem))
        else:
            reached.append(process)
    return reached, refused


def send_all(processes: Iterable[Process], signum: int) -> str:
    """Signal each of them; the reasons why some could not be, joined, or empty."""
    return "; ".join(f"process {process}: {why}" for process, why in send_each(processes, signum)[1])


def stop(find: Finder) -> str:
    """Stop a whole tree: SIGSTOP until a look finds nobody new, so that no child forked meanwhile runs on."""
    seen: set[tuple[int, int]] = set()
    problem = ""
    for _ in range(_MAX_ROUNDS):
        fresh = [each for each in find() if not each.is_stopped and (each.pid, each.start) not in seen]
        if not fresh:
            return problem
        problem = send_all(fresh, signal.SIGSTOP) or problem
        seen.update((each.pid, each.start) for each in fresh)
    return problem or f"the processes multiply faster than they can be stopped ({len(seen)} were)"


def resume(find: Finder) -> str:
    """Let a whole tree go on."""
    return send_all(find(), signal.SIGCONT)


def _read(path: str) -> bytes:
    """The file's contents; empty when it is gone or not for us to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = b""
        while chunk := os.read(fd, 65536):
            data += chunk
        return data
    except OSError:
        return b""
    finally:
        os.close(fd)


def read_swap_kib(pid: int) -> int:
    """Swapped-out memory of a process, 0 where the kernel does not tell (proc(5), status, VmSwap)."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmSwap:"):
            return int(line.split()[1])
    return 0
