"""kill -9 of agent, fork server, supervisor and door: no job dies of it, none starts twice, every end is told."""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fault_tools import (
    AcknowledgedJobs,
    Stream,
    end_of,
    fork_server,
    kill_and_wait,
    kill_fork_server,
    lent,
    settings,
    state_of,
    stopped,
    submission,
    supervisor_of,
)
from live_cluster import PATIENCE_S, Cluster

from gsched.base.coded_text import sentence
from gsched.model.views.view import JobFilter

pytestmark = [pytest.mark.system, pytest.mark.fault]
UNTIL_GO = "while [ ! -e go ]; do sleep 0.01; done"


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster("--sim-gpus", "4:exclusive_process")
    settings(cluster, GSCHED_HOST_LOST=120)  # no host is lost because an agent takes its time to come back
    return cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    with lent(shared):
        yield shared


def start(cluster: Cluster, *ends: str) -> list[int]:
    """Jobs that run until the file `go` is there, then end as said."""
    ids = [cluster.submit("-o", "/dev/null", f"{UNTIL_GO}; {end}") for end in ends]
    cluster.until(lambda: all(cluster.job(job_id).started_at for job_id in ids), "the jobs did not start")
    return ids


def kill_agent(cluster: Cluster) -> None:
    cluster.kill(f"agent-{cluster.host}")


def notes(cluster: Cluster) -> tuple[str, ...]:
    with cluster.client() as client:
        return tuple(map(sentence, client.hosts()[0].notes))


def host_status(cluster: Cluster) -> str:
    with cluster.client() as client:
        return client.hosts()[0].status


def test_random_kills_of_agent_and_fork_server_lose_nothing(cluster: Cluster, request: pytest.FixtureRequest):
    acknowledged = AcknowledgedJobs(cluster)
    for number in range(request.config.getoption("--fault-rounds")):
        rng = random.Random(number)
        with Stream(acknowledged, rng):
            threading.Event().wait(rng.random() * 0.4)
            if rng.random() < 0.5:
                kill_fork_server(cluster)
                threading.Event().wait(rng.random() * 0.2)
            kill_agent(cluster)
            cluster.up()
    acknowledged.wait()
    acknowledged.check()


@pytest.mark.smoke
def test_jobs_live_on_without_their_agent_and_are_adopted(cluster: Cluster):
    away, later = start(cluster, "kill -7 $$", "sleep 0.1; exit 8")
    pids = [cluster.job(job_id).pid for job_id in (away, later)]
    kill_agent(cluster)
    cluster.until(lambda: host_status(cluster) == "unreach", "the host is still there")
    assert all(psutil.pid_exists(pid) for pid in pids if pid)
    (cluster.folder / "go").touch()
    status = cluster.folder / "spool" / cluster.host / "attempts" / f"{away}.1" / "status"
    cluster.until(status.exists, "the job did not end")
    cluster.up()
    jobs = cluster.wait(away, later)
    assert [end_of(job) for job in jobs] == [("signal", 7), ("exit", 8)]
    assert [(job.attempt, job.pid) for job in jobs] == [(1, pids[0]), (1, pids[1])]


def test_an_order_in_the_journal_that_nobody_began_is_carried_out_once(cluster: Cluster):
    acknowledged = AcknowledgedJobs(cluster)
    kill_agent(cluster)  # its successor has no supervisor that takes a further order, and gets none by the first job
    cluster.up()
    with cluster.client() as client:
        first = client.submit(submission("true", cluster.folder, pre_exec="true")).job_id
        cluster.wait(first)
        # A fork server that is stopped takes orders and starts nothing: the agent dies between journal and start.
        with stopped(fork_server(cluster)):
            jobs = [submission(acknowledged.command(("exit", 3)), cluster.folder) for _ in range(8)]
            ids = [done.job_id for done in client.submit_many(jobs)]
            spool = cluster.folder / "spool" / cluster.host / "attempts"
            cluster.until(lambda: all((spool / f"{job_id}.1" / "order").exists() for job_id in ids), "no orders")
            kill_agent(cluster)
        cluster.up()
    acknowledged.expected.update({first: None, **dict.fromkeys(ids, ("exit", 3))})
    cluster.wait(*ids)
    acknowledged.check()


