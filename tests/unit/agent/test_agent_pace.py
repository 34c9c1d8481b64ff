"""Hosts that begin together do not report together: each keeps a moment of its own, whatever the clock says."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.agent.report_schedule import APART_S, rest_s

NAMES = st.text(min_size=1, max_size=12)
TIMES = st.floats(0, 4e9)
INTERVALS = st.floats(0.01, 600.0)


@given(NAMES, INTERVALS, TIMES)
def test_the_next_moment_is_ahead_and_hardly_further_than_an_interval(host: str, interval_s: float, now: float) -> None:
    rest = rest_s(host, interval_s, now)
    assert 0.0 < rest <= interval_s + min(APART_S, interval_s) / 2


@given(NAMES, INTERVALS, st.floats(0, 2e9))
def test_a_host_keeps_its_moment(host: str, interval_s: float, now: float) -> None:
    """Also when it is woken a little early or late, and another report came in between."""
    first = now + rest_s(host, interval_s, now)
    for late_s in (-min(APART_S, interval_s) / 4, 0.0, interval_s / 4):
        woken = first + late_s
        again = woken + rest_s(host, interval_s, woken)
        assert again == pytest.approx(first + interval_s, abs=1e-5)


def test_a_fleet_is_spread_over_the_interval() -> None:
    hosts = [f"node{number}" for number in range(1000)]
    seconds = Counter(int(rest_s(host, 15.0, 1e9)) for host in hosts)
    assert max(seconds.values()) < 2 * len(hosts) / 15 and len(seconds) >= 15


def test_hosts_share_moments() -> None:
    """A thousand reports wake the master a hundred and fifty times."""
    assert len({round(rest_s(f"node{number}", 15.0, 1e9), 3) for number in range(10_000)}) <= 15 / APART_S


@pytest.mark.parametrize("part_s", [0.5, 1.0, 5.0])
def test_what_a_host_does_at_several_paces_wakes_it_once(part_s: float) -> None:
    """Its moment of an interval is a moment of each part of it."""
    for number in range(100):
        moment = 1e9 + rest_s(f"n{number}", 15.0, 1e9)
        rest = rest_s(f"n{number}", part_s, moment)
        assert min(rest, abs(part_s - rest)) == pytest.approx(0.0, abs=1e-5)
