"""Who states a run limit waits no longer for it: jobs without one are planned by what earlier jobs like them took."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
ABOUT = 1.05
"""Plans by estimates and by limits serve some equal jobs in another order."""


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_jobs_with_and_without_limits(seed: int) -> None:
    """60 small jobs, then 6 of a whole host."""
    from saturation import fate_start, figures_of, play, work_of
    from saturation_workloads import WORKLOADS

    without, stated = (WORKLOADS[name](seed, 1.0) for name in ("few-none", "few-limits"))
    assert [work_of(job) for job in without.jobs] == [work_of(job) for job in stated.jobs]
    assert {job.limit_s for job in without.jobs} == {None} and None not in {job.limit_s for job in stated.jobs}
    found = []
    for load in (without, stated):
        works, starts = [work_of(job) for job in load.jobs], [fate_start(fate) for fate in play(load)]
        found.append(figures_of(works, starts, load.hosts * load.gpus))
    assert found[1].wait_s <= ABOUT * found[0].wait_s
    assert found[1].makespan_s <= ABOUT * found[0].makespan_s


@pytest.mark.slow
def test_jobs_with_and_without_limits_side_by_side() -> None:
    """Sizes of all kinds on three hosts, with BACKFILL; every second job states a limit, up to four times too much."""
    from saturation import fate_start, play
    from saturation_workloads import WORKLOADS

    fates = play(WORKLOADS["mixed-3-half"](3, 0.6))
    waits: dict[bool, list[float]] = {True: [], False: []}
    for fate in fates:
        waits[fate.job.limit_s is not None].append(fate_start(fate) - fate.job.arrives_s)
    assert len(waits[True]) > 40 and len(waits[False]) > 40
    assert mean(waits[True]) <= mean(waits[False])