def test_a_killed_fork_server_is_replaced(cluster: Cluster):
    (running,) = start(cluster, "exit 4")
    kill_and_wait(fork_server(cluster))
    second = cluster.submit("-o", "/dev/null", "exit 5")
    assert end_of(cluster.wait(second)[0]) == ("exit", 5)
    (cluster.folder / "go").touch()
    assert end_of(cluster.wait(running)[0]) == ("exit", 4)


@pytest.mark.smoke
def test_a_job_whose_supervisor_was_killed_ends_as_unknown_and_says_why(cluster: Cluster):
    (job_id,) = start(cluster, "exit 0")
    kill_and_wait(supervisor_of(cluster.job(job_id)))
    assert state_of(cluster, job_id) == "RUN"
    (cluster.folder / "go").touch()
    (job,) = cluster.wait(job_id)
    assert job.state == "EXIT"
    assert end_of(job) is None
    assert "supervisor was killed, so its exit status is not known" in cluster.run("gjobs", "-l", str(job_id)).stdout
    assert "supervisor was killed" in cluster.run("ghist", "-l", str(job_id)).stdout


def test_the_limits_of_a_running_job_are_changed_while_its_agent_is_away(cluster: Cluster):
    crowd, longer = start(cluster, "sleep 60 & sleep 60 & sleep 60 & wait", "exit 0")
    kill_agent(cluster)
    said = cluster.run("gmod", "-p", "3", str(crowd)).stdout
    assert said == f"Parameters of job <{crowd}> are being changed\n"
    cluster.run("gmod", "-W", "10", "-M", "5000", str(longer))
    refused = cluster.run("gmod", "-n", "2", str(longer), check=False)
    assert refused.returncode == 255 and "Job has already started" in refused.stderr
    cluster.kill("master")
    cluster.up()
    (cluster.folder / "go").touch()
    ended, kept = cluster.wait(crowd, longer)
    assert ended.result is not None and ended.result.term_reason == "TERM_PROCESSLIMIT"
    assert end_of(kept) == ("exit", 0)
    long = cluster.run("gjobs", "-l", str(longer)).stdout
    assert "10.0 min" in long and "RUNLIMIT" in long and "MEMLIMIT" in long


def test_the_limits_of_a_job_whose_supervisor_was_killed_hold(cluster: Cluster):
    (job_id,) = start(cluster, "sleep 60 & sleep 60 & sleep 60 & wait")
    kill_and_wait(supervisor_of(cluster.job(job_id)))
    cluster.run("gmod", "-p", "3", str(job_id))
    kill_agent(cluster)
    (cluster.folder / "go").touch()
    cluster.up()
    (job,) = cluster.wait(job_id)
    assert job.result is not None and job.result.term_reason == "TERM_PROCESSLIMIT"


def test_supervisor_and_agent_killed_together(cluster: Cluster):
    gone, running = start(cluster, "exit 0", "exit 6")
    supervisor = supervisor_of(cluster.job(gone))
    kill_agent(cluster)
    kill_and_wait(supervisor)
    (cluster.folder / "go").touch()
    cluster.up()
    lost, kept = cluster.wait(gone, running)
    assert (lost.state, end_of(lost)) == ("EXIT", None)
    assert end_of(kept) == ("exit", 6)


def test_without_a_door_commands_run_by_themselves(cluster: Cluster):
    cluster.kill("door")
    job_id = cluster.submit("-o", "/dev/null", "true")
    assert cluster.run("gjobs", "-noheader", "-o", "jobid", "-a", str(job_id)).stdout.split() == [str(job_id)]
    cluster.wait(job_id)


