"""The waiting room tells who comes first without looking at every line: the order is that which a look at all finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.ids import element_id
from gsched.core.state.pending_jobs import PendingJobs, PendingLine
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, Rank, RequirementClass, Snapshot
from gsched.policy.order import arrival_order
from gsched.policy.order.serving_order import ServingOrder
from tests.support.property_examples import examples

QUEUES = {
    "low": Queue(name="low", priority=1),
    "even": Queue(name="even", priority=1),
    "high": Queue(name="high", priority=2),
}


@dataclass
class Waiting:
    """As much of a job as the waiting room looks at."""

    job_id: int
    of: Bucket
    at: Rank

    def bucket(self) -> Bucket:
        return self.of

    def rank(self) -> Rank:
        return self.at

    def is_untouched(self) -> bool:
        return False


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Bucket, tuple[float, float], int]:
    """(bucket, priority and order, elements: 0 for a job that is no array)."""
    requirement = RequirementClass(draw(st.sampled_from(["", "rusage[mem=1]"])))
    bucket = Bucket(draw(st.sampled_from(sorted(QUEUES))), draw(st.sampled_from(["ann", "bob", "eve"])), requirement)
    rank = (draw(st.sampled_from([-5.0, 0.0, 0.0, 0.0])), float(draw(st.integers(0, 9))))
    return bucket, rank, draw(st.sampled_from([0, 0, 0, 0, 3]))


def snapshot(pending: Any) -> Snapshot:
    return Snapshot(queues=QUEUES, hosts={}, ledger=Ledger(), pending=pending)


def served(pending: Any, drops: dict[int, str]) -> Iterator[int]:
    """Jobs in order; `drops`: at which turns the bucket or the class goes."""
    order = ServingOrder(snapshot(pending))
    for turn, (job_id, bucket) in enumerate(order):
        yield job_id
        if drops.get(turn) == "bucket":
            order.drop(bucket)
        elif drops.get(turn) == "another":  # equal, but not the very object, as one whose plan is broken
            order.drop(bucket._replace(user="bob"))
        elif drops.get(turn) == "class":
            order.drop_class(bucket.queue, bucket.requirement)


@settings(max_examples=examples(70), deadline=None)
@given(
    st.lists(jobs() | st.integers(0, 30), max_size=40),
    st.dictionaries(st.integers(0, 30), st.sampled_from(["bucket", "another", "class"]), max_size=3),
    st.integers(1, 3),
)
def test_it_is_that_of_all_lines_whatever_came_and_went(steps: list[Any], drops: dict[int, str], stretch: int) -> None:
    room = PendingJobs()
    entered: list[tuple[Any, Any]] = []
    for number, step in enumerate(steps, 1):
        if isinstance(step, int):  # one of them leaves
            if entered:
                room.remove(entered.pop(step % len(entered))[0])
        else:
            bucket, rank, elements = step
            array: Any = (
                SimpleNamespace(count=elements, waiting=lambda n=elements: range(1, n + 1)) if elements else None
            )
            job: Any = Waiting(number, bucket, Rank(*rank))
            room.add(job, array)
            entered.append((job, array))
        if number % 4:
            continue
        plain: dict[RequirementClass, dict[Bucket, Any]] = {}
        for bucket, line in room.lines():
            plain.setdefault(bucket.requirement, {})[bucket] = list(line)
        with mock.patch.multiple(arrival_order, _FIRST_STRETCH=stretch, _LONGEST_STRETCH=2 * stretch):
            found = list(served(room, drops))
        assert found == list(served(plain, drops))
        if not drops:
            assert found == in_order(entered)


def in_order(entered: list[tuple[Any, Any]]) -> list[int]:
    """All of them sorted by what decides."""
    keyed = []
    for job, array in entered:
        priority = -QUEUES[job.of.queue].priority
        for index in array.waiting() if array else (job.at.element,):
            number = element_id(job.job_id, index) if array else job.job_id
            keyed.append((priority, Rank(job.at.priority, job.at.order, index), number))
    return [number for _, _, number in sorted(keyed)]


def test_of_a_long_line_a_few_are_looked_at() -> None:
    room = PendingJobs()
    bucket = Bucket("low", "ann", RequirementClass(""))
    for number in range(1, 1001):
        room.add(Waiting(number, bucket, Rank(0.0, float(number))))  # type: ignore[arg-type]
    (_, line), asked = next(room.lines()), 0

    def entry(place: int) -> Any:
        nonlocal asked
        asked += 1
        return ENTRY(line, place)

    with mock.patch.object(type(line), "entry", lambda _, place: entry(place)):
        order = iter(ServingOrder(snapshot(room)))
        assert [next(order)[0] for _ in range(3)] == [1, 2, 3]
    assert asked < 20


ENTRY = PendingLine.entry
