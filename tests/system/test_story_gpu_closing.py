"""Administrators close single GPUs: through the commands, over restarts of master and agent, and by UUID."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import Cluster

from gsched.base.coded_text import sentence

TWO = range(2)
ONE = ("-R", "rusage[ngpus_excl_p=1]")


class Machine:
    """Two GPUs of the driver's, played by a stand-in for its library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.say("count=2", "gpu.0.mode=3", "gpu.1.mode=3")
        self.order(*TWO)

    def uuid(self, number: int) -> str:
        """Of this run alone: the locks on GPUs are the whole machine's."""
        return f"GPU-{os.getpid():08x}-7777-4000-8000-{number:012d}"

    def say(self, *lines: str) -> None:
        with self.state.open("a") as state:
            state.write("".join(f"{line}\n" for line in lines))

    def order(self, *numbers: int) -> None:
        """Which GPU has which index."""
        self.say(*(f"gpu.{index}.uuid={self.uuid(number)}" for index, number in enumerate(numbers)))
        self.say(*(f"gpu.{index}.bus={number + 4}" for index, number in enumerate(numbers)))


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Machine:
    return Machine(driver_folder)


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Machine) -> Cluster:
    made = module_cluster(LD_LIBRARY_PATH=str(machine.folder), GSCHED_FAKE_NVML=str(machine.state))
    text = (made.conf / "lsf.conf").read_text()
    made.configure(lsf_conf="=" + re.sub(r"GSCHED_GPU_INTERVAL=.*", "GSCHED_GPU_INTERVAL=0.3", text))
    return made


def closed(cluster: Cluster) -> dict[str, tuple[int, str]]:
    """UUID -> index and why, of GPUs that administrators have closed."""
    with cluster.client() as client:
        return {
            each.gpu.uuid: (each.gpu.index, each.closure.comment)
            for host in client.hosts()
            for each in host.gpus
            if each.closure is not None
        }


def test_a_gpu_is_closed_stays_closed_and_is_opened(cluster: Cluster, machine: Machine) -> None:
    first = cluster.starts(cluster.submit(*ONE, "sleep", "600"))
    assert first.allocation is not None
    at = first.allocation.hosts[0].gpus[0].index
    where = f"{cluster.host}:{at}"
    assert cluster.run("gadmin", "gpuclose", where, "-C", "new fan").stderr == f"Close <{where}> ...... done\n"
    # The job that holds it runs on; nobody else gets it.
    second = cluster.starts(cluster.submit(*ONE, "sleep", "600"))
    assert second.allocation is not None and second.allocation.hosts[0].gpus[0].index == 1 - at
    cluster.run("gkill", str(first.job_id))
    cluster.wait(first.job_id)
    waits = cluster.submit(*ONE, "sleep", "600")
    cluster.until(lambda: "new fan" in cluster.why_pending(waits), "the reason does not say that it is closed")
    # What is shown of it.
    table = cluster.run("ghosts", "-gpu").stdout
    assert f"GPU {at} of {cluster.host} is closed by " in table and table.endswith(": new fan\n")
    assert f"GPU {at} is closed by " in cluster.run("ghosts", "-gpu", "-l").stdout
    rows = json.loads(cluster.run("ghosts", "-gpu", "-json").stdout)["RECORDS"]
    assert [row.get("CLOSED_FOR") for row in rows] == ["new fan" if index == at else None for index in TWO]
    # Over kill -9 of both daemons, and under another index.
    for daemon in ("master", f"agent-{cluster.host}"):
        cluster.kill(daemon)
    machine.order(1, 0)
    cluster.up()
    uuid = machine.uuid(at)
    cluster.until(lambda: closed(cluster) == {uuid: (1 - at, "new fan")}, "it is not closed under its new index")
    assert cluster.state(waits) == "PEND"
    opened = cluster.run("gadmin", "gpuopen", uuid).stderr
    assert opened == f"Open <{uuid}> ...... done\n"
    view = cluster.starts(waits)
    assert view.allocation is not None and view.allocation.hosts[0].gpus[0].uuid == uuid
    told = cluster.run("gadmin", "hhist").stdout
    assert f"GPU <{at}> ({uuid}) of host <{cluster.host}> closed by administrator" in told and "new fan" in told
    assert f"GPU <{1 - at}> ({uuid}) of host <{cluster.host}> opened by administrator" in told


