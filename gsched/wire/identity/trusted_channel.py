"""A connection to the master of a shared cluster that many calls share, opened anew when what is trusted has changed.

Calls of many threads go on TrustedChannel, those of one event loop on what AioConnection gives. Which certificates
count is master_trust's to know. Must never leave a call on a connection to a master that has been revoked.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
import grpc.aio

from gsched.base.errors import GschedError, Unavailable
from gsched.wire.calls.door_relay import RelayedError
from gsched.wire.channel import CHANNEL_OPTIONS
from gsched.wire.identity.master_trust import Trust

_AWAY = grpc.StatusCode.UNAVAILABLE
LOOK_S = 2.0
"""How often a channel that looks by itself does."""


class _Opened(NamedTuple):
    channel: Any
    stamp: tuple[int, ...]
    revoked_stamp: tuple[int, ...]
    is_pinned: bool


class TrustedChannel(grpc.Channel):
    """Calls to the master at HOST:PORT, or to whichever leads of HOST:PORT,HOST:PORT. For any thread; each call finds
    out what is trusted then. `options`: gRPC's.
    """

    def __init__(self, trust: Trust, address: str, options: tuple[tuple[str, int], ...] = CHANNEL_OPTIONS) -> None:
        self._trust = trust
        self._address = address
        self._options = options
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._failure: tuple[float, GschedError] | None = None
        self._watching: dict[Any, grpc.Channel] = {}

    def look_by_itself(self) -> None:
        """From now on, in a thread of its own: for a program that nobody else tells of a list that has changed."""
        threading.Thread(target=_look_again_and_again, args=(weakref.ref(self),), daemon=True).start()

    def opened(self) -> _Opened:
        """The connection as it counts now. Raises BadCertificate, Unavailable, PermissionDenied."""
        asked_at = time.monotonic()
        with self._lock:
            stamp = self._trust.stamp()
            found = self._opened
            if found is not None and found.stamp == stamp:
                return found
            self._look()
            if self._failure is not None and self._failure[0] >= asked_at:
                raise self._failure[1]  # of somebody who asked meanwhile: not one after another
            try:
                found = self._opened = self._open()
            except GschedError as error:
                self._failure = time.monotonic(), error
                raise
            return found

    def look(self) -> None:
        """End the calls under way if the list of revoked certificates has changed: they ask again."""
        with self._lock:
            self._look()

    def failed(self, channel: grpc.Channel) -> None:
        """A call found nobody there: it may be that the master shows another certificate now."""
        with self._lock:
            if self._opened is not None and self._opened.channel is channel and self._opened.is_pinned:
                self._opened = None

    def _look(self) -> None:
        found = self._opened
        if found is not None and found.revoked_stamp != self._trust.revoked_stamp():
            self._opened = None
            found.channel.close()

    def _open(self) -> _Opened:
        stamps = self._trust.stamp(), self._trust.revoked_stamp()
        address, credentials, is_pinned = self._trust.believed(self._address)
        return _Opened(grpc.secure_channel(address, credentials, options=self._options), *stamps, is_pinned)

    # -- as a channel -------------------------------------------------------------------------------------------------

    def unary_unary(self, method: str, *codecs: Any, **options: Any) -> Any:
        """A method with one request and one answer."""
        return _Method(self, lambda channel: channel.unary_unary(method, *codecs, **options))

    def unary_stream(self, method: str, *codecs: Any, **options: Any) -> Any:
        """A method with one request and a stream of answers."""
        return _Method(self, lambda channel: channel.unary_stream(method, *codecs, **options))

    def stream_stream(self, method: str, *codecs: Any, **options: Any) -> Any:
        """A method with streams both ways."""
        return _Method(self, lambda channel: channel.stream_stream(method, *codecs, **options))

    def stream_unary(self, method: str, *codecs: Any, **options: Any) -> Any:
        """A method with a stream of requests and one answer."""
        return _Method(self, lambda channel: channel.stream_unary(method, *codecs, **options))

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        """Whether the master answers; on a connection to one certificate alone the next call finds that out."""
        try:
            opened = self.opened()
        except GschedError:
            callback(grpc.ChannelConnectivity.READY)
            return
        if opened.is_pinned:
            callback(grpc.ChannelConnectivity.READY)
            return
        self._watching[callback] = opened.channel
        opened.channel.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        """Nothing more is told."""
        channel = self._watching.pop(callback, None)
        if channel is not None:
            channel.unsubscribe(callback)

    def close(self) -> None:
        """Calls under way end."""
        with self._lock:
            if self._opened is not None:
                self._opened.channel.close()
                self._opened = None

    def __enter__(self) -> TrustedChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _look_again_and_again(of: weakref.ref[TrustedChannel]) -> None:
    while (channel := of()) is not None:
        channel.look()
        del channel
        time.sleep(LOOK_S)


class _Method:
    """A method of whatever connection counts when it is called."""

    def __init__(self, trusted: TrustedChannel, make: Callable[[grpc.Channel], Any]) -> None:
        self._trusted = trusted
        self._make = make

    def __call__(self, request: Any, *, wait_for_ready: bool | None = None, **more: Any) -> Any:
        opened, method = self._prepared()
        # On a connection to one certificate nobody waits: the master may come back with another one.
        waits = None if opened.is_pinned else wait_for_ready
        try:
            call = method(request, wait_for_ready=waits, **more)
        except grpc.RpcError as error:
            self._note(opened, error)
            raise
        except ValueError as problem:
            raise RelayedError(_AWAY, str(problem)) from None  # closed by another thread, that very moment
        if opened.is_pinned and isinstance(call, grpc.RpcContext):
            is_to_come = call.add_callback(lambda: self._note(opened, call))
            if not is_to_come:  # it has ended already
                self._note(opened, call)
        return call

    def future(self, request: Any, *, wait_for_ready: bool | None = None, **more: Any) -> Any:
        """A call that is waited for later."""
        opened, method = self._prepared()
        call = method.future(request, wait_for_ready=None if opened.is_pinned else wait_for_ready, **more)
        call.add_done_callback(lambda ended: self._note(opened, ended))
        return call

    def _prepared(self) -> tuple[_Opened, Any]:
        try:
            opened = self._trusted.opened()
            return opened, self._make(opened.channel)
        except Unavailable as error:
            raise RelayedError(_AWAY, error.text) from None
        except ValueError as problem:
            raise RelayedError(_AWAY, str(problem)) from None

    def _note(self, opened: _Opened, ended: Any) -> None:
        if opened.is_pinned and ended.code() is _AWAY:
            self._trusted.failed(opened.channel)


class AioConnection:
    """The same for the calls of one event loop, which carry their own way of waiting."""

    def __init__(self, trust: Trust, address: str) -> None:
        self._trust = trust
        self._address = address
        self._lock = asyncio.Lock()
        self._opened: _Opened | None = None
        self._failure: tuple[float, GschedError] | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether the last connection is good for one certificate alone: no call must wait on it."""
        return self._opened is not None and self._opened.is_pinned

    async def channel(self) -> grpc.aio.Channel:
        """The connection as it counts now. Raises BadCertificate, Unavailable, PermissionDenied."""
        asked_at = time.monotonic()
        async with self._lock:
            if self._opened is None or self._opened.stamp != self._trust.stamp():
                await self.look()
                if self._failure is not None and self._failure[0] >= asked_at:
                    raise self._failure[1]
                try:
                    self._opened = await self._open()
                except GschedError as error:
                    self._failure = time.monotonic(), error
                    raise
            opened: grpc.aio.Channel = self._opened.channel
            return opened

    async def look(self) -> None:
        """End the calls under way if the list of revoked certificates has changed: they ask again."""
        found = self._opened
        if found is not None and found.revoked_stamp != self._trust.revoked_stamp():
            self._opened = None
            await found.channel.close()

    def failed(self, channel: grpc.aio.Channel) -> None:
        """A call found nobody there: it may be that the master shows another certificate now."""
        if self._opened is not None and self._opened.channel is channel and self._opened.is_pinned:
            self._opened = None

    async def _open(self) -> _Opened:
        stamps = self._trust.stamp(), self._trust.revoked_stamp()
        address, credentials, is_pinned = await asyncio.to_thread(self._trust.believed, self._address)
        return _Opened(grpc.aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS), *stamps, is_pinned)
