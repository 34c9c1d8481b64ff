"""A job's limits on its execution host: what the kernel is told about, what is looked at, and what follows.

Used by the supervisor, in the bare interpreter of the fork server: standard library only. The kernel's limits are set
in the job's own process only, never in the supervisor. A job without limits is never looked at. Source of the limits'
names and of the signals that follow: lsb.queues(5), bsub(1).
"""

from __future__ import annotations

import math
import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping

from gsched.run.containers.container_processes import SignalReach, of_job
from gsched.run.processes import process_tree

CPULIMIT = "CPULIMIT"
CPU_EXCEEDED = signal.SIGXCPU

_KERNEL_KIB = {
    "FILELIMIT": resource.RLIMIT_FSIZE,
    "DATALIMIT": resource.RLIMIT_DATA,
    "STACKLIMIT": resource.RLIMIT_STACK,
    "CORELIMIT": resource.RLIMIT_CORE,
}
"""Limits of each process, in KiB."""
_TERM_REASONS = {
    "MEMLIMIT": "TERM_MEMLIMIT",
    "SWAPLIMIT": "TERM_SWAP",
    CPULIMIT: "TERM_CPULIMIT",
    "PROCESSLIMIT": "TERM_PROCESSLIMIT",
    "THREADLIMIT": "TERM_THREADLIMIT",
}
"""Limits of the whole job, the most urgent first: MiB, MiB, seconds, processes, threads."""
_RUN_SIGNALS = (signal.SIGUSR2, signal.SIGINT, signal.SIGTERM)
KILL_WAIT_S = 30.0
"""Between SIGTERM and SIGKILL where a job is ended as Slurm does it. Source: slurm.conf(5), KillWait."""
_SIGNALS: dict[str, tuple[int, ...]] = {
    "MEMLIMIT": (),  # memory runs out faster than anybody can clean up
    "SWAPLIMIT": (),
    CPULIMIT: (CPU_EXCEEDED, signal.SIGINT, signal.SIGTERM),
}
_GENTLE = (signal.SIGINT, signal.SIGTERM)

_FIRST_LOOK_S = 0.1
_LOOK_S = 1.0
_MOST_LOOK_S = 60.0


def restrict(limits: Mapping[str, float]) -> None:
    """Set the kernel's limits of this process and its children; what is tighter already stays as it is.

    All but that of CPU time, which may change while the job runs: see `limit_cpu`.
    """
    limit_process(0, limits)


def limit_process(pid: int, limits: Mapping[str, float]) -> None:
    """As `restrict`, for another process; 0 is this one. Raises OSError."""
    for name, kind in _KERNEL_KIB.items():
        if name in limits:
            amount = int(limits[name] * 1024)
            _, most = resource.prlimit(pid, kind)
            amount = amount if most == resource.RLIM_INFINITY else min(amount, most)
            resource.prlimit(pid, kind, (amount, amount))


def limit_cpu(
    members: Iterable[process_tree.Process], limits: Mapping[str, float], before: Mapping[str, float] | None = None
) -> None:
    """Have the kernel send SIGXCPU to each of these processes at the job's limit of CPU time, or no longer.

    The soft limit only: nobody but root could raise a hard one again. `before`: what the limits were; a process that
    has set itself a tighter one keeps it.
    """
    before = before or {}
    if limits.get(CPULIMIT) == before.get(CPULIMIT):
        return
    for each in members:
        try:
            soft, most = resource.prlimit(each.pid, resource.RLIMIT_CPU)
            if soft != resource.RLIM_INFINITY and CPULIMIT in before and soft < before[CPULIMIT]:
                continue
            wanted = math.ceil(limits[CPULIMIT]) if CPULIMIT in limits else most
            wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            resource.prlimit(each.pid, resource.RLIMIT_CPU, (wanted, most))
        except (OSError, ValueError):  # gone, or another user's by now: what they use is looked at all the same
            continue


def inherit_limits(pid: int, parent: int) -> None:
    """Give a process the limits of another, of those that a job may have set, as far as that can be done."""
    for kind in (*_KERNEL_KIB.values(), resource.RLIMIT_CPU):
        try:
            resource.prlimit(pid, kind, resource.prlimit(parent, kind))
        except (OSError, ValueError):  # gone, or without the right to raise limits: the others all the same
            continue


