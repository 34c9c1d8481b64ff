"""The bench of saturation counts what it says it counts, and its last line is JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "saturation.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_equal_jobs_are_served_as_well_as_can_be() -> None:
    done = run("--only", "equal", "--size", "0.3")
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["bench"] == "saturation"
    figures = last["figures"]
    assert figures["equal_inversions"] == figures["equal_idle"] == 0
    assert figures["equal_use"] == figures["equal_use_to_easy"] == figures["equal_use_to_bound"] == 1.0
    assert figures["equal_wait_to_easy"] == figures["equal_makespan_to_easy"] == 1.0
    assert figures["equal_makespan_to_bound"] > 1.0


def test_equal_seeds_give_equal_figures() -> None:
    words = ("--only", "mixed-2,one-big", "--size", "0.2", "--seed", "7")
    first, second = (run(*words).stdout.splitlines()[-1] for _ in range(2))
    assert json.loads(first)["figures"] == json.loads(second)["figures"]


def test_workload_that_does_not_exist() -> None:
    done = run("--only", "one-big,none")
    assert done.returncode == 2
    assert "no workload 'none'; there are one-big, two-big" in done.stderr


def test_use_until_saturation_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from saturation import figures_of, saturation_end
    from saturation_oracles import Work

    works = [Work(arrives=0.0, lasts=10.0, gpus=1) for _ in range(20)]
    starts = [10.0 * (number // 2) for number in range(20)]
    assert saturation_end(works, starts) == 20.0  # the fifth starts, and 15 wait
    figures = figures_of(works, starts, 4)
    assert (figures.use, figures.delivered, figures.makespan_s, figures.wait_s) == (0.5, 40.0, 100.0, 45.0)
    assert saturation_end(works[:3], starts[:3]) == 20.0  # never so many: to the very end
