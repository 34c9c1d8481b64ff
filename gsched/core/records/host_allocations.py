"""Questions about the parts of jobs: what an attempt has on its hosts beside the first one. Asked of a job alone.

A part is opened on each of those hosts before the first host is told to start, and ended when the job is over. What it
holds is free when it has ended. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gsched.core.records.job import JobRecord
from gsched.model.jobs.job import FINISHED, Usage
from gsched.model.ledgers.allocation import HostAllocation

_SUMS = (
    "cpu_s", "mem_mib", "swap_mib", "max_mem_mib", "avg_mem_mib", "threads", "max_swap_mib", "max_processes",
    "max_threads", "cpu_peak", "read_mib", "written_mib", "disk_read_mib", "disk_written_mib",
)  # fmt: skip


def others(job: JobRecord) -> tuple[HostAllocation, ...]:
    """What its attempt holds on all hosts but the first."""
    return job.allocation.hosts[1:] if job.allocation is not None else ()


def is_part(job: JobRecord, host: str) -> bool:
    """Whether the host is one of those."""
    return any(part.host == host for part in others(job))


def has_released(job: JobRecord, host: str) -> bool:
    """Whether the attempt has given the host back while it ran, and the end of its part there is not known."""
    return host in job.released_parts and host not in job.part_usage


def is_ordered(job: JobRecord) -> bool:
    """Whether its first host has been told to start: at once for a job of one host, else when all parts are open."""
    return job.started_at is not None or all(part.host in job.open_parts for part in others(job))


def together(first: Usage | None, more: Iterable[Usage]) -> Usage | None:
    """What a job uses on all its hosts; its processes are named for the first one, where its own process is."""
    total = first
    for usage in more:
        if total is None:
            total = msgspec.structs.replace(usage, pgid=None, pids=())
            continue
        sums = {name: _sum(getattr(total, name), getattr(usage, name)) for name in _SUMS}
        total = msgspec.structs.replace(total, **sums, gpus=(*total.gpus, *usage.gpus))
    return total


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


class Leaving:
    """Finished jobs of which parts are still there, by host. Derived from jobs, never stored."""

    def __init__(self) -> None:
        self._jobs: dict[str, set[int]] = {}

    def on(self, host: str) -> list[int]:
        """Jobs that have a part on the host, by number."""
        return sorted(self._jobs.get(host, ()))

    def enter(self, job: JobRecord) -> None:
        """The job has finished, or stands so in a checkpoint."""
        if job.state in FINISHED:
            for part in job.left_parts():
                self._jobs.setdefault(part.host, set()).add(job.job_id)

    def leave(self, job: JobRecord, host: str = "") -> None:
        """Its part on the host has ended, or (no host) nobody waits for its parts any more."""
        for part in others(job) if self._jobs else ():
            if host in ("", part.host) and job.job_id in self._jobs.get(part.host, ()):
                self._jobs[part.host].discard(job.job_id)
                if not self._jobs[part.host]:
                    del self._jobs[part.host]

    def pairs(self) -> set[tuple[str, int]]:
        """(host, job) of all."""
        return {(host, job_id) for host, jobs in self._jobs.items() for job_id in jobs}
