"""Planned starts, backfill beside them, advance reservations: what may start now and what has to wait for whom."""

from __future__ import annotations

import math

import pytest
from planning_cluster import AdvanceReservation, Ask, Cluster, PlainTrial, kind

from gsched.base.coded_text import sentence
from gsched.model.queues.queue import Queue
from gsched.policy.backfill.plan_making import MOST_SEARCHES
from gsched.policy.backfill.reservation_table import MOST_TOLD
from gsched.policy.backfill.reservations import Reservations

ONE = Ask()
BIG = Ask(slots=8)
CONSERVATIVE = (Queue(name="q", backfill=True, reserved_jobs=16),)


def test_head_job_is_planned_for_the_end_of_what_runs() -> None:
    cluster = Cluster()
    cluster.run(kind(Ask(5)), ends_at=300.0)
    cluster.run(kind(Ask(3)), ends_at=200.0)
    big = cluster.wait(kind(BIG))
    plan = cluster.cycle(0.0).planned[big]
    assert (plan.at, plan.hosts) == (300.0, ("h0",))
    assert (plan.at, plan.hosts, sentence(plan.text)) == (300.0, ("h0",), "")


def test_host_where_enough_comes_free_first_is_taken() -> None:
    cluster = Cluster(3)
    for number, end in enumerate((300.0, 200.0, 250.0)):
        cluster.run(kind(Ask(4)), f"h{number}", end)
    assert cluster.cycle(0.0).planned == {}
    big = cluster.wait(kind(BIG))
    plan = cluster.cycle(0.0).planned[big]
    assert (plan.at, plan.hosts) == (200.0, ("h1",))


def test_backfill_ends_by_the_planned_start_or_waits() -> None:
    cluster = Cluster()
    cluster.run(kind(Ask(6)), ends_at=300.0)
    cluster.wait(kind(BIG))
    late = cluster.wait(kind(ONE, run_s=301.0))
    unknown = cluster.wait(kind(ONE, run_s=None))
    early = cluster.wait(kind(ONE, run_s=300.0))
    done = cluster.cycle(0.0)
    assert set(done.started) == {early}
    assert sentence(done.refused[late].text) == "Resources are reserved for job <2>"
    assert "8 slots on h0" in sentence(done.refused[late].detail)
    assert "no run limit" in sentence(done.refused[unknown].detail)


def test_queue_without_backfill_leaves_reserved_resources_alone() -> None:
    cluster = Cluster(queues=(Queue(name="q"),))
    cluster.run(kind(Ask(6)), ends_at=300.0)
    cluster.wait(kind(BIG))
    short = cluster.wait(kind(ONE, run_s=10.0))
    done = cluster.cycle(0.0)
    assert not done.started
    assert "no BACKFILL" in sentence(done.refused[short].detail)


@pytest.mark.parametrize("backfill", [True, False])
def test_what_the_plan_does_not_need_is_free_for_all(backfill: bool) -> None:
    cluster = Cluster(queues=(Queue(name="q", backfill=backfill),))
    cluster.run(kind(Ask(6)), ends_at=300.0)
    cluster.wait(kind(Ask(7)))
    free = [cluster.wait(kind(ONE, run_s=None)) for _ in range(2)]
    assert set(cluster.cycle(0.0).started) == {free[0]}


def test_devices_are_reserved_by_number_and_chosen_anew() -> None:
    cluster = Cluster(slots=16, gpus=4)
    cluster.run(kind(Ask(1, gpus=3)), ends_at=300.0)
    cluster.wait(kind(Ask(1, gpus=2)))
    single = cluster.wait(kind(Ask(1, gpus=1), run_s=None))  # takes a free device; the two are found among the others
    done = cluster.cycle(0.0)
    assert set(done.started) == {single}
    another = cluster.wait(kind(Ask(1, gpus=1), run_s=None))
    cluster.end(1)
    head = 2
    done = cluster.cycle(1.0)
    assert set(done.started) == {head, another}


def test_memory_is_reserved_too() -> None:
    cluster = Cluster()
    cluster.run(kind(Ask(1, mem=600)), ends_at=300.0)
    cluster.wait(kind(Ask(1, mem=700)))
    long = cluster.wait(kind(Ask(1, mem=400), run_s=None))
    small = cluster.wait(kind(Ask(1, mem=300), run_s=None))
    done = cluster.cycle(0.0)
    assert set(done.started) == {small}
    assert sentence(done.refused[long].text) == "Resources are reserved for job <2>"


