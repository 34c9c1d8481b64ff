"""gmod -R of a started job: amounts change in the ledger, and nothing else can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_world import World, gpu_spec, make_config, spec

from gsched.core.command import ModifyJobs
from gsched.model.event import JobModified
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Queue

FIRST = "rusage[mem=100]"
HOSTS = (HostConfig(name="a", max_slots=16, values={"licence": 10.0}), HostConfig(name="b", max_slots=16))


def a_world(**queue: Any) -> World:
    return World(make_config(HOSTS, (Queue(name="normal", priority=3, **queue),)))


def reserved(world: World, host: str = "a") -> dict[str, float]:
    return dict(world.engine.state.ledger.host(host).reserved)


def test_less_memory_lets_another_job_start() -> None:
    world = a_world()
    first, second = world.run(
        spec(res_req="select[mem>5] rusage[mem=90000]", hosts=("a",)), spec(res_req="rusage[mem=50000]", hosts=("a",))
    )
    assert world.state(second) == "PEND"
    assert world.modify(first, res_req="rusage[mem=1000]") == [""]
    made = world.job(first)
    assert made.spec.res_req == "select[mem>5] rusage[mem=1000]"
    assert made.spec.combined_req == "select[(mem>5) && (type == local)] order[r15s:pg] rusage[mem=1000.00]"
    assert made.effective_req == made.spec.combined_req
    event = world.events[-1]
    assert isinstance(event, JobModified) and event.allocation == made.allocation
    assert event.changes == ("Combined resource requirements changes to : select[mem>5] rusage[mem=1000]",)
    world.settle()
    assert world.state(second) == "RUN" and reserved(world) == {"mem": 51000.0}
    world.check_replay()
    world.restart()
    assert reserved(world) == {"mem": 51000.0}


def test_what_a_queue_reserves_comes_back_when_the_job_says_nothing() -> None:
    world = a_world(res_req="rusage[mem=100]")
    (job,) = world.run(spec(res_req="rusage[mem=500:licence=2]", hosts=("a",)))
    assert world.modify(job, res_req="") == [""]
    assert reserved(world) == {"mem": 100.0}
    assert world.job(job).spec.res_req == ""


@pytest.mark.parametrize(
    ("asked", "on_a", "on_b"),
    [
        ("rusage[mem=100/host]", 100.0, 100.0),
        ("rusage[mem=100/task]", 200.0, 200.0),
        ("rusage[mem=100/job]", 100.0, None),
    ],
)
def test_amounts_are_per_host_task_or_job_as_at_the_start(asked: str, on_a: float, on_b: float | None) -> None:
    world = a_world()
    (job,) = world.run(spec(slots=4, res_req="span[ptile=2] rusage[mem=7]", hosts=("a", "b"), first_hosts=("a",)))
    assert world.modify(job, res_req=asked) == [""]
    assert (reserved(world).get("mem"), reserved(world, "b").get("mem")) == (on_a, on_b)
    assert world.job(job).spec.res_req.startswith("rusage[") and "span[ptile=2]" in world.job(job).spec.res_req
    world.check_replay()


def test_gpus_stay_and_need_not_be_named() -> None:
    world = a_world()
    (job,) = world.run(gpu_spec(2, res_req="rusage[ngpus_excl_p=2:mem=10]", hosts=("a",)))
    held = world.held(job)
    assert world.modify(job, res_req="rusage[mem=20]") == [""]
    assert world.modify(job, res_req="rusage[ngpus_excl_p=2:mem=30]") == [""]
    assert world.held(job) == held and reserved(world) == {"mem": 30.0}
    assert world.job(job).spec.res_req == "rusage[ngpus_excl_p=2,mem=30]"
    assert world.modify(job, res_req="rusage[ngpus_excl_p=1]") == [
        "Job has already started: its GPUs stay as they are, ngpus_excl_p cannot be changed"
    ]
    (other,) = world.run(spec(gpu_req="num=1:mode=exclusive_process", res_req="rusage[mem=10]", hosts=("a",)))
    assert world.modify(other, res_req="rusage[mem=20]") == [""]
    assert len(world.held(other)) == 1 and reserved(world) == {"mem": 50.0}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("select[mem>9] rusage[mem=5]", "of the requirement only amounts of rusage[] can be changed, not select[]"),
        ("span[hosts=1]", "of the requirement only amounts of rusage[] can be changed, not span[]"),
        ("order[ut]", "of the requirement only amounts of rusage[] can be changed, not order[]"),
        ("rusage[mem=5 || licence=1]", "alternatives and compound requirements stay as they were"),
        ("{rusage[mem=5]} || {rusage[mem=6]}", "alternatives and compound requirements stay as they were"),
        ("rusage[nonsense=5]", "Bad resource name: nonsense"),
        ("rusage[mem=", "Bad resource requirement syntax"),
        ("rusage[licence=11]", "a has no 10 more of licence to reserve: 8 left"),
        ("rusage[mem=200000]", "a has no 199995 more of mem to reserve: 127995 left"),
        ("rusage[seats=1]", "a has no 1 more of seats to reserve: how much is left is not known"),
    ],
)
def test_what_cannot_be_changed_is_refused_by_one_line(asked: str, said: str) -> None:
    world = a_world()
    job, _ = world.run(
        spec(res_req="rusage[mem=5:licence=1]", hosts=("a",)), spec(res_req="rusage[licence=1]", hosts=("a",))
    )
    before, events = world.engine.state.dump(), len(world.events)
    (error,) = world.modify(job, res_req=asked)
    assert said in error and "\n" not in error
    assert world.engine.state.dump() == before and len(world.events) == events


def test_a_duration_counts_from_the_start_of_the_job() -> None:
    world = a_world()
    (job,) = world.run(spec(res_req="rusage[mem=500]", hosts=("a",)))
    world.wait(300.0)
    assert world.modify(job, res_req="rusage[mem=400:duration=10]") == [""]
    assert reserved(world) == {"mem": 400.0}
    world.wait(301.0)
    assert reserved(world) == {}
    assert world.modify(job, res_req="rusage[mem=300]") == [""]
    assert reserved(world) == {"mem": 300.0}
    world.check_replay()


def test_of_an_array_the_waiting_elements_change_and_a_started_one_by_its_name() -> None:
    world = a_world(user_limit=1)
    (array,) = world.run(spec(res_req="rusage[mem=500]", name="x", indices="1-3", hosts=("a",)))
    started = next(job_id for job_id in world.engine.state.jobs if world.state(job_id) == "RUN")
    assert world.modify(array, res_req="select[mem>1] rusage[mem=10]") == [""]
    assert reserved(world) == {"mem": 500.0}
    assert world.modify(started, res_req="rusage[mem=20]") == [""]
    assert reserved(world) == {"mem": 20.0}
    world.check_replay()


def in_turns(world: World, job: int, meanwhile: Callable[[], object], **fields: Any) -> str:
    """gmod that is judged in one turn and carried out in another; what happens in between. The job's error."""
    command = ModifyJobs("ann", False, (job,), spec(**fields), tuple(fields))
    decision = world.take(world.engine.handle(command, world.now, 1))
    assert decision.rest is not None
    meanwhile()
    while decision.rest is not None:
        decision = world.take(world.engine.go_on(decision.rest, world.now, 1))
    world.check_replay()
    return str(decision.reply[0].error)