def test_bad_names_and_times_are_one_line(cluster: Cluster) -> None:
    for words, told in (
        ((f"{cluster.host}:9",), f"{cluster.host}:9: host {cluster.host} has no GPU 9"),
        (("GPU-nobody",), "GPU-nobody: no host has this GPU"),
        ((f"{cluster.host}:0", "--until", "25:00"), "Bad time specification"),
        ((f"{cluster.host}:0", "--until", "2020:1:1:0:00"), "2020:1:1:0:00"),
    ):
        done = cluster.run("gadmin", "gpuclose", *words, check=False)
        assert done.returncode != 0 and told in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    with cluster.client() as client:
        assert not [sentence(each.gpu.problem) for host in client.hosts() for each in host.gpus if each.closure]


def problems(cluster: Cluster) -> dict[str, tuple[int, str]]:
    """UUID -> index and why, of GPUs that are not offered."""
    with cluster.client() as client:
        return {
            each.gpu.uuid: (each.gpu.index, sentence(each.gpu.problem))
            for host in client.hosts()
            for each in host.gpus
            if each.gpu.problem
        }


def test_one_that_was_lost_and_is_back_under_another_index_is_the_same(cluster: Cluster, machine: Machine) -> None:
    cluster.end_jobs()
    machine.order(0, 1)
    machine.say("count=1")
    gone, there = machine.uuid(1), machine.uuid(0)
    cluster.until(lambda: problems(cluster).keys() == {gone}, "it is not seen that one is gone")
    assert "no longer lists" in problems(cluster)[gone][1]
    cluster.run("gadmin", "gpuclose", gone, "-C", "was lost")
    machine.order(1, 0)
    machine.say("count=2")
    cluster.until(lambda: problems(cluster).get(gone, (1, ""))[1].endswith("was lost"), "it is not back")
    assert problems(cluster).keys() == {gone} and problems(cluster)[gone][0] == 0
    cluster.run("gadmin", "gpuopen", f"{cluster.host}:0")
    views = [cluster.starts(cluster.submit(*ONE, "sleep", "600")) for _ in range(2)]
    held = {part.uuid for view in views if view.allocation for part in view.allocation.hosts[0].gpus}
    assert held == {gone, there}
    cluster.end_jobs()


def test_a_health_program_decides_after_a_job_has_failed(cluster: Cluster, machine: Machine) -> None:
    program = machine.folder / "check"
    log = machine.folder / "checked"

    def checks(what: str) -> None:
        program.write_text(f"#!/bin/sh\necho $GSCHED_GPU_UUID $GSCHED_GPU_CHECK >>{log}\n{what}\n")
        program.chmod(0o755)

    checks("echo testing; echo row 7 is bad; exit 3")
    params = f"GPU_HEALTH_CHECK = {program}\nGPU_HEALTH_TIMEOUT = 2"
    cluster.configure(lsb_params=f"Begin Parameters\n{params}\nEnd Parameters\n")
    done = cluster.wait(cluster.submit(*ONE, "true"))[0]
    assert done.state == "DONE" and not log.exists()
    failed = cluster.wait(cluster.submit(*ONE, "false"))[0]
    assert failed.allocation is not None
    uuid = failed.allocation.hosts[0].gpus[0].uuid
    said = "check, which checks its health, ended with exit code 3: row 7 is bad"
    cluster.until(lambda: {gpu: why for gpu, (_, why) in problems(cluster).items()} == {uuid: said}, "it is not closed")
    assert log.read_text() == f"{uuid} failure\n"
    cluster.kill(f"agent-{cluster.host}")
    cluster.up()
    cluster.until(lambda: uuid in problems(cluster), "another agent does not know it")
    cluster.run("gadmin", "gpuopen", uuid)
    cluster.until(lambda: not problems(cluster), "it stays closed")
    # One that hangs, and one that prints without end.
    for what in ("sleep 600; exit 0", "exec yes"):
        checks(what)
        cluster.wait(cluster.submit(*ONE, "false"))
        told = "ended with exit code" if "yes" in what else "did not end within 2 s"
        cluster.until(lambda told=told: any(told in why for _, why in problems(cluster).values()), f"{what}: not named")
        for each in problems(cluster):
            cluster.run("gadmin", "gpuopen", each)
        cluster.until(lambda: not problems(cluster), "it stays closed")
