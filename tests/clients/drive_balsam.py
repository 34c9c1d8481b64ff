"""Balsam's side of a batch system on the bsub, bjobs and bkill that come first on PATH: submit, states, delete, times.

The jobs are those that a site of Balsam submits; its central service is not needed. Prints OK balsam.
"""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

from balsam.platform.scheduler.lsf_sched import LsfScheduler

PATIENCE_S = 240
QUEUE = os.environ.get("BATCH_QUEUE", "normal")
USER = pwd.getpwuid(os.getuid()).pw_name
SCRIPT = """#!/bin/bash
#BSUB -J {name}
#BSUB -gpu "num=1:j_exclusive=yes"
echo "$LSB_JOBID $GSCHED_GPU_UUIDS"
while [ ! -e {name}.end ]; do sleep 0.1; done
"""


def submit(name: str, *, nodes: int = 1) -> int:
    path = Path(f"{name}.sh").absolute()
    path.write_text(SCRIPT.format(name=name))
    return LsfScheduler.submit(path, project="balsam", queue=QUEUE, num_nodes=nodes, wall_time_min=5)


def until(what: str, is_so) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def statuses():
    return LsfScheduler.get_statuses(user=USER, queue=QUEUE)


def drive() -> None:
    first, second = submit("first"), submit("second")
    waiting = LsfScheduler.submit(behind(first), project="balsam", queue=QUEUE, num_nodes=1, wall_time_min=7)
    until("they do not run", lambda: {statuses()[each].state for each in (first, second)} == {"running"})
    found = statuses()
    print("states:", found)
    assert (found[waiting].state, found[waiting].wall_time_min, found[waiting].time_remaining_min) == ("queued", 7, 0)
    assert {found[each].project for each in (first, second)} == {"balsam"} and found[first].wall_time_min == 5
    assert found[first].queued_time_min >= 0
    until("nothing is printed", lambda: all(said(name) for name in ("first", "second")))
    seen = {name: said(name).split() for name in ("first", "second")}
    print("job and GPU:", seen)
    assert [seen[name][0] for name in seen] == [str(first), str(second)]
    assert len({gpu for _, gpu in seen.values()}) == 2 and all(gpu.count("GPU-") == 1 for _, gpu in seen.values())
    LsfScheduler.delete_job(waiting)
    LsfScheduler.delete_job(second)
    Path("first.end").touch()
    until("they do not end", lambda: not {first, second, waiting} & set(statuses()))
    log = LsfScheduler.parse_logs(first, None)
    print("times:", log)
    assert log.start_time is not None and log.end_time is not None and log.start_time <= log.end_time


def behind(number: int) -> Path:
    path = Path("behind.sh").absolute()
    path.write_text(f"#!/bin/sh\n#BSUB -w 'done({number})'\ntrue\n")
    return path


def said(name: str) -> str:
    """The line with the job's number and its GPU, as soon as it is there."""
    path = Path(f"{name}.output")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line for line in lines if "GPU-" in line and not line.startswith("echo")), "")


if __name__ == "__main__":
    drive()
    print("OK balsam")
