"""The database of two masters fails again and again, while clients submit, ask and kill all the time."""

from __future__ import annotations

import pytest
from netlab import Lab

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_rounds import check_each_way, made_masters

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


@pytest.mark.fault
def test_no_job_is_lost_or_doubled_when_the_database_fails(lab: Lab, request: pytest.FixtureRequest) -> None:
    rounds = request.config.getoption("--fault-rounds")
    check_each_way(made_masters(lab, disk_mib=300), ("end_sessions", "kill_database", "fill_database"), rounds)