def under_way(cluster: Cluster, *words: str, **streams: Any) -> subprocess.Popen[str]:
    """A command that runs in the door."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen(words, env=cluster.env, text=True, cwd="/", **pipes)


def first_error(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def test_a_command_whose_door_is_killed_says_what_is_not_known(cluster: Cluster):
    job_id = cluster.submit("sleep 600")
    cluster.kill("master")  # so that the commands are under way when the door dies
    commands = [under_way(cluster, *words) for words in (("gkill", str(job_id)), ("gjobs",))]
    for process in commands:
        assert "Please wait" in first_error(process)
    cluster.kill("door")
    for process in commands:
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 255
        assert err == "gsched: the door closed the connection; the request may or may not have been carried out\n"
    cluster.up()
    cluster.run("gkill", str(job_id))


def test_a_submission_whose_door_is_killed_asks_again_and_makes_one_job(cluster: Cluster):
    with cluster.client() as client:
        before = {job.job_id for job in client.jobs(JobFilter(user="all", finished=True))}
    cluster.kill("master")
    plain = under_way(cluster, "gsub", "-o", "/dev/null", "true")
    typed = under_way(cluster, "gsub", "-o", "/dev/null", stdin=subprocess.PIPE)
    assert typed.stdin is not None
    typed.stdin.write("exit 7\n")
    typed.stdin.close()
    typed.stdin = None
    for process in (plain, typed):
        assert "Please wait" in first_error(process)
    cluster.kill("door")
    cluster.up()
    ids = []
    for process in (plain, typed):
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, err) == (0, ""), err
        ids.append(int(out.removeprefix("Job <").partition(">")[0]))
        assert out == f"Job <{ids[-1]}> is submitted to default queue <normal>.\n"
    assert [end_of(each) for each in cluster.wait(*ids)] == [("exit", 0), ("exit", 7)]
    with cluster.client() as client:
        assert {job.job_id for job in client.jobs(JobFilter(user="all", finished=True))} - before == {*ids}


def test_who_waits_for_a_job_goes_on_waiting_when_the_door_is_killed(cluster: Cluster):
    process = under_way(cluster, "gsub", "-K", "-o", "/dev/null", f"cd {cluster.folder}; {UNTIL_GO}; exit 9")
    assert first_error(process) == "<<Waiting for dispatch ...>>\n"
    assert first_error(process).startswith("<<Starting on ")
    cluster.kill("door")
    (cluster.folder / "go").touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (9, "<<Job is finished>>\n")
    assert out.startswith("Job <") and len(out.splitlines()) == 1
    cluster.up()


def test_who_waits_for_a_condition_goes_on_waiting_when_the_door_is_killed(cluster: Cluster):
    job_id = cluster.submit("-o", "/dev/null", f"cd {cluster.folder}; {UNTIL_GO}")
    cluster.kill("master")  # so that the command is under way when the door dies
    process = under_way(cluster, "gwait", "-w", f"done({job_id})")
    assert "Please wait" in first_error(process)
    cluster.kill("door")
    cluster.up()
    (cluster.folder / "go").touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, ""), err


def test_a_spool_folder_that_is_removed_is_made_again(cluster: Cluster):
    (running,) = start(cluster, "exit 3")
    spool = cluster.folder / "spool" / cluster.host
    mark = (spool / "mark").read_text()
    spool.rename(cluster.folder / "removed")  # at one go: the agent writes into it meanwhile
    shutil.rmtree(cluster.folder / "removed")
    note = f"was removed and made again: what runs {running}.1 had printed without -o until then is lost"
    cluster.until(lambda: note in " ".join(notes(cluster)), "the host does not say it")
    assert (spool / "mark").read_text() == mark
    after = cluster.submit("-o", "/dev/null", "exit 4")
    assert end_of(cluster.wait(after)[0]) == ("exit", 4)
    assert state_of(cluster, running) == "RUN"
    (cluster.folder / "go").touch()
    assert end_of(cluster.wait(running)[0]) == ("exit", 3)
    cluster.until(lambda: "was removed" not in " ".join(notes(cluster)), "the note stays")
    kill_agent(cluster)
    cluster.up()  # another one finds its folder
    assert end_of(cluster.wait(cluster.submit("-o", "/dev/null", "exit 5"))[0]) == ("exit", 5)


def test_an_agent_that_vanishes_makes_its_jobs_unknown_until_it_is_back(cluster: Cluster):
    (job_id,) = start(cluster, "exit 2")
    kill_agent(cluster)
    cluster.until(lambda: host_status(cluster) == "unreach", "the host is still there")
    assert state_of(cluster, job_id) == "RUN"
    settings(cluster, GSCHED_HOST_LOST=1.5)
    cluster.until(lambda: state_of(cluster, job_id) == "UNKWN", "the job is still said to run")
    assert host_status(cluster) == "unavail"
    waiting = cluster.submit("-o", "/dev/null", "true")
    cluster.why_pending(waiting)
    assert "Unable to reach slave batch server" in cluster.run("gjobs", "-p", str(waiting)).stdout
    settings(cluster, GSCHED_HOST_LOST=120)
    cluster.up()
    cluster.until(lambda: state_of(cluster, job_id) == "RUN", "the job is still unknown")
    (cluster.folder / "go").touch()
    assert [end_of(job) for job in cluster.wait(job_id, waiting)] == [("exit", 2), ("exit", 0)]


def test_a_stopped_agent_is_noticed_and_goes_on(cluster: Cluster):
    settings(cluster, GSCHED_HOST_LOST=1.2)
    kill_agent(cluster)
    cluster.up()  # a new session is watched with the new patience from its beginning
    (job_id,) = start(cluster, "exit 2")
    with stopped(cluster.pid(f"agent-{cluster.host}")):
        cluster.until(lambda: state_of(cluster, job_id) == "UNKWN", "nobody notices that the agent is stopped")
        assert host_status(cluster) == "unavail"
        waiting = cluster.submit("-o", "/dev/null", "exit 3")
        (cluster.folder / "go").touch()
        settings(cluster, GSCHED_HOST_LOST=120)
    assert [end_of(job) for job in cluster.wait(job_id, waiting)] == [("exit", 2), ("exit", 3)]
    assert host_status(cluster) == "ok"


@pytest.mark.parametrize("lost", ["-9", "0"])
def test_a_job_killed_while_its_agent_is_away_is_ended_when_it_is_back(cluster: Cluster, lost: str):
    (job_id,) = start(cluster, "exit 0")
    kill_agent(cluster)
    words = ["gkill", str(job_id)] if lost == "0" else ["gkill", "-s", "9", str(job_id)]
    cluster.run(*words)
    assert state_of(cluster, job_id) == "RUN"
    cluster.up()
    (job,) = cluster.wait(job_id)
    assert job.state == "EXIT"
    assert job.result is not None
    assert job.result.term_reason in ("TERM_OWNER", "TERM_FORCE_OWNER")
    assert not psutil.pid_exists(job.pid or -1)


def is_held(pid: int) -> bool:
    """Whether the process stands still: stopped, or frozen with its control group (then it shows as it stood)."""
    if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
        return True
    inside = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if "/gsched/" in line]
    mounts = [row.split()[4] for row in Path("/proc/self/mountinfo").read_text().splitlines() if " cgroup" in row]
    states = [
        (Path(mount + path) / name, frozen)
        for _, _, path in inside
        for mount in mounts
        for name, frozen in (("cgroup.events", "frozen 1"), ("freezer.state", "FROZEN"))
    ]
    return any(file.exists() and frozen in file.read_text() for file, frozen in states)


def test_a_suspended_job_stays_suspended_while_daemons_come_and_go(cluster: Cluster):
    (job_id,) = start(cluster, "exit 0")
    cluster.run("gstop", str(job_id))
    cluster.until(lambda: state_of(cluster, job_id) == "USUSP", "not suspended")
    for name in (f"agent-{cluster.host}", "master"):
        cluster.kill(name)
        cluster.up()
        assert state_of(cluster, job_id) == "USUSP"
    (cluster.folder / "go").touch()
    pid = cluster.job(job_id).pid
    assert pid is not None
    assert is_held(pid)
    kill_agent(cluster)
    cluster.run("gresume", str(job_id))
    cluster.up()
    assert end_of(cluster.wait(job_id)[0]) == ("exit", 0)


def test_sigterm_leaves_jobs_alone(cluster: Cluster):
    (job_id,) = start(cluster, "exit 5")
    pid = cluster.job(job_id).pid or 0
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    assert psutil.pid_exists(pid)
    (cluster.folder / "go").touch()
    cluster.up()
    job = cluster.wait(job_id)[0]
    assert (end_of(job), job.attempt) == (("exit", 5), 1)