def slots_on(world: World) -> dict[str, int]:
    return {name: world.engine.state.ledger.host(name).slots_used for name in ("a", "b")}


def test_slots_that_were_released_between_two_turns_stay_released() -> None:
    world = a_world(resizable="y")
    first, second = world.run(spec(slots=16, res_req=FIRST, hosts=("a",)), spec(slots=12, hosts=("a",)))

    def release() -> None:
        assert world.order("release", first, hosts=("15*a",)) == [""]
        world.settle()

    assert in_turns(world, first, release, res_req="rusage[mem=50]") == ""
    assert (world.state(second), slots_on(world), reserved(world)) == ("RUN", {"a": 13, "b": 0}, {"mem": 50.0})


def test_a_part_that_was_released_between_two_turns_stays_released() -> None:
    world = a_world(resizable="y")
    (job,) = world.run(spec(slots=32, res_req=FIRST))

    def release() -> None:
        assert world.order("release", job, hosts=("b",)) == [""]

    assert in_turns(world, job, release, res_req="rusage[mem=50]") == ""
    assert [part.host for part in world.job(job).allocation.hosts] == ["a"] and reserved(world) == {"mem": 50.0}


def test_a_job_that_began_elsewhere_between_two_turns_holds_what_it_has_there() -> None:
    world = a_world()
    (first,) = world.run(spec(slots=16, res_req=FIRST, hosts=("a", "b")))
    (other,) = world.submit(spec(slots=16, hosts=("a",)))

    def restart() -> None:
        world.order("requeue", first)
        world.ended(first)
        world.order("top", other, user="root")
        world.settle()
        assert world.state(other) == "RUN" and world.job(first).allocation.first_host == "b"

    assert in_turns(world, first, restart, res_req="rusage[mem=50]") == ""
    assert slots_on(world) == {"a": 16, "b": 16} and reserved(world, "b") == {"mem": 50.0}


def test_what_others_have_reserved_between_two_turns_is_not_reserved_twice() -> None:
    world = a_world()
    (job,) = world.run(spec(res_req=FIRST, hosts=("a",)))
    error = in_turns(world, job, lambda: world.run(spec(res_req="rusage[licence=9]", hosts=("a",))),
                     res_req="rusage[licence=5]")  # fmt: skip
    assert error == "a has no 5 more of licence to reserve: 1 left"
    assert reserved(world) == {"mem": 100.0, "licence": 9.0}


def test_a_job_that_ended_between_two_turns_is_said_to_have_ended() -> None:
    world = a_world()
    (job,) = world.run(spec(res_req=FIRST, hosts=("a",)))
    assert in_turns(world, job, lambda: world.ended(job), res_req="rusage[mem=50]") == "Job has already finished"
