"""While a cycle plans nothing is collected; afterwards all is as it was, whatever happened."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from gsched.master.collector import undisturbed


@pytest.mark.parametrize("was_on", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_rests_while_a_cycle_plans(was_on: bool, fails: bool) -> None:
    seen = []

    def schedule(snapshot: Any, now: float, budget: int) -> Any:
        seen.append((gc.isenabled(), snapshot, now, budget))
        if fails:
            raise RuntimeError("a fault")
        return "plan"

    anything: Any = "snapshot"
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        if fails:
            with pytest.raises(RuntimeError, match="a fault"):
                undisturbed(schedule)(anything, 1.0, 2)
        else:
            assert undisturbed(schedule)(anything, 1.0, 2) == "plan"  # type: ignore[comparison-overlap]
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [(False, "snapshot", 1.0, 2)]
