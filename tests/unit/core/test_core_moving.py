"""gtop and gbot: who may move what to where, and that nobody else is passed."""

from __future__ import annotations

import pytest
from core_world import START, World, make_config, spec
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.model.config import Params
from gsched.model.queue import Queue


def full(**changes: object) -> World:
    """A cluster of one slot, which is taken."""
    queues = (Queue(name="normal", administrators=("carl",)), Queue(name="night"))
    world = World(make_config(queues=queues, **changes))
    world.run(spec(slots=16))
    return world


def order(world: World, queue: str = "normal") -> list[int]:
    """The waiting jobs of the queue as they will be served."""
    lines = [line for bucket, line in world.engine.state.pending.lines() if bucket.queue == queue]
    return [job_id for _, job_id in sorted(entry for line in lines for entry in line)]


def test_a_users_jobs_are_moved_among_his_own() -> None:
    world = full()
    mine, his = world.submit(*[spec()] * 3), world.submit(*[spec()] * 2, user="bob")
    mine += world.submit(*[spec()] * 2)
    assert order(world) == [*mine[:3], *his, *mine[3:]]
    assert world.order("top", mine[4]) == [""]
    assert order(world) == [mine[4], *mine[:3], *his, mine[3]]
    assert world.order("bottom", mine[0]) == [""]
    assert order(world) == [mine[4], *mine[1:3], *his, mine[3], mine[0]]
    assert world.order("top", his[1], user="bob") == [""]  # before his own first job, not before Ann's
    assert order(world) == [mine[4], *mine[1:3], his[1], his[0], mine[3], mine[0]]
    assert world.order("top", mine[0], position=3) == [""]  # the third of his own
    assert order(world) == [mine[4], mine[1], mine[0], mine[2], his[1], his[0], mine[3]]
    world.check_replay()


def test_administrators_move_jobs_among_all() -> None:
    world = full()
    ids = world.submit(*[spec()] * 4) + world.submit(spec(), user="bob")
    assert world.order("top", ids[4], user="root") == [""]
    assert order(world) == [ids[4], *ids[:4]]
    assert world.order("bottom", ids[4], user="carl", position=2) == [""]  # of the queue
    assert order(world) == [*ids[:3], ids[4], ids[3]]
    assert world.order("bottom", ids[0], user="root", position=99) == [""]  # beyond the end is the end
    assert order(world) == [*ids[:3], ids[4], ids[3]]
    assert world.order("top", ids[0], user="bob") == ["User permission denied"]


def test_only_jobs_of_one_queue_and_priority_are_passed() -> None:
    world = full(params=Params(max_user_priority=10))
    low, high = world.submit(*[spec(priority=1)] * 2), world.submit(*[spec(priority=9)] * 2)
    night = world.submit(spec(queue="night"))
    assert order(world) == [*high, *low]
    assert world.order("top", low[1]) == [""]
    assert order(world) == [*high, low[1], low[0]]
    assert order(world, "night") == night


def test_the_order_of_ageing_jobs_can_be_changed_too() -> None:
    world = full(params=Params(max_user_priority=10, priority_over_time=(1, 1)))
    ids = []
    for _ in range(3):
        ids += world.submit(spec())
        world.now += 100.0
    assert order(world) == ids
    assert world.order("top", ids[2]) == [""]
    assert order(world) == [ids[2], ids[0], ids[1]]
    assert world.order("bottom", ids[0]) == [""]
    assert order(world) == [ids[2], ids[1], ids[0]]
    world.check_replay()


def test_arrays_and_elements_are_moved() -> None:
    world = full()
    (job,), (array,) = world.submit(spec()), world.submit(spec(name="a", indices="1-3"))
    elements = [element_id(array, index) for index in (1, 2, 3)]
    assert order(world) == [job, *elements]
    assert world.order("top", array) == [""]
    assert order(world) == [*elements, job]
    assert world.order("bottom", elements[0]) == [""]
    assert order(world) == [*elements[1:], job, elements[0]]
    assert world.order("bottom", array) == [""]  # all of them, in their order
    assert order(world) == [job, *elements]
    world.check_replay()


def test_what_does_not_wait_is_not_moved() -> None:
    world = full()
    held, array = world.submit(spec(hold=True), spec(name="a", indices="1-3", hold=True))
    assert world.order("top", 1, held, array, 99) == [
        "Job has already started", "Job is suspended", "Job is suspended", "No matching job found",
    ]  # fmt: skip
    with pytest.raises(BadRequest, match="positions count from 1"):
        world.order("top", held, position=0)


def test_a_job_that_waits_for_others_keeps_the_place_it_was_given() -> None:
    world = full()
    ids = world.submit(spec(), spec(dependency="ended(1)"), spec(begin_at=START + 50))
    assert world.order("top", ids[1], ids[2]) == ["", ""]
    world.wait(60)
    world.ended(1)
    assert order(world) == [ids[2], ids[1], ids[0]]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 8), st.integers(1, 9), st.sampled_from(["ann", "bob", "root"])))
)
def test_moving_is_moving_in_a_list(moves: list[tuple[bool, int, int, str]]) -> None:
    world = full()
    for user in ("ann", "bob", "ann", "ann", "bob", "bob", "ann", "bob"):
        world.submit(spec(), user=user)
    owner = {job_id: world.job(job_id).spec.user for job_id in range(2, 10)}
    wanted = list(range(2, 10))
    for to_top, which, position, user in moves:
        job_id = which + 1
        if user not in (owner[job_id], "root"):
            continue
        world.order("top" if to_top else "bottom", job_id, user=user, position=position)
        rest = [each for each in wanted if each != job_id]
        counted = [each for each in rest if user == "root" or owner[each] == user]
        if to_top:
            place = rest.index(counted[position - 1]) if position <= len(counted) else rest.index(counted[-1]) + 1
        else:
            place = rest.index(counted[-position]) + 1 if position <= len(counted) else rest.index(counted[0])
        wanted = [*rest[:place], job_id, *rest[place:]]
        assert order(world) == wanted
