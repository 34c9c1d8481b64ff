"""What an attempt's processes use, from samples of /proc and in the end from what the kernel told its supervisor.

Memory is the sum of resident sets, as LSF counts it, so pages that processes share count once for each. Never guesses:
what was not sampled stays None.
"""

from __future__ import annotations

import msgspec

from gsched.model.jobs.job import Usage
from gsched.run.processes.process_tree import PAGE_BYTES, TICKS_PER_S, Process, read_swap_kib

_MIB = 1 << 20


class Sampler:
    """The running figures of one attempt."""

    def __init__(self) -> None:
        self._max_mem_mib: float | None = None
        self._mem_total = 0.0
        self._samples = 0
        self._max_swap_mib = 0.0
        self._max_processes = 0
        self._max_threads = 0
        self._last: Usage | None = None

    def sample(self, members: list[Process], reaper: Process | None, pgid: int, now: float) -> Usage | None:
        """Usage at `now` (UTC) of the living `members`; `reaper` is the supervisor, which has reaped the dead ones."""
        return self._sampled(members, reaper, pgid, now) if members else self._last

    def sample_part(self, members: list[Process], reaper: Process | None, now: float) -> Usage | None:
        """The same of a part of a job on another host, where often nothing runs, and nothing leads a group."""
        return self._sampled(members, reaper, None, now) if members or reaper is not None else self._last

    def _sampled(self, members: list[Process], reaper: Process | None, pgid: int | None, now: float) -> Usage:
        ticks = sum(each.ticks + each.children_ticks for each in members) + (reaper.children_ticks if reaper else 0)
        mem_mib = sum(each.rss_pages for each in members) * PAGE_BYTES / _MIB
        self._samples += 1
        self._mem_total += mem_mib
        self._max_mem_mib = max(self._max_mem_mib or 0.0, mem_mib)
        swap_mib = sum(read_swap_kib(each.pid) for each in members) / 1024
        self._max_swap_mib = max(self._max_swap_mib, swap_mib)
        self._max_processes = max(self._max_processes, len(members))
        threads = sum(each.threads for each in members)
        self._max_threads = max(self._max_threads, threads)
        self._last = Usage(
            cpu_s=ticks / TICKS_PER_S,
            mem_mib=mem_mib,
            swap_mib=swap_mib,
            max_mem_mib=self._max_mem_mib,
            avg_mem_mib=self._mem_total / self._samples,
            threads=threads,
            pgid=pgid,
            pids=tuple(sorted(each.pid for each in members)),
            sampled_at=now,
            max_swap_mib=self._max_swap_mib,
            max_processes=self._max_processes,
            max_threads=self._max_threads,
        )
        return self._last

    def final(self, reported: Usage) -> Usage:
        """The last word: the supervisor's CPU time, and the highest memory that either of us saw."""
        last = self._last or Usage()
        peaks = [peak for peak in (reported.max_mem_mib, self._max_mem_mib) if peak is not None]
        return msgspec.structs.replace(
            last,
            cpu_s=max(reported.cpu_s, last.cpu_s),
            max_mem_mib=max(peaks) if peaks else None,
            pgid=reported.pgid or last.pgid,
        )
