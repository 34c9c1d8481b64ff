"""A cluster whose sizes are in KB: what a user writes, what is kept, and what is shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from live_cluster import Cluster

pytestmark = pytest.mark.system


def set_unit(cluster: Cluster, old: str, new: str) -> None:
    path = cluster.conf / "lsf.conf"
    path.write_text(path.read_text().replace(f"LSF_UNIT_FOR_LIMITS={old}", f"LSF_UNIT_FOR_LIMITS={new}"))
    cluster.run("gadmin", "reconfig")


def long_listing(cluster: Cluster, job: int) -> str:
    """`gjobs -l` without the blanks and breaks that fold its lines."""
    return "".join(cluster.run("gjobs", "-l", str(job)).stdout.split())


def test_sizes_in_kb(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster("--sim-gpus", "1:exclusive_process")
    queues = cluster.conf / "lsb.queues"
    queues.write_text(queues.read_text().replace("End Queue", "MEMLIMIT = 204800\nEnd Queue", 1))
    set_unit(cluster, "MB", "KB")
    # AiiDA's max_memory_kb; in MB it would be 195 GB.
    refused = cluster.run("gsub", "-M", "204801", "true", check=False)
    assert refused.returncode != 0 and "MEMLIMIT" in refused.stderr
    job = cluster.submit("-H", "-M", "204800", "-R", "select[mem>1000] rusage[mem=1000,tmp=2MB]", "sleep", "60")
    spec = cluster.job(job).spec
    assert spec.limits["MEMLIMIT"] == 200.0
    assert spec.res_req == "select[mem>1000KB] rusage[mem=1000KB,tmp=2MB]"
    told = long_listing(cluster, job)
    assert "(mem>1000.00)" in told and "rusage[tmp=2048.00,mem=1000.00]" in told and "MEMLIMIT200M" in told
    hosts = cluster.run("ghosts", "-noheader", "-o", "host_name", "-R", "mem>1000").stdout
    assert len(hosts.split()) == 1

    # What a job asked for does not change with the unit, which another start of the master shows as well.
    set_unit(cluster, "KB", "GB")
    assert "rusage[tmp=0.001953125,mem=0.000953674316]" in long_listing(cluster, job)
    set_unit(cluster, "GB", "MB")
    cluster.run("gadmin", "mbdrestart", "-f")
    told = long_listing(cluster, job)
    assert "rusage[tmp=2.00,mem=0.9765625]" in told and "MEMLIMIT200M" in told
    cluster.run("gresume", str(job))
    cluster.starts(job)
