"""Logs that are renamed while real daemons write them, as the file for logrotate has it done."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

from gsched.app.installation.units import rotation_text
from gsched.config.configuration import load

ANEW = "the log file has been opened anew"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "1:exclusive_process")


def logs(cluster: Cluster) -> list[Path]:
    names = ["master.log", "door.log", f"agent-{cluster.host}.log"]
    return [cluster.folder / "log" / name for name in names]


def rename(path: Path) -> Path:
    old = path.with_suffix(".log.1")
    path.rename(old)
    return old


def has(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text()


def test_every_daemon_goes_on_in_a_new_file(cluster: Cluster) -> None:
    job = cluster.submit("sleep", "600")
    cluster.starts(job)
    olds = [rename(path) for path in logs(cluster)]
    pids = {name: cluster.pid(name) for name in ("master", "door", f"agent-{cluster.host}")}
    sizes = [path.stat().st_size for path in olds]
    for pid in pids.values():
        os.kill(pid, signal.SIGUSR1)
    for path in logs(cluster):
        cluster.until(lambda path=path: has(path, ANEW), f"{path} is not opened anew")
        assert path.stat().st_mode & 0o777 == path.with_suffix(".log.1").stat().st_mode & 0o777
    # What the daemons log from now on, an agent that comes back to the master, is in the new files alone.
    cluster.kill("master", signal.SIGTERM)
    cluster.until(lambda: has(logs(cluster)[0], "ends"), "the master's last words are not in the new file")
    cluster.up()
    assert [path.stat().st_size for path in olds] == sizes
    assert pids[f"agent-{cluster.host}"] == cluster.pid(f"agent-{cluster.host}")
    assert cluster.state(job) == "RUN"
    cluster.run("gkill", str(job))
    cluster.wait(job)


def test_the_file_for_logrotate_tells_those_daemons_that_run(cluster: Cluster) -> None:
    if shutil.which("pkill") is None:
        pytest.skip("pkill is not installed (Debian package procps)")
    places = load(str(cluster.conf)).required().locations
    script = rotation_text(places).partition("postrotate\n")[2].partition("endscript")[0]
    # A lock that nobody holds, with the number of a process that has nothing to do with it.
    with subprocess.Popen(["sleep", "600"]) as bystander:
        (Path(places.run_dir) / "agent-gone.lock").write_text(f"{bystander.pid}\n")
        for path in logs(cluster):
            path.replace(path.with_suffix(".log.2"))
        subprocess.run(["sh", "-ec", script], check=True, timeout=PATIENCE_S)
        for path in logs(cluster):
            cluster.until(lambda path=path: has(path, ANEW), f"{path} is not opened anew")
        assert bystander.poll() is None
        bystander.kill()
    (Path(places.run_dir) / "agent-gone.lock").unlink()


def test_logrotate_reads_the_file(cluster: Cluster, tmp_path: Path) -> None:
    logrotate = shutil.which("logrotate")
    if logrotate is None:
        pytest.skip("logrotate is not installed")
    rules = tmp_path / "rules"
    rules.write_text(rotation_text(load(str(cluster.conf)).required().locations))
    rules.chmod(0o644)
    words = [logrotate, "--force", "--state", str(tmp_path / "state"), str(rules)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and not done.stderr, done.stderr
    for path in logs(cluster):
        cluster.until(lambda path=path: has(path, ANEW), f"{path} is not opened anew")
