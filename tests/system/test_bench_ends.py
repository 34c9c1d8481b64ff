"""A bench that is told to end leaves nothing running."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.mark.parametrize("words", [["fleet.py", "--hosts", "2", "--wave", "0", "--idle", "60"], ["listing.py"]])
def test_a_bench_that_is_terminated_ends_its_daemons(words: list[str]) -> None:
    command = [sys.executable, str(BENCH / words[0]), *words[1:]]
    bench = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    left: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 120
        while not any("master" in each.cmdline() for each in left):
            assert bench.poll() is None and time.monotonic() < deadline, "no master was started"
            time.sleep(0.05)
            left = bench.children(recursive=True)
        bench.terminate()
        assert bench.wait(120) == 143
        _, alive = psutil.wait_procs(left, timeout=60)
        assert not alive
    finally:
        for each in [bench, *left]:
            if each.is_running():
                each.kill()
