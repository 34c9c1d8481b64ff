"""A disk without room, a record that cannot be read: the rest goes on, and nothing that was acknowledged is lost."""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fault_tools import (
    AcknowledgedJobs,
    end_of,
    kill_and_wait,
    kill_everything,
    lent,
    settings,
    state_of,
    submission,
    supervisor_of,
)
from live_cluster import PATIENCE_S, Cluster

from gsched.app.clusters import daemons
from gsched.app.clusters.private_home import Home

pytestmark = [pytest.mark.system, pytest.mark.fault]
UNTIL_GO = "while [ ! -e go ]; do sleep 0.01; done"
ONE_GPU = ("-R", "select[ngpus>0] rusage[ngpus_excl_p=1]")
STUCK = "the master cannot store anything now ("


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster("--sim-gpus", "4:exclusive_process")
    settings(cluster, GSCHED_HOST_LOST=120)  # no host is lost because an agent takes its time to come back
    return cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    with lent(shared):
        yield shared


@contextlib.contextmanager
def no_room(cluster: Cluster) -> Iterator[None]:
    """The master can make no file larger than a page inside the block: what it writes falls short."""
    pid = cluster.pid("master")
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_without_room_commands_are_refused_queries_answered_and_work_goes_on_afterwards(cluster: Cluster):
    acknowledged = AcknowledgedJobs(cluster)
    first = cluster.submit("-o", "/dev/null", acknowledged.command(("exit", 3), UNTIL_GO))
    acknowledged.expected[first] = ("exit", 3)
    cluster.until(lambda: cluster.job(first).started_at, "the job did not start")
    with no_room(cluster):
        stuck = subprocess.Popen(
            ["gsub", "-o", "/dev/null", acknowledged.command(("exit", 4))],
            env=cluster.env,
            cwd=cluster.folder,
            text=True,
            stdout=subprocess.PIPE,
        )
        with cluster.client() as client:
            cluster.until(lambda: client.cluster().store_problem, "the master does not notice")
        for words in (["gsub", "true"], ["gkill", str(first)], ["gstop", str(first)], ["gadmin", "hclose"]):
            done = cluster.run(*words, check=False)
            assert done.returncode == 255, done
            assert STUCK in done.stderr
            assert len(done.stderr.splitlines()) == 1, done.stderr
        assert state_of(cluster, first) == "RUN"
        assert str(first) in cluster.run("gjobs", "-a").stdout
        cluster.run("ghosts")
        cluster.run("ghist", "-l", str(first))
        status = cluster.run("gsched", "status", "--dir", str(cluster.folder)).stdout
        assert "attention: the store" in status
        (cluster.folder / "go").touch()
        # It has ended, and its agent has said so; the master cannot note it yet.
        attempt = cluster.folder / "spool" / cluster.host / "attempts" / f"{first}.1"
        cluster.until((attempt / "status").exists, "the job did not end")
        assert stuck.poll() is None
        assert state_of(cluster, first) == "RUN"
    out, _ = stuck.communicate(timeout=PATIENCE_S)
    acknowledged.expected[int(out.split("<")[1].split(">")[0])] = ("exit", 4)
    acknowledged.wait()
    acknowledged.expected[cluster.submit("-o", "/dev/null", acknowledged.command(("exit", 0)))] = ("exit", 0)
    acknowledged.wait()
    acknowledged.check()
    assert "Traceback" not in cluster.logs()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_master_that_ends_without_room_goes_on_where_it_was(cluster: Cluster, number: int):
    job_id = cluster.submit("-o", "/dev/null", f"{UNTIL_GO}; exit 3")
    cluster.until(lambda: cluster.job(job_id).started_at, "the job did not start")
    with no_room(cluster):
        (cluster.folder / "go").touch()
        with cluster.client() as client:
            cluster.until(lambda: client.cluster().store_problem, "the master does not notice")
        cluster.kill("master", number)
        cluster.up()
        assert end_of(cluster.wait(job_id)[0]) == ("exit", 3)
    assert "Traceback" not in cluster.logs()


