"""dask-jobqueue on the commands of a batch system (lsf, slurm or pbs) that come first on PATH. Prints OK dask.

Each worker is a job that asks for a GPU; the workers that run together must have different ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from dask.distributed import Client
from dask_jobqueue import LSFCluster, PBSCluster, SLURMCluster

PATIENCE_S = 240
COMMON = {
    "cores": 1,
    "memory": "400MB",
    "walltime": "00:03:00",
    "interface": "lo",
    "log_directory": "logs",
    "death_timeout": PATIENCE_S,
    "queue": os.environ.get("BATCH_QUEUE", "normal"),
}


def lsf_cluster(*, use_stdin: bool) -> LSFCluster:
    """The job's script goes through standard input or is named."""
    extra = ['-gpu "num=1:j_exclusive=yes"', '-R "rusage[mem=100]"   # a comment']
    asked = {**COMMON, "walltime": "00:03"}
    return LSFCluster(**asked, project="dask", use_stdin=use_stdin, job_extra_directives=extra)


def slurm_cluster() -> SLURMCluster:
    extra = ["--gres=gpu:1", '--comment="of dask"']
    return SLURMCluster(**COMMON, account="dask", job_extra_directives=extra)


def pbs_cluster() -> PBSCluster:
    return PBSCluster(**COMMON, account="dask", resource_spec="select=1:ncpus=1:mem=400mb:ngpus=1")


CLUSTERS = {
    "lsf": [lambda: lsf_cluster(use_stdin=True), lambda: lsf_cluster(use_stdin=False)],
    "slurm": [slurm_cluster],
    "pbs": [pbs_cluster],
}
NUMBERS = {"lsf": "LSB_JOBID", "slurm": "SLURM_JOB_ID", "pbs": "PBS_JOBID"}
LISTS = {
    "lsf": ["bjobs", "-noheader", "-o", "jobid"],
    "slurm": ["squeue", "--me", "--noheader", "--format", "%i"],
    "pbs": ["qselect"],
}


def where(_: int, variable: str) -> tuple[str, str]:
    return os.environ[variable].partition(".")[0], os.environ.get("GSCHED_GPU_UUIDS", "")


def unfinished(system: str) -> set[str]:
    told = subprocess.run(LISTS[system], capture_output=True, text=True, check=True).stdout.split()
    return {number.partition(".")[0] for number in told}


def drive(system: str, cluster: LSFCluster | SLURMCluster | PBSCluster) -> None:
    with cluster:
        cluster.scale(jobs=2)
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=PATIENCE_S)
            workers = list(client.scheduler_info()["workers"])
            found = [client.submit(where, 1, NUMBERS[system], workers=[name], pure=False) for name in workers]
            seen = dict(client.gather(found))
            assert sum(client.gather(client.map(lambda number: number * number, range(100)))) == 328350
        ids = {worker.job_id for worker in cluster.workers.values()}
        print(system, "job and GPU:", seen)
        assert set(seen) == ids and ids <= unfinished(system), (seen, ids, unfinished(system))
        assert len(set(seen.values())) == 2 and all(value.count("GPU-") == 1 for value in seen.values()), seen
    until = time.monotonic() + PATIENCE_S
    while ids & unfinished(system):
        assert time.monotonic() < until, "jobs of a cluster that was closed go on"
        time.sleep(0.2)


if __name__ == "__main__":
    for make in CLUSTERS[sys.argv[1]]:
        drive(sys.argv[1], make())
    print("OK dask")
