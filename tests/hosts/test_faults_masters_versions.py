"""Masters of two versions, again and again: from the older to the newer one while jobs run, and no way back."""

from __future__ import annotations

import pytest
from netlab import Lab

pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")

from netlab_rounds import check_each_way, made_masters

pytestmark = [pytest.mark.system, pytest.mark.needs_root]


@pytest.mark.fault
def test_from_master_to_master_to_a_newer_version_and_not_back(lab: Lab, request: pytest.FixtureRequest) -> None:
    """Commands only wait; a master of the older version neither leads nor waits any more, and says why."""
    check_each_way(made_masters(lab), ("upgrade",), request.config.getoption("--fault-rounds"))
