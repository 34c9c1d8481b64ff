"""kill -9 of the master at any moment: no acknowledged job is lost, none made or started twice, every end is known."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fault_tools import AcknowledgedJobs, Stream, end_of, kill_everything, lent, run_dir, settings, stopped, submission
from live_cluster import PATIENCE_S, Cluster

from gsched.base.ids import new_token
from gsched.model.views.view import JobFilter
from gsched.run.processes import process_tree

pytestmark = [pytest.mark.system, pytest.mark.fault]
PLEASE_WAIT = "gsched: the master is not responding. Please wait ...\n"


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster("--sim-gpus", "4:exclusive_process")
    settings(cluster, GSCHED_HOST_LOST=120)  # no host is lost because an agent takes its time to come back
    return cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    with lent(shared):
        yield shared


def test_random_kills_of_the_master_lose_nothing(cluster: Cluster, request: pytest.FixtureRequest):
    acknowledged = AcknowledgedJobs(cluster)
    for number in range(request.config.getoption("--fault-rounds")):
        rng, before = random.Random(number), len(acknowledged.expected)
        with Stream(acknowledged, rng):
            cluster.until(lambda before=before: len(acknowledged.expected) > before + 5, "nothing is acknowledged")
            threading.Event().wait(rng.random() * 0.6)
            cluster.kill("master")
            cluster.up()
    acknowledged.wait()
    acknowledged.check()


@pytest.mark.smoke
def test_all_daemons_killed_in_the_middle_of_a_wave(cluster: Cluster):
    acknowledged = AcknowledgedJobs(cluster)
    with cluster.client() as client:
        jobs = [
            submission(acknowledged.command(("exit", number % 3), "sleep 0.1"), cluster.folder) for number in range(120)
        ]
        ids = [done.job_id for done in client.submit_many(jobs)]
        acknowledged.expected.update((job_id, ("exit", number % 3)) for number, job_id in enumerate(ids))
    for share in (20, 60):
        cluster.until(lambda share=share: sum(acknowledged.starts().values()) >= share, f"{share} jobs did not start")
        kill_everything(cluster)
        cluster.up()
    cluster.wait(*ids)
    acknowledged.check()


def test_a_job_that_ends_while_the_master_is_away_is_recorded_with_its_status(cluster: Cluster):
    ids = [
        cluster.submit("-o", "/dev/null", f"while [ ! -e go ]; do sleep 0.01; done; {end}")
        for end in ("exit 0", "exit 7", "kill -9 $$", "exit 137")
    ]
    cluster.until(lambda: all(cluster.job(job_id).started_at for job_id in ids), "the jobs did not start")
    pids = [cluster.job(job_id).pid for job_id in ids]
    cluster.kill("master")
    (cluster.folder / "go").touch()
    spool = cluster.folder / "spool" / cluster.host / "attempts"
    cluster.until(lambda: all((spool / f"{job_id}.1" / "status").exists() for job_id in ids), "the jobs did not end")
    cluster.up()
    jobs = cluster.wait(*ids)
    assert [end_of(job) for job in jobs] == [("exit", 0), ("exit", 7), ("signal", 9), ("exit", 137)]
    assert [job.attempt for job in jobs] == [1] * 4
    assert [job.pid for job in jobs] == pids


def test_commands_wait_for_a_master_that_restarts_and_say_so_once(cluster: Cluster):
    before = cluster.submit("-o", "/dev/null", "true")
    cluster.wait(before)
    for door in ("on", "off"):
        commands = [["gsub", "-o", "/dev/null", "true"], ["gjobs", "-a"], ["gkill", str(before)], ["ghist", "-a"]]
        env = {**cluster.env, "GSCHED_DOOR": door}
        cluster.kill("master")
        waiting = [
            subprocess.Popen(
                words, env=env, cwd=cluster.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for words in commands
        ]
        for process in waiting:
            assert process.stderr is not None
            assert process.stderr.readline() == PLEASE_WAIT
        cluster.up()
        for words, process in zip(commands, waiting, strict=True):
            out, err = process.communicate(timeout=PATIENCE_S)
            assert PLEASE_WAIT not in err, words
            if words[0] == "gkill":
                assert process.returncode == 255
                assert "already finished" in err + out
            else:
                assert process.returncode == 0, (words, out, err)
                assert err == ""


def test_a_command_that_waited_in_vain_says_so_in_one_line(cluster: Cluster):
    cluster.kill("master")
    commands = (("gsub", "true"), ("gjobs",), ("ghosts",), ("gkill", "1"), ("ghist",), ("gqueues",))
    asked = [(words, "on") for words in commands] + [(words, "off") for words in commands[:2]]

    def ask(each: tuple[tuple[str, ...], str]) -> subprocess.CompletedProcess[str]:
        # Long enough to find that nobody listens, which is what the first line says.
        return cluster.run(*each[0], check=False, GSCHED_COMMAND_WAIT="5", GSCHED_DOOR=each[1])

    with ThreadPoolExecutor(len(asked)) as threads:
        answers = list(threads.map(ask, asked))
    for each, done in zip(asked, answers, strict=True):
        assert done.returncode == 255, (each, done)
        first, second = done.stderr.splitlines(keepends=True)
        assert first == PLEASE_WAIT, each
        assert "has not answered for 5 s" in second, each


def test_a_token_repeated_makes_no_second_job_across_a_restart(cluster: Cluster):
    token = new_token()
    jobs = [submission("true", cluster.folder), submission("exit 3", cluster.folder)]
    with cluster.client() as client:
        first = client.submit_many(jobs, token=token)
        assert client.submit_many(jobs, token=token) == first
        cluster.kill("master")
        cluster.up()
        assert client.submit_many(jobs, token=token) == first
        cluster.wait(*(job.job_id for job in first))
        cluster.run("gsched", "down", "--dir", str(cluster.folder))
        cluster.up()
        assert client.submit_many(jobs, token=token) == first
        found = client.jobs(JobFilter(user="all", finished=True))
        assert {job.job_id for job in found if job.job_id >= first[0].job_id} == {job.job_id for job in first}


def test_a_stopped_master_is_waited_for_and_goes_on(cluster: Cluster):
    job_id = cluster.submit("-o", "/dev/null", "while [ ! -e go ]; do sleep 0.01; done; exit 5")
    cluster.until(lambda: cluster.job(job_id).started_at, "the job did not start")
    with stopped(cluster.pid("master")):
        waiting = subprocess.Popen(
            ["gsub", "-o", "/dev/null", "exit 6"], env=cluster.env, text=True, stdout=subprocess.PIPE
        )
        (cluster.folder / "go").touch()
        done = cluster.run("gsub", "true", check=False, GSCHED_COMMAND_WAIT="0.5")
        assert done.returncode == 255
        assert len(done.stderr.splitlines()) == 1
        assert waiting.poll() is None
    out, _ = waiting.communicate(timeout=PATIENCE_S)
    second = int(out.split("<")[1].split(">")[0])
    assert [end_of(job) for job in cluster.wait(job_id, second)] == [("exit", 5), ("exit", 6)]


def test_a_waiting_gsub_survives_the_restart(cluster: Cluster):
    waiting = subprocess.Popen(
        ["gsub", "-K", "-o", "/dev/null", "while [ ! -e go ]; do sleep 0.01; done; exit 9"],
        env=cluster.env,
        cwd=cluster.folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    cluster.until(lambda: _running(cluster), "the job did not start")
    cluster.kill("master")
    cluster.up()
    (cluster.folder / "go").touch()
    _, err = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 9, err
    assert "<<Job is finished>>" in err


def test_waiting_through_the_api_survives_the_restart(cluster: Cluster):
    job_id = cluster.submit("-o", "/dev/null", "while [ ! -e go ]; do sleep 0.01; done; exit 4")
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.extend(cluster.wait(job_id)), daemon=True)
    waiting.start()
    cluster.until(lambda: _running(cluster), "the job did not start")
    for stop in (cluster.kill, lambda name: cluster.kill(name, 15)):
        stop("master")
        cluster.up()
    (cluster.folder / "go").touch()
    waiting.join(PATIENCE_S)
    assert [end_of(job) for job in found] == [("exit", 4)]


def _running(cluster: Cluster) -> bool:
    with cluster.client() as client:
        return any(job.started_at for job in client.jobs(JobFilter(user="all")))


def test_sigterm_in_the_midst_of_work_loses_nothing(cluster: Cluster):
    acknowledged = AcknowledgedJobs(cluster)
    with Stream(acknowledged, random.Random(7)):
        time.sleep(0.3)
        cluster.kill("master", 15)
        cluster.up()
    acknowledged.wait()
    acknowledged.check()
    assert not list(run_dir(cluster).glob("*.new"))


def test_a_plan_over_several_hosts_outlives_the_master(make_cluster: Callable[..., Cluster]):
    """A small job must not take one host of a planned job while the agent of the other is not back yet."""
    cluster = make_cluster("--sim-gpus", "1:exclusive_process", "--hosts", "one,two")
    settings(cluster, GSCHED_HOST_LOST=120)
    holder = cluster.submit("-m", "two", "-n", "16", "-W", "60", "sleep", "600")
    cluster.starts(holder)
    big = cluster.submit("-n", "32", "true")
    cluster.until(lambda: "one" in cluster.run("gjobs", "-l", str(big)).stdout, "the big job is not planned")
    small = cluster.submit("true")
    cluster.why_pending(small)

    def status(host: str) -> str:
        with cluster.client() as client:
            return {view.name: view.status for view in client.hosts()}[host]

    with stopped(cluster.pid("agent-two")):
        cluster.kill("master")
        command = ["gsched", "up", "--dir", str(cluster.folder)]
        starting = subprocess.Popen(command, env=cluster.env, cwd=cluster.folder, stdout=subprocess.DEVNULL)
        cluster.until(lambda: status("one") == "ok", "host one is not back")
        cluster.run("ghosts")
        assert cluster.job(small).state == "PEND"
    starting.wait(PATIENCE_S)
    cluster.until(lambda: status("two") == "closed_Full", "host two is not back")
    assert [cluster.job(each).state for each in (holder, big, small)] == ["RUN", "PEND", "PEND"]
    cluster.run("gkill", str(big))
    cluster.wait(small)


def test_the_reader_of_histories_ends_with_the_master(cluster: Cluster):
    """However that ends; the next one has a reader of its own."""
    cluster.wait(cluster.submit("true"))
    readers = []
    for number in (signal.SIGKILL, signal.SIGTERM):
        assert cluster.run("ghist", "-a").returncode == 0
        master = cluster.pid("master")
        (reader,) = [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if (process := process_tree.read_process(pid)) is not None and process.ppid == master
        ]
        assert b"gsched.master.past.reading" in Path(f"/proc/{reader}/cmdline").read_bytes()
        cluster.kill("master", number)
        cluster.until(lambda reader=reader: not is_alive(reader), "the reader is still there")
        cluster.up()
        readers.append(reader)
    assert len(set(readers)) == 2


def is_alive(pid: int) -> bool:
    found = process_tree.read_process(pid)
    return found is not None and not found.is_dead
