"""When what gets free: the kept table is as a new one would be, and no bound is later than the truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cluster import Ask, Cluster, PlainTrial, kind

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.scheduling.columns import HostColumns
from gsched.policy.future.future_ledgers import Future
from gsched.policy.future.least_needs import Need
from gsched.policy.future.releases import Releases
from tests.support.property_examples import examples

HOSTS = 12
STARTS = st.lists(
    st.tuples(
        st.integers(0, HOSTS - 1),
        st.integers(1, 3),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(-100, 50)),
        st.booleans(),
    ),
    max_size=25,
)


def fill(cluster: Cluster, starts: list[tuple[int, int, int, int | None, bool]]) -> None:
    """Jobs where they fit; some of those that run already end first."""
    for host, slots, gpus, ends, clears in starts:
        name = f"h{host}"
        if clears:
            for running in [each for each in cluster.running.values() if each.allocation.first_host == name][:2]:
                cluster.end(running.job_id)
        host_ledger = cluster.ledger.host(name)
        if (host_ledger.free_slots or 0) >= slots and len(host_ledger.claimable("ngpus_excl_p")) >= gpus:
            cluster.run(kind(Ask(slots, gpus)), name, math.inf if ends is None else float(ends))


def bounds(table: Releases, need: Need) -> list[float]:
    return [float(each) for each in np.nan_to_num(table.earliest(need), nan=1e18, posinf=1e17, neginf=-1e17)]


@given(STARTS, STARTS, st.integers(1, 5), st.integers(0, 3))
@settings(max_examples=examples(20), deadline=None)
def test_kept_table_is_as_a_new_one(first: list, second: list, slots: int, gpus: int) -> None:  # type: ignore[type-arg]
    cluster = Cluster(HOSTS, 4, 2)
    columns = HostColumns(cluster.hosts, cluster.ledger)
    need, usable = Need(slots, gpus, 3 * slots), np.ones(HOSTS, dtype=bool)
    for starts in (first, second, []):
        fill(cluster, starts)
        snapshot = cluster.snapshot()
        columns.show(snapshot.ledger, cluster.ledger.changed)
        cluster.ledger.changed.clear()
        kept = Releases.of(Future(replace(snapshot, columns=columns), 0.0))
        new = Releases(Future(snapshot, 0.0))
        assert bounds(kept, need) == bounds(new, need)
        assert kept.unknown_ends().tolist() == new.unknown_ends().tolist()
        assert kept.idle(np.arange(HOSTS)).tolist() == new.idle(np.arange(HOSTS)).tolist()
        assert kept.soonest(need, usable).tolist() == new.soonest(need, usable).tolist()
        for at in (0.0, 25.0, math.inf):
            assert kept.shares(need, at).tolist() == new.shares(need, at).tolist()
    assert columns.memo["releases"] is kept


@given(STARTS, st.integers(1, 5), st.integers(0, 3))
@settings(max_examples=examples(20), deadline=None)
def test_no_bound_is_later_than_the_truth(starts: list, slots: int, gpus: int) -> None:  # type: ignore[type-arg]
    cluster = Cluster(HOSTS, 4, 2)
    fill(cluster, starts)
    snapshot = cluster.snapshot()
    future, trial = Future(snapshot, 0.0), PlainTrial(snapshot)
    bucket = kind(Ask(slots, gpus))
    for name, bound in zip(sorted(cluster.hosts), bounds(Releases(future), Need(slots, gpus, slots)), strict=True):
        for at in (0.0, *future.releases(name)):
            found = trial.place(bucket, Ask(slots, gpus), [name], lambda host, at=at: future.host_ledger(host, at))  # type: ignore[misc]
            if hasattr(found, "hosts"):
                assert bound <= at or math.isinf(at)
                break
        else:
            assert bound == 1e18


@given(
    STARTS,
    st.lists(
        st.tuples(st.integers(0, HOSTS - 1), st.integers(1, 2), st.sampled_from([5.0, 20.0, math.inf])), max_size=8
    ),
)
@settings(max_examples=examples(20), deadline=None)
def test_ledgers_need_not_be_written_for_what_was_placed_to_count(
    starts: list,  # type: ignore[type-arg]
    placed: list[tuple[int, int, float]],
) -> None:
    cluster = Cluster(HOSTS, 4, 2)
    fill(cluster, starts)
    tables = []
    for is_written in (False, True):
        snapshot = cluster.snapshot()
        future = Future(snapshot, 0.0)
        for number, (host, slots, ends_at) in enumerate(placed):
            part = HostAllocation(host=f"h{host}", slots=slots)
            before = sum(each.slots for each, _, _ in future.placed_on(part.host))
            if before + slots > (cluster.ledger.host(part.host).free_slots or 0):
                continue
            snapshot.ledger.take_later((9000 + number, -1), part)
            future.placed(part, ends_at, None)
        if is_written:
            for name in cluster.hosts:
                snapshot.ledger.host(name)
        tables.append(Releases(future))
        assert not (is_written and snapshot.ledger.put_off)
    unread, written = tables
    for need in (Need(1, 0, 1), Need(2, 1, 2), Need(4, 2, 4)):
        assert bounds(unread, need) == bounds(written, need)
    assert unread.unknown_ends().tolist() == written.unknown_ends().tolist()
