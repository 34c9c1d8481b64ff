"""When a job could start if it were submitted: what the next cycle would do with it; asking changes nothing."""

from __future__ import annotations

import pytest
from core_world import START, World, gpu_spec, gpus, job_command, make_config, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.errors import BadRequest, GschedError, Internal
from gsched.core.command import ForecastStart
from gsched.core.dispatch import start_forecast
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.views.view import StartForecast
from gsched.policy.cycle import Planning
from tests.support.property_examples import examples


def asked(world: World, wanted: JobSpec) -> StartForecast:
    found = world.do(ForecastStart("ann", False, wanted))
    assert isinstance(found, StartForecast)
    return found


def test_at_once_where_there_is_room() -> None:
    world = World()
    found = asked(world, gpu_spec(2))
    assert (found.starts_now, found.hosts, found.is_alone) == (True, ("a",), False)
    assert (found.job_id, found.queue, found.slots) == (1, "normal", 1)
    assert world.run(gpu_spec(2)) == [1]  # it has made no job


def test_later_where_gpus_are_held_until_a_run_limit() -> None:
    world = World()
    world.run(gpu_spec(3, run_limit_s=600))
    found = asked(world, gpu_spec(2, run_limit_s=60))
    assert not found.starts_now and found.reasons
    assert found.planned is not None and found.planned.at == START + 600


def test_those_that_wait_come_first() -> None:
    world = World()
    world.run(gpu_spec(3, run_limit_s=600))
    (waiting,) = world.submit(gpu_spec(4, run_limit_s=600))
    world.cycle()
    assert world.state(waiting) == "PEND"
    found = asked(world, gpu_spec(4, run_limit_s=60))
    assert found.is_alone  # a queue plans one job, and that is the one which waits
    assert found.planned is not None and found.planned.at == START + 600
    assert asked(world, gpu_spec(1, run_limit_s=60)).starts_now, "it would be backfilled"
    assert asked(world, gpu_spec(1)).is_alone, "nobody knows that it would end in time"


def test_where_very_many_wait_it_is_planned_for_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_forecast, "MOST_WAITING", 1)
    world = World()
    world.run(gpu_spec(3, run_limit_s=600))
    world.submit(*[gpu_spec(4, run_limit_s=600)] * 2)
    world.cycle()
    found = asked(world, gpu_spec(4, run_limit_s=60))
    assert found.is_alone and found.planned is not None and found.planned.at == START + 600


def test_what_must_come_first_is_told() -> None:
    world = World()
    world.run(spec())
    assert asked(world, spec(hold=True)).waits_for == "hold"
    assert asked(world, spec(begin_at=START + 60)).waits_for == "time"
    assert asked(world, spec(dependency="done(1)")).waits_for == "condition"
    assert asked(world, spec(dependency="started(1)")).waits_for in ("", "condition")


def test_what_would_be_refused_is_refused() -> None:
    world = World()
    with pytest.raises(GschedError):
        asked(world, gpu_spec(99))
    with pytest.raises(BadRequest, match="No such queue"):
        asked(world, spec(queue="none", queue_named=True))


def crowd(world: World) -> None:
    """Thirty kinds of jobs that wait."""
    world.run(gpu_spec(4))
    world.submit(*[gpu_spec(1, name=str(kind), run_limit_s=60 * kind) for kind in range(1, 31)])
    world.settle()


