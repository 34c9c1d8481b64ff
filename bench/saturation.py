"""What order costs and who pays: GPU use, waits, order inversions and idle GPUs at saturation, in virtual time.

The real scheduler plays workloads in which more waits than fits: small jobs and then big ones, sizes mixed on a few
hosts, mixes as on two large clusters. Beside it stand EASY backfilling that knows all run times (`/EASY`) or no more
than the run limits (`/lim.`; where no running job has one nobody can reserve), and a bound on what any schedule could
do (saturation_oracles). Order and idle GPUs are judged by tests/support/serving_oracle. Nothing here depends on how
fast the machine is. Goals: at least 0.97 of EASY's use, a mean wait of at most 1.05 times its, and no inversion.

    python bench/saturation.py [--only one-big,mixed-3,...] [--seed 1] [--size 1.0] [--show 5]

`use` is the part of all GPU time in use until saturation ends, when at most 15 jobs wait for the last time. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from private_cluster import report
from saturation_oracles import Work, easy, least_makespan, most_gpu_seconds
from saturation_workloads import WORKLOADS, Workload

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gsched.model.config import Params
from gsched.model.queues.queue import EASY_PLAN_DELAY, Queue
from gsched.sim.trace import TraceJob
from gsched.sim.world import START, Fate, World, simulated_config
from tests.support.serving_order.serving_history import PastCluster, PastQueue
from tests.support.serving_order.serving_oracle import judge
from tests.support.serving_order.serving_verdict import Verdict
from tests.support.serving_order.simulated_history import past_of

LEFT = 15
"""Jobs that wait when saturation is over."""
SLOTS = 512
"""Of a host: they never run out."""
AUDIT_EVERY = 50
"""Decisions from one audit of the simulation to the next."""
LEAST_WAIT_S = 0.001
"""Mean waits are compared from there on."""
QUEUE = "normal"
HEAD = f"{'workload':17} {'jobs':>5} {'use':>6} {'/EASY':>6} {'/lim.':>6} {'/bound':>6} {'wait':>8}"
HEAD += f" {'/EASY':>6} {'/lim.':>6} {'invers':>6} {'idle':>6} {'makespan':>9} {'/EASY':>6} {'/bound':>6} {'CPU s':>6}"


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one schedule of a workload."""

    use: float
    delivered: float
    """GPU seconds until saturation ended."""
    saturated_s: float
    wait_s: float
    """Mean."""
    makespan_s: float


