"""Several masters on one database: one leads, the others wait, and administrators decide. The tests share one lab.

What becomes of jobs when the leader is lost is in test_faults_masters.py.
"""

from __future__ import annotations

import pytest
from netlab import Lab
from netlab_cluster import PATIENCE_S, SERVICE_USER

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_masters import Submissions, TwoMasters

from tests.support.postgresql_server import NoServer

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


@pytest.fixture(scope="module")
def masters(module_lab: Lab) -> TwoMasters:
    """h1 leads, h2 waits; each test leaves it so."""
    try:
        return TwoMasters(module_lab)
    except NoServer as problem:
        pytest.skip(str(problem))


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
    masters.stop(masters.b)
    refused = cluster.run("gadmin", "failover", user=SERVICE_USER, check=False)
    assert (refused.returncode, refused.stderr) == (255, "gadmin: no master waits on h2\n")
    assert masters.leader() == "h1"
    masters.start_waiting(masters.b)


def test_a_master_that_is_told_to_end_while_it_waits_ends(masters: TwoMasters) -> None:
    waiting = masters.cluster.daemons[masters.b.name, "master"]
    masters.stop(masters.b)
    assert waiting.returncode == 0
    assert masters.leader() == "h1"
    masters.start_waiting(masters.b)


def test_who_is_no_master_does_not_wait(masters: TwoMasters) -> None:
    process = masters.cluster.start_daemon(masters.c, "master")
    del masters.cluster.daemons[masters.c.name, "master"]
    assert process.wait(PATIENCE_S) == 255
    assert "h3 is no master of cluster lab: LSF_MASTER_LIST names h1, h2" in masters.cluster.log(masters.c, "master")
