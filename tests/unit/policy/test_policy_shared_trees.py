"""FAIRSHARE_QUEUES: queues of one share tree are one queue: users come by their shares, of each queues by PRIORITY.

Source: "Cross-queue user-based fair share" and "Control job dispatch order in cross-queue fair share" of LSF 10.1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_policy_order import ONE_SLOT, bucket, served, snapshot

from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share
from gsched.model.scheduling.snapshot import FairshareUse, Rank
from gsched.policy.order.fairshare import tree_of
from gsched.policy.order.order_rules import FAIRSHARE, QUEUE_PRIORITY, OrderedJob, who_is_first
from gsched.policy.order.serving_order import ServingOrder

NAMES = ("normal", "short", "night")
SHARES = (Share("ann", 2), Share("default", 1))


def together(*priorities: int, shares: tuple[Share, ...] = SHARES, **changes: Any) -> list[Queue]:
    """Queues of one tree, of which the first has FAIRSHARE, as the configuration makes them."""
    names = NAMES[: len(priorities)]
    return [
        Queue(name=name, priority=priority, fairshare=shares, share_queues=names, **changes)
        for name, priority in zip(names, priorities, strict=True)
    ]


def test_a_user_has_one_priority_across_the_queues() -> None:
    """What he has used of one counts in all of them."""
    jobs = [(1, bucket("bob", queue="short")), (2, bucket("cat", queue="normal"))]
    used = {"night": {"bob": FairshareUse(slots=5)}}
    shot = snapshot(jobs, *together(30, 40, 50), shares=used)
    assert served(ServingOrder(shot)) == [2, 1]
    assert tree_of(shot, shot.queues["short"]).leaf("bob").slots == 5


def test_users_come_before_queues_and_of_one_user_queues_by_priority() -> None:
    """Ann has twice the shares; where both have the same priority the larger queue comes first."""
    ann = [(1, bucket("ann")), (2, bucket("ann", queue="short")), (3, bucket("ann"))]
    bob = [(4, bucket("bob")), (5, bucket("bob", queue="short"))]
    assert served(ServingOrder(snapshot([*ann, *bob], *together(30, 40)))) == [2, 5, 1, 3, 4]


def test_dispatch_order_queue_has_queues_come_before_users() -> None:
    """And what is placed from the first counts in those below it."""
    jobs = [
        *[(number, bucket("ann", queue="short")) for number in (1, 2)],
        *[(number, bucket("ann")) for number in (3, 4)],
        (5, bucket("bob")),
        (6, bucket("cat", queue="other")),
    ]
    queues = [*together(30, 50, serves_queues_in_order=True), Queue(name="other", priority=40)]
    assert served(ServingOrder(snapshot(jobs, *queues))) == [1, 2, 6, 5, 3, 4]


def test_the_set_comes_at_the_largest_of_its_priorities() -> None:
    jobs = [
        (1, bucket("cat", queue="below")),
        (2, bucket("ann")),
        (3, bucket("bob", queue="short")),
        (4, bucket("cat", queue="above")),
    ]
    queues = [*together(30, 50), Queue(name="below", priority=29), Queue(name="above", priority=51)]
    assert served(ServingOrder(snapshot(jobs, *queues))) == [4, 2, 3, 1]


def test_a_reservation_comes_first_whatever_queue_of_the_tree_it_is_of() -> None:
    jobs = [(1, bucket("bob", queue="short")), (2, bucket("bob")), (3, bucket("ann"))]
    shot = snapshot(jobs, *together(30, 40))
    assert served(ServingOrder(shot, reserved=[(2, jobs[1][1])])) == [2, 3, 1]


def test_a_dropped_queue_leaves_the_others_of_its_tree() -> None:
    jobs = [(1, bucket("ann")), (2, bucket("ann", queue="short")), (3, bucket("bob", queue="short"))]
    order = ServingOrder(snapshot(jobs, *together(30, 40)), closed=["short"])
    assert served(order) == [1]
    assert {key[0] for key in order.passed_over() if isinstance(key, tuple)} == {"short"}


def test_the_rule_that_decides_is_told() -> None:
    def ordered(number: int, user: str, queue: str) -> OrderedJob:
        return OrderedJob(number, bucket(user, queue=queue), Rank(0.0, float(number)))

    jobs = [ordered(1, "bob", "short"), ordered(2, "ann", "normal"), ordered(3, "ann", "short")]
    shot = snapshot([(job.job_id, job.bucket) for job in jobs], *together(30, 40))
    verdict = who_is_first(shot, jobs[0], jobs[1])
    assert (verdict.first.job_id, verdict.rule) == (2, FAIRSHARE)
    assert verdict.shares is not None and [share.path for share in verdict.shares] == ["normal/", "normal/"]
    verdict = who_is_first(shot, jobs[1], jobs[2])
    assert (verdict.first.job_id, verdict.rule) == (3, QUEUE_PRIORITY)
    in_order = replace(shot, queues={each.name: each for each in together(30, 40, serves_queues_in_order=True)})
    verdict = who_is_first(in_order, jobs[0], jobs[1])
    assert (verdict.first.job_id, verdict.rule) == (1, QUEUE_PRIORITY)


@given(
    st.lists(st.tuples(st.sampled_from(("ann", "bob", "cat")), st.sampled_from("ab"), st.sampled_from(NAMES))),
    st.dictionaries(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(("ann", "bob")), st.integers(0, 5))),
    st.booleans(),
)
def test_queues_of_equal_priority_and_one_tree_are_one_queue(
    jobs: list[tuple[str, str, str]], used: dict[str, dict[str, int]], is_ordered: bool
) -> None:
    """For scheduling it is the same as one queue with that tree, as LSF's documentation has it."""
    waiting = [(number, bucket(user, text, queue)) for number, (user, text, queue) in enumerate(jobs, 1)]
    shares = {queue: {user: FairshareUse(slots=slots) for user, slots in of.items()} for queue, of in used.items()}
    queues = together(30, 30, 30, serves_queues_in_order=is_ordered)
    of_all: dict[str, int] = {}
    for of in used.values():
        for user, slots in of.items():
            of_all[user] = of_all.get(user, 0) + slots
    alone = snapshot(
        [(number, replace_queue(each)) for number, each in waiting],
        Queue(name="normal", priority=30, fairshare=SHARES),
        shares={"normal": {user: FairshareUse(slots=slots) for user, slots in of_all.items()}},
    )
    assert served(ServingOrder(snapshot(waiting, *queues, shares=shares))) == served(ServingOrder(alone))


def replace_queue(each: Any) -> Any:
    return bucket(each.user, each.requirement.requirement, "normal")


@pytest.mark.parametrize("dropped", NAMES)
def test_a_bucket_dropped_in_one_queue_goes_on_in_another(dropped: str) -> None:
    jobs = [(number, bucket("ann", queue=name)) for number, name in enumerate((*NAMES, *NAMES), 1)]
    order = ServingOrder(snapshot(jobs, *together(30, 40, 50)))
    seen = []
    for job_id, each in order:
        seen.append(job_id)
        if each.queue == dropped:
            order.drop(each)
        else:
            order.placed(each, ONE_SLOT)
    of_dropped = NAMES.index(dropped) + 1
    assert sorted(seen) == [number for number in range(1, 7) if number != of_dropped + 3]
