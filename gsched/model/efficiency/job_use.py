"""What a job asked for beside what it used of it, number by number. Unknown is None, never 0.

Time in which nobody looked at a GPU counts as used, wherever something is to be said against the job.
"""

from __future__ import annotations

import msgspec

from gsched.model.gpus.gpu_idle import GPU_IDLE
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu

SEEN = 0.95
"""Part of its run in which a GPU must have been looked at, for it to be said that it was never used."""


class AskedGpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU, or a part of one, that the job held."""

    host: str
    index: int
    uuid: str
    share: float = 1.0
    """Of a GPU that it shared: the part that it asked for."""
    gmem_mib: float = 0.0
    """gmem=; 0: it did not say."""


class AskedOf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job asked for, on all its hosts."""

    slots: int
    hosts: int = 1
    gpus: tuple[AskedGpu, ...] = ()
    mem_mib: float | None = None
    """rusage[mem=]; None: nothing, or not the same for all of its run."""
    run_limit_s: int | None = None
    """-W; None: the job itself did not say."""


def asked_of(spec: JobSpec, allocation: Allocation) -> AskedOf:
    """What it was given is what it asked for."""
    parts = allocation.hosts
    amounts = [part.amounts["mem"] for part in parts if "mem" in part.amounts]
    is_settled = amounts and not any(course.resource == "mem" for part in parts for course in part.courses)
    return AskedOf(
        slots=sum(part.slots for part in parts),
        hosts=len(parts),
        gpus=tuple(_asked_gpu(part.host, gpu) for part in parts for gpu in part.gpus),
        mem_mib=sum(amounts) if is_settled else None,
        run_limit_s=None if "run_limit_s" in spec.defaulted else spec.run_limit_s,
    )


def _asked_gpu(host: str, gpu: HeldGpu) -> AskedGpu:
    return AskedGpu(host=host, index=gpu.index, uuid=gpu.uuid, share=gpu.share, gmem_mib=gpu.gmem_mib)


class JudgedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One of its GPUs."""

    asked: AskedGpu
    use: GpuUsage
    run_s: float
    suspended_s: float = 0.0
    """Besides; GPUs are looked at meanwhile, too."""

    @property
    def unseen_s(self) -> float:
        """Seconds in which nobody looked."""
        return max(0.0, self.run_s + self.suspended_s - self.use.covered_s)

    @property
    def _is_seen(self) -> bool:
        return self.use.samples > 0 and self.unseen_s <= (1.0 - SEEN) * self.run_s

    @property
    def percent(self) -> float | None:
        """How much of the time it computed, of a shared one of the part that it asked for."""
        mean = self.use.sm_mean
        return None if mean is None else min(100.0, mean / self.asked.share)

    @property
    def most_percent(self) -> float | None:
        """The share of the time in which it computed, at the most: as if it had whenever nobody looked."""
        if self.percent is None or self.run_s <= 0.0:
            return None
        return min(100.0, (self.percent * self.use.covered_s + 100.0 * self.unseen_s) / self.run_s)

    @property
    def never_computed(self) -> bool:
        """For certain."""
        return self._is_seen and self.use.sm_max is not None and self.use.sm_max <= 0.0

    @property
    def is_unused(self) -> bool:
        """Whether it never computed, and no memory of it was ever held: nobody would have missed it, for certain."""
        most_mib, no_process_s = self.use.mem_max_mib, self.use.no_process_s
        has_no_process = no_process_s is None or no_process_s >= SEEN * self.use.covered_s
        return self.never_computed and most_mib is not None and most_mib <= 0.0 and has_no_process


class JobUse(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, so far or in the end."""

    asked: AskedOf
    usage: Usage
    run_s: float
    """Seconds that it ran, without those in which it was suspended."""
    suspended_s: float = 0.0
    is_over: bool = True
    is_done: bool = True
    """It succeeded: what it used is what it needs."""
    is_cpu_known: bool = True
    was_idle: bool = False
    """It was ended because its GPUs were idle."""

    @property
    def gpus(self) -> tuple[JudgedGpu, ...]:
        """In the order of its allocation."""
        known = {(use.host, use.uuid): use for use in self.usage.gpus}
        return tuple(
            JudgedGpu(
                asked=gpu,
                use=known.get((gpu.host, gpu.uuid), GpuUsage()),
                run_s=self.run_s,
                suspended_s=self.suspended_s,
            )
            for gpu in self.asked.gpus
        )

    @property
    def gpu_percent(self) -> float | None:
        """The mean over its GPUs; None where one of them is unknown."""
        return _mean([gpu.percent for gpu in self.gpus])

    @property
    def gmem_percent(self) -> float | None:
        """The most memory on a GPU, of the gmem= that it asked for."""
        parts = [(gpu.use.mem_max_mib, gpu.asked.gmem_mib) for gpu in self.gpus]
        known = [100.0 * most / asked for most, asked in parts if most is not None and asked > 0.0]
        return max(known) if known and len(known) == len(parts) else None

    @property
    def cores(self) -> float | None:
        """Processor cores that it kept busy, by the mean over its run."""
        return self.usage.cpu_s / self.run_s if self.is_cpu_known and self.run_s > 0.0 else None

    @property
    def cpu_percent(self) -> float | None:
        """Processor time in percent of what its slots allow."""
        return None if self.cores is None or not self.asked.slots else 100.0 * self.cores / self.asked.slots

    @property
    def mem_percent(self) -> float | None:
        """The most memory, of what it asked for."""
        most, asked = self.usage.max_mem_mib, self.asked.mem_mib
        return None if most is None or not asked else 100.0 * most / asked

    @property
    def time_percent(self) -> float | None:
        """Run time in percent of its run limit."""
        limit_s = self.asked.run_limit_s
        return None if not limit_s else 100.0 * self.run_s / limit_s


def ended_use(asked: AskedOf, result: AttemptResult) -> JobUse:
    """What a job that is over asked for and used."""
    return JobUse(
        asked=asked,
        usage=result.usage,
        run_s=max(0.0, result.run_s - result.suspended_s),
        suspended_s=result.suspended_s,
        is_done=result.succeeded,
        is_cpu_known=result.exit_code is not None or result.signal is not None or result.usage.sampled_at is not None,
        was_idle=result.term_reason == GPU_IDLE,
    )


def running_use(asked: AskedOf, usage: Usage | None, run_s: float) -> JobUse:
    """What a job that runs asked for and has used so far."""
    used = usage or Usage()
    return JobUse(
        asked=asked, usage=used, run_s=run_s, is_over=False, is_done=False, is_cpu_known=used.sampled_at is not None
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
