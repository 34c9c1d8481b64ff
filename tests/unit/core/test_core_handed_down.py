"""A place that a plan holds is not handed down from job to job past an older one that waits for more."""

from __future__ import annotations

import pytest
from core_world import World, gpu_spec, make_config, spec

from gsched.model.hosts.host import HostConfig
from gsched.policy.backfill.reserved_start import ReservedStart


def end(world: World, job_id: int) -> None:
    world.started(job_id)
    world.now += 5
    host = world.job(job_id).allocation.first_host  # type: ignore[union-attr]
    world.ended(job_id, 1, host)
    world.settle()


def reserved(world: World) -> set[int]:
    """Jobs that something is reserved for."""
    plans = world.engine.cycles.planned.items()
    return {job_id for job_id, plan in plans if isinstance(plan, ReservedStart) and plan.allocation is not None}


@pytest.mark.parametrize("old_plan", [True, False])
def test_who_waits_for_all_is_not_passed_by_a_class_of_small_jobs(old_plan: bool) -> None:
    world = World(make_config([HostConfig(name=name, max_slots=8) for name in "ab"]))
    ids = world.run(*(gpu_spec(4) for _ in range(2 + old_plan)))
    world.settle()
    (big,) = world.submit(spec(slots=16))
    world.settle()
    later = world.submit(*(gpu_spec(4) for _ in range(4)))
    world.settle()
    for job_id in ids:
        end(world, job_id)
    for job_id in later:  # those that came after it wait for it
        assert world.state(job_id) == "PEND", job_id
    assert world.state(big) == "RUN"


@pytest.mark.parametrize("classes", [2, 3, 7, 8, 9, 12])
def test_who_waits_for_all_is_not_passed_by_many_classes_in_turn(classes: int) -> None:
    """Each class has a job that came before the big one, and more after it."""
    world = World(make_config([HostConfig(name="a", max_slots=classes)]))
    one_of_each = [spec(res_req=f"rusage[mem={1 + number}]") for number in range(classes)]
    running = world.run(*one_of_each)
    before = world.submit(*one_of_each)
    world.settle()
    (big,) = world.submit(spec(slots=classes))
    world.settle()
    for _ in range(3):
        world.submit(*one_of_each)
        world.settle()
    ended = set()
    for _ in range(2 * classes):
        job_id = next(each for each in sorted(world.engine.state.jobs) if world.state(each) == "RUN")
        end(world, job_id)
        ended.add(job_id)
    assert ended == {*running, *before}
    assert world.state(big) == "RUN"


@pytest.mark.parametrize("classes", [2, 8, 12])
def test_who_has_no_place_is_looked_at_at_once_when_a_plan_before_it_goes(classes: int) -> None:
    """No minute passes: a plan that left it none is dropped with its job."""
    world = World(make_config([HostConfig(name="a", max_slots=classes)]))
    one_of_each = [spec(res_req=f"rusage[mem={1 + number}]") for number in range(classes)]
    world.run(*one_of_each)
    before = world.submit(*one_of_each)
    world.settle()
    (big,) = world.submit(spec(slots=classes))
    world.settle()
    world.submit(*one_of_each)
    world.settle()
    assert big not in reserved(world)
    for job_id in before:
        world.control("kill", job_id)
        world.settle()
    assert reserved(world) == {big}


def test_a_place_goes_to_the_eldest_of_many_who_have_none() -> None:
    """More classes than there are places: as each job ends, the next in order of submission starts."""
    world = World(make_config([HostConfig(name="a", max_slots=10)]))
    one_of_each = [spec(res_req=f"rusage[mem={1 + number}]", slots=10) for number in range(11)]
    first, *rest = world.run(one_of_each[0]) + world.submit(*one_of_each[1:]) + world.submit(*one_of_each[:4])
    world.settle()
    for job_id, following in zip([first, *rest], rest, strict=False):
        assert len(reserved(world)) <= 1
        end(world, job_id)
        assert world.state(following) == "RUN"


def test_small_jobs_do_not_take_turns_beside_a_place_that_is_held_for_an_unknown_time() -> None:
    """Nobody has a run limit. What ran before may end in any order; what started since counts as staying."""
    world = World(make_config([HostConfig(name="a", max_slots=7)]))
    running = world.run(*(spec() for _ in range(7)))
    (head,) = world.submit(spec(slots=3))
    world.settle()
    world.now += 1
    world.submit(*(spec(res_req="rusage[mem=1]") for _ in range(30)))
    world.settle()
    for job_id in running:
        assert world.state(head) == "PEND"
        started = [each for each in world.engine.state.jobs if each > head and world.state(each) == "RUN"]
        assert len(started) <= 4, "three slots are kept"
        end(world, job_id)
    assert world.state(head) == "RUN"


def test_who_waits_where_nobody_else_does_has_a_place_beside_those_who_fill_another_host() -> None:
    """As many as may be are planned on one host, which is never free: on the other a big job is starved no more."""
    world = World(make_config([HostConfig(name=name, max_slots=8) for name in "ab"]))
    long = [spec(slots=8, hosts=("a",), res_req=f"rusage[mem={n}]", run_limit_s=86400) for n in range(1, 12)]
    world.run(long[0])
    world.submit(*long[1:])
    world.settle()
    running = world.run(*(spec(hosts=("b",)) for _ in range(8)))
    (big,) = world.submit(spec(slots=8, hosts=("b",)))
    world.settle()
    world.submit(*(spec(hosts=("b",), res_req="rusage[mem=1]") for _ in range(30)))
    world.settle()
    for job_id in running:
        assert world.state(big) == "PEND"
        end(world, job_id)
    assert world.state(big) == "RUN"
