"""Several masters on one database: one leads, the others wait, and whatever becomes of the leader nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from netlab import Lab
from netlab_cluster import PATIENCE_S, SERVICE_USER

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_masters import Submissions, TwoMasters

from tests.support.postgresql_server import NoServer

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

BROKEN_EXIT = 70


@pytest.fixture
def masters(lab: Lab) -> Iterator[TwoMasters]:
    try:
        made = TwoMasters(lab)
    except NoServer as problem:
        pytest.skip(str(problem))
    yield made


def test_another_master_leads_when_one_is_killed(masters: TwoMasters) -> None:
    """Commands only wait, jobs go on, nothing is lost or started twice; who comes back waits for its turn."""
    cluster, a, b, c = masters.cluster, masters.a, masters.b, masters.c
    assert masters.leader() == "h1"
    held = cluster.submit("-m", "h3", "sleep 1000", user="alice", host=c)
    cluster.becomes(held, "RUN")
    with Submissions(cluster, c) as submissions:
        submissions.more(3)
        cluster.kill(a, "master")
        submissions.more(3)
        assert masters.leader() == "h2"
        cluster.start_daemon(a, "master")
        masters.waits(a)
        cluster.power_off(b)
        submissions.more(3)
    assert masters.leader() == "h1"
    numbers = submissions.numbers
    assert len(set(numbers)) == len(numbers)
    for number in numbers:
        cluster.until(
            lambda number=number: cluster.field(number, "stat", user="alice", host=c) == "DONE",
            f"job {number} is not done",
        )
        assert sum("Starting (Pid" in line for line in masters.events(number)) <= 1
    assert cluster.field(held, "stat", user="alice", host=c) == "RUN"
    assert sum("Starting (Pid" in line for line in masters.events(held)) == 1


def test_a_master_that_was_stopped_leads_no_more(masters: TwoMasters) -> None:
    """It is replaced when its lease is over, is heard by nobody when it goes on, and ends by itself."""
    cluster, a, c = masters.cluster, masters.a, masters.c
    stopped = cluster.daemons[a.name, "master"]
    before = cluster.submit("-m", "h3", "sleep 1000", user="alice", host=c)
    cluster.becomes(before, "RUN")
    a.send(stopped, signal.SIGSTOP)
    after = cluster.submit("true", user="alice", host=c)
    assert after > before and masters.leader() == "h2"
    a.send(stopped, signal.SIGCONT)
    assert stopped.wait(PATIENCE_S) == BROKEN_EXIT
    del cluster.daemons[a.name, "master"]
    said = cluster.log(a, "master")
    assert "the lease on the store" in said or "was taken over by" in said, said
    cluster.until(lambda: cluster.field(after, "stat", user="alice", host=c) == "DONE", "the job is not done")
    assert cluster.field(before, "stat", user="alice", host=c) == "RUN"


def test_an_administrator_hands_over(masters: TwoMasters) -> None:
    """From one to the other and back, under submissions; without another master that waits it is refused."""
    cluster, c = masters.cluster, masters.c
    refused = cluster.run("gadmin", "failover", "--to", "h3", user=SERVICE_USER, check=False)
    assert (refused.returncode, refused.stderr) == (255, "gadmin: h3 is no master: LSF_MASTER_LIST names h1, h2\n")
    assert cluster.run("gadmin", "failover", user="alice", host=c, check=False).returncode == 255
    with Submissions(cluster, c) as submissions:
        submissions.more(2)
        assert cluster.run("gadmin", "failover", user=SERVICE_USER).stdout == "the master on h2 leads\n"
        masters.waits(masters.a)
        submissions.more(2)
        assert cluster.run("gadmin", "failover", "--to", "h1", user=SERVICE_USER).stdout == "the master on h1 leads\n"
        submissions.more(2)
    waiting = cluster.daemons.pop((masters.b.name, "master"))
    masters.b.send(waiting, signal.SIGTERM)
    waiting.wait(PATIENCE_S)
    refused = cluster.run("gadmin", "failover", user=SERVICE_USER, check=False)
    assert (refused.returncode, refused.stderr) == (255, "gadmin: no master waits on h2\n")
    assert masters.leader() == "h1"


def test_a_master_that_is_told_to_end_while_it_waits_ends(masters: TwoMasters) -> None:
    waiting = masters.cluster.daemons.pop((masters.b.name, "master"))
    masters.b.send(waiting, signal.SIGTERM)
    assert waiting.wait(PATIENCE_S) == 0
    assert masters.leader() == "h1"


def test_who_is_no_master_does_not_wait(masters: TwoMasters) -> None:
    process = masters.cluster.start_daemon(masters.c, "master")
    del masters.cluster.daemons[masters.c.name, "master"]
    assert process.wait(PATIENCE_S) == 255
    assert "h3 is no master of cluster lab: LSF_MASTER_LIST names h1, h2" in masters.cluster.log(masters.c, "master")
