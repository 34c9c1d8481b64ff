"""Private clusters of every kind: several hosts, long and odd folders, daemons that stop and come back, bad input."""

from __future__ import annotations

import getpass
import os
import re
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from live_cluster import Cluster, printed

USER = getpass.getuser()


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    """Two hosts on this machine, in a folder with blanks and Korean letters."""
    return module_cluster("--sim-gpus", "2:exclusive_process", "--hosts", "gpu-a,gpu-b", name="나의 클러스터 100%25 #1")


def pids(cluster: Cluster) -> dict[str, int]:
    return {name: cluster.pid(name) for name in ("master", "door", "agent-gpu-a", "agent-gpu-b")}


def status(cluster: Cluster) -> tuple[int, str]:
    done = cluster.run("gsched", "status", "--dir", str(cluster.folder), check=False)
    return done.returncode, done.stdout


# -- several hosts ------------------------------------------------------------------------------------------------


def test_each_host_has_its_own_gpus(cluster: Cluster) -> None:
    text = cluster.run("ghosts", "-l").stdout
    assert re.findall(r"^HOST  (\S+)$", text, re.MULTILINE) == ["gpu-a", "gpu-b"]
    assert [line.split()[0] for line in cluster.run("ghosts").stdout.splitlines()] == ["HOST_NAME", "gpu-a", "gpu-b"]
    jobs = [cluster.submit("-R", "rusage[ngpus_excl_p=2]", "sleep", "600") for _ in range(2)]
    views = [cluster.starts(job) for job in jobs]
    assert {view.messages[0].text for view in views} == {"gpu-a:gpus=0,1;", "gpu-b:gpus=0,1;"}
    third = cluster.submit("-R", "rusage[ngpus_excl_p=2]", "true")
    reason = cluster.why_pending(third)
    assert reason.startswith(
        "Job's requirements for reserving resource (ngpus_excl_p) not satisfied: 2 hosts (2 wanted, "
    )
    cluster.run("gkill", *map(str, jobs))
    assert [view.state for view in cluster.wait(*jobs, third)] == ["EXIT", "EXIT", "DONE"]


@pytest.mark.parametrize("host", ["gpu-a", "gpu-b"])
def test_m_names_the_host(cluster: Cluster, host: str) -> None:
    job = cluster.submit("-m", host, "-o", "where.%J", "echo $LSB_HOSTS; hostname")
    assert cluster.wait(job)[0].state == "DONE"
    assert printed(cluster.folder / f"where.{job}").splitlines()[0] == host
    assert f"Started 1 Task(s) on Host(s) <{host}>" in re.sub(
        r"\n {21}", "", cluster.run("gjobs", "-l", str(job)).stdout
    )


def test_a_simulated_gpu_of_one_of_several_hosts(cluster: Cluster) -> None:
    done = cluster.run("gsched", "sim-gpu", "0", "compute_mode=default", check=False)
    assert done.returncode != 0
    assert "say which host with --host: gpu-a, gpu-b" in done.stderr
    cluster.run("gsched", "sim-gpu", "--host", "gpu-b", "0", "compute_mode=default")
    with cluster.client() as client:
        cluster.until(lambda: client.hosts(["gpu-b"])[0].gpus[0].gpu.mode == "default", "no shared GPU")
    job = cluster.submit("-R", "rusage[ngpus_shared=1]", "-o", "shared.%J", "echo $LSB_HOSTS $CUDA_VISIBLE_DEVICES")
    cluster.wait(job)
    assert printed(cluster.folder / f"shared.{job}") == "gpu-b 0\n"
    cluster.run("gsched", "sim-gpu", "--host", "gpu-b", "0", "compute_mode=exclusive_process")


# -- Korean -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["on", pytest.param("off", marks=pytest.mark.nightly)])
def test_korean_everywhere(cluster: Cluster, door: str) -> None:
    work = cluster.folder / f"작업 폴더 {door}"
    work.mkdir()
    script = work / "훈련.sh"
    script.write_text("#!/bin/sh\necho 학습을 시작합니다: $1; pwd\n")
    script.chmod(0o755)
    words = ("-J", "딥러닝 훈련", "-P", "연구", "-cwd", str(work), "-o", "결과.%J", "./훈련.sh", "두 단어")
    job = cluster.submit(*words, GSCHED_DOOR=door)
    view = cluster.wait(job)[0]
    assert view.state == "DONE"
    assert printed(work / f"결과.{job}") == f"학습을 시작합니다: 두 단어\n{work}\n"
    spoken = cluster.submit("-cwd", str(work), "./훈련.sh", "셋", GSCHED_DOOR=door)
    cluster.wait(spoken)
    for locale in ({}, {"LC_ALL": "C"}, {"LC_ALL": "ko_KR.UTF-8"}):
        env = {"GSCHED_DOOR": door, **locale}
        flat = re.sub(r"\n {21}", "", cluster.run("gjobs", "-l", str(job), **env).stdout)
        assert f"Job <{job}>, Job Name <딥러닝 훈련>, User <{USER}>, Project <연구>, " in flat
        assert 'Command <./훈련.sh "두 단어">' in flat
        assert f"Specified CWD <{work}>, Output File <결과.%J>;\n" in flat
        assert "학습을 시작합니다: 셋\n" in cluster.run("gpeek", str(spoken), **env).stdout
        assert "딥러닝 훈련" in cluster.run("gjobs", "-a", "-w", str(job), **env).stdout
    assert cluster.run("gjobs", "-noheader", "-o", "name", str(job)).stdout == "딥러닝 훈련\n"


