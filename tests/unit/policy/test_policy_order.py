"""ServingOrder: who is served first, and that nobody is lost on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share
from gsched.model.scheduling.snapshot import Bucket, FairshareUse, Rank, RequirementClass, Snapshot
from gsched.policy.order.serving_order import ReasonKey, ServingOrder
from tests.support.property_examples import examples

Job = tuple[int, Bucket, float]
"""Job id, bucket, order."""
ONE_SLOT = Allocation(hosts=(HostAllocation(host="a", slots=1),))
EACH = (Share("default", 1),)


def kind(text: str = "a") -> RequirementClass:
    return RequirementClass(text)


def bucket(user: str = "ann", text: str = "a", queue: str = "normal", **changes: Any) -> Bucket:
    return Bucket(queue, user, kind(text), **changes)


class CountedLine:
    """Jobs of a bucket, and whether anybody looked at them."""

    def __init__(self, jobs: Iterable[tuple[Rank, int]]) -> None:
        self.jobs = sorted(jobs)
        self.looked = 0

    def __iter__(self) -> Iterator[tuple[Rank, int]]:
        self.looked += 1
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


def snapshot(jobs: Iterable[tuple[int, Bucket] | Job], *queues: Queue, **changes: Any) -> Snapshot:
    """Jobs as (id, bucket) in order of submission, or (id, bucket, order)."""
    lines: dict[RequirementClass, dict[Bucket, list[tuple[Rank, int]]]] = {}
    for job_id, each, *order in jobs:
        rank = Rank(0.0, float(order[0] if order else job_id))
        lines.setdefault(each.requirement, {}).setdefault(each, []).append((rank, job_id))
    return Snapshot(
        queues={queue.name: queue for queue in queues or (Queue(name="normal"),)},
        hosts={},
        ledger=Ledger(),
        pending={
            requirement: {each: CountedLine(line) for each, line in buckets.items()}
            for requirement, buckets in lines.items()
        },
        **changes,
    )


def served(order: ServingOrder) -> list[int]:
    """Everybody is served and placed."""
    ids = []
    for job_id, each in order:
        ids.append(job_id)
        order.placed(each, ONE_SLOT)
    return ids


def fair(*shares: Share, **changes: Any) -> Queue:
    return Queue(name="normal", fairshare=shares or EACH, **changes)


def test_first_come_first_served_across_users_and_classes() -> None:
    jobs = [(1, bucket("bob", "b")), (2, bucket("ann")), (3, bucket("bob", "b")), (4, bucket("ann", "b"))]
    assert served(ServingOrder(snapshot(jobs))) == [1, 2, 3, 4]


def test_rank_goes_by_priority_then_order_then_index() -> None:
    line = [(Rank(0.0, 1.0), 1), (Rank(-5.0, 9.0), 9), (Rank(0.0, 0.5), 7), (Rank(0.0, 1.0, 2), 2)]
    ann = bucket()
    pending = {ann.requirement: {ann: CountedLine(line)}}
    shot = Snapshot(queues={"normal": Queue(name="normal")}, hosts={}, ledger=Ledger(), pending=pending)
    assert served(ServingOrder(shot)) == [9, 7, 1, 2]


def test_queues_by_priority_and_equal_ones_as_one() -> None:
    queues = [Queue(name="low"), Queue(name="high", priority=9), Queue(name="also", priority=9)]
    names = {1: "low", 2: "high", 3: "also", 4: "high", 5: "gone"}
    jobs = [(number, bucket(queue=name)) for number, name in names.items()]
    assert served(ServingOrder(snapshot(jobs, *queues))) == [2, 3, 4, 1, 5]


def test_a_dropped_bucket_leaves_the_others_of_its_class() -> None:
    order = ServingOrder(snapshot([(1, bucket("bob")), (2, bucket("bob")), (3, bucket("ann"))]))
    seen = []
    for job_id, each in order:
        seen.append(job_id)
        if each.user == "bob":
            order.drop(each)
    assert seen == [1, 3]
    assert order.passed_over() == [bucket("bob")]


def test_an_equal_bucket_may_be_dropped_before_its_turn() -> None:
    order = ServingOrder(snapshot([(1, bucket("ann")), (2, bucket("bob")), (3, bucket("ann"))]))
    order.drop(bucket("ann"))
    assert served(order) == [2]


def test_a_dropped_class_is_over_in_its_queue_only() -> None:
    queues = [Queue(name="normal"), Queue(name="other")]
    jobs = [(1, bucket("bob")), (2, bucket("ann")), (3, bucket("ann", "b")), (4, bucket("ann", queue="other"))]
    order = ServingOrder(snapshot(jobs, *queues))
    seen = []
    for job_id, each in order:
        seen.append(job_id)
        if job_id == 1:
            order.drop_class(each.queue, each.requirement)
    assert seen == [1, 3, 4]
    assert order.passed_over() == [("normal", kind())]


def test_a_dropped_queue_owes_a_reason_for_each_class() -> None:
    jobs = [(1, bucket()), (2, bucket(text="b")), (3, bucket(queue="other"))]
    order = ServingOrder(snapshot(jobs, Queue(name="normal"), Queue(name="other")))
    seen = []
    for job_id, each in order:
        seen.append(job_id)
        order.drop_queue(each.queue)
    assert seen == [1, 3]
    assert set(order.passed_over()) == {("normal", kind()), ("normal", kind("b")), ("other", kind())}


def test_lines_of_dead_classes_and_closed_queues_are_never_looked_at() -> None:
    jobs = [(1, bucket()), (2, bucket(text="dead")), (3, bucket(queue="closed")), (4, bucket(queue="closed"))]
    shot = snapshot(jobs, Queue(name="normal"), Queue(name="closed", priority=9))
    order = ServingOrder(shot, live={kind()}, closed={"closed"})
    assert served(order) == [1]
    looked = {
        job_id: line.looked for each in shot.pending.values() for line in each.values() for _, job_id in line.jobs
    }  # type: ignore[attr-defined]
    assert looked == {1: 1, 2: 0, 3: 0, 4: 0}
    assert set(order.passed_over()) == {("closed", kind()), ("normal", kind("dead"))}


def test_lower_queues_are_not_looked_at_before_their_turn() -> None:
    shot = snapshot([(1, bucket(queue="high")), (2, bucket())], Queue(name="high", priority=2), Queue(name="normal"))
    order = ServingOrder(shot)
    assert next(iter(order))[0] == 1
    lines = [line for line in shot.pending[kind()].values() if isinstance(line, CountedLine)]
    assert [line.looked for line in lines] == [1, 0]


def test_two_users_of_equal_shares_alternate() -> None:
    jobs = [*((number, bucket("ann")) for number in range(1, 6)), *((number, bucket("bob")) for number in range(6, 11))]
    assert served(ServingOrder(snapshot(jobs, fair()))) == [1, 6, 2, 7, 3, 8, 4, 9, 5, 10]


def test_twice_the_shares_start_twice_the_jobs() -> None:
    jobs = [(number, bucket("ann" if number <= 30 else "bob")) for number in range(1, 61)]
    order = ServingOrder(snapshot(jobs, fair(Share("ann", 2), Share("bob", 1))))
    first = served(order)[:30]
    assert sum(number <= 30 for number in first) == 20


def test_who_has_used_more_comes_later() -> None:
    shot = snapshot(
        [(1, bucket("ann")), (2, bucket("bob"))], fair(), shares={"normal": {"ann": FairshareUse(cpu_s=3600.0)}}
    )
    assert served(ServingOrder(shot)) == [2, 1]


def test_users_of_equal_priority_are_served_first_come_first_served() -> None:
    jobs = [(1, bucket("zoe")), (2, bucket("ann")), (3, bucket("moe", "b"))]
    assert served(ServingOrder(snapshot(jobs, fair()))) == [1, 2, 3]


def test_who_has_no_share_is_served_last() -> None:
    jobs = [(1, bucket("eve")), (2, bucket("ann")), (3, bucket("ann"))]
    assert served(ServingOrder(snapshot(jobs, fair(Share("ann", 1))))) == [2, 3, 1]


def test_groups_take_turns_before_their_members_do() -> None:
    """One user of a group gets as much as the three of the other together."""
    queue = fair(Share("one", 1), Share("three", 1))
    users = ["ann", *("bob", "cat", "dan")]
    jobs = [(number * 10 + place, bucket(user)) for place, user in enumerate(users) for number in range(1, 7)]
    order = ServingOrder(snapshot(jobs, queue, user_groups={"one": ("ann",), "three": ("bob", "cat", "dan")}))
    first = served(order)[:12]
    assert sum(number % 10 == 0 for number in first) == 6
    assert sorted(number % 10 for number in first if number % 10) == [1, 1, 2, 2, 3, 3]


def test_a_fairshare_queue_beside_another_of_its_priority_offers_whoever_is_next() -> None:
    queues = [fair(), Queue(name="plain")]
    names = {1: ("ann", "normal"), 2: ("ann", "normal"), 3: ("bob", "normal"), 4: ("eve", "plain")}
    jobs = [(number, bucket(user, queue=queue)) for number, (user, queue) in names.items()]
    # After job 1 it is bob's turn; his job 3 came before job 4; then ann's 2.
    assert served(ServingOrder(snapshot(jobs, *queues))) == [1, 3, 2, 4]


def test_a_fairshare_queue_ends_when_all_its_classes_are_dropped() -> None:
    jobs = [(number, bucket(f"user{number}")) for number in range(1, 50)]
    shot = snapshot(jobs, fair())
    order = ServingOrder(shot)
    seen = []
    for job_id, each in order:
        seen.append(job_id)
        order.drop_class(each.queue, each.requirement)
    assert seen == [1]
    assert order.passed_over() == [("normal", kind())]


def test_with_fairshare_who_has_a_reservation_comes_before_whose_turn_it_is() -> None:
    jobs = [(1, bucket("ann")), (2, bucket("ann")), (3, bucket("bob")), (4, bucket("bob", "b")), (5, bucket("cat"))]
    shot = snapshot(jobs, fair())
    assert served(ServingOrder(shot, reserved=[(4, bucket("bob", "b"))])) == [4, 1, 5, 2, 3]
    both = [(5, bucket("cat")), (4, bucket("bob", "b"))]
    assert served(ServingOrder(shot, reserved=both)) == [5, 4, 1, 2, 3]


def test_of_equal_jobs_the_first_comes_in_place_of_one_that_has_a_reservation() -> None:
    jobs = [(1, bucket("ann")), (2, bucket("bob")), (3, bucket("bob")), (4, bucket("bob"))]
    assert served(ServingOrder(snapshot(jobs, fair()), reserved=[(4, bucket("bob"))])) == [2, 1, 3, 4]


def test_a_reservation_of_one_that_is_gone_or_changed_and_without_fairshare_counts_for_nothing() -> None:
    jobs = [(1, bucket("ann")), (2, bucket("bob")), (3, bucket("bob", "b"))]
    gone = [(9, bucket("bob")), (3, bucket("bob")), (2, bucket("bob", "c")), (2, bucket("bob", queue="none"))]
    assert served(ServingOrder(snapshot(jobs, fair()), reserved=gone)) == [1, 2, 3]
    assert served(ServingOrder(snapshot(jobs), reserved=[(3, bucket("bob", "b"))])) == [1, 2, 3]


def test_a_bucket_dropped_with_its_reserved_job_is_served_no_more() -> None:
    jobs = [(1, bucket("ann")), (2, bucket("bob")), (3, bucket("bob")), (4, bucket("bob", "b"))]
    order = ServingOrder(snapshot(jobs, fair()), reserved=[(2, bucket("bob"))])
    seen = []
    for job_id, each in order:
        seen.append(job_id)
        if job_id == 2:
            order.drop(each)
    assert seen == [2, 1, 4]
    assert order.passed_over() == [bucket("bob")]


# -- properties ---------------------------------------------------------------------------------------------------

buckets = st.builds(
    bucket,
    user=st.sampled_from("abc"),
    text=st.sampled_from("xyz"),
    queue=st.sampled_from(["normal", "fair", "low"]),
    user_group=st.sampled_from(["", "team"]),
)
QUEUES = (
    Queue(name="normal", priority=5),
    Queue(name="fair", priority=5, fairshare=(Share("team", 2), Share("default", 1))),
    Queue(name="low", priority=1, fairshare=EACH),
)
actions = st.sampled_from(["place", "place", "place", "drop", "class", "queue", "nothing"])


@settings(max_examples=examples(70), deadline=None)
@given(
    each=st.lists(buckets, max_size=30),
    what=st.lists(actions, min_size=30, max_size=30),
    live=st.sets(st.sampled_from("xyz")),
    closed=st.sets(st.sampled_from(["normal", "fair", "low"]), max_size=1),
    reserved=st.lists(st.integers(0, 29), max_size=6, unique=True),
)
def test_every_job_is_served_or_owed_a_reason(
    each: list[Bucket], what: list[str], live: set[str], closed: set[str], reserved: list[int]
) -> None:
    jobs = list(enumerate(each, start=1))
    shot = snapshot(jobs, *QUEUES, user_groups={"team": ("a", "b")})
    kept = [jobs[place] for place in reserved if place < len(jobs)]
    order = ServingOrder(shot, live={kind(text) for text in live}, closed=closed, reserved=kept)
    gone: set[ReasonKey] = set()
    seen: set[int] = set()
    for (job_id, of), action in zip(order, what, strict=False):
        assert job_id not in seen
        assert not gone & {of, (of.queue, of.requirement), (of.queue, kind("*"))}
        assert of.requirement.requirement in live and of.queue not in closed
        seen.add(job_id)
        if action == "place":
            order.placed(of, ONE_SLOT)
        elif action == "drop":
            order.drop(of)
            gone.add(of)
        elif action == "class":
            order.drop_class(of.queue, of.requirement)
            gone.add((of.queue, of.requirement))
        elif action == "queue":
            order.drop_queue(of.queue)
            gone.add((of.queue, kind("*")))
    owed = set(order.passed_over())
    for job_id, of in jobs:
        assert job_id in seen or owed & {of, (of.queue, of.requirement)}, (job_id, of)


@settings(max_examples=examples(30), deadline=None)
@given(
    each=st.lists(buckets, max_size=30),
    use=st.dictionaries(st.sampled_from("abc"), st.floats(0, 1e5)),
    reserved=st.lists(st.integers(1, 30), max_size=6, unique=True),
)
def test_without_drops_everybody_is_served_once_and_each_bucket_in_order(
    each: list[Bucket], use: dict[str, float], reserved: list[int]
) -> None:
    jobs = dict(enumerate(each, start=1))
    shares = {"fair": {user: FairshareUse(cpu_s=cpu_s) for user, cpu_s in use.items()}}
    shot = snapshot(jobs.items(), *QUEUES, user_groups={"team": ("a", "b")}, shares=shares)
    ids = served(ServingOrder(shot, reserved=[(each, jobs[each]) for each in reserved if each in jobs]))
    assert sorted(ids) == sorted(jobs)
    for of in set(each):
        mine = [job_id for job_id in ids if jobs[job_id] == of]
        assert mine == sorted(mine)
    priorities = [next(queue.priority for queue in QUEUES if queue.name == jobs[job_id].queue) for job_id in ids]
    assert priorities == sorted(priorities, reverse=True)


@settings(max_examples=examples(17), deadline=None)
@given(each=st.lists(buckets, max_size=30), seed=st.randoms(use_true_random=False))
def test_the_order_in_which_jobs_were_entered_does_not_matter(each: list[Bucket], seed: Any) -> None:
    jobs = list(enumerate(each, start=1))
    shuffled = list(jobs)
    seed.shuffle(shuffled)
    groups = {"team": ("a", "b")}
    assert served(ServingOrder(snapshot(jobs, *QUEUES, user_groups=groups))) == served(
        ServingOrder(snapshot(shuffled, *QUEUES, user_groups=groups))
    )
