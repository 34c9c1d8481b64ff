"""Advance reservations: made, found, changed, used, over; what is promised is not promised twice."""

from __future__ import annotations

import math
from collections.abc import ValuesView
from typing import Any

import pytest
from core_world import START, World, gpu_spec, make_config, spec

from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound, PermissionDenied
from gsched.core.command import Reconfigure
from gsched.core.records.entities import StoredReservation
from gsched.model.config import Params
from gsched.model.event import ReservationRemoved
from gsched.model.queues.queue import Queue
from gsched.model.queues.reservation_policy import ReservationPolicy
from gsched.model.queues.user import UserGroup
from gsched.model.queues.window import DAY_MIN, Window, minute_of_week

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
        ({"slots_on": {"a": 0}, "gpus_on": {"b": 0}}, "-n says how many slots"),
        ({"start": -1e18}, "a reservation begins and ends at a moment after 1969"),
        ({"start": -math.inf}, "a reservation begins and ends at a moment after 1969"),
        ({"end": math.inf}, "a reservation begins and ends at a moment after 1969"),
        ({"users": ("ann", "b b")}, "-u b b: not the name of a user or user group"),
        ({"users": ("u" * 256,)}, r"-u u{60}: not the name of a user or user group"),
        ({"users": tuple(f"u{number}" for number in range(101))}, "-u names 101 users and user groups; at most 100"),
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


def let_in(**changes: Any) -> World:
    policy = ReservationPolicy(**{"name": "lab", "users": ("ann", "eve"), "hosts": ("a",)} | changes)
    return World(make_config("ab", reservation_policies=(policy,), params=Params(reservations_of_user=2)))


def test_a_user_whom_a_policy_names_reserves_what_it_allows_and_changes_what_is_his() -> None:
    world = let_in()
    assert world.reserve(user="ann", **SOON, slots_on={"a": 2}) == "ann#0"
    world.reserve("modify", user="ann", name="ann#0", slots_on={"a": 3})
    for user, on, why in (
        ("bob", "a", "advance reservations are made by"),
        ("eve", "b", r"eve may not reserve b there \(ResourceReservation lab\)"),
    ):
        with pytest.raises(PermissionDenied, match=why):
            world.reserve(user=user, **SOON, slots_on={on: 1})
    for action in ("modify", "remove"):
        with pytest.raises(PermissionDenied, match=r"ann#0 is for ann and .* to change"):
            world.reserve(action, user="eve", name="ann#0", slots_on={"a": 1})
    world.reserve("modify", name="ann#0", slots_on={"b": 1})  # an administrator, and it stays hers
    world.reserve("remove", user="ann", name="ann#0")
    world.check_replay()


def test_a_user_has_no_more_reservations_than_the_site_allows() -> None:
    world = let_in()
    for _ in range(2):
        world.reserve(user="ann", **SOON, slots_on={"a": 1})
    with pytest.raises(Conflict, match=r"ann has 2 advance reservations already.*\(ADVRSV_USER_LIMIT\)"):
        world.reserve(user="ann", **SOON, slots_on={"a": 1})
    assert world.reserve(user="eve", **SOON, slots_on={"a": 1}) == "eve#0"
    assert [world.reserve(**SOON, slots_on={"a": 1}) for _ in range(3)] == ["root#0", "root#1", "root#2"]


def test_a_policy_holds_within_its_windows_alone() -> None:
    minute = minute_of_week(START) % DAY_MIN
    open_now = Window((minute - 1) % DAY_MIN, (minute + 90) % DAY_MIN)
    world = let_in(windows=(open_now,))
    assert world.reserve(user="ann", **SOON, slots_on={"a": 1}) == "ann#0"
    for times in ({"end": START + 2 * HOUR}, {"end": START + 300 * HOUR}):
        with pytest.raises(PermissionDenied, match="ann may not reserve a at that time"):
            world.reserve(user="ann", **(SOON | times), slots_on={"a": 1})


@pytest.mark.parametrize("user", ["ann", "root"])
def test_a_time_before_all_times_is_refused_in_one_line_to_everybody(user: str) -> None:
    world = let_in(windows=(Window(0, DAY_MIN),))
    for start in (-math.inf, -1e18, math.nan):
        with pytest.raises(BadRequest, match=r"^Bad time specification: [^\n]*$"):
            world.reserve(user=user, **(SOON | {"start": start}), slots_on={"a": 1})


