"""submitit on the sbatch, srun, sacct, scancel and scontrol that come first on PATH. Prints OK submitit.

Functions become jobs, alone and in an array; one fails, one is cancelled, one is stopped at its time and saves itself.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import submitit

PATIENCE_S = 240
QUEUE = os.environ.get("BATCH_QUEUE", "normal")


def where(number: int) -> dict[str, object]:
    found = submitit.JobEnvironment()
    return {
        "number": number,
        "job": found.job_id,
        "rank": (found.global_rank, found.local_rank, found.num_tasks, found.num_nodes, found.node),
        "gpu": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
    }


def fail() -> None:
    raise ValueError("so it is wanted")


class Checkpointed:
    """Is asked for a checkpoint when its time is near; then it waits again and tells that it has been there before."""

    def __init__(self, *, again: bool = False) -> None:
        self.again = again

    def __call__(self, mark: str) -> str:
        if self.again:
            return "went on"
        Path(mark).touch()
        time.sleep(PATIENCE_S)
        return "never stopped"

    def checkpoint(self, mark: str) -> submitit.helpers.DelayedSubmission:
        return submitit.helpers.DelayedSubmission(Checkpointed(again=True), mark)


def executor(minutes: int = 5, **options: object) -> submitit.AutoExecutor:
    made = submitit.AutoExecutor(folder="logs/%j", cluster="slurm")
    made.update_parameters(name="sub mit", timeout_min=minutes, slurm_partition=QUEUE, mem_gb=0.1, **options)
    return made


def one_and_its_failure() -> None:
    one = executor(gpus_per_node=1).submit(where, 7)
    seen = one.result()
    print("one", one.job_id, seen, one.state)
    assert (seen["number"], seen["job"]) == (7, one.job_id)
    assert seen["rank"][:4] == (0, 0, 1, 1) and seen["gpu"].isdigit(), seen
    bad = executor().submit(fail)
    told = bad.exception()
    print("bad", bad.job_id, bad.state, type(told).__name__)
    assert isinstance(told, submitit.core.utils.FailedJobError) and "so it is wanted" in str(told), told


def tasks() -> None:
    two = executor(tasks_per_node=2, slurm_gpus_per_task=1).submit(where, 1)
    seen = two.results()
    print("tasks", seen)
    assert sorted(each["rank"][:3] for each in seen) == [(0, 0, 2), (1, 1, 2)], seen


def array() -> None:
    jobs = executor(slurm_array_parallelism=2).map_array(where, range(3))
    seen = [job.result() for job in jobs]
    first = jobs[0].job_id.split("_")[0]
    print("array", seen)
    assert [job.job_id for job in jobs] == [f"{first}_{index}" for index in range(3)]
    assert [(each["number"], each["job"]) for each in seen] == [(n, f"{first}_{n}") for n in range(3)]


def cancelled() -> None:
    job = executor().submit(time.sleep, PATIENCE_S)
    until = time.monotonic() + PATIENCE_S
    while job.watcher.get_state(job.job_id, mode="force") != "RUNNING":
        assert time.monotonic() < until, job.state
        time.sleep(0.2)
    job.cancel()
    told = job.exception()
    print("cancelled", job.job_id, job.watcher.get_state(job.job_id, mode="force"), type(told).__name__)
    assert job.watcher.get_state(job.job_id, mode="force").startswith("CANCELLED"), job.state
    assert isinstance(told, submitit.core.utils.UncompletedJobError)


def requeued() -> None:
    mark = Path("started").absolute()
    job = executor(minutes=2, slurm_signal_delay_s=60).submit(Checkpointed(), str(mark))
    assert job.result() == "went on" and mark.exists()
    print("requeued", job.job_id, job.state)


if __name__ == "__main__":
    one_and_its_failure()
    tasks()
    array()
    cancelled()
    requeued()
    print("OK submitit")
