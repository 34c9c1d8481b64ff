"""A run of the bench through the scheduler itself: the same arrivals as pending jobs, placed by scheduling cycles.

What runs is gsched.policy.cycle.schedule on a snapshot with kept columns, as in the master; there are no daemons. A CPU
thousandth of the trace is a slot here, so that hosts and tasks are the trace's to the last thousandth. Arrivals come in
batches: within a cycle jobs are served in the order in which they arrived, nothing ever leaves, and what finds no place
in the cycle after its arrival is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsched.base.errors import BadRequest
from gsched.core.resources.gpu_job_kinds import KindsSeen
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import Bucket, HostSnapshot, HostValues, Rank, RequirementClass, Snapshot
from gsched.policy.cycle import schedule
from gsched.policy.devices.gpu_packing import Shape
from gsched.policy.devices.node_states import WHOLE, Node
from gsched.policy.match.host_fit import misfit

BATCH = 100
"""Arrivals between two cycles."""
NOW = 1_800_000_000.0
BUDGET = 10**9


class Line:
    """The waiting jobs of a bucket."""

    def __init__(self, jobs: list[int]) -> None:
        self._jobs = jobs

    def __iter__(self) -> Iterator[tuple[Rank, int]]:
        return ((Rank(0.0, float(job_id)), job_id) for job_id in self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)


def spec_of(task: Shape) -> JobSpec:
    """The task as a job. Raises BadRequest for what no job of one requirement can ask."""
    if task.models:
        raise BadRequest("tasks that name GPU models are not replayed through the scheduler")
    memory = f" rusage[mem={task.memory}.00]" if task.memory else ""
    share = f":share={task.share / WHOLE:g}" if task.share < WHOLE else ""
    return JobSpec(
        command="task",
        user="user",
        queue="normal",
        slots=max(1, task.cpu),
        combined_req=f"select[type == any]{memory} span[hosts=1]",
        combined_gpu_req=f"num={task.gpus}:mode=shared{share}" if task.gpus else "",
    )


class Cluster:
    """The nodes as hosts. `history`: tasks that were seen before; `is_scarce`: GPU_PLACEMENT."""

    def __init__(self, nodes: Sequence[Node], history: Sequence[Shape], *, is_scarce: bool, learns: bool) -> None:
        self._is_scarce, self._learns = is_scarce, learns
        self._seen = KindsSeen()
        for task in history:
            self._seen.note(spec_of(task))
        self._ledger = Ledger()
        hosts = {}
        for number, node in enumerate(nodes):
            name = f"node{number:05}"
            memory = float(node.memory)
            values: HostValues = {"type": "LINUX", "r15s": 0.0, "pg": 0.0, "mem": memory, "maxmem": memory}
            hosts[name] = HostSnapshot(name=name, values=values)
            host_ledger = self._ledger.host(name)
            host_ledger.max_slots = node.cpu
            host_ledger.observe_gpus(GpuReport(gpus=tuple(_gpus(name, node))))
        self._hosts = hosts
        self._queues = {"normal": Queue(name="normal")}
        self._columns = HostColumns(hosts, self._ledger.fork())
        self._ledger.changed.clear()
        self._count = 0

    def place(self, tasks: Sequence[Shape]) -> list[bool]:
        """One cycle: which of the tasks were started, in their order."""
        pending: dict[RequirementClass, dict[Bucket, list[int]]] = {}
        first = self._count
        for task in tasks:
            spec = spec_of(task)
            if self._learns:
                self._seen.note(spec)
            requirement = RequirementClass(spec.combined_req, spec.slots, gpu=spec.combined_gpu_req)
            bucket = Bucket("normal", "user", requirement)
            pending.setdefault(requirement, {}).setdefault(bucket, []).append(self._count)
            self._count += 1
        ledger = self._ledger.fork()
        self._columns.show(ledger, self._ledger.changed)
        self._ledger.changed.clear()
        plan = schedule(
            Snapshot(
                queues=self._queues,
                hosts=self._hosts,
                ledger=ledger,
                pending={kind: {bucket: Line(jobs) for bucket, jobs in each.items()} for kind, each in pending.items()},
                columns=self._columns,
                mix=self._seen.mix() if self._is_scarce else (),
                local_type="LINUX",
            ),
            NOW,
            BUDGET,
        )
        started = [False] * len(tasks)
        for placement in plan.placements:
            self._start(placement.job_id, placement.allocation)
            started[placement.job_id - first] = True
        return started

    def _start(self, job_id: int, allocation: Allocation) -> None:
        reason = misfit(self._ledger, (job_id, 1), allocation)
        if reason:
            raise AssertionError(f"task {job_id} was placed where it does not fit: {reason}")
        self._ledger.take((job_id, 1), allocation)


def _gpus(name: str, node: Node) -> Iterator[Gpu]:
    for index in range(len(node.free)):
        yield Gpu(uuid=f"{name}-{index}", index=index, model=node.model, mode=ComputeMode.DEFAULT)
