"""When a job could start if it were submitted: what the next cycle would do with it; asking changes nothing."""

from __future__ import annotations

import pytest
from core_world import START, World, gpu_spec, gpus, make_config, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.errors import BadRequest, GschedError
from gsched.core.command import ForecastStart
from gsched.core.dispatch import start_forecast
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.views.view import StartForecast


def asked(world: World, wanted: JobSpec) -> StartForecast:
    found = world.do(ForecastStart("ann", False, wanted))
    assert isinstance(found, StartForecast)
    return found


def test_at_once_where_there_is_room() -> None:
    world = World()
    found = asked(world, gpu_spec(2))
    assert (found.starts_now, found.hosts, found.is_alone) == (True, ("a",), False)
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


JOBS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, 60, 600]), st.booleans()), max_size=6)


@settings(max_examples=60, deadline=None)
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
    assert plain.engine.planned == other.engine.planned and plain.engine.reasons == other.engine.reasons
    assert not other.engine.audit()
    found = asked(other, gpu_spec(count))
    (job_id,) = plain.submit(gpu_spec(count))
    plain.cycle()
    if found.is_alone:
        assert plain.state(job_id) == "PEND"
        return
    assert (plain.state(job_id) == "RUN" or plain.job(job_id).allocation is not None) == found.starts_now
    planned = plain.engine.planned.get(job_id)
    assert (planned and (planned.at, planned.hosts)) == (found.planned and (found.planned.at, found.planned.hosts))
