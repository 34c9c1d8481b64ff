"""Amounts that are given back before their attempt ends: the ledger at any time is what a fresh count of them gives."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gsched.model.ledgers.allocation import Allocation, AmountSchedule, AmountStep, HostAllocation, courses_together
from gsched.model.ledgers.host_ledger import AttemptKey, HostLedger
from gsched.model.ledgers.ledger import Ledger, miscounts
from tests.support.property_examples import examples

Rows = tuple[tuple[float, float], ...]

MEM: Rows = ((0.0, 50.0), (10.0, 20.0), (30.0, 0.0))


def course(rows: Rows) -> AmountSchedule:
    return AmountSchedule(
        resource="mem", steps=tuple(AmountStep(after_s=after, amount=amount) for after, amount in rows)
    )


def part(host: str = "a", mem: Rows = ()) -> HostAllocation:
    return HostAllocation(
        host=host, slots=1, amounts={"mem": mem[0][1]} if mem else {}, courses=(course(mem),) if mem else ()
    )


def test_what_is_held_follows_the_course() -> None:
    whole = part(mem=MEM)
    assert whole.as_of(99.0, 100.0) is whole and whole.as_of(109.9, 100.0) is whole
    assert whole.as_of(110.0, 100.0).amounts == {"mem": 20.0}
    assert whole.as_of(math.inf, 100.0).amounts == {"mem": 0.0}
    assert whole.as_of(110.0, 100.0).as_of(100.0, 100.0) == whole
    assert whole.changes(100.0) == [110.0, 130.0]


def test_ledgers_give_back_when_it_is_due_and_not_before() -> None:
    ledger = Ledger()
    ledger.advance(100.0)
    ledger.take((1, 1), Allocation(hosts=(part("a", mem=MEM), part("b", mem=MEM))), 100.0)
    ledger.take((2, 1), Allocation(hosts=(HostAllocation(host="a", slots=1, amounts={"mem": 5.0}),)), 100.0)
    assert ledger.host("a").reserved == {"mem": 55.0} and ledger.next_change() == 110.0
    assert ledger.advance(109.0) == set()
    ledger.changed.clear()
    assert ledger.advance(110.0) == {("a", (1, 1)), ("b", (1, 1))}
    assert ledger.changed == {"a", "b"}
    assert ledger.host("a").reserved == {"mem": 25.0} and ledger.next_change() == 130.0
    ledger.advance(500.0)
    assert ledger.host("a").reserved == {"mem": 5.0} and ledger.host("b").reserved == {}
    assert ledger.next_change() is None
    ledger.give((1, 1), Allocation(hosts=(part("a"), part("b"))))
    assert ledger.host("a").held.keys() == {(2, 1)} and ledger.advance(600.0) == set()


def test_a_clock_that_is_set_back_takes_nothing_from_anybody() -> None:
    ledger = Ledger()
    ledger.advance(100.0)
    ledger.take((1, 1), Allocation(hosts=(part(mem=MEM),)), 100.0)
    ledger.advance(115.0)
    assert ledger.advance(105.0) == {("a", (1, 1))}
    assert ledger.host("a").reserved == {"mem": 50.0} and ledger.next_change() == 110.0


def test_a_holding_of_which_nobody_knows_when_it_began_is_kept_whole() -> None:
    host_ledger = HostLedger("a")
    host_ledger.take((1, 1), part(mem=MEM))
    host_ledger.advance(1e9)
    assert host_ledger.reserved == {"mem": 50.0} and not host_ledger.is_falling


def test_a_fork_looks_ahead_without_touching_the_original() -> None:
    ledger = Ledger()
    ledger.advance(0.0)
    ledger.take((1, 1), Allocation(hosts=(part(mem=MEM),)), 0.0)
    twin = ledger.fork()
    twin.take((2, 1), Allocation(hosts=(part(mem=MEM),)), 0.0)
    later = twin.host("a").copy()
    later.advance(10.0)
    assert (ledger.host("a").reserved, twin.host("a").reserved) == ({"mem": 50.0}, {"mem": 100.0})
    assert later.reserved == {"mem": 40.0} and list(miscounts(later)) == []


def test_two_parts_of_a_host_together_give_back_what_each_does() -> None:
    first, second = part(mem=MEM), HostAllocation(host="a", slots=1, amounts={"mem": 5.0, "lic": 1.0})
    assert courses_together(first, second) == (course(((0.0, 55.0), (10.0, 25.0), (30.0, 5.0))),)
    other = part(mem=((0.0, 8.0), (20.0, 4.0)))
    assert courses_together(first, other) == (course(((0.0, 58.0), (10.0, 28.0), (20.0, 24.0), (30.0, 4.0))),)
    assert courses_together(second, second) == ()


COURSES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9)), max_size=4).map(
    lambda rows: tuple(
        zip([0.0, *sorted({float(at) for at, _ in rows})], sorted({9.5, *map(float, range(9))})[::-1], strict=False)
    )
)


@dataclass
class Taken:
    since: float
    allocation: Allocation


@settings(max_examples=examples(20), stateful_step_count=30, deadline=None)
class Falling(RuleBasedStateMachine):
    """Takes, gives, forks and any time, also one that goes back."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.now = 0.0
        self.ledger.advance(0.0)
        self.taken: dict[AttemptKey, Taken] = {}
        self.last = 0

    @rule(courses=st.lists(COURSES, min_size=1, max_size=3), ago=st.integers(0, 20), plain=st.integers(0, 3))
    def take(self, courses: list[Rows], ago: int, plain: int) -> None:
        self.last += 1
        parts = []
        for name, rows in zip("abc", courses, strict=False):
            amounts = {"mem": rows[0][1]} | ({"lic": float(plain)} if plain else {})
            kept = (course(rows),) if len(rows) > 1 else ()
            parts.append(HostAllocation(host=name, slots=1, amounts=amounts, courses=kept))
        allocation = Allocation(hosts=tuple(parts))
        self.ledger.take((self.last, 1), allocation, self.now - ago)
        self.taken[self.last, 1] = Taken(self.now - ago, allocation)

    @rule(which=st.integers(0, 100))
    def give(self, which: int) -> None:
        if self.taken:
            key = list(self.taken)[which % len(self.taken)]
            self.ledger.give(key, self.taken.pop(key).allocation)

    @rule(by=st.integers(-5, 30))
    def advance(self, by: int) -> None:
        self.now += by
        before = self.held()
        changed = self.ledger.advance(self.now)
        assert changed == {place for place, amounts in self.held().items() if amounts != before[place]}

    def held(self) -> dict[tuple[str, AttemptKey], dict[str, float]]:
        return {
            (name, key): part.amounts
            for name, host_ledger in self.ledger.hosts.items()
            for key, part in host_ledger.held.items()
        }

    @invariant()
    def the_ledger_is_what_a_fresh_count_gives(self) -> None:
        sums: dict[str, dict[str, float]] = {name: {} for name in self.ledger.hosts}
        coming = []
        for taken in self.taken.values():
            for part in taken.allocation.hosts:
                for name, amount in part.as_of(self.now, taken.since).amounts.items():
                    assert amount >= 0
                    sums[part.host][name] = sums[part.host].get(name, 0.0) + amount
                coming += [at for at in part.changes(taken.since) if at > self.now]
        for name, host_ledger in self.ledger.hosts.items():
            assert host_ledger.reserved == {each: amount for each, amount in sums[name].items() if amount}
            assert list(miscounts(host_ledger)) == []
        first = self.ledger.next_change()
        assert (first is None) <= (not coming)
        assert first is None or (first > self.now and first <= min(coming, default=math.inf))


TestFalling = Falling.TestCase
