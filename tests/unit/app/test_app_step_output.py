"""Files that the tasks of a step print into."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.app.steps.step_output import StepOutput
from gsched.base.errors import BadRequest
from gsched.dialect.slurm.step_options import read_step
from gsched.model.jobs.job_step import StepGranted
from gsched.model.jobs.step_layout import TaskPlace

JOB = {"SLURM_JOB_ID": "9", "SLURM_NTASKS": "2", "SLURM_JOB_NAME": "train"}
PLACES = (TaskPlace("gpu01.example.org", 0, 0), TaskPlace("gpu02.example.org", 1, 0))


def output_of(pattern: str, folder: Path, env: dict[str, str]) -> StepOutput:
    ask = read_step(["-o", pattern, "x"], env, str(folder), lambda path: b"")
    return StepOutput(ask, env)


@pytest.mark.parametrize(
    ("pattern", "env", "names"),
    [
        ("%j_%t.out", {}, ["9_0.out", "9_1.out"]),
        ("%J %n %N %x", {}, ["9.3 0 gpu01 train", "9.3 1 gpu02 train"]),
        ("%A_%a_%2t", {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "4"}, ["7_4_00", "7_4_01"]),
        ("%A_%a_%t", {}, ["9_0_0", "9_0_1"]),
        ("%12j%b.%t", {"SLURM_ARRAY_TASK_ID": "14"}, ["00000000094.0", "00000000094.1"]),
    ],
)
def test_files_are_named_after_the_job_and_the_task(
    tmp_path: Path, pattern: str, env: dict[str, str], names: list[str]
) -> None:
    """%a is the index of the array's element, as submitit asks for it; 0 where there is no array."""
    output = output_of(pattern, tmp_path, {**JOB, **env})
    output.begin(StepGranted(3, PLACES))
    for task in range(2):
        output.show(task, 1, b"%d\n" % task)
        output.end(task)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {names[0]: "0\n", names[1]: "1\n"}


def test_behind_a_backslash_nothing_is_filled_in(tmp_path: Path) -> None:
    output = output_of(r"\%j_%t", tmp_path, JOB)
    output.begin(StepGranted(3, PLACES))
    assert [path.name for path in tmp_path.iterdir()] == ["%j_%t"]


def test_a_letter_that_means_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="--output: %q is not supported: %j %J "):
        output_of("%q", tmp_path, JOB)
