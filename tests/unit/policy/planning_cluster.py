"""A small cluster with a plain trial and a plain cycle, to try reservation and preemption on their own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.ledgers.ledger import Ledger, miscounts
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.scheduling.snapshot import (
    AdvanceReservation,
    Bucket,
    HostSnapshot,
    Preempted,
    RequirementClass,
    Running,
    Snapshot,
)
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.future.least_needs import Need
from gsched.policy.match.host_fit import misfit
from gsched.policy.match.room_conditions import refusal_of
from gsched.policy.preempt.preemption import Preemptor
from gsched.policy.requirement.reasons import Reason


class Ask(NamedTuple):
    """What a job wants: `slots` in all; `gpus` and `mem` on each host; `hosts` of it (0: any number)."""

    slots: int = 1
    gpus: int = 0
    mem: float = 0.0
    hosts: int = 1


def kind(ask: Ask, queue: str = "q", run_s: float | None = 100.0, user: str = "ann", **more: Any) -> Bucket:
    return Bucket(queue, user, RequirementClass(repr(ask), ask.slots, run_s=run_s, **more))


def ask_of(bucket: Bucket) -> Ask:
    return _read(bucket.requirement.requirement)


@functools.cache
def _read(requirement: str) -> Ask:
    found = eval(requirement)
    assert isinstance(found, Ask)
    return found


class PlainTrial:
    """Hosts in the order given, lowest devices first."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.calls = 0

    def candidates(self, bucket: Bucket, demand: Any) -> list[str]:
        return [name for name, host in self.snapshot.hosts.items() if not host.closed]

    def is_outside(self, bucket: Bucket, demand: Any, host: str) -> bool:
        return False

    def usable(self, bucket: Bucket, demand: Any) -> None:
        return None

    def met(self, bucket: Bucket, demand: Any) -> None:
        return None

    def open_to(self, queue: str) -> None:
        return None

    def needs(self, bucket: Bucket, demand: Any) -> list[Need]:
        if demand.hosts == 1 or demand.slots == 1:
            return [Need(demand.slots, demand.gpus, demand.slots)]
        return [Need(1, demand.gpus, demand.slots)]

    def place(
        self,
        bucket: Bucket,
        demand: Ask,
        hosts: Sequence[str],
        host_ledger: Callable[[str], HostLedger],
        then: Any = None,
    ) -> Allocation | Reason:
        self.calls += 1
        parts: list[HostAllocation] = []
        left = demand.slots
        for name in hosts:
            part = self._part(name, host_ledger(name), demand, left, bucket)
            if part is not None and (demand.hosts != 1 or part.slots == demand.slots):
                parts.append(part)
                left -= part.slots
                if not left:
                    return Allocation(hosts=tuple(parts))
        return Reason("Not enough job slot(s)", f"{left} of {demand.slots} slots have no place")

    def _part(self, name: str, ledger: HostLedger, ask: Ask, left: int, bucket: Bucket) -> HostAllocation | None:
        free = ledger.free_slots
        slots = left if free is None else min(left, free)
        devices = ledger.claimable("ngpus_excl_p")[: ask.gpus]
        mem = self.snapshot.hosts[name].values["mem"]
        assert isinstance(mem, float)
        if slots < 1 or len(devices) < ask.gpus or mem - ledger.reserved.get("mem", 0.0) < ask.mem:
            return None
        part = HostAllocation(
            host=name,
            slots=slots,
            gpus=tuple(HeldGpu(uuid=gpu.uuid, index=gpu.index, claim="ngpus_excl_p") for gpu in devices),
            amounts={"mem": ask.mem} if ask.mem else {},
            exclusive=bucket.requirement.exclusive,
        )
        return None if refusal_of(part, ledger) else part


@dataclass
class Cycle:
    """What one plain cycle decided."""

    started: dict[int, Allocation] = field(default_factory=dict)
    planned: dict[int, PlannedStart] = field(default_factory=dict)
    preempted: list[Preempted] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    refused: dict[int, Reason] = field(default_factory=dict)
    calls: int = 0


class Line(list[Any]):
    """The jobs of a bucket."""


