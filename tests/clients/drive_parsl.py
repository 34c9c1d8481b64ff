"""Parsl on the commands of a batch system (lsf, slurm, pbs or torque) that come first on PATH. Prints OK parsl.

A block is a job with a worker in it that asks for a GPU. With LSF both ways of asking for nodes are tried, and both of
handing over the script; with Slurm a launcher that calls srun, and one that does not.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.jobs.states import JobState
from parsl.launchers import SingleNodeLauncher, SrunLauncher
from parsl.providers import LSFProvider, PBSProProvider, SlurmProvider, TorqueProvider
from parsl.providers.cluster_provider import ClusterProvider

PATIENCE_S = 240
QUEUE = os.environ.get("BATCH_QUEUE", "normal")
PATH = f"PATH=$PATH:'{Path(sys.executable).parent}'"
"""Of a script: Parsl starts its own programs by name, and jobs of PBS do not have the PATH of who submits them."""
BLOCKS = {"walltime": "00:03:00", "init_blocks": 2, "min_blocks": 2, "max_blocks": 2}


def lsf(**options: object) -> LSFProvider:
    gpu = '#BSUB -gpu "num=1:j_exclusive=yes"'
    return LSFProvider(queue=QUEUE, project="parsl", scheduler_options=gpu, **BLOCKS, **options)


def slurm(**options: object) -> SlurmProvider:
    named = {"partition": QUEUE, "account": "parsl", "cores_per_node": 1, "exclusive": False, "gres": "gpu:1"}
    return SlurmProvider(**named, **BLOCKS, **options)


def pbs() -> PBSProProvider:
    asked = {"queue": QUEUE, "account": "parsl", "cpus_per_node": 1, "select_options": "ngpus=1"}
    return PBSProProvider(**asked, worker_init=PATH, **BLOCKS)


def torque() -> TorqueProvider:
    """Without a GPU: it writes what each node has by itself."""
    asked = {"queue": QUEUE, "account": "parsl", "launcher": SingleNodeLauncher()}
    return TorqueProvider(**asked, worker_init=PATH, **BLOCKS)


PROVIDERS = {
    "lsf": [
        lambda: lsf(bsub_redirection=False),
        lambda: lsf(bsub_redirection=True, request_by_nodes=False, cores_per_block=2, cores_per_node=2),
    ],
    "slurm": [lambda: slurm(launcher=SingleNodeLauncher()), lambda: slurm(launcher=SrunLauncher())],
    "pbs": [pbs],
    "torque": [torque],
}
NUMBERS = {"lsf": "LSB_JOBID", "slurm": "SLURM_JOB_ID", "pbs": "PBS_JOBID", "torque": "PBS_JOBID"}


@parsl.python_app
def where(variable: str) -> tuple[str, str]:
    import os  # the function is sent without its module
    import time

    time.sleep(0.2)
    return os.environ[variable], os.environ.get("GSCHED_GPU_UUIDS", "")


def drive(system: str, provider: ClusterProvider) -> None:
    executor = HighThroughputExecutor(label=system, address="127.0.0.1", max_workers_per_node=1, provider=provider)
    with parsl.load(Config(run_dir="runinfo", executors=[executor])):
        seen: dict[str, str] = {}
        until = time.monotonic() + PATIENCE_S
        while len(seen) < 2:
            assert time.monotonic() < until, f"only these blocks work: {seen}"
            seen.update(each.result(timeout=PATIENCE_S) for each in [where(NUMBERS[system]) for _ in range(4)])
        print(system, "job and GPU:", seen)
        assert set(seen) == set(provider.resources), provider.resources
        assert system == "torque" or len(set(seen.values())) == 2, seen
        assert all(value.count("GPU-") == (system != "torque") for value in seen.values()), seen
        assert {status.state for status in provider.status(list(seen))} == {JobState.RUNNING}
        assert all(provider.cancel(list(seen)))


if __name__ == "__main__":
    os.environ["PATH"] += f":{Path(sys.executable).parent}"  # Parsl starts its own programs by name
    for make in PROVIDERS[sys.argv[1]]:
        drive(sys.argv[1], make())
    print("OK parsl")
