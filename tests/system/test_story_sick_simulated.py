"""Pains 6 without any driver library: an inventory says that a GPU has failed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from live_cluster import Cluster

from gsched.base.coded_text import sentence

ONE = ("-R", "rusage[ngpus_excl_p=1]")


def probed_every(cluster: Cluster, seconds: float) -> None:
    text = (cluster.conf / "lsf.conf").read_text()
    cluster.configure(lsf_conf="=" + re.sub(r"GSCHED_GPU_INTERVAL=.*", f"GSCHED_GPU_INTERVAL={seconds:g}", text))


def clean_after(cluster: Cluster, probes: int) -> None:
    text = (cluster.conf / "lsb.params").read_text()
    cluster.configure(lsb_params="=" + re.sub(r"GPU_CLEAN_PROBES = .*", f"GPU_CLEAN_PROBES = {probes}", text))


def failed(cluster: Cluster) -> set[int]:
    with cluster.client() as client:
        return {each.gpu.index for host in client.hosts() for each in host.gpus if each.gpu.fault}


@pytest.mark.nightly
def test_the_next_agent_has_not_forgotten(make_cluster: Callable[..., Cluster]) -> None:
    """It also ends a job, and lets a rerunnable one wait until a GPU is well."""
    cluster = make_cluster("--sim-gpus", "2:exclusive_process")

    def say(index: int, *settings: str) -> None:
        cluster.run("gsched", "sim-gpu", str(index), *settings, "--dir", str(cluster.folder))

    cluster.configure(lsb_params="Begin Parameters\nJOB_TERMINATE_INTERVAL = 0.2\nEnd Parameters\n")
    clean_after(cluster, 1_000_000)  # nothing gets clean meanwhile
    probed_every(cluster, 0.3)
    jobs = [cluster.starts(cluster.submit(*more, *ONE, "sleep", "600")) for more in [("-rn",), ("-r",)]]
    ends, again = (view.allocation.hosts[0].gpus[0].index for view in jobs if view.allocation is not None)
    say(ends, "fault=its fan stands still")
    over = cluster.wait(jobs[0].job_id)[0]
    assert over.result is not None and over.result.term_reason == "TERM_GPU"
    assert sentence(over.notes[0]).endswith("has failed: its fan stands still")
    say(again, "xid=79")
    cluster.becomes(jobs[1].job_id, "PEND")
    cluster.kill(f"agent-{cluster.host}")
    cluster.up()
    cluster.until(lambda: failed(cluster) == {ends, again}, "the next agent knows nothing of it")
    say(ends, "fault=")
    clean_after(cluster, 3)
    view = cluster.starts(jobs[1].job_id)
    assert view.attempt == 2 and sentence(view.notes[0]).endswith("has failed: XID 79 (it has fallen off the bus)")
