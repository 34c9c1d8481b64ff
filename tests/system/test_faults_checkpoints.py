"""A job that saves its state is preempted, restarted and done with a right result, whatever daemon is killed when."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
from counting_job import BY_REQUEUE, PREEMPTING, counted, counting
from fault_tools import settings
from live_cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.fault]

COUNT = 20


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = module_cluster("--sim-gpus", "1:exclusive_process", "--hosts", "one")
    settings(cluster, GSCHED_HOST_LOST=120)  # no host is lost because an agent takes its time to come back
    cluster.configure(lsb_queues=PREEMPTING, lsb_params=BY_REQUEUE.format(""))
    return cluster


def test_random_kills_lose_no_count_and_start_no_attempt_twice(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    for number in range(request.config.getoption("--fault-rounds")):
        rng = random.Random(number)
        folder = cluster.folder / f"round{number}"
        command = counting(folder)
        saves = ("--signal", "TERM@60", "--restart-on", "preempt,host")
        low = cluster.submit("-cwd", str(folder), "-gpu", "num=1", *saves, command, str(COUNT))
        cluster.until(lambda folder=folder: (folder / "counted").exists(), "it does not begin")
        high = cluster.submit("-q", "urgent", "-gpu", "num=1", "sleep 0.2")
        for _ in range(rng.randint(1, 3)):
            threading.Event().wait(rng.random() * 0.8)
            for daemon in rng.sample(["master", "agent-one"], rng.randint(1, 2)):
                cluster.kill(daemon)
            threading.Event().wait(rng.random() * 0.5)
            cluster.up()
        views = cluster.wait(low, high)
        assert [view.state for view in views] == ["DONE", "DONE"], number
        told = counted(folder)
        assert told.ends == [COUNT] and told.begins == [0, *told.saves], number
        assert len(told.attempts) == len(set(told.attempts)) and views[0].restarts == len(told.saves), number
