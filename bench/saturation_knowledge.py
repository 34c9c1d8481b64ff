"""How much of EASY backfilling's use needs to know how long jobs run: what bench/saturation.py can ask of a scheduler.

EASY backfilling (saturation_oracles) plays the mixes of bench/saturation.py with what somebody could know instead of
the run times: each of them to within a factor, the same time for all jobs, what run limits say, half of it, or no more
than the longest job of the mix. Each is divided by EASY that knows all, of the same seed. The scheduler has no part in
it, and nothing depends on how fast the machine is.

    python bench/saturation_knowledge.py [--seeds 12]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Sequence

from private_cluster import report
from saturation import figures_of, work_of
from saturation_oracles import easy
from saturation_workloads import WORKLOADS, Workload

Knowledge = Callable[[Workload, random.Random], list[float]]
"""How long each job is thought to last."""


def within(low: float, high: float) -> Knowledge:
    """Each run time but for a factor."""
    return lambda load, chance: [job.runs_s * chance.uniform(low, high) for job in load.jobs]


def one_for_all(load: Workload, _: random.Random) -> list[float]:
    """The mean run time."""
    mean = statistics.mean(job.runs_s for job in load.jobs)
    return [mean for _ in load.jobs]


def part_of_limit(part: float) -> Knowledge:
    """Of the run limit; of a job without one the longest run time of the mix."""
    return lambda load, _: [longest(load) if job.limit_s is None else job.limit_s * part for job in load.jobs]


def limit_or_longest(load: Workload, _: random.Random) -> list[float]:
    """The run limit, or the longest run time of the mix, whichever is shorter."""
    return [min(longest(load), job.limit_s or longest(load)) for job in load.jobs]


def longest(load: Workload) -> float:
    """The longest run time of the mix."""
    return max(job.runs_s for job in load.jobs)


KNOWN: dict[str, Knowledge] = {
    "0.7 to 1.3 times": within(0.7, 1.3),
    "0.5 to 2 times": within(0.5, 2.0),
    "one time for all": one_for_all,
}
OF_LIMITS: dict[str, Knowledge] = {
    "run limits": part_of_limit(1.0),
    "half of them": part_of_limit(0.5),
    "or the longest": limit_or_longest,
}
MIXES = {"mixed-1": KNOWN, "mixed-2": KNOWN, "mixed-3": KNOWN, "mixed-3-limits": KNOWN | OF_LIMITS}


def main() -> int:
    """Print a line for each mix and kind of knowledge; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12, help="mixes of each kind")
    seeds = range(1, parser.parse_args().seeds + 1)
    figures: dict[str, float] = {}
    print(f"{'mix':15} {'known of run times':18} {'use':>6} {'least':>6} {'wait':>6} {'most':>6}")
    for mix, kinds in MIXES.items():
        for says, knowledge in kinds.items():
            found = [compared(WORKLOADS[mix](seed, 1.0), knowledge, seed) for seed in seeds]
            uses, waits = ([each[which] for each in found] for which in (0, 1))
            use, wait = statistics.mean(uses), statistics.mean(waits)
            print(f"{mix:15} {says:18} {use:6.3f} {min(uses):6.3f} {wait:6.3f} {max(waits):6.3f}", flush=True)
            name = f"{mix}_{says}".translate(str.maketrans("- .", "___"))
            figures |= {f"{name}_use": use, f"{name}_wait": wait}
    report("saturation_knowledge", figures)
    return 0


def compared(load: Workload, knowledge: Knowledge, seed: int) -> tuple[float, float]:
    """Use and mean wait, each to that of EASY that knows all."""
    works = [work_of(job) for job in load.jobs]

    def played(thought: Sequence[float] | None) -> tuple[float, float]:
        starts = [place.start for place in easy(works, load.hosts, load.gpus, thought)]
        found = figures_of(works, starts, load.hosts * load.gpus)
        return found.use, found.wait_s

    (use, wait), (best_use, best_wait) = played(knowledge(load, random.Random(seed))), played(None)
    return use / best_use, wait / best_wait


if __name__ == "__main__":
    sys.exit(main())
