"""How far off it is what waiting jobs are told of their starts: the estimates of gsched on workloads in virtual time.

    python bench/estimates.py [philly] [helios] [helios-none] [CLUSTER WORKLOAD] [--seed 1] [--size 1] [--faster 1]
        [--set KEY=VALUE]

Names are workloads of saturation_workloads: jobs made up with sizes and durations as published of these clusters.
CLUSTER and WORKLOAD are as of `gsched sim`: a trace of the OpenB form, a dump of sacct. The jobs of random:JOBS ask for
nine tenths of what the cluster can do; five times as much comes with --faster 5.5556. What is judged is what the
scheduler said of each job while it waited, as `gadmin estimates --table` judges it. The same seed gives the same
figures on each machine. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from saturation_workloads import WORKLOADS

from gsched.base.errors import GschedError
from gsched.cli.render.explaining.estimate_errors import estimate_errors_lines, estimate_errors_record
from gsched.config.changed_files import parse_setting
from gsched.model.views.start_estimate import StartEstimate
from gsched.policy.future.start_estimate_errors import EstimateErrors, errors_of
from gsched.sim.cluster_file import hosts_of_words, read_cluster
from gsched.sim.job_table import Table
from gsched.sim.scenarios import Scenario, play
from gsched.sim.workload import Workload, read_workload

MADE_UP = ("philly", "helios", "helios-none")
TOLD = ("told_at_s", "told_p50_s", "told_p90_s", "told_mean_s", "told_plan_s", "told_limit_s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of each workload; exit code 0, or 1 and one line about what is wrong with a file or a word."""
    options = parser().parse_args(arguments)
    figures: dict[str, dict[str, int | float | None]] = {}
    try:
        for name, scenario, workload in chosen(options):
            found = judged(scenario, workload)
            figures[name] = estimate_errors_record(found)
            print(f"{name}: {len(workload.jobs)} jobs", *estimate_errors_lines(found), "", sep="\n")
    except GschedError as error:
        print(f"estimates: {error.text}", file=sys.stderr)
        return 1
    print(json.dumps(figures))
    return 0


def parser() -> argparse.ArgumentParser:
    """The words of the command."""
    found = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    found.add_argument("words", nargs="*", default=list(MADE_UP), help="names, or a cluster and a workload")
    found.add_argument("--seed", type=int, default=1)
    found.add_argument("--size", type=float, default=1.0, help="how much more than the usual number of made-up jobs")
    found.add_argument("--faster", type=float, default=1.0, help="jobs arrive so many times as fast")
    found.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    return found


def chosen(options: argparse.Namespace) -> Iterator[tuple[str, Scenario, Workload]]:
    """What is to be played."""
    settings = tuple(map(parse_setting, options.settings))
    if not set(options.words) & set(MADE_UP) and len(options.words) == 2:
        cluster, path = options.words
        hosts = tuple(read_cluster(cluster))
        gpus = [host.gpus for host in hosts]
        workload = read_workload(path, options.seed, sum(gpus), max(gpus))
        yield f"{path} on {cluster}", Scenario("", hosts, None, settings), faster(workload, options.faster)
        return
    unknown = [word for word in options.words if word not in MADE_UP]
    if unknown:
        raise SystemExit(f"estimates: {unknown[0]}: wanted are {', '.join(MADE_UP)}, or a cluster and a workload")
    for name in options.words:
        load = WORKLOADS[name](options.seed, options.size)
        hosts = tuple(hosts_of_words(f"{load.hosts}x{load.gpus}", name))
        jobs = [replace(job, gpu_req=f"num={job.gpus}") for job in load.jobs]
        yield name, Scenario("", hosts, None, settings), faster(Workload(name, jobs), options.faster)


def faster(workload: Workload, times: float) -> Workload:
    """The same jobs, that arrive so many times as fast."""
    jobs = [replace(job, arrives_s=round(job.arrives_s / times, 3)) for job in workload.jobs]
    return workload if times == 1.0 else replace(workload, jobs=jobs)


def judged(scenario: Scenario, workload: Workload) -> EstimateErrors:
    """Play the workload, and judge what was said."""
    jobs = play(scenario, workload, skip_refused=True).jobs
    return errors_of(starts_of(jobs))


def starts_of(jobs: Table) -> Iterator[tuple[float, float, StartEstimate | None]]:
    """Submission, start, and what was said first of each job that has started."""
    for number, submitted, started, at, p50, p90, mean, plan, limit in zip(
        jobs["job"], jobs["submit_s"], jobs["start_s"], *(jobs[name] for name in TOLD), strict=True
    ):
        said = None
        if at is not None:
            said = StartEstimate(
                job_id=number, at=at, p50_at=p50, p90_at=p90, mean_at=mean, plan_at=plan, limit_at=limit
            )
        if started is not None:
            yield submitted, started, said


if __name__ == "__main__":
    raise SystemExit(main())
