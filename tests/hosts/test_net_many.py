"""A hundred agents come back at once after their master was killed; each has a connection and a certificate."""

from __future__ import annotations

import subprocess

import pytest
from netlab import Lab
from netlab_cluster import ENVDIR, shared_cluster
from netlab_machine import REPOSITORY

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

MANY = 100


def test_many_agents_come_back_at_once(lab: Lab) -> None:
    a, crowd = lab.host("h1"), lab.host("h2")
    names = [f"v{number:03}" for number in range(MANY)]
    cluster = shared_cluster(lab, [a, crowd], others=names, start=False)
    for path in a.path(f"{ENVDIR}/tls").glob("v*"):
        copy = crowd.path(f"{ENVDIR}/tls/{path.name}")
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o600)
    cluster.start_daemon(a, "master")
    cluster.start_daemon(a, "door")
    program = str(REPOSITORY / "bench" / "virtual_agents.py")
    with crowd.path("/var/log/gsched/agents.log").open("wb") as log:
        words = ["python", program, ENVDIR, "--address", "h1", "--gpus", "0", *names]
        crowd.popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def are_back() -> bool:
        states = cluster.states()
        return all(states.get(name) == "ok" for name in names)

    cluster.until(are_back, "the agents do not come")
    array = cluster.submit("-J", f"x[1-{2 * MANY}]", "true")
    cluster.kill(a, "master")
    cluster.start_daemon(a, "master")
    cluster.until(lambda: cluster.log(a, "master").count("listens on") >= 2, "the master does not start")
    cluster.until(are_back, "not all agents have come back")

    def done() -> int:
        *_, finished, _run, _exit, _ssusp, _ususp, _psusp = cluster.run("gjobs", "-A", str(array)).stdout.split()
        return int(finished)

    cluster.until(lambda: done() == 2 * MANY, "jobs are left")
