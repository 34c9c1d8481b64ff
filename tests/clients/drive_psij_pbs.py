"""PSI/J's two PBS executors on the qsub, qstat and qdel that come first on PATH: ends, cancelling. Prints OK psij."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.pbs_base import PBSExecutorConfig

PATIENCE = datetime.timedelta(seconds=300)
FOLDER = Path.cwd()


def job(script: str, name: str) -> Job:
    spec = JobSpec(
        executable="/bin/sh",
        arguments=["-c", script],
        name=name,
        directory=FOLDER,
        stdout_path=FOLDER / f"{name}.out",
        environment={"GREETING": "hello"},
        resources=ResourceSpecV1(node_count=1, processes_per_node=2),
        attributes=JobAttributes(
            duration=datetime.timedelta(minutes=3), queue_name="normal", custom_attributes={"pbs.m": "n"}
        ),
    )
    spec.launcher = "single"
    return Job(spec)


def finish(submitted: Job) -> JobState:
    status = submitted.wait(timeout=PATIENCE)
    assert status is not None, f"{submitted.spec.name} did not end within {PATIENCE}"
    print(submitted.spec.name, submitted.native_id, status.state, status.exit_code)
    return status.state


def drive(kind: str) -> None:
    config = PBSExecutorConfig(queue_polling_interval=1, initial_queue_polling_delay=1)
    executor = JobExecutor.get_instance(kind, config=config)
    plain = job('echo "$PBS_JOBID $GREETING $(wc -l < "$PSIJ_NODEFILE")"', f"plain_{kind}")
    bad, long = job("exit 3", f"bad_{kind}"), job("exec sleep 300", f"long_{kind}")
    for each in (plain, bad, long):
        executor.submit(each)
    assert finish(plain) == JobState.COMPLETED
    assert finish(bad) == JobState.FAILED and bad.status.exit_code == 3
    long.wait(timeout=PATIENCE, target_states=[JobState.ACTIVE])
    long.cancel()
    assert finish(long) in (JobState.CANCELED, JobState.FAILED)  # 0.9.11 calls a job that was killed FAILED
    seen = (FOLDER / f"plain_{kind}.out").read_text().split()
    assert seen == [plain.native_id, "hello", "2"], seen


drive("pbs")
drive("pbs_classic")
print("OK psij")
sys.stdout.flush()
os._exit(0)  # PSI/J's polling thread would go on for ever
