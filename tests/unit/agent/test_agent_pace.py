"""Hosts that begin together do not report together: each keeps a moment of its own, whatever the clock says."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.agent.report_schedule import APART_S, rest_s, turn_of

NAMES = st.text(min_size=1, max_size=12)
TIMES = st.floats(0, 4e9)
INTERVALS = st.floats(0.01, 600.0)


@given(NAMES, INTERVALS, TIMES)
def test_the_next_moment_is_ahead_and_hardly_further_than_an_interval(host: str, interval_s: float, now: float) -> None:
    rest = rest_s(host, "load", interval_s, now)
    assert 0.0 < rest <= interval_s + min(APART_S, interval_s) / 2


@given(NAMES, INTERVALS, st.floats(0, 2e9))
def test_a_host_keeps_its_moment(host: str, interval_s: float, now: float) -> None:
    """Also when it is woken a little early or late, and another report came in between."""
    first = now + rest_s(host, "load", interval_s, now)
    for late_s in (-min(APART_S, interval_s) / 4, 0.0, interval_s / 4):
        woken = first + late_s
        again = woken + rest_s(host, "load", interval_s, woken)
        assert again == pytest.approx(first + interval_s, abs=1e-5)


def test_a_fleet_is_spread_over_the_interval() -> None:
    hosts = [f"node{number}" for number in range(1000)]
    for what in ("load", "readings"):
        seconds = Counter(int(rest_s(host, what, 15.0, 1e9)) for host in hosts)
        assert max(seconds.values()) < 2 * len(hosts) / 15 and len(seconds) >= 15


def test_hosts_share_moments() -> None:
    """A thousand reports wake the master a hundred and fifty times."""
    assert len({round(rest_s(f"node{number}", "load", 15.0, 1e9), 3) for number in range(10_000)}) <= 15 / APART_S


def test_load_and_readings_of_a_host_have_moments_of_their_own() -> None:
    same = [host for host in range(100) if rest_s(f"n{host}", "load", 15, 0.0) == rest_s(f"n{host}", "readings", 15, 0)]
    assert len(same) < 10


@given(NAMES, INTERVALS, st.floats(0, 2e9))
def test_each_interval_is_a_turn_of_its_own(host: str, interval_s: float, now: float) -> None:
    first = turn_of(host, "readings", interval_s, now)
    turns = [turn_of(host, "readings", interval_s, now + count * interval_s / 2) for count in range(9)]
    assert turns[0] == first and turns[-1] - first in (3, 4, 5)
    assert all(after - before in (0, 1) for before, after in itertools.pairwise(turns))