def test_two_plans_do_not_use_the_same_slots() -> None:
    cluster = Cluster(queues=CONSERVATIVE)
    cluster.run(kind(Ask(6)), ends_at=300.0)
    first = cluster.wait(kind(Ask(8), run_s=50.0))
    second = cluster.wait(kind(Ask(7), run_s=50.0))
    planned = cluster.cycle(0.0).planned
    assert (planned[first].at, planned[second].at) == (300.0, 350.0)


def test_plan_of_several_hosts() -> None:
    cluster = Cluster(3, slots=4, gpus=2)
    for number, end in enumerate((300.0, 200.0, 100.0)):
        cluster.run(kind(Ask(4, gpus=2)), f"h{number}", end)
    head = cluster.wait(kind(Ask(6, gpus=1, hosts=0)))
    plan = cluster.cycle(0.0).planned[head]
    assert plan.at == 200.0
    assert set(plan.hosts) == {"h1", "h2"}
    cluster.end(3)
    long = cluster.wait(kind(Ask(1, gpus=1), run_s=150.0))  # its GPU is not needed, h2 has two
    assert set(cluster.cycle(100.0).started) == {long}
    cluster.end(2)
    assert set(cluster.cycle(150.0).started) == {head}


def test_plan_of_several_hosts_begins_when_other_plans_or_a_reservation_end() -> None:
    window = AdvanceReservation("r1", ("ann",), 320.0, 400.0, {"h1": 4})
    cluster = Cluster(2, slots=4, queues=CONSERVATIVE, reservations=(window,))
    for host in ("h0", "h1"):
        cluster.run(kind(Ask(4)), host, 300.0)
    first = cluster.wait(kind(Ask(4, hosts=0), run_s=50.0))
    second, third = (cluster.wait(kind(Ask(8 - more, hosts=0), run_s=50.0)) for more in (0, 1))
    planned = cluster.cycle(0.0).planned
    assert [planned[each].at for each in (first, second, third)] == [300.0, 400.0, 450.0]


def test_unknown_ends_are_named_and_places_held_all_the_same() -> None:
    cluster = Cluster(2)
    cluster.run(kind(Ask(6), run_s=None), "h0")
    cluster.run(kind(Ask(4), run_s=None), "h1")
    cluster.run(kind(Ask(1), run_s=None), "h1")
    head = cluster.wait(kind(BIG))
    unlimited = [cluster.wait(kind(Ask(3), run_s=None)), cluster.wait(kind(Ask(2), run_s=None))]
    done = cluster.cycle(0.0)
    assert done.planned[head].at is None
    assert sentence(done.planned[head].text) == "unknown: no run limit on job 1"
    assert done.planned[head].hosts == ("h0",)
    assert set(done.started) == {unlimited[0]}  # on h1; h0's two slots stay
    cluster.end(1)
    assert set(cluster.cycle(10.0).started) == {head}


def test_known_end_replaces_an_unknown_one() -> None:
    cluster = Cluster()
    cluster.run(kind(Ask(1), run_s=None))
    cluster.run(kind(Ask(6)), ends_at=300.0)
    head = cluster.wait(kind(BIG))
    assert cluster.cycle(0.0).planned[head].at is None
    cluster.end(1)
    assert cluster.cycle(1.0).planned[head].at == 300.0


def test_never_is_said_with_the_reason() -> None:
    cluster = Cluster()
    cluster.run(kind(Ask(8)), ends_at=300.0)
    head = cluster.wait(kind(Ask(9)))
    plan = cluster.cycle(0.0).planned[head]
    assert (plan.at, plan.hosts) == (None, ())
    assert sentence(plan.text) == "never: Not enough job slot(s) (9 of 9 slots have no place)"
    later = cluster.cycle(1.0)
    assert sentence(later.planned[head].text) == sentence(plan.text)
    assert later.calls == 1  # the placing; the search is not paid again


def test_never_is_said_however_many_are_planned_and_not_sought_again() -> None:
    cluster = Cluster(queues=(Queue(name="q", backfill=True, reserved_jobs=MOST_TOLD + 1),))
    cluster.run(kind(Ask(8)), ends_at=300.0)
    for number in range(MOST_TOLD):
        cluster.wait(kind(BIG, run_s=10.0 + number))
    never = cluster.wait(kind(Ask(9)))
    for now in range(5):  # only so many are looked at in one
        cluster.cycle(float(now))
    assert sum(bool(each.hosts) for each in cluster.planned.values()) == MOST_TOLD
    assert sentence(cluster.planned[never].text).startswith("never: Not enough job slot(s)")
    assert cluster.cycle(10.0).planned[never] == cluster.planned[never]


