"""Pains 6: one sick GPU of eight costs one job, not the host, and comes back when it is clean."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster

from gsched.base.coded_text import sentence
from gsched.model.views.view import JobView

EIGHT = range(8)
ONE = ("-R", "rusage[ngpus_excl_p=1]")


class Machine:
    """Eight GPUs of the driver's, played by a stand-in for its library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = folder / "state"
        self.say("count=8", *(f"gpu.{index}.uuid={self.uuid(index)}" for index in EIGHT))
        self.say(*(f"gpu.{index}.mode=3" for index in EIGHT))

    def uuid(self, index: int) -> str:
        """Of this run alone: the locks on GPUs are the whole machine's."""
        return f"GPU-{os.getpid():08x}-6666-4000-8000-{index:012d}"

    def say(self, *lines: str) -> None:
        with self._state.open("a") as state:
            state.write("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Machine:
    return Machine(driver_folder)


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Machine) -> Cluster:
    made = module_cluster(LD_LIBRARY_PATH=str(machine.folder), GSCHED_FAKE_NVML=str(machine.folder / "state"))
    made.configure(
        lsb_params="Begin Parameters\nJOB_TERMINATE_INTERVAL = 0.2\nEnd Parameters\n",
        lsb_hosts="=Begin Host\nHOST_NAME MXJ\ndefault 16\nEnd Host\n",
        lsf_conf=probed_every(made, 0.3),
    )
    return made


def probed_every(cluster: Cluster, seconds: float) -> str:
    """The cluster's lsf.conf with that interval."""
    text = (cluster.conf / "lsf.conf").read_text()
    return "=" + re.sub(r"GSCHED_GPU_INTERVAL=.*", f"GSCHED_GPU_INTERVAL={seconds:g}", text)


@pytest.fixture(autouse=True)
def all_well(cluster: Cluster, machine: Machine) -> Iterator[None]:
    yield
    cluster.end_jobs()
    machine.say(*(f"gpu.{index}.{what}=0" for index in EIGHT for what in ("err", "delay_ms")), "count=8")
    for index in sick(cluster):
        cluster.run("gadmin", "gpuopen", machine.uuid(index))
    cluster.until(lambda: sick(cluster) == {}, "the GPUs do not become well again")


def sick(cluster: Cluster) -> dict[int, str]:
    """Index -> what is wrong, as people are told."""
    with cluster.client() as client:
        return {
            each.gpu.index: sentence(each.gpu.problem)
            for host in client.hosts()
            for each in host.gpus
            if each.gpu.problem
        }


def wanted(cluster: Cluster, index: int) -> int | None:
    """The recovery action of a GPU."""
    with cluster.client() as client:
        return next(each.gpu.recovery for host in client.hosts() for each in host.gpus if each.gpu.index == index)


def index_of(view: JobView) -> int:
    assert view.allocation is not None
    (held,) = view.allocation.hosts[0].gpus
    return held.index


def test_one_of_eight_is_lost(cluster: Cluster, machine: Machine) -> None:
    jobs = [cluster.submit(*ONE, *more, "sleep", "600") for more in [("-r",), ("-rn",), *[()] * 4]]
    views = [cluster.starts(job) for job in jobs]
    again, ends = index_of(views[0]), index_of(views[1])
    machine.say(f"gpu.{again}.err=15", f"gpu.{ends}.err=15")
    # The rerunnable one runs again, on another GPU; the other one ends and says why.
    (over,) = cluster.wait(jobs[1])
    assert over.result is not None and (over.state, over.result.term_reason) == ("EXIT", "TERM_GPU")
    lost = f"Run 1 lost a GPU: GPU {ends} ({machine.uuid(ends)}) on {cluster.host} has failed: NVML: GPU is lost"
    assert tuple(map(sentence, over.notes)) == (lost,)
    cluster.until(lambda: (now := cluster.job(jobs[0])).attempt == 2 and now.pid is not None, "it does not run again")
    assert index_of(cluster.job(jobs[0])) not in (again, ends)
    told = "".join(cluster.run("ghist", "-l", str(jobs[0])).stdout.split())  # folded anywhere
    assert f"Requeuerequested:GPU{again}({machine.uuid(again)})" in told
    # Nobody else has noticed, and six GPUs take jobs.
    for view in views[2:]:
        now = cluster.job(view.job_id)
        assert (now.state, now.attempt, now.pid, now.notes) == ("RUN", 1, view.pid, ())
    cluster.starts(cluster.submit(*ONE, "sleep", "600"))
    cluster.why_pending(cluster.submit(*ONE, "sleep", "600"))
    shown = cluster.run("ghosts", "-gpu", "-l").stdout
    assert f"ERROR of GPU {again}: NVML: GPU is lost" in shown and shown.count("ERROR of GPU") == 2
    noted = " ".join(cluster.run("ghosts", "-l").stdout.split())
    assert f"GPU {ends} ({machine.uuid(ends)}) is not offered: NVML: GPU is lost" in noted


