"""glaunch in jobs of a private cluster, by real daemons."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster, printed

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shared(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:exclusive_process")


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """The shared cluster, idle; the files that jobs write go with the test."""
    yield shared
    shared.end_jobs()
    for path in shared.folder.iterdir():
        if path.is_file() and not path.name.startswith("."):
            path.unlink()


def script(cluster: Cluster, text: str) -> str:
    """A script in the cluster's folder; its path."""
    path = cluster.folder / "job.sh"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return str(path)


def run_job(cluster: Cluster, text: str, *words: str) -> list[str]:
    """Lines that a job prints."""
    job_id = cluster.submit("-o", str(cluster.folder / "out"), *words, script(cluster, text))
    cluster.wait(job_id)
    return printed(cluster.folder / "out").splitlines()


def test_on_the_own_host_of_a_job(cluster: Cluster) -> None:
    lines = run_job(
        cluster,
        "glaunch 'echo $LSF_PM_TASKID; exit 5'; echo $?\n"
        'glaunch "$(cat $LSB_DJOB_HOSTFILE)" pwd; seq 1 100000 | glaunch md5sum; seq 1 100000 | md5sum\n'
        "glaunch -no-shell printf '%s-%s\\n' 'a  b' c",
    )
    assert lines[:2] == ["1", "5"] and lines[2] == str(cluster.folder)
    assert lines[3] == lines[4] and lines[5] == "a  b-c"


def test_outside_of_a_job_it_says_what_it_is_for(cluster: Cluster) -> None:
    done = cluster.run("glaunch", "hostname", check=False)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr == "glaunch: it works only inside a job, on the hosts that the job has\n"
    assert "-use-login-shell" in cluster.run("glaunch", "-h").stdout
    assert cluster.run("glaunch", "-V").stdout.startswith("gsched ")


def test_tasks_go_on_while_daemons_are_killed(cluster: Cluster) -> None:
    count = "for i in $(seq 1 60); do echo $i; echo $i >> ran; sleep 0.05; done; exit 6"
    job_id = cluster.submit("-o", str(cluster.folder / "out"), script(cluster, f"glaunch '{count}' 2>said; echo $?"))
    cluster.until((cluster.folder / "ran").exists, "the task does not run")
    for name in ("master", f"agent-{cluster.host}"):
        cluster.kill(name)
    cluster.run("gsched", "up", "--dir", str(cluster.folder))
    cluster.wait(job_id)
    assert printed(cluster.folder / "out").split() == [*map(str, range(1, 61)), "6"]
    assert (cluster.folder / "ran").read_text().split() == [*map(str, range(1, 61))]
    said = (cluster.folder / "said").read_text()  # only where the agent was away for a second
    assert not said or said.startswith("glaunch: "), said


def test_a_suspended_job_s_tasks_stand_still_and_a_killed_one_s_are_gone(cluster: Cluster) -> None:
    text = "glaunch 'trap \"\" TERM; echo $$ > pid; while :; do date +%N > new; mv new tick; sleep 0.02; done'"
    job_id = cluster.submit(script(cluster, text))
    tick = cluster.folder / "tick"
    cluster.until(tick.exists, "the task does not run")
    cluster.run("gstop", str(job_id))
    cluster.becomes(job_id, "USUSP")
    seen = [""]

    def stands_still() -> bool:
        before, seen[0] = seen[0], tick.read_text()
        return bool(before) and before == seen[0]

    cluster.until(stands_still, "the task of a suspended job runs")
    cluster.run("gresume", str(job_id))
    cluster.until(lambda: tick.read_text() != seen[0], "the task of a resumed job stands still")
    cluster.run("gkill", "-s", "KILL", str(job_id))
    cluster.becomes(job_id, "EXIT")
    pid = int((cluster.folder / "pid").read_text())
    cluster.until(lambda: not Path(f"/proc/{pid}").exists(), "the task of a killed job runs")


def test_tasks_start_after_the_spool_folders_were_removed(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster("--hosts", "left,right", "--sim-gpus", "1:exclusive_process")
    words = ("-n", "2", "-R", "span[ptile=1] rusage[ngpus_excl_p=1/host]", "-o", str(cluster.folder / "out"))
    text = """while [ ! -e go ]; do sleep 0.01; done
glaunch 'echo $GSCHED_GPU_UUIDS'
glaunch right echo at the other
sort -u $LSB_DJOB_HOSTFILE
exit 3"""
    job_id = cluster.submit(*words, script(cluster, text))
    cluster.starts(job_id)
    held = cluster.job(job_id).allocation
    assert held is not None
    for host in ("left", "right"):
        shutil.rmtree(cluster.folder / "spool" / host)
    (cluster.folder / "go").touch()
    (view,) = cluster.wait(job_id)
    assert view.result is not None and (view.result.exit_code, view.result.problem) == (3, "")
    lines = printed(cluster.folder / "out").splitlines()
    assert sorted(lines[:2]) == sorted(part.gpus[0].uuid for part in held.hosts)
    assert lines[2:] == ["at the other", "left", "right"]


def test_torchrun_starts_once_on_each_host(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster("--hosts", "a,b,c", "--sim-gpus", "2")
    stand_in = cluster.folder / "torchrun"
    stand_in.write_text('#!/bin/sh\necho "$LSB_DJOB_NUMPROC: $*"\n')
    stand_in.chmod(0o755)
    words = ["-n", "3", "-R", "span[ptile=1]", "-gpu", "num=2", "-o", str(cluster.folder / "out")]
    example = shlex.quote(str(ROOT / "examples/torchrun.sh"))
    job_id = cluster.submit(*words, example, "train.py", "two words", TORCHRUN=str(stand_in))
    job = cluster.wait(job_id)[0]
    assert job.allocation is not None
    port = 20000 + job_id % 10000
    told = f"--nproc-per-node 2 --master-addr {job.allocation.first_host} --master-port {port} train.py two words"
    assert sorted(printed(cluster.folder / "out").splitlines()) == [
        f"3: --nnodes 3 --node-rank {rank} {told}" for rank in range(3)
    ]


def test_the_end_of_the_command_is_the_end_of_its_tasks(cluster: Cluster) -> None:
    text = "setsid glaunch 'echo $$ > pid; exec sleep 1000' & echo $! > command; wait; sleep 1000"
    cluster.submit(script(cluster, text))
    pid = cluster.folder / "pid"
    cluster.until(lambda: pid.exists() and pid.read_text().endswith("\n"), "the task does not run")
    os.kill(int((cluster.folder / "command").read_text()), signal.SIGKILL)
    cluster.until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), "the task goes on without its command")
