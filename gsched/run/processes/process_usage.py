"""What an attempt's processes use, from samples of /proc and in the end from what the kernel told its supervisor.

Memory is the sum of resident sets, as LSF counts it, so pages that processes share count once for each; a control group
that counts memory tells it better, each page once. Never guesses: what was not sampled stays None.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gsched.model.jobs.job import Usage
from gsched.run.fence.group import FenceGroup
from gsched.run.processes.process_io import FIELDS, fields_since, sum_io
from gsched.run.processes.process_tree import PAGE_BYTES, TICKS_PER_S, Process, read_swap_kib

_MIB = 1 << 20
_NOTHING = (0, 0, 0, 0)
DEFAULT_WINDOW_S = 60.0
"""CPU_PEAK_SAMPLE_DURATION: the peak of the CPU use is that of the mean over so many seconds."""


class Figures(msgspec.Struct):
    """All that was seen of one attempt so far, as it is kept in the attempt's folder."""

    samples: int = 0
    mem_total_mib: float = 0.0
    """Summed over the samples."""
    max_mem_mib: float | None = None
    max_swap_mib: float = 0.0
    max_processes: int = 0
    max_threads: int = 0
    cpu_s: float = 0.0
    window: tuple[float, float] | None = None
    """Monotonic time and CPU seconds when the window began that is not over yet."""
    cpu_peak: float | None = None
    cpu_peak_s: float | None = None
    last: Usage | None = None


class SessionUse(NamedTuple):
    """Of the living processes of a session."""

    cpu_s: float
    """With that of the children that they have waited for."""
    max_rss_kib: int
    """Memory of the largest."""


