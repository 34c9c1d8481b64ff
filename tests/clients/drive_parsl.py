"""Parsl on the bsub, bjobs and bkill that come first on PATH: blocks that ask for a GPU each. Prints OK parsl.

A block is a job with a worker in it; both ways of asking for nodes are tried, and both of handing over the script.
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
from parsl.providers import LSFProvider

PATIENCE_S = 240


@parsl.python_app
def where() -> tuple[str, str]:
    import os  # the function is sent without its module
    import time

    time.sleep(0.2)
    return os.environ["LSB_JOBID"], os.environ.get("GSCHED_GPU_UUIDS", "")


def drive(*, bsub_redirection: bool, **nodes: object) -> None:
    provider = LSFProvider(
        queue=os.environ.get("LSF_QUEUE", "normal"),
        project="parsl",
        walltime="00:03:00",
        init_blocks=2,
        min_blocks=2,
        max_blocks=2,
        bsub_redirection=bsub_redirection,
        scheduler_options='#BSUB -gpu "num=1:j_exclusive=yes"',
        **nodes,
    )
    executor = HighThroughputExecutor(label="lsf", address="127.0.0.1", max_workers_per_node=1, provider=provider)
    with parsl.load(Config(run_dir="runinfo", executors=[executor])):
        seen: dict[str, str] = {}
        until = time.monotonic() + PATIENCE_S
        while len(seen) < 2:
            assert time.monotonic() < until, f"only these blocks work: {seen}"
            seen.update(each.result(timeout=PATIENCE_S) for each in [where() for _ in range(4)])
        print("job and GPU:", seen)
        assert set(seen) == set(provider.resources), provider.resources
        assert len(set(seen.values())) == 2 and all(value.count("GPU-") == 1 for value in seen.values()), seen
        assert {status.state for status in provider.status(list(seen))} == {JobState.RUNNING}
        assert all(provider.cancel(list(seen)))


if __name__ == "__main__":
    os.environ["PATH"] += f":{Path(sys.executable).parent}"  # Parsl starts its own programs by name
    drive(bsub_redirection=False)
    drive(bsub_redirection=True, request_by_nodes=False, cores_per_block=2, cores_per_node=2)
    print("OK parsl")
