"""Jobs that are older than JOB_HISTORY_DAYS are taken away while the master runs, and whoever asks is told."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from live_cluster import Cluster

import gsched
from gsched.base.errors import LSF_FAILURE, NotFound

pytestmark = pytest.mark.system
PARAMS = "=Begin Parameters\nCLEAN_PERIOD = {}\nEnd Parameters\n"
AGE_S = 40 * 86_400


def grow_old(cluster: Cluster) -> None:
    """All that the store tells of happened so much earlier."""
    with closing(sqlite3.connect(cluster.folder / "state" / "gsched.db")) as database, database:
        database.execute("UPDATE checkpoint SET at = at - ?", (AGE_S,))
        database.execute("UPDATE event SET at = at - ?", (AGE_S,))
        database.execute(
            "UPDATE job SET submitted_at = submitted_at - ?, finished_at = finished_at - ?", (AGE_S, AGE_S)
        )


def has_forgotten_all(cluster: Cluster) -> bool:
    done = cluster.run("gjobs", "-a", "-u", "all", check=False)
    return done.returncode == LSF_FAILURE or not done.stdout


def test_old_jobs_go_and_who_asks_is_told(cluster: Cluster) -> None:
    cluster.configure(lsb_params=PARAMS.format(86400))
    old = [cluster.submit("-o", "/dev/null", "true") for _ in range(3)]
    cluster.wait(*old)
    cluster.configure(lsb_params=PARAMS.format(0))
    cluster.until(lambda: has_forgotten_all(cluster), "the jobs are still remembered")
    # Something else is what happened last: the event of the oldest checkpoint itself stays, and what it tells of.
    cluster.run("gadmin", "qclose", "normal")
    cluster.run("gadmin", "qopen", "normal")
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    grow_old(cluster)
    (cluster.conf / "lsb.params").write_text(PARAMS.format("86400\nJOB_HISTORY_DAYS = 30")[1:])
    cluster.up()
    new = cluster.submit("-o", "/dev/null", "true")
    cluster.wait(new)
    # A second checkpoint: the newest is never the oldest that is kept.
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    cluster.up()

    def is_gone(job_id: int) -> bool:
        return "No matching job" in cluster.run("ghist", str(job_id), check=False).stdout

    cluster.until(lambda: all(map(is_gone, old)), "the old jobs are still there")
    told = cluster.run("ghist", "-l", str(old[0]), check=False)
    assert "are no longer kept; ghist --archive DIR reads archives of them" in told.stderr
    with gsched.Cluster(cluster.conf) as python, pytest.raises(NotFound, match="are no longer kept"):
        python.job(old[0]).history()
    assert cluster.run("ghist", str(new)).returncode == 0
    assert cluster.submit("-o", "/dev/null", "true") > new
    assert "all is well" in cluster.run("gadmin", "check-store").stdout
    status = cluster.run("gadmin", "history", "status").stdout
    assert "JOB_HISTORY_DAYS=30: 0 jobs go next" in status and "is kept (event " in status
    assert "came back: the store takes" in cluster.run("gadmin", "history", "compact").stdout
