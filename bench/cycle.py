"""What a scheduling cycle costs: snapshot, order, plan and reasons over many waiting jobs and many GPU hosts.

The real state, snapshots and policy, driven without daemons: 100,000 jobs of 1,000 users in 50 requirement classes wait
for 5,000 hosts with 8 GPUs, half the GPUs free, nearly full and full; then jobs of one class, most GPUs free. Cycles
are warm, as a master's are: before each, one host in a hundred reports new load. Beside it a scan of all hosts job by
job, on a sample, and how the cost grows.

    python bench/cycle.py [--jobs 100000] [--hosts 5000] [--quick]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Mapping
from typing import NamedTuple

from gsched.core.dispatch.snapshot_builder import SnapshotBuilder
from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import ClusterState
from gsched.master.garbage_collection import settle_in, tidy_up, undisturbed
from gsched.model.config import ClusterConfig, Locations
from gsched.model.event import JobSubmitted
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, HostConfig, LoadReport
from gsched.model.hosts.resource import GPU_COUNTERS, LOAD_INDICES, Resource
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, Plan, RequirementClass, Running, Snapshot
from gsched.policy.cycle import schedule_in_turns
from gsched.policy.cycle_turns import AT_ONE_GO
from gsched.policy.match.host_fit import TaskFit
from gsched.policy.match.host_now import FitRules
from gsched.policy.requirement.demand_reader import demand_of

GPUS, SLOTS = 8, 16
USERS, CLASSES, QUEUES = 1000, 50, 4
NOW = 1_800_000_000.0
BUDGET = 10_000_000
SETTLING = 14
"""Cycles after the first in which some kinds are looked at for the first time, a few in each."""
REPEATS = 7
SAMPLE = 10
"""Jobs of the scan job by job."""


def calibration_ms() -> float:
    """A fixed loop of plain Python: what the machine does in the same run, in processor time."""

    def loop() -> float:
        started = time.process_time()
        table: dict[int, int] = {}
        for number in range(200_000):
            table[number & 1023] = table.get(number & 1023, 0) + number % 7
        return (time.process_time() - started) * 1000

    return statistics.median(loop() for _ in range(5))


def requirement(number: int) -> str:
    """One of the 50: three in ten want one GPU, three two, three four, one eight; memory, model and order vary."""
    gpus = (1, 2, 4, 1, 2, 4, 1, 2, 4, 8)[number % 10]
    select = ("type == any", "type == any && mem>1000", "ngpus>0 && maxmem>2000", "bigmem && ut<0.9", "cpuf>=1.0")
    order = " order[mem]" if number % 10 == 3 else " order[r15s:pg]"
    return f"select[{select[number // 10 % 5]}]{order} rusage[ngpus_excl_p={gpus}.00,mem={100 + number * 10}.00]"


def load(rng: random.Random) -> LoadReport:
    """What an agent reports."""
    indices: dict[str, float | None] = {index.name: round(rng.random(), 3) for index in LOAD_INDICES}
    return LoadReport(indices={**indices, "mem": 200_000.0 + rng.randrange(50_000)}, ncpus=SLOTS, maxmem_mib=256_000.0)


class World:
    """A cluster in memory. `free`: the part of all GPUs that nobody holds; `classes`: of the waiting jobs."""

    def __init__(self, jobs: int, hosts: int, free: float, classes: int = CLASSES) -> None:
        self.classes = classes
        self.rng = random.Random(7)
        self.names = [f"gpu{number:05}" for number in range(hosts)]
        counters = {name: Resource(name=name, interval_s=15, consumable=True) for name in GPU_COUNTERS}
        self.config = ClusterConfig(
            cluster="bench",
            master_host=self.names[0],
            hosts={name: HostConfig(name=name, resources=("bigmem",)) for name in self.names},
            queues={f"q{number}": Queue(name=f"q{number}", priority=30 + number) for number in range(QUEUES)},
            resources=counters,
            mapped=dict.fromkeys(GPU_COUNTERS, tuple(self.names)),
            locations=Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir=""),
        )
        self.state = ClusterState()
        self.planned: Mapping[int, PlannedStart] = {}
        self.observations = Observations(NOW)
        self.snapshots = SnapshotBuilder(self.state, self.observations)
        for name in self.names:
            self._host(name)
        self._hold(free)
        for number in range(1, jobs + 1):
            self._submit(number)
        settle_in()

    def _host(self, name: str) -> None:
        devices = (
            Gpu(uuid=f"GPU-{name}-{index}", index=index, model="H100", mode=ComputeMode.EXCLUSIVE_PROCESS)
            for index in range(GPUS)
        )
        seen = self.observations.of(name)
        seen.connected, seen.load, seen.gpus = True, load(self.rng), GpuReport(gpus=tuple(devices))
        host_ledger = self.state.ledger.host(name)
        host_ledger.max_slots = SLOTS
        host_ledger.observe_gpus(seen.gpus)

    def _hold(self, free: float) -> None:
        devices = [(name, index) for name in self.names for index in range(GPUS)]
        held = self.rng.sample(devices, len(devices) - round(free * len(devices)))
        for number, (name, index) in enumerate(held):
            gpu = HeldGpu(uuid=f"GPU-{name}-{index}", index=index, claim="ngpus_excl_p")
            part = HostAllocation(host=name, slots=1, gpus=(gpu,), amounts={"mem": 1000.0})
            allocation = Allocation(hosts=(part,))
            job_id = 10_000_000 + number
            self.state.ledger.take((job_id, 1), allocation)
            bucket = Bucket("q0", "user0", RequirementClass(requirement(0), run_s=3600.0))
            self.state.running[job_id] = Running(job_id, 1, bucket, allocation, "RUN", NOW - 60.0, NOW + number % 3600)

    def _submit(self, number: int) -> None:
        kind = self.rng.randrange(self.classes)
        spec = JobSpec(
            command="train",
            user=f"user{self.rng.randrange(USERS)}",
            queue=f"q{kind % QUEUES}",
            combined_req=requirement(kind),
            run_limit_s=3600,
        )
        self.state.apply(JobSubmitted(at=NOW - 1e6 + number, job_id=number, spec=spec, token="", place=0))

    def some_load(self) -> None:
        """What comes between two cycles: the engine's thread has told everybody of the last; one host in a hundred
        reports.
        """
        tidy_up()
        for name in self.rng.sample(self.names, max(1, len(self.names) // 100)):
            self.observations.of(name).load = load(self.rng)
            self.snapshots.forget(name)

    def snapshot(self) -> Snapshot:
        return self.snapshots.snapshot(self.config, NOW, planned=self.planned)

    def cycle(self) -> Plan:
        """One cycle. Its plans are kept for the next, as the engine does; its placements are not carried out."""
        try:
            next(undisturbed(schedule_in_turns)(self.snapshot(), NOW, BUDGET, AT_ONE_GO))
        except StopIteration as done:
            plan: Plan = done.value
            self.planned = plan.planned
            return plan
        raise AssertionError("a cycle at one go has had a second turn")


class Cost(NamedTuple):
    """Of a cycle, milliseconds."""

    wall: float
    cpu: float
    """Processor time: what others do on the machine counts less in it."""
    first: float
    """Wall time of the first one."""


def measure(world: World, repeats: int = REPEATS) -> tuple[Cost, Plan]:
    """(what a warm cycle costs, the last plan)."""
    started = time.perf_counter()
    plan = world.cycle()
    cold = (time.perf_counter() - started) * 1000
    for _ in range(SETTLING):
        world.some_load()
        world.cycle()
    walls, cpus = [], []
    for _ in range(repeats):
        world.some_load()
        started, used = time.perf_counter(), time.process_time()
        plan = world.cycle()
        walls.append((time.perf_counter() - started) * 1000)
        cpus.append((time.process_time() - used) * 1000)
    return Cost(statistics.median(walls), statistics.median(cpus), cold), plan


def scan_ms(world: World, jobs: int) -> float:
    """The same question asked job by job and host by host, on a sample, reckoned up to all jobs."""
    snapshot = world.snapshot()
    rules = FitRules.of(snapshot, NOW)
    classes = list(snapshot.pending)[:SAMPLE]
    started = time.perf_counter()
    for each in classes:
        term = demand_of(each, snapshot.local_type).choices[0].terms[0]
        fit = TaskFit(term, term.need(1), rules)
        for name, host in snapshot.hosts.items():
            fit.on(host, snapshot.ledger.host(name))
    return (time.perf_counter() - started) * 1000 * jobs / len(classes)


def show(name: str, world: World, figures: dict[str, float], repeats: int = REPEATS) -> None:
    cost, plan = measure(world, repeats)
    started = len(plan.placements)
    figures[name] = round(cost.wall, 2)
    figures[name.replace("_ms", "_cpu_ms")] = round(cost.cpu, 2)
    each = f", {cost.cpu * 1000 / started:.1f} us each" if started > 1000 else ""
    waiting = f"{len(plan.reasons)} kinds wait"
    warm = f"{cost.cpu:8.1f} ms warm, {cost.wall:8.1f} by the clock, {cost.first:8.1f} the first"
    print(f"{name:16} {warm}; {started} jobs placed{each}; {waiting}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=5_000)
    parser.add_argument("--quick", action="store_true", help="leave out growth and the scan")
    options = parser.parse_args()
    figures: dict[str, float] = {"calibration_ms": round(calibration_ms(), 2)}
    print(f"{options.jobs} jobs, {options.hosts} hosts x {GPUS} GPUs; calibration {figures['calibration_ms']} ms")
    shares = {"half_free_ms": 0.5, "nearly_full_ms": 0.005, "full_ms": 0.0}
    for name, free in shares.items():
        show(name, World(options.jobs, options.hosts, free), figures)
    show("alike_ms", World(options.jobs, options.hosts, 0.9, classes=1), figures, repeats=3)
    if not options.quick:
        world = World(options.jobs, options.hosts, 0.5)
        print(f"job by job, host by host: {scan_ms(world, options.jobs) / 1000:.0f} s (reckoned from {SAMPLE} jobs)")
        grow(options.jobs, options.hosts)
    print(json.dumps({"bench": "cycle", "figures": figures}))


def grow(jobs: int, hosts: int) -> None:
    """How the cost of a warm cycle grows with jobs and with hosts."""
    sizes: list[tuple[int, int]] = [(each, hosts) for each in (1_000, 10_000, jobs)]
    sizes += [(jobs, each) for each in (100, 1_000)]
    for some_jobs, some_hosts in sizes:
        for name, free in (("half free", 0.5), ("full", 0.0)):
            show(f"{some_jobs}/{some_hosts} {name}", World(some_jobs, some_hosts, free), {}, repeats=3)


if __name__ == "__main__":
    main()
