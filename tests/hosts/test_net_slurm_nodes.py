"""Slurm's commands over four hosts: what they say of nodes, and jobs that name the node they want."""

from __future__ import annotations

import pytest
from netlab import BIN, Host, Lab
from netlab_cluster import SERVICE_USER, SharedCluster, shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

NAMES = "/var/lib/slurm"


class SlurmUser:
    """A user of the cluster with Slurm's names of its commands, on one of the hosts."""

    def __init__(self, cluster: SharedCluster, user: str, host: Host) -> None:
        self.cluster, self.user, self.host = cluster, user, host

    def run(self, *words: str) -> str:
        done = self.cluster.run(f"{NAMES}/{words[0]}", *words[1:], user=self.user, host=self.host)
        return done.stdout.strip()


@pytest.mark.nightly
def test_nodes_partitions_and_a_job_for_one_node(lab: Lab) -> None:
    """sinfo and squeue from another host than the master's; --nodelist is honoured, or the reason names the node."""
    hosts = [lab.host(f"n{number}") for number in (11, 12, 13, 14)]
    cluster = shared_cluster(lab, hosts, sim_gpus="2:exclusive_process")
    for host in hosts:
        host.run(["sh", "-c", f"mkdir -m 755 {NAMES} && {BIN}/gsched names slurm {NAMES}"], check=True)
    alice = SlurmUser(cluster, "alice", hosts[1])
    assert alice.run("sinfo", "-h", "-p", "normal", "-o", "%P %t %D %N %G") == "normal* idle 4 n[11-14] gpu:TeslaK80:2"
    first = alice.run("sbatch", "--parsable", "--nodelist=n13", "--gres=gpu:2", "--wrap", "hostname; sleep 1000")
    cluster.becomes(int(first), "RUN")
    assert alice.run("squeue", "-h", "-j", first, "-o", "%P %T %N") == "normal RUNNING n13"
    assert alice.run("sinfo", "-h", "-p", "normal", "-o", "%t %N").splitlines() == ["idle n[11-12,14]", "mix n13"]

    second = alice.run("sbatch", "--parsable", "-w", "n13", "--gres=gpu:1", "--wrap", "true")
    assert alice.run("squeue", "-h", "-j", second, "-o", "%t %R") == "PD (Resources)"
    assert "0 of 2 free on n13" in " ".join(cluster.run("gjobs", "-l", second).stdout.split())
    anywhere = alice.run("sbatch", "--parsable", "--gres=gpu:2", "--wrap", "sleep 1000")
    cluster.becomes(int(anywhere), "RUN")
    assert alice.run("squeue", "-h", "-j", anywhere, "-o", "%N") != "n13"

    cluster.run("gadmin", "hclose", "n14", user=SERVICE_USER)
    third = alice.run("sbatch", "--parsable", "-w", "n14", "--wrap", "true")
    assert alice.run("squeue", "-h", "-j", third, "-o", "%t %r").startswith("PD ReqNodeNotAvail")
    both = alice.run("sbatch", "--parsable", "-N2", "-w", "n[11-12]", "--wrap", "sleep 1000")
    cluster.becomes(int(both), "RUN")
    assert alice.run("squeue", "-h", "-j", both, "-o", "%N %D") == "n[11-12] 2"