def test_a_program_that_fails_with_its_gpu_is_run_again(cluster: Cluster, machine: Machine) -> None:
    """It ends by itself, at once, before any probe has seen that the GPU is gone."""
    code = (
        "import os, sys\n"
        "if os.environ['GSCHED_ATTEMPT'] == '1':\n"
        f"    lost = {[machine.uuid(index) for index in EIGHT]}.index(os.environ['GSCHED_GPU_UUIDS'])\n"
        f"    open({str(machine.folder / 'state')!r}, 'a').write(f'gpu.{{lost}}.err=15\\n')\n"
        "    sys.exit(7)"
    )
    view = cluster.wait(cluster.submit("-r", *ONE, "python", "-c", code))[0]
    assert (view.state, view.attempt) == ("DONE", 2), view.notes


def test_fatal_errors_are_heard_at_once_and_others_are_harmless(cluster: Cluster, machine: Machine) -> None:
    cluster.configure(lsf_conf=probed_every(cluster, 3600))
    harmless, fatal = (cluster.starts(cluster.submit(*ONE, "sleep", "600")) for _ in range(2))
    machine.say(f"event={index_of(harmless)}:8:94", f"event={index_of(fatal)}:8:79")
    over = cluster.wait(fatal.job_id)[0]
    assert over.state == "EXIT" and len(over.notes) == 1
    assert sentence(over.notes[0]).endswith("has failed: XID 79 (it has fallen off the bus)")
    told = " ".join(cluster.run("ghist", "-l", str(fatal.job_id)).stdout.split())
    assert "The system ends the job because a GPU of it has failed" in told and "_system_" not in told
    cluster.until(lambda: cluster.job(harmless.job_id).notes != (), "the other one is told nothing")
    now = cluster.job(harmless.job_id)
    where = f"of GPU {index_of(harmless)} ({machine.uuid(index_of(harmless))}) on {cluster.host}"
    assert (now.state, tuple(map(sentence, now.notes))) == (
        "RUN",
        (f"Run 1 had XID 94 (a contained memory error) {where}",),
    )
    assert set(sick(cluster)) == {index_of(fatal)}
    cluster.configure(lsf_conf=probed_every(cluster, 0.3))


def test_one_that_needs_a_reset_is_closed_until_it_was_reset_or_is_opened(cluster: Cluster, machine: Machine) -> None:
    machine.say("gpu.2.recovery=0", "event=2:8:119", "event=3:8:95")
    cluster.until(lambda: set(sick(cluster)) == {2, 3}, "it is not told which have failed")
    assert all("closed until it is reset" in why for why in sick(cluster).values())
    # The agent must be down for a reset, and another one knows what there was.
    cluster.kill(f"agent-{cluster.host}")
    cluster.up()
    cluster.until(lambda: set(sick(cluster)) == {2, 3}, "another agent does not know them")
    machine.say("gpu.2.recovery=1")
    cluster.until(lambda: wanted(cluster, 2) == 1, "it is not seen that the driver wants a reset")
    machine.say("gpu.2.recovery=0")
    cluster.until(lambda: set(sick(cluster)) == {3}, "the one that was reset takes no jobs")
    opened = cluster.run("gadmin", "gpuopen", f"{cluster.host}:3").stderr
    assert opened == f"Open <{cluster.host}:3> ...... done\n"
    cluster.until(lambda: 3 not in sick(cluster), "the one that was opened takes no jobs")
    assert f"GPU <3> ({machine.uuid(3)})" in cluster.run("gadmin", "hhist").stdout


def test_a_probe_that_hangs_frees_nothing_and_starts_nothing(cluster: Cluster, machine: Machine) -> None:
    held = cluster.starts(cluster.submit(*ONE, "sleep", "600"))
    machine.say("delay_ms.nvmlDeviceGetCount_v2=60000")
    cluster.until(lambda: "GPUs unknown: NVML did not answer" in cluster.run("ghosts", "-l").stdout, "nothing is told")
    waiting = cluster.submit(*ONE, "sleep", "600")
    assert "ngpus" in cluster.why_pending(waiting)
    assert cluster.job(held.job_id).state == "RUN"
    machine.say("delay_ms.nvmlDeviceGetCount_v2=0")
    now = cluster.starts(waiting)
    assert index_of(now) != index_of(held)
    assert cluster.job(held.job_id).pid == held.pid


def test_a_gpu_that_hangs_is_not_offered_and_the_others_are(cluster: Cluster, machine: Machine) -> None:
    machine.say("gpu.0.delay_ms=8000")
    cluster.until(lambda: set(sick(cluster)) == {0}, "it is not told which one hangs")
    assert index_of(cluster.starts(cluster.submit(*ONE, "sleep", "600"))) != 0
