"""kill -9 of daemons and supervisors of three hosts while jobs run over them: each ends on all hosts, none twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from pathlib import Path

import pytest
from fault_tools import AcknowledgedJobs, end_of, submission
from live_cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.fault]
HOSTS = ("a", "b", "c")
JOBS_PER_ROUND = 4


def attempts(cluster: Cluster) -> list[Path]:
    return [path for host in HOSTS for path in (cluster.folder / "spool" / host / "attempts").iterdir()]


def kill_a_supervisor(cluster: Cluster, rng: random.Random) -> None:
    """Of a job, or of a part of one."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        claim = rng.choice(attempts(cluster)) / "claim"
        os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)


def submit(cluster: Cluster, acknowledged: AcknowledgedJobs, rng: random.Random) -> None:
    """A job over two or three hosts with a GPU on each, that starts tasks there or not."""
    before = rng.choice(["glaunch true", "sleep 0.3", 'glaunch -z "$(sort -u $LSB_DJOB_HOSTFILE)" sleep 0.3'])
    fields = {"slots": rng.choice([2, 3]), "res_req": "span[ptile=1] rusage[ngpus_excl_p=1/host]"}
    with cluster.client() as client:
        made = client.submit(submission(acknowledged.command(("exit", 0), before), cluster.folder, **fields))
    acknowledged.expected[made.job_id] = None  # one whose supervisor is killed ends as it may


def test_random_kills_leave_nothing_on_any_host(module_cluster, request: pytest.FixtureRequest) -> None:
    cluster = module_cluster("--sim-gpus", "2:exclusive_process", "--hosts", ",".join(HOSTS))
    acknowledged = AcknowledgedJobs(cluster)
    for number in range(request.config.getoption("--fault-rounds")):
        rng = random.Random(number)
        for _ in range(JOBS_PER_ROUND):
            submit(cluster, acknowledged, rng)
        cluster.until(lambda: attempts(cluster), "nothing starts")
        if rng.random() < 0.3:
            kill_a_supervisor(cluster, rng)
        for name in rng.sample(["master", *(f"agent-{host}" for host in HOSTS)], rng.choice([1, 1, 2])):
            cluster.kill(name)
        cluster.up()
    jobs = acknowledged.wait()
    acknowledged.check()
    assert {end_of(job) for job in jobs} >= {("exit", 0)}
    cluster.until(lambda: not attempts(cluster), "a host keeps an attempt")
    with cluster.client() as client:
        assert not [gpu.holders for view in client.hosts(list(HOSTS)) for gpu in view.gpus if gpu.holders]
        assert not any(view.njobs for view in client.hosts(list(HOSTS)))
    for job in jobs:
        assert cluster.job(job.job_id).leaving == ()
