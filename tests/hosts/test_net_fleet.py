"""Daemons of a shared cluster that nobody starts again: they restart themselves, and stay away when told to stop."""

from __future__ import annotations

import pytest
from netlab import Host, Lab
from netlab_cluster import SharedCluster, shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


def processes(host: Host, word: str) -> list[str]:
    """Ids of the daemons of this kind."""
    return host.run(["pgrep", "-f", f"(gsched|gsched.app.entry) {word}"]).stdout.split()


def said_hello(cluster: SharedCluster, name: str) -> int:
    return cluster.log(cluster.master_host, "master").count(f"agent of {name} said hello")


def test_an_agent_restarts_itself_and_ends_when_it_is_told(lab: Lab) -> None:
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b])
    job_id = cluster.submit("-m", "h2", "until [ -e go ]; do sleep 0.1; done")
    cluster.becomes(job_id, "RUN")
    before, hellos = processes(b, "agent"), said_hello(cluster, "h2")
    done = cluster.run("gadmin", "hrestart", "h2", user="root")
    assert done.stderr == "Restart slave batch daemon on <h2> ...... done\n"
    assert said_hello(cluster, "h2") == hellos + 1
    assert processes(b, "agent") == before, "the same process has begun anew"
    cluster.run("touch", "go", user="alice")
    cluster.becomes(job_id, "DONE")
    cluster.run("gadmin", "hshutdown", "h2", user="root")
    cluster.until(lambda: not processes(b, "agent"), "the agent does not end")
    away = "h2         agent   away"
    cluster.until(lambda: away in cluster.run("gadmin", "versions", user="alice").stdout, "the master does not say so")


def test_the_master_restarts_itself(lab: Lab) -> None:
    a = lab.host("h1")
    cluster = shared_cluster(lab, [a])
    before = processes(a, "master")
    denied = cluster.run("gadmin", "mbdrestart", "-f", user="alice", check=False)
    assert denied.returncode == 255 and "denied" in denied.stderr
    cluster.run("gadmin", "mbdrestart", "-f", user="root")
    cluster.until(lambda: cluster.log(a, "master").count("listens on") == 2, "the master is not back")
    assert processes(a, "master") == before
    cluster.until(lambda: cluster.states() == {"h1": "ok"}, "its host is not back")
