"""The folder of the store is gone as a whole: on the master's host nothing knows of it, on the others the agents do."""

from __future__ import annotations

import signal

import pytest
from netlab import Lab
from netlab_cluster import ENVDIR, FOLDERS, PATIENCE_S, SERVICE_USER, shared_cluster

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
