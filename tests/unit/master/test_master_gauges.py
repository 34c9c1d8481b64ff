"""Limits and shares are read off the engine when they may have changed, but not with every commit."""

from __future__ import annotations

import math

import msgspec
from test_master_board import CONFIG, NOW, Desk, spec

from gsched.core.command import Reconfigure
from gsched.master.views.gauges import LONGEST_S, SHORTEST_S, GaugeReadings, Gauges
from gsched.model.queues.limit import Amount, Consumers, Limit
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share

SLOTS = Limit(name="few", users=Consumers(per=True), amounts={"slots": (Amount(3.0),)})
FAIR = Queue(name="normal", priority=3, fairshare=(Share("ann", 2), Share("default", 1)))


def test_without_limits_and_fairshare_nothing_is_ever_read() -> None:
    services, gauges = Desk(), Gauges()
    assert gauges.follow(services.engine, NOW) == math.inf
    assert gauges.readings == GaugeReadings()


def test_what_is_used_shows_within_a_second() -> None:
    services, gauges = Desk(), Gauges()
    config = msgspec.structs.replace(CONFIG, limits=(SLOTS,), queues={"normal": FAIR})
    services.engine.handle(Reconfigure("root", config), NOW)
    assert gauges.follow(services.engine, NOW) == NOW + LONGEST_S
    assert [limit.idle for limit in gauges.readings.limits] == [True]
    services.submit(spec(slots=2))
    services.go_on()
    gauges.note_change()
    assert gauges.follow(services.engine, NOW + 0.1) == NOW + SHORTEST_S
    assert [limit.idle for limit in gauges.readings.limits] == [True]
    gauges.follow(services.engine, NOW + SHORTEST_S)
    (limit,) = gauges.readings.limits
    assert (limit.name, limit.user, limit.resource, limit.used, limit.allowed) == ("few", "ann", "slots", 2.0, 3.0)
    rows = {row.name: row for row in gauges.readings.shares["normal"]}
    assert (rows["ann"].shares, rows["ann"].started) == (2, 2)
    # Nothing happens: it is read again all the same, more slowly, for use decays.
    assert gauges.follow(services.engine, NOW + 2) == NOW + SHORTEST_S + LONGEST_S
    services.engine.handle(Reconfigure("root", CONFIG), NOW + 3)
    assert gauges.follow(services.engine, NOW + 3) == math.inf
    assert gauges.readings == GaugeReadings()


def test_a_clock_that_was_set_back_does_not_stop_the_readings() -> None:
    services, gauges = Desk(), Gauges()
    services.engine.handle(Reconfigure("root", msgspec.structs.replace(CONFIG, limits=(SLOTS,))), NOW)
    gauges.follow(services.engine, NOW + 1000)
    assert gauges.follow(services.engine, NOW) <= NOW + LONGEST_S


def test_queues_of_one_share_tree_show_the_same_table() -> None:
    services, gauges = Desk(), Gauges()
    names = ("normal", "short")
    queues = {name: msgspec.structs.replace(FAIR, name=name, share_queues=names) for name in names}
    services.engine.handle(Reconfigure("root", msgspec.structs.replace(CONFIG, queues=queues)), NOW)
    services.submit(spec(slots=2, queue="short"))
    services.go_on()
    gauges.note_change()
    gauges.follow(services.engine, NOW)
    shares = gauges.readings.shares
    assert shares["normal"] == shares["short"]
    assert [(row.path, row.name, row.started) for row in shares["short"]] == [("normal/", "ann", 2)]
