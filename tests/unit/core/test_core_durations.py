"""Reservations that end or shrink while their job runs: who waits for them starts then, and everybody is told so."""

from __future__ import annotations

import pytest
from core_world import World, gpu_spec, make_config, spec

from gsched.base.coded_text import sentence
from gsched.base.errors import GschedError
from gsched.core.dispatch.host_queue_views import host_view
from gsched.model.event import JobDispatched, decode_event
from gsched.model.ledgers.allocation import AmountSchedule, AmountStep
from gsched.model.queues.limit import Amount, Limit
from gsched.model.queues.queue import Queue

MIN = 60.0
ALL = 100_000.0
"""MiB that a host has."""


def reserved(world: World, host: str = "a") -> float:
    engine = world.engine
    view = host_view(engine.config.hosts[host], engine.config, engine.state, engine.observations.of(host))
    assert view.load["mem"] == ALL - view.reserved.get("mem", 0.0)
    return view.reserved.get("mem", 0.0)


def test_what_is_given_back_lets_the_next_job_start_while_the_first_runs() -> None:
    world = World(make_config("a"))
    first, second = world.run(spec(res_req="rusage[mem=60000:duration=10]"), spec(res_req="rusage[mem=60000]"))
    assert [world.state(first), world.state(second)] == ["RUN", "PEND"]
    assert reserved(world) == 60_000.0
    deadline = world.engine.next_deadline(world.now)
    assert deadline <= world.now + 10 * MIN
    world.wait(10 * MIN - 1)
    world.settle()
    assert world.state(second) == "PEND"
    assert world.engine.next_deadline(world.now) == world.now + 1
    world.engine.state.take_touched()
    world.wait(1)
    assert world.engine.state.touched_hosts == {"a"} and reserved(world) == 0.0
    world.settle()
    assert [world.state(first), world.state(second)] == ["RUN", "RUN"] and reserved(world) == 60_000.0
    world.check_replay()


def test_a_decay_is_given_back_step_by_step_and_no_oftener() -> None:
    world = World(make_config("a"))
    world.run(spec(res_req="rusage[mem=50000:duration=5:decay=1]"))
    found, wakes = [reserved(world)], 0
    end = world.now + 6 * MIN
    while world.now < end:
        world.wait(world.engine.next_deadline(world.now) - world.now)
        wakes += 1
        found.append(reserved(world))
    assert sorted(set(found), reverse=True) == [50_000.0, 40_000.0, 30_000.0, 20_000.0, 10_000.0, 0.0]
    assert found == sorted(found, reverse=True) and wakes < 20


def test_a_later_phase_that_wants_more_is_held_from_the_start_on() -> None:
    world = World(make_config("a"))
    (job,) = world.run(spec(res_req="rusage[mem=(20000 50000 10000):duration=(5 5)]"))
    assert reserved(world) == 50_000.0
    world.wait(5 * MIN)
    assert reserved(world) == 50_000.0
    world.wait(5 * MIN)
    assert reserved(world) == 10_000.0
    world.ended(job)
    assert reserved(world) == 0.0


def test_the_record_of_the_dispatch_says_what_is_given_back_and_old_records_say_nothing() -> None:
    world = World(make_config("a"))
    world.run(spec(res_req="rusage[mem=300/task:duration=5]"))
    (event,) = [each for each in world.events if isinstance(each, JobDispatched)]
    assert event.allocation.hosts[0].courses == (
        AmountSchedule(
            resource="mem", steps=(AmountStep(after_s=0.0, amount=300.0), AmountStep(after_s=5 * MIN, amount=0.0))
        ),
    )
    old = decode_event(
        b'{"kind":"job_dispatched","at":0,"job_id":1,"attempt":1,"effective_req":"","allocation":{"hosts":['
        b'{"host":"a","slots":1,"amounts":{"mem":3}}]}}'
    )
    assert isinstance(old, JobDispatched) and old.allocation.hosts[0].courses == ()


def test_each_task_gives_back_its_own() -> None:
    world = World(make_config("a"))
    world.run(spec(slots=3, res_req="rusage[mem=1000/task:duration=5] span[hosts=1]"))
    assert reserved(world) == 3000.0
    world.wait(5 * MIN)
    assert reserved(world) == 0.0


