"""RSV: free slots that are kept for pending jobs, by host, queue and who is charged."""

from __future__ import annotations

import msgspec
from test_master_board import CONFIG, NOW, Desk, spec

from gsched.core.command import Reconfigure
from gsched.master.views.gauges import Gauges
from gsched.master.views.withheld_slots import Withheld, queues_with_kept_slots, with_kept_slots, withheld
from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share
from gsched.model.scheduling.snapshot import Bucket, RequirementClass
from gsched.model.views.view import HostView, QueueView
from gsched.policy.backfill.reserved_start import ReservedStart

ANN, BOB = (Bucket("normal", user, RequirementClass("", slots=8)) for user in ("ann", "bob"))


def reserved(bucket: Bucket, at: float | None, **slots: int) -> ReservedStart:
    parts = tuple(HostAllocation(host=host, slots=count) for host, count in slots.items())
    return ReservedStart(
        at=at, bucket=bucket, allocation=Allocation(hosts=parts) if parts else None, since=0.0, searched_at=0.0
    )


def test_only_what_is_free_is_kept_and_the_sooner_start_first() -> None:
    planned = {
        1: reserved(ANN, 900.0, a=8, b=2),
        2: reserved(BOB, 300.0, a=4),
        3: reserved(ANN, None, c=5),
    }
    kept = withheld(planned, {"a": 6, "b": None, "c": 0})
    assert kept == [Withheld(BOB, "a", 4), Withheld(ANN, "a", 2), Withheld(ANN, "b", 2)]


def test_a_plan_without_a_place_keeps_nothing() -> None:
    assert withheld({1: reserved(ANN, None), 2: PlannedStart(at=5.0, hosts=("a",))}, {"a": 8}) == []


def test_hosts_and_queues_show_it() -> None:
    hosts = [HostView(name="a", status="ok", slots_free=3), HostView(name="b", status="ok", slots_free=8)]
    queues = [QueueView(name="normal", priority=1), QueueView(name="other", priority=1)]
    planned = {1: reserved(ANN, 9.0, a=8)}
    assert [host.rsv for host in with_kept_slots(hosts, planned)] == [3, 0]
    assert [queue.rsv for queue in queues_with_kept_slots(queues, hosts, planned)] == [3, 0]


def test_a_share_table_shows_who_is_kept_slots() -> None:
    services, gauges = Desk(), Gauges()
    fair = Queue(name="normal", priority=3, fairshare=(Share("ann", 2), Share("default", 1)))
    services.engine.handle(Reconfigure("root", msgspec.structs.replace(CONFIG, queues={"normal": fair})), NOW)
    services.submit(spec(slots=6))  # of 8
    services.go_on()
    services.submit(spec(slots=8))
    services.go_on()
    gauges.follow(services.engine, NOW)
    rows = {row.name: row for row in gauges.readings.shares["normal"]}
    assert (rows["ann"].started, rows["ann"].reserved) == (6, 2)
