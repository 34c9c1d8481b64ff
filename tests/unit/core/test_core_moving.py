"""gtop and gbot: who may move what to where, and that nobody else is passed."""

from __future__ import annotations

import pytest
from core_world import START, World, first_words, make_config, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.base.ids import array_of, element_id
from gsched.core.control.queue_order import QueuePlace, place_at
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import Params
from gsched.model.queues.queue import Queue
from tests.support.property_examples import examples


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


def served(world: World) -> list[int]:
    """The same, each array once."""
    return list(dict.fromkeys(map(array_of, order(world))))


def test_two_jobs_change_places() -> None:
    world = full()
    a, b, c = world.submit(*[spec()] * 3)
    his = world.submit(spec(), user="bob")[0]
    array = world.submit(spec(indices="1-3"))[0]
    assert world.control("exchange", a, c) == ["", ""]
    assert served(world) == [c, b, a, his, array]
    assert world.control("exchange", c, array) == ["", ""]
    assert served(world) == [array, b, a, his, c]
    assert world.control("exchange", his, a, user="root") == ["", ""]
    assert served(world) == [array, b, his, a, c]
    for answers in (world.control("exchange", a, his), world.control("exchange", his, a)):
        assert {*first_words(answers)} == {"User permission denied"}
    (night,) = world.submit(spec(queue="night"))
    assert world.control("exchange", a, night) == ["Jobs of different queues or priorities do not change places"] * 2
    world.control("stop", b)
    assert world.control("exchange", a, b) == ["Job is suspended"] * 2
    assert world.control("exchange", a, 999_999)[0] == "No matching job found"
    for ids in ((a,), (a, a), (a, b, c)):
        with pytest.raises(BadRequest, match="two jobs change places"):
            world.control("exchange", *ids)
    assert served(world) == [array, his, a, c]
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
    assert first_words(world.order("top", ids[0], user="bob")) == ["User permission denied"]


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


def by_looking_at_all(
    state: ClusterState, job: JobRecord, position: int, *, to_top: bool, everybody: bool
) -> QueuePlace:
    """The place as it is defined: all others of the queue and priority in order."""
    numbers = [entry for bucket, line in state.waits.pending.lines() for entry in line.entries()]
    numbers += [*state.waits.delayed, *state.waits.blocked]
    others = []
    for number in numbers:
        item, spec = state.item(number), state.item(number).spec
        if number != job.job_id and (spec.queue, spec.priority) == (job.spec.queue, job.spec.priority):
            aged = item.submitted_at if item.ages_from is None else item.ages_from
            others.append((QueuePlace(aged if spec.aging_per_s else 0.0, item.order), number, spec.user))
    counted = [place for place, _, user in sorted(others) if everybody or user == job.spec.user]
    if not counted:
        aged = job.submitted_at if job.ages_from is None else job.ages_from
        return QueuePlace(aged if job.spec.aging_per_s else 0.0, job.order)
    in_range = position <= len(counted)
    place = counted[(position - 1 if to_top else -position) if in_range else (-1 if to_top else 0)]
    orders = [each[0].order for each in others if each[0].ages_from == place.ages_from]
    if to_top is in_range:
        below = max((order for order in orders if order < place.order), default=None)
        return QueuePlace(place.ages_from, place.order - 1.0 if below is None else (below + place.order) / 2)
    above = min((order for order in orders if order > place.order), default=None)
    return QueuePlace(place.ages_from, place.order + 1.0 if above is None else (above + place.order) / 2)


@settings(max_examples=examples(20), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from("xy"), st.integers(1, 9), st.booleans()), max_size=14),
    st.booleans(),
)
def test_the_place_found_is_the_one_that_a_look_at_all_finds(
    moves: list[tuple[int, str, int, bool]], ages: bool
) -> None:
    params = Params(max_user_priority=10, priority_over_time=(1, 1) if ages else None)
    world = full(params=params)
    (root,) = world.submit(spec(hold=True))
    for number in range(9):
        kind = {"res_req": f"rusage[mem={number % 3}]"} if number % 3 else {}
        world.submit(spec(priority=5 + number % 2, **kind), user="xy"[number % 2])
        world.submit(spec(**kind), user="x")
        world.now += 10.0
    world.submit(spec(dependency=f"done({root})"), spec(begin_at=world.now + 999), user="root")
    state = world.engine.state
    waiting = [number for number in state.jobs if state.jobs[number].state.value == "PEND"]
    for which, user, position, to_top in moves:
        job = state.jobs[waiting[which * 3 % len(waiting)]]
        everybody = user == "y"
        expected = by_looking_at_all(state, job, position, to_top=to_top, everybody=everybody)
        found = place_at(state, job, position, to_top=to_top, everybody=everybody, whole=False)
        assert found == expected
        world.order("top" if to_top else "bottom", job.job_id, position=position, user="root" if everybody else "x")


def test_a_move_looks_at_few_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full()
    ids = world.submit(*[spec()] * 500, *[spec(res_req="rusage[mem=1]")] * 500)
    looked: list[int] = []
    item = type(world.engine.state).item

    def counted(state: ClusterState, number: int) -> JobRecord | JobArray:
        looked.append(number)
        return item(state, number)

    monkeypatch.setattr(type(world.engine.state), "item", counted)
    for action, job in (("top", ids[400]), ("bottom", ids[300]), ("top", ids[900])):
        looked.clear()
        assert world.order(action, job) == [""]
        assert len(looked) < 50
    looked.clear()
    assert world.order("top", ids[600], position=10_000) == [""]
    assert len(looked) < 50


def test_an_administrator_may_count_among_the_jobs_of_their_user() -> None:
    world = full()
    mine, his = world.submit(*[spec()] * 2), world.submit(*[spec()] * 2, user="bob")
    assert world.order("top", his[1], user="root", among_own=True) == [""]
    assert order(world) == [*mine, his[1], his[0]]
    assert world.order("bottom", mine[0], user="root", among_own=True) == [""]
    assert order(world) == [mine[1], mine[0], his[1], his[0]]
