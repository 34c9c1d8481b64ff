"""How a command gets its Client: how long it waits for the master, and how Ctrl-C breaks off a call.

Connections are kept for the next command of the process (`master_links`), Clients are not: each belongs to one
Call, and to the user who made it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc

from gsched.base.envdir import read_setting
from gsched.base.errors import BadRequest, Conflict, GschedError, Internal, NotFound, PermissionDenied, Unavailable
from gsched.base.ids import show_job
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.master_links import folder_of, link_of
from gsched.model.jobs.job import STARTED
from gsched.model.views.view import EventRecord, JobEnd, JobFilter, JobView, OutputChunk
from gsched.wire.calls.client import Client
from gsched.wire.calls.retried_calls import BrokenOff
from gsched.wire.calls.retry_policy import WAIT_VARIABLE, read_wait

PLEASE_WAIT = "gsched: {} is not responding. Please wait ...\n"
AWAY_PAUSE_S = 0.5
"""An agent that is away is asked for again MOST_FAILURES times, with such a pause."""
MOST_FAILURES = 10
HOST_AWAY = "gsched: host {} is not responding; the job may well go on. Please wait ...\n"
"""Streams of events that break off one after the other without a single event in between."""


class _Lost(GschedError):
    """The stream of events broke off; the session waits for the master by itself."""


class Session:
    """The connection of one call to its master. `client` says once on standard error that it waits."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._address, channel = link_of(call)
        self._wait_s = wait_s(call)
        self._channel = _Breakable(channel, call)
        self._has_said = False
        self.client = self._client_with(self._say_waiting)

    def follow(self, after_seq: int, job_ids: Sequence[int], pause_s: float = 0.0) -> Iterator[EventRecord]:
        """Events of the jobs as they are committed, for ever; a master that restarts is waited for. `pause_s`: of those
        that come within so many seconds after one, the newest alone, when they are over.

        Raises Unavailable when it stays away for longer than commands wait.
        """
        watcher = self._client_with(_raise_lost)
        failures = 0
        while True:
            try:
                for record in watcher.events(after_seq, follow=True, job_ids=job_ids, pause_s=pause_s):
                    after_seq, failures = record.seq, 0
                    yield record
            except (_Lost, Conflict, Internal):
                # Gone, cut off for being slow, or broken off by a master that is closing: go on after the last event.
                if failures >= MOST_FAILURES:
                    raise
            failures += 1
            self._come_back(failures)

    def end_of(self, job_id: int) -> JobEnd:
        """How the job ended, an array when the last of its elements has; waits for it, and for a master that restarts.

        Raises Unavailable when it stays away for longer than commands wait, NotFound for an unknown job.
        """
        failures = 0
        while True:
            ends = self.client.ends()
            ends.ask((job_id,))
            try:
                for end in ends:
                    if not end.state:
                        raise NotFound(f"Job <{show_job(job_id)}> is not found")
                    return end
            except (Unavailable, Internal):
                if failures >= MOST_FAILURES:
                    raise
            finally:
                ends.cancel()
            failures += 1
            self._come_back(failures)

    def output(
        self, job_id: int, attempt: int, ask: Callable[[Client], Iterator[OutputChunk]]
    ) -> Iterator[OutputChunk]:
        """What `ask` yields of an attempt's output, asked anew when master or agent go and come back.

        Ends with the attempt; a host that cannot be reached is waited for as long as the job may run there. Raises
        Conflict, Unavailable when something else keeps the output back.
        """
        failures, has_said = 0, False
        while True:
            try:
                for chunk in ask(self.client):
                    failures, has_said = 0, False
                    yield chunk
                return
            except (Conflict, Unavailable) as error:
                job = next(iter(self.client.jobs(JobFilter(ids=(job_id,), user="all", finished=True))), None)
                if job is None or job.state not in STARTED or job.attempt != attempt:
                    return  # it has ended meanwhile
                failures = failures + 1 if not isinstance(error, BrokenOff) else 0
                away = self._host_away(job)
                if away:
                    failures = 0
                    if not has_said:
                        self._call.error(HOST_AWAY.format(away))
                    has_said = True
                if failures >= MOST_FAILURES:
                    raise
            self._call.wait(AWAY_PAUSE_S)

    def _host_away(self, job: JobView) -> str:
        """The job's first host while it cannot be reached; empty when it can."""
        host = job.allocation.first_host if job.allocation is not None else ""
        with contextlib.suppress(NotFound):  # one that was taken out of the configuration
            if host and self.client.hosts([host])[0].status in ("unreach", "unavail"):
                return host
        return ""

    def _come_back(self, failures: int) -> None:
        """Wait for the master, a little longer after each failure."""
        self._call.raise_if_cancelled()
        self.client.cluster()
        self._call.wait(failures * 0.05)

    def break_off(self) -> None:
        """Cancel every remote call under way."""
        self._channel.break_off()

    def _client_with(self, on_wait: Callable[[str], None]) -> Client:
        return Client(self._address, wait_s=self._wait_s, on_wait=on_wait, channel=self._channel)

    def _say_waiting(self, silent: str) -> None:
        self._call.raise_if_cancelled()
        if not self._has_said:
            self._has_said = True
            self._call.error(PLEASE_WAIT.format(silent))


