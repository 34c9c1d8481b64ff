"""Processes that SIGKILL does not end: named, waited for, and nothing else waits for them.

A file system that nobody answers for holds real ones (root only); elsewhere signals get lost on their way.
"""

from __future__ import annotations

import os
import signal

import pytest
from run_host import Host, appears

from gsched.run.order import JobStep
from gsched.run.processes import process_tree
from gsched.run.supervisor.run_limits import RunLimitGuard


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little patience of the executor; that of supervisors is as always."""
    monkeypatch.setattr(process_tree, "UNKILLABLE_AFTER_S", 0.2)


def state_of(pid: int) -> str:
    process = process_tree.read_process(pid)
    return process.state if process is not None else ""


@pytest.mark.needs_root
def test_a_job_that_hangs_in_the_kernel_is_named_and_does_not_end(on_host, at_once, hang, tmp_path):
    """pains 21: nothing is given back while it is there; when it is gone, all goes on by itself."""

    async def scenario(host: Host) -> None:
        await host.executor.start(host.order(f"cat {hang.path}"))
        started = await host.start_of(1)
        await appears(hang.asked.exists)
        await host.executor.terminate(1, 1, 0.05)
        await host.until(lambda: host.unkillable)
        assert host.unkillable == {(1, 1): [(started.pid, "cat")]}
        assert state_of(started.pid) == "D"
        assert not host.ended
        assert (await host.run("echo on", 2)).succeeded  # the host goes on
        assert host.executor.running() == [(1, 1)]
        hang.release()
        assert (await host.end_of(1)).signal == signal.SIGINT

    on_host(scenario)


@pytest.mark.needs_root
def test_what_a_job_leaves_hanging_in_the_kernel_holds_its_end_up(on_host, hang, tmp_path):
    """pains 21: the job is over, but its slots and GPUs are not free before the process is gone."""

    async def scenario(host: Host) -> None:
        leaves = f"setsid cat {hang.path} & echo $! >{tmp_path}/pid; until [ -e {hang.asked} ]; do :; done; exit 3"
        await host.executor.start(host.order(leaves))
        await host.until(lambda: host.unkillable)
        assert host.unkillable == {(1, 1): [(int((tmp_path / "pid").read_text()), "cat")]}
        assert not host.ended
        host.executor.close()
        later = Host(tmp_path)  # the agent was restarted meanwhile
        await later.executor.adopt()
        await later.until(lambda: later.unkillable)
        assert later.unkillable == host.unkillable
        hang.release()
        result = await later.end_of(1)
        assert (result.exit_code, result.problem) == (3, "")
        later.executor.close()

    on_host(scenario)


# -- where signals get lost -------------------------------------------------------------------------------------------


@pytest.fixture
def lost_kills(monkeypatch: pytest.MonkeyPatch, at_once: None) -> list[int]:
    """Process ids whose SIGKILL has got lost; clear `monkeypatch` to let them through."""
    lost: list[int] = []
    real = process_tree.send

    def send(process: process_tree.Process, signum: int) -> str:
        if signum != signal.SIGKILL:
            return real(process, signum)
        lost.append(process.pid)
        return ""

    monkeypatch.setattr(process_tree, "send", send)
    return lost


def test_a_process_that_is_not_ours_to_end_is_named(on_host, at_once, monkeypatch):
    """A job that has become root by sudo, of an agent that is not: it runs on, and that is said."""
    monkeypatch.setattr(process_tree, "send", lambda process, signum: f"process {process}: Operation not permitted")

    async def scenario(host: Host) -> None:
        await host.executor.start(host.order("sleep 60"))
        started = await host.start_of(1)
        await host.executor.terminate(1, 1, 0.05)
        await host.until(lambda: host.unkillable)
        assert host.unkillable == {(1, 1): [(started.pid, "sleep")]}
        monkeypatch.undo()
        os.kill(started.pid, signal.SIGKILL)
        await host.end_of(1)

    on_host(scenario)


def test_a_job_that_a_kill_has_missed_is_killed_again(on_host, at_once, monkeypatch):
    """A look at all processes is not one moment: who kills a job by `gkill -r` must not have to do it twice."""
    real = process_tree.scan
    looks: list[int] = []

    def scan() -> dict[int, process_tree.Process]:
        looks.append(len(looks))
        return {} if len(looks) == 1 else real()

    async def scenario(host: Host) -> None:
        await host.executor.start(host.order("sleep 60"))
        await host.start_of(1)
        monkeypatch.setattr(process_tree, "scan", scan)
        await host.executor.signal(1, 1, signal.SIGKILL)
        assert (await host.end_of(1)).signal == signal.SIGKILL
        assert not host.unkillable

    on_host(scenario)


def test_what_follows_a_job_is_not_killed_again(on_host, at_once, tmp_path):
    """It was the job that was meant: post-execution commands take what time they need."""

    async def scenario(host: Host) -> None:
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        post = f"trap 'touch {tmp_path}/cut' TERM; read line <{gate}; touch {tmp_path}/post"
        await host.executor.start(host.order("sleep 60", last=(JobStep(command=post, what="a step"),)))
        await host.start_of(1)
        await host.executor.signal(1, 1, signal.SIGKILL)
        await appears(lambda: host.executor._held["1.1"].is_killed_again)
        gate.write_text("go on\n")
        assert (await host.end_of(1)).signal == signal.SIGKILL
        assert (tmp_path / "post").exists() and not (tmp_path / "cut").exists()

    on_host(scenario)


@pytest.mark.parametrize("how", ["terminate", "signal", "unsupervised"])
def test_who_is_there_after_sigkill_is_named_once(on_host, lost_kills, monkeypatch, how):
    async def scenario(host: Host) -> None:
        await host.executor.start(host.order(f"trap '' INT TERM; >{host.root}/deaf; while :; do sleep 0.05; done"))
        started = await host.start_of(1)
        await appears((host.root / "deaf").exists)
        if how == "unsupervised":
            os.kill(host.supervisor_pid(), signal.SIGKILL)
            await appears(lambda: host.executor._held["1.1"].unsupervised is not None)
        if how == "signal":
            await host.executor.signal(1, 1, signal.SIGKILL)
        else:
            await host.executor.terminate(1, 1, 0.05)
        await host.until(lambda: host.unkillable)
        assert started.pid in lost_kills
        assert [pid for pid, _ in host.unkillable[1, 1]].count(started.pid) == 1
        assert not host.ended
        monkeypatch.undo()
        os.kill(started.pid, signal.SIGKILL)
        await host.end_of(1)

    on_host(scenario)


def test_a_limit_that_does_not_end_the_job_is_seen_to_be_helpless():
    guard = RunLimitGuard(10.0, {}, 1.0, find=list)
    seen = []
    while guard.due < 30.0:
        ran_s = guard.due
        guard.act(ran_s, 0.0)
        seen.append((ran_s, guard.is_helpless(ran_s)))
    killing_from = 13.0  # USR2, INT, TERM, KILL
    assert [helpless for _, helpless in seen] == [
        ran_s >= killing_from + process_tree.UNKILLABLE_AFTER_S for ran_s, _ in seen
    ]
    assert seen[-1][1]
