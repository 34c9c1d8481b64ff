"""Jobs that hold idle GPUs: from a driver that plays curves, through real daemons, to warnings, mail and the end.

Windows are short here; what counts is in which order things happen, never how fast.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

from gsched.model.views.view import JobView

pytestmark = pytest.mark.system

MIB = 1 << 20
LONG = "1d"
RULES = {
    "kill": "window=2s grace=1s action=kill",
    "requeue": "window=2s grace=1s action=requeue",
    "warn": f"window=2s grace={LONG} action=kill ok=yes",
    "never": f"window={LONG} action=kill",
    "free": "window=2s grace=1s action=kill exempt=project:prod,interactive",
}
WAITS = "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.1)"


def queues() -> str:
    return "".join(f"Begin Queue\nQUEUE_NAME = {name}\nGPU_IDLE = {rule}\nEnd Queue\n" for name, rule in RULES.items())


class Machine:
    """Two GPUs of the fake driver."""

    def __init__(self, state: Path) -> None:
        self.state = state
        lines = ["count=2", "driver=570.86.10", f"since={time.time() - 1000}"]
        for index in range(2):
            uuid = f"GPU-{os.getpid():08x}-3333-4000-8000-{index:012d}"
            lines += [f"gpu.{index}.uuid={uuid}", f"gpu.{index}.mem_mib=81559", f"gpu.{index}.power_limit_mw=300000"]
        state.write_text("\n".join(lines) + "\n")
        self.works(0, 0, 0, 55)

    def say(self, *lines: str) -> None:
        with self.state.open("a") as state:
            state.write("\n".join(lines) + "\n")

    def works(self, index: int, util: int, traffic: int, watts: int) -> None:
        self.say(f"gpu.{index}.util={util}", f"gpu.{index}.mem_util={traffic}", f"gpu.{index}.power_mw={watts * 1000}")

    def hold(self, index: int, pid: int | None) -> None:
        """A process on the GPU; None: no process."""
        processes = "" if pid is None else f"{pid}:{9000 * MIB}"
        self.say(f"gpu.{index}.procs={processes}", f"gpu.{index}.used_mib={0 if pid is None else 9000}")


@pytest.fixture(scope="module")
def machine(driver_folder: Path) -> Machine:
    return Machine(driver_folder / "state")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], machine: Machine) -> Cluster:
    cluster = module_cluster(LD_LIBRARY_PATH=str(machine.state.parent), GSCHED_FAKE_NVML=str(machine.state))
    cluster.configure(
        lsf_conf="GSCHED_GPU_USE_INTERVAL=0.2\n",
        lsb_params="=Begin Parameters\nSBD_SLEEP_TIME = 0.2\nEnd Parameters\n",
        lsb_queues=queues(),
    )
    return cluster


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster, machine: Machine) -> None:
    cluster.end_jobs()
    for index in range(2):
        machine.hold(index, None)
        machine.works(index, 0, 0, 55)
    (cluster.folder / "stop").unlink(missing_ok=True)


def history(cluster: Cluster, job: int) -> str:
    return " ".join(cluster.run("ghist", "-UF", str(job)).stdout.split())


def warned(cluster: Cluster, job: int) -> JobView:
    cluster.until(lambda: cluster.job(job).idle_warning is not None, f"job {job} is not warned")
    return cluster.job(job)


def held(cluster: Cluster, machine: Machine, *words: str) -> int:
    """A job with memory on GPU 0 that waits for the file `stop`."""
    job = cluster.submit(*words, "-gpu", "num=2:mode=shared:j_exclusive=yes", "python", "-c", WAITS)
    machine.hold(0, cluster.starts(job).pid)
    return job


def test_the_endless_loop_is_warned_and_ended(cluster: Cluster) -> None:
    """A job that does nothing on its GPU but keeps a CPU busy: `while True: pass`."""
    (cluster.folder / "repeat.py").write_text("while True:\n    pass\n")
    box = cluster.folder / "box"
    box.mkdir()
    mailer = cluster.folder / "mailer"
    mailer.write_text(f"#!/bin/sh\ncat > {box}/new.$$; mv {box}/new.$$ {box}/$1.$$\n")
    mailer.chmod(0o700)
    cluster.configure(lsf_conf=f"LSB_MAILPROG={mailer}\nLSB_MAILTO=!U@site\n")
    words = ("-q", "kill", "-gpu", "num=1", "-o", "out.%J", "-e", "err.%J", "-u", "ann@site")
    job = cluster.submit(*words, "python3", "repeat.py")
    (view,) = cluster.wait(job)
    assert view.state == "EXIT" and view.result is not None and view.result.term_reason == "TERM_GPU_IDLE"
    told = history(cluster, job)
    first = told.index(f"Warning 1: All 1 GPU(s) of job {job} have done no work for")
    assert first < told.index("It is killed: its GPUs have done no work for") < told.index("TERM_GPU_IDLE: job killed")
    assert "no process of the job" in told and "If they stay idle for 1 s more, the job is killed" in told
    assert told.count("Warning 1:") == 1 and "Warning 2:" not in told
    # The message box, the output, mail, and gjobs -l.
    message = cluster.run("gread", "-w", "-i", "124", str(job)).stdout
    assert f"All 1 GPU(s) of job {job} have done no work for" in message
    line = (cluster.folder / f"err.{job}").read_text()
    assert line.startswith(f"gsched: All 1 GPU(s) of job {job} have done no work for") and line.count("gsched: ") == 1
    assert "gsched:" not in (cluster.folder / f"out.{job}").read_text()
    (mail,) = (path.read_text() for path in box.glob("ann@site.*"))
    assert f"Subject: Job {job}: <python3 repeat.py> holds idle GPUs" in mail and "no process of the job" in mail
    shown = " ".join(cluster.run("gjobs", "-UF", str(job)).stdout.split())
    assert "IDLE GPUS: Warned at" in shown and "It is killed: its GPUs have done no work for" in shown


def test_a_warning_holds_over_killed_daemons_and_is_taken_back_by_work(cluster: Cluster, machine: Machine) -> None:
    job = held(cluster, machine, "-q", "warn", "-o", "log.%J")
    view = warned(cluster, job)
    assert view.idle_warning is not None and view.idle_warning.kind == "held" and view.idle_warning.number == 1
    assert [each.kind for each in sorted(view.idle, key=lambda gpu: gpu.index)] == ["held", "no_process"]
    fields = "gpu_idle_kind gpu_idle_for gpu_idle_since gpu_idle_warned delimiter=','"
    kind, seconds, since, at = cluster.run("gjobs", "-noheader", "-o", fields, str(job)).stdout.strip().split(",")
    assert (kind, bool(since), bool(at)) == ("held", True, True)
    for name in (f"agent-{cluster.host}", "master"):
        before = min(each.idle_s for each in cluster.job(job).idle)
        cluster.kill(name)
        cluster.up()
        # The clock goes on; it has lost what nobody has looked at, and no more.
        cluster.until(
            lambda least=before: (idle := cluster.job(job).idle) and min(each.idle_s for each in idle) > least,
            f"after the {name} was killed nobody counts on",
        )
    assert float(seconds) < cluster.job(job).idle[0].idle_s
    view = cluster.job(job)
    assert view.idle_warning is not None and view.idle_warning.number == 1
    machine.works(0, 90, 40, 250)
    cluster.until(lambda: cluster.job(job).idle_warning is None, "the warning is not taken back")
    assert "Its GPUs work again: the warning of idle GPUs is taken back" in history(cluster, job)
    assert "work again" in cluster.run("gread", "-w", "-i", "124", str(job)).stdout
    machine.works(0, 1, 0, 55)
    view = warned(cluster, job)
    assert view.idle_warning is not None and (view.idle_warning.number, view.idle_warning.kind) == (2, "stopped")
    (cluster.folder / "stop").touch()
    cluster.wait(job)
    told = history(cluster, job)
    assert told.count("Warning 1:") == told.count("Warning 2:") == 1
    assert (cluster.folder / f"log.{job}").read_text().count("gsched: All 2 GPU(s)") == 2


def test_use_without_traffic_and_power_is_told_as_such(cluster: Cluster, machine: Machine) -> None:
    """As a job that hangs in NCCL: 66 of 300 W at 100 %."""
    job = held(cluster, machine, "-q", "warn")
    machine.hold(1, cluster.job(job).pid)
    for index in range(2):
        machine.works(index, 100, 0, 66)
    cluster.until(lambda: {each.kind for each in cluster.job(job).idle} == {"faked"}, "it is not seen as faked")
    cluster.until(lambda: "faked" in cluster.run("gjobs", "-o", "gpu_idle_kind", str(job)).stdout, "it is not told")
    cluster.until(
        lambda: (found := cluster.job(job).idle_warning) is not None and found.kind == "faked", "it is not warned of it"
    )
    assert "use of 100 % and more with memory traffic of at most 0 % and at most 66 W" in history(cluster, job)
    machine.works(0, 100, 40, 250)
    cluster.until(lambda: cluster.job(job).idle_warning is None, "the warning is not taken back")


def test_a_rerunnable_job_is_requeued_and_another_is_not(cluster: Cluster) -> None:
    plain = cluster.submit("-q", "requeue", "-gpu", "num=1", "sleep", "1000")
    again = cluster.submit("-q", "requeue", "-r", "-gpu", "num=1", "sleep", "1000")
    cluster.until(lambda: cluster.job(again).requeues > 0, "it is not requeued")
    assert "Pending: its GPUs did no work for" in history(cluster, again)
    cluster.run("gkill", str(again))
    why = "it is not requeued, for it is not rerunnable"
    cluster.until(lambda: why in history(cluster, plain), "the history does not say why it is not requeued")
    assert cluster.state(plain) == "RUN" and cluster.job(plain).requeues == 0


def test_a_suspended_job_is_not_idle(cluster: Cluster, machine: Machine) -> None:
    job = held(cluster, machine, "-q", "never")
    cluster.until(lambda: cluster.job(job).idle and cluster.job(job).idle[0].idle_s > 0, "nobody counts")
    cluster.run("gstop", str(job))
    cluster.becomes(job, "USUSP")
    since = cluster.job(job).usage.gpus[0].samples  # type: ignore[union-attr]
    cluster.until(lambda: cluster.job(job).usage.gpus[0].samples > since + 3, "nobody looks")  # type: ignore[union-attr]
    stopped = cluster.job(job)
    cluster.until(
        lambda: cluster.job(job).usage.gpus[0].samples > stopped.usage.gpus[0].samples + 5,  # type: ignore[union-attr]
        "nobody looks",
    )
    assert cluster.job(job).idle[0].idle_s == stopped.idle[0].idle_s
    cluster.run("gresume", str(job))
    cluster.until(lambda: cluster.job(job).idle[0].idle_s > stopped.idle[0].idle_s, "nobody counts on")


def test_a_reconfiguration_holds_for_running_jobs(cluster: Cluster, machine: Machine) -> None:
    job = held(cluster, machine, "-q", "never")
    machine.works(0, 15, 0, 60)
    cluster.until(lambda: cluster.job(job).idle, "nobody looks")
    text = (cluster.conf / "lsb.queues").read_text()
    changed = text.replace(RULES["never"], "window=2s util<20% grace=1s action=kill")
    with cluster.files_as_they_are():
        cluster.configure(lsb_queues="=" + changed)
        (view,) = cluster.wait(job)
    assert view.result is not None and view.result.term_reason == "TERM_GPU_IDLE"
    assert "use at most 15 %" in history(cluster, job)


def test_reasons_are_taken_where_the_queue_lets_jobs_give_them(cluster: Cluster, machine: Machine) -> None:
    refused = cluster.run("gsub", "-q", "kill", "--gpu-idle-ok", "mine", "-gpu", "num=1", "true", check=False)
    assert (refused.returncode, refused.stderr) == (
        255,
        "kill: Queue does not let jobs say that their GPUs may be idle (GPU_IDLE has no ok=yes). Job not submitted.\n",
    )
    script = "#BSUB -q kill\n#BSUB --gpu-idle-ok mine\n#BSUB -gpu num=1\ntrue\n"
    refused = cluster.run("gsub", stdin=script, check=False)
    assert refused.returncode == 255 and "line 2 of the script" in refused.stderr
    job = held(cluster, machine, "-q", "warn", "-gpu-idle-ok", "waits for data")
    other = cluster.submit("-q", "never", "sleep", "1000")
    cluster.until(lambda: min((each.idle_s for each in cluster.job(job).idle), default=0) > 3, "it is not idle")
    assert cluster.job(job).idle_warning is None
    assert "Idle GPUs Allowed <waits for data>" in " ".join(cluster.run("gjobs", "-UF", str(job)).stdout.split())
    cluster.run("gmod", "--gpu-idle-okn", str(job))
    warned(cluster, job)
    cluster.run("gmod", "--gpu-idle-ok", "now it does", str(job))
    cluster.until(lambda: cluster.job(job).idle_warning is None, "the warning is not taken back")
    assert "the job is exempt" in history(cluster, job)
    assert "Why its GPUs may be idle changes to : now it does" in history(cluster, job)
    assert "Queue does not let jobs" in cluster.run("gswitch", "never", str(job), check=False).stderr
    cluster.run("gkill", str(other))


def test_who_is_exempt_is_let_alone(cluster: Cluster, machine: Machine) -> None:
    job = held(cluster, machine, "-q", "free", "-P", "prod")
    cluster.until(lambda: min((each.idle_s for each in cluster.job(job).idle), default=0) > 5, "it is not idle")
    assert cluster.state(job) == "RUN" and cluster.job(job).idle_warning is None
    shown = cluster.run("gqueues", "-l", "free").stdout
    rule = "window=2s util<5% memtraffic<1% power<30% grace=1s action=kill exempt=project:prod,interactive ok=no"
    assert rule in " ".join(shown.split())


@pytest.mark.parametrize("how", ["-K", "-I"])
def test_who_waits_at_a_terminal_is_told(cluster: Cluster, how: str) -> None:
    words = ["gsub", how, "-q", "warn", "-gpu", "num=1", "python", "-c", WAITS]
    process = subprocess.Popen(
        words, env=cluster.env, cwd=cluster.folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "have done no work for" in line:
                break
        else:
            raise AssertionError("nothing is said at the terminal")
        assert line.startswith("<<All 1 GPU(s) of job") and line.endswith(">>\n")
        (cluster.folder / "stop").touch()
        rest = process.stderr.read()
        assert process.wait(PATIENCE_S) == 0 and "have done no work" not in rest
    finally:
        process.kill()
        process.wait()
