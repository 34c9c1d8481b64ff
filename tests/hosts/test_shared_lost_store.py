"""The folder of the store is gone as a whole: on the master's host nothing knows of it, on the others the agents do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest
from netlab import Lab
from netlab_cluster import ENVDIR, FOLDERS, PATIENCE_S, SERVICE_USER, shared_cluster
from netlab_machine import USERS

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


def test_no_number_is_used_again_before_the_agents_could_say_what_they_know(lab: Lab) -> None:
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b])
    running = cluster.submit("-m", "h2", "sleep 1000", user="alice", host=b)
    cluster.becomes(running, "RUN")
    cluster.until(lambda: cluster.field(running, "pids") != "-", "its processes are not told")
    pid = int(cluster.field(running, "pids").split()[0])
    cluster.kill(a, "master")
    for host in (a, b):  # as if the network were slower than who submits
        host.send(cluster.daemons[host.name, "agent"], signal.SIGSTOP)
    for path in a.path(FOLDERS.state_dir).iterdir():
        path.unlink()
    master = cluster.start_daemon(a, "master")
    done = cluster.run("gsub", "true", user="alice", host=a, check=False)
    assert done.returncode == 255 and "Job <" not in done.stdout, done
    assert "the store of this cluster is new, and no host has said hello yet" in done.stderr
    for host in (a, b):
        host.send(cluster.daemons[host.name, "agent"], signal.SIGCONT)
    assert master.wait(PATIENCE_S) == 255
    del cluster.daemons["h1", "master"]
    assert "was made anew, but the agent of h" in cluster.log(a, "master")
    # It stays refused, and the way on is the one that is named.
    assert cluster.start_daemon(a, "master").wait(PATIENCE_S) == 255
    del cluster.daemons["h1", "master"]
    a.run(["gadmin", "newstore", "--envdir", ENVDIR], user=SERVICE_USER, check=True)
    cluster.start_daemon(a, "master")
    cluster.until(lambda: set(cluster.states().values()) == {"ok"}, "the hosts do not become ok")
    assert cluster.submit("true", user="alice", host=a) > 1000 > running
    assert f"{running}.1" in cluster.run("gadmin", "orphans", user=SERVICE_USER).stdout
    assert b.run(["kill", "-0", str(pid)], check=False).returncode == 0, "the job goes on"


@pytest.mark.nightly
def test_what_runs_already_is_not_started_from_an_older_copy(lab: Lab) -> None:
    """Nor is it lost where the spool folder of its host was removed as well, while no agent was there."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_HOST_LOST": "600"})
    store = a.path(FOLDERS.state_dir) / "gsched.db"
    job = cluster.submit("-H", "-m", "h2+1 h1", "sleep 1000", user="alice", host=b)
    cluster.kill(a, "master", signal.SIGTERM)
    older = store.read_bytes()
    cluster.start_daemon(a, "master")
    cluster.until(lambda: set(cluster.states().values()) == {"ok"}, "the hosts do not become ok")
    cluster.run("gresume", str(job), user="alice", host=b)
    cluster.becomes(job, "RUN")
    cluster.until(lambda: cluster.field(job, "pids") != "-", "its processes are not told")
    assert cluster.field(job, "exec_host") == "h2"
    pid = int(cluster.field(job, "pids").split()[0])
    for host in (a, b):
        cluster.kill(host, "agent")
    cluster.kill(a, "master")
    for suffix in ("-wal", "-shm"):
        store.with_name(f"gsched.db{suffix}").unlink(missing_ok=True)
    store.write_bytes(older)
    for path in b.path(FOLDERS.spool_dir).iterdir():
        shutil.rmtree(path)
    assert cluster.start_daemon(a, "master").wait(PATIENCE_S) == 255
    del cluster.daemons["h1", "master"]
    # Whose store it is not may not begin a new one.
    refused = a.run(["gadmin", "newstore", "--envdir", ENVDIR], user="alice", check=False)
    assert refused.returncode == 255 and f"sudo -u {SERVICE_USER} gadmin newstore" in refused.stderr, refused
    said = a.run(["gadmin", "newstore", "--envdir", ENVDIR], user=SERVICE_USER, check=True).stdout
    assert "this is generation 2 now" in said and "it goes on with the " in said
    cluster.start_daemon(a, "master")
    cluster.start_daemon(a, "agent")
    cluster.host_becomes(a, "ok")
    cluster.run("gresume", str(job), user="alice", host=a)
    other = cluster.submit("-m", "h1", "sleep 1000", user="alice", host=a)
    assert (cluster.field(job, "stat"), cluster.field(other, "stat")) == ("PEND", "PEND")
    cluster.start_daemon(b, "agent")
    cluster.becomes(other, "RUN")
    assert cluster.field(job, "stat") == "PSUSP"
    assert f"{job}.1" in cluster.run("gadmin", "orphans", user=SERVICE_USER).stdout
    assert b.run(["kill", "-0", str(pid)], check=False).returncode == 0, "the job goes on"
    cluster.run("gadmin", "orphans", "--end", "all", user=SERVICE_USER)
    cluster.until(lambda: b.run(["kill", "-0", str(pid)], check=False).returncode != 0, "it is not ended")


@pytest.mark.nightly
def test_no_number_is_used_again_where_a_disk_was_put_back(lab: Lab) -> None:
    """The store and what lies beside it agree with each other; the agents know of more."""
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b])
    cluster.becomes(cluster.submit("true", user="alice"), "DONE")
    cluster.kill(a, "master", signal.SIGTERM)
    folder = a.path(FOLDERS.state_dir)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    cluster.start_daemon(a, "master")
    for _ in range(3):
        cluster.becomes(cluster.submit("true", user="alice"), "DONE")
    cluster.kill(a, "master")
    for path in folder.iterdir():
        path.unlink()
    for name, data in before.items():
        (folder / name).write_bytes(data)
        os.chown(folder / name, USERS[SERVICE_USER], USERS[SERVICE_USER])
    waiting = a.popen(["gsub", "true"], user="alice", stdout=subprocess.PIPE, text=True)
    cluster.start_daemon(a, "master")
    said, _ = waiting.communicate(timeout=PATIENCE_S)
    assert int(said.split("<")[1].split(">")[0]) > 1000, said
    assert "the store has lost events" in cluster.log(a, "master")
