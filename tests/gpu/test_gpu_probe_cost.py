"""What a round of the GPU probe costs with this machine's driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from findings import Findings

BENCH = Path(__file__).parents[2] / "bench" / "probe.py"


@pytest.mark.looks_only
@pytest.mark.row("detecting GPUs, UUIDs, compute modes, memory")
def test_the_bench_of_the_probe_runs(findings: Findings) -> None:
    words = (sys.executable, str(BENCH), "--real")
    done = subprocess.run(words, cwd=BENCH.parents[1], capture_output=True, text=True, check=False)
    findings.expect(done.returncode == 0, "bench/probe.py --real runs", done.stderr[-600:])
    findings.measure("bench/probe.py --real", done.stdout.partition("\n")[0])
