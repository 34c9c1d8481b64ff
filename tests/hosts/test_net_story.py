"""Three hosts with a network between them, mutual TLS, three users and simulated GPUs; each daemon is killed once."""

from __future__ import annotations

import re
import subprocess

import pytest
from netlab import Host, Lab
from netlab_cluster import PATIENCE_S, SharedCluster, shared_cluster

from tests.support.reports import printed_in

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

NEEDS_GPU = ["-R", "select[ngpus>0] rusage[ngpus_excl_p=1]"]
GPUS_PER_HOST = 2
SHOW = 'echo "$(hostname) $(id -un) $GSCHED_GPU_UUIDS $$"; while [ ! -e go ]; do sleep 0.1; done; echo over'
"""A job that tells where and as whom it runs and what it was given, and ends when its user says so."""


def said(cluster: SharedCluster, job_id: int, user: str) -> list[str]:
    """Words that a job has written so far, read by its user."""
    return printed_in(cluster.run("cat", f"out.{job_id}", user=user, check=False).stdout).split()


def submit(cluster: SharedCluster, host: Host, user: str) -> int:
    return cluster.submit(*NEEDS_GPU, "-o", "out.%J", SHOW, user=user, host=host)


def test_users_of_three_hosts_share_them_and_outlive_the_death_of_every_daemon(lab: Lab) -> None:
    a, b, c = hosts = [lab.host(name) for name in ("h1", "h2", "h3")]
    cluster = shared_cluster(
        lab, hosts, sim_gpus=f"{GPUS_PER_HOST}:exclusive_process", settings={"GSCHED_HOST_LOST": "120"}
    )
    cluster.until(lambda: cluster.run("gload", "-gpu").stdout.count(f" {GPUS_PER_HOST} ") >= 3, "no GPUs")

    # Two users, from two hosts: one fills the GPUs, the other waits with a reason.
    alices = [submit(cluster, b, "alice") for _ in range(GPUS_PER_HOST * 3)]
    for job_id in alices:
        cluster.until(lambda job_id=job_id: len(said(cluster, job_id, "alice")) == 4, f"job {job_id} does not run")
    places = [said(cluster, job_id, "alice") for job_id in alices]
    assert sorted(host for host, *_ in places) == ["h1", "h1", "h2", "h2", "h3", "h3"]
    assert {user for _, user, *_ in places} == {"alice"}
    assert len({(host, gpu) for host, _, gpu, _ in places}) == len(alices), "a GPU was given twice"
    bobs = submit(cluster, c, "bob")
    why = cluster.run("gjobs", "-p", str(bobs), user="bob", host=c)
    cluster.until(lambda: "ngpus_excl_p" in cluster.run("gjobs", "-p", user="bob", host=c).stdout, why.stdout)

    # Neither may touch the other's.
    refused = cluster.run("gkill", str(alices[0]), user="bob", host=c, check=False)
    assert refused.returncode != 0 and cluster.field(alices[0], "stat") == "RUN"
    assert cluster.run("cat", f"/home/alice/out.{alices[0]}", user="bob", host=c, check=False).returncode != 0
    at, _, _, pid = places[0]
    assert lab.hosts[at].run(["kill", "-9", pid], user="bob").returncode != 0

    # Every daemon dies once; nothing that runs is touched, and commands are answered again.
    cluster.kill(a, "master")
    cluster.start_daemon(a, "master")
    cluster.until(
        lambda: set(cluster.states().values()) <= {"ok", "closed_Full"} and cluster.states(), "not all hosts are back"
    )
    for host in hosts:
        cluster.kill(host, "agent")
        cluster.start_daemon(host, "agent")
    cluster.kill(c, "door")
    waiting = c.popen(["gjobs", "-noheader"], user="bob", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None and "Please wait" in waiting.stderr.readline()
    cluster.start_daemon(c, "door")
    assert str(bobs) in waiting.communicate(timeout=PATIENCE_S)[0]
    cluster.until(lambda: set(cluster.states().values()) == {"ok"}, "not all agents are back")
    states = cluster.run("gjobs", "-noheader", "-o", "stat", "-u", "alice").stdout.split()
    assert states == ["RUN"] * len(alices)
    assert all(lab.hosts[at].run(["kill", "-0", pid], user="alice").returncode == 0 for at, _, _, pid in places)

    # And everything comes to its end, as its user, in its user's files.
    cluster.run("touch", "go", user="alice")
    cluster.run("touch", "go", user="bob")
    for job_id in [*alices, bobs]:
        cluster.becomes(job_id, "DONE")
    assert all(said(cluster, job_id, "alice")[4] == "over" for job_id in alices)
    assert said(cluster, bobs, "bob")[1] == "bob"
    owners = a.run(["stat", "-c", "%U %a", f"/home/alice/out.{alices[0]}", f"/home/bob/out.{bobs}"]).stdout.split()
    assert owners[::2] == ["alice", "bob"]
    history = " ".join(cluster.run("ghist", "-l", *map(str, alices)).stdout.split())
    assert len(re.findall(r"Starting \(Pid", history)) == len(alices), "a job was started twice"
