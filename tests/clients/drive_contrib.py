"""gsched.contrib with the packages that it is for: joblib, dask-jobqueue and hydra. Prints OK contrib.

Each must get a GPU for each of its calls, run them as jobs, and raise what they raise.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hydra
import joblib
from dask.distributed import Client
from hydra.core.hydra_config import HydraConfig

import gsched
from gsched.contrib import hydra_launcher, joblib_backend
from gsched.contrib.dask_cluster import GschedCluster

PATIENCE_S = 240


def where(number: int) -> tuple[int, str, str]:
    if number < 0:
        raise ValueError(f"number {number}")
    return number, os.environ["LSB_JOBID"], os.environ["CUDA_VISIBLE_DEVICES"]


def use_joblib() -> None:
    joblib_backend.register()
    with joblib.parallel_config(backend="gsched", n_jobs=2, gpus=1, name="of-joblib"):
        found = joblib.Parallel(batch_size=1)(joblib.delayed(where)(number) for number in range(4))
        try:
            joblib.Parallel()(joblib.delayed(where)(number) for number in (-7,))
        except ValueError as error:
            assert str(error) == "number -7", error
        else:
            raise AssertionError("nothing was raised")
    assert [number for number, _, _ in found] == [0, 1, 2, 3], found
    assert len({job for _, job, _ in found}) == 4 and all(device for _, _, device in found), found
    with gsched.Cluster() as cluster:
        assert {view.spec.name for view in cluster.history(ids=[int(job) for _, job, _ in found])} == {"of-joblib"}


def use_dask() -> None:
    options = {"gpus": 1, "queue": "normal"}
    with GschedCluster(cores=1, memory="400MB", interface="lo", death_timeout=PATIENCE_S, options=options) as workers:
        workers.scale(jobs=2)
        with Client(workers) as client:
            client.wait_for_workers(2, timeout=PATIENCE_S)
            told = client.run(where, 1)
            assert sum(client.gather(client.map(abs, range(-5, 0)))) == 15
        jobs = [int(job) for _, job, _ in told.values()]
        assert len(set(jobs)) == 2, told
    with gsched.Cluster() as cluster:
        cluster.wait(jobs, PATIENCE_S)


@hydra.main(version_base="1.3", config_path=None, config_name=None)
def train(config: object) -> None:
    _, job, device = where(1)
    number = HydraConfig.get().job.num
    Path(os.environ["TOLD"], str(number)).write_text(f"{config.rate} {job} {device}")  # type: ignore[attr-defined]


def use_hydra() -> None:
    told = Path("told")
    told.mkdir()
    os.environ["TOLD"] = str(told.absolute())
    hydra_launcher.register()
    sys.argv = ["train", "--multirun", "hydra/launcher=gsched", "+hydra.launcher.gpus=1", "+rate=0.1,0.2"]
    train()
    lines = [(told / str(number)).read_text().split() for number in (0, 1)]
    assert [rate for rate, _, _ in lines] == ["0.1", "0.2"], lines
    assert len({job for _, job, _ in lines}) == 2, lines


if __name__ == "__main__":
    use_joblib()
    use_dask()
    use_hydra()
    print("OK contrib")
