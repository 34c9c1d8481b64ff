"""Draining hosts and queues, and versions of daemons, on a private cluster of two hosts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_peers import FakeAgent
from live_cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--hosts", "a,b", "--sim-gpus", "1:shared")


def held(cluster: Cluster, folder: Path, *options: str) -> int:
    """A job that runs until the folder has `end`."""
    job = cluster.submit(*options, f"until test -e {folder}/end; do sleep 0.05; done")
    cluster.starts(job)
    return job


def draining(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["gadmin", "drain", "--wait", *words], env=cluster.env, stdout=subprocess.PIPE, text=True)


def test_a_host_is_drained(cluster: Cluster, tmp_path: Path) -> None:
    job = held(cluster, tmp_path, "-m", "a")
    shown = cluster.run("gadmin", "drain", "a", "-C", "new fans").stdout
    assert shown == f"host a is closed; 1 job is left: {job}\n"
    assert "new fans" in cluster.run("ghosts", "-l", "a").stdout
    assert cluster.run("gadmin", "drain", "a", "--limit", "0.2", check=False).returncode == 1
    with draining(cluster, "a") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == shown
        (tmp_path / "end").touch()
        assert process.stdout.readline() == "host a is drained\n"
        assert process.wait(PATIENCE_S) == 0
    assert cluster.state(job) == "DONE"
    cluster.run("gadmin", "hopen", "a")


def test_a_host_is_emptied_of_what_can_run_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    saves = f"trap 'touch {tmp_path}/saved; exit 99' TERM; [ -e {tmp_path}/saved ] && exit 0; touch {tmp_path}/begun; "
    saves += "while true; do sleep 0.1; done"
    saving = cluster.submit("-m", "a b", "--signal", "TERM@60", saves)
    cluster.until((tmp_path / "begun").exists, "it does not begin")
    allocation = cluster.job(saving).allocation
    assert allocation is not None
    host = allocation.first_host
    other = held(cluster, tmp_path, "-m", host)
    said = cluster.run("gadmin", "drain", host, "--requeue", "--grace", "600", "-C", "new fans").stdout.splitlines()
    assert re.fullmatch(rf"job {saving} on {host} has until .* to save its state, and is requeued", said[0])
    assert said[1] == f"job {other} on {host} runs on: it cannot be run again (-r, --restart-on drain, --signal)"
    (view,) = cluster.wait(saving)
    assert view.state == "DONE" and view.allocation is not None and view.allocation.first_host != host
    assert f"Pending: host {host} is drained by" in " ".join(cluster.run("ghist", "-UF", str(saving)).stdout.split())
    (tmp_path / "end").touch()
    cluster.wait(other)
    cluster.run("gadmin", "hopen", host)


@pytest.mark.parametrize("words", [("--requeue", "-q", "night"), ("a", "--grace", "5"), ("--grace", "0", "--requeue")])
def test_a_wrong_way_to_drain_is_refused(cluster: Cluster, words: tuple[str, ...]) -> None:
    done = cluster.run("gadmin", "drain", *words, check=False)
    assert done.returncode and ("--grace" in done.stderr or "--requeue" in done.stderr), done


def test_a_queue_is_drained_of_what_it_has(cluster: Cluster, tmp_path: Path) -> None:
    """Pending jobs are left as well: they start though the queue takes no new ones."""
    running = held(cluster, tmp_path, "-q", "night", "-m", "b")
    waiting = cluster.submit("-q", "night", "-w", f"done({running})", "true")
    with draining(cluster, "-q", "night") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"queue night is closed; 2 jobs are left: {running} {waiting}\n"
        assert cluster.run("gsub", "-q", "night", "true", check=False).returncode == 255
        (tmp_path / "end").touch()
        assert process.stdout.read().splitlines()[-1] == "queue night is drained"
        assert process.wait(PATIENCE_S) == 0
    assert cluster.state(waiting) == "DONE"
    cluster.run("gadmin", "qopen", "night")


def test_what_cannot_be_drained(cluster: Cluster) -> None:
    for words in (("nosuch",), ("-q", "nosuch")):
        done = cluster.run("gadmin", "drain", *words, check=False)
        assert done.returncode == 255 and "nosuch" in done.stderr, done


def test_versions_and_an_agent_of_another_protocol(cluster: Cluster) -> None:
    shown = cluster.run("gadmin", "versions").stdout
    assert re.findall(r"^(\S+) +(\S+) +connected +0\.1\.0 ", shown, re.M) == [
        ("a", "master"),
        ("a", "agent"),
        ("b", "agent"),
    ]
    cluster.run("gadmin", "hshutdown", "b")
    with FakeAgent(cluster, "b") as agent:
        agent.hello(protocol=99, version="9.9")
        refusal = agent.wait(lambda message: message.refusal.text).refusal.text
        done = cluster.run("gadmin", "versions", check=False)
        folded = cluster.run("ghosts", "-l", "b").stdout
        assert "".join(refusal.split()) in "".join(folded.split())
    assert done.returncode == 1
    assert re.search(r"^b +agent +refused +9\.9 +99 ", done.stdout, re.M), done.stdout
    assert refusal in done.stdout and "install the same version on both" in refusal
    assert "mixed versions: 0.1.0, 9.9" in done.stdout
    cluster.run("gadmin", "hstartup", "b")
    cluster.until(lambda: cluster.run("gadmin", "versions", check=False).returncode == 0, "b is not back")
