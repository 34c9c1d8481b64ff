"""A job over three machines of a shared cluster, with tasks on each, while links are cut and power fails."""

from __future__ import annotations

import pytest
from netlab import Host, Lab
from netlab_cluster import shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


def sleeping(host: Host, seconds: str) -> bool:
    """Whether a process `sleep SECONDS` runs there."""
    return host.run(["pgrep", "-f", f"^sleep {seconds}$"]).returncode == 0


def test_a_job_over_hosts_is_one_job_whatever_becomes_of_one_of_them(lab: Lab) -> None:
    """A silent host makes it UNKWN and no more; one that was restarted has lost its part, and ends the job on all."""
    hosts = [lab.host(name) for name in ("h1", "h2", "h3")]
    first, second, third = hosts
    cluster = shared_cluster(lab, hosts, settings={"GSCHED_HOST_LOST": "8"})
    wide = ("-n", "3", "-R", "span[ptile=1]")
    job_id = cluster.submit(*wide, "-m", "h1! h2 h3", "glaunch sleep 1000.7")
    for host in hosts:
        cluster.until(lambda host=host: sleeping(host, "1000.7"), f"nothing runs on {host}")
    third.cut()
    cluster.becomes(job_id, "UNKWN")
    third.mend()
    cluster.becomes(job_id, "RUN")
    assert all(sleeping(host, "1000.7") for host in hosts)

    cluster.power_off(third)
    cluster.becomes(job_id, "UNKWN")
    cluster.boot(third)
    cluster.becomes(job_id, "EXIT")
    told = " ".join(cluster.run("gjobs", "-l", "-UF", str(job_id)).stdout.split())
    assert "Run 1 lost its part on host h3: the host restarted while the job ran" in told
    for host in (first, second):
        cluster.until(lambda host=host: not sleeping(host, "1000.7"), f"its task on {host} outlives the job")
    again = cluster.submit(*wide, "glaunch hostname")  # nothing is held any more
    cluster.becomes(again, "DONE")
