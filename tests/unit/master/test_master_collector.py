"""While a cycle plans nothing is collected; afterwards all is as it was, whatever happened."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from gsched.core.records.job import JobRecord
from gsched.master.garbage_collection import undisturbed
from gsched.master.views.board import Traits
from gsched.model.event import JobSubmitted
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.scheduling.snapshot import Rank
from gsched.model.views.view import Control, JobView, Submitted
from gsched.store.tables.schema import JobRow


@pytest.mark.parametrize("was_on", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_rests_while_a_cycle_plans(was_on: bool, fails: bool) -> None:
    seen = []

    def schedule(snapshot: Any, now: float, budget: int, turn: int) -> Any:
        seen.append((gc.isenabled(), snapshot, now, budget, turn))
        yield
        seen.append((gc.isenabled(),))
        if fails:
            raise RuntimeError("a fault")
        return "plan"

    anything: Any = "snapshot"
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        planning = undisturbed(schedule)(anything, 1.0, 2, 3)
        next(planning)
        assert gc.isenabled() is was_on
        with pytest.raises(RuntimeError if fails else StopIteration, match="a fault" if fails else "plan"):
            next(planning)
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [(False, "snapshot", 1.0, 2, 3), (False,)]


def test_what_there_is_one_of_for_each_job_is_kept_from_the_collector() -> None:
    spec = JobSpec(command="run", user="ann", queue="normal")
    job = JobRecord(job_id=1, spec=spec, state=JobState.PEND, submitted_at=0.0)
    job.not_before = 5.0
    of_jobs: list[Any] = [
        *(spec, job, job.course, job.view(None), Traits(Rank(0.0, 1.0, 0))),
        JobSubmitted(at=0.0, job_id=1, spec=spec),
        JobView(job_id=1, spec=spec, state="PEND", submitted_at=0.0),
        JobRow(job_id=1, user="ann", queue="normal", name="", project="", state="PEND", submitted_at=0.0),
        *(Control(job_id=1), Submitted(job_id=1, queue="normal", default_queue=False)),
    ]
    assert [type(each).__name__ for each in of_jobs if gc.is_tracked(each)] == []
