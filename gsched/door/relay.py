"""The door's relay: carries calls of this host's users on to the master, each under the name of who connected.

For what a command cannot do in the door: terminals, programs of the caller's, and Python programs. One connection is
one call (see wire.calls.door_relay). One thread serves all of them, and a caller who is slow, silent or gone costs the
others nothing. It never looks into a message, and never carries a call that is an agent's to make.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
from collections import Counter
from typing import Any, NamedTuple

import grpc
import grpc.aio

from gsched.base.errors import GschedError
from gsched.door import address
from gsched.door.address import Listener
from gsched.door.complaints import Complaints
from gsched.wire.calls.door_relay import (
    DONE,
    END,
    OPEN,
    PIECE,
    PROGRAM_KEY,
    PROGRAMS,
    STATUS,
    VERSION,
    ending,
    in_frames,
)
from gsched.wire.channel import MESSAGE_LIMIT
from gsched.wire.identity.identity_assertion import LOOK_S, IdentityAssertion
from gsched.wire.identity.socket_peer import peer_of
from gsched.wire.messages.frames import HEADER, MAX_FRAME, ProtocolError, frame
from gsched.wire.stream_end import end_stream

log = logging.getLogger(__name__)
SERVICES = (
    *("Scheduler", "Administration", "Waiting", "JobServices", "Catalogue", "Terminal", "Fleet", "Past"),
    "JobTables",
)
"""What users may call; agents' services are not among them, and the master refuses those to users as well."""
_METHOD = re.compile(rf"/gsched\.wire\.v1\.({'|'.join(SERVICES)})/[A-Z][A-Za-z]{{1,60}}")
MOST = 1024
MOST_PER_USER = 128
"""Calls under way; a person's terminal takes four."""
MOST_BYTES_PER_USER = 2 * MESSAGE_LIMIT
"""Of requests that are not complete yet."""
OPENING_S = 10.0
LONGEST_S = 1e6
CLOSE_S = 3.0
"""How long what was said last may wait to be taken; less than `CallRelay.close` waits for all of them."""


class RelayRefused(Exception):
    """The call is not carried on. Arguments: gRPC's status and one line."""


class RelayOpening(NamedTuple):
    """The call that a process asks the relay for."""

    method: str
    timeout_s: float | None
    waits: bool
    program: str = ""


