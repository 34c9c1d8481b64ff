"""PSI/J on the commands of a batch system (lsf, slurm, pbs, torque) that come first on PATH. Prints OK psij.

GPUs, failures, cancelling, attaching. Two jobs ask for GPUs through PSI/J's own resource specification and say which
they got.
"""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.lsf import LsfExecutorConfig
from psij.executors.batch.pbs import PBSExecutorConfig
from psij.executors.batch.slurm import SlurmExecutorConfig

PATIENCE = datetime.timedelta(seconds=300)
FOLDER = Path.cwd()
SYSTEM = sys.argv[1]
EXECUTOR = {"torque": "pbs_classic"}.get(SYSTEM, SYSTEM)
FAMILY = {"torque": "pbs"}.get(SYSTEM, SYSTEM)
CONFIG = {"lsf": LsfExecutorConfig, "slurm": SlurmExecutorConfig, "pbs": PBSExecutorConfig}[FAMILY]
NUMBER = {"lsf": "LSB_JOBID", "slurm": "SLURM_JOB_ID", "pbs": "PBS_JOBID"}[FAMILY]
CUSTOM = {"lsf": {"Jd": "described"}, "slurm": {"comment": "described"}, "pbs": {"r": "y"}}[FAMILY]
GPUS = (0, 0) if SYSTEM == "pbs" else (2, 1)
"""PSI/J does not ask PBS Pro for GPUs."""


def job(script: str, name: str, *, gpus: int = 0, memory: int | None = None, **options: str) -> Job:
    resources = ResourceSpecV1(process_count=1, gpu_cores_per_process=gpus or None, memory=memory)
    attributes = JobAttributes(
        duration=datetime.timedelta(minutes=3),
        queue_name=os.environ.get("BATCH_QUEUE", "normal"),
        custom_attributes={f"{FAMILY}.{option}": value for option, value in options.items()},
    )
    spec = JobSpec(
        executable="/bin/sh",
        arguments=["-c", script],
        name=name,
        directory=FOLDER,
        stdout_path=FOLDER / f"{name}.out",
        environment={"GREETING": "hello"},
        resources=resources,
        attributes=attributes,
    )
    spec.launcher = "single"
    return Job(spec)


def finish(submitted: Job) -> JobState:
    status = submitted.wait(timeout=PATIENCE)
    assert status is not None, f"{submitted.spec.name} did not end within {PATIENCE}"
    print(submitted.spec.name, submitted.native_id, status.state, status.exit_code)
    return status.state


def main() -> None:
    executor = JobExecutor.get_instance(
        EXECUTOR, config=CONFIG(queue_polling_interval=1, initial_queue_polling_delay=1)
    )
    say = f'echo "${NUMBER} $GREETING ${{GSCHED_GPU_UUIDS-none}}"'
    plain = job(say, "plain", memory=200 << 20, **CUSTOM)
    together = "until [ -e met.both ] && [ -e met.one ]; do sleep 0.1; done"
    both = job(f"{say}; touch met.both; {together}", "both", gpus=GPUS[0])
    one = job(f"{say}; touch met.one; {together}", "one", gpus=GPUS[1])
    bad = job("exit 3", "bad")
    long = job("exec sleep 300", "long")
    for each in (plain, both, one, bad, long):
        executor.submit(each)
    found = Job()
    executor.attach(found, one.native_id)
    assert [finish(each) for each in (plain, both, one)] == [JobState.COMPLETED] * 3
    assert found.wait(timeout=PATIENCE).state == JobState.COMPLETED
    assert finish(bad) == JobState.FAILED and bad.status.exit_code == 3
    long.cancel()
    assert finish(long) in (JobState.CANCELED, JobState.FAILED)  # 0.9.11 calls a job that was killed FAILED
    seen = {each.spec.name: (FOLDER / f"{each.spec.name}.out").read_text().split() for each in (plain, both, one)}
    for each in (plain, both, one):
        assert seen[each.spec.name][:2] == [each.native_id, "hello"], seen
    devices = {name: [part for part in words[2].split(",") if part != "none"] for name, words in seen.items()}
    print("devices", devices)
    assert (len(devices["both"]), len(devices["one"])) == GPUS, devices
    assert not set(devices["both"]) & set(devices["one"]), "two jobs that run together share a GPU"
    print("OK psij")


main()
sys.stdout.flush()
os._exit(0)  # PSI/J's polling thread would go on for ever