def test_never_is_looked_at_again_as_soon_as_another_host_is_open() -> None:
    cluster = Cluster(2)
    cluster.run(kind(Ask(6)), "h0", 300.0)
    up = dict(cluster.hosts)
    for name, host in up.items():  # as after a restart of the master: no agent has said hello yet
        cluster.hosts[name] = host.__class__(name, host.values, closed="unavail")
    head = cluster.wait(kind(Ask(16, hosts=0)))
    assert sentence(cluster.cycle(0.0).planned[head].text) == "never: no host that is open now may take it"
    cluster.hosts["h0"] = up["h0"]
    assert sentence(cluster.cycle(0.1).planned[head].text).startswith("never: Not enough job slot(s)")
    cluster.hosts["h1"] = up["h1"]
    plan = cluster.cycle(0.2).planned[head]
    assert (plan.at, plan.hosts) == (300.0, ("h0", "h1"))


def test_plan_is_kept_without_a_search_and_moves_earlier_only() -> None:
    cluster = Cluster(20)
    for number in range(20):
        cluster.run(kind(Ask(4)), f"h{number}", 100.0 + number)
        cluster.run(kind(Ask(4)), f"h{number}", 500.0 + number)
    head = cluster.wait(kind(BIG))
    first = cluster.cycle(0.0)
    assert first.planned[head].at == 500.0
    second = cluster.cycle(1.0)
    assert second.planned[head].at == 500.0
    assert second.calls <= 4
    cluster.end(2)
    assert cluster.cycle(2.0).planned[head].at == 100.0


def two_planned(*runs: tuple[str, int, float]) -> tuple[Cluster, int]:
    """One waits for all 8 slots of a host and one for 6, beside such runs: host, slots and end. The second one's id."""
    cluster = Cluster(len({host for host, _, _ in runs}), queues=[Queue(name="q", backfill=True, reserved_jobs=2)])
    for host, slots, ends_at in runs:
        cluster.run(kind(Ask(slots)), host, ends_at)
    cluster.wait(kind(Ask(8), run_s=100.0))
    return cluster, cluster.wait(kind(Ask(6), run_s=50.0))


def test_a_later_plan_moves_to_another_host_where_a_job_ended_early() -> None:
    cluster, second = two_planned(("h0", 8, 100.0), ("h1", 4, 500.0), ("h1", 4, 150.0))
    planned = cluster.cycle(0.0).planned[second]
    assert (planned.at, planned.hosts) == (200.0, ("h0",))
    cluster.end(2)
    planned = cluster.cycle(1.0).planned[second]
    assert (planned.at, planned.hosts) == (150.0, ("h1",))


def test_a_later_plan_moves_before_another_one_when_a_job_ended_early() -> None:
    cluster, second = two_planned(("h0", 4, 200.0), ("h0", 2, 200.0), ("h0", 2, 100.0))
    assert cluster.cycle(0.0).planned[second].at == 300.0
    cluster.end(1)
    assert cluster.cycle(1.0).planned[second].at == 100.0


def test_lower_queue_gives_way_to_a_higher_one_but_not_the_other_way_round() -> None:
    queues = (Queue(name="high", priority=9, backfill=True), Queue(name="low", priority=1, backfill=True))
    cluster = Cluster(queues=queues)
    cluster.run(kind(Ask(4), "low"), ends_at=300.0)
    low = cluster.wait(kind(BIG, "low"))
    assert cluster.cycle(0.0).planned[low].at == 300.0
    high = cluster.wait(kind(Ask(4), "high", run_s=1000.0))
    assert set(cluster.cycle(1.0).started) == {high}
    assert cluster.planned[low].at == 1001.0
    again = cluster.wait(kind(Ask(4), "low", run_s=1000.0))
    cluster.end(1)
    assert again not in cluster.cycle(2.0).started


def test_overrun_job_is_expected_to_end_soon_but_not_for_ever() -> None:
    cluster = Cluster(2)
    cluster.run(kind(Ask(8)), "h0", 100.0)
    cluster.run(kind(Ask(8)), "h1", 1000.0)
    head = cluster.wait(kind(BIG))
    assert cluster.cycle(0.0).planned[head].hosts == ("h0",)
    assert cluster.cycle(120.0).planned[head].hosts == ("h0",)
    plan = cluster.cycle(200.0).planned[head]
    assert (plan.at, plan.hosts) == (1000.0, ("h1",))


