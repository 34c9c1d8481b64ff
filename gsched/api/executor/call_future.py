"""The future of a call that runs as a job, or as a part of one.

As those of concurrent.futures, but that cancelling it ends the job, even one that runs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import zip_longest
from typing import Any

from gsched.api.executor.call_outcome import settle
from gsched.api.executor.run_calls import CallOutcome
from gsched.api.job import Job
from gsched.base.errors import GschedError
from gsched.model.jobs.job import FINISHED, PENDING


class CallPart:
    """The calls that one job, or one element of an array, makes, and the job once it is known."""

    def __init__(self, index: int) -> None:
        """`index`: of the element; 0: the job is no array."""
        self.index = index
        self.futures: list[CallFuture] = []
        self._is_known = threading.Event()
        self._job: Job | None = None
        self._problem: Exception | None = None

    def submitted_as(self, job: Job) -> None:
        """The job is known."""
        self._job = job
        self._is_known.set()
        self.end_if_unwanted()

    @property
    def is_submitted(self) -> bool:
        """Whether the job is known."""
        return self._job is not None

    def failed(self, problem: Exception) -> None:
        """There is no job, or none that is known."""
        self._problem = problem
        self._is_known.set()
        for future in self.futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(problem)

    def settle(self, outcomes: Sequence[CallOutcome], where: str, missing: Exception) -> None:
        """Give each call that is still wanted its outcome, and one without the exception. `where`: names the job."""
        for future, outcome in zip_longest(self.futures, outcomes[: len(self.futures)]):
            if not future.set_running_or_notify_cancel():
                continue
            if outcome is None:
                future.set_exception(missing)
            else:
                settle(future, outcome, where)

    def job(self) -> Job:
        """Waits until it is submitted. Raises what the submission raised."""
        self._is_known.wait()
        if self._job is None:
            assert self._problem is not None
            raise self._problem
        return self._job

    def end_if_unwanted(self) -> None:
        """End the job when nobody wants any of its calls; one that is not submitted yet as soon as it is. It does not
        wait for that: a callback of a future runs in the thread that submits.
        """
        if self.is_submitted and all(future.cancelled() for future in self.futures):
            try:
                self.job().kill()
            except GschedError:
                pass  # it has ended by itself, or was never submitted


class CallFuture(Future[Any]):
    """See the module; `job` is the job (of a map an element of its array) that makes the call."""

    def __init__(self, part: CallPart) -> None:
        super().__init__()
        self._part = part
        part.futures.append(self)

    @property
    def job(self) -> Job:
        """The handle of the job; `future.job.output()` is what the call has printed. Waits until it is submitted.
        Raises what the submission raised.
        """
        return self._part.job()

    def running(self) -> bool:
        """Whether its job runs, as of now."""
        return self._part.is_submitted and not self.done() and self.job.state not in (*PENDING, *FINISHED)

    def cancel(self) -> bool:
        """Give the call up; its job is ended, also while it runs, unless others of its calls are wanted. False: it is
        over.
        """
        was_cancelled = self.cancelled()
        if not super().cancel():
            return False
        if not was_cancelled:
            self._part.end_if_unwanted()
        return True