class CallRelay:
    """Serves one socket until `close`, in a thread of its own."""

    def __init__(self, listener: Listener, assertion: IdentityAssertion) -> None:
        self._listener = listener
        self._assertion = assertion
        self._calls: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self._complaints = Complaints(log)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def close(self) -> None:
        """End: calls under way are cancelled, the socket is removed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5.0)
        self._listener.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except Exception:
            log.exception("the relay ends")

    async def _serve(self) -> None:
        self._listener.socket.setblocking(False)
        server = await asyncio.start_unix_server(self._take, sock=self._listener.socket, limit=MAX_FRAME)
        looking = asyncio.create_task(self._look())
        await self._stop.wait()
        looking.cancel()
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _look(self) -> None:
        """Whether the master that calls go on with has been revoked meanwhile, the commands' of the door too."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._assertion.look()
            await self._assertion.aio_look()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from its beginning to its end."""
        uid = peer_of(writer.get_extra_info("socket")).uid
        said = b""
        try:
            if self._calls.total() >= MOST or self._calls[uid] >= MOST_PER_USER:
                raise RelayRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, "the door carries as many calls as it can")
            self._calls[uid] += 1
            try:
                said = await self._carry(uid, reader, writer)
            finally:
                self._calls[uid] -= 1
                self._calls += Counter()  # forget those who have none
        except RelayRefused as refused:
            said = ending(refused.args[0].value[0], refused.args[1])
        except (ProtocolError, UnicodeDecodeError, ValueError) as problem:
            self._complaints.say(uid, f"sent to the relay: {problem}")
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the caller went away
        except asyncio.CancelledError:
            said = ending(grpc.StatusCode.UNAVAILABLE.value[0], "the door is closing")
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                if said:
                    writer.write(frame(STATUS, said))
                await end_stream(writer, CLOSE_S)

    async def _carry(self, uid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """The call; returns how it ended."""
        async with asyncio.timeout(OPENING_S):
            first = await _next_frame(reader)
        opening = read_opening(first)
        try:
            said = ((PROGRAM_KEY, opening.program),) if opening.program else ()
            metadata = self._assertion.metadata_of(uid) + said
            channel = await self._assertion.aio_channel()
        except GschedError as error:
            raise RelayRefused(grpc.StatusCode[error.status], error.text) from None
        begin: Any = channel.stream_stream(opening.method)
        waits = opening.waits and self._assertion.aio_may_wait
        call = begin(metadata=metadata, timeout=opening.timeout_s, wait_for_ready=waits)
        broken = asyncio.Event()
        upwards = asyncio.create_task(self._send_on(uid, reader, call, broken))
        try:
            await _bring_back(call, writer)
            if self._stop.is_set():
                raise RelayRefused(grpc.StatusCode.UNAVAILABLE, "the door is closing")
            code = await call.code()
            if code is grpc.StatusCode.INTERNAL and broken.is_set():
                # gRPC calls it an internal error that it could not send a message: the master has not had all of it.
                raise RelayRefused(grpc.StatusCode.UNAVAILABLE, "the connection to the master broke")
            if code is grpc.StatusCode.UNAVAILABLE:
                self._assertion.aio_failed(channel)
            besides = [(str(key), str(value)) for key, value in await call.trailing_metadata() or ()]
            return ending(code.value[0], str(await call.details() or ""), besides)
        finally:
            call.cancel()
            upwards.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await upwards

    async def _send_on(self, uid: int, reader: asyncio.StreamReader, call: Any, broken: asyncio.Event) -> None:
        """Messages of the process to the master; when the process goes away, the call is cancelled. `broken` is set
        where one could not be sent.
        """
        held = 0
        parts: list[bytes] = []
        try:
            while True:
                kind, payload = await _next_frame(reader)
                if kind == PIECE:
                    parts.append(payload)
                    held += len(payload)
                    self._bytes[uid] += len(payload)
                    if held > MESSAGE_LIMIT or self._bytes[uid] > MOST_BYTES_PER_USER:
                        self._complaints.say(uid, "sends requests that are too large")
                        return
                elif kind == END:
                    await _write(call, b"".join(parts), broken)
                    self._bytes[uid] -= held
                    held, parts = 0, []
                elif kind == DONE:
                    await call.done_writing()
                else:
                    raise ProtocolError(f"a frame {kind!r} in the middle of a call")
        except (OSError, asyncio.IncompleteReadError, asyncio.InvalidStateError, grpc.RpcError, ProtocolError):
            pass  # gone, or the call is over
        finally:
            self._bytes[uid] -= held
            self._bytes += Counter()
            call.cancel()


async def _write(call: Any, message: bytes, broken: asyncio.Event) -> None:
    """Raises what tells that the call is over: grpc.aio.AioRpcError, asyncio.InvalidStateError."""
    await call.wait_for_connection()  # from here on `write` has no error of the master's to raise
    try:
        await call.write(message)
    except grpc.aio.AioRpcError:
        broken.set()
        raise


async def _bring_back(call: Any, writer: asyncio.StreamWriter) -> None:
    """Answers of the master to the process, no faster than it takes them, until there are no more."""
    try:
        while (message := await call.read()) is not grpc.aio.EOF:
            writer.write(in_frames(message))
            await writer.drain()
    except (grpc.RpcError, asyncio.CancelledError):
        if not call.done():  # it is this task that is cancelled
            raise


async def _next_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Raises asyncio.IncompleteReadError when the process is gone, ProtocolError."""
    header = await reader.readexactly(HEADER)
    length = int.from_bytes(header[1:], "big")
    if length > MAX_FRAME:
        raise ProtocolError(f"a frame of {length} bytes")
    return header[:1], await reader.readexactly(length)


def read_opening(found: tuple[bytes, bytes]) -> RelayOpening:
    """What OPEN says. Raises Refused, ProtocolError, ValueError."""
    kind, payload = found
    words = payload.decode("ascii").split("\0") if kind == OPEN else []
    if len(words) not in (4, 5):
        raise ProtocolError("something else than the opening of a call")
    version, method, timeout, waits = words[:4]
    program = words[4] if len(words) > 4 else ""
    if program and program not in PROGRAMS:
        raise ProtocolError("a program that is none")
    if version != VERSION:
        raise RelayRefused(
            grpc.StatusCode.FAILED_PRECONDITION, f"the door is of another version ({VERSION}): restart it"
        )
    if not _METHOD.fullmatch(method):
        raise RelayRefused(grpc.StatusCode.PERMISSION_DENIED, "the door does not carry such a call")
    timeout_s = float(timeout) if timeout else None
    if timeout_s is not None and not 0 <= timeout_s <= LONGEST_S:
        raise ProtocolError("a time limit that is none")
    return RelayOpening(method, timeout_s, waits == "1", program)


def open_relay(path: str, assertion: IdentityAssertion) -> CallRelay:
    """The relay at this path, begun. Raises GschedError when the socket cannot be opened."""
    relay = CallRelay(address.listen(path, others=True), assertion)
    relay.start()
    return relay
