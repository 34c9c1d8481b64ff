"""Months leave the store with real daemons: whoever is killed in between loses nothing, and files answer as it did."""

from __future__ import annotations

import getpass
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from archived_past import Past
from live_cluster import PATIENCE_S, Cluster

from gsched.app.archives.part_reading import stored_numbers
from gsched.base.errors import LSF_FAILURE
from gsched.master.archive.archive_manifest import Part, PartState, find_manifest

pytestmark = pytest.mark.system
GADMIN = "import sys; from gsched.app.entry import gadmin; gadmin()"


def jobs_of(past: Past) -> set[int]:
    return {past.failed, past.array, *past.elements, past.scripted, past.killed}


def stored(past: Past) -> set[int]:
    with closing(sqlite3.connect(past.live.folder / "state" / "gsched.db", timeout=60)) as store:
        return {number for (number,) in store.execute("SELECT job_id FROM job")} & jobs_of(past)


def parts(past: Past) -> tuple[Part, ...]:
    manifest = find_manifest(past.archive) if past.archive.is_dir() else None
    return manifest.parts if manifest is not None else ()


def is_whole(past: Past) -> bool:
    """No job is in neither."""
    archived = {number for part in parts(past) for number, _ in stored_numbers(past.archive, part)}
    return stored(past) | archived == jobs_of(past)


def begun(past: Past) -> subprocess.Popen[str]:
    """The command, which has compared its files."""
    words = [sys.executable, "-c", GADMIN, "history", "archive", past.before, str(past.archive)]
    env = {**past.live.env, "GSCHED_COMMAND_WAIT": str(PATIENCE_S)}
    process = subprocess.Popen(words, env=env, cwd=past.live.folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().endswith("as in the store\n")
    return process


def something_happens(cluster: Cluster) -> None:
    cluster.run("gadmin", "qclose", "normal")
    cluster.run("gadmin", "qopen", "normal")


def removed(past: Past) -> bool:
    """Whether all is gone, said once more."""
    past.live.run("gadmin", "history", "archive", past.before, str(past.archive))
    assert is_whole(past)
    return all(part.state is PartState.REMOVED for part in parts(past))


def check_what_is_said(past: Past, before: object) -> None:
    live = past.live
    assert stored(past) == set()
    assert past.answers("--archive", str(past.archive)) == before
    asked = live.run("ghist", "-l", str(past.failed), check=False)
    assert asked.returncode == LSF_FAILURE and "ghist --archive DIR reads archives of them" in asked.stderr
    assert "all is well" in live.run("gadmin", "check-store").stdout
    month, user = parts(past)[0].name, getpass.getuser()
    told = f"Jobs of <{month}> that an archive has leave the store by administrator <{user}>."
    assert told in live.run("gadmin", "mbdhist").stdout
    assert live.submit("-o", "/dev/null", "true") > past.killed


@pytest.mark.nightly
@pytest.mark.fault
def test_a_month_leaves_the_store_whoever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    past = Past(cluster, tmp_path)
    before = past.answers()
    command = begun(past)
    command.kill()
    command.communicate()
    assert is_whole(past)
    command = begun(past)
    cluster.kill("master")
    assert is_whole(past)
    cluster.up()
    command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0 and is_whole(past)
    cluster.until(lambda: removed(past), "jobs are still in the store")
    log = (cluster.folder / "log" / "audit.log").read_text()
    assert "remove archived" in log and parts(past)[0].jobs.sha256 in log
    check_what_is_said(past, before)
    again = cluster.run("gadmin", "history", "archive", past.before, str(past.archive)).stdout
    assert again.endswith(": 7 jobs, as they were written\n")


@pytest.mark.nightly
def test_without_a_master_the_command_removes_them_itself(cluster: Cluster, tmp_path: Path) -> None:
    past = Past(cluster, tmp_path)
    before = past.answers()
    # What the master says of hosts is in the archive from then on.
    cluster.run("gadmin", "history", "archive", "--keep", past.before, str(past.archive))
    assert stored(past) == jobs_of(past)
    something_happens(cluster)
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    cluster.up()
    something_happens(cluster)
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    said = cluster.run("gadmin", "history", "archive", past.before, str(past.archive)).stdout
    assert said.endswith(": 7 jobs are no longer in the store\n")
    cluster.up()
    check_what_is_said(past, before)