# -- daemons ------------------------------------------------------------------------------------------------------


def test_up_twice_changes_nothing(cluster: Cluster) -> None:
    before = pids(cluster)
    assert "cluster private is up: gpu-a, gpu-b\n" in cluster.up()
    said = cluster.up("--sim-gpus", "8")
    assert "is kept: --sim-gpus and --hosts count when a cluster is made" in said
    assert pids(cluster) == before
    assert status(cluster)[0] == 0


@pytest.mark.parametrize("name", ["agent-gpu-b", "door", "master"])
def test_up_completes_what_is_partly_up(cluster: Cluster, name: str) -> None:
    before = pids(cluster)
    job = cluster.submit("-m", "gpu-b", "sh", "-c", "while [ ! -e finish ]; do sleep 0.05; done; exit 4")
    cluster.starts(job)
    cluster.kill(name)
    code, text = status(cluster)
    assert code == 1
    assert re.search(rf"^{name} +not running$", text, re.MULTILINE)
    cluster.up()
    code, text = status(cluster)
    assert code == 0
    assert "not running" not in text
    after = pids(cluster)
    assert {each for each in before if before[each] != after[each]} == {name}
    (cluster.folder / "finish").touch()
    view = cluster.wait(job)[0]
    assert (view.attempt, view.result and view.result.exit_code) == (1, 4)
    (cluster.folder / "finish").unlink()


def test_jobs_go_on_while_the_cluster_is_down(cluster: Cluster) -> None:
    words = ("-R", "rusage[ngpus_excl_p=2]", "-o", "adopted.%J")
    loop = "echo start; while [ ! -e enough ]; do sleep 0.05; done; echo end"
    first, second = (cluster.submit(*words, loop) for _ in range(2))
    running = [cluster.starts(job) for job in (first, second)]
    waiting = cluster.submit("-R", "rusage[ngpus_excl_p=1]", "true")
    cluster.why_pending(waiting)
    done = cluster.run("gsched", "down", "--dir", str(cluster.folder))
    assert "2 jobs go on running; the next `gsched up` takes them up again (--kill ends them)\n" in done.stdout
    assert "cluster private is down\n" in done.stdout
    code, text = status(cluster)
    assert (code, text.count("not running")) == (1, 4)
    for view in running:
        assert view.pid is not None
        os.kill(view.pid, 0)
    cluster.up()
    after = [cluster.starts(job) for job in (first, second)]
    assert [view.pid for view in after] == [view.pid for view in running]
    assert [view.allocation for view in after] == [view.allocation for view in running]
    cluster.why_pending(waiting)
    (cluster.folder / "enough").touch()
    assert [view.state for view in cluster.wait(first, second, waiting)] == ["DONE"] * 3
    assert printed(cluster.folder / f"adopted.{first}") == "start\nend\n"


def test_a_job_that_ends_while_the_cluster_is_down(cluster: Cluster) -> None:
    job = cluster.submit("-o", "alone.%J", "while [ ! -e leave ]; do sleep 0.02; done; exit 9")
    pid = cluster.starts(job).pid
    cluster.run("gsched", "down", "--dir", str(cluster.folder))
    (cluster.folder / "leave").touch()
    cluster.until(lambda: not os.path.exists(f"/proc/{pid}"), "the job does not end")
    cluster.up()
    view = cluster.wait(job)[0]
    assert (view.state, view.result and view.result.exit_code, view.attempt) == ("EXIT", 9, 1)


