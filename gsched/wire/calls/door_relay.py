"""Calls to the master through the door of this host, for processes that have no way of their own to a shared cluster.

The door's relay takes one call per connection and carries it on under the name of the user who connected, which it has
from the kernel: so a process needs no secret, and can speak for nobody but its user. All pieces are frames.

    process: OPEN                       version, method, seconds it may take, whether to wait for the master, and
                                        which of PROGRAMS it is, if it says so
    process: PIECE ... END, ..., DONE   messages, each in pieces; after the last one DONE
    door:    PIECE ... END, ...         answers
    door:    STATUS                     how it ended: gRPC's number of it, the text, what the master says besides

Closing the connection cancels the call. A RelayChannel is for many threads; it keeps nothing between calls.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from gsched.wire.calls.call_failure import DOOR_OF_THIS_HOST
from gsched.wire.identity.socket_peer import peer_of
from gsched.wire.messages.frames import MAX_FRAME, Decoder, ProtocolError, frame

VERSION = "gsched-relay 1"
OPEN, PIECE, END, DONE, STATUS = b"O", b"P", b"Z", b"D", b"S"
SOCKET_NAME = "relay.sock"
"""Beside the door's own."""
CONNECT_S = 5.0
LATE_S = 2.0
"""How much later than asked for this side gives a call up: the door says it first."""
PROGRAM_KEY = "gsched-program"
"""Metadata in which the relay passes on what a process says that it is."""
WEB = "web"
PROGRAMS = frozenset({WEB})
_RECEIVE = 1 << 18
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def opening(method: str, timeout_s: float | None, waits: bool, program: str = "") -> bytes:
    """The payload of OPEN."""
    words = [VERSION, method, "" if timeout_s is None else f"{timeout_s:.3f}", "01"[waits]]
    return "\0".join([*words, program] if program else words).encode()


def ending(code: int, text: str, besides: Iterable[tuple[str, str]] = ()) -> bytes:
    """The payload of STATUS."""
    words = [word for pair in besides for word in pair]
    return "\0".join((str(code), text.replace("\0", " "), *words)).encode("utf-8", "replace")


def in_frames(message: bytes) -> bytes:
    """A message as frames."""
    pieces = [frame(PIECE, message[start : start + MAX_FRAME]) for start in range(0, len(message), MAX_FRAME)]
    return b"".join([*pieces, frame(END)])


