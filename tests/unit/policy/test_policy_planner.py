"""The search for a planned start finds the earliest there is, as one does that tries every host at every time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cluster import Ask, Cluster, PlainTrial, kind

from gsched.model.queues.queue import Queue
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.backfill.start_planner import Planner
from gsched.policy.future.bookings import Booking
from gsched.policy.future.future_ledgers import Future
from tests.support.property_examples import examples

HOSTS = 5
ENDS = st.one_of(st.none(), st.integers(-100, 12))
STARTS = st.lists(
    st.tuples(st.integers(0, HOSTS - 1), st.integers(1, 3), st.integers(0, 2), ENDS), min_size=6, max_size=25
)
WISHES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 2), st.sampled_from([0.0, 400.0]), st.sampled_from([5.0, 60.0, None])),
    min_size=1,
    max_size=6,
)


def start(cluster: Cluster, snapshot: Snapshot, future: Future | None, what: tuple[int, int, int, int | None]) -> None:
    """A job that runs already, or with a future one that is placed in its cycle."""
    number, slots, gpus, ends = what
    host, ask = f"h{number}", Ask(slots, gpus)
    ledger = cluster.ledger if future is None else snapshot.ledger
    found = PlainTrial(snapshot).place(kind(ask), ask, [host], ledger.host)  # type: ignore[arg-type]
    if not hasattr(found, "hosts"):
        return
    end = math.inf if ends is None else float(ends)
    if future is None:
        cluster.run(kind(ask), host, end)
        return
    cluster.last += 1
    ledger.take((cluster.last, -1), found)
    future.placed(found.hosts[0], end, kind(ask))
    if snapshot.columns is not None:
        snapshot.columns.try_out(snapshot.columns.index[host])


def plain(planner: Planner, future: Future, job_id: int, bucket: Bucket, ask: Ask) -> float:
    """The earliest start on any host; infinite when there is none at a known time."""
    best = math.inf
    for host in future.snapshot.hosts:
        for end in (future.soon, *future.releases(host)):
            if future.soon <= end < math.inf:
                found = planner.fit.try_at(job_id, bucket, ask, [host], end)  # type: ignore[arg-type]
                best = best if found is None else min(best, found.start)
    return best


@given(STARTS, STARTS, WISHES, st.booleans(), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_search_finds_the_earliest_start(
    runs: list[tuple[int, int, int, int | None]],
    placed: list[tuple[int, int, int, int | None]],
    wishes: list[tuple[int, int, float, float | None]],
    backfill: bool,
    kept: bool,
) -> None:
    cluster = Cluster(HOSTS, 4, 3, [Queue(name="q", backfill=backfill)], terminate_s=5.0)
    columns = HostColumns(cluster.hosts, cluster.ledger) if kept else None
    for some in (runs[:6], runs[6:]):
        for what in some:
            start(cluster, cluster.snapshot(), None, what)
        snapshot = cluster.snapshot()
        if columns is not None:
            columns.show(snapshot.ledger, cluster.ledger.changed)
            cluster.ledger.changed.clear()
            snapshot = replace(snapshot, columns=columns)
        future = Future(snapshot, 0.0)
        planner = Planner(future, PlainTrial(snapshot))
        for number, (slots, gpus, mem, run_s) in enumerate(wishes):
            ask = Ask(slots, gpus, mem)
            bucket = kind(ask, run_s=run_s)
            found, text = planner.search(1000 + number, bucket, ask, None)  # type: ignore[arg-type]
            earliest = plain(planner, future, 1000 + number, bucket, ask)
            assert (math.inf if found is None else found.start) == earliest, text
            if isinstance(found, Booking):
                assert planner.fit.fits(found)
                future.book(found)
            if number < len(placed):
                start(cluster, snapshot, future, placed[number])


def test_what_was_sought_in_vain_is_sought_again_once_something_is_otherwise() -> None:
    """Two hosts are held by one job each, until 50 and 80: who wants all of a host is planned for 50."""
    cluster = Cluster(3, 4, 0, terminate_s=0.0)
    first, second = cluster.run(kind(Ask(4)), "h0", 50.0), cluster.run(kind(Ask(4)), "h1", 80.0)
    columns, bucket = HostColumns(cluster.hosts, cluster.ledger), kind(Ask(4))
    cluster.hosts["h2"] = replace(cluster.hosts["h2"], closed="closed")

    def planner_at(now: float) -> Planner:
        snapshot = cluster.snapshot()
        columns.show(snapshot.ledger, cluster.ledger.changed)
        cluster.ledger.changed.clear()
        snapshot = replace(snapshot, columns=columns)
        return Planner(Future(snapshot, now), PlainTrial(snapshot))

    def sought(planner: Planner, kept: Booking) -> tuple[float | None, int]:
        found, _ = planner.search(9, bucket, Ask(4), kept)  # type: ignore[arg-type]
        return None if found is None else found.start, planner.searches

    kept, _ = planner_at(0.0).search(9, bucket, Ask(4), None)  # type: ignore[arg-type]
    assert kept is not None and kept.start == 50.0
    assert [sought(planner_at(now), kept) for now in (1.0, 2.0, 3.0)] == [(None, 1), (None, 0), (None, 0)]
    later = replace(kept, start=60.0)
    assert sought(planner_at(4.0), later) == (50.0, 1)
    assert sought(planner_at(5.0), kept) == (None, 0)
    beside = planner_at(6.0)
    beside._future.book(replace(kept, job_id=8))
    assert sought(beside, replace(kept, start=90.0)) == (80.0, 1)
    cluster.hosts["h2"] = replace(cluster.hosts["h2"], closed="")
    assert sought(planner_at(7.0), kept)[0] == pytest.approx(7.0)
    cluster.hosts["h2"] = replace(cluster.hosts["h2"], closed="closed")
    cluster.ledger.give(second.key, second.allocation)
    del cluster.running[second.job_id]
    assert sought(planner_at(8.0), kept)[0] == pytest.approx(8.0) and first.job_id in cluster.running
