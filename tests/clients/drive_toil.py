"""Toil's LSF batch system on the commands that come first on PATH: a small tree of jobs with GPUs. Prints OK toil.

TOIL_LSF_ARGS is Toil's way to hand options to bsub. Most of the time is Toil's own: it asks once a minute.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from toil.common import Toil
from toil.job import Job

SIZE = {"cores": 1, "memory": "200M", "disk": "50M"}


def leaf(job: Job, number: int) -> dict[str, str | int]:
    return {"number": number, "job": os.environ["LSB_JOBID"], "gpu": os.environ.get("CUDA_VISIBLE_DEVICES", "")}


def root(job: Job) -> list[object]:
    return [job.addChildJobFn(leaf, number, **SIZE).rv() for number in (20, 22)]


def main() -> None:
    os.environ["PATH"] += f":{Path(sys.executable).parent}"  # the jobs call _toil_worker
    os.environ["TOIL_LSF_ARGS"] = f"-q {os.environ.get('BATCH_QUEUE', 'normal')} -gpu num=1"
    options = Job.Runner.getDefaultOptions(f"file:{Path.cwd() / 'store'}")
    options.batchSystem = "lsf"
    options.logLevel = "INFO"
    options.workDir = str(Path.cwd())
    options.disableCaching = True
    options.statePollingWait = 2
    options.clean = "always"
    options.retryCount = 0
    with Toil(options) as toil:
        leaves = toil.start(Job.wrapJobFn(root, **SIZE))
    print(leaves)
    assert sum(leaf["number"] for leaf in leaves) == 42
    assert len({leaf["job"] for leaf in leaves}) == 2
    assert all(leaf["gpu"].isdigit() for leaf in leaves), "a job sees no GPU, or too many"
    print("OK toil")


if __name__ == "__main__":
    main()
