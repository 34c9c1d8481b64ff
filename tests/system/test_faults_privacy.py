"""Who may look: folders and files, command lines and logs; and what kill -9 of everything leaves in the way."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from fault_tools import end_of, kill_everything, lent, run_dir
from live_cluster import PATIENCE_S, Cluster

from gsched.app.clusters import daemons

pytestmark = [pytest.mark.system, pytest.mark.fault]
SECRET = "tell-nobody-4711"


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:exclusive_process")


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    with lent(shared):
        yield shared


def open_to_others(folder: Path) -> list[str]:
    """What below (and including) the folder could be read by another user, given that parents do not hinder."""
    found = []
    for path in (folder, *folder.rglob("*")):
        if stat.S_IMODE(path.lstat().st_mode) & 0o077 and not path.is_symlink():
            found.append(f"{path} {stat.S_IMODE(path.lstat().st_mode):o}")
    return found


def test_secrets_stay_in_closed_folders_and_off_command_lines(make_cluster: Callable[..., Cluster]):
    cluster = make_cluster("--sim-gpus", "1:exclusive_process")
    job_id = cluster.submit("while [ ! -e go ]; do sleep 0.01; done; echo done", MY_SECRET=SECRET)
    script = cluster.folder / "script"
    script.write_text(f"#!/bin/sh\n# {SECRET}\nwhile [ ! -e go ]; do sleep 0.01; done\n")
    with script.open() as file:
        done = subprocess.run(["gsub"], stdin=file, env=cluster.env, cwd=cluster.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cluster.until(lambda: all(cluster.job(number).started_at for number in (job_id, job_id + 1)), "not started")

    for name in ("state", "spool", "run"):
        folder = cluster.folder / name
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700
    secretive = [path for path in cluster.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert {path.relative_to(cluster.folder).parts[0] for path in secretive} == {"state", "spool", "script"}
    for path in secretive:
        assert path == script or not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    assert not open_to_others(cluster.folder / "spool")
    assert not open_to_others(cluster.folder / "state")
    assert not open_to_others(run_dir(cluster))

    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert SECRET.encode() not in line.read_bytes(), line
        except (FileNotFoundError, ProcessLookupError):
            continue
    (cluster.folder / "go").touch()
    cluster.wait(job_id, job_id + 1)
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    assert SECRET not in cluster.logs()


def test_daemons_keep_what_they_write_closed_whatever_the_umask(make_cluster: Callable[..., Cluster]):
    before = os.umask(0)
    try:
        cluster = make_cluster("--sim-gpus", "1:exclusive_process")
        job_id = cluster.submit("true")
    finally:
        os.umask(before)
    cluster.wait(job_id)
    for folder in (cluster.folder / "state", cluster.folder / "spool", run_dir(cluster)):
        assert not open_to_others(folder)


@pytest.mark.nightly
def test_what_kill_9_leaves_behind_does_not_hinder_up(cluster: Cluster):
    job_id = cluster.submit("-o", "/dev/null", "while [ ! -e go ]; do sleep 0.01; done; exit 3")
    cluster.until(lambda: cluster.job(job_id).started_at, "the job did not start")
    kill_everything(cluster)
    left = {path.name for path in run_dir(cluster).iterdir()}
    assert left >= {"master.sock", "door.sock", "master.lock", "door.lock"}
    cluster.up()
    (cluster.folder / "go").touch()
    assert end_of(cluster.wait(job_id)[0]) == ("exit", 3)


@pytest.mark.nightly
def test_up_twice_at_the_same_time_makes_one_of_each(cluster: Cluster):
    for _ in range(2):
        kill_everything(cluster)
        ups = [
            subprocess.Popen(
                ["gsched", "up", "--dir", str(cluster.folder)],
                env=cluster.env,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(3)
        ]
        for process in ups:
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, (out, err)
        for name in ("master", f"agent-{cluster.host}", "door"):
            words = ["gsched.app.entry", name.partition("-")[0], "--envdir", str(cluster.conf)]
            found = [
                process.pid
                for process in psutil.process_iter(["cmdline"])
                if all(word in (process.info["cmdline"] or []) for word in words)
            ]
            assert found == [cluster.pid(name)]


def test_looking_whether_a_daemon_runs_never_keeps_it_from_starting(folder: Path):
    with daemons.holding_lock(str(folder), "master"):
        pass
    code = f"from gsched.app.clusters.daemons import running_pid\nwhile True: running_pid({str(folder)!r}, 'master')"
    looker = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(2000):
            with daemons.holding_lock(str(folder), "master"):
                pass
    finally:
        looker.kill()
        looker.wait()


@pytest.mark.parametrize(
    "rubbish", [b"", b"\0" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 4096, b"GET / HTTP/1.0\r\n\r\n"]
)
def test_rubbish_on_the_sockets_does_no_harm(cluster: Cluster, rubbish: bytes):
    pids = {name: cluster.pid(name) for name in ("master", "door")}
    for name in ("master.sock", "door.sock"):
        for _ in range(5):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(5)
                connection.connect(str(run_dir(cluster) / name))
                try:
                    connection.sendall(rubbish * 20)
                except (BrokenPipeError, ConnectionResetError):
                    pass
    job_id = cluster.submit("-o", "/dev/null", "true")
    assert end_of(cluster.wait(job_id)[0]) == ("exit", 0)
    assert {name: cluster.pid(name) for name in ("master", "door")} == pids
    assert "Traceback" not in cluster.logs()
