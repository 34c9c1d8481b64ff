"""Launch profiles on three separate hosts with the frameworks themselves, unmodified (`make test-clients`).

Ranks add up over the network; when one is killed all end, or all are started again; and nothing of them stays.
"""

from __future__ import annotations

import pytest
from netlab import BIN, Host, Lab
from netlab_cluster import SharedCluster
from netlab_jobs import output, read
from netlab_launch import HOSTS, RANK_LINE, check_ranks, launch_cluster
from netlab_machine import REPOSITORY

pytestmark = [pytest.mark.system, pytest.mark.clients, pytest.mark.needs_root]

LAUNCHERS = REPOSITORY / ".venv-launchers" / "bin"
TRAIN = REPOSITORY / "tests" / "clients" / "train_launchers.py"
PROGRAMS = {"torch": "torchrun", "accelerate": "accelerate", "deepspeed": "deepspeed", "lightning": "python"}
PROGRAMS |= {"ray": "ray"}
RANK = f"^[^ ]*python[0-9.]* {TRAIN}"
PATIENCE_S = 600.0
"""Six processes that load a framework of their own share the machine's cores."""


@pytest.fixture(scope="module")
def frameworks() -> None:
    if not (LAUNCHERS.parent / ".installed").exists():
        pytest.skip("needs the frameworks in an environment of their own: make .venv-launchers/.installed")


@pytest.fixture(scope="module")
def cluster(frameworks: None, module_lab: Lab) -> SharedCluster:
    return launch_cluster(module_lab)


@pytest.fixture(params=PROGRAMS)
def profile(request: pytest.FixtureRequest, cluster: SharedCluster) -> str:
    name: str = request.param
    if not (LAUNCHERS / PROGRAMS[name]).exists():
        pytest.skip(f"there is no {PROGRAMS[name]} in .venv-launchers")
    return name


def submit(cluster: SharedCluster, profile: str, *words: str) -> int:
    """A job of alice with two ranks on each host; `words` are of the training program."""
    path = f"{LAUNCHERS}:{BIN}:/usr/bin:/bin"
    asked = ("-n", "6", "-R", "span[ptile=2]", "-gpu", "num=2", "-o", "out.%J", "-e", "errors.%J")
    asked += ("-env", f"all, PATH={path}, OMP_NUM_THREADS=1", "--launch", profile)
    return cluster.submit(*asked, "python", str(TRAIN), profile.split()[0], *words)


def told(cluster: SharedCluster, job_id: int) -> tuple[str, str, str]:
    """How it has ended, what it has printed, and what it complained of."""
    host = cluster.master_host
    return cluster.field(job_id, "stat"), output(host, job_id), read(host, f"errors.{job_id}")


def rank_lines(cluster: SharedCluster, job_id: int) -> list[str]:
    """A line of each rank; of ray, which has but one process, that of this one."""
    lines = read(cluster.master_host, f"out.{job_id}").splitlines()
    return [line for line in lines if line.startswith("rank ")]


def kill_one(host: Host, profile: str) -> None:
    """SIGKILL to one rank of this host; of ray to what runs its tasks there."""
    wanted = "-x raylet" if profile.startswith("ray") else f"-f '{RANK}'"
    host.run(["sh", "-c", f"kill -9 $(pgrep -u alice {wanted} | head -n 1)"], check=True)


def of_alice(cluster: SharedCluster) -> dict[str, str]:
    """Her processes on each host that has some."""
    found = {host.name: host.run(["pgrep", "-u", "alice", "-a"]).stdout for host in cluster.hosts}
    return {name: text for name, text in found.items() if text}


def ends(cluster: SharedCluster, job_id: int, state: str) -> tuple[str, str, str]:
    """Wait for the end of a job, which is to be this one and leave no process behind."""
    is_over = ("DONE", "EXIT")
    cluster.until(lambda: cluster.field(job_id, "stat") in is_over, f"job {job_id} does not end", PATIENCE_S)
    found = told(cluster, job_id)
    assert found[0] == state, found
    cluster.until(lambda: not of_alice(cluster), "processes of a launch are left")
    return found


def begun(cluster: SharedCluster, job_id: int, profile: str) -> None:
    """Wait until all ranks have added up."""
    wanted = 1 if profile.startswith("ray") else 6

    def have() -> bool:
        assert cluster.field(job_id, "stat") not in ("DONE", "EXIT"), told(cluster, job_id)
        return len(rank_lines(cluster, job_id)) == wanted

    cluster.until(have, f"the ranks of job {job_id} do not add up", PATIENCE_S)


def check(found: tuple[str, str, str], profile: str, times: int = 1) -> None:
    """All have added up, so many times."""
    lines = found[1].splitlines()
    if profile.startswith("ray"):
        assert [line for line in lines if line.startswith("tasks ")] == [f"tasks on {' '.join(HOSTS)}"] * times, found
        assert len([line for line in lines if line.startswith("rank 0 of 3 ") and line.endswith(" 21")]) == times, found
        return
    ranks = [line for line in lines if RANK_LINE.fullmatch(line)]
    assert len(ranks) == 6 * times, found
    check_ranks(ranks[-6:], found)


def test_ranks_add_up_over_the_network(cluster: SharedCluster, profile: str) -> None:
    check(ends(cluster, submit(cluster, profile), "DONE"), profile)


def test_all_end_when_one_is_killed(cluster: SharedCluster, profile: str) -> None:
    job_id = submit(cluster, profile, "stay")
    begun(cluster, job_id, profile)
    kill_one(cluster.hosts[1], profile)
    check(ends(cluster, job_id, "EXIT"), profile)


def test_all_are_started_again_when_one_is_killed(cluster: SharedCluster, profile: str) -> None:
    words = f"{profile} --max-restarts 1"
    job_id = submit(cluster, words, "stay")
    begun(cluster, job_id, profile)
    kill_one(cluster.hosts[2], profile)
    check(ends(cluster, job_id, "DONE"), profile, times=2)