def main() -> int:
    """Print a line for each workload; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=names, default=list(WORKLOADS), help=f"some of {', '.join(WORKLOADS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=float, default=1.0, help="so many times the usual number of jobs")
    parser.add_argument("--show", type=int, default=0, help="print the first so many inversions and idle GPUs")
    args = parser.parse_args()
    figures: dict[str, float] = {}
    print(HEAD)
    for name in args.only:
        figures |= measure(name, WORKLOADS[name](args.seed, args.size), args.show)
    report("saturation", figures)
    return 0


def names(text: str) -> list[str]:
    """Names of workloads, separated by commas."""
    found = text.split(",")
    for name in found:
        if name not in WORKLOADS:
            raise argparse.ArgumentTypeError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}")
    return found


def measure(name: str, load: Workload, show: int) -> dict[str, float]:
    """One line of the table."""
    began = time.process_time()
    works = [work_of(job) for job in load.jobs]
    total = load.hosts * load.gpus
    fates = play(load)
    ours = figures_of(works, [fate_start(fate) for fate in fates], total)
    best, alike = (
        figures_of(works, [place.start for place in easy(works, load.hosts, load.gpus, thought)], total)
        for thought in (None, [math.inf if job.limit_s is None else float(job.limit_s) for job in load.jobs])
    )
    verdict = judged(load, fates, ours.saturated_s)
    bound = ours.delivered / most_gpu_seconds(works, total, ours.saturated_s)
    idle = verdict.idle_gpu_seconds / (total * ours.saturated_s)
    found = {
        "use": ours.use,
        "use_to_easy": ours.use / best.use,
        "use_to_easy_by_limits": ours.use / alike.use,
        "use_to_bound": bound,
        "wait_s": ours.wait_s,
        "wait_to_easy": max(ours.wait_s, LEAST_WAIT_S) / max(best.wait_s, LEAST_WAIT_S),
        "wait_to_easy_by_limits": max(ours.wait_s, LEAST_WAIT_S) / max(alike.wait_s, LEAST_WAIT_S),
        "inversions": len(verdict.inversions),
        "idle": idle,
        "makespan_s": ours.makespan_s,
        "makespan_to_easy": ours.makespan_s / best.makespan_s,
        "makespan_to_bound": ours.makespan_s / least_makespan(works, total),
    }
    line = f"{name:17} {len(works):5} {ours.use:6.3f} {found['use_to_easy']:6.3f}"
    line += f" {found['use_to_easy_by_limits']:6.3f} {bound:6.3f} {ours.wait_s:8.1f} {found['wait_to_easy']:6.3f}"
    line += f" {found['wait_to_easy_by_limits']:6.3f} {len(verdict.inversions):6} {idle:6.3f} {ours.makespan_s:9.1f}"
    line += f" {found['makespan_to_easy']:6.3f} {found['makespan_to_bound']:6.3f} {time.process_time() - began:6.1f}"
    print(line, flush=True)
    for defect in (*verdict.inversions[:show], *verdict.idle[:show]):
        print(f"    {defect}")
    return {f"{name.replace('-', '_')}_{key}": value for key, value in found.items()}


def work_of(job: TraceJob) -> Work:
    """The job as the oracles see it."""
    return Work(
        arrives=job.arrives_s,
        lasts=job.runs_s,
        gpus=job.gpus,
        hosts=job.slots if job.spread else 1,
        priority=job.priority or 0,
    )


def play(load: Workload) -> list[Fate]:
    """What the scheduler makes of it, in the order of the jobs. Raises SystemExit where a job never starts."""
    queue = Queue(name=QUEUE, priority=30, backfill=load.backfill)
    params = Params(max_user_priority=100)
    config = simulated_config(load.hosts, SLOTS, load.gpus, (queue,), params=params)
    world = World(config, gpus=load.gpus, audit_every=AUDIT_EVERY)
    fates = list(world.run(load.jobs).values())
    for fate in fates:
        if fate.ended_at is None or len(fate.starts) != 1:
            raise SystemExit(f"a job did not run once: {fate.job}")
    return fates


def fate_start(fate: Fate) -> float:
    """In seconds of the workload."""
    return fate.starts[0][0] - START


def figures_of(works: Sequence[Work], starts: Sequence[float], gpus: int) -> Figures:
    """Of a schedule that starts the jobs then."""
    saturated = saturation_end(works, starts)
    delivered = sum(
        work.gpus * work.hosts * max(0.0, min(start + work.lasts, saturated) - start)
        for work, start in zip(works, starts, strict=True)
    )
    waits = [start - work.arrives for work, start in zip(works, starts, strict=True)]
    makespan = max(start + work.lasts for work, start in zip(works, starts, strict=True))
    return Figures(delivered / (gpus * saturated), delivered, saturated, sum(waits) / len(waits), makespan)


def saturation_end(works: Sequence[Work], starts: Sequence[float]) -> float:
    """When more than LEFT jobs wait no longer, for the last time; the end of everything if they never did."""
    steps = sorted([*((work.arrives, 1) for work in works), *((start, -1) for start in starts)])
    waiting, last = 0, 0.0
    for at, step in steps:
        if step < 0 and waiting == LEFT + 1:
            last = at
        waiting += step
    return last or max(start + work.lasts for work, start in zip(works, starts, strict=True))


def judged(load: Workload, fates: Sequence[Fate], until: float) -> Verdict:
    """What the judge says of order, to the end, and of idle GPUs until saturation ended."""
    hosts = {f"h{number:03}": (load.gpus, SLOTS) for number in range(load.hosts)}
    queue = PastQueue(backfill=load.backfill, plan_delay=EASY_PLAN_DELAY)
    cluster = PastCluster(hosts=hosts, queues={QUEUE: queue}, learns=True)
    jobs = [past_of(number, fate) for number, fate in enumerate(fates, 1)]
    everything = judge(cluster, jobs)
    return Verdict(everything.inversions, tuple(each.clipped(until) for each in everything.idle if each.at < until))


if __name__ == "__main__":
    sys.exit(main())
