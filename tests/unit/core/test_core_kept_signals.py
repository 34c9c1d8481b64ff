"""A signal that was acknowledged reaches the job once, also where the job's agent is away when it is asked for."""

from __future__ import annotations

from core_world import World, make_config, spec

from gsched.core.command import SignalsSent
from gsched.core.control.control_context import MOST_OWED
from gsched.core.instruction import SignalAttempt, StartJob, TerminateAttempt
from gsched.model.event import JobSignalsSent

USR1, USR2 = 10, 12


def world_of(hosts: str = "a", **fields: object) -> World:
    world = World(make_config(hosts), connect=False)
    for host in hosts:
        world.connect(host, confirms_signals=True)
    world.run(spec(slots=16 * len(hosts), **fields))
    return world


def signals(world: World, since: int) -> list[tuple[str, int, int]]:
    """Host, signal and number of each that was sent."""
    orders = (order for order in world.instructions[since:] if isinstance(order, SignalAttempt))
    return [(order.host, order.signal, order.number) for order in orders]


def back(world: World, host: str = "a", **hello: object) -> list[tuple[str, int, int]]:
    """The agent is back and holds the job; which signals it gets."""
    since = len(world.instructions)
    world.hello(host, held=((1, 1),), **({"confirms_signals": True} | hello))
    return signals(world, since)


def test_signals_wait_for_an_agent_that_is_away() -> None:
    world = world_of()
    world.disconnect()
    assert world.control("signal", 1, signal=USR1) == world.control("signal", 1, signal=USR2) == [""]
    world.restart()
    assert back(world) == [("a", USR1, 1), ("a", USR2, 2)]
    world.do(SignalsSent(1, 1, "a", 2))
    assert back(world) == []
    assert world.job(1).owed_signals == ()
    world.check_replay()


def test_an_agent_that_has_sent_it_is_not_told_again() -> None:
    """Its word of that got lost with the connection, or that of the master did."""
    world = world_of()
    for number in (USR1, USR2):
        assert world.control("signal", 1, signal=number) == [""]
    assert back(world, signalled={(1, 1): 1}) == [("a", USR2, 2)]
    assert back(world, signalled={(1, 1): 2}) == []
    assert back(world) == []
    world.check_replay()


def test_each_host_of_a_job_gets_it() -> None:
    world = world_of("ab")
    world.disconnect("b")
    assert world.control("signal", 1, signal=USR1) == [""]
    world.do(SignalsSent(1, 1, "a", 1))
    world.do(SignalsSent(1, 1, "a", 1))
    assert back(world, "b") == [("b", USR1, 1)]
    assert back(world, "a") == []
    world.do(SignalsSent(1, 1, "b", 1))
    assert world.job(1).owed_signals == ()
    assert sum(isinstance(event, JobSignalsSent) for event in world.events) == 2
    world.check_replay()


def test_it_comes_behind_the_start_and_before_the_end() -> None:
    world = world_of()
    world.ended(1)
    world.submit()
    world.settle()
    world.disconnect()
    assert world.control("signal", 2, signal=USR1) == [""]
    since = len(world.instructions)
    world.hello(confirms_signals=True)
    assert [type(order) for order in world.orders(since)] == [StartJob, SignalAttempt]
    world.started(2)
    world.disconnect()
    assert world.control("kill", 2) == [""]
    since = len(world.instructions)
    world.hello(held=((2, 1),), confirms_signals=True)
    assert [type(order) for order in world.orders(since)] == [SignalAttempt, TerminateAttempt]


def test_a_step_and_a_target_are_kept_with_it() -> None:
    world = world_of(front_end="slurm")
    world.disconnect()
    assert world.order("signal", 1, signal=USR1, target="main") == [""]
    assert world.order("signal", 1, signal=0, step=3) == [""]
    since = len(world.instructions)
    back(world)
    sent = [order for order in world.instructions[since:] if isinstance(order, SignalAttempt)]
    assert [(order.signal, order.target, order.step) for order in sent] == [(USR1, "main", None), (0, "", 3)]
    world.check_replay()


def test_another_attempt_is_owed_nothing() -> None:
    world = world_of(rerunnable=True)
    world.disconnect()
    assert world.control("signal", 1, signal=USR1) == [""]
    world.wait(100)
    assert world.state(1) == "PEND" and world.job(1).owed_signals == ()
    world.check_replay()


def test_what_is_over_is_owed_nothing() -> None:
    world = world_of()
    assert world.control("signal", 1, signal=USR1) == [""]
    world.ended(1)
    world.do(SignalsSent(1, 1, "a", 1))
    assert world.job(1).owed_signals == () and "JobSignalsSent" not in world.kinds(1)
    world.check_replay()


def test_so_many_are_kept_and_more_are_refused() -> None:
    world = world_of()
    world.disconnect()
    for _ in range(MOST_OWED):
        assert world.control("signal", 1, signal=USR1) == [""]
    assert world.control("signal", 1, signal=USR1) == [f"{MOST_OWED} signals wait for host a already"]
    assert world.control("kill", 1) == [""]
    assert len(back(world)) == MOST_OWED


def test_of_an_agent_that_says_nothing_of_signals_nothing_is_awaited() -> None:
    world = world_of()
    world.hello(held=((1, 1),))
    since = len(world.instructions)
    assert world.control("signal", 1, signal=USR1) == [""]
    assert signals(world, since) == [("a", USR1, 0)] and world.job(1).owed_signals == ()
    world.disconnect()
    world.restart()
    assert world.control("signal", 1, signal=USR2) == [""]
    assert back(world, confirms_signals=False) == [("a", USR2, 1)]
    assert back(world, confirms_signals=False) == [] and world.job(1).owed_signals == ()
    world.check_replay()


def test_a_host_speaks_for_itself() -> None:
    world = world_of("ab")
    assert world.control("signal", 1, signal=USR1) == [""]
    for told in (SignalsSent(1, 1, "c", 1), SignalsSent(1, 2, "a", 1), SignalsSent(7, 1, "a", 1)):
        world.do(told)
    world.do(SignalsSent(1, 1, "a", 9))  # of signals that nobody has asked for
    assert [owed.hosts for owed in world.job(1).owed_signals] == [("b",)]