def test_a_long_plan_is_made_in_turns_between_which_jobs_are_accepted() -> None:
    world = World()
    crowd(world)
    command = ForecastStart("ann", False, gpu_spec(2))
    at_one_go = world.do(command)
    decision, turns = world.take(world.engine.handle(command, world.now, 100)), 1
    jobs = []
    while decision.rest is not None:
        if world.engine.cycles.is_planning:
            jobs += world.submit(gpu_spec(1))
            kill = job_command("kill", "ann", *jobs)
            assert not world.engine.takes(kill) and not world.engine.takes(ForecastStart("ann", False, gpu_spec(2)))
            with pytest.raises(RuntimeError, match="comes between the turns"):
                world.engine.handle(kill, world.now)
            assert not world.cycle().events, "no cycle begins on what the plan looks at"
            assert world.engine.cycles.is_planning
        decision, turns = world.take(world.engine.go_on(decision.rest, world.now, 100)), turns + 1
    assert turns > 3 and jobs
    assert decision.reply == at_one_go
    assert not world.engine.cycles.is_planning and world.engine.takes(job_command("kill", "ann", 1))
    world.settle()
    assert [world.state(job_id) for job_id in jobs] == ["PEND"] * len(jobs)


def test_a_plan_that_fails_lets_all_else_go_on() -> None:
    world = World()
    crowd(world)
    closed = []

    def failing(*_: object) -> Planning:
        try:
            yield 1
            raise ValueError("a defect")
        finally:
            closed.append(True)

    world.engine.cycles._schedule = failing
    decision = world.engine.handle(ForecastStart("ann", False, gpu_spec(2)), world.now, 100)
    assert decision.rest is not None
    world.engine.go_on(decision.rest, world.now, 100)
    with pytest.raises(Internal, match="ForecastStart failed"):
        world.engine.go_on(decision.rest, world.now, 100)
    assert closed and not world.engine.cycles.is_planning


def test_a_plan_that_nobody_waits_for_is_closed() -> None:
    world = World()
    crowd(world)
    decision = world.engine.handle(ForecastStart("ann", False, gpu_spec(2)), world.now, 100)
    assert decision.rest is not None
    world.engine.go_on(decision.rest, world.now, 100)
    assert world.engine.cycles.is_planning
    decision.rest.work.close()
    assert not world.engine.cycles.is_planning
    world.settle()


def test_what_it_asks_about_gpus_is_not_kept() -> None:
    world = World()
    report = gpus(4, memory_mib=80_000)
    world.report(gpus=report)
    assert asked(world, gpu_spec(1, res_req="select[gpu_mtotal0>1000]")).starts_now
    found = asked(world, gpu_spec(1, res_req="select[gpu_mtotal0>100000 && gpu_mtotal3>1000]"))
    assert not found.starts_now
    assert not world.engine.observations.roll.gpu_names
    assert world.run(spec(res_req="select[gpu_mtotal0>1000]")) and world.state(1) == "RUN"
    assert world.engine.observations.roll.gpu_names == {"gpu_mtotal0"}


JOBS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, 60, 600]), st.booleans()), max_size=6)


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(JOBS, st.integers(1, 4))
def test_asking_changes_nothing_of_what_follows(jobs: list[tuple[int, int | None, bool]], count: int) -> None:
    queues = (Queue(name="normal", priority=30), Queue(name="night", priority=20))
    worlds = [World(make_config(hosts=("a", "b"), queues=queues)) for _ in range(2)]
    for which, world in enumerate(worlds):
        world.report("b", gpus=gpus(2, host="b"))
        for wanted, limit, is_night in jobs:
            world.submit(gpu_spec(wanted, run_limit_s=limit, queue="night" if is_night else "normal"))
            if which:
                asked(world, gpu_spec(count))
            world.cycle()
    plain, other = worlds
    assert plain.engine.state.jobs == other.engine.state.jobs
    assert plain.engine.cycles.planned == other.engine.cycles.planned
    assert plain.engine.cycles.reasons == other.engine.cycles.reasons
    assert not other.engine.audit()
    found = asked(other, gpu_spec(count))
    (job_id,) = plain.submit(gpu_spec(count))
    plain.cycle()
    if found.is_alone:
        assert plain.state(job_id) == "PEND"
        return
    assert (plain.state(job_id) == "RUN" or plain.job(job_id).allocation is not None) == found.starts_now
    planned = plain.engine.cycles.planned.get(job_id)
    assert (planned and (planned.at, planned.hosts)) == (found.planned and (found.planned.at, found.planned.hosts))
