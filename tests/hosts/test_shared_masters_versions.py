"""Masters of two versions: from the older to the newer one while jobs run, and no way back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from netlab import Host, Lab
from netlab_cluster import PATIENCE_S, SERVICE_USER

import gsched

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

import time

from netlab_masters import TwoMasters
from recording_clients import Recorded

from gsched.store.tables.migrations import MIGRATIONS
from tests.support.postgresql_server import NoServer

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

NEWER = "/var/local/newer"
STEP = "\n\nMIGRATIONS.append(lambda connection: None)\n"


def install_newer(host: Host) -> dict[str, str]:
    """A gsched whose stores have one format more than this one's knows; the environment that chooses it."""
    target = host.path(NEWER) / "gsched"
    shutil.copytree(Path(gsched.__file__).parent, target)
    with (target / "store/tables/migrations.py").open("a") as source:
        source.write(STEP)
    return {"PYTHONPATH": NEWER}


def test_from_master_to_master_to_a_newer_version_and_not_back(lab: Lab) -> None:
    """Commands only wait; a master of the older version neither leads nor waits any more, and says why."""
    try:
        masters = TwoMasters(lab, sim_gpus="2")
    except NoServer as problem:
        pytest.skip(str(problem))
    cluster, a, b, c = masters.cluster, masters.a, masters.b, masters.c
    newer = {host.name: install_newer(host) for host in (a, b)}
    held = cluster.submit("-m", "h3", "sleep 100000", user="alice", host=c)
    cluster.becomes(held, "RUN")
    older = cluster.daemons[a.name, "master"]
    with Recorded(cluster, c) as clients:
        clients.more(2, since=time.monotonic())
        cluster.kill(b, "master")
        masters.start_waiting(b, newer[b.name])
        del cluster.daemons[a.name, "master"]  # it ends by itself
        assert cluster.run("gadmin", "failover", user=SERVICE_USER, host=a).stdout == "the master on h2 leads\n"
        assert older.wait(PATIENCE_S) != 0
        clients.more(2, since=time.monotonic())
        known = len(MIGRATIONS)
        refused = f"has format {known + 1}, made by a newer gsched; this one knows up to {known}\n"
        again = cluster.start_daemon(a, "master")
        del cluster.daemons[a.name, "master"]
        assert again.wait(PATIENCE_S) == 255
        assert cluster.log(a, "master").endswith(refused), cluster.log(a, "master")
        masters.start_waiting(a, newer[a.name])
        assert cluster.run("gadmin", "failover", user=SERVICE_USER, host=b).stdout == "the master on h1 leads\n"
        clients.more(2, since=time.monotonic())
    assert clients.check() >= 6
    assert cluster.field(held, "stat", user="alice", host=c) == "RUN"
    assert sum("Starting (Pid" in line for line in masters.events(held)) == 1
