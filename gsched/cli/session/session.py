"""How a command gets its Client: how long it waits for the master, and how Ctrl-C breaks off a call.

Connections are kept for the next command of the process (`master_links`), Clients are not: each belongs to one
Call, and to the user who made it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from gsched.base.envdir import read_setting
from gsched.base.errors import BadRequest, Conflict, GschedError, Internal, NotFound, PermissionDenied, Unavailable
from gsched.base.ids import show_job
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.master_links import folder_of, link_of
from gsched.model.views.view import EventRecord, JobEnd, OutputChunk
from gsched.wire.breakable_channel import BreakableChannel
from gsched.wire.calls.client import Client
from gsched.wire.calls.retry_policy import WAIT_VARIABLE, read_wait
from gsched.wire.output_following import MOST_FAILURES, OutputFollower

PLEASE_WAIT = "gsched: {} is not responding. Please wait ...\n"
HOST_AWAY = "gsched: host {} is not responding; the job may well go on. Please wait ...\n"


class _Lost(GschedError):
    """The stream of events broke off; the session waits for the master by itself."""


class Session:
    """The connection of one call to its master. `client` says once on standard error that it waits."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._address, channel = link_of(call)
        self._wait_s = wait_s(call)
        self._channel = BreakableChannel(channel, call.cancelled, Cancelled)
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
        return self._follower().of_attempt(job_id, attempt, ask)

    def job_output(self, job_id: int) -> Iterator[OutputChunk]:
        """What each of the job's attempts prints, up to the job's end. Raises Conflict when it has not started yet."""
        return (chunk for _, chunk in self._follower().of_job(job_id, self.follow))

    def _follower(self) -> OutputFollower:
        return OutputFollower(
            self.client, pause=self._call.wait, on_away=lambda host: self._call.error(HOST_AWAY.format(host))
        )

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
