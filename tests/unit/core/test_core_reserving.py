"""Advance reservations: made, found, changed, used, over; what is promised is not promised twice."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import START, World, gpu_spec, make_config, spec

from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound, PermissionDenied
from gsched.model.event import ReservationRemoved
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import UserGroup

HOUR = 3600.0
SOON: dict[str, Any] = {"users": ("ann",), "start": START + 100, "end": START + HOUR}


def cluster() -> World:
    return World(make_config("ab", user_groups={"lab": UserGroup(name="lab", users=("ann", "eve"))}))


def test_slots_and_gpus_of_named_hosts_are_reserved_once() -> None:
    world = cluster()
    assert world.reserve(**SOON, slots_on={"a": 10}, gpus_on={"a": 3}) == "root#0"
    with pytest.raises(BadRequest, match="a: 7 slots wanted, 6 can be reserved in that time"):
        world.reserve(**SOON, slots_on={"a": 7})
    with pytest.raises(BadRequest, match="a: 2 GPUs wanted, 1 can be reserved in that time"):
        world.reserve(**SOON, gpus_on={"a": 2})
    later = SOON | {"start": START + HOUR, "end": START + 2 * HOUR}
    assert world.reserve(**later, slots_on={"a": 16}, gpus_on={"a": 4}, name="big") == "big"
    assert world.reserve(**SOON, slots_on={"a": 6}) == "root#1"
    world.check_replay()


def test_hosts_are_found_by_requirement() -> None:
    world = cluster()
    world.reserve(**SOON, slots=20, gpus=6, name="r")
    made = world.engine.state.reservations["r"]
    assert made.slots == {"a": 16, "b": 4} and made.gpus == {"a": 4, "b": 2}
    world.reserve(**SOON, slots=12, requirement="select[hname==b]", name="s")
    assert world.engine.state.reservations["s"].slots == {"b": 12}
    with pytest.raises(BadRequest, match=r"Not enough host.*: 1 slots more are wanted"):
        world.reserve(**SOON, slots=1)
    with pytest.raises(GschedError):
        world.reserve(**SOON, slots=1, requirement="select[nonsense")


def test_hosts_are_found_by_what_they_have_in_all() -> None:
    """Jobs that hold GPUs or slots now are over by then, or have no right to them."""
    world = cluster()
    world.submit(gpu_spec(4, hosts=("a",), slots=16))
    world.cycle()
    for name, requirement in {"r": "select[ngpus>=4]", "s": "select[ngpus_excl_p==4 && slots>=16]"}.items():
        world.reserve(**SOON, slots=2, requirement=requirement, name=name)
        assert world.engine.state.reservations[name].slots == {"a": 2}
    world.reserve(**SOON, slots=2, requirement="select[ngpus_physical>=4]", name="t")
    with pytest.raises(BadRequest, match="Not enough"):
        world.reserve(**SOON, slots=2, requirement="select[ngpus>4]")


@pytest.mark.parametrize(
    ("requirement", "error"),
    [
        ("select[nosuch]", "Bad resource name: nosuch at position 8"),
        ("select[ngpsu>0]", "did you mean ngpus"),
        ("rusage[mem=10]", r"only select\[...\] chooses hosts of a reservation"),
        ("select[mem>1] span[hosts=1]", r"only select\[...\] chooses hosts of a reservation"),
        ("order[mem]", r"only select\[...\] chooses hosts of a reservation"),
        ("{select[mem>1]} || {select[mem>2]}", r"not supported here"),
    ],
)
def test_a_requirement_that_chooses_no_hosts_of_a_reservation_is_refused(requirement: str, error: str) -> None:
    with pytest.raises(GschedError, match=error):
        cluster().reserve(**SOON, slots=1, requirement=requirement)


def test_a_reservation_is_changed_whole_or_not_at_all() -> None:
    world = cluster()
    world.reserve(**SOON, slots_on={"a": 10}, name="r")
    world.reserve(**SOON, slots_on={"a": 4}, name="s")
    with pytest.raises(BadRequest, match="a: 13 slots wanted, 12 can be reserved"):
        world.reserve("modify", name="r", slots_on={"a": 13})
    assert world.engine.state.reservations["r"].slots == {"a": 10}
    world.reserve("modify", name="r", slots_on={"a": 12})
    world.reserve("modify", name="r", end=START + 2 * HOUR)
    made = world.engine.state.reservations["r"]
    assert (made.slots, made.start, made.end, made.users) == ({"a": 12}, START + 100, START + 2 * HOUR, ("ann",))
    world.reserve("modify", name="r", slots=20)
    assert world.engine.state.reservations["r"].slots == {"a": 12, "b": 8}
    with pytest.raises(NotFound):
        world.reserve("modify", name="t", slots=1)
    with pytest.raises(NotFound):
        world.reserve("remove", name="t")
    world.reserve("remove", name="r")
    assert set(world.engine.state.reservations) == {"s"}
    world.check_replay()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"users": ()}, "-u USER says who"),
        ({"end": START + 100}, "a reservation ends after it begins"),
        ({"start": START - 9, "end": START - 5}, "a reservation ends after it begins, and in the future"),
        ({"end": START + 400 * 24 * HOUR}, "ends within a year"),
        ({"slots_on": {"z": 1}}, "z: Bad host name"),
        ({"slots_on": {"a": -1}}, "amounts below zero"),
        ({"slots": -1}, "-n says how many slots"),
        ({"slots": 0}, "-n says how many slots"),
        ({"slots": 1, "hosts": ("z",)}, "z: Bad host name"),
        ({"slots": 1, "name": "bad name"}, "Bad reservation name"),
    ],
)
def test_bad_reservations_are_refused(changes: dict[str, Any], said: str) -> None:
    world = cluster()
    with pytest.raises(BadRequest, match=said):
        world.reserve(**(SOON | changes))
    assert world.engine.state.reservations == {}
    with pytest.raises(PermissionDenied, match="made by administrators"):
        world.reserve(user="ann", **SOON, slots=1)
    world.reserve(**SOON, slots=1, name="r")
    with pytest.raises(Conflict, match="already exists"):
        world.reserve(**SOON, slots=1, name="r")


def test_its_jobs_run_in_its_time_and_others_do_not_take_its_place() -> None:
    queues = (Queue(name="normal", backfill=True),)
    world = World(make_config("a", queues, user_groups={"lab": UserGroup(name="lab", users=("ann", "eve"))}))
    world.reserve(**(SOON | {"users": ("lab",)}), slots_on={"a": 16}, gpus_on={"a": 4}, name="r")
    (short,), (endless,) = world.submit(spec(run_limit_s=60)), world.submit(gpu_spec(1))
    (mine,) = world.submit(gpu_spec(4, slots=8, reservation="r", run_limit_s=1000), user="eve")
    world.settle()
    assert world.state(short) == "RUN"
    assert (world.state(endless), world.state(mine)) == ("PEND", "PEND")
    assert "reserv" in world.reasons(endless)[0].lower()
    assert world.reasons(mine)[0].startswith("Job's reservation is inactive")
    world.started(short)
    world.ended(short)
    assert world.engine.next_deadline(world.now) <= START + 100
    world.wait(100)
    world.settle()
    assert world.state(mine) == "RUN" and world.state(endless) == "PEND"
    with pytest.raises(PermissionDenied, match="User cannot use the advance reservation"):
        world.submit(spec(reservation="r"), user="bob")
    world.started(mine)
    world.ended(mine)
    world.wait(HOUR)
    assert isinstance(world.events[-1], ReservationRemoved) and world.engine.state.reservations == {}
    world.settle()
    assert world.state(endless) == "RUN"
    world.check_replay()


def test_a_job_whose_reservation_is_gone_waits_and_can_be_freed_of_it() -> None:
    world = World()
    world.reserve(**SOON, slots_on={"a": 4}, name="r")
    (job_id,) = world.submit(spec(reservation="r"))
    world.reserve("remove", name="r")
    world.settle()
    assert world.state(job_id) == "PEND" and "reservation" in world.reasons(job_id)[0]
    assert world.modify(job_id, description="x") == [""]
    assert world.modify(job_id, reservation="") == [""]
    world.settle()
    assert world.state(job_id) == "RUN"
