"""Tells who sits at an interactive job's terminal that the job is about to reach its run limit.

It asks the master what limit there is, again and again, since limits change; it prints, and does nothing else.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from gsched.base.errors import GschedError
from gsched.cli.session.call import Cancelled
from gsched.model.jobs.job import JobState
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.calls.client import Client

LEAD_S = 300.0
"""How long before its end a job is warned; a tenth of the limit where that is less."""
_ASK_AGAIN_S = 60.0


def lead_s(limit_s: float) -> float:
    """So long before the end of a run of `limit_s` somebody is warned."""
    return min(LEAD_S, max(1.0, limit_s / 10))


def time_left(job: JobView, now: float) -> tuple[float, float] | None:
    """(seconds until the job's run limit or -t ends it, seconds that this was from its start); None without either.

    Time for which the job was suspended counts as if it had run: then the warning comes early.
    """
    if job.started_at is None:
        return None
    ends = [job.started_at + job.spec.run_limit_s] if job.spec.run_limit_s is not None else []
    ends += [job.spec.terminate_at] if job.spec.terminate_at is not None else []
    return (min(ends) - now, min(ends) - job.started_at) if ends else None


class TimeLeft:
    """Says it once, as soon as it is time; `say` prints a line."""

    def __init__(self, client: Client, job_id: int, say: Callable[[str], object]) -> None:
        self._client = client
        self._job_id = job_id
        self._say = say
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gsched-time-left", daemon=True)

    def __enter__(self) -> TimeLeft:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _run(self) -> None:
        with contextlib.suppress(Cancelled):  # nobody sits there any more
            self._watch()

    def _watch(self) -> None:
        pause_s = 0.0
        while not self._over.wait(pause_s):
            pause_s = _ASK_AGAIN_S
            with contextlib.suppress(GschedError):  # the master is away: it is asked again
                job = next(iter(self._client.jobs(JobFilter(ids=(self._job_id,), user="all"))), None)
                if job is None:
                    return
                left = time_left(job, time.time()) if job.state == JobState.RUN else None
                if left is None:
                    continue
                due_s = left[0] - lead_s(left[1])
                if due_s <= 0 and not self._over.is_set():
                    self._say(f"\n<<The job's run time ends in {shown(max(0.0, left[0]))}: it is ended then>>\n")
                    return
                pause_s = min(_ASK_AGAIN_S, max(0.05, due_s))


def shown(seconds: float) -> str:
    """`5 minutes`, `12 seconds`: rounded up."""
    count, word = (-(-seconds // 60), "minute") if seconds > 90 else (-(-seconds // 1), "second")
    return f"{count:.0f} {word}" + ("" if count == 1 else "s")
