"""The process that leads is lost again and again, while clients submit, ask and kill all the time."""

from __future__ import annotations

import pytest
from netlab import Lab

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_losses import check_each_way

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


@pytest.mark.fault
def test_no_job_is_lost_or_doubled_when_the_leader_is_lost(lab: Lab, request: pytest.FixtureRequest) -> None:
    check_each_way(
        lab,
        ("kill", "stop", "start_together", "hand_over", "wrong_clock"),
        rounds=request.config.getoption("--fault-rounds"),
    )
