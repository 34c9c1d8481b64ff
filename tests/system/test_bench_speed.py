"""`make bench`: figures of a small run, what is left out when time is short, and the picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"

FIGURES = {
    "gsched_jobs_per_s": 400.0,
    "hyperqueue_jobs_per_s": 500.0,
    "fork_exec_jobs_per_s": 2100.0,
    "start_ms": 9.5,
    "gsub_ms": 15.0,
    "array_100_per_s": 300.0,
    "array_50000_per_s": 390.0,
    "cycle_full_10_ms": 0.4,
    "cycle_full_5000_ms": 4.5,
}


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def texts(picture: Path) -> str:
    return " ".join(text for each in ElementTree.parse(picture).iter() if each.text and (text := each.text.strip()))


def test_the_picture_has_what_was_measured_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from speed_picture import draw

    draw(FIGURES, tmp_path / "one.svg")
    drawn = texts(tmp_path / "one.svg")
    for text in ("gsched", "HyperQueue", "2,100", "9.5", "run as an array", "390", "no GPU free", "4.5"):
        assert text in drawn
    assert not any(text in drawn for text in ("Slurm", "task-spooler", "listed by gjobs", "half of the GPUs free"))
    draw(FIGURES, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    draw({}, tmp_path / "none.svg")
    assert "gsched" not in texts(tmp_path / "none.svg").replace("gsched bench", "")


def test_sizes_that_would_take_too_long_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each takes twice as long as the one before, which is four times smaller: 1, 2, 4 and 8 seconds."""
    import speed

    now = 100.0
    monkeypatch.setattr(speed.time, "monotonic", lambda: now)
    done, takes = [], 1.0
    for size in speed.Deadline(10.0).steps([1600, 100, 400, 6400], "jobs"):
        done.append(size)
        now, takes = now + takes, takes * 2
    assert done == [100, 400, 1600]
    assert capsys.readouterr().out == "6400 jobs: left out, there is no time for them\n"


@pytest.mark.nightly
def test_a_small_run_measures_everything(tmp_path: Path) -> None:
    words = ["--jobs", "3", "--hosts", "2", "--rounds", "1", "--array", "2", "--times", "1", "--picture"]
    command = [sys.executable, str(BENCH / "speed.py"), *words, str(tmp_path / "speed.svg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])["figures"]
    names = (
        "start_ms gsub_ms gjobs_ms gsched_jobs_per_s array_3_per_s submitted_3_per_s listed_3_per_s gsub_ms_beside_3"
    )
    for name in (*names.split(), "cycle_half_free_2_ms", "cycle_full_2_ms"):
        assert figures[name] > 0
    assert "gsched" in texts(tmp_path / "speed.svg")
