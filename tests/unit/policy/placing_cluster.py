"""A small cluster to try whole cycles on: hosts with devices and slots, jobs numbered in the order they are added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gsched.base.coded_text import sentence
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, HostSnapshot, Plan, Rank, RequirementClass, Running, Snapshot
from gsched.policy.cycle import schedule
from gsched.policy.match.host_fit import misfit

PROCESS, SHARED = ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.DEFAULT
NOW = 1000.0
COUNTERS = ("ngpus", "ngpus_shared", "ngpus_excl_t", "ngpuprohibited", "ngpus_excl_p")


def host(name: str, **changes: Any) -> HostSnapshot:
    values: dict[str, Any] = {"type": "LINUX", "r15s": 0.0, "pg": 0.0, "ut": 0.0, "mem": 1000.0}
    values.update(dict.fromkeys(COUNTERS), hname=name)
    values.update(changes.pop("values", {}))
    return HostSnapshot(name=name, values=values, **changes)


def kind(text: str = "", *, queue: str = "q", user: str = "ann", slots: int = 1, **asked: Any) -> Bucket:
    own = {name: asked.pop(name) for name in ("project", "job_group", "array") if name in asked}
    return Bucket(queue, user, RequirementClass(text, slots, **asked), **own)


class Line:
    """The jobs of a bucket."""

    def __init__(self, ids: list[int], priorities: Mapping[int, int]) -> None:
        """`priorities`: job -> -sp; 0 of all others."""
        self.ids = ids
        self._priorities = priorities

    def __iter__(self) -> Iterator[tuple[Rank, int]]:
        ranks = [(Rank(-float(self._priorities.get(job_id, 0)), float(job_id)), job_id) for job_id in self.ids]
        return iter(sorted(ranks))

    def __len__(self) -> int:
        return len(self.ids)


class Cluster:
    """See the module. Options are fields of Snapshot."""

    def __init__(
        self, *hosts: HostSnapshot, slots: int | None = 8, queues: Iterable[Queue] = (), **options: Any
    ) -> None:
        self.hosts = {each.name: each for each in hosts or (host("a"),)}
        self.ledger = Ledger()
        for name in self.hosts:
            self.ledger.host(name).max_slots = slots
        self.queues = {queue.name: queue for queue in queues or (Queue(name="q"),)}
        self.pending: dict[Bucket, list[int]] = {}
        self.priorities: dict[int, int] = {}
        """Job -> -sp, of those that have one."""
        self.running: dict[int, Running] = {}
        self.options = options
        self.last = 0

    def devices(
        self, name: str, count: int = 4, mode: ComputeMode = PROCESS, shared_jobs: int = 1, **each: Any
    ) -> Cluster:
        gpus = (Gpu(uuid=f"{name}{i}", index=i, mode=mode, **each) for i in range(count))
        return self.gpus(name, *gpus, shared_jobs=shared_jobs)

    def gpus(self, name: str, *gpus: Gpu, shared_jobs: int = 1) -> Cluster:
        host_ledger = self.ledger.host(name)
        host_ledger.shared_jobs = shared_jobs
        host_ledger.observe_gpus(GpuReport(gpus=gpus))
        return self

    def hold(
        self,
        name: str,
        *indices: int,
        slots: int = 1,
        claim: str = "ngpus_excl_p",
        exclusive: bool = False,
        **amounts: float,
    ) -> Cluster:
        held = tuple(HeldGpu(uuid=f"{name}{i}", index=i, claim=claim) for i in indices)
        key = (9000 + len(self.ledger.host(name).held), 1)
        part = HostAllocation(host=name, slots=slots, gpus=held, amounts=amounts, exclusive=exclusive)
        self.ledger.take(key, Allocation(hosts=(part,)))
        return self

    def add(self, bucket: Bucket, count: int = 1) -> list[int]:
        ids = list(range(self.last + 1, self.last + count + 1))
        self.last += count
        self.pending.setdefault(bucket, []).extend(ids)
        return ids

    def snapshot(self) -> Snapshot:
        pending: dict[RequirementClass, dict[Bucket, Line]] = {}
        for bucket, ids in self.pending.items():
            pending.setdefault(bucket.requirement, {})[bucket] = Line(ids, self.priorities)
        return Snapshot(
            queues=self.queues,
            hosts=self.hosts,
            ledger=self.ledger.fork(),
            pending=pending,
            running=self.running,
            local_type="LINUX",
            **self.options,
        )

    def plan(self, budget: int = 10_000) -> Plan:
        return schedule(self.snapshot(), NOW, budget)

    @staticmethod
    def schedule(snapshot: Snapshot) -> Plan:
        return schedule(snapshot, NOW, 10_000)

    def carry_out(self, plan: Plan) -> None:
        """Start what the plan places."""
        buckets = {job_id: bucket for bucket, ids in self.pending.items() for job_id in ids}
        for placement in plan.placements:
            bucket = buckets[placement.job_id]
            assert misfit(self.ledger, (placement.job_id, 1), placement.allocation) == ""
            self.ledger.take((placement.job_id, 1), placement.allocation)
            self.pending[bucket].remove(placement.job_id)
            self.running[placement.job_id] = Running(
                placement.job_id, 1, bucket, placement.allocation, "RUN", NOW, float("inf")
            )


def hosts(*names: str, slots: int | None = 4, **options: Any) -> Cluster:
    return Cluster(*[host(name) for name in names], slots=slots, **options)


def places(plan: Plan) -> dict[int, str]:
    return {placement.job_id: placement.allocation.first_host for placement in plan.placements}


def spreads(plan: Plan) -> dict[int, dict[str, int]]:
    """Job -> host -> slots."""
    return {each.job_id: {part.host: part.slots for part in each.allocation.hosts} for each in plan.placements}


def devices(plan: Plan) -> dict[int, list[int]]:
    return {each.job_id: [gpu.index for gpu in each.allocation.hosts[0].gpus] for each in plan.placements}


def line(reason: PendingReason) -> str:
    """A reason as one line, `TEXT: 2 hosts (numbers)`."""
    hosts = f": {reason.hosts} host{'s' if reason.hosts > 1 else ''}" if reason.hosts else ""
    return sentence(reason.text) + hosts + (f" ({sentence(reason.detail)})" if reason.detail else "")


def told(plan: Plan) -> list[tuple[str, ...]]:
    """The reasons of each kind of jobs that waits."""
    return [tuple(map(line, reasons)) for reasons in plan.reasons.values()]
