"""The database's machine is lost and its standby is promoted, again and again: all is there, or what is missing is
noticed.
"""

from __future__ import annotations

import time

import pytest
from netlab import Host, Lab
from netlab_cluster import ENVDIR, PATIENCE_S, SERVICE_USER

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_losses import Losses
from netlab_masters import TwoMasters
from netlab_rounds import check_each_way, made_masters, of_each_way

from gsched.store.mark import MarkFile
from tests.support.asking import pause_s

pytestmark = [pytest.mark.system, pytest.mark.needs_root, pytest.mark.fault]


def test_nothing_is_lost_where_each_commit_waits_for_the_standby(lab: Lab, request: pytest.FixtureRequest) -> None:
    masters = made_masters(lab, has_replica=True)
    masters.database.wait_for_standby()
    check_each_way(masters, ("promote",), request.config.getoption("--fault-rounds"))


@pytest.mark.nightly
def test_masters_refuse_a_standby_that_lacks_what_was_acknowledged(lab: Lab, request: pytest.FixtureRequest) -> None:
    """Whichever of them would lead; an administrator decides, and no job number is used again."""
    masters = made_masters(lab, has_replica=True)
    losses = Losses(masters)
    assert masters.replica is not None
    for _ in range(of_each_way(request.config.getoption("--fault-rounds"))):
        newest = lose_what_was_acknowledged(masters, losses)
        masters.a.run(["gadmin", "newstore", "--envdir", ENVDIR], user=SERVICE_USER, check=True)
        for host in (masters.a, masters.b):
            masters.start(host)
        losses.settle()
        assert masters.cluster.submit("true", user="alice", host=masters.c) > newest
        masters.database.host.mend_to(masters.replica.host)
        losses.follow_again()


def lose_what_was_acknowledged(masters: TwoMasters, losses: Losses) -> int:
    """Promote a standby that could not follow; both masters end, and the newest job's number is returned."""
    cluster, c, replica = masters.cluster, masters.c, masters.replica
    assert replica is not None
    leader, other = losses.leader()
    replica.host.cut_from(masters.database.host)
    jobs = [cluster.submit("-m", "h3", "true", user="alice", host=c) for _ in range(3)]
    for job in jobs:
        cluster.until(lambda job=job: cluster.field(job, "stat", user="alice", host=c) == "DONE", f"{job} does not end")
    known = mark_of(leader)
    cluster.until(lambda: mark_of(other) >= known, "who waits does not hear what is acknowledged")
    losses.fail_over()
    for host in (masters.a, masters.b):
        refused = ends_refused(masters, host)
        assert "gadmin newstore" in refused, refused
    return max(jobs)


def mark_of(host: Host) -> int:
    """So many events the master of this host knows to be acknowledged."""
    mark = MarkFile(host.path("/var/lib/gsched")).mark
    assert mark is not None
    return mark.seq


def ends_refused(masters: TwoMasters, host: Host) -> str:
    """Start the master of this host until it refuses, as systemd does; what it says then."""
    until = time.monotonic() + PATIENCE_S
    while True:
        process = masters.cluster.daemons[host.name, "master"]
        while process.poll() is None:
            assert time.monotonic() < until, f"the master of {host} does not refuse: {masters.last_word(host)}"
            time.sleep(pause_s(0.0))
        last = masters.cluster.log(host, "master").splitlines()[-1]
        if process.returncode == 255 and "has lost events" in last:
            del masters.cluster.daemons[host.name, "master"]
            return last
        assert time.monotonic() < until, f"the master of {host} ends otherwise: {last}"
        masters.start(host)