class RunLimitGuard:
    """Watches one job: times are seconds of its run time, which stands still while it is suspended.

    `find` finds all its processes for a signal, `look` for a frequent look at what they use; without it they are the
    children of this process, at all depths.
    """

    def __init__(
        self,
        run_limit_s: float | None,
        limits: Mapping[str, float],
        interval_s: float,
        find: process_tree.Finder,
        look: process_tree.Finder | None = None,
        *,
        ends_by_term: bool = False,
        is_contained: bool = False,
    ) -> None:
        """`ends_by_term`: SIGTERM, then SIGKILL, whatever limit it is. `is_contained`: it runs in containers."""
        self._reach = SignalReach(is_contained=is_contained)
        self.term_reason = ""
        """The limit that the job has reached, as LSF's keyword."""
        self._interval_s = interval_s
        self._find = find
        self._ends_by_term = ends_by_term
        self._look_for = look
        self._limits = {name: limits[name] for name in _TERM_REASONS if name in limits}
        self._only_cpu = list(self._limits) == [CPULIMIT]
        self._pause_s = _FIRST_LOOK_S
        self._look_at = math.inf if not self._limits else _FIRST_LOOK_S
        self._steps: Iterator[tuple[float, int]] = iter(())
        self._step_at, self._signal = math.inf, 0
        self._kills_since = math.inf
        if run_limit_s is not None:
            self._begin(_RUN_SIGNALS, run_limit_s)

    @property
    def due(self) -> float:
        """When `act` is to be called next; infinity for never."""
        return min(self._step_at, self._look_at)

    def act(self, ran_s: float, reaped_cpu_s: float) -> None:
        """Do what is due after `ran_s`; `reaped_cpu_s` is the CPU time of the job's processes that are gone."""
        if ran_s >= self._step_at:
            self.term_reason = self.term_reason or "TERM_RUNLIMIT"
            self._look_at = math.inf
            told = self._reach.meant(self._find(), self._signal)
            process_tree.send_all(told, self._signal)
            if self._signal == signal.SIGKILL:
                self._kills_since = min(self._kills_since, ran_s)
            self._step_at, self._signal = next(self._steps)
        elif ran_s >= self._look_at:
            self._look(ran_s, reaped_cpu_s)

    def is_helpless(self, ran_s: float) -> bool:
        """Whether SIGKILL has had no effect for so long that processes hang in the kernel."""
        return ran_s - self._kills_since >= process_tree.UNKILLABLE_AFTER_S

    def renewed(self, run_limit_s: float | None, limits: Mapping[str, float]) -> RunLimitGuard:
        """A guard of other limits; this one when the job is being ended already."""
        return (
            self
            if self.term_reason
            else RunLimitGuard(
                run_limit_s,
                limits,
                self._interval_s,
                self._find,
                self._look_for,
                ends_by_term=self._ends_by_term,
                is_contained=self._reach.is_contained,
            )
        )

    def explains(self, signum: int) -> str:
        """The keyword for a job that ended by this signal from the kernel; empty when no limit accounts for it."""
        return _TERM_REASONS[CPULIMIT] if signum == CPU_EXCEEDED and CPULIMIT in self._limits else ""

    def _look(self, ran_s: float, reaped_cpu_s: float) -> None:
        members = self._look_for() if self._look_for is not None else process_tree.family(os.getpid())
        if self._reach.is_contained:
            members = of_job(members)
        cpu_s = reaped_cpu_s + sum(each.ticks + each.children_ticks for each in members) / process_tree.TICKS_PER_S
        for name, limit in self._limits.items():
            if _used(name, members, cpu_s) > limit:
                self.term_reason = _TERM_REASONS[name]
                self._begin(_SIGNALS.get(name, _GENTLE), ran_s)
                self.act(ran_s, reaped_cpu_s)
                return
        self._pause_s = min(self._pause_s * 2, _LOOK_S)
        pause_s = self._pause_s
        if self._only_cpu:  # it cannot be reached sooner than with all CPUs at work
            soonest_s = (self._limits[CPULIMIT] - cpu_s) / (os.cpu_count() or 1)
            pause_s = min(max(soonest_s, pause_s), _MOST_LOOK_S)
        self._look_at = ran_s + pause_s

    def _begin(self, signums: tuple[int, ...], at_s: float) -> None:
        if self._ends_by_term and signums:
            signums = (signal.SIGTERM,)
        self._steps = _escalation(signums, at_s, self._interval_s)
        self._step_at, self._signal = next(self._steps)


def _used(name: str, members: list[process_tree.Process], cpu_s: float) -> float:
    uses: dict[str, Callable[[], float]] = {
        "MEMLIMIT": lambda: sum(each.rss_pages for each in members) * process_tree.PAGE_BYTES / 2**20,
        "SWAPLIMIT": lambda: sum(process_tree.read_swap_kib(each.pid) for each in members) / 1024,
        CPULIMIT: lambda: cpu_s,
        "PROCESSLIMIT": lambda: len(members),
        "THREADLIMIT": lambda: sum(each.threads for each in members),
    }
    return uses[name]()


def _escalation(signums: tuple[int, ...], at_s: float, interval_s: float) -> Iterator[tuple[float, int]]:
    """(time, signal) of each step: the signals `interval_s` apart, then SIGKILL for ever."""
    for signum in signums:
        yield at_s, signum
        at_s += interval_s
    while True:
        yield at_s, signal.SIGKILL
        at_s += 1.0