class Cluster:
    """Hosts h0, h1 … with `slots` slots and `gpus` devices each."""

    def __init__(
        self, hosts: int = 1, slots: int = 8, gpus: int = 8, queues: Iterable[Queue] = (), **more: Any
    ) -> None:
        self.ledger = Ledger()
        self.hosts: dict[str, HostSnapshot] = {}
        for number in range(hosts):
            name = f"h{number}"
            self.hosts[name] = HostSnapshot(name, {"mem": 1000.0})
            host_ledger = self.ledger.host(name)
            host_ledger.max_slots = slots
            devices = (Gpu(uuid=f"{name}-{i}", index=i, mode=ComputeMode.EXCLUSIVE_PROCESS) for i in range(gpus))
            host_ledger.observe_gpus(GpuReport(gpus=tuple(devices)))
        self.queues = {queue.name: queue for queue in queues or (Queue(name="q", backfill=True),)}
        self.running: dict[int, Running] = {}
        self.waiting: dict[int, Bucket] = {}
        self.planned: dict[int, PlannedStart] = {}
        self.options = more
        self.last = 0

    def run(self, bucket: Bucket, host: str = "h0", ends_at: float = math.inf, **more: Any) -> Running:
        """Start a job by hand on a host."""
        self.last += 1
        ask = ask_of(bucket)
        found = PlainTrial(self.snapshot()).place(bucket, ask, [host], self.ledger.host)
        assert isinstance(found, Allocation), found
        started = more.pop("started_at", 0.0)
        running = Running(self.last, 1, bucket, found, more.pop("state", "RUN"), started, ends_at, **more)
        self.ledger.take(running.key, found)
        self.running[self.last] = running
        return running

    def wait(self, bucket: Bucket) -> int:
        self.last += 1
        self.waiting[self.last] = bucket
        return self.last

    def snapshot(self) -> Snapshot:
        pending: dict[RequirementClass, dict[Bucket, Line]] = {}
        for job_id, bucket in self.waiting.items():
            line = pending.setdefault(bucket.requirement, {}).setdefault(bucket, Line())
            line.append(((0.0, float(job_id), 0), job_id))
        return Snapshot(
            queues=self.queues,
            hosts=self.hosts,
            ledger=self.ledger.fork(),
            pending=pending,
            running=self.running,
            planned=self.planned,
            **self.options,
        )

    def cycle(self, now: float, apply: bool = True) -> Cycle:
        """Serve by queue priority, then by number; one refusal per class and queue. Decisions are carried out."""
        snapshot = self.snapshot()
        trial = PlainTrial(snapshot)
        reservations = Reservations(snapshot, now, trial)
        preemptor = Preemptor(snapshot, now, trial, reservations)
        done = Cycle()
        failed: set[tuple[str, RequirementClass]] = set()
        order = sorted(self.waiting, key=lambda job_id: (-self.queues[self.waiting[job_id].queue].priority, job_id))
        for job_id in order:
            bucket = self.waiting[job_id]
            if (bucket.queue, bucket.requirement) in failed:
                continue
            found = self._place(snapshot, trial, reservations, bucket, now)
            if isinstance(found, Reason):
                displaced = preemptor.find(job_id, bucket, ask_of(bucket))
                if displaced is not None:
                    done.preempted.extend(displaced.preempted)
                    if displaced.allocation is not None:
                        found = displaced.allocation
            if isinstance(found, Reason):
                failed.add((bucket.queue, bucket.requirement))
                done.refused[job_id] = found
                reservations.reserve(job_id, bucket, ask_of(bucket))  # type: ignore[arg-type]
                continue
            snapshot.ledger.take((job_id, -1), found)
            for part in found.hosts:
                reservations.took(part, now + _run_s(bucket), bucket)
            done.started[job_id] = found
        done.resumed = preemptor.resumable()
        done.planned = reservations.planned()
        done.calls = trial.calls
        if apply:
            self._carry_out(done, now)
        return done

    @staticmethod
    def _place(
        snapshot: Snapshot, trial: PlainTrial, reservations: Reservations, bucket: Bucket, now: float
    ) -> Allocation | Reason:
        refused = reservations.guard.refusal(bucket)
        if refused is not None:
            return refused
        ready = reservations.ready(bucket, now + _run_s(bucket))
        if ready is not None:
            return ready
        only = reservations.guard.only_hosts(bucket)
        hosts = [name for name in trial.candidates(bucket, None) if only is None or name in only]
        last: Reason | None = None
        while hosts:
            found = trial.place(bucket, ask_of(bucket), hosts, snapshot.ledger.host)
            if isinstance(found, Reason):
                return last or found
            reasons = {
                part.host: why
                for part in found.hosts
                if (part.host in reservations.hosts() or only is not None)
                and (why := reservations.allows(part, now + _run_s(bucket), bucket)) is not None
            }
            if not reasons:
                return found
            last = next(iter(reasons.values()))
            hosts = [name for name in hosts if name not in reasons]
        return last or Reason("No host")

    def _carry_out(self, done: Cycle, now: float) -> None:
        for each in done.preempted:
            victim = self.running[each.job_id]
            if each.requeue:
                self.running[each.job_id] = victim._replace(is_ending=True)
            else:
                self.ledger.suspend(victim.key, victim.allocation)
                self.running[each.job_id] = victim._replace(state="SSUSP", preempted=victim.preempted + 1)
        for job_id, allocation in done.started.items():
            assert not misfit(self.ledger, (job_id, 1), allocation)
            bucket = self.waiting.pop(job_id)
            self.ledger.take((job_id, 1), allocation)
            self.running[job_id] = Running(job_id, 1, bucket, allocation, "RUN", now, now + _run_s(bucket))
        for job_id in done.resumed:
            again = self.running[job_id]
            self.ledger.resume(again.key, again.allocation)
            self.running[job_id] = again._replace(state="RUN", resumed_at=now)
        self.planned = {job_id: plan for job_id, plan in done.planned.items() if job_id in self.waiting}

    def end(self, job_id: int) -> None:
        ended = self.running.pop(job_id)
        self.ledger.give(ended.key, ended.allocation)

    def audit(self) -> None:
        for host_ledger in self.ledger.hosts.values():
            assert not list(miscounts(host_ledger))
            assert host_ledger.max_slots is None or host_ledger.slots_used <= host_ledger.max_slots
            assert all(len(holders) == 1 for holders in host_ledger.holders.values())


def _run_s(bucket: Bucket) -> float:
    return math.inf if bucket.requirement.run_s is None else bucket.requirement.run_s


__all__ = ["AdvanceReservation", "Ask", "Cluster", "Cycle", "PlainTrial", "Preemption", "kind"]
