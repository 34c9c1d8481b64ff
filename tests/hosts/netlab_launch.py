"""Three hosts of a lab for launches of six ranks, and what these ranks must say of themselves.

Shared by the tests with stand-ins for the frameworks' launchers and those with the frameworks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from netlab import Lab
from netlab_cluster import SharedCluster, shared_cluster

GPUS = {"h1": "1,2", "h2": "0,1", "h3": "0,1"}
"""Those that a job of two GPUs on each host gets."""
HOSTS = tuple(GPUS)
RANK_LINE = re.compile(r"rank (\d) of 6 local (\d) on (h\d) first ([01]) gpus (\S*) sum 21")


def launch_cluster(lab: Lab) -> SharedCluster:
    """Three hosts without a fence, so that a job sees the numbers that its GPUs have; bob has the first one of h1."""
    hosts = [lab.host(name) for name in HOSTS]
    cluster = shared_cluster(lab, hosts, sim_gpus="3", slots=5, settings={"GSCHED_GPU_FENCE": "N"})
    cluster.becomes(cluster.submit("-m", "h1", "-gpu", "num=1", "sleep", "1000", user="bob"), "RUN")
    return cluster


def check_ranks(lines: Iterable[str], told: object) -> None:
    """Six ranks have added up, two on each host, each with the job's GPUs of its host."""
    ranks = sorted(found.groups() for found in map(RANK_LINE.fullmatch, lines) if found)
    assert [int(rank[0]) for rank in ranks] == [*range(6)], told
    assert [rank[1] for rank in ranks] == ["0", "1"] * 3, told
    assert [rank[3] for rank in ranks] == ["1", *"00000"], told
    assert [rank[2] for rank in ranks[::2]] == [rank[2] for rank in ranks[1::2]], told
    assert {rank[2]: rank[4] for rank in ranks} == GPUS, told
