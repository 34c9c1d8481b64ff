"""The jobs that a session has submitted and that nobody has waited for yet, and who waits for them.

A job is told of once: whoever has waited for it has reaped it, and it is forgotten. Threads may share a session, and
wait for the same job: one of them gets it. Nothing is polled; a wait whose time is over asks once more, so that a wait
without any time sees every job that is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait

from gsched.api import Cluster, JobEnd, NotFound
from gsched.base.ids import show_job
from gsched.contrib.drmaa import errors
from gsched.contrib.drmaa.job_control import states_of
from gsched.contrib.drmaa.translation import translate, translated
from gsched.model.jobs.job import FINISHED

GRACE_S = 30.0
"""How long the end of a job that is known to be over is waited for: it is on its way."""


class SessionJobs:
    """Any thread may call any method. Times are seconds; None waits for ever."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed = threading.Condition()
        """Something has ended, or been submitted, or the session is closed."""
        self._unreaped: dict[int, None] = {}
        """Of this session, in the order of submission."""
        self._unasked: dict[int, None] = {}
        """Of these, those whose ends have not been asked for."""
        self._ended: dict[int, None] = {}
        """Of these, those that have ended, in that order."""
        self._futures: dict[int, Future[JobEnd]] = {}
        """Also of jobs that were submitted otherwise."""
        self._reaped: set[int] = set()
        self._is_closed = False

    def add(self, job_ids: Iterable[int]) -> None:
        """The session has submitted these."""
        with self._changed:
            new = dict.fromkeys(job_ids)
            self._unreaped |= new
            self._unasked |= new
            self._changed.notify_all()

    def unreaped(self) -> list[int]:
        """All jobs of the session that nobody has waited for."""
        with self._changed:
            return list(self._unreaped)

    def check(self, job_ids: Iterable[int]) -> None:
        """Raises InvalidJobException where one of the jobs has been reaped."""
        with self._changed:
            for job_id in job_ids:
                if job_id in self._reaped:
                    raise _reaped(job_id)

    def close(self) -> None:
        """Who waits gets NoActiveSessionException."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def wait_for(self, job_id: int, timeout: float | None) -> JobEnd:
        """Wait until this job is over, and reap it. Raises ExitTimeoutException, InvalidJobException,
        DrmCommunicationException, NoActiveSessionException.
        """
        self.check([job_id])
        futures = self._settled([job_id], timeout)
        with self._changed:
            if job_id not in futures:  # another thread has waited for it meanwhile
                raise _reaped(job_id)
            return self._reap(job_id, futures[job_id])

    def wait_for_any(self, timeout: float | None) -> JobEnd:
        """Wait until a job of the session is over, also one that is submitted meanwhile, and reap it.

        Raises InvalidJobException when none is left, and else as `wait_for`.
        """
        end = self._next_end(timeout)
        if end is None and FINISHED.intersection(states_of(self._cluster, self.unreaped()).values()):
            end = self._next_end(GRACE_S)
        if end is None:
            raise errors.coded(errors.ExitTimeoutException, f"no job of the session has ended within {timeout:g} s")
        return end

    def wait_for_all(self, job_ids: Sequence[int], timeout: float | None, *, reaps: bool) -> None:
        """Wait until all of these are over; `reaps`: they are forgotten then. Raises as `wait_for`."""
        futures = self._settled(job_ids, timeout)
        with self._changed:
            for job_id, future in futures.items():
                if (reaps or future.exception() is not None) and job_id not in self._reaped:
                    self._reap(job_id, future)

    def _settled(self, job_ids: Sequence[int], timeout: float | None) -> dict[int, Future[JobEnd]]:
        """The futures of those that nobody has reaped, once all of them are done. Raises ExitTimeoutException."""
        with self._changed:
            futures = self._asked(job_ids)
        still = wait(futures.values(), timeout).not_done
        late = [job_id for job_id, future in futures.items() if future in still]
        if late and all(states_of(self._cluster, late).get(job_id) in FINISHED for job_id in late):
            still = wait(still, GRACE_S).not_done
        if still:
            first = next(job_id for job_id in late if futures[job_id] in still)
            raise errors.coded(
                errors.ExitTimeoutException, f"Job <{show_job(first)}> has not ended within {timeout:g} s"
            )
        return futures

    def _next_end(self, timeout: float | None) -> JobEnd | None:
        """The next job that has ended, reaped; None when the time is over."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                if not self._unreaped:
                    raise errors.coded(errors.InvalidJobException, "no job of the session is left to wait for")
                self._asked(list(self._unasked))
                if self._ended:
                    first = next(iter(self._ended))
                    return self._reap(first, self._futures[first])
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)

    def _asked(self, job_ids: Iterable[int]) -> dict[int, Future[JobEnd]]:
        """The futures of these jobs, asked for where that has not been done. Under the lock."""
        if self._is_closed:
            raise _closed()
        wanted = dict.fromkeys(job_ids)
        fresh = [job_id for job_id in wanted if job_id not in self._futures and job_id not in self._reaped]
        with translated():
            for job_id, future in zip(fresh, self._cluster.futures(fresh), strict=True):
                self._futures[job_id] = future
                self._unasked.pop(job_id, None)
                future.add_done_callback(self._hears_of(job_id))
        return {job_id: self._futures[job_id] for job_id in wanted if job_id in self._futures}

    def _hears_of(self, job_id: int) -> Callable[[object], None]:
        def hear(future: object) -> None:
            with self._changed:
                if job_id in self._unreaped and self._futures.get(job_id) is future:
                    self._ended[job_id] = None
                    self._changed.notify_all()

        return hear

    def _reap(self, job_id: int, future: Future[JobEnd]) -> JobEnd:
        """Take the end of a job whose future is done. Under the lock. Raises as `wait_for`."""
        if job_id in self._reaped:
            raise _reaped(job_id)
        if self._futures.get(job_id) is future:
            del self._futures[job_id]
            self._ended.pop(job_id, None)
        error = future.exception()
        if error is None or isinstance(error, NotFound):
            self._unreaped.pop(job_id, None)
        elif job_id in self._unreaped and job_id not in self._futures:
            self._unasked[job_id] = None  # the master was away: the next who waits asks anew
        if error is None:
            self._reaped.add(job_id)
            return future.result()
        raise _closed() if self._is_closed else translate(error)


def _reaped(job_id: int) -> errors.DrmaaException:
    text = f"Job <{show_job(job_id)}> has been waited for already, and is forgotten"
    return errors.coded(errors.InvalidJobException, text)


def _closed() -> errors.DrmaaException:
    return errors.coded(errors.NoActiveSessionException, "the session has been closed")
