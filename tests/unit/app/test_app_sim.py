"""`gsched sim` as a person types it: what is printed, what is written, and one line for what is wrong."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

JOBS = "arrives_s,runs_s,gpus,user\n0,100,2,ann\n0,100,1,bob\n"
GSCHED = (sys.executable, "-m", "gsched.app.entry")


def sim(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GSCHED")}
    command = [*GSCHED, "sim", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "a folder"
    place.mkdir()
    (place / "jobs.csv").write_text(JOBS)
    return place


def test_text_csv_and_json_say_the_same(folder: Path) -> None:
    done = sim("1x2:4", "jobs.csv", "--csv", "out", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "GPUs in use                    75.0 %\n" in done.stdout
    assert "Wait, p95                      1:40\n" in done.stdout
    with (folder / "out" / "jobs.csv").open(newline="") as file:
        jobs = list(csv.DictReader(file))
    assert [row["start_s"] for row in jobs] == ["0.0", "100.0"]
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        *("jobs.csv", "queues.csv", "series.csv", "users.csv")
    ]
    told = json.loads(sim("1x2:4", "jobs.csv", "--json", folder=folder).stdout)
    assert told["schema"] == 1
    assert told["summary"]["gpu_use"] == 0.75
    assert [row["start_s"] for row in told["jobs"]] == [0.0, 100.0]
    assert [row["user"] for row in told["users"]] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1x2", "none.csv"), "gsched: none.csv: cannot be read: No such file or directory"),
        (("1y2", "jobs.csv"), "gsched: 1y2: cannot be read: No such file or directory"),
        (("1x1", "jobs.csv"), "gsched: jobs.csv:2: No host can ever provide"),
        (("1x2", "jobs.csv", "--set", "lsb.queues:normal.PRIORTY=1"), "gsched: --set lsb.queues:normal.PRIORTY=1: "),
        (("1x2", "jobs.csv", "--config", "none"), "gsched: none: cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_is_one_line_and_writes_nothing(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = sim(*words, "--csv", "out", folder=folder)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1, done.stderr
    assert [path.name for path in folder.iterdir()] == ["jobs.csv"]


def test_progress_is_told_when_it_is_asked_for(folder: Path) -> None:
    done = sim("1x2:4", "jobs.csv", "--progress", folder=folder)
    assert done.returncode == 0
    assert done.stderr == "2 of 2 jobs (100 %), 3:20 of virtual time\n"
