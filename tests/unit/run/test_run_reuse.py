"""A supervisor whose job is over runs the next one of the same user: one at a time, and nothing reaches another."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from types import SimpleNamespace

import pytest
from run_host import Host, appears
from test_run_crashes import Doomed

from gsched.run import agent_line
from gsched.run.account import UnixAccount
from gsched.run.attempts import supervisor_pool
from gsched.run.order import JobStep
from gsched.run.processes import process_tree


def is_gone(pid: int) -> bool:
    process = process_tree.read_process(pid)
    return process is None or process.is_dead


def open_files(pid: int) -> list[str]:
    found = (os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd"))
    return sorted(each for each in found if not each.startswith("socket:"))


async def idle_supervisor(host: Host, job_id: int = 1, **fields: object) -> int:
    """Process id of the supervisor of a job that is over."""
    await host.run("true", job_id, **fields)
    pid = host.supervisor_pid(job_id)
    assert not is_gone(pid)
    return pid


def test_jobs_one_after_another_have_one_supervisor_and_nothing_of_each_other(on_host):
    async def scenario(host):
        for job in range(1, 41):
            result = await host.run(
                f"echo $WHICH; ls /proc/self/fd | wc -l; exit {job}", job, environment={"WHICH": f"{job}"}
            )
            assert result.exit_code == job
        assert {host.supervisor_pid(job) for job in range(1, 41)} == {host.supervisor_pid(1)}
        outputs = [host.output(job).split() for job in range(1, 41)]
        assert [which for which, _ in outputs] == [str(job) for job in range(1, 41)]
        assert len({files for _, files in outputs}) == 1

    on_host(scenario)


def test_a_supervisor_that_waits_has_nothing_of_its_job(on_host):
    async def scenario(host):
        pid = await idle_supervisor(host, umask=0o27)
        before = open_files(pid)
        await host.run("cd /tmp; umask 0; exit 3", 2)
        assert host.supervisor_pid(2) == pid
        assert open_files(pid) == before
        assert not [path for path in before if str(host.spool) in path]
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert process_tree.family(pid) == []
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
        assert status["Umask"] == "0077"

    on_host(scenario)


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("sleep 100 & echo $!", {}),
        ("true", {"first": (JobStep(command="true", what="the job's pre-exec command"),)}),
        ("true", {"last": (JobStep(command="true", what="the job's post-exec command"),)}),
        ("true", {"gpu_lock_uuids": ("GPU-0",)}),
        ("true", {"cpus": (min(os.sched_getaffinity(0)),)}),
        ("true", {"cwd": "/nonexistent"}),
    ],
    ids=["left running", "step before", "step after", "lock", "cpus", "not started"],
)
def test_where_anything_may_be_left_the_supervisor_ends(on_host, command, fields):
    async def scenario(host):
        await host.run(command, 1, **fields)
        await appears(lambda: is_gone(host.supervisor_pid(1)))
        await idle_supervisor(host, 2)
        assert host.supervisor_pid(2) != host.supervisor_pid(1)

    on_host(scenario)


def test_as_many_jobs_as_run_together_have_as_many_supervisors(on_host):
    async def scenario(host):
        for job in (1, 2, 3):
            await host.executor.start(host.order("until test -e go; do sleep 0.01; done", job))
            await host.start_of(job)
        first = {host.supervisor_pid(job) for job in (1, 2, 3)}
        (host.root / "go").touch()
        for job in (1, 2, 3):
            await host.end_of(job)
        for job in (4, 5, 6):
            await host.executor.start(host.order("until test -e on; do sleep 0.01; done", job))
            await host.start_of(job)
        assert len(first) == 3
        assert {host.supervisor_pid(job) for job in (4, 5, 6)} == first
        (host.root / "on").touch()
        for job in (4, 5, 6):
            assert (await host.end_of(job)).exit_code == 0

    on_host(scenario)


def test_no_more_than_so_many_take_further_orders(on_host, monkeypatch):
    async def scenario(host):
        monkeypatch.setattr(supervisor_pool, "MOST_LINKS", 1)
        for job in (1, 2):
            await host.executor.start(host.order("until test -e go; do sleep 0.01; done", job))
            await host.start_of(job)
        (host.root / "go").touch()
        for job in (1, 2):
            await host.end_of(job)
        await appears(lambda: is_gone(host.supervisor_pid(2)))
        await idle_supervisor(host, 3)
        assert host.supervisor_pid(3) == host.supervisor_pid(1)

    on_host(scenario)


def test_one_that_waits_in_vain_ends(on_host, monkeypatch):
    async def scenario(host):
        monkeypatch.setattr(supervisor_pool, "IDLE_S", 0.05)
        pid = await idle_supervisor(host)
        await appears(lambda: is_gone(pid))
        await idle_supervisor(host, 2)

    on_host(scenario)


@pytest.mark.fault
def test_one_that_is_killed_while_it_waits_costs_nothing(on_host):
    async def scenario(host):
        pid = await idle_supervisor(host)
        os.kill(pid, signal.SIGKILL)
        assert (await host.run("exit 5", 2)).exit_code == 5
        assert host.supervisor_pid(2) != pid
        assert host.ended[1, 1].exit_code == 0

    on_host(scenario)


@pytest.mark.fault
def test_one_that_is_killed_with_an_order_that_it_has_not_read_starts_it_once(on_host):
    async def scenario(host):
        pid = await idle_supervisor(host)
        os.kill(pid, signal.SIGSTOP)
        await host.executor.start(host.order("echo ran >> ran; exit 5", 2))
        os.kill(pid, signal.SIGKILL)
        assert (await host.end_of(2)).exit_code == 5
        assert (host.root / "ran").read_text() == "ran\n"

    on_host(scenario)


@pytest.mark.fault
def test_one_that_is_killed_takes_the_exit_status_of_its_job_and_of_no_other(on_host):
    async def scenario(host):
        pid = await idle_supervisor(host)
        await host.executor.start(host.order("until test -e go; do sleep 0.01; done; exit 5", 2))
        await host.start_of(2)
        assert host.supervisor_pid(2) == pid
        os.kill(pid, signal.SIGKILL)
        await appears(lambda: is_gone(pid))
        (host.root / "go").touch()
        lost = await host.end_of(2)
        assert (lost.started, lost.exit_code, lost.signal) == (True, None, None)
        assert host.ended[1, 1].exit_code == 0
        assert (await host.run("exit 6", 3)).exit_code == 6

    on_host(scenario)


@pytest.mark.fault
def test_a_later_job_is_ended_and_no_other_by_who_ends_it(on_host):
    async def scenario(host):
        pid = await idle_supervisor(host)
        await host.executor.start(host.order("exec sleep 100", 2))
        await host.start_of(2)
        await host.executor.terminate(1, 1, 0.1)
        await host.executor.start(host.order("until test -e go; do sleep 0.01; done", 3))
        await host.start_of(3)
        assert (host.supervisor_pid(2), host.ended.keys()) == (pid, {(1, 1)})
        await host.executor.terminate(2, 1, 0.1)
        assert (await host.end_of(2)).signal is not None
        (host.root / "go").touch()
        assert (await host.end_of(3)).exit_code == 0

    on_host(scenario)


def test_an_agent_that_ends_leaves_none_that_wait(on_host):
    async def scenario(host):
        pid = await idle_supervisor(host)
        host.executor.close()
        await appears(lambda: is_gone(pid))

    on_host(scenario)


@pytest.mark.fault
def test_an_agent_that_is_killed_leaves_none_that_wait_and_loses_no_job(on_host):
    async def scenario(host):
        doomed = Doomed(host, [host.order("true", 1)])
        doomed.says("ended")
        pid = host.supervisor_pid(1)
        os.kill(pid, signal.SIGSTOP)
        doomed.kill()
        os.kill(pid, signal.SIGCONT)
        await appears(lambda: is_gone(pid))

    on_host(scenario)


@pytest.mark.fault
def test_an_order_that_a_killed_agent_has_given_is_run_once(on_host):
    """By who has read it, or by who the next agent asks: the claim decides."""

    async def scenario(host):
        pid = await idle_supervisor(host)
        os.kill(pid, signal.SIGSTOP)
        await host.executor.start(host.order("echo ran >> ran; exit 5", 2))
        again = Host(host.root)
        host.executor.close()  # what is in the socket stays there
        try:
            await again.executor.adopt()
            os.kill(pid, signal.SIGCONT)
            assert (await again.end_of(2)).exit_code == 5
            await appears(lambda: is_gone(pid))
            assert (host.root / "ran").read_text() == "ran\n"
        finally:
            again.executor.close()

    on_host(scenario)


@pytest.mark.parametrize(("apart_s", "is_in_a_row"), [(0.001, True), (1.0, False)])
def test_orders_that_follow_each_other_are_told_so(apart_s: float, is_in_a_row: bool):
    """Those are spawned also where they are to be in a group: to join one takes milliseconds after a pause."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def story() -> None:
        pool = supervisor_pool.SupervisorPool()
        now = 100.0
        pool._loop = SimpleNamespace(time=lambda: now, call_later=asyncio.get_running_loop().call_later)  # type: ignore[assignment]
        watch = SimpleNamespace(redirect=lambda gone: None, close=lambda: None)
        link = pool.link(1, 1, watch, here)  # type: ignore[arg-type]
        for number in (1, 2):
            pool.keep(None, link)
            assert pool.give(None, f"{number}.1") is link
            assert agent_line.next_name(there.fileno()) == (f"{number}.1", number == 2 and is_in_a_row)
            now += apart_s
        pool.close()

    with here, there:
        asyncio.run(story())


def test_one_serves_its_own_user_alone():
    class Link:
        def __init__(self) -> None:
            self.given: list[tuple[str, bool]] = []
            self.idle_since = 0.0
            self.watch = self

        def redirect(self, gone: object) -> None:
            del gone

        def give(self, name: str, *, is_in_a_row: bool) -> bool:
            self.given.append((name, is_in_a_row))
            return True

        def close(self) -> None:
            return None

    async def story() -> None:
        pool = supervisor_pool.SupervisorPool()
        anna, ben = (UnixAccount(name=name, uid=uid, gid=uid) for name, uid in (("anna", 1), ("ben", 2)))
        with_another_group = UnixAccount(name="anna", uid=1, gid=1, groups=(1, 7))
        link = Link()
        pool.keep(anna, link)  # type: ignore[arg-type]
        for other in (ben, None, with_another_group):
            assert pool.give(other, "1.1") is None
        assert pool.give(anna, "2.1") is link  # type: ignore[comparison-overlap]
        assert pool.give(anna, "3.1") is None
        assert link.given == [("2.1", True)], "an order was asked for just before"
        pool.close()

    asyncio.run(story())
