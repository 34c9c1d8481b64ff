"""Tasks of a job on three separate hosts: as its user, in the job, through restarts and cuts; and MPI through them."""

from __future__ import annotations

import ctypes.util
import shutil
import time
from pathlib import Path

import pytest
from netlab import Host, Lab
from netlab_cluster import SharedCluster, shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

HELLO = """\
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
of = lambda name: ctypes.byref(ctypes.c_char.in_dll(mpi, name))
number, one = ctypes.c_int, ctypes.c_int(1)
rank, size, total = number(), number(), number()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(of("ompi_mpi_comm_world"), ctypes.byref(rank))
mpi.MPI_Comm_size(of("ompi_mpi_comm_world"), ctypes.byref(size))
mpi.MPI_Allreduce(
    ctypes.byref(one), ctypes.byref(total), 1, of("ompi_mpi_int"), of("ompi_mpi_op_sum"), of("ompi_mpi_comm_world")
)
print(rank.value, size.value, total.value, os.uname().nodename, os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
mpi.MPI_Finalize()
"""
"""A program for MPI without a compiler: each of its processes counts all of them."""


def script(host: Host, text: str, user: str = "alice") -> str:
    """Put a script into the user's home, which all hosts share; its path."""
    path = f"/home/{user}/job.sh"
    host.run(["sh", "-c", f"cat > {path} && chmod 755 {path}"], user=user, stdin=f"#!/bin/bash\n{text}\n", check=True)
    return path


def read(host: Host, name: str, user: str = "alice") -> str:
    """A file in the user's home; empty where there is none."""
    return host.run(["cat", name], user=user).stdout


def output(host: Host, job_id: int) -> str:
    """What a job of alice has printed, without the report below it."""
    return read(host, f"out.{job_id}").partition("\n" + "-" * 60 + "\n")[0]


def run_job(cluster: SharedCluster, text: str, *words: str, hosts: int = 0) -> tuple[list[str], str]:
    """Run a job of alice on one slot of each host, or of so many; its lines, and how it ended."""
    path = script(cluster.master_host, text)
    slots = str(hosts or len(cluster.hosts))
    job_id = cluster.submit("-n", slots, "-R", "span[ptile=1]", "-o", "out.%J", *words, path)
    cluster.until(lambda: cluster.field(job_id, "stat") in ("DONE", "EXIT"), f"job {job_id} does not end")
    return output(cluster.master_host, job_id).splitlines(), cluster.field(job_id, "stat")


def begin_job(cluster: SharedCluster, text: str) -> int:
    """Start such a job, and wait until it has written the file `began` in alice's home."""
    path = script(cluster.master_host, text)
    job_id = cluster.submit("-n", str(len(cluster.hosts)), "-R", "span[ptile=1]", "-o", "out.%J", path)
    cluster.until(lambda: read(cluster.master_host, "began"), f"job {job_id} does not begin")
    return job_id


def sleepers(cluster: SharedCluster, seconds: str) -> int:
    """How many processes `sleep SECONDS` there are."""
    return sum(host.run(["pgrep", "-x", "-f", f"sleep {seconds}"]).stdout.count("\n") for host in cluster.hosts)


def test_tasks_are_the_user_s_on_every_host_with_the_gpus_of_the_job_there(lab: Lab) -> None:
    cluster = shared_cluster(lab, [lab.host(name) for name in ("h1", "h2", "h3")], sim_gpus="2")
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


@pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun")
@pytest.mark.skipif(not ctypes.util.find_library("mpi"), reason="there is no Open MPI of version 4")
def test_mpirun_starts_processes_on_three_hosts_and_on_two(lab: Lab) -> None:
    """By itself, and where somebody says by hand what it should call and which hosts there are."""
    cluster = shared_cluster(lab, [lab.host(name) for name in ("h1", "h2", "h3")], sim_gpus="2")
    lab_host = cluster.master_host
    lab_host.run(["sh", "-c", "cat > hello.py"], user="alice", stdin=HELLO, check=True)
    alone = "mpirun"
    by_hand = "unset ${!OMPI_MCA_*}; mpirun --mca plm_rsh_agent glaunch --hostfile $LSB_DJOB_HOSTFILE"
    for line, hosts in ((alone, 3), (by_hand, 3), (by_hand, 2)):
        lines, state = run_job(
            cluster, f"{line} /usr/bin/python3 hello.py 2> errors | sort", "-gpu", "num=1", hosts=hosts
        )
        told = (line, lines, state, read(lab_host, "errors"))
        assert state == "DONE" and len(lines) == hosts, told
        found = [words.split() for words in lines]
        assert [words[:3] for words in found] == [[str(rank), str(hosts), str(hosts)] for rank in range(hosts)], told
        assert len({words[3] for words in found}) == hosts, told
        assert all(words[4] in "01" for words in found), f"each has its own GPU: {told}"


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


def test_a_slow_line_that_is_full_of_output_costs_no_host(lab: Lab) -> None:
    """256 kbit/s: the host is ok all the time, and other questions get through."""
    cluster = shared_cluster(lab, [lab.host(name) for name in ("h1", "h2")], settings={"GSCHED_HOST_LOST": "30"})
    flood = "glaunch -n -z 'h1 h2' 'cat /dev/zero' > /dev/null &"
    job_id = begin_job(cluster, f"{flood} sleep 1; echo > began; wait")
    _, b = cluster.hosts
    b.slow(256)
    until = time.monotonic() + 8
    while time.monotonic() < until:
        assert cluster.states()["h2"] == "ok"
        time.sleep(0.3)
    cluster.run("gkill", "-s", "KILL", str(job_id))
    cluster.becomes(job_id, "EXIT")
    assert f"agent of {b.name} is gone" not in cluster.log(cluster.master_host, "master")


def test_signals_to_the_job_reach_its_tasks_and_nothing_is_left(lab: Lab) -> None:
    cluster = shared_cluster(lab, [lab.host(name) for name in ("h1", "h2", "h3")])
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


def test_who_is_not_of_the_job_gets_nothing(lab: Lab) -> None:
    """Neither another user with all that a job is told, nor the same user from outside."""
    cluster = shared_cluster(lab, [lab.host(name) for name in ("h1", "h2")])
    a, _ = cluster.hosts
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
