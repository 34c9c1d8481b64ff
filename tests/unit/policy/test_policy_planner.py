"""The search for a planned start finds the earliest there is, as one does that tries every host at every time."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cluster import Ask, Cluster, PlainTrial, kind

from gsched.model.queues.queue import Queue
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.backfill.future_ledgers import Booking, Future
from gsched.policy.backfill.start_planner import Planner

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
                found = planner._try(job_id, bucket, ask, [host], end)  # type: ignore[arg-type]
                best = best if found is None else min(best, found.start)
    return best


@given(STARTS, STARTS, WISHES, st.booleans(), st.booleans())
@settings(max_examples=120, deadline=None)
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
                assert planner.fits(found)
                future.book(found)
            if number < len(placed):
                start(cluster, snapshot, future, placed[number])
