"""What `gjobs -l` says of how a job of --signal ended."""

from __future__ import annotations

import signal
from datetime import UTC

import pytest
from seed_jobs import at, job

from gsched.cli.render.jobs.job_lines import restarts
from gsched.model.jobs.job import AttemptResult

DIED = "It died of the signal that asks it to save its state (TERM)"


@pytest.mark.parametrize(
    ("result", "is_told"),
    [
        (AttemptResult(signal=signal.SIGTERM), True),
        (AttemptResult(signal=signal.SIGTERM, term_reason="TERM_OWNER"), False),
        (AttemptResult(signal=signal.SIGINT), False),
        (AttemptResult(exit_code=0), False),
    ],
)
def test_of_what_it_died_by_itself(result: AttemptResult, is_told: bool) -> None:
    saves = {"saves_on_signal": True, "warning_signal": "TERM", "warning_s": 60}
    lines = restarts(job(7, at(1, "10:00:00"), end=result, **saves), UTC)
    assert lines == ["Restarted 0 times", *([DIED] if is_told else [])]
