"""The leader of two masters is cut off again and again, while clients submit, ask and kill all the time."""

from __future__ import annotations

import pytest
from netlab import Lab

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_rounds import check_each_way, made_masters

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


@pytest.mark.fault
def test_no_job_is_lost_or_doubled_when_the_leader_is_cut_off(lab: Lab, request: pytest.FixtureRequest) -> None:
    ways = ("cut_database", "cut_agents", "cut_both")
    check_each_way(made_masters(lab), ways, request.config.getoption("--fault-rounds"))
