"""Which jobs are exceptions by the thresholds of their queue."""

from __future__ import annotations

import pytest

from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.queues.exception_thresholds import ExceptionThresholds
from gsched.model.views.job_exceptions import job_exceptions
from gsched.model.views.view import JobView

AT = 1_700_000_000.0
LIMITS = ExceptionThresholds(overrun_s=600, underrun_s=120, idle=0.5, idle_after_s=60)


def job(state: str = "RUN", estimate_s: int | None = None, **changes: object) -> JobView:
    spec = JobSpec(command="x", user="ann", queue="normal", estimate_s=estimate_s)
    values: dict[str, object] = {"dispatched_at": AT, **changes}
    return JobView(job_id=7, spec=spec, state=state, submitted_at=AT - 5, **values)  # type: ignore[arg-type]


def ended(state: str, run_s: float, cpu_s: float = 1e6, *, started: bool = True) -> JobView:
    result = AttemptResult(exit_code=1, usage=Usage(cpu_s=cpu_s), started=started)
    return job(state, finished_at=AT + run_s, result=result)


def looked_at(after_s: float, cpu_s: float) -> JobView:
    return job(usage=Usage(cpu_s=cpu_s, sampled_at=AT + after_s))


@pytest.mark.parametrize(
    ("found", "now", "expected"),
    [
        (job(), 600, ()),
        (job(), 601, ("overrun",)),
        (ended("DONE", 601), 9e6, ("overrun",)),
        (ended("DONE", 60), 9e6, ()),
        (ended("EXIT", 119), 9e6, ("underrun",)),
        (ended("EXIT", 120), 9e6, ()),
        (looked_at(60, 29.9), 60, ("idle",)),
        (looked_at(60, 30), 60, ()),
        (looked_at(59, 0), 500, ()),
        (job(usage=Usage()), 500, ()),
        (ended("DONE", 100, 49), 9e6, ("idle",)),
        (ended("EXIT", 130, 0, started=False), 9e6, ()),
        (ended("EXIT", 90, 0), 9e6, ("underrun", "idle")),
        (job(estimate_s=30), 31, ("runtime_est_exceeded",)),
        (job("PEND"), 9e6, ()),
        (job("PEND", dispatched_at=None), 9e6, ()),
    ],
)
def test_what_a_job_is(found: JobView, now: float, expected: tuple[str, ...]) -> None:
    assert job_exceptions(found, LIMITS, AT + now) == expected


def test_a_queue_that_says_nothing_has_only_those_that_miss_their_own_estimate() -> None:
    none = ExceptionThresholds()
    assert not none and LIMITS
    assert job_exceptions(job(estimate_s=30), none, AT + 9e6) == ("runtime_est_exceeded",)
    assert job_exceptions(ended("EXIT", 1, 0), none, AT + 9e6) == ()
