"""What ten scrapes of /metrics a second cost scheduling cycles: cycles with and without them, in turns.

The real engine, views and server of metrics in this process, on a unix socket; the reader is a process of its own.
Before each cycle some jobs end, others are submitted, and one host in a hundred reports. In half of the turns somebody
reads. Of a cycle its wall time and the processor time of the engine's thread are told: the latter is what the cycle
itself took, the former also what it waited for, another process on a busy machine included.

    python bench/scrapes.py [--hosts 500] [--jobs 20000] [--turns 10] [--cycles 60] [--rate 10]

The last line is JSON. Goal: p99 of cycles within 5 % of that without a reader.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import http.client
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gsched.core.command import AttemptEnded, AttemptStarted, HostHello, HostReported, Submit
from gsched.core.engine import Engine
from gsched.core.instruction import StartJob
from gsched.core.state.cluster_state import ClusterState
from gsched.master.garbage_collection import settle_in, tidy_up, undisturbed
from gsched.master.metrics.collection import Collection
from gsched.master.metrics.http_server import MetricsServer
from gsched.master.metrics.measurements import Measurements
from gsched.master.metrics.page import Page
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig, Locations, MetricsEndpoint
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, HostConfig, LoadReport
from gsched.model.hosts.resource import GPU_COUNTERS, LOAD_INDICES, Resource
from gsched.model.jobs.job import AttemptResult, JobSpec
from gsched.model.queues.queue import Queue
from gsched.policy.cycle import schedule_in_turns

GPUS, SLOTS = 8, 16
CHANGES = 5
"""Jobs that end, and that are submitted, before each cycle."""
REST_S = 0.02
"""Between two cycles: a master is not always in one."""


class World:
    """A cluster in memory, full, with jobs waiting, and its published views."""

    def __init__(self, hosts: int, jobs: int) -> None:
        self.rng = random.Random(7)
        self.now = 1_800_000_000.0
        self.names = [f"gpu{number:05}" for number in range(hosts)]
        config = ClusterConfig(
            cluster="bench",
            master_host=self.names[0],
            hosts={name: HostConfig(name=name, max_slots=SLOTS) for name in self.names},
            queues={"normal": Queue(name="normal", priority=30)},
            resources={name: Resource(name=name, interval_s=15, consumable=True) for name in GPU_COUNTERS},
            mapped=dict.fromkeys(GPU_COUNTERS, tuple(self.names)),
            locations=Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir=""),
        )
        self.engine = Engine(ClusterState(), config, self.now, schedule=undisturbed(schedule_in_turns))
        self.board = Board(config)
        self.running: list[tuple[int, int, str]] = []
        for number, name in enumerate(self.names, 1):
            self.engine.handle(HostHello(name, number, "boot", "1"), self.now)
            self.engine.handle(HostReported(name, number, self._load(), self._gpus(name)), self.now)
        self.submit(jobs + hosts * GPUS)
        while self.engine.cycles.needs_cycle:
            self.start(self.engine.cycle(self.now).instructions)
        self.board.publish(self.engine)
        settle_in()

    def _load(self) -> LoadReport:
        indices: dict[str, float | None] = {index.name: round(self.rng.random(), 3) for index in LOAD_INDICES}
        return LoadReport(indices={**indices, "mem": 200_000.0}, ncpus=SLOTS, maxmem_mib=256_000.0)

    def _gpus(self, name: str) -> GpuReport:
        return GpuReport(
            gpus=tuple(
                Gpu(
                    uuid=f"GPU-{name}-{index}",
                    index=index,
                    model="H100",
                    mode=ComputeMode.EXCLUSIVE_PROCESS,
                    memory_mib=81_920,
                    used_mib=self.rng.randrange(81_920),
                    utilization_percent=self.rng.randrange(100),
                    memory_utilization_percent=self.rng.randrange(100),
                    temperature_c=self.rng.randrange(30, 80),
                    power_w=self.rng.randrange(100, 700),
                )
                for index in range(GPUS)
            )
        )

    def submit(self, count: int) -> None:
        for _ in range(count):
            spec = JobSpec(
                command="train",
                user="",
                queue="normal",
                project=f"p{self.rng.randrange(50)}",
                res_req="rusage[ngpus_excl_p=1]",
                run_limit_s=3600,
            )
            self.engine.handle(Submit(f"user{self.rng.randrange(200)}", "", (spec,)), self.now)

    def start(self, instructions: object) -> None:
        for order in instructions if isinstance(instructions, list) else ():
            if isinstance(order, StartJob):
                self.engine.handle(AttemptStarted(order.job_id, order.attempt, order.host, 7, self.now), self.now)
                self.running.append((order.job_id, order.attempt, order.host))

    def change(self) -> None:
        """What happens between two cycles."""
        self.now += 1.0
        for _ in range(CHANGES):
            place = self.rng.randrange(len(self.running))
            self.running[place], self.running[-1] = self.running[-1], self.running[place]
            job_id, attempt, host = self.running.pop()
            result = AttemptResult(exit_code=0, ended_at=self.now)
            self.engine.handle(AttemptEnded(job_id, attempt, host, result), self.now)
        self.submit(CHANGES)
        for name in self.rng.sample(self.names, max(1, len(self.names) // 100)):
            session = self.engine.observations.of(name).session
            self.engine.handle(HostReported(name, session, self._load(), self._gpus(name)), self.now)

    def cycle(self) -> tuple[float, float]:
        """Wall time, and processor time of this thread, of a cycle with what is published of it: milliseconds."""
        began, used = time.perf_counter(), time.thread_time()
        decision = self.engine.cycle(self.now)
        self.board.publish(self.engine)
        wall, cpu = time.perf_counter() - began, time.thread_time() - used
        self.start(decision.instructions)
        return wall * 1000, cpu * 1000


def read_for_ever(path: str, rate: float) -> None:
    """Be the reader: a scrape each 1/rate seconds, whatever the last one took; its size goes to standard output."""
    due = time.monotonic()
    while True:
        connection = http.client.HTTPConnection("metrics")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(path)
        connection.request("GET", "/metrics")
        size = len(connection.getresponse().read())
        print(size, flush=True)
        connection.close()
        due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()))


@contextlib.contextmanager
def reader(path: str, rate: float) -> Iterator[list[int]]:
    """The block is read from; the sizes of what was read are in the list when it is over."""
    sizes: list[int] = []
    words = [sys.executable, __file__, "--read", path, "--rate", str(rate)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        sizes.append(int(process.stdout.readline()))
        yield sizes
        process.kill()
        sizes += [int(line) for line in process.stdout if line.endswith("\n")]


def turn(world: World, cycles: int) -> list[tuple[float, float]]:
    found = []
    for _ in range(cycles):
        world.change()
        found.append(world.cycle())
        tidy_up()  # as the engine's thread does when it has told everybody
        time.sleep(REST_S)
    return found


def p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def main() -> int:
    """Print the figures; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--read", default="")
    args = parser.parse_args()
    if args.read:
        read_for_ever(args.read, args.rate)
    world = World(args.hosts, args.jobs)
    measurements = Measurements()
    collection = Collection(world.board, measurements, lambda: args.hosts, lambda: "")
    alone: list[tuple[float, float]] = []
    beside: list[tuple[float, float]] = []
    scrapes = size = 0
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "m")
        server = MetricsServer(MetricsEndpoint(socket=path), Page(collection.families).text, "", "")
        server.start()
        turn(world, 20)
        gc.collect()
        for number in range(args.turns):
            if number % 2:
                with reader(path, args.rate) as sizes:
                    beside += turn(world, args.cycles)
                scrapes += len(sizes)
                size = sizes[-1]
            else:
                alone += turn(world, args.cycles)
        server.close()
    figures: dict[str, float] = {"page_bytes": size, "scrapes": scrapes, "cycles": len(alone)}
    for name, place in (("wall", 0), ("cpu", 1)):
        for what, costs in (("alone", alone), ("scraped", beside)):
            values = [each[place] for each in costs]
            figures[f"{what}_{name}_p50_ms"] = round(statistics.median(values), 3)
            figures[f"{what}_{name}_p99_ms"] = round(p99(values), 3)
    for name, figure in figures.items():
        print(f"{name:24} {figure:12,.3f}")
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
