"""TASKLIMIT says the same to a job that comes and to one that grows."""

from __future__ import annotations

import pytest
from core_world import World, make_config, spec

from gsched.base.errors import BadRequest
from gsched.core.dispatch.task_limits import task_limits
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.application import Application
from gsched.model.queues.queue import Queue

PROFILES = {"app": Application(name="app", task_limit=(2, 2, 6)), "free": Application(name="free")}
CONFIG = make_config(
    (HostConfig(name="a", max_slots=16),),
    (Queue(name="normal", priority=3, resizable="y", task_limit=(1, 2, 4)),),
    applications=PROFILES,
)


def test_the_profile_comes_before_the_queue_and_what_is_not_set_says_nothing() -> None:
    assert [(each.name, each.fewest, each.most) for each in task_limits("app", "normal", CONFIG)] == [
        ("app", 2, 6),
        ("normal", 1, 4),
    ]
    assert [each.name for each in task_limits("free", "normal", CONFIG)] == ["normal"]
    assert not list(task_limits("", "gone", CONFIG))


@pytest.mark.parametrize("application, slots", [("", 5), ("app", 5), ("app", 7)])
def test_a_job_that_comes_and_one_that_grows_hear_the_same(application: str, slots: int) -> None:
    world = World(CONFIG)
    with pytest.raises(BadRequest) as refused:
        world.submit(spec(slots=slots, application=application))
    (job,) = world.run(spec(slots=2, application=application))
    assert world.order("request", job, slots=slots - 2) == [refused.value.text]


SIZES = make_config(
    (HostConfig(name="a", max_slots=16),),
    (Queue(name="normal", priority=3, resizable="y", task_limit=(2, 4, 8), job_sizes=(4, 2, 8)),),
    applications={"app": Application(name="app", task_limit=(1, 1, 8), job_sizes=(1, 8))},
)


def test_a_list_of_sizes_takes_these_alone_and_the_first_where_none_is_asked_for() -> None:
    world = World(SIZES)
    (given,), (asked,) = world.run(spec(defaulted=("slots",))), world.run(spec(slots=8))
    terms = "1*{select[mem>0]} + 1*{select[mem>1]}"
    (counted,) = world.submit(spec(defaulted=("slots",), res_req=terms))
    assert world.job(counted).spec.slots == 2, "as the terms ask for"
    assert [world.job(job).spec.slots for job in (given, asked)] == [4, 8]
    for wrong, shown in (({"slots": 3}, "3"), ({"slots": 2, "max_slots": 4}, "2,4")):
        with pytest.raises(BadRequest) as refused:
            world.submit(spec(**wrong))
        assert refused.value.text == (
            f"Job size {shown} is not allowed: queue normal takes jobs of these sizes (JOB_SIZE_LIST): 4 2 8"
        )


def test_the_sizes_of_profile_and_queue_count_both_and_a_job_does_not_grow_into_another() -> None:
    world = World(SIZES)
    with pytest.raises(BadRequest, match=r"application profile app takes jobs of these sizes.*: 1 8"):
        world.submit(spec(slots=4, application="app"))
    with pytest.raises(BadRequest, match="queue normal takes jobs of these sizes"):
        world.submit(spec(slots=1, application="app"))
    (job,) = world.run(spec(slots=4))
    (refused,) = world.order("request", job, slots=1)
    assert refused.startswith("Job size 5 is not allowed")
