"""Started jobs that grow: what they leave to others, and when they are looked at. What they ask for elsewhere is
in test_core_slot_resizing.
"""

from __future__ import annotations

import pytest
from core_resizing_world import a_world, begun, slots
from core_world import World, make_config, spec

from gsched.base.errors import BadRequest
from gsched.model.config import Params
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Preemption, Queue


def test_what_a_preempted_job_gives_is_left_to_it_in_the_same_cycle() -> None:
    queues = (
        Queue(name="low", priority=1),
        Queue(name="high", priority=9, preemption=Preemption(preemptive=(("low", 1),))),
        Queue(name="mid", priority=1, resizable="y"),
    )
    world = World(make_config((HostConfig(name="a", max_slots=12),), queues))
    victim, growing = world.run(spec(queue="low", slots=8), spec(queue="mid", slots=4))
    later, small = world.run(spec(queue="low", slots=6), spec(queue="low", slots=5))
    assert world.order("request", growing, slots=6) == [""]
    world.wait(1000)
    world.settle()
    (high,) = world.submit(spec(queue="high", slots=2))
    world.settle()
    assert [world.state(each) for each in (high, victim, later, small)] == ["RUN", "SSUSP", "PEND", "PEND"]
    assert slots(world, growing) == {"a": 4}
    world.started(high)
    world.ended(high)
    world.settle()
    assert world.state(victim) == "RUN"
    world.check_replay()


def test_slots_that_are_kept_for_gpus_are_left_to_them() -> None:
    world = a_world((HostConfig(name="a", max_slots=16),), Params(reserve_cores_per_gpu=2), resizable="y")
    (plain,) = begun(world, spec(slots=1))
    assert world.order("request", plain, slots=15) == [""]
    world.settle()
    assert slots(world, plain) == {"a": 8}, "its four GPUs are idle"
    (gpus,) = begun(world, spec(slots=1, gpu_req="num=4:mode=exclusive_process"))
    world.settle()
    assert slots(world, plain) == {"a": 15}
    world.ended(plain)
    assert world.order("request", gpus, slots=9) == [""]
    world.settle()
    assert slots(world, gpus) == {"a": 10}
    world.check_replay()


def test_a_job_gets_more_slots_when_a_reservation_ends_though_nobody_waits() -> None:
    world = a_world((HostConfig(name="a", max_slots=4),), resizable="y")
    (job,) = begun(world, spec(slots=1, run_limit_s=100_000))
    world.reserve("add", users=("bob",), start=world.now + 5, end=world.now + 600, slots_on={"a": 3})
    assert world.order("request", job, slots=2) == [""]
    world.settle()
    assert slots(world, job) == {"a": 1}
    assert world.engine.next_deadline(world.now) <= world.now + 10, "it is looked at as often as one that waits"
    world.wait(601)
    world.settle()
    assert slots(world, job) == {"a": 3}
    world.check_replay()


def test_more_slots_are_asked_for_by_a_request_alone() -> None:
    world = a_world()
    said = "resize_to: more slots are asked for by gresize request alone, of a job that has started"
    with pytest.raises(BadRequest, match=said):
        world.submit(spec(slots=1, resize_to=4, resizable="y"))
    waiting, started = world.submit(spec(hold=True), spec(slots=1, resizable="y"))
    for job in (waiting, started):
        with pytest.raises(BadRequest, match=said):
            world.modify(job, resize_to=4)
        assert world.modify(job, resize_to=0) == [""]


@pytest.mark.parametrize(("resizable", "wanted"), [("", 0), ("n", 0), ("y", 4), ("auto", 4)])
def test_who_is_not_resizable_wants_no_more(resizable: str, wanted: int) -> None:
    assert spec(slots=1, resizable=resizable, resize_to=4).wanted_slots == wanted
