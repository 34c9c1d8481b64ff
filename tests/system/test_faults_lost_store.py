"""A store that is gone, empty, of another cluster or short of its log: the master refuses, and jobs go on."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.fault]
ONE_GPU = ("-R", "select[ngpus>0] rusage[ngpus_excl_p=1]")
UNTIL_GO = "while [ ! -e go ]; do sleep 0.01; done"


@pytest.fixture
def running(make_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """Two GPUs, on one of which job 1 runs until there is a file `go`; `kept` holds the store as it then was."""
    cluster = make_cluster("--sim-gpus", "2:exclusive_process")
    assert cluster.submit(*ONE_GPU, "-o", "/dev/null", f"{UNTIL_GO}; exit 3") == 1
    cluster.starts(1)
    yield cluster
    (cluster.folder / "go").touch()


def state(cluster: Cluster) -> Path:
    return cluster.folder / "state"


def remove(cluster: Cluster, *names: str) -> None:
    for name in names:
        (state(cluster) / name).unlink(missing_ok=True)


def sizes(cluster: Cluster) -> dict[str, int]:
    """Of all files but the lock and what SQLite makes to look."""
    files = [file for file in state(cluster).iterdir() if not file.name.endswith(("-shm", "-wal", ".lock"))]
    return {file.name: file.stat().st_size for file in files}


def refused(cluster: Cluster) -> str:
    """`gsched up` says in one line what is wrong and how to go on; nothing is made or changed."""
    before = sizes(cluster)
    done = cluster.run("gsched", "up", "--dir", str(cluster.folder), check=False)
    assert done.returncode == 255, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("gsched: the master cannot start: the store "), line
    assert "gsched up --new-store" in line and "gadmin orphans --end" in line
    assert sizes(cluster) == before
    return line


def runs(cluster: Cluster, pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def orphan_shown(cluster: Cluster, stat: str) -> list[str]:
    """The row of `gadmin orphans`."""
    lines: list[str] = []

    def is_there() -> bool:
        lines[:] = cluster.run("gadmin", "orphans").stdout.splitlines()
        return len(lines) == 2 and lines[1].split()[2] == stat

    cluster.until(is_there, "no attempt without a record is listed")
    assert lines[0].split() == ["HOST_NAME", "ATTEMPT", "STAT", "SLOTS", "GPUS"]
    return lines[1].split()


@pytest.mark.parametrize("is_empty", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_a_store_that_is_gone(running: Cluster, is_empty: bool):
    cluster = running
    pid = cluster.job(1).pid or 0
    held = cluster.job(1).allocation
    assert held is not None
    index = held.hosts[0].gpus[0].index
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    kept = cluster.folder / "kept"
    shutil.copytree(state(cluster), kept)
    remove(cluster, "gsched.db", "gsched.db-wal", "gsched.db-shm")
    if is_empty:
        (state(cluster) / "gsched.db").touch()
    assert " is missing or empty, but STORE.mark knows of one (" in refused(cluster)
    remove(cluster, "STORE.mark")  # the agent knows as well
    assert f" is missing or empty, but the agent of {cluster.host} knows of one (" in refused(cluster)
    assert runs(cluster, pid)
    # The file is put back: all is as it was.
    shutil.copy(kept / "gsched.db", state(cluster))
    cluster.up()
    cluster.becomes(1, "RUN")
    assert cluster.run("gadmin", "orphans").stdout == "No attempts without a record in the store\n"
    # It is really gone.
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    remove(cluster, "gsched.db", "gsched.db-wal", "gsched.db-shm")
    said = cluster.up("--new-store")
    assert "this is generation 2 now" in said and "it begins empty: all jobs that were in it are given up" in said
    assert orphan_shown(cluster, "runs") == [cluster.host, "1.1", "runs", "1", str(index)]
    told = " ".join(cluster.run("ghosts", "-l").stdout.split())
    assert f"run 1.1, of which the store has no record, goes on here and holds 1 slot, GPU {index}" in told
    first, second = (cluster.submit(*ONE_GPU, "-o", "/dev/null", UNTIL_GO) for _ in range(2))
    assert first > 1
    cluster.starts(first)
    assert "(1 wanted, 0 of 2 free on " in cluster.why_pending(second)  # nothing is started on the GPU of job 1
    assert runs(cluster, pid)
    assert cluster.run("gadmin", "orphans", "--end", "1.1").stdout == (
        f"Attempt <1.1 on {cluster.host}> is being ended\n"
    )
    cluster.starts(second)
    assert not runs(cluster, pid)
    assert cluster.run("gadmin", "orphans").stdout == "No attempts without a record in the store\n"
    assert "Traceback" not in cluster.logs()


def test_a_log_that_is_gone_after_a_kill(running: Cluster):
    cluster = running
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    cluster.up()
    pending = cluster.submit("-R", "rusage[ngpus_excl_p=2]", "true")
    pid = cluster.job(1).pid or 0
    cluster.kill("master", signal.SIGKILL)
    remove(cluster, "gsched.db-wal", "gsched.db-shm")
    line = refused(cluster)
    assert " has lost events " in line and "gsched.db-wal is missing" in line
    assert runs(cluster, pid)
    said = cluster.up("--new-store")
    assert "it goes on with the " in said
    cluster.becomes(1, "RUN")  # that one it knows
    assert cluster.job(1).pid == pid
    new = cluster.submit("true")
    assert new > pending  # whose number nobody else gets
    (cluster.folder / "go").touch()
    ended = cluster.wait(1)[0].result
    assert ended is not None and ended.exit_code == 3
    assert "Traceback" not in cluster.logs()


@pytest.mark.nightly
def test_a_copy_of_the_store_is_made_and_put_back(running: Cluster):
    """What was submitted after the copy was made is given up, what runs of it goes on, and no number is used again."""
    cluster = running
    pid = cluster.job(1).pid or 0
    copy = cluster.folder / "monday"
    said = cluster.run("gadmin", "backup", str(copy)).stdout
    assert said.startswith(f"{copy}: a copy of the store with its ") and copy.stat().st_mode & 0o077 == 0
    done = cluster.run("gadmin", "backup", str(copy), check=False)
    assert (done.returncode, done.stderr) == (255, f"gadmin: {copy}: File exists\n")
    later = cluster.submit(*ONE_GPU, "-o", "/dev/null", UNTIL_GO)
    later_pid = cluster.starts(later).pid or 0
    done = cluster.run("gadmin", "restore", str(copy), check=False)
    assert done.returncode == 255 and done.stderr.endswith(": stop the master first\n"), done
    cluster.kill("master", signal.SIGKILL)
    remove(cluster, "gsched.db", "gsched.db-wal", "gsched.db-shm", "STORE.mark")
    assert "`gadmin restore FILE`" in refused(cluster)
    done = cluster.run("gadmin", "restore", "/etc/passwd", check=False)
    assert done.returncode == 255 and done.stderr.startswith("gadmin: /etc/passwd cannot be read: "), done
    said = cluster.run("gadmin", "restore", str(copy)).stdout
    assert f"events of {copy}; what happened later is given up: this is generation 2 now\n" in said
    cluster.up()
    cluster.becomes(1, "RUN")
    assert cluster.job(1).pid == pid
    assert orphan_shown(cluster, "runs")[1] == f"{later}.1"
    assert cluster.submit("true") > later
    assert runs(cluster, later_pid)
    (cluster.folder / "go").touch()
    ended = cluster.wait(1)[0].result
    assert ended is not None and ended.exit_code == 3
    assert "Traceback" not in cluster.logs()


@pytest.mark.nightly
def test_a_log_that_is_gone_with_the_mark_after_a_kill(running: Cluster):
    cluster = running
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    cluster.up()
    pid = cluster.job(1).pid or 0
    for daemon in ("master", f"agent-{cluster.host}"):
        cluster.kill(daemon, signal.SIGKILL)
    remove(cluster, "gsched.db-wal", "gsched.db-shm", "STORE.mark")
    (cluster.folder / "spool" / cluster.host / "store").unlink()
    for _ in "12":
        assert ": it was not closed, and its write-ahead log " in refused(cluster)
    assert runs(cluster, pid)
    assert "it goes on with the " in cluster.up("--new-store")
    cluster.becomes(1, "RUN")
    assert cluster.job(1).pid == pid


@pytest.mark.nightly
def test_the_store_of_another_cluster(running: Cluster, make_cluster: Callable[..., Cluster]):
    cluster, other = running, make_cluster("--sim-gpus", "1")
    pid = cluster.job(1).pid or 0
    for each in (cluster, other):
        each.run("gsched", "down", "--dir", str(each.folder))
    shutil.copy(state(other) / "gsched.db", state(cluster) / "gsched.db")
    assert " is not the one that STORE.mark knows (" in refused(cluster)
    said = cluster.up("--new-store")
    assert "it begins empty" in said and "kept: " in said
    assert list(state(cluster).glob("gsched.db.lost-*"))
    assert orphan_shown(cluster, "runs")[1] == "1.1"
    # It is not among the jobs that --kill ends, and that is said.
    said = cluster.run("gsched", "down", "--dir", str(cluster.folder), "--kill").stdout
    assert said.startswith("runs that go on without a record in the store: 1; while the cluster is up, `gadmin orphans")
    assert runs(cluster, pid)
    cluster.up()
    assert orphan_shown(cluster, "runs")[1] == "1.1"
    # It ends by itself: how is kept until somebody wants to know no more.
    (cluster.folder / "go").touch()
    cluster.until(lambda: not runs(cluster, pid), "the job does not end")
    assert orphan_shown(cluster, "over") == [cluster.host, "1.1", "over", "0", "-"]
    attempts = cluster.folder / "spool" / cluster.host / "attempts"
    assert (attempts / "1.1").is_dir()
    cluster.run("gadmin", "orphans", "--end", "all")
    cluster.until(lambda: not (attempts / "1.1").exists(), "the attempt is not forgotten")


@pytest.mark.nightly
def test_who_has_nothing_to_renew_is_told_so(make_cluster: Callable[..., Cluster]):
    cluster = make_cluster()
    done = cluster.run("gsched", "up", "--dir", str(cluster.folder), "--new-store", check=False)
    assert (done.returncode, done.stderr) == (
        255,
        "gsched: the master runs: --new-store is for one whose store is lost (gsched down ends it)\n",
    )
    done = cluster.run("gadmin", "orphans", "--end", check=False)
    assert done.returncode == 255 and done.stderr.startswith("gadmin: say which: gadmin orphans --end all")
    done = cluster.run("gadmin", "orphans", "--end", "7.1", check=False)
    assert done.returncode == 255 and done.stderr.startswith("gadmin: 7.1: no attempt that is not in the store")
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    said = cluster.run("gadmin", "newstore").stdout
    assert said == f"the store {state(cluster)}/gsched.db is whole: nothing was changed\n"


@pytest.mark.nightly
def test_a_spool_folder_that_is_gone_with_all_daemons(running: Cluster):
    """The job that has no folder any more runs on, keeps its GPU, and its end is known."""
    cluster = running
    pid = cluster.job(1).pid or 0
    shutil.rmtree(cluster.folder / "spool" / cluster.host)
    for daemon in ("master", f"agent-{cluster.host}", "door"):
        cluster.kill(daemon, signal.SIGKILL)
    cluster.up()
    first, second = (
        cluster.submit(*ONE_GPU, "-o", "/dev/null", "while [ ! -e end ]; do sleep 0.01; done") for _ in "12"
    )
    cluster.starts(first)
    assert runs(cluster, pid) and cluster.job(1).state == "RUN"
    assert "(1 wanted, 0 of 2 free on " in cluster.why_pending(second)  # nothing is started on the GPU of job 1
    (cluster.folder / "go").touch()
    ended = cluster.wait(1)[0].result
    assert ended is not None and ended.exit_code == 3
    cluster.starts(second)
    assert not runs(cluster, pid)
    (cluster.folder / "end").touch()
    assert "Traceback" not in cluster.logs()


@pytest.mark.parametrize("is_supervised", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_a_spool_folder_and_a_store_that_are_gone(running: Cluster, is_supervised: bool):
    """Nothing but the processes is left: no GPU that the job may have is given to another one, and it is not ended."""
    cluster = running
    held, pid = cluster.job(1).allocation, cluster.job(1).pid or 0
    assert held is not None
    index = str(held.hosts[0].gpus[0].index)
    supervisor = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    if not is_supervised:
        os.kill(supervisor, signal.SIGKILL)
    shutil.rmtree(cluster.folder / "spool" / cluster.host)
    shutil.rmtree(state(cluster))
    cluster.up()
    assert orphan_shown(cluster, "runs") == [cluster.host, "1.1", "runs", "1", index if is_supervised else "-"]
    first, second = (cluster.submit(*ONE_GPU, "-o", "/dev/null", UNTIL_GO) for _ in range(2))
    assert first > 1
    if is_supervised:
        cluster.starts(first)
        assert "(1 wanted, 0 of 2 free on " in cluster.why_pending(second)
    else:
        assert "unrecorded(1.1)" in " ".join(cluster.run("ghosts", "-l").stdout.split())
        assert cluster.job(first).state == "PEND" and cluster.why_pending(first)
    assert runs(cluster, pid)
    (cluster.folder / "go").touch()
    for job_id in (first, second):
        assert cluster.wait(job_id)[0].state == "DONE"
    assert orphan_shown(cluster, "over")[1] == "1.1"
    assert "Traceback" not in cluster.logs()
