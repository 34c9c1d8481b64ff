"""What is known of hosts without asking each of them."""

from __future__ import annotations

from gsched.core.resources.observed_hosts import Observations


def test_who_is_away() -> None:
    seen = Observations(started_at=5.0)
    for host in ("a", "b"):
        assert not seen.of(host).connected and seen.of(host).last_heard == 5.0
    assert seen.roll.away == {"a", "b"}
    seen.of("a").meet(1, 6.0)
    assert seen.roll.away == {"b"} and seen.of("a").connected and seen.of("a").session == 1
    seen.of("b").give_up()
    assert not seen.roll.away and seen.of("b").lost
    seen.of("b").part()
    assert not seen.roll.away, "it is lost already"
    seen.of("a").part()
    seen.of("b").meet(2, 7.0)
    seen.of("b").part()
    assert seen.roll.away == {"a", "b"} and not seen.of("b").lost


def test_the_host_that_waits_longest_after_a_start() -> None:
    seen = Observations(started_at=0.0)
    assert seen.first_dispatch(0.0) is None
    for host, at in (("a", 1.0), ("b", 2.0), ("a", 3.0), ("c", 4.0)):
        seen.dispatched(host, at)
    assert seen.of("a").last_dispatch == 3.0
    assert seen.first_dispatch(0.0) == 2.0
    assert seen.first_dispatch(2.0) == 3.0
    assert seen.first_dispatch(4.0) is None
    seen.dispatched("a", 5.0)
    assert seen.first_dispatch(4.0) == 5.0
