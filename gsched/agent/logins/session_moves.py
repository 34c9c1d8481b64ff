"""Processes of sessions into the control group, limits and CPUs of a job.

Runs in threads: what a user makes large takes long. Must never leave in a job's group a process that it did not mean:
a number that has become another's meanwhile is put back.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Collection
from itertools import islice

from gsched.run.fence import cgroup_files
from gsched.run.fence.group import FenceGroup
from gsched.run.order import Order
from gsched.run.processes import process_tree
from gsched.run.processes.process_tree import Process
from gsched.run.supervisor.run_limits import inherit_limits, limit_cpu, limit_process

MOST_PROCESSES = 500
"""Of one session, that go over to another job: each takes the kernel up to some milliseconds."""
_ROUNDS = 20


class SessionTooLargeError(Exception):
    """It has more than MOST_PROCESSES."""


class MoveTurns:
    """When sessions of a user may change jobs: one every `every_s` seconds. Who would wait over `wait_s` gets no turn.

    Times are of a clock that only goes on.
    """

    def __init__(self, every_s: float, wait_s: float) -> None:
        self._every_s = every_s
        self._wait_s = wait_s
        self._next: dict[int, float] = {}

    def take(self, uid: int, now: float) -> float | None:
        """For how many seconds this one has to wait for its turn; None: it gets none."""
        self._next = {each: at for each, at in self._next.items() if at > now}
        at = self._next.get(uid, now)
        if at - now > self._wait_s:
            return None
        self._next[uid] = at + self._every_s
        return at - now


def put(process: Process, group: FenceGroup, order: Order | None, is_there: Callable[[], bool] | None = None) -> None:
    """Put exactly this process into the group, with the limits of the order. `is_there`: whether it is still the same.

    Raises OSError; ProcessLookupError when it is gone, or its number has become another's, which is left as it was.
    """
    if not (is_there() if is_there is not None else process_tree.is_alive(process.pid, process.start)):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    try:
        if order is not None:
            _limit(process, order)
        group.add(process.pid)
    finally:
        now = process_tree.read_process(process.pid)
        if now is not None and now.start != process.start:
            _give_back(now, has_limits=order is not None)
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def _limit(process: Process, order: Order) -> None:
    """The limits and CPUs of the job for one process, which hands them on. Raises OSError."""
    limit_process(process.pid, order.limits)
    limit_cpu([process], order.limits)
    if order.cpus:
        os.sched_setaffinity(process.pid, order.cpus)


def _give_back(other: Process, *, has_limits: bool) -> None:
    """Undo it for a process that has got the number: it was just forked, so it had what its parent has.

    Never raises: one that is gone by now needs nothing.
    """
    for each in (other, *process_tree.family(other.pid, MOST_PROCESSES)):
        with contextlib.suppress(OSError, ValueError):
            cgroup_files.join(each.pid, other.ppid)
        if has_limits:
            inherit_limits(each.pid, other.ppid)
            with contextlib.suppress(OSError, ValueError):
                os.sched_setaffinity(each.pid, os.sched_getaffinity(other.ppid))


def session_chain(pid: int, inside: Collection[int], of_job: Collection[int]) -> list[Process]:
    """The process and those above it, up to the one that opened its session; empty for a process of a job.

    `inside`: all of the group that the session is in; `of_job`: which of these are the job and its supervisor. Raises
    SessionTooLargeError.
    """
    chain = list(islice(process_tree.ancestors(pid), MOST_PROCESSES + 1))
    if len(chain) > MOST_PROCESSES:
        raise SessionTooLargeError
    if any(each.pid in of_job for each in chain):
        return []
    return [each for each in chain if each.pid in inside]


def move_session(chain: Collection[Process], group: FenceGroup, order: Order) -> None:
    """The shell that asked and those above it, with all below the shell, also those that are forked meanwhile.

    `chain`: see session_chain. Other shells of the same connection stay where they are. Raises OSError,
    SessionTooLargeError.
    """
    asking, *_ = chain
    shell = next((each for each in chain if each.pid == asking.session), asking)
    moved = 0
    for _ in range(_ROUNDS):
        members = {each.pid: each for each in (*reversed([*chain]), *process_tree.family(shell.pid, MOST_PROCESSES))}
        inside = set(group.pids())
        fresh = [each for each in members.values() if each.pid not in inside]
        moved += len(fresh)
        if max(moved, len(members)) > MOST_PROCESSES:
            raise SessionTooLargeError
        if not fresh:
            return
        for each in fresh:
            with contextlib.suppress(ProcessLookupError):
                put(each, group, order)
