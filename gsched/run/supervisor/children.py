"""What a supervisor has forked, and what has come to it from there: their ends, their CPU time, and the end of all.

A supervisor is the subreaper of its job, so all of it is below this process. Runs in the bare interpreter of the fork
server: standard library and msgspec only. Never gives a process up that may still end.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterable
from itertools import islice

from gsched.base.coded_text import AnyText, coded, listed
from gsched.run.containers.container_processes import holds_container, of_job
from gsched.run.fence.group import FenceGroup
from gsched.run.processes import process_tree

SWEEP_GRACE_S = 2.0
"""What a finished job left behind gets SIGTERM, and this long to obey."""
MOST_REFUSED = 20
"""Of those that are not ours to end so many are named."""
TIDY_S, _TIDY_LOOK_S = 10.0, 0.1
"""So long the program that runs containers may take to remove one; looked at so often."""
_PAUSE = "catatonit"
"""What Podman leaves running for a user's next container."""
_LOOK_S = 1.0
"""How often left-overs that do not end by SIGKILL are looked at."""
_SESSION_GRACE_S, _SESSION_END_S, _SESSION_LOOK_S = 0.5, 5.0, 0.01
"""Sessions of ssh get SIGTERM when the job is over, and SIGKILL so long afterwards; given up; looked at."""


class LeftRunning:
    """A process that a job left running."""

    __slots__ = ("name", "was_killed")

    def __init__(self, name: str) -> None:
        self.name = name
        self.was_killed = False
        """It did not obey SIGTERM."""


class Children:
    """All processes below this one. `listen(timeout_s)` waits for the end of a child, or for something else."""

    def __init__(self, listen: Callable[[float | None], object]) -> None:
        self._listen = listen
        self._statuses: dict[int, int | None] = {}
        self._used: dict[int, tuple[float, int]] = {}
        self._max_rss_kib = 0
        self.cpu_s = 0.0
        """Of those that have ended."""
        self.group: FenceGroup | None = None
        """The job's control group, once there is one."""
        self.is_contained = False
        """It runs in containers, whose program tidies up by itself when it is let."""
        self.left: dict[tuple[int, int], LeftRunning] = {}
        """What was left running and swept up, by number and start."""

    def follow(self, pid: int) -> None:
        """This child was forked here and not reaped yet: its end is to be known."""
        self._statuses[pid] = None

    def state(self) -> tuple[float, int]:
        """CPU seconds and KiB of those that have ended, for `take_up`."""
        return self.cpu_s, self._max_rss_kib

    def take_up(self, pid: int, state: tuple[float, int]) -> None:
        """Go on in another interpreter of the same process; `pid` is followed."""
        self.cpu_s, self._max_rss_kib = state
        self.follow(pid)

    def forget(self, pid: int) -> None:
        """Its end is not asked for any more."""
        self._statuses.pop(pid, None)
        self._used.pop(pid, None)

    def status_of(self, pid: int) -> int | None:
        """Wait status of a child that is followed; None as long as it is there."""
        return self._statuses.get(pid)

    def used_by(self, pid: int) -> tuple[float, int | None]:
        """CPU seconds of a child that has ended and was followed, with what it has waited for, and KiB of the largest
        of these processes; None: unknown, for the kernel counts what the child was before exec too.
        """
        cpu_s, max_rss_kib = self._used.get(pid, (0.0, 0))
        return cpu_s, max_rss_kib if max_rss_kib > _own_rss_kib() else None

    def reap(self) -> bool:
        """Take what children have to report; add up their CPU time. False when no descendant is left."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.cpu_s += used.ru_utime + used.ru_stime
            self._max_rss_kib = max(self._max_rss_kib, used.ru_maxrss)
            if self._statuses.get(pid, status) is None:  # once: another process may get its number later
                self._statuses[pid] = status
                self._used[pid] = (used.ru_utime + used.ru_stime, used.ru_maxrss)

    def tree(self) -> list[process_tree.Process]:
        """The descendants that live now."""
        found = process_tree.descendants(os.getpid(), process_tree.scan())
        return process_tree.joined(found, self.group.pids()) if self.group is not None else found

    def sweep(self, on_unkillable: Callable[[list[process_tree.Process]], None]) -> AnyText:
        """End whatever the job left running, and wait for it; the text names what is not ours to end.

        `on_unkillable` hears, again and again, of those that SIGKILL does not end.
        """
        if self.group is not None:
            self.group.thaw()  # also for the steps that follow
        if not self.reap() or (self.is_contained and self._is_tidied_up()):
            return ""
        left = self.tree()
        self._note_left(left)
        process_tree.send_all(left, signal.SIGTERM)
        process_tree.send_all(left, signal.SIGCONT)
        if self._wait_childless(SWEEP_GRACE_S):
            return ""
        killing_since = time.monotonic()
        while True:
            reached, refused = process_tree.send_each(self.tree(), signal.SIGKILL)
            self._note_left(reached, was_killed=True)
            if self.group is not None:
                self.group.kill()
            is_helpless = time.monotonic() - killing_since >= process_tree.UNKILLABLE_AFTER_S
            if self._wait_childless(_LOOK_S if is_helpless else 0.05):
                return ""
            if is_helpless and not reached:
                return refused_text(refused) or coded("attempt.left_processes")
            if is_helpless:
                on_unkillable(reached)

    def _note_left(self, processes: list[process_tree.Process], *, was_killed: bool = False) -> None:
        for each in processes:
            if each.is_dead or not is_below(each) or (self.is_contained and holds_container(each)):
                continue
            self.left.setdefault((each.pid, each.start), LeftRunning(each.name)).was_killed |= was_killed

    def _is_tidied_up(self) -> bool:
        """Wait while nothing is there but the program that runs containers; whether nothing is left."""
        until = time.monotonic() + TIDY_S
        while not of_job(self.tree()) and time.monotonic() < until:
            if self._wait_childless(_TIDY_LOOK_S):
                return True
            if all(each.name == _PAUSE for each in self.tree()):
                break
        return False

    def _wait_childless(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.reap():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._listen(left)
        return True

    @property
    def max_mem_mib(self) -> float | None:
        """Peak of the largest process. The kernel counts what the child was before exec too: below that, unknown."""
        return self._max_rss_kib / 1024 if self._max_rss_kib > _own_rss_kib() else None


def _own_rss_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def is_below(process: process_tree.Process) -> bool:
    """Whether this process has started it, or one below. Others in the job's group are sessions of ssh."""
    above = list(process_tree.ancestors(process.pid))
    return not above or any(each.pid == os.getpid() for each in above)


def end_sessions(group: FenceGroup) -> None:
    """End the sessions of ssh that have joined the job, and remove its group. Waits for a bounded time."""
    since = time.monotonic()
    process_tree.send_all(process_tree.joined([], group.pids()), signal.SIGTERM)
    while not group.remove() and time.monotonic() - since < _SESSION_END_S:
        if time.monotonic() - since > _SESSION_GRACE_S:
            group.kill()
        time.sleep(_SESSION_LOOK_S)


def refused_text(refused: Iterable[tuple[process_tree.Process, str]]) -> AnyText:
    """What is told of processes that could not be signalled; empty when all could be."""
    told = [coded("attempt.refused_process", str(process), why) for process, why in islice(refused, MOST_REFUSED)]
    return listed(told, "list.semicolon")
