"""When somebody at an interactive job's terminal is told that the job's time is up soon."""

from __future__ import annotations

import queue
import time
from typing import Any, cast

import pytest

from gsched.base.errors import Unavailable
from gsched.cli.submit.time_left import TimeLeft, lead_s, shown, time_left
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import JobView


def job(
    started_at: float | None = 1000.0, run_limit_s: int | None = None, terminate_at: float | None = None
) -> JobView:
    spec = JobSpec(command="bash", user="ann", queue="normal", run_limit_s=run_limit_s, terminate_at=terminate_at)
    return JobView(job_id=1, spec=spec, state="RUN", submitted_at=900.0, started_at=started_at)


def test_the_nearer_of_run_limit_and_deadline_counts() -> None:
    assert time_left(job(), 1000.0) is None
    assert time_left(job(None, 60), 1000.0) is None
    assert time_left(job(run_limit_s=60), 1050.0) == (10.0, 60.0)
    assert time_left(job(run_limit_s=600, terminate_at=1100.0), 1050.0) == (50.0, 100.0)
    assert time_left(job(run_limit_s=60, terminate_at=2000.0), 1070.0) == (-10.0, 60.0)


def test_the_warning_comes_five_minutes_before_or_a_tenth() -> None:
    assert [lead_s(limit) for limit in (5, 60, 3000, 36_000)] == [1, 6, 300, 300]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "1 second"), (6.0, "6 seconds"), (90, "90 seconds"), (91, "2 minutes"), (299.5, "5 minutes")],
)
def test_times_are_rounded_up(seconds: float, text: str) -> None:
    assert shown(seconds) == text


class Master:
    """Tells the views that it is given, one after the other; of None it is away."""

    def __init__(self, *views: JobView | None) -> None:
        self.views = list(views)

    def jobs(self, wanted: Any) -> list[JobView]:
        view = self.views.pop(0) if len(self.views) > 1 else self.views[0]
        if view is None:
            raise Unavailable("it restarts")
        return [view]


def test_it_is_said_once_when_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.cli.submit.time_left._ASK_AGAIN_S", 0.01)
    now = time.time()
    views = (job(now, 3600), None, job(now), job(now - 3540, 3600))
    said: queue.Queue[str] = queue.Queue()
    master = Master(*views)
    with TimeLeft(cast(Any, master), 1, said.put):
        line = said.get(timeout=60)
    assert line.startswith("\n<<The job's run time ends in ") and line.endswith("s: it is ended then>>\n")
    assert len(master.views) == 1 and said.empty()
