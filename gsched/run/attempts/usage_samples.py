"""Samples of what the processes of attempts use.

Most jobs are looked at far more often than something changes. So a sample first asks whether any process of the attempt
has run since the last one: memory, files and children of a process that has not run are what they were. Only then are
they read, and of other processes nothing where that is less to read. What swaps or moves processes without their doing
is seen a little later. Signals nobody, enforces nothing: limits are the supervisors'.
"""

from __future__ import annotations

import time

import msgspec

from gsched.base.clock import Clock
from gsched.model.jobs.job import Usage
from gsched.run.attempts.attempt import Attempt
from gsched.run.processes import attempt_processes, process_clocks, process_tree
from gsched.run.processes.process_usage import DEFAULT_WINDOW_S
from gsched.run.spool import Spool

TOGETHER_S = 0.2
"""What was read of all processes serves all attempts that are asked about within that time."""
READ_AGAIN_S = 15.0
"""So often the processes of an attempt are read even when none has run: the kernel may have swapped them out."""
GROUP_AGAIN_S = 5.0
"""So often the group of an attempt that rests is read: a session of ssh may have been put into it."""
KEPT_AGAIN_S = 60.0
"""So often figures are kept that have not changed: their mean is the same without some samples."""
FEW_THREADS = 64
"""The lists of children of so many threads are read without thinking of the processes of the whole host."""


class UsageSamples:
    """Samples attempts; `window_s` is CPU_PEAK_SAMPLE_DURATION."""

    def __init__(self, spool: Spool, clock: Clock) -> None:
        self._spool = spool
        self._clock = clock
        self.window_s = DEFAULT_WINDOW_S
        self._table: tuple[float, attempt_processes.ProcessTable] = (float("-inf"), {})
        self._lists: tuple[float, int] = (float("-inf"), 0)
        """When lists of children were first read for the attempts that are asked about now, and of how many threads."""

    def sample(self, held: Attempt) -> Usage | None:
        """What a started attempt uses now; None where nothing can be said of it."""
        held.usage.window_s = self.window_s
        now, monotonic = self._clock.now(), self._clock.monotonic()
        if self._has_rested(held, monotonic):
            return held.usage.repeat(now=now, monotonic=monotonic)
        clocks = process_clocks.readings(held.clocks)  # before the look: what runs meanwhile is seen next time
        supervisor = process_tree.read_process(held.supervisor[0]) if held.supervisor is not None else None
        if held.supervisor is not None and supervisor is None and self._spool.is_over(held.name):
            return None  # its end is told in a moment
        members, reaper = self._family(held, supervisor) or self._among_all(held)
        usage = held.usage.sample(
            members,
            reaper,
            pgid=None if held.is_part or held.started is None else held.started.pid,
            now=now,
            monotonic=monotonic,
            group=held.group,
        )
        watched = {each.pid for each in (*members, *([reaper] if reaper is not None else []))}
        held.clocks = {pid: clocks.get(pid, process_clocks.GONE) for pid in watched}
        held.read_at = held.group_read_at = monotonic
        self._keep(held, usage, monotonic)
        return usage

    def _keep(self, held: Attempt, usage: Usage | None, monotonic: float) -> None:
        """Write the figures for the next agent, if there is something to write."""
        lasting = msgspec.structs.replace(usage or Usage(), sampled_at=None, avg_mem_mib=None)
        at, before = held.kept
        if lasting == before and 0.0 <= monotonic - at < KEPT_AGAIN_S:
            return
        held.kept = monotonic, lasting
        self._spool.keep_figures(held.name, held.usage.figures)

    def _has_rested(self, held: Attempt, monotonic: float) -> bool:
        """Whether the last sample still holds: nobody has run, and nobody was put into the group from outside."""
        if held.supervisor is None or not 0.0 <= monotonic - held.read_at < READ_AGAIN_S:
            return False
        if held.supervisor[0] not in held.clocks or not process_clocks.have_rested(held.clocks):
            return False
        if held.group is None or 0.0 <= monotonic - held.group_read_at < GROUP_AGAIN_S:
            return True
        held.group_read_at = monotonic
        return held.clocks.keys() >= set(held.group.pids())

    def _family(self, held: Attempt, reaper: process_tree.Process | None) -> _Found | None:
        """By the supervisor's children and theirs; None where that is not to be had, or more to read than all is."""
        if reaper is None or held.supervisor != (reaper.pid, reaper.start) or reaper.is_dead:
            return None
        if not self._is_cheap(held):
            return None
        members = process_tree.family(reaper.pid)
        return (process_tree.joined(members, held.group.pids()) if held.group is not None else members), reaper

    def _is_cheap(self, held: Attempt) -> bool:
        """Each thread has a list of children of its own, and a job may have hundreds."""
        last, now = held.usage.figures.last, time.monotonic()
        begun, threads = self._lists
        if now - begun > TOGETHER_S:
            begun, threads = now, 0
        threads += 1 + ((last.threads or 0) if last is not None else 0)
        self._lists = begun, threads
        return threads <= max(FEW_THREADS, len(self._table[1]))

    def _among_all(self, held: Attempt) -> _Found:
        """By a look at all processes of the host."""
        taken, table = self._table
        if time.monotonic() - taken > TOGETHER_S:
            table = process_tree.scan()
            self._table = (time.monotonic(), table)
        reaper = table.get(held.supervisor[0]) if held.supervisor else None
        return attempt_processes.members(held, table), reaper


_Found = tuple[list[process_tree.Process], process_tree.Process | None]
"""Living processes of an attempt, and its supervisor."""
