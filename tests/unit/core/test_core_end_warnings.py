"""A job on several hosts is warned of its run limit on all of them, when its first host has warned it."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, make_config, spec

from gsched.core.command import AttemptWarned
from gsched.core.instruction import WarnAttempt
from gsched.model.event import JobEndWarned


def world_of(signal: str, **more: Any) -> World:
    world = World(make_config("ab"))
    wanted = {"slots": 32, "run_limit_s": 3600, "warning_signal": signal, "warning_s": 60, **more}
    world.run(spec(**wanted))
    return world


def warned(world: World, host: str = "a", ends_by: float | None = 5000.0) -> list[WarnAttempt]:
    since = len(world.instructions)
    world.do(AttemptWarned(1, 1, host, ends_by))
    return [order for order in world.instructions[since:] if isinstance(order, WarnAttempt)]


def test_other_hosts_send_what_glaunch_does_not_pass_on_and_tell_until_when() -> None:
    world = world_of("URG", saves_on_signal=True)
    assert warned(world) == [WarnAttempt("b", 1, 1, 23, 5000.0)]
    assert warned(world) == []
    assert sum(isinstance(event, JobEndWarned) for event in world.events) == 1
    world.check_replay()


@pytest.mark.parametrize("signal, more", [("TERM", {}), ("URG", {"warns_main": True})])
def test_what_comes_another_way_or_is_for_the_script_alone_is_not_sent_there(signal: str, more: dict[str, Any]) -> None:
    world = world_of(signal, saves_on_signal=True, **more)
    assert warned(world) == [WarnAttempt("b", 1, 1, 0, 5000.0)]


def test_without_a_signal_and_a_time_there_is_nothing_to_tell() -> None:
    assert warned(world_of("TERM"), ends_by=None) == []


def test_a_host_that_comes_back_hears_it_again() -> None:
    world = world_of("URG")
    warned(world)
    world.restart()
    world.hello("a", held=((1, 1),))
    assert warned(world) == []
    since = len(world.instructions)
    world.hello("b", held=((1, 1),))
    assert WarnAttempt("b", 1, 1, 23, 5000.0) in world.instructions[since:]


def test_another_host_than_the_first_has_no_say() -> None:
    world = world_of("URG")
    assert warned(world, host="b") == [] and not world.job(1).end_warned


def test_one_that_is_being_ended_is_not_warned() -> None:
    world = world_of("URG")
    world.control("kill", 1)
    assert warned(world) == []
