"""A bench that is told to end leaves nothing running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def is_master(process: psutil.Process) -> bool:
    """Whether it is one; a child that has ended by now is none."""
    try:
        return "master" in process.cmdline()
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["fleet.py", "--hosts", "2", "--wave", "0", "--idle", "60"], marks=pytest.mark.nightly),
        pytest.param(["listing.py"], marks=pytest.mark.nightly),
        pytest.param(["promptness.py"], marks=pytest.mark.nightly),
        ["peers.py", "--only", ""],
        pytest.param(["failover.py"], marks=pytest.mark.needs_postgresql),
    ],
)
def test_a_bench_that_is_terminated_ends_its_daemons(words: list[str]) -> None:
    command = [sys.executable, str(BENCH / words[0]), *words[1:]]
    bench = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    left: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 120
        while not any(is_master(each) for each in left):
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


def test_rounds_without_peers_are_measured_and_leave_nothing_running() -> None:
    words = [sys.executable, str(BENCH / "peers.py"), "--jobs", "3", "--rounds", "2", "--only", ""]
    bench = psutil.Popen(words, stdout=subprocess.PIPE, text=True)
    lines, left = [], set[psutil.Process]()
    assert bench.stdout is not None
    try:
        for line in bench.stdout:
            lines.append(line)
            left |= set(bench.children(recursive=True))
        assert bench.wait(120) == 0
        _, alive = psutil.wait_procs(left, timeout=60)
        assert not alive
    finally:
        for each in [bench, *left]:
            if each.is_running():
                each.kill()
    told = json.loads(lines[-1])
    assert told["bench"] == "peers"
    assert told["figures"].keys() == {"fork_exec_jobs_per_s", "gsched_jobs_per_s", "gsched_to_fork_exec"}
    assert all(figure > 0 for name, figure in told["figures"].items() if name.endswith("per_s"))
    assert sum(line.startswith("round ") for line in lines) == 2


def test_a_peer_that_nobody_knows_is_refused() -> None:
    words = [sys.executable, str(BENCH / "peers.py"), "--only", "slurm,lsf"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "no such peer: lsf" in done.stderr


INTERRUPTED = """
import os, signal, psutil, fleet
start = psutil.Popen
def started(*words, **options):
    process = start(*words, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    print(process.pid, flush=True)
    return process
psutil.Popen = started
fleet.main()
"""
"""A bench that is terminated when its master runs and it has not noted it down yet."""


def test_a_bench_that_is_terminated_while_it_starts_a_daemon_ends_it() -> None:
    words = [sys.executable, "-c", INTERRUPTED, "--hosts", "2", "--wave", "0"]
    environment = {**os.environ, "PYTHONPATH": str(BENCH)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 143, done.stderr
    assert not psutil.pid_exists(int(done.stdout))