@contextlib.contextmanager
def connected(call: Call) -> Iterator[Session]:
    """A session for the call. What it was waiting in ends when the call is cancelled (Cancelled is raised)."""
    session = Session(call)
    call.on_cancel(session.break_off)
    try:
        yield session
    except GschedError:
        # A call that was broken off fails with whatever the transport makes of it.
        call.raise_if_cancelled()
        raise
    finally:
        session.break_off()


def setting(call: Call, name: str) -> str:
    """A parameter from the caller's environment, else from lsf.conf, else empty.

    The folder is relative to the caller's directory. A file that cannot be read says nothing.
    """
    if call.env.get(name):
        return call.env[name]
    try:
        return read_setting(folder_of(call), name)
    except (BadRequest, PermissionDenied):
        return ""


def wait_s(call: Call) -> float:
    """Seconds the call waits for a master that does not answer (GSCHED_COMMAND_WAIT). Raises BadRequest."""
    return read_wait(setting(call, WAIT_VARIABLE))


def _raise_lost(_silent: str) -> None:
    raise _Lost("the stream of events broke off")


class _Breakable(grpc.Channel):
    """A shared channel as one call sees it: what this call has under way can be cancelled, the channel lives on.

    A method of the channel is made when it is called: a Client names all of them, and a command calls two or three.
    """

    def __init__(self, channel: grpc.Channel, call: Call) -> None:
        self._channel = channel
        self._call = call
        self._under_way: set[Any] = set()
        self._watchers: list[Any] = []
        self._lock = threading.Lock()

    def break_off(self) -> None:
        with self._lock:
            under_way, watchers = list(self._under_way), list(self._watchers)
        for each in under_way:
            each.cancel()
        for callback in watchers:  # whoever waits for the connection goes on, and finds the call cancelled
            callback(grpc.ChannelConnectivity.READY)

    def unary_unary(self, *args: Any, **options: Any) -> Any:
        def answer(request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> Any:
            self._call.raise_if_cancelled()
            method = self._channel.unary_unary(*args, **options)
            future = method.future(request, timeout=timeout, wait_for_ready=wait_for_ready)
            self._track(future)
            try:
                return future.result()
            except grpc.FutureCancelledError:
                raise Cancelled from None

        return answer

    def unary_stream(self, *args: Any, **options: Any) -> Any:
        return self._answering(self._channel.unary_stream, *args, **options)

    def stream_stream(self, *args: Any, **options: Any) -> Any:
        return self._answering(self._channel.stream_stream, *args, **options)

    def _answering(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The method that `make` makes, whose streams of answers are cancelled with the call."""

        def answers(request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> Any:
            self._call.raise_if_cancelled()
            stream = make(*args, **options)(request, timeout=timeout, wait_for_ready=wait_for_ready)
            self._track(stream)
            return stream

        return answers

    def _track(self, running: Any) -> None:
        with self._lock:
            self._under_way.add(running)
        if not running.add_callback(lambda: self._forget(running)):
            self._forget(running)
        if self._call.cancelled.is_set():
            running.cancel()

    def _forget(self, running: Any) -> None:
        with self._lock:
            self._under_way.discard(running)

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        with self._lock:
            self._watchers.append(callback)
        self._channel.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        with self._lock:
            if callback in self._watchers:
                self._watchers.remove(callback)
        self._channel.unsubscribe(callback)

    def stream_unary(self, *args: Any, **options: Any) -> Any:
        return self._channel.stream_unary(*args, **options)

    def close(self) -> None:
        """The connection is shared: only what this call has under way ends."""
        self.break_off()

    def __enter__(self) -> _Breakable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
