"""A cluster whose jobs and history are in PostgreSQL: moved there and back while a job runs, and everything killed."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_cluster import PATIENCE_S, Cluster

from gsched.model.jobs.job import FINISHED
from tests.support.needed_postgresql import needed_server

pytestmark = [pytest.mark.system, pytest.mark.fault, pytest.mark.needs_postgresql]
UNTIL_GO = "echo >> starts; while [ ! -e {go} ]; do sleep 0.01; done"


def setting(cluster: Cluster) -> str:
    lines = (cluster.conf / "lsf.conf").read_text().splitlines()
    return next((line for line in lines if line.startswith("GSCHED_STORE")), "")


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


@pytest.fixture
def own_server() -> Iterator[Any]:
    """A server that may be killed."""
    with needed_server() as server:
        yield server


def test_a_cluster_moves_and_loses_nothing(make_cluster: Callable[..., Cluster], own_server: Any) -> None:
    cluster, url = make_cluster("--sim-gpus", "2:exclusive_process"), own_server.new_url()
    longest = cluster.submit("-o", "/dev/null", UNTIL_GO.format(go="go"))
    pid = cluster.starts(longest).pid
    assert cluster.wait(cluster.submit("-o", "/dev/null", "exit 3"))[0].result is not None
    said = cluster.up("--store", url)
    assert "copied and compared: " in said and "kept: " in said
    assert setting(cluster) == f'GSCHED_STORE="{url}"'
    assert not (cluster.folder / "state" / "gsched.db").exists()
    assert cluster.becomes(longest, "RUN").pid == pid
    assert "the store is there already" in cluster.up("--store", url)
    assert "Exited with exit code 3" in cluster.run("ghist", "-l", "2").stdout

    assert cluster.run("gadmin", "check-store").stdout.endswith(" events, all is well\n")
    assert "a copy of the store with its " in cluster.run("gadmin", "backup", str(cluster.folder / "copy")).stdout

    # The master is killed, its sessions are ended, and so is the server.
    waiting = cluster.submit("-o", "/dev/null", "-w", f"done({longest})", "true")
    cluster.kill("master")
    cluster.up()
    assert cluster.becomes(longest, "RUN").pid == pid
    own_server.end_sessions(url)
    third = cluster.submit("-o", "/dev/null", "echo >> starts")
    assert cluster.wait(third)[0].state == "DONE"
    own_server.kill()
    while_away = asking(cluster, "gsub", "-o", "/dev/null", "echo >> starts")
    cluster.until(
        lambda: (
            "cannot be reached" in cluster.run("gsched", "status", "--dir", str(cluster.folder), check=False).stdout
        ),
        "nobody notices",
    )
    refused = cluster.run("gsub", "true", check=False)
    assert refused.returncode == 255 and "nothing was changed, try again later" in refused.stderr
    assert f"{longest} " in cluster.run("gjobs").stdout
    asked = cluster.run("ghist", "-l", "2", check=False)
    assert asked.returncode == 255 and len(asked.stderr.splitlines()) == 1
    (cluster.folder / "go").touch()  # it ends while nothing can be stored
    own_server.start()
    out, _ = while_away.communicate(timeout=PATIENCE_S)
    assert "is submitted" in out
    done = cluster.wait(longest, waiting, third + 1)
    assert [job.state for job in done] == ["DONE"] * 3 and [job.attempt for job in done] == [1] * 3
    assert starts(cluster.folder) == 3

    # And back into a file.
    assert "the database that had the store is left as it is" in cluster.up("--store", "file")
    assert setting(cluster) == ""
    again = cluster.submit("-o", "/dev/null", "true")
    assert again > third + 1 and cluster.wait(again)[0].state == "DONE"
    assert "Exited with exit code 3" in cluster.run("ghist", "-l", "2").stdout
    assert "Traceback" not in cluster.logs()


def asking(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, env=cluster.env, cwd=cluster.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.nightly
def test_submissions_go_on_while_everything_is_killed(make_cluster: Callable[..., Cluster], own_server: Any) -> None:
    cluster, url = make_cluster("--sim-gpus", "0"), own_server.new_url()
    cluster.up("--store", url)
    acknowledged: list[int] = []
    stop = threading.Event()

    def submit() -> None:
        while not stop.is_set():
            done = cluster.run("gsub", "-o", "/dev/null", "echo $LSB_JOBID >> starts", check=False)
            if done.returncode == 0:
                acknowledged.append(int(done.stdout.partition("<")[2].partition(">")[0]))

    def more() -> None:
        before = len(acknowledged)
        cluster.until(lambda: len(acknowledged) > before + 3, "nothing is acknowledged")

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        for _ in range(2):
            more()
            own_server.end_sessions(url)
            more()
            cluster.kill("master")
            cluster.up()
            more()
            own_server.kill()
            own_server.start()
            more()
    finally:
        stop.set()
        thread.join()
    ended = cluster.wait(*acknowledged)
    assert all(job.state in FINISHED and job.attempt == 1 for job in ended)
    ran = [int(line) for line in (cluster.folder / "starts").read_text().split()]
    assert len(ran) == len(set(ran)), "none is started twice"
    assert set(acknowledged) <= set(ran)
    assert len(acknowledged) == len(set(acknowledged))


@pytest.mark.nightly
def test_an_order_waits_for_what_the_server_does_not_tell(
    make_cluster: Callable[..., Cluster], own_server: Any
) -> None:
    """The script of a job that starts cannot be read: first because a statement hangs, then because nobody answers."""
    url = own_server.new_url()
    cluster = make_cluster("--sim-gpus", "0", "--store", url)
    held = cluster.submit("-H", "-o", "/dev/null", "echo >> starts")
    cluster.kill("master")
    cluster.up()  # now it is in nobody's memory
    with contextlib.suppress(psycopg_error()), own_server.admin() as locking, locking.transaction():
        user = url.partition("//")[2].partition("@")[0]
        locking.execute(f"LOCK TABLE {user}.blob IN ACCESS EXCLUSIVE MODE")
        cluster.run("gresume", str(held))
        cluster.until(lambda: own_server.waiting(url) == ["gsched reader"], "nothing is read")
        assert f"{held} " in cluster.run("gjobs").stdout, "the others are served"
        own_server.kill()
    own_server.start()
    ended = cluster.wait(held)[0]
    assert (ended.state, ended.attempt) == ("DONE", 1)
    assert starts(cluster.folder) == 1
    assert "Traceback" not in cluster.logs()


def psycopg_error() -> type[Exception]:
    """What is raised where a session was ended."""
    return pytest.importorskip("psycopg").OperationalError  # type: ignore[no-any-return]


@pytest.mark.nightly
def test_a_move_that_fails_leaves_the_cluster_as_it_was(make_cluster: Callable[..., Cluster], own_server: Any) -> None:
    cluster, url = make_cluster("--sim-gpus", "0"), own_server.new_url()
    job = cluster.submit("-o", "/dev/null", "true")
    cluster.wait(job)
    with own_server.admin() as connection:
        user = url.partition("//")[2].partition("@")[0]
        connection.execute(f"ALTER ROLE {user} SET synchronous_commit = off")
    for wanted, why in (
        (url, "has synchronous_commit = off"),
        (url.replace("/tests?", "/none?"), 'database "none" does not exist'),
        ("postgresql://g:s3cret@db1/x", "holds a password"),
        ("sqlite:///x", "or `file`"),
    ):
        done = cluster.run("gsched", "up", "--dir", str(cluster.folder), "--store", wanted, check=False)
        assert done.returncode == 255 and why in done.stderr, done
        assert len(done.stderr.splitlines()) == 1 and "s3cret" not in done.stderr
        assert setting(cluster) == ""
        assert cluster.job(job).state == "DONE"
    busy = cluster.run("gadmin", "store-copy", str(cluster.folder / "state" / "gsched.db"), url, check=False)
    assert busy.returncode == 255 and "is in use by process" in busy.stderr


@pytest.mark.nightly
def test_a_backup_is_put_into_an_empty_database(make_cluster: Callable[..., Cluster], own_server: Any) -> None:
    first, second = own_server.new_url(), own_server.new_url()
    cluster = make_cluster("--sim-gpus", "0", "--store", first)
    cluster.wait(cluster.submit("-o", "/dev/null", "true"))
    copy = str(cluster.folder / "copy")
    cluster.run("gadmin", "backup", copy)
    later = cluster.submit("-o", "/dev/null", UNTIL_GO.format(go="go"))
    cluster.starts(later)
    busy = cluster.run("gadmin", "restore", copy, check=False)
    assert busy.returncode == 255 and "is in use by process" in busy.stderr
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    full = cluster.run("gadmin", "restore", copy, check=False)
    assert full.returncode == 255 and "there is a store already" in full.stderr
    conf = cluster.conf / "lsf.conf"
    conf.write_text(conf.read_text().replace(first, second))
    said = cluster.run("gadmin", "restore", copy).stdout
    assert "what happened later is given up: this is generation 2 now" in said
    cluster.up()
    cluster.until(lambda: f"{later}.1 " in cluster.run("gadmin", "orphans").stdout, "the job is not set aside")
    assert cluster.job(1).state == "DONE"
    assert cluster.submit("-o", "/dev/null", "true") > later, "no number is given twice"
    (cluster.folder / "go").touch()
    conf.write_text(conf.read_text().replace(second, first))
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    old = cluster.run("gsched", "up", "--dir", str(cluster.folder), check=False)
    assert old.returncode == 255 and "is of generation 1, but STORE.mark knows of generation 2" in old.stderr
    conf.write_text(conf.read_text().replace(first, second))
