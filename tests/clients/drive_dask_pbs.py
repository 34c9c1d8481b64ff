"""dask-jobqueue's PBSCluster on the qsub and qdel that come first on PATH: GPUs, scaling, closing. Prints OK dask.

Each worker is a job that asks for a GPU; the workers that run together must have different ones.
"""

from __future__ import annotations

import os
import subprocess
import time

from dask.distributed import Client
from dask_jobqueue import PBSCluster

PATIENCE_S = 240


def where(_: int) -> tuple[str, str]:
    return os.environ["PBS_JOBID"].partition(".")[0], os.environ.get("GSCHED_GPU_UUIDS", "")


def unfinished() -> set[str]:
    told = subprocess.run(["qselect"], capture_output=True, text=True, check=True)
    return {line.partition(".")[0] for line in told.stdout.split()}


def main() -> None:
    with PBSCluster(
        queue="normal",
        account="dask",
        cores=1,
        memory="400MB",
        resource_spec="select=1:ncpus=1:mem=400MB:ngpus=1",
        walltime="00:03:00",
        interface="lo",
        log_directory="logs",
        death_timeout=PATIENCE_S,
        job_extra_directives=["-V", "-j oe   # a comment"],
    ) as cluster:
        cluster.scale(jobs=2)
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=PATIENCE_S)
            workers = list(client.scheduler_info()["workers"])
            found = [client.submit(where, number, workers=[name]) for number, name in enumerate(workers)]
            seen = dict(client.gather(found))
            assert sum(client.gather(client.map(lambda number: number * number, range(100)))) == 328350
        ids = {worker.job_id for worker in cluster.workers.values()}
        print("job and GPU:", seen)
        assert set(seen) == ids and ids <= unfinished()
        assert len(set(seen.values())) == 2 and all(value.count("GPU-") == 1 for value in seen.values()), seen
    until = time.monotonic() + PATIENCE_S
    while ids & unfinished():
        assert time.monotonic() < until, "jobs of a cluster that was closed go on"
        time.sleep(0.2)
    print("OK dask")


if __name__ == "__main__":
    main()
