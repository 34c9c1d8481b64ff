"""The bench of saturation counts what it says it counts, and its last line is JSON."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The bench in this process."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("saturation")


SEED, SIZE = 7, 0.2


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    """What the bench, called as a program, says of three workloads."""
    words = ["--only", "equal,mixed-2,one-big", "--size", str(SIZE), "--seed", str(SEED)]
    command = [sys.executable, str(BENCH / "saturation.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["bench"] == "saturation"
    return last["figures"]


def test_equal_jobs_are_served_as_well_as_can_be(figures: dict[str, float]) -> None:
    assert figures["equal_inversions"] == figures["equal_idle"] == 0
    assert figures["equal_use"] == figures["equal_use_to_easy"] == figures["equal_use_to_bound"] == 1.0
    assert figures["equal_wait_to_easy"] == figures["equal_makespan_to_easy"] == 1.0
    assert figures["equal_makespan_to_bound"] > 1.0


def test_equal_seeds_give_equal_figures(
    figures: dict[str, float], bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In another process, where sets have another order."""
    words = ["--only", "mixed-2,one-big", "--size", str(SIZE), "--seed", str(SEED)]
    monkeypatch.setattr(sys, "argv", ["saturation.py", *words])
    assert bench.main() == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert len(again) > 20
    assert again == {name: value for name, value in figures.items() if not name.startswith("equal_")}


def test_workload_that_does_not_exist(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["saturation.py", "--only", "one-big,none"])
    with pytest.raises(SystemExit) as end:
        bench.main()
    assert end.value.code == 2
    assert "no workload 'none'; there are one-big, two-big" in capsys.readouterr().err


def test_use_until_saturation_ends(bench: ModuleType) -> None:
    works = [bench.Work(arrives=0.0, lasts=10.0, gpus=1) for _ in range(20)]
    starts = [10.0 * (number // 2) for number in range(20)]
    assert bench.saturation_end(works, starts) == 20.0  # the fifth starts, and 15 wait
    figures = bench.figures_of(works, starts, 4)
    assert (figures.use, figures.delivered, figures.makespan_s, figures.wait_s) == (0.5, 40.0, 100.0, 45.0)
    assert bench.saturation_end(works[:3], starts[:3]) == 20.0  # never so many: to the very end