def test_parts_of_a_compound_on_one_host_give_back_what_each_says() -> None:
    world = World(make_config("a"))
    world.run(spec(slots=2, res_req="{1*{rusage[mem=100:duration=5]}+1*{rusage[mem=30:duration=9]}}"))
    found = []
    for seconds in (0, 5 * MIN, 4 * MIN):
        world.wait(seconds)
        found.append(reserved(world))
    assert found == [130.0, 30.0, 0.0]


def test_a_queues_duration_holds_for_its_jobs() -> None:
    world = World(make_config("a", (Queue(name="normal", res_req="rusage[mem=100:duration=5]"),)))
    world.run(spec(), spec(res_req="rusage[mem=1000]"))
    assert reserved(world) == 1100.0
    world.wait(5 * MIN)
    assert reserved(world) == 0.0


def test_time_goes_on_for_a_stopped_job_and_for_a_master_that_is_down() -> None:
    world = World(make_config("a"))
    (job,) = world.run(spec(res_req="rusage[mem=(500 200):duration=(5 5)]"))
    world.control("stop", job)
    world.wait(5 * MIN)
    assert reserved(world) == 200.0
    world.now += 5 * MIN
    world.restart()
    assert world.engine.audit() == []
    assert world.engine.state.ledger.host("a").reserved == {}


def test_limits_count_what_is_held_now() -> None:
    limits = (Limit(name="few", amounts={"mem": (Amount(1000.0),)}),)
    world = World(make_config("a", limits=limits))
    first, second = world.run(spec(res_req="rusage[mem=800:duration=5]"), spec(res_req="rusage[mem=800]"))
    assert [world.state(first), world.state(second)] == ["RUN", "PEND"]
    assert world.engine.snapshot(world.now).held.section["few"] == {("", "", "", "", ""): {"mem": 800.0}}
    world.wait(5 * MIN)
    assert not world.engine.snapshot(world.now).held.section["few"]
    world.settle()
    assert world.state(second) == "RUN"


def test_a_requeued_job_holds_everything_again() -> None:
    world = World(make_config("a"))
    (job,) = world.run(spec(res_req="rusage[mem=500:duration=5]", rerunnable=True))
    world.wait(6 * MIN)
    assert reserved(world) == 0.0
    world.order("requeue", job)
    world.ended(job, signal=15, exit_code=None)
    world.settle()
    assert world.state(job) == "RUN" and reserved(world) == 500.0
    world.wait(5 * MIN)
    assert reserved(world) == 0.0


@pytest.mark.parametrize("resource", ["ngpus_excl_p", "ngpus"])
@pytest.mark.parametrize("wish", ["{}=2:duration=5:decay=1", "{}=(1 2):duration=(5)"])
def test_a_gpu_is_held_to_the_end_and_the_job_says_so(resource: str, wish: str) -> None:
    world = World(make_config("a"))
    text = f"rusage[mem=500:{wish.format(resource)}]" if "(" not in wish else f"rusage[{wish.format(resource)}]"
    (job,) = world.run(spec(res_req=text))
    assert tuple(map(sentence, world.job(job).spec.warnings)) == (
        f"the duration of {resource} in rusage[...] does not count: a GPU is held until the job ends",
    )
    world.wait(6 * MIN)
    assert reserved(world) == 0.0
    (waiting,) = world.submit(gpu_spec(3))
    world.settle()
    assert (world.state(job), world.state(waiting)) == ("RUN", "PEND")
    world.ended(job)
    world.settle()
    assert world.state(waiting) == "RUN"


def test_the_warning_goes_with_the_duration() -> None:
    world = World(make_config("a"))
    (job,) = world.submit(spec(res_req="rusage[ngpus_excl_p=1:duration=5]", hold=True))
    assert len(world.job(job).spec.warnings) == 1
    assert world.modify(job, res_req="rusage[ngpus_excl_p=1]") == [""]
    assert world.job(job).spec.warnings == ()
    assert world.submit(spec(res_req="rusage[mem=1:duration=5, ngpus_excl_p=1]"))
    with pytest.raises(GschedError, match="GPUs are claimed whole"):
        world.submit(spec(res_req="rusage[ngpus_excl_p=(2 0.5):duration=(5)]"))
