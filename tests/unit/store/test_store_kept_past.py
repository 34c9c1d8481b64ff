"""What a store keeps for looks at the past: checkpoints that stand apart, and records of hosts for a time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from store_samples import noted
from stores import StoreAtHand

from gsched.core.state.cluster_state import ClusterState
from gsched.master.upkeep.store_upkeep import AT_ONCE, EVERY_S, PAUSE_S, HostRecordRetention
from gsched.model.views.start_estimate import StartEstimate
from gsched.store.checkpoint_retention import APART, MOST_OLDER, OLDER_BYTES, not_kept
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.past_queries import PastStore
from gsched.store.tables.schema import HostRecordRow

MIB = 1 << 20
DAY_S = 86_400.0


def kept_after(numbers: list[int], size: int, apart_s: float = 0.0) -> list[int]:
    """The checkpoints that are there when these were written one after the other."""
    there: list[tuple[int, int, float]] = []
    for place, number in enumerate(numbers):
        there.append((number, size, apart_s * place))
        gone = not_kept(there)
        there = [each for each in there if each[0] not in gone]
    return [number for number, _, _ in there]


def test_older_checkpoints_stand_apart_and_the_newest_two_remain() -> None:
    every = list(range(5_000, 1_000_001, 5_000))
    kept = kept_after(every, MIB)
    assert kept[-2:] == every[-2:]
    assert len(kept) <= MOST_OLDER + 2
    gaps = [after - before for before, after in zip([0, *kept], kept, strict=False)]
    assert max(gaps) <= APART, "a look at any time replays no more than that"


def test_where_little_happens_checkpoints_stand_a_day_apart() -> None:
    kept = kept_after(list(range(1, 401)), 1000, apart_s=DAY_S / 4)
    assert kept[-2:] == [399, 400]
    gaps = [after - before for before, after in pairwise(kept)]
    assert max(gaps) <= 2 * 4 + 1 and len(kept) <= MOST_OLDER + 2


@pytest.mark.parametrize("seed", range(5))
def test_room_and_number_of_older_checkpoints_are_bounded(seed: int) -> None:
    dice = random.Random(seed)
    numbers = sorted(dice.sample(range(1, 50_000_000), 400))
    for size in (1, 10 * MIB, 300 * MIB):
        kept = kept_after(numbers, size)
        assert kept[-2:] == numbers[-2:]
        assert len(kept) - 2 <= MOST_OLDER and (len(kept) - 2) * size <= OLDER_BYTES


def test_look_at_the_past_begins_at_the_checkpoint_before_it(
    store: StoreAtHand, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.store.checkpoint_retention.APART", 10)
    state = ClusterState().dump()
    for _ in range(10):
        log.append([noted(1) for _ in range(10)])
        log.save_checkpoint(log.last_seq, state)
    log.save_checkpoint_of(log.last_seq, [log.put_part(state)])
    store.damage("UPDATE checkpoint SET at = seq")
    past = PastStore(History(log.place))
    found = [past.checkpoint_before(at) for at in (5, 10, 19, 45, 99, 1000)]
    assert [None if each is None else each[0] for each in found] == [None, 10, 10, 40, 90, 100]
    assert all(each is None or each[1] == state for each in found)
    assert not log.drop_parts(9)
    assert past.checkpoint_before(1000) == (100, state), "its part is still there"


def rows(*times: float) -> list[HostRecordRow]:
    """A whole record and two after it at each of these days."""
    return [HostRecordRow(day * DAY_S + hour, 0, hour == 0, b"x") for day in times for hour in (0, 1, 2)]


def days_left(store: StoreAtHand) -> list[float]:
    return [at / DAY_S for (at,) in store.rows("SELECT at FROM host_record WHERE whole = 1 ORDER BY at")]


def test_records_of_hosts_are_kept_as_long_as_they_are_wanted(store: StoreAtHand, log: EventLog) -> None:
    log.add_hosts(rows(1, 2, 3, 4))
    retention, now = HostRecordRetention(log), 13.5 * DAY_S
    retention.step(0, now)
    assert days_left(store) == [1, 2, 3, 4], "for ever"
    retention.step(10, now)
    assert days_left(store) == [3, 4], "what a look at day 3.5 needs is kept"
    assert PastStore(History(log.place)).hosts_since() == 3 * DAY_S
    retention.step(9, now + EVERY_S / 2)
    assert days_left(store) == [3, 4], "it is not looked all the time"
    retention.step(9, now + EVERY_S)
    assert days_left(store) == [4]


def test_many_old_records_go_in_pieces(store: StoreAtHand, log: EventLog) -> None:
    log.add_hosts(rows(*range(1, AT_ONCE + 1), 1000))
    retention, now = HostRecordRetention(log), 2000 * DAY_S
    for pieces in (1, 2, 3):
        retention.step(1, now + pieces * PAUSE_S)
        ((count,),) = store.rows("SELECT count(*) FROM host_record")
        assert count == 3 + (3 - pieces) * AT_ONCE
    assert days_left(store) == [1000]


def test_what_was_said_of_starts_goes_with_the_records_of_hosts(log: EventLog) -> None:
    said = [StartEstimate(job_id=number, at=number * DAY_S, p50_at=1.0) for number in range(1, AT_ONCE + 5)]
    log.add_hosts([], said)
    retention, now = HostRecordRetention(log), (AT_ONCE + 4) * DAY_S
    retention.step(0, now)
    history = History(log.place)
    assert len(history.told_of(range(AT_ONCE + 5))) == AT_ONCE + 4, "for ever"
    retention.step(2, now)
    assert sorted(history.told_of(range(AT_ONCE + 5))) == list(range(AT_ONCE + 1, AT_ONCE + 5)), "in pieces"
    retention.step(2, now + PAUSE_S)
    assert sorted(history.told_of(range(AT_ONCE + 5))) == [AT_ONCE + 3, AT_ONCE + 4]
    history.close()
