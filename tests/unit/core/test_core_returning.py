"""After a restart of the master small jobs do not take what a job that spans hosts had been planned on."""

from __future__ import annotations

import pytest
from core_world import START, World, gpus, load, make_config, spec

from gsched.core.hosts import restart_grace
from gsched.model.event import JobDispatched


def planned(big: int = 32, **wanted: object) -> tuple[World, int, int]:
    """Host b is full for an hour, and a job over a and b waits for it; a small one waits beside its plan."""
    world = World(make_config("ab"))
    world.run(spec(slots=16, hosts=("b",), run_limit_s=3600))
    (large,) = world.submit(spec(slots=big, **wanted))
    world.settle()
    (small,) = world.submit(spec())
    world.settle()
    return world, large, small


def test_a_small_job_waits_until_all_hosts_are_back() -> None:
    world, large, small = planned()
    assert world.state(small) == "PEND" and world.engine.cycles.planned[large].at == START + 3600
    world.restart()
    world.connect("a")
    world.settle()
    assert world.state(small) == "PEND"
    assert "agents of b" in world.engine.cycles.summary
    world.hello("b", held=[(1, 1)])
    world.settle()
    assert world.state(small) == "PEND", "its load is not known yet"
    world.report("b", load=load(), gpus=gpus(4, host="b"))
    world.settle()
    assert world.state(small) == "PEND" and world.engine.cycles.planned[large].at == START + 3600
    world.check_replay()


def test_a_host_that_does_not_come_back_is_not_waited_for_long() -> None:
    world, large, small = planned()
    world.restart()
    world.connect("a")
    world.settle()
    assert world.engine.next_deadline(world.now) <= world.now + restart_grace.GRACE_S
    world.wait(restart_grace.GRACE_S)
    world.settle()
    assert world.state(small) == "RUN" and world.state(large) == "PEND"


@pytest.mark.parametrize(
    ("big", "wanted"),
    [(2, {"res_req": "span[hosts=1]", "hosts": ("b",)}), (1, {"hosts": ("b",)}), (9, {"hosts": ("a",)})],
)
def test_only_hosts_that_a_spanning_job_may_use_are_waited_for(big: int, wanted: dict[str, object]) -> None:
    world = World(make_config("ab"))
    world.run(spec(slots=16, hosts=("b",), run_limit_s=3600), spec(slots=8, hosts=("a",)))
    world.submit(spec(slots=big, **wanted))
    (small,) = world.submit(spec())
    world.hosts("close", "a")
    world.settle()
    world.hosts("open", "a")
    told = len(world.events)
    world.restart()
    world.connect("a", held=[(2, 1)])
    world.settle()
    assert [event.job_id for event in world.events[told:] if isinstance(event, JobDispatched)] == [small]


def test_one_host_is_never_waited_for() -> None:
    world = World()
    world.run(spec(slots=8))
    world.submit(spec(slots=16), spec(run_limit_s=60))
    world.hosts("close", "a")
    world.settle()
    world.hosts("open", "a")
    world.restart()
    world.hello("a", held=[(1, 1)])
    assert world.engine.next_deadline(world.now) > world.now + 1
    world.report("a", load=load(), gpus=gpus(4))
    world.settle()
    assert "agents" not in world.engine.cycles.summary
