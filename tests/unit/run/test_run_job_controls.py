"""JOB_CONTROLS: what the site does to a job in place of stopping it, letting it go on, and ending it."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
from run_host import Host, appears

from gsched.model.queues.job_controls import JobControls
from gsched.run.attempts import control_actions
from gsched.run.attempts.control_actions import SuspendReasons
from gsched.run.processes import process_tree

ASKED = SuspendReasons(0x40, 3)
HEARS = 'for name in USR1 USR2 INT TERM; do trap "echo $name >> heard" $name; done\n'
WAITS = "touch ready\nwhile :; do sleep 0.01; done\n"
DEAF = "trap '' INT TERM\n"


async def begin(host, script, **controls):
    order = host.order(script=script + WAITS, controls=JobControls(**controls))
    await host.executor.start(order)
    await appears((host.root / "ready").exists)


def states(host):
    return {each.state for each in host.executor.processes(1, 1)}


def is_stopped(host):
    """Whether all are; a shell that has just forked, by vfork(2), waits in state D for a child that is stopped."""
    return "T" in (found := states(host)) and found <= {"T", "D"}


def heard(host):
    path = host.root / "heard"
    return path.read_text().split() if path.exists() else []


def test_signals_take_the_place_of_stop_and_cont_once(on_host):
    async def scenario(host):
        await begin(host, HEARS, suspend="SIGUSR1", resume="USR2")
        for _ in range(2):
            await host.executor.suspend(1, 1, ASKED)
        await appears(lambda: heard(host) == ["USR1"])
        assert host.executor.is_suspended(1, 1) and states(host).isdisjoint("T")
        for _ in range(2):
            await host.executor.resume(1, 1, acts=True)
        await appears(lambda: heard(host) == ["USR1", "USR2"])
        assert not host.executor.is_suspended(1, 1)

    on_host(scenario)


def test_commands_are_told_whom_and_why_and_follow_each_other(on_host):
    tell = "echo $LSB_SUSP_REASONS $LSB_SUSP_SUBREASONS $LS_EXEC_T $OF_JOB $PWD > $ROOT/told; kill -STOP $LSB_JOBPIDS"

    async def scenario(host):
        suspend = f"{tell}; mkfifo $ROOT/gate; read line < $ROOT/gate"
        environment = host.order().environment | {"ROOT": str(host.root), "OF_JOB": "yes"}
        controls = JobControls(suspend=suspend, resume="kill -CONT $LSB_JOBPIDS; echo $LSB_SUSP_REASONS > $ROOT/again")
        await host.executor.start(host.order(script=WAITS, controls=controls, environment=environment))
        await appears((host.root / "ready").exists)
        await host.executor.suspend(1, 1, ASKED)
        await appears((host.root / "gate").exists)
        await appears(lambda: is_stopped(host))
        assert (host.root / "told").read_text() == "64 3 JOB_CONTROLS yes /tmp\n"
        await host.executor.resume(1, 1, acts=True)
        assert is_stopped(host)  # the command before has not ended
        with open(host.root / "gate", "w") as gate:
            gate.write("go on\n")
        again = host.root / "again"
        await appears(lambda: again.exists() and again.read_text() and "T" not in states(host))
        assert again.read_text() == "\n"

    on_host(scenario)


def test_a_job_that_goes_on_as_usual_does_so_after_the_command_that_stops_it(on_host):
    async def scenario(host):
        await begin(host, "", suspend="kill -STOP $LSB_JOBPIDS")
        await host.executor.suspend(1, 1, ASKED)
        await host.executor.resume(1, 1, acts=True)
        await appears(lambda: host.executor._held["1.1"].action.done())
        assert "T" not in states(host)

    on_host(scenario)


def test_who_is_moved_off_its_gpu_is_stopped_whatever_the_site_does(on_host):
    async def scenario(host):
        await begin(host, HEARS, suspend="SIGUSR1", resume="SIGUSR2")
        await host.executor.suspend(1, 1)
        await appears(lambda: is_stopped(host))
        await host.executor.resume(1, 1)
        assert "T" not in states(host) and heard(host) == []

    on_host(scenario)


@pytest.mark.parametrize(
    ("action", "ends_by"),
    [("TERM", signal.SIGTERM), ("kill -TERM $LSB_JOBPIDS", signal.SIGTERM), ("true", signal.SIGKILL)],
)
def test_an_action_takes_the_place_of_int_and_term_and_kill_follows(on_host, action, ends_by):
    async def scenario(host):
        await begin(host, "trap 'touch interrupted' INT\n", terminate=action)
        await host.executor.terminate(1, 1, 0.2 if ends_by == signal.SIGKILL else 60)
        assert (await host.end_of(1)).signal == ends_by
        assert not (host.root / "interrupted").exists()

    on_host(scenario)


def test_a_command_that_hangs_keeps_no_job_from_its_end(on_host, monkeypatch):
    monkeypatch.setattr(control_actions, "ACTION_S", 10.0)  # in which the command has begun

    async def scenario(host):
        environment = host.order().environment | {"ROOT": str(host.root)}
        command = "trap '' TERM INT HUP; echo $$ > $ROOT/hangs; while :; do sleep 1; done"
        order = host.order(script=DEAF + WAITS, controls=JobControls(terminate=command), environment=environment)
        await host.executor.start(order)
        await appears((host.root / "ready").exists)
        await host.executor.terminate(1, 1, 0.1)
        await appears(lambda: (host.root / "hangs").exists() and (host.root / "hangs").read_text().endswith("\n"))
        pid = int((host.root / "hangs").read_text())
        await host.executor.terminate(1, 1, 0.05)  # whoever is impatient has no second command begun
        assert (await host.end_of(1)).signal == signal.SIGKILL
        await appears(lambda: (found := process_tree.read_process(pid)) is None or found.is_dead)

    on_host(scenario)


def test_a_hanging_command_to_suspend_holds_up_no_end(on_host):
    async def scenario(host):
        await begin(host, "", suspend="while :; do sleep 1; done", terminate="SIGTERM")
        await host.executor.suspend(1, 1, ASKED)
        await host.executor.terminate(1, 1, 60)
        assert (await host.end_of(1)).signal == signal.SIGTERM

    on_host(scenario)


@pytest.mark.parametrize(("defaults", "ends_by"), [(True, signal.SIGTERM), (False, signal.SIGKILL)])
def test_what_fails_is_done_as_usual_where_the_site_wants_that(on_host, defaults, ends_by):
    async def scenario(host):
        await begin(host, "trap '' INT\n", suspend="exit 3", terminate="exit 3", defaults_on_failure=defaults)
        await host.executor.suspend(1, 1, ASKED)
        await appears(lambda: host.executor._held["1.1"].action.done())
        await appears(lambda: is_stopped(host) == defaults)
        await host.executor.terminate(1, 1, 0.3)
        assert (await host.end_of(1)).signal == ends_by

    on_host(scenario)


class Group:
    """A control group that can be frozen, of processes that others find."""

    def __init__(self):
        self.frozen = False

    def freeze(self):
        self.frozen = True
        return True

    def is_frozen(self):
        return self.frozen

    def thaw(self):
        self.frozen = False

    def kill(self):
        self.frozen = False

    def remove(self):
        return True

    def pids(self):
        return []


GATED = "mkfifo $ROOT/gate; read line < $ROOT/gate; exit 3"
"""A command that fails when it is let."""


async def begin_gated(host, script, **controls):
    environment = host.order().environment | {"ROOT": str(host.root)}
    controls = JobControls(suspend=GATED, defaults_on_failure=True, **controls)
    order = host.order(script=script + WAITS, controls=controls, environment=environment)
    await host.executor.start(order)
    await appears((host.root / "ready").exists)
    await host.executor.suspend(1, 1, ASKED)
    await appears((host.root / "gate").exists)


def let_fail(host):
    with open(host.root / "gate", "w") as gate:
        gate.write("go on\n")


def test_what_is_frozen_after_a_command_that_failed_late_goes_on(on_host):
    async def scenario(host):
        await begin_gated(host, "")
        group = host.executor._held["1.1"].group = Group()
        await host.executor.resume(1, 1, acts=True)
        let_fail(host)
        await host.executor._held["1.1"].action
        assert not group.frozen and "T" not in states(host)

    on_host(scenario)


@pytest.mark.parametrize("agents", [1, 2])
def test_what_was_stopped_as_usual_goes_on_before_the_command_that_is_to_let_it(on_host, agents):
    async def scenario(host):
        await begin_gated(host, HEARS, resume="SIGUSR1")
        let_fail(host)
        await host.executor._held["1.1"].action
        await appears(lambda: is_stopped(host))
        later = Host(host.root) if agents == 2 else host
        await later.executor.adopt()
        await later.executor.resume(1, 1, acts=True)
        await appears(lambda: heard(host) == ["USR1"])
        assert "T" not in states(host)
        later.executor.close()

    on_host(scenario)


def test_what_the_site_stops_itself_the_command_alone_lets_go_on(on_host):
    async def scenario(host):
        await begin(host, "", suspend="kill -STOP $LSB_JOBPIDS", resume="true")
        await host.executor.suspend(1, 1, ASKED)
        await host.executor._held["1.1"].action
        await host.executor.resume(1, 1, acts=True)
        await host.executor._held["1.1"].action
        await appears(lambda: is_stopped(host))

    on_host(scenario)


@pytest.mark.parametrize("is_resumed", [False, True])
def test_an_agent_that_comes_later_does_what_the_one_before_had_not(on_host, is_resumed):
    async def scenario(host):
        await begin_gated(host, HEARS, resume="SIGUSR1")
        if is_resumed:
            await host.executor.resume(1, 1, acts=True)
        host.executor.close()
        later = Host(host.root)
        with contextlib.suppress(OSError), open(os.open(host.root / "gate", os.O_WRONLY | os.O_NONBLOCK), "w") as gate:
            gate.write("go on\n")  # the command may have outlived its agent
        (host.root / "gate").unlink()
        await later.executor.adopt()
        for _ in range(2):
            if is_resumed:
                await later.executor.resume(1, 1, acts=True)
            else:
                await later.executor.suspend(1, 1, ASKED)
        if is_resumed:
            await later.executor._held["1.1"].action
            await appears(lambda: heard(host) == ["USR1"])
            assert "T" not in states(later)
        else:
            await appears((host.root / "gate").exists)
            let_fail(host)
            await later.executor._held["1.1"].action
            assert is_stopped(later)
            before = later.executor._held["1.1"].action
            await later.executor.suspend(1, 1, ASKED)
            assert later.executor._held["1.1"].action is before
        later.executor.close()

    on_host(scenario)


def test_an_agent_that_comes_later_does_not_begin_the_command_again(on_host):
    async def scenario(host):
        environment = host.order().environment | {"ROOT": str(host.root)}
        order = host.order(
            script=DEAF + WAITS, controls=JobControls(terminate="echo x >> $ROOT/acted"), environment=environment
        )
        await host.executor.start(order)
        await appears((host.root / "ready").exists)
        await host.executor.terminate(1, 1, 3600)
        await appears((host.root / "acted").exists)
        await host.executor.terminate(1, 1, 0.1)
        assert (await host.end_of(1)).signal == signal.SIGKILL
        assert (host.root / "acted").read_text() == "x\n"

    on_host(scenario)
