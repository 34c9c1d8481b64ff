"""Tasks of a job on three separate hosts: as its user, in the job, through restarts and cuts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from netlab import Lab
from netlab_cluster import SharedCluster, shared_cluster
from netlab_jobs import end_jobs, output, read, run_job, script

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


def begin_job(cluster: SharedCluster, text: str) -> int:
    """Start such a job, and wait until it has written the file `began` in alice's home."""
    path = script(cluster.master_host, text)
    job_id = cluster.submit("-n", str(len(cluster.hosts)), "-R", "span[ptile=1]", "-o", "out.%J", path)
    cluster.until(lambda: read(cluster.master_host, "began"), f"job {job_id} does not begin")
    return job_id


def sleepers(cluster: SharedCluster, seconds: str) -> int:
    """How many processes `sleep SECONDS` there are."""
    return sum(host.run(["pgrep", "-x", "-f", f"sleep {seconds}"]).stdout.count("\n") for host in cluster.hosts)


@pytest.fixture(scope="module")
def prepared(module_lab: Lab) -> SharedCluster:
    return shared_cluster(module_lab, [module_lab.host(name) for name in ("h1", "h2", "h3")], sim_gpus="2")


@pytest.fixture
def cluster(prepared: SharedCluster) -> SharedCluster:
    """Without jobs of alice, and as if none had run."""
    end_jobs(prepared)
    prepared.master_host.run(["sh", "-c", "rm -f began tick.* copy"], user="alice", check=True)
    return prepared


def test_tasks_are_the_user_s_on_every_host_with_the_gpus_of_the_job_there(cluster: SharedCluster) -> None:
    lines, state = run_job(
        cluster,
        "glaunch 'echo $(hostname) $(id -un) $CUDA_VISIBLE_DEVICES $(pwd) $GSCHED_ATTEMPT_ID' | sort\n"
        "echo text | glaunch h3 'cat; hostname; exit 4'; echo $?\n"
        "glaunch h2 'umask; kill -9 $$'; echo $?\n"
        "glaunch -z h4 true; echo $?",
        "-gpu",
        "num=1",
    )
    for line, name in zip(lines[:3], ("h1", "h2", "h3"), strict=True):
        host, user, gpus, folder, mark = line.split()
        assert (host, user, folder) == (name, "alice", "/home/alice") and gpus in "01" and f"/{name}/" in mark
    assert lines[3:6] == ["text", "h3", "4"]
    assert lines[6:8] == ["0022", "137"]
    assert "h4 is not a host of this job" in lines[8] and lines[9] == "255" and state == "DONE"


def test_restarts_and_cuts_are_not_noticed(lab: Lab) -> None:
    cluster = shared_cluster(lab, [lab.host(name) for name in ("h1", "h2", "h3")], settings={"GSCHED_HOST_LOST": "120"})
    a, _, c = cluster.hosts
    count = "i=0; until [ -e stop ]; do i=$((i+1)); echo $i; echo $i >> ran.$LSF_PM_TASKID; sleep 0.05; done; exit 3"
    job_id = begin_job(
        cluster, f"rm -f ran.* stop; echo > began\nglaunch -n -z 'h2 h3' '{count}' > both 2> said; echo $?; rm began"
    )
    cluster.until(lambda: read(a, "ran.1") and read(a, "ran.2"), "the tasks do not run")
    for host, name in ((a, "master"), (a, "agent"), (c, "agent")):
        cluster.kill(host, name)
        cluster.start_daemon(host, name)
    c.cut()
    cluster.host_becomes(c, "unreach")
    c.mend()
    a.run(["touch", "stop"], user="alice", check=True)
    cluster.becomes(job_id, "DONE")
    assert output(a, job_id).split() == ["3"]
    said = read(a, "said").splitlines()  # its agent may have been away for longer than a second
    assert all(line.startswith("glaunch: the agent of this host") for line in said), said
    for task in ("1", "2"):
        ran = read(a, f"ran.{task}").split()
        assert ran == [str(i + 1) for i in range(len(ran))], "each ran once"
    assert sorted(read(a, "both").split()) == sorted([*read(a, "ran.1").split(), *read(a, "ran.2").split()])


@pytest.mark.nightly
def test_a_slow_line_that_is_full_of_output_costs_no_host(lab: Lab) -> None:
    """256 kbit/s: the host is ok all the time, and other questions get through."""
    cluster = shared_cluster(lab, [lab.host(name) for name in ("h1", "h2")], settings={"GSCHED_HOST_LOST": "30"})
    flood = "glaunch -n -z 'h1 h2' 'cat /dev/zero' > /dev/null &"
    job_id = begin_job(cluster, f"{flood} sleep 1; echo > began; wait")
    _, b = cluster.hosts
    b.slow(256)
    until = time.monotonic() + 4
    while time.monotonic() < until:
        assert cluster.states()["h2"] == "ok"
        time.sleep(0.3)
    cluster.run("gkill", "-s", "KILL", str(job_id))
    cluster.becomes(job_id, "EXIT")
    assert f"agent of {b.name} is gone" not in cluster.log(cluster.master_host, "master")


def test_signals_to_the_job_reach_its_tasks_and_nothing_is_left(cluster: SharedCluster) -> None:
    host = cluster.master_host
    ticking = "setsid sleep 1000.7 & while :; do date +%N > tick.$LSF_PM_TASKID; sleep 0.05; done"
    job_id = begin_job(cluster, f"echo > began; glaunch -n '{ticking}'")
    cluster.until(lambda: sleepers(cluster, "1000.7") == 3, "the tasks do not run")
    cluster.run("gstop", str(job_id))
    cluster.becomes(job_id, "USUSP")
    seen = [""]

    def stand_still() -> bool:
        before, seen[0] = seen[0], host.run(["sh", "-c", "cat tick.*; sleep 0.2"], user="alice").stdout
        return before == seen[0]

    cluster.until(stand_still, "tasks of a suspended job run")
    cluster.run("gresume", str(job_id))
    for task in ("1", "2", "3"):
        cluster.until(lambda task=task: read(host, f"tick.{task}") not in seen[0], f"task {task} does not go on")
    cluster.run("gkill", "-s", "KILL", str(job_id))
    cluster.becomes(job_id, "EXIT")
    cluster.until(lambda: sleepers(cluster, "1000.7") == 0, "tasks of a job that was killed still run")


def test_who_is_not_of_the_job_gets_nothing(cluster: SharedCluster) -> None:
    """Neither another user with all that a job is told, nor the same user from outside."""
    a = cluster.master_host
    job_id = begin_job(cluster, "env -0 > copy; hostname > began; exec sleep 1000")
    host = next(each for each in cluster.hosts if each.name == read(a, "began").strip())
    variables = dict(pair.split("=", 1) for pair in read(a, "copy").split("\0") if "=" in pair)
    told = {
        name: variables[name] for name in ("GSCHED_AGENT_SOCKET", "GSCHED_ATTEMPT_ID", "GSCHED_JOB_ID", "LSB_JOBID")
    }
    for user in ("alice", "bob", "root"):
        done = host.run(["glaunch", "h2", "id"], user=user, env=told)
        assert done.returncode == 255 and "belongs to no job" in done.stderr and not done.stdout, user
    outside = host.run(["glaunch", "h2", "id"], user="alice")
    assert outside.returncode == 255 and "only inside a job" in outside.stderr
    cluster.run("gkill", str(job_id))
    assert Path(told["GSCHED_AGENT_SOCKET"]).parent == Path("/run/gsched/agent")
