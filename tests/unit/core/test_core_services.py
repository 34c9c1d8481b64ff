"""Services of jobs: when they answer, and SERVICE_IDLE, by which one that nobody uses is ended."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, make_config, spec

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.core.attempts.attempt_results import SYSTEM
from gsched.core.command import ServiceAnswers
from gsched.core.instruction import TerminateAttempt
from gsched.model.event import JobNoted, JobServiceAnswered
from gsched.model.jobs.job import Usage
from gsched.model.jobs.job_service import SERVICE_IDLE
from gsched.model.queues.queue import Queue


def world_of(idle_s: int | None = None) -> World:
    return World(make_config("a b", (Queue(name="normal", service_idle_s=idle_s), Queue(name="other"))))


def running(world: World, **changes: Any) -> World:
    world.run(spec(**({"service": "auto"} | changes)))
    assert world.state(1) == "RUN"
    return world


def answers(world: World, port: int = 20_001, host: str = "a", attempt: int = 1, job: int = 1) -> None:
    world.do(ServiceAnswers(job, attempt, host, port, world.now))


def unused(world: World, idle_s: float, host: str = "a") -> None:
    key = world.job(1).key
    world.report(host, usage={key: Usage()}, service_idle={key: idle_s})


def told(world: World, kind: type) -> list[Any]:
    return [event for event in world.events if isinstance(event, kind)]


def ends(world: World) -> list[TerminateAttempt]:
    return [order for order in world.instructions if isinstance(order, TerminateAttempt)]


def test_it_is_noted_once_when_it_answers() -> None:
    world = running(world_of(), hosts=("a",))
    for _ in range(2):
        answers(world)
    assert [event.port for event in told(world, JobServiceAnswered)] == [20_001]
    at = world.now
    world.restart()
    view = world.job(1).view()
    assert (view.service_port, view.service_at) == (20_001, at)


@pytest.mark.parametrize("wrong", [{"host": "b"}, {"attempt": 2}, {"job": 2}])
def test_what_another_host_or_attempt_says_counts_for_nothing(wrong: dict[str, Any]) -> None:
    world = running(world_of(), hosts=("a",))
    answers(world, **wrong)
    assert told(world, JobServiceAnswered) == [] and world.job(1).view().service_port is None


def test_a_job_without_a_service_has_none() -> None:
    world = running(world_of(60), hosts=("a",), service="")
    answers(world)
    unused(world, 1e6)
    assert told(world, JobServiceAnswered) == [] and ends(world) == []


def test_it_is_ended_when_nobody_has_used_it_for_so_long() -> None:
    world = running(world_of(3600), hosts=("a",))
    unused(world, 3599.0)
    assert ends(world) == []
    for idle_s in (3600.0, 3700.0):
        unused(world, idle_s)
    assert [order.reason for order in ends(world)] == [SERVICE_IDLE]
    note = told(world, JobNoted)[-1]
    assert sentence(note.text) == "It is ended: nobody has used its service for 60 min (SERVICE_IDLE of queue normal)"
    assert (world.job(1).kill_by, world.job(1).kill_keyword) == (SYSTEM, SERVICE_IDLE)


@pytest.mark.parametrize("idle_s", [None])
def test_without_the_parameter_none_is_ended(idle_s: int | None) -> None:
    world = running(world_of(idle_s), hosts=("a",))
    unused(world, 1e9)
    assert ends(world) == []


def test_one_that_is_suspended_is_let_alone() -> None:
    world = running(world_of(60), hosts=("a",))
    world.control("stop", 1)
    unused(world, 1e6)
    assert ends(world) == []


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"service": "80"}, "service", "80: the port of a service is auto or from 1024 to 65535"),
        ({"service": "; id"}, "service", "; id: the port of a service is auto or from 1024 to 65535"),
        (
            {"service_users": ("ann",)},
            "service_users",
            "The job has no service (--service): there is nothing that others could use",
        ),
        (
            {"service": "auto", "service_users": tuple(f"u{n}" for n in range(101))},
            "service_users",
            "Too many users of a service: 100 are the most",
        ),
    ],
)
def test_what_no_option_would_say_is_refused(changes: dict[str, Any], field: str, text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        world_of().submit(spec(**changes))
    assert (refused.value.text, refused.value.about) == (text, (field,))


def test_who_may_use_it_can_be_changed_while_it_runs_and_no_more() -> None:
    world = running(world_of())
    assert world.modify(1, service_users=("ann",)) == [""]
    assert world.job(1).spec.service_users == ("ann",)
    with pytest.raises(BadRequest):
        world.modify(1, service="8888")
