"""Where the tasks of a step go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.model.jobs.step_layout import StepPlan, StepRoom, StepShape, TaskPlace, plan_step

ROOMS = (StepRoom("a", 4, 2), StepRoom("b", 4, 2))


def plan(tasks: int, *rooms: StepRoom, **more: Any) -> StepPlan:
    found = plan_step(StepShape(tasks=tasks, **more), rooms or ROOMS)
    assert found is not None
    return found


def hosts(found: StepPlan) -> str:
    return "".join(place.host for place in found.places)


@pytest.mark.parametrize(
    ("tasks", "more", "expected"),
    [
        (1, {}, "a"),
        (2, {}, "ab"),
        (4, {}, "aabb"),
        (4, {"distribution": "cyclic"}, "abab"),
        (5, {}, "aaabb"),
        (3, {"nodes": 1}, "aaa"),
        (2, {"hosts": ("b",)}, "bb"),
        (2, {"excluded": ("a",)}, "bb"),
        (2, {"relative": 1}, "bb"),
        (2, {"cpus": 4}, "ab"),
        (2, {"cpus": 3, "gpus_per_task": 2}, "ab"),
        (12, {"overcommits": True}, "aaaaaabbbbbb"),
    ],
)
def test_hosts_of_tasks(tasks: int, more: dict[str, Any], expected: str) -> None:
    assert hosts(plan(tasks, **more)) == expected


def test_numbers_of_hosts_and_tasks() -> None:
    assert plan(3, distribution="cyclic").places == (
        TaskPlace("a", 0, 0),
        TaskPlace("b", 1, 0),
        TaskPlace("a", 0, 1),
    )


def test_gpus_of_tasks() -> None:
    found = plan(4, gpus_per_task=1)
    assert [place.gpus for place in found.places] == [(0,), (1,), (0,), (1,)]
    assert found.gpus == {"a": (0, 1), "b": (0, 1)}
    assert [place.gpus for place in plan(4, gpus_per_node=1).places] == [(0,)] * 4
    assert [place.gpus for place in plan(2, gpus=3).places] == [(0, 1), (0,)]
    assert [place.gpus for place in plan(1, gpus_per_node=0).places] == [()]
    assert plan(1).places[0].gpus is None and plan(1).gpus == {}


def test_what_others_hold_is_waited_for() -> None:
    busy = (StepRoom("a", 4, 2, 4, (0,)), StepRoom("b", 4, 2, 2, (0, 1)))
    assert hosts(plan(2, *busy)) == "bb"
    assert plan_step(StepShape(tasks=3), busy) is None
    assert plan_step(StepShape(tasks=1, gpus_per_task=1), busy) is None
    assert plan_step(StepShape(tasks=1, is_whole=True), busy) is None
    overlapping = plan(8, *busy, overlaps=True, gpus_per_node=2)
    assert overlapping.slots == {"a": 0, "b": 0} and overlapping.gpus == {}
    assert plan(1, is_whole=True).slots == {"a": 4}


def test_a_task_takes_the_gpu_that_is_free() -> None:
    assert plan(1, StepRoom("a", 4, 2, 1, (0,)), gpus_per_task=1).places[0].gpus == (1,)


@pytest.mark.parametrize(
    ("tasks", "more", "said"),
    [
        (9, {}, "More processors requested than permitted: 9 tasks do not fit into the job's 2 nodes with 8 CPUs"),
        (2, {"cpus": 5}, "More processors requested than permitted: 2 tasks of 5 CPUs"),
        (2, {"gpus": 5}, "More GPUs requested than permitted"),
        (1, {"gpus_per_node": 3}, "More GPUs requested than permitted"),
        (5, {"gpus_per_task": 1}, "More GPUs requested than permitted"),
        (3, {"nodes": 3}, "More nodes requested than permitted: 3 are asked for, the job has 2"),
        (1, {"hosts": ("c",)}, "Requested node c is not in this allocation: it has a, b"),
        (1, {"relative": 2}, "Requested node configuration is not available"),
        (0, {}, "0 tasks"),
        (10_001, {}, "10001 tasks"),
        (1, {"distribution": "plane"}, "distribution plane"),
    ],
)
def test_what_a_job_does_not_have(tasks: int, more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        plan_step(StepShape(tasks=tasks, **more), ROOMS)
    assert refusal.value.text.startswith(said)


@given(
    st.integers(1, 60),
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from(["block", "cyclic"]),
    st.sampled_from([None, 0, 1, 2]),
)
def test_no_plan_takes_more_than_there_is(
    tasks: int, sizes: list[tuple[int, int, int]], cpus: int, distribution: str, gpus: int | None
) -> None:
    rooms = [StepRoom(str(n), slots, count, min(used, slots)) for n, (slots, count, used) in enumerate(sizes)]
    try:
        found = plan_step(StepShape(tasks=tasks, cpus=cpus, distribution=distribution, gpus_per_task=gpus), rooms)
    except BadRequest:
        return
    if found is None:
        return
    counts = Counter(place.host for place in found.places)
    assert counts.total() == tasks
    for room in rooms:
        assert counts[room.host] * cpus == found.slots.get(room.host, 0) <= room.slots - room.used_slots
        own = [gpu for place in found.places if place.host == room.host for gpu in place.gpus or ()]
        assert len(own) == len(set(own)) and all(gpu < room.gpus for gpu in own)
        places = [place.local for place in found.places if place.host == room.host]
        assert sorted(places) == list(range(len(places)))