def test_lost_host_means_a_new_plan() -> None:
    cluster = Cluster(2)
    cluster.run(kind(Ask(8)), "h0", 100.0)
    cluster.run(kind(Ask(8)), "h1", 200.0)
    head = cluster.wait(kind(BIG))
    assert cluster.cycle(0.0).planned[head].hosts == ("h0",)
    cluster.hosts["h0"] = cluster.hosts["h0"].__class__("h0", {"mem": 1000.0}, closed="Closed by LSF administrator")
    plan = cluster.cycle(1.0).planned[head]
    assert (plan.at, plan.hosts) == (200.0, ("h1",))


def test_exclusive_job_waits_for_an_empty_host_and_keeps_others_away() -> None:
    cluster = Cluster()
    cluster.run(kind(ONE), ends_at=100.0)
    alone = cluster.wait(kind(ONE, exclusive=True))
    beside = cluster.wait(kind(Ask(2), run_s=200.0))
    done = cluster.cycle(0.0)
    assert done.planned[alone].at == 100.0
    assert not done.started
    assert sentence(done.refused[beside].text) == "Resources are reserved for job <2>"


def test_reservation_pauses_for_one_cycle_when_the_queue_says_so() -> None:
    cluster = Cluster(queues=(Queue(name="q", backfill=True, reserve_s=60.0),))
    cluster.run(kind(Ask(6)), ends_at=300.0)
    head = cluster.wait(kind(BIG))
    cluster.cycle(0.0)
    cluster.wait(kind(Ask(2), run_s=None))
    assert not cluster.cycle(59.0).started
    paused = cluster.cycle(61.0)
    assert head not in paused.planned
    assert len(paused.started) == 1
    assert head in cluster.cycle(62.0).planned


def test_no_more_than_so_many_are_reserved_for() -> None:
    cluster = Cluster(slots=40, queues=(Queue(name="q", backfill=True, reserved_jobs=8),))
    cluster.run(kind(Ask(40)), ends_at=100.0)
    jobs = [cluster.wait(kind(Ask(20 + number))) for number in range(12)]
    assert sorted(cluster.cycle(0.0).planned) == jobs[:8]
    assert sorted(cluster.cycle(1.0).planned) == jobs[:8]


# -- advance reservations ---------------------------------------------------------------------------------------------

WINDOW = AdvanceReservation("r1", ("ann",), 100.0, 200.0, {"h0": 6}, {"h0": 4})


def test_window_is_kept_free_of_jobs_that_could_run_into_it() -> None:
    cluster = Cluster(reservations=(WINDOW,))
    before = cluster.wait(kind(Ask(3), run_s=100.0))
    into = cluster.wait(kind(Ask(3), run_s=101.0))
    unknown = cluster.wait(kind(Ask(3), run_s=None))
    beside = cluster.wait(kind(Ask(2), run_s=None))
    done = cluster.cycle(0.0)
    assert set(done.started) == {before, beside}
    assert sentence(done.refused[into].text) == "Resources are kept for an advance reservation"
    assert "r1 keeps 6 slots on h0" in sentence(done.refused[unknown].detail)
    assert done.planned[into].at == 200.0


def test_gpus_of_a_window_are_kept() -> None:
    cluster = Cluster(slots=20, reservations=(WINDOW,))
    big = cluster.wait(kind(Ask(1, gpus=5), run_s=None))
    fits = cluster.wait(kind(Ask(1, gpus=3), run_s=None))  # beside the five that are planned for 200
    done = cluster.cycle(0.0)
    assert set(done.started) == {fits}
    assert sentence(done.refused[big].text) == "Resources are kept for an advance reservation"


