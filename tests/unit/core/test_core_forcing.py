"""grun: beyond slots, limits, closed hosts and select[]; but GPUs and amounts must be free, and conditions hold."""

from __future__ import annotations

import pytest
from core_world import START, World, first_words, gpu_spec, make_config, spec

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.core.dispatch.run_now import MOST_AT_ONCE
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Queue

FORCED = "The job is forced to run and waits for its host"
FORCED_ANYWHERE = "The job is forced to run and waits until a host has room for it"


def full() -> World:
    """Two hosts of one slot each; a's is taken."""
    queues = (Queue(name="normal", job_limit=1, priority=3), Queue(name="other"))
    world = World(make_config([HostConfig(name="a", max_slots=1), HostConfig(name="b", max_slots=1)], queues))
    world.run(spec(hosts=("a",)))
    return world


def test_a_job_is_started_whatever_the_policies_say() -> None:
    world = full()
    world.hosts("close", "a")
    world.queues("inactivate", "normal")
    (job_id,) = world.submit(spec(res_req="select[mem>1] rusage[mem=1]", hosts=("b",)))
    assert world.order("run", job_id, user="root", hosts=("a",)) == [""]
    world.settle()
    assert world.state(job_id) == "RUN"
    assert world.job(job_id).allocation.first_host == "a"  # type: ignore[union-attr]
    assert world.engine.state.ledger.host("a").slots_used == 2
    assert world.job(job_id).forced_hosts == ()
    world.started(job_id)
    world.ended(job_id)
    world.check_replay()


def test_a_host_that_is_named_twice_takes_no_place_of_another() -> None:
    world = World(make_config(hosts=("a", "b")))
    (job_id,) = world.submit(spec(slots=2))
    assert world.order("run", job_id, user="root", hosts=("a", "a", "b")) == [""]
    world.settle()
    allocation = world.job(job_id).allocation
    assert allocation is not None and [part.host for part in allocation.hosts] == ["a", "b"]


def test_gpus_must_be_free() -> None:
    world = World()
    (holder,) = world.run(gpu_spec(3))
    (job_id,) = world.submit(gpu_spec(2, hold=False))
    assert world.order("run", job_id, user="root", hosts=("a",)) == [""]
    world.settle()
    assert world.state(job_id) == "PEND" and world.reasons(job_id) == (FORCED,)
    assert job_id not in [each for _, line in world.engine.state.pending.lines() for each in line.entries()]
    world.restart()
    world.connect(held=[(holder, 1)])
    world.settle()
    assert world.reasons(job_id) == (FORCED,)
    world.ended(holder)
    world.settle()
    assert world.state(job_id) == "RUN" and len(world.held(job_id)) == 2
    world.check_replay()


def test_a_forced_job_goes_to_its_host_and_to_no_other() -> None:
    world = full()
    world.ended(1)
    world.run(gpu_spec(4, queue="other", hosts=("a",)))
    (job_id,) = world.submit(gpu_spec(1))
    world.order("run", job_id, user="root", hosts=("a",))
    world.settle()
    assert world.reasons(job_id) == (FORCED,)  # though b could take it


def test_several_hosts_share_the_slots() -> None:
    world = World(make_config("ab"))
    (job_id,) = world.submit(spec(slots=3, res_req="select[mem<0]"))
    assert world.order("run", job_id, user="root", hosts=("b", "a")) == [""]
    world.settle()
    allocation = world.job(job_id).allocation
    assert allocation is not None and [(part.host, part.slots) for part in allocation.hosts] == [("b", 2), ("a", 1)]


def test_many_are_started_a_part_at_a_time() -> None:
    """An administrator may force thousands at once; others have their turn between."""
    world = full()
    jobs = world.submit(*[spec() for _ in range(2 * MOST_AT_ONCE + 1)])
    for job_id in jobs:
        assert world.order("run", job_id, user="root", hosts=("a", "b")) == [""]
        assert world.job(job_id).forced_hosts == ("a",)  # on b it would not run
    started = []
    while world.engine.cycles.needs_cycle:
        world.cycle()
        started.append(sum(world.state(job_id) == "RUN" for job_id in jobs))
    assert started[:3] == [MOST_AT_ONCE, 2 * MOST_AT_ONCE, 2 * MOST_AT_ONCE + 1]
    world.check_replay()


