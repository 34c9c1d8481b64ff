"""The process that leads is lost again and again, while clients submit, ask and kill all the time."""

from __future__ import annotations

import pytest
from netlab import Lab

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_rounds import check_each_way, made_masters

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


@pytest.mark.fault
def test_no_job_is_lost_or_doubled_when_the_leader_is_lost(lab: Lab, request: pytest.FixtureRequest) -> None:
    ways = ("kill", "stop", "hang_services", "lose_host", "start_together", "hand_over", "wrong_clock")
    check_each_way(made_masters(lab), ways, request.config.getoption("--fault-rounds"))
