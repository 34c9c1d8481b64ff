"""What an administrator could do so that a job starts: each measure does it, no part is too much, nobody is robbed.

Clusters are made at random from a seed, and a measure is applied to a second one of the same seed by the commands
that are told.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress

import pytest
from core_measures import applied
from core_world import EXCLUSIVE, SHARED, World, gpu_spec, gpus, make_config, spec
from test_core_start_changes import asked, random_spec

from gsched.base.errors import GschedError
from gsched.core.command import ControlGpus, ExplainJob
from gsched.model.queues.queue import Queue
from gsched.model.views.explanation import AdminMeasure

BUSY = 6
"""Seed of a cluster on which administrators could do something for more than one job."""


def close_gpus(world: World, *names: str) -> None:
    world.do(ControlGpus("root", True, "close", names))


def told(world: World, job_id: int) -> list[tuple[str, ...]]:
    return [each.commands for each in asked(world, job_id).measures]


def is_started(world: World, job_id: int) -> bool:
    return world.job(job_id).allocation is not None


def waiting_of(world: World) -> list[int]:
    return [job.job_id for job in world.engine.state.jobs.values() if job.state == "PEND" and not job.allocation]


# -- single measures --------------------------------------------------------------------------------------------------


def test_a_host_that_an_administrator_has_closed_but_no_other() -> None:
    world = World(make_config(hosts=("a", "b", "c")))
    world.hosts("close", "b", "c")
    world.disconnect("c")
    world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(2))
    world.settle()
    (found,) = asked(world, waiting).measures
    assert (found.commands, found.hosts) == (("gadmin hopen b",), ("b",))
    applied(world, found)
    assert world.state(waiting) == "RUN"


def test_gpus_that_are_closed_and_not_one_more_than_it_needs() -> None:
    world = World()
    close_gpus(world, "a:1", "a:2", "a:3")
    (waiting,) = world.submit(gpu_spec(2))
    world.settle()
    assert told(world, waiting) == [("gadmin gpuopen a:1",), ("gadmin gpuopen a:2",), ("gadmin gpuopen a:3",)]
    (more,) = world.submit(gpu_spec(4))
    world.control("kill", waiting)
    world.settle()
    assert told(world, more) == [("gadmin gpuopen a:1", "gadmin gpuopen a:2", "gadmin gpuopen a:3")]
    applied(world, asked(world, more).measures[0])
    assert world.state(more) == "RUN"


def test_a_gpu_that_has_failed_beside_is_not_opened() -> None:
    world = World()
    close_gpus(world, "a:0")
    world.report(gpus=gpus(1, problem="broken"))
    (waiting,) = world.submit(gpu_spec(1))
    world.settle()
    assert told(world, waiting) == []


def test_a_queue_that_is_inactivated() -> None:
    world = World()
    world.queues("inactivate", "normal")
    (waiting,) = world.submit(spec())
    world.settle()
    (found,) = asked(world, waiting).measures
    assert found.commands == ("gadmin qact normal",)
    applied(world, found)
    assert world.state(waiting) == "RUN"


def test_two_measures_where_neither_is_enough() -> None:
    world = World()
    world.hosts("close", "a")
    world.queues("inactivate", "normal")
    (waiting,) = world.submit(spec())
    world.settle()
    assert [sorted(each) for each in told(world, waiting)] == [["gadmin hopen a", "gadmin qact normal"]]


@pytest.mark.parametrize(
    ("wanted", "commands"),
    [
        (1, "grsvmod -n 2 -gpu 3 -m a night"),
        (3, "grsvmod -n 2 -gpu 1 -m a night"),
        (4, "grsvmod -n 2 -gpu 0 -m a night"),
    ],
)
def test_a_reservation_is_left_as_much_as_can_be(wanted: int, commands: str) -> None:
    world = World()
    world.reserve(
        name="night", users=("bob",), start=world.now, end=world.now + 3600, slots_on={"a": 2}, gpus_on={"a": 4}
    )
    (waiting,) = world.submit(gpu_spec(wanted))
    world.settle()
    found = asked(world, waiting).measures
    assert found[0].commands == (commands,)
    applied(world, found[0])
    assert world.state(waiting) == "RUN"


def test_a_reservation_that_must_go() -> None:
    world = World()
    world.reserve(name="night", users=("bob",), start=world.now, end=world.now + 3600, gpus_on={"a": 4})
    (waiting,) = world.submit(gpu_spec(4))
    world.settle()
    assert told(world, waiting) == [("grsvdel night",)]


def test_one_that_comes_before_it_takes_the_place() -> None:
    world = World(make_config(hosts=("a", "b")))
    world.hosts("close", "b")
    world.run(gpu_spec(4))
    first, second = world.submit(gpu_spec(4), gpu_spec(4))
    world.settle()
    assert told(world, first) == [("gadmin hopen b",)]
    assert told(world, second) == []


def test_none_where_no_administrator_has_done_anything() -> None:
    world = World()
    world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(4))
    world.settle()
    assert told(world, waiting) == []


# -- random clusters --------------------------------------------------------------------------------------------------


def closed_world(seed: int) -> tuple[World, list[int]]:
    """A cluster of which administrators have closed much, the same for the same seed; and the jobs that wait."""
    rng = random.Random(seed)
    hosts = ("a", "b", "c")[: rng.randint(1, 3)]
    queues = (
        Queue(name="normal", priority=30, exclusive=True, backfill=rng.random() < 0.7),
        Queue(name="short", priority=40, exclusive=True),
        Queue(name="night", priority=20, hosts=hosts[:1]),
    )
    world = World(make_config(hosts=hosts, queues=queues))
    for host in hosts:
        mode = rng.choice([EXCLUSIVE, SHARED])
        world.report(host, gpus=gpus(rng.randint(1, 4), mode, host, memory_mib=80_000, used_mib=0))
        if rng.random() < 0.4:
            close_gpus(world, f"{host}:0")
        if rng.random() < 0.3:
            with suppress(GschedError):
                world.reserve(
                    name=f"r{host}", users=("bob",), start=world.now, end=world.now + 7200, **reserved(rng, host)
                )
    world.hosts("close", *rng.sample(hosts, rng.randint(0, len(hosts) - 1)))
    if rng.random() < 0.3:
        world.queues("inactivate", rng.choice(["normal", "short", "night"]))
    for _ in range(rng.randint(4, 10)):
        with suppress(GschedError):  # what no host could ever give is refused
            world.submit(random_spec(rng, hosts))
        if rng.random() < 0.5:
            world.settle()
    world.settle()
    return world, waiting_of(world)


def reserved(rng: random.Random, host: str) -> dict[str, dict[str, int]]:
    return {"slots_on": {host: rng.randint(0, 16)}, "gpus_on": {host: rng.randint(1, 2)}}


def check_measures(seed: int) -> int:
    world, waiting = closed_world(seed)
    count = 0
    for job_id in waiting:
        before = world.engine.state.dump()
        found = asked(world, job_id)
        assert world.engine.state.dump() == before
        assert [each for each in found.measures if not each.changes or not each.commands] == []
        for each in found.measures:
            other = applied_elsewhere(seed, each, each.commands)
            assert is_started(other, job_id), (seed, job_id, each.commands)
            hosts = tuple(part.host for part in other.job(job_id).allocation.parts)  # type: ignore[union-attr]
            assert hosts == each.hosts, (seed, each.commands)
            check_no_command_is_too_much(seed, job_id, each)
            count += 1
    return count


def applied_elsewhere(seed: int, measure: AdminMeasure, commands: Sequence[str]) -> World:
    other, _ = closed_world(seed)
    applied(other, measure, commands)
    return other


def check_no_command_is_too_much(seed: int, job_id: int, found: AdminMeasure) -> None:
    for left_out in found.commands if len(found.commands) > 1 else ():
        rest = [each for each in found.commands if each != left_out]
        assert not is_started(applied_elsewhere(seed, found, rest), job_id), (seed, found.commands, left_out)


@pytest.mark.slow
def test_every_measure_starts_the_job_and_no_part_of_it_is_too_much() -> None:
    assert sum(map(check_measures, range(8))) > 4


@pytest.mark.nightly
def test_the_same_on_thousands_of_clusters() -> None:
    assert sum(map(check_measures, range(8, 3_000))) > 1_500


@pytest.mark.slow
def test_in_turns_the_same_is_found() -> None:
    world, waiting = closed_world(BUSY)
    assert sum(bool(asked(world, job_id).measures) for job_id in waiting) > 1
    for job_id in waiting:
        at_one_go = asked(world, job_id)
        decision = world.take(world.engine.handle(ExplainJob("ann", False, job_id), world.now, 100))
        while decision.rest is not None:
            decision = world.take(world.engine.go_on(decision.rest, world.now, 100))
        assert decision.reply == at_one_go