@pytest.fixture
def on_small_disk(make_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A cluster with its state on a file system of 40 MiB of its own."""
    cluster = make_cluster()
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    state = cluster.folder / "state"
    kept = cluster.folder / "kept"
    shutil.copytree(state, kept)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs", str(state)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    shutil.copytree(kept, state, dirs_exist_ok=True)
    cluster.up()
    yield cluster
    cluster.down()
    subprocess.run(["umount", "-l", str(state)], check=True)


@pytest.mark.nightly
@pytest.mark.needs_root
def test_a_disk_that_fills_up(on_small_disk: Cluster):
    cluster = on_small_disk
    acknowledged = AcknowledgedJobs(cluster)
    acknowledged.expected[cluster.submit("-o", "/dev/null", acknowledged.command(("exit", 3), UNTIL_GO))] = ("exit", 3)
    cluster.until(lambda: cluster.job(1).started_at, "the job did not start")
    ballast = cluster.folder / "state" / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    done = cluster.run("gsub", "true", check=False)
    assert done.returncode == 255
    assert STUCK in done.stderr
    assert "is full" in done.stderr
    assert state_of(cluster, 1) == "RUN"
    (cluster.folder / "go").touch()
    with cluster.client() as client:
        cluster.until(lambda: client.cluster().store_problem, "the master does not notice that its disk is full")
    cluster.kill("master")
    cluster.up()  # on a full disk: it replays and answers, and the room that was kept may be enough for the job's end
    assert state_of(cluster, 1) in ("RUN", "EXIT")
    ballast.unlink()
    cluster.wait(1)
    acknowledged.expected[cluster.submit("-o", "/dev/null", acknowledged.command(("exit", 0)))] = ("exit", 0)
    acknowledged.wait()
    acknowledged.check()


@pytest.fixture
def alone_on_a_disk(folder: Path) -> Iterator[Cluster]:
    """A cluster with all of its files on a file system of 60 MiB of its own."""
    cluster = Cluster(folder / "disk")
    words = ["mount", "-t", "tmpfs", "-o", "size=60m,mode=0700", "tmpfs", str(cluster.folder)]
    mounted = subprocess.run(words, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    cluster.up()
    yield cluster
    cluster.down()
    subprocess.run(["umount", "-l", str(cluster.folder)], check=True)


@pytest.mark.needs_root
def test_a_disk_that_fills_up_while_the_master_is_down(alone_on_a_disk: Cluster):
    cluster = alone_on_a_disk
    job_id = cluster.submit("-o", "/dev/null", f"{UNTIL_GO}; exit 3")
    pid = cluster.starts(job_id).pid
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    ballast = cluster.folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    cluster.up()
    cluster.becomes(job_id, "RUN")
    assert cluster.job(job_id).pid == pid
    assert str(job_id) in cluster.run("gjobs", "-a").stdout
    cluster.run("ghist", "-l", str(job_id))
    cluster.run("ghosts")
    done = cluster.run("gsub", "true", check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (255, 1), done
    assert STUCK in done.stderr and "is full" in done.stderr
    full = f"attention: the disk of {cluster.folder}/state is full"
    assert full in cluster.run("gsched", "status", "--dir", str(cluster.folder)).stdout.splitlines()
    ballast.unlink()
    after = cluster.submit("-o", "/dev/null", "exit 4")
    (cluster.folder / "go").touch()
    assert [end_of(each) for each in cluster.wait(job_id, after)] == [("exit", 3), ("exit", 4)]
    assert "Traceback" not in cluster.logs()


@pytest.mark.needs_root
def test_a_disk_that_is_too_full_to_start_is_said_first(alone_on_a_disk: Cluster):
    """Where no room was kept either: one line with the reason, without what the log held before."""
    cluster = alone_on_a_disk
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    (cluster.folder / "state" / "STORE.reserve").unlink()
    ballast = cluster.folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    done = cluster.run("gsched", "up", "--dir", str(cluster.folder), check=False)
    assert done.returncode == 255
    (line,) = done.stderr.splitlines()
    full = f"the disk of {cluster.folder}/state is full"
    assert line.startswith(f"gsched: the master cannot start: {full}: the store ") and "cannot be written now" in line
    ballast.unlink()
    cluster.up()
    cluster.submit("true")


# -- a record that cannot be read -----------------------------------------------------------------------------------


def spoil(cluster: Cluster, job_id: int, kind: str) -> None:
    """Make a stored event unreadable."""
    with contextlib.closing(sqlite3.connect(cluster.folder / "state" / "gsched.db")) as store:
        changed = store.execute(
            "UPDATE event SET payload = 'rubbish' WHERE job_id = ? AND kind = ?", (job_id, kind)
        ).rowcount
        store.commit()
    assert changed == 1


def start_master_alone(cluster: Cluster) -> None:
    home = Home(cluster.folder, cluster.conf)
    log = cluster.folder / "log" / "master.log"
    daemons.spawn(["master", "--envdir", str(home.conf)], log)
    cluster.until(lambda: "answers" if _answers(cluster) else "", "the master does not answer")


def _answers(cluster: Cluster) -> bool:
    return cluster.run("gjobs", "-a", check=False, GSCHED_COMMAND_WAIT="10").returncode == 0


def running(cluster: Cluster, ids: list[int]) -> int:
    return sum(bool(cluster.job(job_id).started_at) for job_id in ids)


@pytest.mark.parametrize(
    "kind",
    ["job_started", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("job_dispatched", "job_submitted"))],
)
def test_an_unreadable_record_sets_its_job_aside(cluster: Cluster, kind: str):
    bad, good = (cluster.submit("-o", "/dev/null", *ONE_GPU, f"{UNTIL_GO}; exit 3") for _ in range(2))
    cluster.until(lambda: running(cluster, [bad, good]) == 2, "the jobs did not start")
    kill_everything(cluster)
    spoil(cluster, bad, kind)
    start_master_alone(cluster)
    status = cluster.run("gsched", "status", "--dir", str(cluster.folder), check=False).stdout
    assert f"attention: Job <{bad}>: " in status
    done = cluster.run("gkill", str(bad), check=False)
    assert done.returncode == 255
    assert "set aside" in done.stderr + done.stdout
    ids = [cluster.submit("-o", "/dev/null", *ONE_GPU, "while [ ! -e end ]; do sleep 0.01; done") for _ in range(3)]
    cluster.up()
    # Its agent still runs it: its GPU stays taken, so two of the three get one.
    cluster.until(lambda: running(cluster, ids) == 2, "the free GPUs are not given")
    assert cluster.job(ids[2]).pending_reasons
    assert state_of(cluster, good) == "RUN"
    (cluster.folder / "go").touch()
    assert end_of(cluster.wait(good)[0]) == ("exit", 3)
    cluster.until(lambda: running(cluster, ids) == 3, "the GPU of the job that ended is not free")
    (cluster.folder / "end").touch()
    cluster.wait(*ids)
    assert f"Job <{bad}>" in cluster.run("gsched", "status", "--dir", str(cluster.folder)).stdout


def test_gpus_of_a_job_set_aside_are_free_once_its_agent_says_that_it_is_gone(cluster: Cluster):
    bad = cluster.submit("-o", "/dev/null", *ONE_GPU, "sleep 600")
    cluster.until(lambda: running(cluster, [bad]), "the job did not start")
    supervisor, pid = supervisor_of(cluster.job(bad)), cluster.job(bad).pid
    kill_everything(cluster)
    kill_and_wait(supervisor)
    kill_and_wait(pid or 0)
    shutil.rmtree(cluster.folder / "spool" / cluster.host / "attempts" / f"{bad}.1")
    spoil(cluster, bad, "job_started")
    cluster.up()
    ids = [cluster.submit("-o", "/dev/null", *ONE_GPU, UNTIL_GO) for _ in range(4)]
    cluster.until(lambda: running(cluster, ids) == 4, "not all GPUs are free")
    (cluster.folder / "go").touch()
    cluster.wait(*ids)


def test_a_queue_is_not_short_of_the_slots_of_a_job_set_aside(cluster: Cluster):
    """Limits count what is there: a job set aside whose end is known takes none of its queue's slots any more."""
    path = cluster.conf / "lsb.queues"
    path.write_text(re.sub(r"(?m)^PRIORITY", "QJOB_LIMIT = 1\nPRIORITY", path.read_text()))
    cluster.run("gadmin", "reconfig")
    bad = cluster.submit("-o", "/dev/null", f"{UNTIL_GO}; exit 3")
    cluster.until(lambda: running(cluster, [bad]), "the job did not start")
    kill_everything(cluster)
    spoil(cluster, bad, "job_started")
    (cluster.folder / "go").touch()
    cluster.up()
    after = cluster.submit("-o", "/dev/null", "exit 4")
    assert end_of(cluster.wait(after)[0]) == ("exit", 4)


def test_a_lost_script_or_environment_holds_up_its_job_alone(cluster: Cluster):
    with cluster.client() as client:
        cluster.run("gadmin", "hclose")
        bad = client.submit(submission("true", cluster.folder)).job_id
        with contextlib.closing(sqlite3.connect(cluster.folder / "state" / "gsched.db")) as store:
            store.execute("DELETE FROM blob")
            store.commit()
        good = cluster.submit("-o", "/dev/null", "exit 5")
        cluster.run("gadmin", "hopen")
        assert end_of(cluster.wait(good)[0]) == ("exit", 5)
        cluster.until(lambda: cluster.job(bad).state == "PEND", "a job without its environment is said to run")
        cluster.run("gkill", str(bad))
        cluster.wait(bad)
    history = cluster.run("ghist", "-l", str(bad)).stdout
    assert "the start order could not be made" in history.replace("\n" + " " * 21, "")