def test_a_forced_job_waits_for_its_condition_but_not_for_its_time() -> None:
    world = full()
    later, dependent = world.submit(spec(begin_at=START + 999), spec(dependency="done(1)"))
    assert world.order("run", later, dependent, user="root", hosts=("b",)) == ["", ""]
    world.settle()
    assert world.state(later) == "RUN" and world.state(dependent) == "PEND"
    assert world.reasons(dependent)[0].startswith("Job dependency condition not satisfied")
    world.ended(1)
    world.settle()
    assert world.state(dependent) == "RUN"
    world.check_replay()


def test_an_element_is_forced_an_array_is_not() -> None:
    world = full()
    (array,) = world.submit(spec(name="a", indices="1-3"))
    assert world.order("run", array, user="root", hosts=("b",)) == ["Cannot operate on a whole array: name an element"]
    assert world.order("run", element_id(array, 2), user="root", hosts=("b",)) == [""]
    world.settle()
    assert world.state(element_id(array, 2)) == "RUN"
    world.check_replay()


def test_what_is_refused() -> None:
    world = full()
    (job_id,), (held,) = world.submit(spec()), world.submit(spec(hold=True))
    assert first_words(world.order("run", job_id, user="ann", hosts=("a",))) == ["User permission denied"]
    assert world.order("run", 1, held, 99, user="root", hosts=("a",)) == [
        "Job has already started", "Job is suspended", "No matching job found",
    ]  # fmt: skip
    with pytest.raises(BadRequest, match="z: Bad host name"):
        world.order("run", job_id, user="root", hosts=("z",))


def test_without_a_host_it_is_started_wherever_there_is_room() -> None:
    queues = (Queue(name="normal", job_limit=1, priority=3), Queue(name="other"))
    world = World(make_config([HostConfig(name=name, max_slots=1) for name in "abc"], queues))
    world.run(spec(hosts=("a",)))
    world.hosts("close", "b")
    world.queues("inactivate", "normal")
    first, second = world.submit(spec(), spec())
    assert world.order("run", second, user="root", hosts=()) == [""]
    world.settle()
    assert (world.state(first), world.state(second)) == ("PEND", "RUN"), "order, limit and queue do not count"
    assert world.job(second).allocation.first_host == "c", "neither a full host nor a closed one"  # type: ignore[union-attr]
    assert world.order("run", first, user="root", hosts=()) == [""]
    world.settle()
    assert world.reasons(first) == (FORCED_ANYWHERE,)
    (later,) = world.submit(spec(queue="other"))
    world.restart()
    world.connect("a", held=[(1, 1)])
    world.connect("c", held=[(second, 1)])
    world.settle()
    assert world.reasons(first) == (FORCED_ANYWHERE,)
    world.ended(1)
    world.settle()
    assert (world.state(first), world.state(later)) == ("RUN", "PEND"), "it is served before all others"
    assert world.job(first).allocation.first_host == "a"  # type: ignore[union-attr]
    world.started(first)
    world.ended(second, host="c")
    world.settle()
    assert world.state(later) == "RUN", "and nothing of it is left behind in how others are placed"
    world.check_replay()


def test_without_a_host_requirements_hold_and_what_a_queue_adds_to_them() -> None:
    queues = (Queue(name="normal", hosts=("a", "b")),)
    world = World(make_config([HostConfig(name=name, max_slots=2) for name in "abc"], queues))
    (elsewhere,) = world.run(spec(slots=2, hosts=("b",)))
    (again,) = world.submit(spec(slots=4))
    assert world.order("run", again, user="root", hosts=()) == [""]
    world.settle()
    assert world.reasons(again) == (FORCED_ANYWHERE,), "c is no host of the queue, and b is taken"
    world.ended(elsewhere, host="b")
    world.settle()
    allocation = world.job(again).allocation
    assert allocation is not None and sorted(part.host for part in allocation.hosts) == ["a", "b"]


def test_a_forced_job_whose_host_is_gone_waits_and_can_be_stopped_and_killed() -> None:
    world = full()
    (job_id,) = world.submit(gpu_spec(1))
    world.run(gpu_spec(4, queue="other", hosts=("b",)))
    world.order("run", job_id, user="root", hosts=("b",))
    world.settle()
    world.reconfigure(make_config([HostConfig(name="a", max_slots=1)]))
    world.settle()
    assert world.reasons(job_id) == (FORCED,)
    assert world.control("stop", job_id) == [""] and world.state(job_id) == "PSUSP"
    assert world.control("resume", job_id) == [""] and world.reasons(job_id) == (FORCED,)
    assert world.control("kill", job_id) == [""] and world.state(job_id) == "EXIT"
    world.check_replay()
