"""The master's side of the reading process: started when it is first needed, and again when it has ended.

It passes questions and answers on, a page at a time, and keeps nothing of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import grpc.aio

from gsched.base.errors import Unavailable
from gsched.master.past.reading import AWAY
from gsched.wire.calls.call_failure import error_from_rpc
from gsched.wire.channel import CHANNEL_OPTIONS
from gsched.wire.v1 import catalogue_pb2_grpc, past_pb2_grpc

log = logging.getLogger(__name__)
SOCKET = "past.sock"
START_S = 60.0
"""How long a process that has been started may take before it listens: a busy machine takes its time."""
END_S = 5.0
LOOK_S = 0.1


class PastReader:
    """The process that reads `store`, and a connection to it on a socket in `folder`. For the gRPC loop alone."""

    def __init__(self, store: str, folder: str) -> None:
        self._store = store
        self._socket = str(Path(folder) / SOCKET)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: grpc.aio.Channel | None = None
        self._starting = asyncio.Lock()

    def histories(self, request: Any) -> AsyncIterator[Any]:
        """Replies to Past.Histories."""
        return self._answers(lambda channel: past_pb2_grpc.PastStub(channel).Histories, request)

    def gpu_sums(self, request: Any) -> AsyncIterator[Any]:
        """Replies to Past.GpuUseSums."""
        return self._answers(lambda channel: past_pb2_grpc.PastStub(channel).GpuUseSums, request)

    def accounts(self, request: Any) -> AsyncIterator[Any]:
        """Replies to Catalogue.Accounts."""
        return self._answers(lambda channel: catalogue_pb2_grpc.CatalogueStub(channel).Accounts, request)

    def at(self, request: Any) -> AsyncIterator[Any]:
        """Replies to Past.At."""
        return self._answers(lambda channel: past_pb2_grpc.PastStub(channel).At, request)

    async def close(self, grace_s: float | None = None) -> None:
        """End the process. Questions under way have so many seconds to end; none: they are cancelled."""
        if self._channel is not None:
            await self._channel.close(grace_s)
        if self._process is not None:
            await asyncio.to_thread(_end, self._process)
        self._process = self._channel = None

    async def _answers(self, method: Callable[[grpc.aio.Channel], Any], request: Any) -> AsyncIterator[Any]:
        """Raises GschedError: what the process says, or Unavailable when it has ended in the middle.

        A process that dies is asked again until it is known to be dead, and then the next one: the call itself waits
        for nobody, since it would wait for a dead process for ever.
        """
        deadline = time.monotonic() + START_S
        while True:
            channel = await self._connected()
            is_begun = False
            call = method(channel)(request)
            try:
                async for reply in call:
                    is_begun = True
                    yield reply
                return
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise error_from_rpc(error) from None
                log.warning("the process that reads histories broke off: %s", error.details())
                if is_begun or time.monotonic() > deadline:
                    raise Unavailable("the process that reads histories has ended; ask again") from None
            finally:
                call.cancel()
            await asyncio.sleep(LOOK_S)

    async def _connected(self) -> grpc.aio.Channel:
        async with self._starting:
            if self._process is not None and self._process.poll() is not None:
                log.error("the process that reads histories ended with code %s", self._process.returncode)
                await self.close(END_S)  # who still asks the dead one is told so by the connection
            if self._channel is None:
                # A fork of a large process takes a moment; nobody else is to wait for it.
                self._process = await asyncio.to_thread(self._start)
                channel = grpc.aio.insecure_channel(f"unix:{quote(self._socket)}", options=CHANNEL_OPTIONS)
                await self._until_ready(channel, self._process)
                self._channel = channel
            return self._channel

    def _start(self) -> subprocess.Popen[bytes]:
        with contextlib.suppress(FileNotFoundError):
            Path(self._socket).unlink()
        words = [sys.executable, "-P", "-m", "gsched.master.past.reading", self._store, self._socket]
        # Its standard input ends with this process, however that ends. In a session of its own it can step back behind
        # programs of other sessions, too.
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)

    async def _until_ready(self, channel: grpc.aio.Channel, process: subprocess.Popen[bytes]) -> None:
        """Raises Unavailable when the process ends before it listens, or takes too long."""
        ready, deadline = asyncio.ensure_future(channel.channel_ready()), time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < deadline:
            await asyncio.wait((ready,), timeout=LOOK_S)  # it may end instead of listening: nothing else tells of both
            if ready.done():
                return
        ready.cancel()
        await channel.close()
        await asyncio.to_thread(_end, process)
        if process.returncode == AWAY:
            raise Unavailable("the store cannot be read now; try again later")
        raise Unavailable("the process that reads histories does not start; the master's log says why")


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
    process.kill()
    process.wait()
