"""dask-jobqueue on the bsub and bkill that come first on PATH: GPUs, scaling, closing. Prints OK dask.

Each worker is a job that asks for a GPU; the workers that run together must have different ones.
"""

from __future__ import annotations

import os
import subprocess
import time

from dask.distributed import Client
from dask_jobqueue import LSFCluster

PATIENCE_S = 240


def where(_: int) -> tuple[str, str]:
    return os.environ["LSB_JOBID"], os.environ.get("GSCHED_GPU_UUIDS", "")


def unfinished() -> set[str]:
    told = subprocess.run(["bjobs", "-noheader", "-o", "jobid"], capture_output=True, text=True, check=True)
    return set(told.stdout.split())


def drive(*, use_stdin: bool) -> None:
    """One cluster; the job's script goes through standard input or is named."""
    with LSFCluster(
        queue=os.environ.get("LSF_QUEUE", "normal"),
        project="dask",
        cores=1,
        memory="400MB",
        walltime="00:03",
        interface="lo",
        log_directory="logs",
        death_timeout=PATIENCE_S,
        use_stdin=use_stdin,
        job_extra_directives=['-gpu "num=1:j_exclusive=yes"', '-R "rusage[mem=100]"   # a comment'],
    ) as cluster:
        cluster.scale(jobs=2)
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=PATIENCE_S)
            workers = list(client.scheduler_info()["workers"])
            found = [client.submit(where, number, workers=[name]) for number, name in enumerate(workers)]
            seen = dict(client.gather(found))
            assert sum(client.gather(client.map(lambda number: number * number, range(100)))) == 328350
        ids = {worker.job_id for worker in cluster.workers.values()}
        print("through standard input:", use_stdin, "job and GPU:", seen)
        assert set(seen) == ids and ids <= unfinished()
        assert len(set(seen.values())) == 2 and all(value.count("GPU-") == 1 for value in seen.values()), seen
    until = time.monotonic() + PATIENCE_S
    while ids & unfinished():
        assert time.monotonic() < until, "jobs of a cluster that was closed go on"
        time.sleep(0.2)


if __name__ == "__main__":
    drive(use_stdin=True)
    drive(use_stdin=False)
    print("OK dask")
