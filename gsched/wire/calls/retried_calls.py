"""Calls to a master that may be away for a moment, or may say that it is asked too much: they wait, and go on.

It knows no service and no message: a method of the channel and a request go in, what it answers comes out. It repeats
only what the master has not begun, or what its caller made safe to be repeated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from gsched.base.errors import GschedError, Unavailable
from gsched.wire.calls.call_failure import THE_MASTER, error_from_rpc, retry_after_s, silent_one, tried_before
from gsched.wire.channel_readiness import wait_until_ready

RETRY_S = 0.05
LATE_S = 2.0
"""How much later a silent call is broken off than one is given up that nobody has answered: that says more."""
_GONE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
"""The master is away: not there, or it broke the call off because it is ending."""


def _come_again(error: grpc.RpcError, deadline: float) -> bool:
    """Wait for as long as the master wants a caller to wait who asks too much; False when it is not that, or too long.

    What was refused for that was not begun: it can be repeated, whatever it is.
    """
    after_s = retry_after_s(error)
    if after_s is None or time.monotonic() + after_s >= deadline:
        return False
    time.sleep(after_s)
    return True


class BrokenOff(Unavailable):
    """A stream ended in the middle: some of it was received, the rest can be asked for again."""


class Silent(Unavailable):
    """The master is there, but has not gone on for too long."""


class _Watched:
    """A method whose stream is broken off when no answer comes for `wait_s` seconds."""

    def __init__(self, method: Callable[..., Any], wait_s: float) -> None:
        self._method, self._wait_s = method, wait_s + LATE_S
        self._heard_at = time.monotonic()
        self._running: Any = None
        self._over = threading.Event()
        self.is_stopped = False
        self._thread = threading.Thread(target=self._watch, name="silence", daemon=True)

    def __call__(self, request: Any) -> Any:
        self.note()
        self._running = self._method(request)
        return self._running

    def __enter__(self) -> _Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._running is not None:
            self._running.cancel()

    def note(self) -> None:
        """Something has come."""
        self._heard_at = time.monotonic()

    def left_s(self) -> float:
        """How long the next answer may still take."""
        return self._heard_at + self._wait_s - time.monotonic()

    def _watch(self) -> None:
        while not self._over.wait(max(0.01, self.left_s())):
            if self.left_s() <= 0 and self._running is not None:
                self.is_stopped = True
                self._running.cancel()
                return


class Cancellable:
    """A streaming method whose running call can be cancelled from another thread."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self._call: Any = None
        self.is_stopped = False

    def __call__(self, request: Any) -> Any:
        self._call = self._method(request)
        if self.is_stopped:
            self._call.cancel()
        return self._call

    def cancel(self) -> None:
        self.is_stopped = True
        if self._call is not None:
            self._call.cancel()


class Calls:
    """Calls by one channel to the master at `address`; what is to be safe against repetition bears a token of its own.

    `wait_s`: how long a call waits for a master that does not answer, in seconds; `on_wait` is called once per call
    when the waiting begins, with who is waited for.
    """

    def __init__(
        self, channel: grpc.Channel, address: str, wait_s: float, on_wait: Callable[[str], None] | None
    ) -> None:
        self._channel = channel
        self._address = address
        self._wait_s = wait_s
        self._on_wait = on_wait

    def call(self, method: Callable[..., Any], request: Any) -> Any:
        """The reply to one request. Raises GschedError."""
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                return method(request, timeout=max(deadline - time.monotonic(), 0.001))
            except grpc.RpcError as error:
                if error.code() in _GONE:
                    self._say_waiting(error)
                    break
                if not _come_again(error, deadline):
                    raise error_from_rpc(error) from None
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                return method(request, timeout=max(deadline - time.monotonic(), 0.001), wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() in _GONE and time.monotonic() < deadline:
                    time.sleep(RETRY_S)  # the connection broke in the call: the channel is already backing off
                    continue
                if _come_again(error, deadline):
                    continue
                raise self._gave_up(error) from None

    def in_parts(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        """The replies to one request that may take any time, of which one comes now and then as long as the master is
        at it. Raises GschedError: as `stream`, and Silent when none has come for as long as this waits.
        """
        with _Watched(method, self._wait_s) as watched:
            try:
                for item in self.stream(watched, request):
                    watched.note()
                    yield item
            except GschedError:
                if watched.is_stopped:
                    raise Silent(
                        f"the master has said nothing for {self._wait_s:g} s; the request may still be carried out"
                    ) from None
                raise

    def stream(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        """The replies to one request as they come. Raises GschedError; BrokenOff when some have come already.

        A `method` whose attribute `is_stopped` is true was broken off on purpose: nobody is waited for then.
        """
        deadline: float | None = None
        most_s = time.monotonic() + self._wait_s
        while True:
            received = False
            try:
                for item in method(request):
                    received = True
                    yield item
                return
            except grpc.RpcError as error:
                if not received and _come_again(error, most_s):
                    continue
                if error.code() not in _GONE or getattr(method, "is_stopped", False):
                    raise error_from_rpc(error) from None
                if received:
                    raise BrokenOff("the master broke off its answer: it restarts, or the connection failed") from None
                if deadline is not None and time.monotonic() >= deadline:
                    raise self._gave_up(error) from None
                last = error
                if deadline is None:
                    self._say_waiting(error)
            if deadline is None:
                deadline = time.monotonic() + self._wait_s
            else:
                time.sleep(RETRY_S)
            try:
                wait_until_ready(self._channel, max(deadline - time.monotonic(), 0.001))
            except grpc.FutureTimeoutError:
                raise Unavailable(self._no_answer(last)) from None

    def _say_waiting(self, error: grpc.RpcError) -> None:
        if self._on_wait is not None:
            self._on_wait(silent_one(error))

    def _no_answer(self, error: grpc.RpcError) -> str:
        silent, tried = silent_one(error), tried_before(error)
        how = "gsched status" if silent == THE_MASTER else "systemctl status gsched-door"
        text = f"{silent} at {self._address} has not answered for {self._wait_s:g} s: is it running? ({how})"
        return f"{text}; {tried}" if tried else text

    def _gave_up(self, error: grpc.RpcError) -> GschedError:
        if error.code() in _GONE or error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unavailable(self._no_answer(error))
        return error_from_rpc(error)
