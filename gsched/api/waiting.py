"""Who waits for the ends of jobs: one stream and one thread for all that a program waits for.

The futures are concurrent.futures'. A master that restarts is asked again; nothing is
polled. The stream is opened by the first who waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import grpc

from gsched.base.errors import GschedError, NotFound, Unavailable
from gsched.base.ids import show_job
from gsched.model.views.view import JobEnd
from gsched.wire.breakable_channel import BreakableChannel
from gsched.wire.calls.client import Client
from gsched.wire.calls.completion_watch import EndsCall

MOST_FAILURES = 10
"""Streams that break off one after the other without a single end in between."""
_PAUSE_S = 0.05
_CLOSED = "this Cluster was closed while its jobs were waited for"


def not_finished(job_ids: Sequence[int], timeout: float | None) -> TimeoutError:
    """What is raised after `timeout` seconds for jobs that still run or wait: it names the first ten."""
    names = ", ".join(map(show_job, job_ids[:10])) + (f" and {len(job_ids) - 10} more" if len(job_ids) > 10 else "")
    return TimeoutError(f"jobs {names} have not finished within {timeout:g} s")


class Waiting:
    """Futures of jobs' ends; any thread may ask."""

    def __init__(self, channel: grpc.Channel, client: Callable[[grpc.Channel], Client]) -> None:
        """`client`: makes one that speaks by a view of the channel, which `close` breaks off."""
        self._closing = threading.Event()
        self._channel = BreakableChannel(channel, self._closing, lambda: Unavailable(_CLOSED))
        self._client = client(self._channel)
        self._lock = threading.Lock()
        self._open: dict[int, Future[JobEnd]] = {}
        self._call: EndsCall | None = None
        self._thread: threading.Thread | None = None

    def futures(self, job_ids: Iterable[int]) -> list[Future[JobEnd]]:
        """A future for each of the jobs: all who wait for one job share it, so that nobody can cancel it."""
        with self._lock:
            if self._closing.is_set():
                raise Unavailable("this Cluster is closed")
            fresh: list[int] = []
            found = []
            for job_id in job_ids:
                future = self._open.get(job_id)
                if future is None:
                    future = self._open[job_id] = Future()
                    future.set_running_or_notify_cancel()
                    fresh.append(job_id)
                found.append(future)
            if fresh and self._call is not None:
                self._call.ask(fresh)
            if fresh and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gsched-waiting", daemon=True)
                self._thread.start()
            return found

    def close(self) -> None:
        """Who still waits gets Unavailable."""
        with self._lock:
            self._closing.set()
            call, thread = self._call, self._thread
        if call is not None:
            call.cancel()
        self._channel.break_off()  # the thread may ask for a master that is away
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        failures = 0
        while True:
            with self._lock:
                is_closing = self._closing.is_set()
                if not is_closing:
                    self._call = self._client.ends()
                    self._call.ask(list(self._open))
            try:
                if is_closing:
                    raise Unavailable(_CLOSED)
                if self._settle_all():
                    failures = 0
                failures += 1
                self._closing.wait(min(failures, MOST_FAILURES) * _PAUSE_S)
                self._client.cluster()  # waits for a master that is away
                if failures > MOST_FAILURES:
                    raise Unavailable("the master breaks off every answer; its log says why")
            except Exception as error:  # whatever it is, those who wait must hear of it
                if not self._closing.is_set() or is_closing:
                    self._give_up(error)
                    return

    def _settle_all(self) -> bool:
        """Settle futures until the stream breaks off; whether there was any end."""
        assert self._call is not None
        any_end = False
        try:
            for end in self._call:
                any_end = True
                with self._lock:
                    future = self._open.pop(end.job_id, None)
                if future is None:
                    continue
                if end.state:
                    future.set_result(end)
                else:
                    future.set_exception(NotFound(f"Job <{show_job(end.job_id)}> is not found"))
        except GschedError:
            pass  # the master restarts, or is gone: the next question tells
        return any_end

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            left = list(self._open.values())
            self._open.clear()
            self._call = self._thread = None
        for future in left:
            future.set_exception(error)
