"""Parsl's PBSProProvider and TorqueProvider on the qsub, qstat and qdel that come first on PATH. Prints OK parsl.

A block is a job with a worker in it, which asks for a GPU in the words of each system.
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
from parsl.launchers import SingleNodeLauncher
from parsl.providers import PBSProProvider, TorqueProvider
from parsl.providers.base import ExecutionProvider

PATIENCE_S = 240


@parsl.python_app
def where() -> tuple[str, str]:
    import os  # the function is sent without its module
    import time

    time.sleep(0.2)
    return os.environ["PBS_JOBID"], os.environ.get("GSCHED_GPU_UUIDS", "")


def drive(label: str, provider: ExecutionProvider) -> None:
    executor = HighThroughputExecutor(label=label, address="127.0.0.1", max_workers_per_node=1, provider=provider)
    with parsl.load(Config(run_dir="runinfo", executors=[executor])):
        seen: dict[str, str] = {}
        until = time.monotonic() + PATIENCE_S
        while len(seen) < 2:
            assert time.monotonic() < until, f"only these blocks work: {seen}"
            seen.update(each.result(timeout=PATIENCE_S) for each in [where() for _ in range(4)])
        print(label, "job and GPU:", seen)
        assert set(seen) == set(provider.resources), provider.resources
        assert len(set(seen.values())) == 2 and all(value.count("GPU-") == 1 for value in seen.values()), seen
        assert {status.state for status in provider.status(list(seen))} == {JobState.RUNNING}
        assert all(provider.cancel(list(seen)))


if __name__ == "__main__":
    os.environ["PATH"] += f":{Path(sys.executable).parent}"  # Parsl starts its own programs by name
    blocks = {"queue": "normal", "account": "parsl", "walltime": "00:03:00"}
    blocks |= {"init_blocks": 2, "min_blocks": 2, "max_blocks": 2}
    blocks["launcher"] = SingleNodeLauncher()  # that of TorqueProvider is aprun, of one maker's machines
    drive("pbspro", PBSProProvider(cpus_per_node=1, select_options="ngpus=1", scheduler_options="#PBS -V", **blocks))
    drive("torque", TorqueProvider(scheduler_options="#PBS -V\n#PBS -l gpus=1", **blocks))
    print("OK parsl")
