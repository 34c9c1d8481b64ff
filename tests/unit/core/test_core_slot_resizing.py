"""Slots of started jobs that come and go while they run: gresize, -ar and RESIZABLE_JOBS."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, make_config, spec
from msgspec import structs

from gsched.base.errors import BadRequest
from gsched.core.instruction import TerminateAttempt
from gsched.model.config import ClusterConfig, Params
from gsched.model.event import JobModified
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.job import NO_MORE, JobSpec
from gsched.model.queues.application import Application
from gsched.model.queues.guarantee import GuaranteePool, Portion, ServiceClass
from gsched.model.queues.queue import Preemption, Queue, Share

BAD_HOST = "Bad host name, host group name or cluster name"
HOSTS = (HostConfig(name="a", max_slots=4), HostConfig(name="b", max_slots=4))


def a_world(hosts: tuple[HostConfig, ...] = HOSTS, params: Params | None = None, **queue: Any) -> World:
    return World(make_config(hosts, (Queue(name="normal", priority=3, **queue),), params=params or Params()))


def slots(world: World, job_id: int) -> dict[str, int]:
    allocation = world.job(job_id).allocation
    assert allocation is not None
    return {part.host: part.slots for part in allocation.hosts}


def begun(world: World, *specs: JobSpec) -> list[int]:
    """The jobs, where they have a place with their commands running."""
    jobs = world.run(*specs)
    for job in jobs:
        for host in [*slots(world, job)][1:] if world.state(job) == "RUN" else ():
            world.part_started(job, host)
        if world.state(job) == "RUN":
            world.started(job)
    return jobs


def said(world: World) -> list[str]:
    return [str(text) for event in world.events if isinstance(event, JobModified) for text in event.changes]


def test_what_is_released_is_given_to_another_job() -> None:
    world = a_world(resizable="y")
    first, second = begun(world, spec(slots=4, hosts=("a",)), spec(slots=3, hosts=("a",)))
    assert world.state(second) == "PEND"
    assert world.order("release", first, hosts=("3*a",)) == [""]
    world.settle()
    assert (slots(world, first), slots(world, second)) == ({"a": 1}, {"a": 3})
    assert said(world) == ["Slots released : 3*a"]
    world.check_replay()
    world.restart()
    assert world.engine.state.ledger.host("a").free_slots == 0


def test_a_host_of_which_nothing_is_left_ends_its_part_alone() -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=8))
    assert world.state(job) == "RUN" and slots(world, job) == {"a": 4, "b": 4}
    assert world.order("release", job, hosts=("all",)) == [""]
    assert slots(world, job) == {"a": 1}
    told = [each for each in world.instructions if isinstance(each, TerminateAttempt)]
    assert [(each.host, each.given_up) for each in told] == [("b", True)]
    world.part_ended(job, "b")
    world.settle()
    assert world.state(job) == "RUN"
    world.check_replay()


def test_memory_of_each_task_is_released_with_it_and_the_rest_stays() -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=4, hosts=("a",), res_req="rusage[mem=100/task]"))
    assert world.order("release", job, hosts=("2*a",)) == [""]
    assert world.engine.state.ledger.host("a").reserved == {"mem": 200.0}


@pytest.mark.parametrize(
    ("hosts", "error"),
    [
        (("b",), "b: the job has no slots there"),
        (("4*a",), "a: the job has 4 slots there, of which one stays"),
        (("5*a",), "a: the job has 4 slots there, of which one stays"),
    ],
)
def test_what_the_job_has_not_is_not_released(hosts: tuple[str, ...], error: str) -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=4, hosts=("a",)))
    assert world.order("release", job, hosts=hosts) == [error]
    assert slots(world, job) == {"a": 4} and said(world) == []


def test_who_keeps_its_slots() -> None:
    world = a_world(exclusive=True)
    fixed, waiting, whole = begun(
        world,
        spec(slots=2, hosts=("a",)),
        spec(slots=4, hosts=("a",), resizable="y"),
        spec(slots=2, hosts=("b",), exclusive=True, resizable="y"),
    )
    assert "Job is not resizable" in world.order("release", fixed, hosts=("a",))[0]
    assert "Job is not resizable" in world.order("request", fixed, slots=1)[0]
    assert world.order("release", waiting, hosts=("a",)) == ["Job has not started yet"]
    assert "its slots stay as they are" in world.order("release", whole, hosts=("b",))[0]
    assert "Job is not resizable" not in world.order("release", fixed, hosts=("a",), user="bob")[0]


def test_an_autoresizable_job_grows_when_others_end() -> None:
    world = a_world()
    other, job = begun(world, spec(slots=2, hosts=("a",)), spec(slots=1, max_slots=8, hosts=("a",), resizable="auto"))
    assert slots(world, job) == {"a": 2}
    world.ended(other)
    world.settle()
    assert slots(world, job) == {"a": 4}
    assert said(world) == ["Slots added : 2*a"]
    world.check_replay()


def test_jobs_that_wait_come_before_growth() -> None:
    world = a_world()
    other, job, waiting = begun(
        world,
        spec(slots=2, hosts=("a",)),
        spec(slots=1, max_slots=4, hosts=("a",), resizable="auto"),
        spec(hosts=("a",)),
    )
    assert world.state(waiting) == "PEND"
    world.ended(other)
    world.settle()
    assert world.state(waiting) == "RUN" and slots(world, job) == {"a": 3}


def test_limits_hold_growth_back() -> None:
    world = a_world(job_limit=5)
    other, job = begun(world, spec(slots=2, hosts=("a",)), spec(slots=1, max_slots=4, hosts=("a",), resizable="auto"))
    (third,) = begun(world, spec(slots=1, hosts=("b",)))
    world.ended(other)
    world.settle()
    assert slots(world, job) == {"a": 4} and world.state(third) == "RUN"
    narrow = a_world(user_limit=3)
    other, job = begun(narrow, spec(slots=1, hosts=("b",)), spec(slots=1, max_slots=4, hosts=("a",), resizable="auto"))
    assert slots(narrow, job) == {"a": 2}
    narrow.ended(other, host="b")
    narrow.settle()
    assert slots(narrow, job) == {"a": 3}


def test_amounts_of_each_task_keep_a_job_as_it_is() -> None:
    world = a_world()
    asked = {"slots": 1, "max_slots": 4, "hosts": ("a",), "resizable": "auto", "res_req": "rusage[mem=100/task]"}
    other, job = begun(world, spec(slots=2, hosts=("a",)), spec(**asked))
    world.ended(other)
    world.settle()
    assert slots(world, job) == {"a": 2}


def test_a_request_is_met_when_there_is_room_or_cancelled() -> None:
    world = a_world(resizable="y")
    other, job = begun(world, spec(slots=3, hosts=("a",)), spec(slots=1, hosts=("a",)))
    assert world.order("request", job, slots=0) == ["No request for more slots is pending"]
    assert world.order("request", job, slots=2) == [""]
    world.settle()
    assert slots(world, job) == {"a": 1}
    world.ended(other)
    world.settle()
    assert slots(world, job) == {"a": 3}
    assert world.order("request", job, slots=1) == [""]
    assert world.order("request", job, slots=0) == [""]
    world.settle()
    assert (slots(world, job), world.job(job).spec.resize_to) == ({"a": 3}, NO_MORE)


def test_a_release_is_not_undone_by_growth() -> None:
    world = a_world()
    (job,) = begun(world, spec(slots=1, max_slots=4, hosts=("a",), resizable="auto"))
    assert world.order("release", job, hosts=("1*a",)) == [""]
    world.settle()
    assert slots(world, job) == {"a": 3}
    assert world.order("release", job, hosts=("1*a",), cancels=True) == [""]
    world.settle()
    assert slots(world, job) == {"a": 2}
    assert world.order("request", job, slots=1) == [""]
    world.settle()
    assert slots(world, job) == {"a": 3}
    world.check_replay()


def test_what_a_met_request_brought_can_be_released() -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=1, hosts=("a",)))
    assert world.order("request", job, slots=3) == [""]
    world.settle()
    assert slots(world, job) == {"a": 4}
    assert world.order("release", job, hosts=("2*a",)) == [""]
    world.settle()
    assert slots(world, job) == {"a": 2}
    world.check_replay()


def test_while_a_request_is_pending_a_release_says_that_it_cancels_it() -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=2, hosts=("a",)))
    assert world.order("request", job, slots=8) == [""]
    world.settle()
    assert slots(world, job) == {"a": 4}
    assert "A request for more slots is pending" in world.order("release", job, hosts=("2*a",))[0]
    assert slots(world, job) == {"a": 4} and world.job(job).spec.resize_to == 10
    assert world.order("release", job, hosts=("2*a",), cancels=True) == [""]
    world.settle()
    assert slots(world, job) == {"a": 2}


def test_a_host_without_a_number_of_slots_gives_no_more_than_its_cpus() -> None:
    world = a_world((HostConfig(name="a"),), resizable="y")
    first, second = begun(world, spec(slots=2), spec(slots=2))
    most = "Too many processors requested: 1000001, a job may have 1000000"
    assert world.order("request", first, slots=999_999) == [most]
    with pytest.raises(BadRequest, match="a request is for 1 to 1000000 slots"):
        world.order("request", first, slots=2_147_483_000)
    assert world.order("request", first, second, slots=900_000) == ["", ""]
    world.settle()
    assert slots(world, first)["a"] + slots(world, second)["a"] == 16
    world.check_replay()


def test_task_limits_bound_a_request() -> None:
    narrow = Application(name="narrow", task_limit=(1, 1, 3))
    queue = Queue(name="normal", priority=3, resizable="y", task_limit=(1, 1, 4))
    world = World(make_config((HostConfig(name="a", max_slots=16),), (queue,), applications={"narrow": narrow}))
    (plain, profiled) = begun(world, spec(slots=2), spec(slots=2, application="narrow"))
    of_queue = "Too many processors requested: 10, queue normal allows 4"
    of_profile = "Too many processors requested: 4, application profile narrow allows 3"
    assert world.order("request", plain, slots=8) == [of_queue]
    assert world.order("request", profiled, slots=2) == [of_profile]
    assert world.order("request", plain, slots=2) == [""]
    world.settle()
    assert (slots(world, plain), slots(world, profiled)) == ({"a": 4}, {"a": 2})


def test_task_limits_that_are_lower_by_now_bound_growth() -> None:
    def config(of_queue: int, of_profile: int, has: int) -> ClusterConfig:
        profile = Application(name="narrow", task_limit=(1, 1, of_profile))
        queue = Queue(name="normal", priority=3, resizable="y", task_limit=(1, 1, of_queue))
        return make_config((HostConfig(name="a", max_slots=has),), (queue,), applications={"narrow": profile})

    world = World(config(9, 9, 4))
    plain, profiled = begun(world, spec(slots=2), spec(slots=2, application="narrow"))
    assert world.order("request", plain, profiled, slots=6) == ["", ""]
    world.settle()
    assert slots(world, plain) == slots(world, profiled) == {"a": 2}
    world.reconfigure(config(5, 3, 16))
    world.settle()
    assert (slots(world, plain), slots(world, profiled)) == ({"a": 5}, {"a": 3})


def test_a_request_is_of_the_run_that_it_was_made_in() -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=2, hosts=("a",), rerunnable=True))
    assert world.order("request", job, slots=3) == [""]
    world.settle()
    assert slots(world, job) == {"a": 4} and world.job(job).spec.resize_to == 5
    assert world.order("requeue", job) == [""]
    world.ended(job)
    world.settle()
    assert (slots(world, job), world.job(job).spec.resize_to) == ({"a": 2}, 0)
    world.check_replay()


def test_a_job_that_goes_on_is_looked_at_for_more() -> None:
    world = a_world()
    other, job = begun(world, spec(slots=2, hosts=("a",)), spec(slots=1, max_slots=4, hosts=("a",), resizable="auto"))
    assert world.control("stop", job) == [""]
    world.ended(other)
    world.settle()
    assert world.state(job) != "RUN" and slots(world, job) == {"a": 2}
    assert world.control("resume", job) == [""]
    world.settle()
    assert slots(world, job) == {"a": 4}


def test_a_job_that_begins_is_looked_at_for_more() -> None:
    world = a_world()
    world.submit(spec(slots=2, hosts=("a",)))
    (job,) = world.submit(spec(slots=1, max_slots=4, hosts=("a",), resizable="auto"))
    world.settle()
    assert not world.engine.cycles.needs_cycle
    world.started(job)
    assert world.engine.cycles.needs_cycle


def preempting(width: int) -> tuple[World, list[int]]:
    """A host with a preempted job of so many slots, one that wants more than its one, and who preempted."""
    queues = (
        Queue(name="high", priority=9, preemption=Preemption(preemptive=())),
        Queue(name="normal", priority=1, resizable="y"),
    )
    params = Params(min_run_before_preempt_s=10.0)
    world = World(make_config((HostConfig(name="a", max_slots=4),), queues, params=params))
    growing, low = world.run(spec(slots=1, resizable="y", rerunnable=False), spec(slots=width))
    world.wait(20)
    return world, [growing, low]


def test_preempted_jobs_go_on_before_others_grow() -> None:
    world, (growing, low) = preempting(3)
    high, second = world.submit(spec(queue="high", slots=1), spec(queue="high", slots=2))
    world.settle()
    assert [world.state(each) for each in (growing, low, high, second)] == ["RUN", "SSUSP", "RUN", "RUN"]
    world.started(high)
    world.started(second)
    assert world.order("request", growing, slots=3) == [""]
    world.ended(high)
    world.settle()  # one slot is free, and the preempted job waits for three
    assert (world.state(low), slots(world, growing)) == ("SSUSP", {"a": 1})
    world.ended(second)
    world.settle()
    assert (world.state(low), slots(world, growing)) == ("RUN", {"a": 1})
    world.ended(low)
    world.settle()
    assert slots(world, growing) == {"a": 4}
    world.check_replay()


def test_gmod_arn_leaves_what_the_queue_says() -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=3, hosts=("a",), resizable="auto"))
    assert world.modify(job, resizable="", resize_to=0) == [""]
    assert world.job(job).spec.resizable == "y"
    assert world.order("release", job, hosts=("1*a",)) == [""]
    world = a_world()
    (job,) = begun(world, spec(slots=3, hosts=("a",), resizable="auto"))
    assert world.modify(job, resizable="", resize_to=0) == [""]
    assert "Job is not resizable" in world.order("release", job, hosts=("1*a",))[0]


def test_slots_on_a_host_that_left_the_cluster_are_released() -> None:
    world = a_world(resizable="y")
    (job,) = begun(world, spec(slots=8))
    assert world.order("release", job, hosts=("nosuch",)) == ["nosuch: " + BAD_HOST]
    world.reconfigure(make_config(HOSTS[:1], (Queue(name="normal", priority=3, resizable="y"),)))
    assert world.state(job) == "RUN"
    assert world.order("release", job, hosts=("b",)) == [""]
    assert slots(world, job) == {"a": 4}


def test_profile_queue_and_cluster_say_it_in_this_order() -> None:
    world = a_world(params=Params(resizable="auto"))
    (job,) = begun(world, spec())
    assert world.job(job).spec.resizable == "auto"
    world = a_world(params=Params(resizable="auto"), resizable="n")
    (job,) = begun(world, spec())
    assert world.job(job).spec.resizable == "n"


def test_fairshare_counts_the_slots_that_are_there() -> None:
    world = a_world(resizable="y", fairshare=(Share("default", 1),))
    (job,) = begun(world, spec(slots=4, hosts=("a",)))
    world.order("release", job, hosts=("3*a",))
    (use,) = world.engine.state.accounts.shares("normal", world.now).values()
    assert use.slots == 1


def test_jobs_that_grow_in_one_cycle_leave_what_is_guaranteed() -> None:
    pool = GuaranteePool(name="p", kind="slots", unit={"slots": 1.0}, shares={"gold": Portion(2.0)})
    queues = (Queue(name="normal", priority=3, resizable="y"),)
    world = World(make_config(HOSTS[:1], queues, service_classes={"gold": ServiceClass(name="gold")}, pools=(pool,)))
    first, second = begun(world, spec(), spec())
    held = [world.order("request", each, slots=1) for each in (first, second)]
    assert held == [[""], [""]]
    world.settle()
    assert (slots(world, first), slots(world, second)) == ({"a": 1}, {"a": 1}), "the two that are free are owed"
    world.reconfigure(structs.replace(world.config, pools=(structs.replace(pool, shares={"gold": Portion(1.0)}),)))
    world.settle()
    assert sum(slots(world, each)["a"] for each in (first, second)) == 3, "one of them gets one"
    world.check_replay()