def test_a_folder_too_deep_for_a_socket(module_cluster: Callable[..., Cluster]) -> None:
    cluster = module_cluster("--sim-gpus", "1", name="/".join(["deep" * 10] * 3))
    assert len(str(cluster.folder / "run" / "master.sock")) > 107
    assert cluster.wait(cluster.submit("true"))[0].state == "DONE"
    assert status(cluster)[0] == 0
    assert cluster.up()


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["on", "off"])
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-q", "nosuch", "true"], "nosuch: No such queue. Job not submitted."),
        (["-m", "nosuch", "true"], "nosuch: Bad host name, host group name or cluster name. Job not submitted."),
        (["-R", "select[nosuch>1]", "true"], "Bad resource name: nosuch at position 8 of <select[nosuch>1]>"),
        (["-R", "rusage[mem=]", "true"], "Bad resource requirement syntax"),
        (["-R", "select[ngpus>0", "true"], "Bad resource requirement syntax"),
        (["-R", "rusage[ngpus_excl_p=0.5]", "true"], "Bad resource requirement syntax"),
        (["-n", "0", "true"], "-n: '0' is not a number of slots"),
        (["-n", "33", "true"], "Too many processors requested"),
        (["-W", "soon", "true"], "soon"),
        (["-zzz", "true"], "-zzz"),
        (["-R"], "-R"),
        ([], "No command is specified. Job not submitted."),
        ([""], "No command is specified. Job not submitted."),
        (["   "], "No command is specified. Job not submitted."),
    ],
)
def test_bad_submissions(cluster: Cluster, words: list[str], text: str, door: str) -> None:
    done = cluster.run("gsub", *words, check=False, GSCHED_DOOR=door)
    assert done.returncode == 255
    assert done.stdout == ""
    assert text in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_requirement_is_shown_with_its_position(cluster: Cluster) -> None:
    requirement = "select[ngpus>0] rusage[ngpus_excl_p=]"
    done = cluster.run("gsub", "-R", requirement, "true", check=False)
    found = re.search(r"at position (\d+) of <(.*)>", done.stderr)
    assert found is not None, done.stderr
    assert found[2] == requirement
    assert int(found[1]) in (requirement.rindex("="), requirement.rindex("=") + 1, requirement.rindex("=") + 2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["gsched", "nosuch"], "nosuch"),
        (["gsched", "sim-gpu", "0-9", "compute_mode=default", "--host", "gpu-a"], "there is no GPU 2 (known: 0, 1)"),
        (["gsched", "sim-gpu", "0", "compute_mode=fast", "--host", "gpu-a"], "fast"),
        (["gsched", "sim-gpu", "x", "compute_mode=default", "--host", "gpu-a"], "x"),
        (["gsched", "sim-gpu", "0", "colour=red", "--host", "gpu-a"], "colour"),
        (["gsched", "up", "--dir", "fresh", "--sim-gpus", "many"], "many"),
        (["gsched", "up", "--dir", "fresh", "--sim-gpus", "2", "--hosts", "a b"], "a b"),
        (["gsched", "up", "--dir", "fresh", "--sim-gpus", "2", "--hosts", "a,a"], "a"),
        (["gsched", "status", "--dir", "/nonexistent"], "there is no cluster in /nonexistent"),
        (["gsched", "down", "--dir", "/nonexistent"], "there is no cluster in /nonexistent"),
        (["gadmin", "nosuch"], "nosuch"),
        (["gadmin", "hclose", "nosuch"], "nosuch: Bad host name"),
        (["gadmin", "ckconfig", "--envdir", "/nonexistent"], "/nonexistent"),
        (["ghosts", "nosuch"], "nosuch: Bad host name"),
        (["gqueues", "nosuch"], "nosuch: No such queue"),
        (["gload", "nosuch"], "nosuch"),
        (["ghist", "abc"], "abc: Illegal job ID."),
        (["gkill"], "gkill"),
        (["gkill", "-s", "NOSUCH", "1"], "NOSUCH: Signal not supported"),
        (["elim.gpu", "--interval", "never"], "never"),
    ],
)
def test_bad_commands(cluster: Cluster, words: list[str], text: str) -> None:
    done = cluster.run(*words, check=False)
    assert done.returncode != 0
    assert text in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert "internal error" not in done.stderr
    assert not (cluster.folder / "fresh" / "conf").exists()
    assert not (cluster.folder / "fresh" / "etc").exists()


def test_a_master_that_cannot_be_reached(module_cluster: Callable[..., Cluster]) -> None:
    cluster = module_cluster("--sim-gpus", "1")
    cluster.kill("master", signal.SIGTERM)
    commands = (["gjobs"], ["gsub", "true"], ["ghosts"], ["ghist", "1"], ["gkill", "1"], ["gpeek", "1"], ["gid"])
    asked = [(words, door) for words in commands for door in ("on", "off")]

    def ask(each: tuple[list[str], str]) -> subprocess.CompletedProcess[str]:
        return cluster.run(*each[0], check=False, GSCHED_COMMAND_WAIT="1", GSCHED_DOOR=each[1])

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, asked))
    for (words, door), done in zip(asked, answers, strict=True):
        assert (done.returncode, done.stdout) == (255, ""), (words, door)
        lines = done.stderr.splitlines()
        assert lines[:-1] in ([], ["gsched: the master is not responding. Please wait ..."]), (words, door, lines)
        assert re.fullmatch(
            r"the master at unix:\S+ has not answered for 1 s: is it running\? \(gsched status\)", lines[-1]
        )


def test_no_cluster_at_all(cluster: Cluster, tmp_path: Path) -> None:
    done = cluster.run("gjobs", check=False, GSCHED_ENVDIR=str(tmp_path / "conf"), GSCHED_COMMAND_WAIT="1")
    assert done.returncode == 255
    assert str(tmp_path) in done.stderr
    assert done.stderr.count("\n") == 1