def test_jobs_of_a_window_use_only_it_and_only_then() -> None:
    cluster = Cluster(2, reservations=(WINDOW,))
    own = [cluster.wait(kind(Ask(3), run_s=50.0, reservation="r1")) for _ in range(3)]
    stranger = cluster.wait(kind(ONE, user="bob", reservation="r1"))
    missing = cluster.wait(kind(ONE, reservation="r2"))
    early = cluster.cycle(99.0)
    assert not early.started
    assert sentence(early.refused[own[0]].text) == "Job's reservation is inactive"
    assert "begins 1970-01-01 00:01:40 UTC" in sentence(early.refused[own[0]].detail)
    assert sentence(early.refused[stranger].detail) == "bob is not among the users of r1"
    assert sentence(early.refused[missing].detail) == "there is no reservation r2"
    within = cluster.cycle(100.0)
    assert set(within.started) == set(own[:2])
    assert {allocation.first_host for allocation in within.started.values()} == {"h0"}
    assert sentence(cluster.cycle(150.0).refused[own[2]].text) == "Not enough job slot(s)"
    assert sentence(cluster.cycle(200.0).refused[own[2]].text) == "Job's reservation is inactive"


def test_no_plan_keeps_a_job_out_of_its_own_window() -> None:
    cluster = Cluster(reservations=(WINDOW,))
    big = cluster.wait(kind(Ask(8), run_s=50.0))
    cluster.run(kind(Ask(2)), ends_at=210.0)
    assert cluster.cycle(150.0).planned[big].at == 210.0
    own = cluster.wait(kind(Ask(6), run_s=100.0, reservation="r1"))
    again = cluster.cycle(150.0)
    assert own in again.started and big not in again.started
    assert cluster.cycle(150.0).planned[big].at == 250.0, "the plan is made anew behind it"


def test_plans_go_round_windows() -> None:
    cluster = Cluster(queues=CONSERVATIVE, reservations=(WINDOW,))
    cluster.run(kind(Ask(8)), ends_at=50.0)
    short = cluster.wait(kind(Ask(4), run_s=50.0))
    long = cluster.wait(kind(Ask(4), run_s=60.0))
    planned = cluster.cycle(0.0).planned
    assert (planned[short].at, planned[long].at) == (50.0, 200.0)


def test_times_are_finite_or_none() -> None:
    cluster = Cluster()
    cluster.run(kind(Ask(8), run_s=None))
    head = cluster.wait(kind(BIG, run_s=None))
    plan = cluster.cycle(0.0).planned[head]
    assert plan.at is None or math.isfinite(plan.at)


def test_plans_of_jobs_that_were_not_come_to_stay_only_in_a_cycle_that_was_cut_short() -> None:
    cluster = Cluster()
    cluster.run(kind(BIG), ends_at=300.0)
    cluster.wait(kind(BIG))
    cluster.cycle(0.0)
    snapshot = cluster.snapshot()
    reservations = Reservations(snapshot, 1.0, PlainTrial(snapshot))
    assert reservations.planned(truncated=True) == cluster.planned
    assert reservations.planned() == {}


def test_plan_of_a_job_that_is_gone_holds_nothing() -> None:
    cluster = Cluster()
    cluster.run(kind(Ask(6)), ends_at=300.0)
    head = cluster.wait(kind(BIG))
    small = cluster.wait(kind(Ask(2), run_s=None))
    assert not cluster.cycle(0.0).started
    del cluster.waiting[head]
    assert set(cluster.cycle(1.0).started) == {small}


def test_plan_slips_with_a_job_that_started_a_little_late() -> None:
    cluster = Cluster(2, queues=CONSERVATIVE)
    late = cluster.run(kind(Ask(8)), "h0", 100.0)
    cluster.run(kind(Ask(8)), "h1", 105.0)
    head = cluster.wait(kind(BIG))
    behind = cluster.wait(kind(Ask(7)))
    cluster.cycle(0.0)
    cluster.running[late.job_id] = late._replace(ends_at=100.2)
    done = cluster.cycle(1.0)
    assert (done.planned[head].at, done.planned[head].hosts) == (100.2, ("h0",))
    assert done.planned[behind].at == 105.0
    cluster.running[late.job_id] = late._replace(ends_at=200.0)
    done = cluster.cycle(2.0)  # who comes first has the better place
    assert (done.planned[head].at, done.planned[behind].at) == (105.0, 200.0)


def test_who_was_not_looked_at_for_lack_of_searches_is_looked_at_next() -> None:
    cluster = Cluster(slots=40)
    cluster.run(kind(Ask(40)), ends_at=100.0)
    never = [cluster.wait(kind(Ask(41 + number))) for number in range(MOST_SEARCHES)]
    head = cluster.wait(kind(Ask(40)))
    first = cluster.cycle(0.0).planned
    assert all(sentence(first[job_id].text).startswith("never: ") for job_id in never)
    assert sentence(first[head].text) == "unknown: not looked at yet"
    assert cluster.cycle(1.0).planned[head].at == 100.0
