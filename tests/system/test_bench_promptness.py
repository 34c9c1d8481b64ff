"""The bench of promptness measures starts beside jobs that never fit, and its last line is JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "promptness.py"
KINDS = ("one_gpu", "gang", "compound")


@pytest.mark.nightly
def test_figures_of_a_few_turns() -> None:
    command = [sys.executable, str(BENCH), "--turns", "2", "--jobs", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["bench"] == "promptness"
    figures = last["figures"]
    for kind in KINDS:
        for among in ("alone", "beside"):
            median, p95, p99 = (figures[f"{kind}_{among}_ms_{which}"] for which in ("median", "p95", "p99"))
            assert 0 < median <= p95 <= p99
        assert figures[f"{kind}_ratio"] > 0
    assert 0 < figures["spawn_ms"] <= figures["beside_ms_median"]
