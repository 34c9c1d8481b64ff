"""`gsched top` in a shared cluster: users of a host that is not the master's, through its command server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from netlab import Lab
from netlab_cluster import SharedCluster, shared_cluster

from tests.support.terminal import Terminal

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


@pytest.fixture(scope="module")
def shared(module_lab: Lab) -> SharedCluster:
    """h1 has the master, h2 the users."""
    return shared_cluster(module_lab, [module_lab.host("h1"), module_lab.host("h2")], sim_gpus="2:exclusive_process")


@pytest.fixture
def top(shared: SharedCluster) -> Iterator[Callable[[str], Terminal]]:
    """`gsched top` of a user on h2."""
    made: list[Terminal] = []

    def start(user: str) -> Terminal:
        env = {"TERM": "xterm-256color", "NO_COLOR": "1"}
        made.append(
            Terminal(
                lambda end: shared.hosts[1].popen(
                    ["gsched", "top"], user=user, env=env, stdin=end, stdout=end, stderr=end
                )
            )
        )
        return made[-1]

    yield start
    for each in made:
        each.close()


def running_job(shared: SharedCluster, name: str) -> int:
    """Alice's, with one GPU of h1; it prints something."""
    job = shared.submit("-J", name, "-m", "h1", "-gpu", "num=1", "echo what alice prints; sleep 3000")
    shared.becomes(job, "RUN")
    return job


def test_its_owner_looks_at_a_job_and_kills_it(shared: SharedCluster, top: Callable[[str], Terminal]) -> None:
    job = running_job(shared, "watched")
    screen = top("alice")
    screen.until(b"3 free, 1 mine")
    screen.until(b"watched")
    screen.type(b"\r")
    screen.until(b"what alice prints")
    screen.type(b"k")
    screen.until(rb"Kill job %d of alice" % job)
    screen.type(b"y")
    shared.becomes(job, "EXIT")
    screen.type(b"q")
    assert screen.ends() == 0


def test_another_user_sees_it_and_no_more(shared: SharedCluster, top: Callable[[str], Terminal]) -> None:
    job = running_job(shared, "hers")
    screen = top("bob")
    screen.until(b"3 free, 1 others'")
    screen.until(b"hers")
    screen.type(b"\r")
    screen.until(b"Output")
    screen.until(b"(?i)permission")
    assert b"what alice prints" not in screen.text.replace(b"echo what alice prints", b"")
    screen.type(b"k")
    screen.until(rb"Kill job %d of alice" % job)
    screen.type(b"y")
    screen.until(b"User permission denied", is_new=True)
    assert shared.field(job, "stat") == "RUN"
    screen.type(b"q")
    assert screen.ends() == 0
    shared.run("gkill", str(job))
    shared.becomes(job, "EXIT")


def test_where_there_is_no_terminal(shared: SharedCluster) -> None:
    job = running_job(shared, "plain")
    shown = shared.run("gsched", "top", user="bob", host=shared.hosts[1]).stdout
    assert re.search(rf"^{job} +alice .* RUN .* plain$", shown, re.MULTILINE), shown
    assert re.search(rf"^h1 +ok .* alice +{job}$", shown, re.MULTILINE), shown
    shared.run("gkill", str(job))