def by_session(members: Sequence[Process]) -> dict[int, SessionUse]:
    """What the processes of each session use."""
    found: dict[int, SessionUse] = {}
    for each in members:
        cpu_s, rss_kib = found.get(each.session, _NO_USE)
        cpu_s += (each.ticks + each.children_ticks) / TICKS_PER_S
        found[each.session] = SessionUse(cpu_s, max(rss_kib, each.rss_pages * PAGE_BYTES // 1024))
    return found


_NO_USE = SessionUse(0.0, 0)


class Sampler:
    """The running figures of one attempt."""

    def __init__(self, figures: Figures | None = None) -> None:
        """`figures`: what an earlier agent has seen of it."""
        self.figures = figures or Figures()
        self.window_s = DEFAULT_WINDOW_S
        self.sessions: dict[int, SessionUse] = {}
        """Session -> what its processes use, by the last sample: a task of the job is a session of its own."""

    def sample(
        self,
        members: Sequence[Process],
        reaper: Process | None,
        *,
        pgid: int | None,
        now: float,
        monotonic: float,
        group: FenceGroup | None = None,
    ) -> Usage | None:
        """Usage at `now` (UTC) of the living `members`; `reaper` is the supervisor, which has reaped the dead ones.

        A part of a job on another host has no `pgid`: often nothing runs there, and nothing leads a group.
        """
        if not members and (pgid is not None or reaper is None):
            return self.figures.last
        figures = self.figures
        self.sessions = by_session(members)
        mem_mib = _mem_mib(members, group)
        swap_mib = sum(read_swap_kib(each.pid) for each in members) / 1024
        threads = sum(each.threads for each in members)
        figures.samples += 1
        figures.mem_total_mib += mem_mib
        figures.max_mem_mib = max(figures.max_mem_mib or 0.0, mem_mib)
        figures.max_swap_mib = max(figures.max_swap_mib, swap_mib)
        figures.max_processes = max(figures.max_processes, len(members))
        figures.max_threads = max(figures.max_threads, threads)
        # It never falls: a process that has ended counts again when its parent has waited for it.
        figures.cpu_s = max(figures.cpu_s, _cpu_s(members, reaper, group))
        self._look_for_peak(monotonic)
        used = Usage(
            cpu_s=figures.cpu_s,
            mem_mib=mem_mib,
            swap_mib=swap_mib,
            max_mem_mib=figures.max_mem_mib,
            avg_mem_mib=figures.mem_total_mib / figures.samples,
            threads=threads,
            pgid=pgid,
            pids=tuple(sorted(each.pid for each in members)),
            sampled_at=now,
            max_swap_mib=figures.max_swap_mib,
            max_processes=figures.max_processes,
            max_threads=figures.max_threads,
            cpu_peak=figures.cpu_peak,
            cpu_peak_s=figures.cpu_peak_s,
        )
        io = self._io([*members, *([reaper] if reaper is not None else [])])
        figures.last = msgspec.structs.replace(used, **io)
        return figures.last

    def repeat(self, *, now: float, monotonic: float) -> Usage | None:
        """Usage at `now` (UTC) of processes that have not run since the last sample: it counts once more."""
        figures = self.figures
        if figures.last is None:
            return None
        figures.samples += 1
        figures.mem_total_mib += figures.last.mem_mib or 0.0
        self._look_for_peak(monotonic)
        figures.last = msgspec.structs.replace(
            figures.last,
            avg_mem_mib=figures.mem_total_mib / figures.samples,
            sampled_at=now,
            cpu_peak=figures.cpu_peak,
            cpu_peak_s=figures.cpu_peak_s,
        )
        return figures.last

    def _look_for_peak(self, monotonic: float) -> None:
        """The mean of each window of time in which somebody looked at both ends."""
        figures = self.figures
        since, before_s = figures.window or (monotonic, figures.cpu_s)
        passed_s = monotonic - since
        if 0.0 <= passed_s < self.window_s and figures.window is not None:
            return
        if passed_s > 0.0:
            self._note_peak((figures.cpu_s - before_s) / passed_s, passed_s)
        figures.window = monotonic, figures.cpu_s

    def _note_peak(self, cores: float, seconds: float) -> None:
        cores = min(cores, float(os.cpu_count() or 1))  # a process may be seen twice while it ends
        if self.figures.cpu_peak is None or cores > self.figures.cpu_peak:
            self.figures.cpu_peak, self.figures.cpu_peak_s = cores, seconds

    def _io(self, processes: Sequence[Process]) -> dict[str, float]:
        """It never falls, as CPU time."""
        found = fields_since(_NOTHING, sum_io(each.pid for each in processes))
        before = {name: getattr(self.figures.last, name, None) or 0.0 for name in FIELDS}
        return {name: max(value, before[name]) for name, value in found.items()}

    def final(self, reported: Usage, run_s: float) -> Usage:
        """The last word: the supervisor's CPU time and I/O, and the highest memory that either of us saw.

        `run_s`: how long it ran; the peak of a job that was over before a window was is its mean.
        """
        figures, last = self.figures, self.figures.last or Usage()
        peaks = [peak for peak in (reported.max_mem_mib, figures.max_mem_mib) if peak is not None]
        cpu_s = max(reported.cpu_s, last.cpu_s)
        if figures.cpu_peak is None and run_s > 0.0 and cpu_s > 0.0:
            self._note_peak(cpu_s / run_s, run_s)
        told = {name: getattr(reported, name) for name in FIELDS if getattr(reported, name) is not None}
        return msgspec.structs.replace(
            last,
            cpu_s=cpu_s,
            max_mem_mib=max(peaks) if peaks else None,
            pgid=reported.pgid or last.pgid,
            cpu_peak=figures.cpu_peak,
            cpu_peak_s=figures.cpu_peak_s,
            **told,
        )


def _cpu_s(members: Sequence[Process], reaper: Process | None, group: FenceGroup | None) -> float:
    """By the control group, which counts those that have ended, or by the processes."""
    told = group.cpu_s() if group is not None else None
    if told is not None:
        return told
    ticks = sum(each.ticks + each.children_ticks for each in members) + (reaper.children_ticks if reaper else 0)
    return ticks / TICKS_PER_S


def _mem_mib(members: Sequence[Process], group: FenceGroup | None) -> float:
    told = group.mem_mib() if group is not None else None
    return sum(each.rss_pages for each in members) * PAGE_BYTES / _MIB if told is None else told
