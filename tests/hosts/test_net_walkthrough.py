"""The walk-through of `make demo` on three separate hosts with mutual TLS, played by three users at the same time."""

from __future__ import annotations

import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from netlab import Host, Lab
from netlab_cluster import SharedCluster, shared_cluster
from netlab_machine import REPOSITORY, USERS

sys.path.insert(0, str(REPOSITORY / "examples"))
import stage
import walkthrough

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

GPUS = walkthrough.Gpus("ngpus_excl_p", walkthrough.SIMULATED, walkthrough.SIMULATED, is_real=False, has_cuda=False)
OF_ADMINISTRATORS = re.compile(r"gadmin |sed -i|gsched sim-gpu")


class HostStage(stage.Stage):
    """A user on one of the hosts, who looks at this host and has his jobs run there."""

    def __init__(self, cluster: SharedCluster, host: Host, user: str) -> None:
        self.screen, self.checked = stage.Screen(), 0
        self.cluster, self.host, self.user = cluster, host, user
        self.work = cluster.lab.folder / "home" / user
        self.env = {"TRAIN_PRETEND": f"/home/{user}/gpus", "TRAIN_SHARED": "N"}
        pretended = self.work / "gpus"
        pretended.mkdir()
        for index in range(GPUS.total):
            (pretended / str(index)).touch()
        shutil.copy(walkthrough.TRAIN, self.work)
        for name, options in (("train.sh", ""), ("train_many.sh", f" --gpus {GPUS.half}")):
            (self.work / name).write_text(f"#!/bin/sh\npython train.py{options}\n")
        for path in (pretended, *pretended.iterdir(), *self.work.glob("train*")):
            path.chmod(0o755)
            shutil.chown(path, USERS[user], USERS[user])

    def quietly(self, command: str, extra: object = None) -> tuple[int, str]:
        name, user, host = self.host.name, self.user, self.host
        here = {"gsub ": f"gsub -m {name} ", "ghosts -l": f"ghosts -l {name}", "sim-gpu ": f"sim-gpu --host {name} "}
        for words, meant in here.items():
            command = command.replace(words, meant)
        if OF_ADMINISTRATORS.search(command):
            user, host = "root", self.host if "sim-gpu" in command else self.cluster.master_host
        done = host.run(["bash", "-c", f"{{ {command}\n}} 2>&1"], user=user, env=self.env)
        return done.returncode, done.stdout


def play(told: HostStage) -> int:
    """Jobs that say what they need, as many as fit, one that waits, its history, other modes; how much was checked."""
    walkthrough.claim(told, GPUS)
    walkthrough.look_back(told, walkthrough.fill(told, GPUS))
    walkthrough.change_modes(told, GPUS)
    return told.checked


@pytest.mark.nightly
def test_three_users_play_it_on_three_hosts_at_once(lab: Lab) -> None:
    hosts = [lab.host(name) for name in ("h1", "h2", "h3")]
    cluster = shared_cluster(lab, hosts, sim_gpus=f"{GPUS.count}:exclusive_process")
    stages = [HostStage(cluster, host, user) for host, user in zip(hosts, ("alice", "bob", "carol"), strict=True)]
    for each in stages:
        each.until(lambda each=each: GPUS.counter in walkthrough.counts(each.ask("ghosts -l")), "GPUs are counted")
    walkthrough.unseen(stages[0], GPUS)
    with ThreadPoolExecutor(len(stages)) as pool:
        assert all(checked > 20 for checked in pool.map(play, stages))
