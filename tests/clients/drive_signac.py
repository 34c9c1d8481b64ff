"""signac-flow on the bsub and bjobs that come first on PATH: a workflow of two operations with a GPU. Prints OK signac.

signac-flow finds the batch system by itself; it runs this file again in each job, for one operation.
"""

from __future__ import annotations

import os
import pwd
import sys
import time
from pathlib import Path

import flow
import signac
from flow.environment import DefaultLSFEnvironment
from flow.scheduling.base import JobStatus
from flow.scheduling.lsf import LSFScheduler

PATIENCE_S = 240
JOBS = 2


class Work(flow.FlowProject):
    """Two steps, one after the other."""


@Work.post.isfile("seen")
@Work.operation(directives={"walltime": 0.1, "memory": "100MB"})
def look(job: signac.job.Job) -> None:
    Path(job.fn("seen")).write_text(f"{os.environ['LSB_JOBID']} {os.environ.get('GSCHED_GPU_UUIDS', '')}")
    while not (Path(job.project.path) / "go").exists():
        time.sleep(0.1)


@Work.pre.after(look)
@Work.post.isfile("told")
@Work.operation
def tell(job: signac.job.Job) -> None:
    Path(job.fn("told")).write_text(os.environ["LSB_JOBNAME"])


def until(what: str, is_so) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def states(work: Work) -> dict[str, JobStatus]:
    """Of the jobs in the batch system, by name."""
    return {each.name(): each.status() for each in work.scheduler_jobs(work._environment.get_scheduler())}


def drive() -> None:
    LSFScheduler._dos_timeout = 0  # seconds between two questions
    project = signac.init_project(".")
    for number in range(JOBS):
        project.open_job({"number": number}).init()
    work = Work.get_project()
    assert work._environment is DefaultLSFEnvironment, work._environment
    queue = os.environ.get("BATCH_QUEUE", "normal")
    flags = ["-gpu", "num=1:j_exclusive=yes", "-o", "log.%J"]
    work.submit(names=["look"], partition=queue, flags=list(flags))
    paths = [Path(job.fn("seen")) for job in project]
    until("the first steps do not run", lambda: all(path.exists() and path.read_text().count("GPU-") for path in paths))
    seen = dict(path.read_text().split() for path in paths)
    print("job and GPU:", seen)
    assert len(seen) == len(set(seen.values())) == JOBS and all(value.count("GPU-") == 1 for value in seen.values())
    found = states(work)
    print("states:", found)
    assert len(found) == JOBS and set(found.values()) == {JobStatus.active}
    work.submit(names=["look"], partition=queue, flags=list(flags))
    assert len(states(work)) == JOBS, "what is running was submitted again"
    Path("go").touch()
    until("the first steps do not end", lambda: not states(work))
    work.submit(partition=queue, flags=list(flags))
    told = [Path(job.fn("told")) for job in project]
    until("the second steps do not run", lambda: all(path.exists() and path.read_text() for path in told))
    names = {path.read_text() for path in told}
    print("names:", names)
    assert len(names) == JOBS and all("/tell/" in name for name in names)
    until("the second steps do not end", lambda: not states(work))


if __name__ == "__main__":
    os.environ["USER"] = os.environ["LOGNAME"] = pwd.getpwuid(os.getuid()).pw_name
    if sys.argv[1:] == ["lsf"]:  # by the test; with other words by the jobs that flow submits
        drive()
        print("OK signac")
    else:
        Work().main()
