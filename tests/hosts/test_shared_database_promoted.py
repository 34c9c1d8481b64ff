"""The database's machine is lost and its standby is promoted: all is there, or what is missing is noticed."""

from __future__ import annotations

import time

import pytest
from netlab import Host, Lab
from netlab_cluster import ENVDIR, PATIENCE_S, SERVICE_USER

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_losses import Losses
from netlab_masters import TwoMasters
from recording_clients import Recorded

from gsched.store.mark import MarkFile
from tests.support.asking import pause_s
from tests.support.postgresql_server import NoServer

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


def masters_of(lab: Lab) -> TwoMasters:
    try:
        return TwoMasters(lab, sim_gpus="2", has_replica=True)
    except NoServer as problem:
        pytest.skip(str(problem))


def test_nothing_is_lost_where_each_commit_waits_for_the_standby(lab: Lab) -> None:
    masters = masters_of(lab)
    assert masters.replica is not None
    masters.database.admin("ALTER SYSTEM SET synchronous_standby_names = '*'")
    masters.database.admin("SELECT pg_reload_conf()")
    with Recorded(masters.cluster, masters.c) as clients:
        clients.more(5, since=time.monotonic())
        began = time.monotonic()
        masters.database.host.power_off()
        masters.replica.promote()
        clients.more(3, since=time.monotonic())
        Losses(masters).settle()
        print(f"promoted: {clients.outage_s(began):.1f} s without an acknowledged submission")
    assert clients.check() >= 8


def test_masters_refuse_a_standby_that_lacks_what_was_acknowledged(lab: Lab) -> None:
    """Whichever of them would lead; an administrator decides, and no job number is used again."""
    masters = masters_of(lab)
    cluster, c, replica = masters.cluster, masters.c, masters.replica
    assert replica is not None
    replica.host.cut_from(masters.database.host)
    jobs = [cluster.submit("-m", "h3", "true", user="alice", host=c) for _ in range(3)]
    for job in jobs:
        cluster.until(lambda job=job: cluster.field(job, "stat", user="alice", host=c) == "DONE", f"{job} does not end")
    known = mark_of(masters.a)
    cluster.until(lambda: mark_of(masters.b) >= known, "who waits does not hear what is acknowledged")
    masters.database.host.power_off()
    replica.promote()
    for host in (masters.a, masters.b):
        refused = ends_refused(masters, host)
        assert "gadmin newstore" in refused, refused
    masters.a.run(["gadmin", "newstore", "--envdir", ENVDIR], user=SERVICE_USER, check=True)
    cluster.start_daemon(masters.a, "master")
    assert cluster.submit("true", user="alice", host=c) > max(jobs)


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
        masters.cluster.start_daemon(host, "master")
