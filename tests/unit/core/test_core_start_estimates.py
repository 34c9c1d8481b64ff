"""What is said of starts is noted once for each job that waits, again where its plan moves much, and never more."""

from __future__ import annotations

from core_world import START, World, gpu_spec, spec

from gsched.core.command import DryRunJob, ExplainJob
from gsched.core.dispatch.start_estimates import AT_ONCE, LOOK_S, MOST_AGAIN
from gsched.model.views.start_estimate import StartEstimate, first_said
from gsched.policy.future.past_waits import PastStart


def said(world: World, most: int = 1_000) -> list[StartEstimate]:
    """What is newly said after cycles."""
    world.settle()
    world.engine.say_estimates(world.now, most)
    return world.engine.estimates.take()


def past(gpus: float, *waits: float) -> list[PastStart]:
    return [PastStart("ann", "normal", gpus, 1_000.0, 1_000.0 + each) for each in waits]


def test_who_starts_at_once_or_waits_for_something_else_is_told_nothing() -> None:
    world = World()
    world.run(gpu_spec(4, run_limit_s=600))
    assert said(world) == []
    world.submit(gpu_spec(1, hold=True))
    world.submit(gpu_spec(1, begin_at=START + 60))
    world.submit(gpu_spec(1, dependency="ended(1)"))
    assert said(world) == []


def test_a_job_that_waits_is_told_once() -> None:
    world = World()
    world.engine.estimates.learn(past(2.0, *(100.0 * number for number in range(1, 11))))
    world.run(gpu_spec(4, run_limit_s=600))
    (waiting,) = world.submit(gpu_spec(2))
    assert said(world) == [
        StartEstimate(
            job_id=waiting,
            at=START,
            p50_at=START + 500,
            p90_at=START + 900,
            mean_at=START + 550,
            plan_at=START + 600,
            limit_at=START + 600,
        )
    ]
    for _ in range(3):
        world.wait(LOOK_S)
        assert said(world) == []


def test_a_plan_that_rests_on_an_estimate_is_none_of_run_limits() -> None:
    world = World()
    world.run(gpu_spec(4, estimate_s=600))
    world.submit(gpu_spec(1))
    (told,) = said(world)
    assert (told.plan_at, told.limit_at) == (START + 600, None)


def test_nothing_known_is_told_too_so_that_it_can_be_counted() -> None:
    world = World()
    world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(1))
    assert said(world) == [StartEstimate(job_id=waiting, at=START)]


def test_an_array_is_told_of_as_a_whole() -> None:
    world = World()
    world.run(gpu_spec(4, run_limit_s=600))
    (array,) = world.submit(gpu_spec(4, indices="1-1000", run_limit_s=60))
    assert [each.job_id for each in said(world)] == [array]
    assert said(world) == []


def test_it_is_told_again_where_its_plan_moves_much_and_not_for_ever() -> None:
    world = World()
    (first,) = world.run(gpu_spec(4, run_limit_s=100_000))
    (waiting,) = world.submit(gpu_spec(4))
    assert [each.plan_at for each in said(world)] == [START + 100_000]
    found = []
    for hours in range(20):
        world.wait(LOOK_S)
        limit = 100_000 if hours % 2 else 20_000
        assert world.modify(first, run_limit_s=limit) == [""]
        found += said(world)
    assert len(found) == MOST_AGAIN
    assert {each.plan_at for each in found} == {START + 100_000, START + 20_000}
    assert all(each.job_id == waiting for each in found)
    first_told = first_said([StartEstimate(job_id=waiting, at=1.0, p50_at=5.0), *found])
    assert first_told is not None and (first_told.at, first_told.p50_at) == (1.0, 5.0)
    assert first_told.plan_at == found[0].plan_at


def test_a_plan_that_moves_little_is_not_told_again() -> None:
    world = World()
    (first,) = world.run(gpu_spec(4, run_limit_s=100_000))
    world.submit(gpu_spec(4))
    assert len(said(world)) == 1
    world.wait(LOOK_S)
    assert world.modify(first, run_limit_s=60_000) == [""]
    assert said(world) == []


def test_waits_of_those_that_started_are_learned() -> None:
    world = World()
    for number in range(10):
        (running,) = world.run(gpu_spec(4))
        (waiting,) = world.submit(gpu_spec(2))
        said(world)
        world.now += 100.0 + number
        world.ended(running)
        world.settle()
        world.started(waiting)
        world.ended(waiting)
    world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(2))
    (told,) = said(world)
    assert told.p50_at is not None and told.p90_at is not None
    assert 100.0 < told.p50_at - world.now < 115.0, "of as much work before it as they had"
    assert told.p50_at < told.p90_at < world.now + 300.0
    found = world.do(ExplainJob("ann", False, waiting))
    assert (found.p50_at, found.p90_at, found.such_jobs) == (told.p50_at, told.p90_at, 10)
    dry = world.do(DryRunJob("ann", False, gpu_spec(2))).explanation
    assert dry.p50_at is not None and dry.p90_at is not None and told.p50_at < dry.p50_at, "that one comes first"
    assert dry.such_jobs == 10
    other = world.do(DryRunJob("ann", False, gpu_spec(2, hold=True))).explanation
    assert (other.p50_at, other.such_jobs) == (None, 0)


def test_a_job_that_has_waited_is_compared_with_those_that_waited_longer() -> None:
    world = World()
    world.engine.estimates.learn(past(1.0, *(100.0 * number for number in range(1, 31))))
    world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(1))
    said(world)
    world.wait(1_950.0)
    world.settle()
    found = world.do(ExplainJob("ann", False, waiting))
    assert (found.p50_at, found.such_jobs) == (START + 2_500, 11)


def test_many_are_told_of_in_turns() -> None:
    world = World()
    world.run(gpu_spec(4))
    said(world)
    world.submit(*(gpu_spec(1) for _ in range(AT_ONCE + 50)))
    world.settle()
    world.engine.say_estimates(world.now)
    assert len(world.engine.estimates.take()) == AT_ONCE and world.engine.estimates.has_more
    world.engine.say_estimates(world.now)
    assert len(world.engine.estimates.take()) == 50 and not world.engine.estimates.has_more


def test_nothing_is_remembered_of_jobs_that_wait_no_more() -> None:
    world = World()
    (running,) = world.run(gpu_spec(4))
    killed, other = world.submit(gpu_spec(4), gpu_spec(4))
    (array,) = world.submit(gpu_spec(4, indices="1-3"))
    assert len(said(world)) == 3
    world.control("kill", killed, array)
    world.ended(running)
    world.settle()
    assert world.state(other) == "RUN"
    assert world.engine.estimates._said == {}


def test_jobs_without_gpus_are_told_too() -> None:
    world = World()
    world.engine.estimates.learn(past(0.0, *[100.0] * 10))
    world.run(spec(slots=16))
    world.submit(spec())
    assert [each.p50_at for each in said(world)] == [START + 100]
