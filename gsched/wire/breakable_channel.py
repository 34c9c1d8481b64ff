"""A shared channel as one caller sees it: what this caller has under way can be cancelled, the channel lives on.

It knows no service and no message. Once it is cancelled nothing is begun on it any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc


class BreakableChannel(grpc.Channel):
    """See the module. `cancelled`: whether the caller has gone; every call raises `error` then.

    A method of the channel is made when it is called: a Client names all of them, and a command calls two or three.
    """

    def __init__(self, channel: grpc.Channel, cancelled: threading.Event, error: Callable[[], BaseException]) -> None:
        self._channel = channel
        self._cancelled = cancelled
        self._error = error
        self._under_way: set[Any] = set()
        self._watchers: list[Any] = []
        self._lock = threading.Lock()

    def break_off(self) -> None:
        """Cancel every call under way; who waits for the connection goes on, and finds the call cancelled."""
        with self._lock:
            under_way, watchers = list(self._under_way), list(self._watchers)
        for each in under_way:
            each.cancel()
        for callback in watchers:
            callback(grpc.ChannelConnectivity.READY)

    def unary_unary(self, *args: Any, **options: Any) -> Any:
        def answer(request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> Any:
            self._raise_if_cancelled()
            method = self._channel.unary_unary(*args, **options)
            future = method.future(request, timeout=timeout, wait_for_ready=wait_for_ready)
            self._track(future)
            try:
                return future.result()
            except grpc.FutureCancelledError:
                raise self._error() from None

        return answer

    def unary_stream(self, *args: Any, **options: Any) -> Any:
        return self._answering(self._channel.unary_stream, *args, **options)

    def stream_stream(self, *args: Any, **options: Any) -> Any:
        return self._answering(self._channel.stream_stream, *args, **options)

    def _answering(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The method that `make` makes, whose streams of answers are cancelled with the call."""

        def answers(request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> Any:
            self._raise_if_cancelled()
            stream = make(*args, **options)(request, timeout=timeout, wait_for_ready=wait_for_ready)
            self._track(stream)
            return stream

        return answers

    def _raise_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise self._error()

    def _track(self, running: Any) -> None:
        with self._lock:
            self._under_way.add(running)
        if not running.add_callback(lambda: self._forget(running)):
            self._forget(running)
        if self._cancelled.is_set():
            running.cancel()

    def _forget(self, running: Any) -> None:
        with self._lock:
            self._under_way.discard(running)

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        with self._lock:
            self._watchers.append(callback)
        self._channel.subscribe(callback, bool(try_to_connect))
        if self._cancelled.is_set():  # break_off may have looked before
            callback(grpc.ChannelConnectivity.READY)

    def unsubscribe(self, callback: Any) -> None:
        with self._lock:
            if callback in self._watchers:
                self._watchers.remove(callback)
        self._channel.unsubscribe(callback)

    def stream_unary(self, *args: Any, **options: Any) -> Any:
        return self._channel.stream_unary(*args, **options)

    def close(self) -> None:
        """The connection is shared: only what this caller has under way ends."""
        self.break_off()

    def __enter__(self) -> BreakableChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
