"""A job over three hosts, with real daemons: it starts, is stopped and ends on all, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest
from fault_tools import settings
from live_cluster import Cluster

from gsched.model.event import JobPartEnded, JobPartStarted, JobStarted, decode_event
from gsched.model.views.view import JobFilter, JobView

HOSTS = ("a", "b", "c")
ON_ALL = ("-n", "3", "-R", "span[ptile=1] rusage[ngpus_excl_p=2/host]", "-m", "a! b c")
"""A job that has all GPUs of all hosts, with a as its first."""


@pytest.fixture(scope="module")
def cluster(module_cluster) -> Cluster:
    cluster = module_cluster("--sim-gpus", "2:exclusive_process", "--hosts", ",".join(HOSTS))
    settings(cluster, GSCHED_HOST_LOST=120)  # one whose agent is away comes back here
    return cluster


def folder(cluster: Cluster, host: str, job_id: int, attempt: int = 1) -> Path:
    return cluster.folder / "spool" / host / "attempts" / f"{job_id}.{attempt}"


def supervisor(cluster: Cluster, host: str, job_id: int) -> psutil.Process:
    return psutil.Process(json.loads((folder(cluster, host, job_id) / "claim").read_text())["pid"])


def lives(process: psutil.Process) -> bool:
    """Also where nobody has reaped it yet whose parent was killed."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def kinds(cluster: Cluster, job_id: int) -> list[tuple[str, str]]:
    """(kind, host) of what has happened on the job's hosts, in order."""
    with cluster.client() as client:
        (history,) = client.history(JobFilter(ids=(job_id,), user="all", finished=True))
    events = [decode_event(record.payload.encode()) for record in history.events]
    return [
        (type(each).__name__, getattr(each, "host", ""))
        for each in events
        if isinstance(each, JobPartStarted | JobPartEnded | JobStarted)
    ]


def nothing_is_left(cluster: Cluster, job_id: int, attempt: int = 1) -> None:
    """No folder, and no GPU that is held."""
    for host in HOSTS:
        cluster.until(
            lambda host=host: not folder(cluster, host, job_id, attempt).exists(), f"{host} keeps its attempt"
        )
    with cluster.client() as client:
        assert [gpu.holders for view in client.hosts(list(HOSTS)) for gpu in view.gpus] == [()] * 6


def test_it_starts_when_every_host_is_ready_and_ends_on_all_of_them(cluster: Cluster) -> None:
    job_id = cluster.submit(*ON_ALL, "sleep 600")
    cluster.starts(job_id)
    first, second, third = kinds(cluster, job_id)
    assert {first, second} == {("JobPartStarted", "b"), ("JobPartStarted", "c")} and third == ("JobStarted", "")
    supervisors = {host: supervisor(cluster, host, job_id) for host in HOSTS}
    assert [len(supervisors[host].children()) for host in HOSTS] == [1, 0, 0]

    cluster.run("gstop", str(job_id))
    cluster.becomes(job_id, "USUSP")
    for host in HOSTS:
        suspended = folder(cluster, host, job_id) / "suspended"
        cluster.until(suspended.exists, f"it is not stopped on {host}")
    cluster.run("gresume", str(job_id))
    cluster.becomes(job_id, "RUN")
    cluster.run("gkill", str(job_id))
    (ended,) = cluster.wait(job_id)
    assert ended.state == "EXIT" and ended.result is not None and ended.result.term_reason == "TERM_OWNER"
    nothing_is_left(cluster, job_id)
    cluster.until(lambda: not any(map(lives, supervisors.values())), "a supervisor goes on")


@pytest.mark.nightly
def test_a_job_that_ends_by_itself_takes_its_parts_along(cluster: Cluster) -> None:
    job_id = cluster.submit(*ON_ALL, "true")
    assert cluster.wait(job_id)[0].state == "DONE"
    nothing_is_left(cluster, job_id)
    assert set(kinds(cluster, job_id)[3:]) == {("JobPartEnded", "b"), ("JobPartEnded", "c")}
    assert "Over on host <c>;" in cluster.run("ghist", "-l", str(job_id)).stdout


def test_a_part_whose_supervisor_is_killed_ends_the_job(cluster: Cluster) -> None:
    job_id = cluster.submit(*ON_ALL, "sleep 600")
    cluster.starts(job_id)
    supervisor(cluster, "c", job_id).send_signal(signal.SIGKILL)
    (ended,) = cluster.wait(job_id)
    assert ended.result is not None and ended.result.term_reason == "TERM_EXTERNAL_SIGNAL"
    nothing_is_left(cluster, job_id)
    told = " ".join(cluster.run("gjobs", "-l", "-UF", str(job_id)).stdout.split())
    assert "Run 1 lost its part on host c: the supervisor of this part of the job was killed" in told


def test_a_host_that_cannot_open_its_part_puts_the_job_back(cluster: Cluster) -> None:
    attempts = cluster.folder / "spool" / "c" / "attempts"
    attempts.rename(attempts.with_name("away"))
    attempts.touch()  # a folder that is merely gone would be made again
    job_id = cluster.submit(*ON_ALL, "sleep 600")

    def is_put_back() -> bool:  # between two attempts
        told = cluster.run("gjobs", "-p", str(job_id), check=False).stdout
        return "failed on c: spool folder " in " ".join(told.split())

    try:
        cluster.until(is_put_back, "it is not put back")
    finally:
        attempts.unlink()
        attempts.with_name("away").rename(attempts)
    assert cluster.job(job_id).pid is None
    attempt = cluster.starts(job_id).attempt
    assert attempt > 1
    cluster.run("gkill", str(job_id))
    cluster.wait(job_id)
    nothing_is_left(cluster, job_id, attempt)
    nothing_is_left(cluster, job_id, 1)


def test_master_and_agents_may_be_killed_at_any_time(cluster: Cluster) -> None:
    stopped = cluster.pid("agent-c")
    os.kill(stopped, signal.SIGSTOP)
    job_id = cluster.submit(*ON_ALL, "sleep 600")
    cluster.until((folder(cluster, "b", job_id) / "started").exists, "b does not open its part")
    cluster.kill("master")
    cluster.up()
    assert cluster.job(job_id).pid is None, "it runs though c is not ready"
    os.kill(stopped, signal.SIGCONT)
    cluster.starts(job_id)

    for name in ("agent-a", "master", "agent-b"):
        cluster.kill(name)
    cluster.up()
    cluster.becomes(job_id, "RUN")
    pids = [supervisor(cluster, host, job_id) for host in HOSTS]
    cluster.kill("agent-c")
    cluster.run("gkill", str(job_id))
    ended: JobView = cluster.wait(job_id)[0]
    assert ended.state == "EXIT" and lives(pids[2])
    assert "of host c are still held" in " ".join(cluster.run("gjobs", "-l", "-UF", str(job_id)).stdout.split())
    cluster.up()
    nothing_is_left(cluster, job_id)
    cluster.until(lambda: not any(map(lives, pids)), "a supervisor goes on")
    assert cluster.job(job_id).leaving == ()