class RelayedError(grpc.RpcError):
    """A call that failed, as gRPC itself would say it."""

    def __init__(self, code: grpc.StatusCode, text: str, besides: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(f"{code.name}: {text}")
        self._code, self._text, self._besides = code, text, besides

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._text

    def trailing_metadata(self) -> Any:
        return self._besides


class DoorAway(RelayedError):
    """Nobody answers at the door: whether the master would is not known."""

    silent = DOOR_OF_THIS_HOST

    def __init__(self, text: str, tried: str = "") -> None:
        super().__init__(grpc.StatusCode.UNAVAILABLE, text)
        self.tried = tried


class RelayChannel(grpc.Channel):
    """The way through the relay at `path`. `trusts_any`: root has named it, so it may belong to any user. `tried`:
    which other way has failed; said where nobody answers here either. `program`: which of PROGRAMS this is, for the
    audit log.
    """

    def __init__(self, path: str, *, trusts_any: bool = False, tried: str = "", program: str = "") -> None:
        self._program = program
        self._path = path
        self._trusts_any = trusts_any
        self._tried = tried

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Any:
        """A method with one request and one answer."""
        return _Unary(self._call_of(method, request_serializer, response_deserializer))

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Any:
        """A method with one request and a stream of answers."""
        make = self._call_of(method, request_serializer, response_deserializer)

        def answers(request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> RelayedCall:
            call = make(timeout, bool(wait_for_ready))
            call.send_all([request])
            return call

        return answers

    def stream_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Any:
        """A method with streams both ways; another thread sends."""
        make = self._call_of(method, request_serializer, response_deserializer)

        def answers(requests: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> RelayedCall:
            call = make(timeout, bool(wait_for_ready))
            threading.Thread(target=call.send_all, args=(requests,), name="gsched-relay", daemon=True).start()
            return call

        return answers

    def stream_unary(self, *_: Any, **__: Any) -> Any:
        """No service has such a method."""
        raise AssertionError("no service has such a method")

    def _call_of(self, method: str, write: Any, read: Any) -> Callable[[float | None, bool], RelayedCall]:
        return lambda timeout, waits: RelayedCall(
            lambda: connect(self._path, trusts_any=self._trusts_any, tried=self._tried),
            method,
            write,
            read,
            timeout,
            waits,
            self._program,
        )

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        """Whether the master answers is seen by the next call alone."""
        callback(grpc.ChannelConnectivity.READY)

    def unsubscribe(self, callback: Any) -> None:
        """There is nothing more to be told."""

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def __enter__(self) -> RelayChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def why_dead(path: str) -> str:
    """Why nobody answers at the relay's socket, found out without waiting; empty where somebody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(path)
        except BlockingIOError:  # many are waiting there
            return ""
        except OSError as problem:
            return problem.strerror or str(problem)
    return ""


def connect(path: str, *, trusts_any: bool, tried: str = "") -> socket.socket:
    """A connection to the relay. Raises DoorAway when there is none, RelayedError when it is not to be trusted."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S)
        connection.connect(path)
        uid = peer_of(connection).uid
    except OSError as problem:
        connection.close()
        text = f"{DOOR_OF_THIS_HOST} does not answer ({path}: {problem.strerror or problem})"
        raise DoorAway(text, tried) from None
    if uid not in (0, os.geteuid()) and not trusts_any:
        connection.close()
        raise RelayedError(grpc.StatusCode.PERMISSION_DENIED, f"{path} belongs to uid {uid}: it is not trusted")
    connection.settimeout(None)
    return connection


class RelayedCall:
    """One call. One thread iterates; any may cancel."""

    def __init__(
        self,
        connecting: Callable[[], socket.socket],
        method: str,
        write: Callable[[Any], bytes],
        read: Callable[[bytes], Any],
        timeout_s: float | None,
        waits: bool,
        program: str = "",
    ) -> None:
        self._write, self._read = write, read
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s + LATE_S
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._decoder = Decoder()
        self._frames: deque[tuple[bytes, bytes]] = deque()
        self._error: RelayedError | None = None
        self._is_over = False
        self._is_cancelled = False
        self._connection: socket.socket | None = None
        try:
            self._connection = connecting()
        except RelayedError as error:
            self._error = error
        except OSError:
            self._error = _broken()
        self._send(frame(OPEN, opening(method, timeout_s, waits, program)))

    def send_all(self, requests: Iterable[Any]) -> None:
        """Send the messages; what cannot be sent the answer will explain."""
        for request in requests:
            self._send(in_frames(self._write(request)))
        self._send(frame(DONE))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        parts: list[bytes] = []
        while True:
            kind, payload = self._next_frame()
            if kind == PIECE:
                parts.append(payload)
            elif kind == END:
                return self._read(b"".join(parts))
            elif kind == STATUS:
                error = _error_of(payload)
                self._end(error)
                if error is not None:
                    raise error
                raise StopIteration

    def cancel(self) -> bool:
        """Break the call off, from any thread."""
        with self._lock:
            if self._is_over:
                return False
            self._is_cancelled = True
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
        return True

    def cancelled(self) -> bool:
        """Whether it was broken off."""
        return self._is_cancelled

    def add_callback(self, callback: Callable[[], object]) -> bool:
        """Have it called at the end; False when that has come already."""
        with self._lock:
            if not self._is_over:
                self._callbacks.append(callback)
            return not self._is_over

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()

    def _send(self, data: bytes) -> None:
        if self._connection is not None and self._error is None:
            with contextlib.suppress(OSError):
                self._connection.sendall(data)

    def _next_frame(self) -> tuple[bytes, bytes]:
        while not self._frames:
            data = self._receive()
            try:
                self._frames.extend(self._decoder.feed(data))
            except ProtocolError:
                data = b""
            if not data:
                self._fail(_broken())
        return self._frames.popleft()

    def _receive(self) -> bytes:
        if self._error is not None or self._connection is None:
            self._fail(self._error or _broken())
            return b""
        try:
            if self._deadline is not None:
                self._connection.settimeout(max(0.001, self._deadline - time.monotonic()))
            return self._connection.recv(_RECEIVE)
        except TimeoutError:
            self._fail(RelayedError(grpc.StatusCode.DEADLINE_EXCEEDED, "the door did not answer in time"))
        except OSError:
            pass
        return b""

    def _fail(self, error: RelayedError) -> None:
        if self._is_cancelled:
            error = RelayedError(grpc.StatusCode.CANCELLED, "the call was cancelled")
        self._end(error)
        raise error

    def _end(self, error: RelayedError | None) -> None:
        with self._lock:
            self._error = self._error or error or _broken()
            callbacks = [] if self._is_over else self._callbacks
            self._is_over, self._callbacks = True, []
        if self._connection is not None:
            self._connection.close()
        for callback in callbacks:
            callback()


class _Unary:
    """A method with one answer; a future does its work in the thread that wants the result."""

    def __init__(self, make: Callable[[float | None, bool], RelayedCall]) -> None:
        self._make = make

    def __call__(self, request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> Any:
        return self.future(request, timeout, wait_for_ready).answer()

    def future(self, request: Any, timeout: float | None = None, wait_for_ready: bool | None = None) -> _Answer:
        return _Answer(self._make(timeout, bool(wait_for_ready)), request)


class _Answer:
    """A call with one answer, under way."""

    def __init__(self, call: RelayedCall, request: Any) -> None:
        self._call = call
        self._request = request
        self.cancel = call.cancel
        self.add_callback = call.add_callback

    def answer(self) -> Any:
        """The answer. Raises grpc.RpcError."""
        self._call.send_all([self._request])
        found = list(self._call)
        if len(found) != 1:
            raise RelayedError(grpc.StatusCode.INTERNAL, f"{len(found)} answers where there should be one")
        return found[0]

    def result(self) -> Any:
        """The same; a call that was broken off raises grpc.FutureCancelledError."""
        try:
            return self.answer()
        except grpc.RpcError:
            if self._call.cancelled():
                raise grpc.FutureCancelledError from None
            raise


def _broken() -> RelayedError:
    return DoorAway("the door closed the connection")


def _error_of(payload: bytes) -> RelayedError | None:
    """What STATUS says; None when all went well."""
    number, _, rest = payload.decode("utf-8", "replace").partition("\0")
    text, *besides = rest.split("\0")
    code = _CODES.get(int(number) if number.isdigit() else -1, grpc.StatusCode.UNKNOWN)
    if code is grpc.StatusCode.OK:
        return None
    return RelayedError(code, text, tuple(zip(besides[::2], besides[1::2], strict=False)))