def test_what_is_kept_of_a_reservation_has_no_zeros_and_names_users_once() -> None:
    world = cluster()
    world.reserve(**(SOON | {"users": ("ann", "ann")}), slots_on={"a": 0, "b": 2}, gpus_on={"a": 0}, name="r")
    made = world.engine.state.reservations["r"]
    assert (made.users, made.slots, made.gpus) == (("ann",), {"b": 2}, {})
    with pytest.raises(BadRequest, match="-n says how many slots"):
        world.reserve("modify", name="r", slots_on={"b": 0})
    assert world.engine.state.reservations["r"] == made


class CountingReservations(dict[str, StoredReservation]):
    """Counts how often all of them are gone through."""

    times = 0

    def values(self) -> ValuesView[str, StoredReservation]:  # type: ignore[override]
        self.times += 1
        return super().values()  # type: ignore[return-value]


@pytest.mark.parametrize("wanted", [{"slots_on": {f"h{number}": 1 for number in range(50)}}, {"slots": 600}])
def test_other_reservations_are_summed_once_for_all_hosts(wanted: dict[str, Any]) -> None:
    world = World(make_config([f"h{number}" for number in range(50)]))
    world.reserve(**SOON, slots_on={f"h{number}": 2 for number in range(50)})
    counting = world.engine.state.reservations = CountingReservations(world.engine.state.reservations)
    world.reserve(**SOON, **wanted)
    assert counting.times <= 2


def test_without_m_a_user_gets_hosts_of_a_policy_of_his() -> None:
    other = ReservationPolicy(name="other", users=("ann",), hosts=("c",))
    lab = ReservationPolicy(name="lab", users=("ann", "eve"), hosts=("b",))
    world = World(make_config("abc", reservation_policies=(lab, other)))
    made = world.engine.state.reservations
    world.reserve(user="ann", **SOON, slots=10, name="r")
    assert made["r"].slots == {"b": 10}
    world.reserve(user="ann", **SOON, slots=12, name="s")  # too many for what b has left
    assert made["s"].slots == {"c": 12}
    world.reserve("modify", user="ann", name="s", slots=3)
    assert made["s"].slots == {"c": 3}
    with pytest.raises(BadRequest, match=r"7 slots more are wanted .* hosts of ResourceReservation lab"):
        world.reserve(user="eve", **SOON, slots=13)
    with pytest.raises(PermissionDenied, match=r"ann may not reserve a there \(ResourceReservation lab, other\)"):
        world.reserve(user="ann", **SOON, slots=1, hosts=("a", "b"))


def test_without_m_a_changed_reservation_stays_where_it_is_as_far_as_it_can() -> None:
    world = cluster()
    world.reserve(**SOON, slots_on={"b": 4}, name="r")
    world.reserve("modify", name="r", slots=18)
    assert world.engine.state.reservations["r"].slots == {"b": 16, "a": 2}


def test_without_m_the_time_of_a_policy_still_counts() -> None:
    minute = minute_of_week(START) % DAY_MIN
    world = let_in(windows=(Window((minute + 120) % DAY_MIN, (minute + 180) % DAY_MIN),))
    with pytest.raises(PermissionDenied, match=r"ann may not reserve hosts at that time \(ResourceReservation lab\)"):
        world.reserve(user="ann", **SOON, slots=1)


def test_a_user_deletes_his_reservation_after_his_policy_is_gone() -> None:
    world = let_in()
    world.reserve(user="ann", **SOON, slots_on={"a": 1})
    world.do(Reconfigure("root", make_config("ab")))
    with pytest.raises(PermissionDenied, match="advance reservations are made by"):
        world.reserve("modify", user="ann", name="ann#0", slots_on={"a": 2})
    for user, name in (("eve", "ann#0"), ("ann", "other")):
        with pytest.raises(PermissionDenied, match="advance reservations are made by"):
            world.reserve("remove", user=user, name=name)
    world.reserve("remove", user="ann", name="ann#0")
    assert world.engine.state.reservations == {}
