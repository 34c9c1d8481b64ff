"""A place that a plan holds is not handed down from job to job past an older one that waits for more."""

from __future__ import annotations

import pytest
from core_world import World, gpu_spec, make_config, spec

from gsched.model.host import HostConfig


def end(world: World, job_id: int) -> None:
    world.started(job_id)
    world.now += 5
    host = world.job(job_id).allocation.first_host  # type: ignore[union-attr]
    world.ended(job_id, 1, host)
    world.settle()


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


@pytest.mark.parametrize("classes", [2, 3, 7])
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
