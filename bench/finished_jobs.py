"""The past of a cluster that has finished very many jobs: the events and rows that its master would have written.

Jobs come evenly spread over 13 months, most of them as elements of arrays, from users of whom few submit much. Each
takes a GPU that is free by then, so that the events are legal in the order in which they are told; a test applies them
and compares the rows with those that the master makes. Nothing here writes.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Any

from gsched.base.ids import element_id
from gsched.model.event import (
    AnyEvent,
    JobDispatched,
    JobFinished,
    JobForgotten,
    JobResumed,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.store.tables.schema import ARRAY, IRREGULAR, JobRow

DAY_S = 86_400.0
MONTHS_13_S = 395 * DAY_S
USERS, QUEUES, PROJECTS, NAMES = 200, 5, 20, 2_000
ARRAY_SIZES = (20, 100, 500)
ARRAY_EVERY = 40
"""Of so many submissions one is an array: five of six jobs are elements."""
IRREGULAR_EVERY = 100
"""Of so many jobs one was stopped for a while."""
FAILED_EVERY = 20
HOSTS, GPUS_OF_HOST = 40, 8
KEPT_S = 3_600.0
"""From the end of a job until it is forgotten."""
_REQ = "select[type == local] order[r15s:pg] rusage[mem=4096.00]"
_BOOT = "c7bb3cfd-e387-42c2-b01e-a82082d8427a"
_DEFAULTED = ("rerunnable", "requeue_exit_values", "priority", "estimate_s", "application")


@dataclass(frozen=True, slots=True)
class Contents:
    """What jobs refer to: names of blobs."""

    environments: Sequence[str]
    scripts: Sequence[str]


@dataclass(slots=True)
class _Gpu:
    free_at: float
    number: int
    place: Allocation

    def __lt__(self, other: _Gpu) -> bool:
        return (self.free_at, self.number) < (other.free_at, other.number)


class FinishedJobs:
    """`jobs` jobs, the first of them numbered `first_id`, the last one submitted at `until` (UTC seconds).

    The user `u0` makes one submission in 26, the most.
    """

    def __init__(self, jobs: int, first_id: int, until: float, contents: Contents) -> None:
        self.jobs = jobs
        self.next_id = first_id
        self.rows: list[JobRow] = []
        """Those of jobs that were submitted since somebody took them out."""
        self._until = until
        self._apart_s = MONTHS_13_S / jobs
        self._contents = contents
        self._random = random.Random(jobs)
        self._weights = list(accumulate(1 / (8 + number) for number in range(USERS)))
        self._gpus = [_Gpu(0.0, number, _place(number)) for number in range(HOSTS * GPUS_OF_HOST)]
        self._coming: list[tuple[float, int, AnyEvent]] = []
        self._order = count()

    def events(self) -> Iterator[AnyEvent]:
        """All of them in order."""
        made, submissions = 0, 0
        while made < self.jobs:
            at = self._until - (self.jobs - made - 1) * self._apart_s
            while self._coming and self._coming[0][0] <= at:
                yield heapq.heappop(self._coming)[2]
            size = self._random.choice(ARRAY_SIZES) if submissions % ARRAY_EVERY == 0 else 0
            size = min(size, self.jobs - made)
            yield self._submitted(at, size)
            made += size or 1
            submissions += 1
        while self._coming:
            yield heapq.heappop(self._coming)[2]

    def _submitted(self, at: float, size: int) -> AnyEvent:
        """A job, or an array of so many; what becomes of it is coming."""
        job_id, self.next_id = self.next_id, self.next_id + 1
        spec = self._spec(size)
        if not size:
            end = self._life(job_id, spec, at)
            self._later(end + KEPT_S, JobForgotten(at=end + KEPT_S, job_id=job_id))
        else:
            end = max(self._life(element_id(job_id, index), spec, at) for index in range(1, size + 1))
            self._later(end + KEPT_S, JobForgotten(at=end + KEPT_S, job_id=job_id))
            self.rows.append(_row(job_id, spec, "", at, finished_at=end, traits=ARRAY))
        return JobSubmitted(at=at, job_id=job_id, spec=spec, token=f"{self._random.getrandbits(128):032x}")

    def _spec(self, size: int) -> JobSpec:
        draw = self._random
        (number,) = draw.choices(range(USERS), cum_weights=self._weights)
        scripts, user = self._contents.scripts, f"u{number}"
        return JobSpec(
            command="train.sh", user=user, queue=f"q{draw.randrange(QUEUES)}", name=f"train-{draw.randrange(NAMES)}",
            project=f"p{number % PROJECTS}", slots=1, res_req="rusage[mem=4096]", combined_req=_REQ, gpu_req="num=1",
            combined_gpu_req="num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia", cwd=f"/home/{user}/resnet",
            home=f"/home/{user}", submit_host="login1", output_file="logs/%J.out",
            environment=self._contents.environments[number % len(self._contents.environments)],
            script=scripts[draw.randrange(len(scripts))], defaulted=_DEFAULTED,
            indices=f"1-{size}" if size else "",
        )  # fmt: skip

    def _life(self, job_id: int, spec: JobSpec, submitted_at: float) -> float:
        """Its events are coming; when it ends."""
        draw, gpu = self._random, self._gpus[0]
        begin = max(submitted_at + 0.05, gpu.free_at)
        run_s = draw.uniform(20.0, 580.0)
        end = begin + 0.2 + run_s
        gpu.free_at = end + 0.1
        heapq.heapreplace(self._gpus, gpu)
        pid, code = draw.randrange(1000, 1 << 22), int(draw.randrange(FAILED_EVERY) == 0)
        usage = Usage(
            cpu_s=round(run_s * 0.9, 2), mem_mib=draw.randrange(500, 60_000) / 4, max_mem_mib=15_001.5, threads=12,
            pgid=pid, cpu_peak=draw.uniform(0.5, 4.0), cpu_peak_s=30.0, read_mib=draw.uniform(1, 900), written_mib=1.5,
        )  # fmt: skip
        result = AttemptResult(exit_code=code, ended_at=end, run_s=run_s, usage=usage)
        is_irregular = draw.randrange(IRREGULAR_EVERY) == 0
        self._later(
            begin,
            JobDispatched(at=begin, job_id=job_id, attempt=1, allocation=gpu.place, effective_req=spec.combined_req),
        )
        self._later(
            begin + 0.2,
            JobStarted(at=begin + 0.2, job_id=job_id, attempt=1, pid=pid, home=spec.home, cwd=spec.cwd, boot_id=_BOOT),
        )
        if is_irregular:
            self._later(begin + 3.0, JobSuspended(at=begin + 3.0, job_id=job_id, by=spec.user))
            self._later(begin + 9.0, JobResumed(at=begin + 9.0, job_id=job_id, by=spec.user))
        self._later(end, JobFinished(at=end, job_id=job_id, attempt=1, result=result, post_processed=True))
        self.rows.append(
            _row(
                job_id, spec, "EXIT" if code else "DONE", submitted_at, host=gpu.place.hosts[0].host,
                dispatched_at=begin, finished_at=end, exit_code=code, cpu_s=usage.cpu_s, gpus=1.0,
                traits=IRREGULAR if is_irregular else 0,
            )
        )  # fmt: skip
        return end

    def _later(self, at: float, event: AnyEvent) -> None:
        heapq.heappush(self._coming, (at, next(self._order), event))


def _place(number: int) -> Allocation:
    host, index = divmod(number, GPUS_OF_HOST)
    uuid = f"GPU-{random.Random(number).getrandbits(128):032x}"
    gpu = HeldGpu(uuid=uuid, index=index, claim="gpu_shared", pci_bus_id=f"00000000:{index:02x}:00.0")
    return Allocation(hosts=(HostAllocation(host=f"gpu{host:03}", slots=1, gpus=(gpu,), amounts={"mem": 4096.0}),))


def _row(job_id: int, spec: JobSpec, state: str, submitted_at: float, **told: Any) -> JobRow:
    return JobRow(
        job_id=job_id, user=spec.user, queue=spec.queue, name=spec.shown_name(job_id), project=spec.project,
        state=state, submitted_at=submitted_at, **told,
    )  # fmt: skip
