"""Launch profiles on three separate hosts: ranks agree and add up; when one is killed all end, and nothing is left.

The frameworks' own launchers are stand-ins here (tests/support/stand_in_launchers.py); test_net_launch_clients has
the frameworks themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from netlab import Lab
from netlab_cluster import SharedCluster
from netlab_jobs import end_jobs, output, read, run_job
from netlab_launch import GPUS, HOSTS, RANK_LINE, check_ranks, launch_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

SUPPORT = Path(__file__).resolve().parents[1] / "support"
PROGRAM = f"/usr/bin/python3 '{SUPPORT}/stand_in_all_reduce.py'"
STAND_INS = ("torchrun", "accelerate", "deepspeed", "python", "horovodrun", "mpirun")


@pytest.fixture(scope="module")
def prepared(module_lab: Lab) -> SharedCluster:
    """Three hosts, and what stands for the frameworks' launchers in the home of alice."""
    cluster = launch_cluster(module_lab)
    folder = "/home/alice/bin"
    links = "; ".join(f"ln -s '{SUPPORT}/stand_in_launchers.py' {folder}/{name}" for name in STAND_INS)
    cluster.master_host.run(["sh", "-c", f"mkdir {folder}; {links}"], user="alice", check=True)
    return cluster


@pytest.fixture
def cluster(prepared: SharedCluster) -> SharedCluster:
    """Without jobs of alice."""
    end_jobs(prepared)
    return prepared


def submit(cluster: SharedCluster, *words: str) -> int:
    """gsub by somebody who has the frameworks' launchers in PATH; the job's number."""
    done = cluster.run("sh", "-c", 'PATH="$HOME/bin:$PATH" exec gsub "$@"', "sh", *words)
    return int(re.findall(r"Job <(\d+)>", done.stdout)[0])


def left(cluster: SharedCluster) -> Counter[str]:
    """How many processes of a launch each host has."""
    found = {}
    for host in cluster.hosts:
        found[host.name] = host.run(["pgrep", "-f", "stand_in_|sleep 1000[.][67]"]).stdout.count("\n")
    return Counter({name: count for name, count in found.items() if count})


def staying(cluster: SharedCluster) -> Counter[str]:
    """How many ranks stay on each host."""
    found = {host.name: host.run(["pgrep", "-xf", "sleep 1000.7"]).stdout.count("\n") for host in cluster.hosts}
    return Counter({name: count for name, count in found.items() if count})


@pytest.mark.parametrize(
    "profile",
    [
        "torch",
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ("accelerate", "deepspeed", "horovod", "lightning")
        ),
    ],
)
def test_ranks_agree_and_nothing_stays_when_one_is_killed(cluster: SharedCluster, profile: str) -> None:
    path = 'export PATH="$HOME/bin:$PATH"'
    lines, state = run_job(cluster, f"{path}; glaunch --launch {profile} {PROGRAM} 2> errors", "-gpu", "num=2", slots=2)
    told = (lines, state, read(cluster.master_host, "errors"))
    check_ranks(lines, told)
    assert state == "DONE", told
    assert not left(cluster)

    words = ("-n", "6", "-R", "span[ptile=2]", "-gpu", "num=2", "-o", "out.%J", "--launch", profile)
    job_id = submit(cluster, *words, f"{PROGRAM} stay")
    cluster.until(lambda: staying(cluster) == dict.fromkeys(HOSTS, 2), "not all ranks run")
    cluster.hosts[1].run(["sh", "-c", "kill -9 $(pgrep -xf 'sleep 1000.7' | head -n 1)"], check=True)
    cluster.becomes(job_id, "EXIT")
    cluster.until(lambda: not left(cluster), "processes of a launch whose rank was killed still run")


def test_all_ranks_are_started_again_when_one_fails(cluster: SharedCluster) -> None:
    text = f"glaunch --lightning --max-restarts 2 {PROGRAM} fail-once $HOME/failed 2> errors"
    lines, state = run_job(cluster, text, "-gpu", "num=2", slots=2)
    assert state == "DONE" and len([*filter(RANK_LINE.fullmatch, lines)]) == 12, lines
    said = read(cluster.master_host, "errors")
    wanted = r"glaunch: rank 5 on h\d exited with code 9\nglaunch: all processes are started again \(1 of 2\)\n"
    assert re.fullmatch(wanted, said), said


def test_ddl_runs_ranks_by_its_rank_file(cluster: SharedCluster) -> None:
    """With a stand-in for mpirun; the real one reads a rank file in tests/system/test_launching.py."""
    host = cluster.master_host
    words = ["--launch", "ddl", "--topo", "2x3x1", "-o", "out.%J"]
    asked = host.run(["gsub", "-n", "4", *words, "./run"], user="alice")
    assert asked.returncode == 255 and "-n 4: --topo 2x3x1 is 6 ranks, 2 a host on 3 hosts" in asked.stderr
    text = """#!/bin/sh
if [ "$GSCHED_RANK" = 0 ]; then cp "$GSCHED_RANKFILE" ranks; fi
echo "$GSCHED_RANK $OMPI_COMM_WORLD_SIZE $(hostname) $CUDA_VISIBLE_DEVICES $PYTHONPATH"
"""
    host.run(["sh", "-c", "cat > job.sh; chmod +x job.sh"], user="alice", stdin=text, check=True)
    job_id = submit(cluster, "-env", "all, PYTHONPATH=/home/alice/lib", *words, "./job.sh")
    cluster.until(lambda: cluster.field(job_id, "stat") in ("DONE", "EXIT"), "the job does not end")
    lines = output(host, job_id).splitlines()
    told = (lines, read(host, "ranks"))
    ranks = sorted(line.split() for line in lines)
    assert [rank[:2] for rank in ranks] == [[str(rank), "6"] for rank in range(6)], told
    hosts = [rank[2] for rank in ranks]
    assert hosts[:3] == hosts[3:] and sorted(hosts[:3]) == [*HOSTS], told
    assert {rank[2]: rank[3] for rank in ranks} == GPUS, told
    assert {rank[4] for rank in ranks} == {"/home/alice/lib"}, told
    wanted = [f"rank {rank}={hosts[rank % 3]}" for rank in (0, 3, 1, 4, 2, 5)]
    assert [line.partition(" slot=")[0] for line in read(host, "ranks").splitlines()] == wanted, told
    assert cluster.field(job_id, "stat") == "DONE", told
