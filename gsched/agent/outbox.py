"""What goes up to the master: the stream of the session that there is, and the heartbeat where nothing else goes.

Keeps nothing for a later session: what matters is in the journal, and the next hello tells it again. Never waits for
the master but where its caller asks for that.
"""

from __future__ import annotations

import asyncio
from typing import Any

from gsched.wire.messages.stream_batches import next_batch
from gsched.wire.v1 import agent_pb2

Stream = asyncio.Queue[agent_pb2.AgentMessage]
"""The messages of one session that have not left yet."""


class Outbox:
    """Messages of one agent to the master, in order. `quiet_s`: seconds of silence before a heartbeat is sent."""

    def __init__(self, quiet_s: float) -> None:
        self.quiet_s = quiet_s
        self._stream: Stream | None = None
        self._has_spoken = False
        """Since the last turn of the heartbeat: then none is needed."""

    def open(self, hello: agent_pb2.Hello) -> Stream:
        """From here on news go into a new stream, behind the hello that holds what was known before."""
        stream: Stream = asyncio.Queue()
        self._stream = stream
        stream.put_nowait(agent_pb2.AgentMessage(hello=hello))
        return stream

    def close(self) -> None:
        """The session is over: news are dropped until there is another one."""
        self._stream = None

    def send(self, message: agent_pb2.AgentMessage) -> None:
        """Into the stream, if there is one; what matters is in the journal and told again at the next hello."""
        self._has_spoken = True
        if self._stream is not None:
            self._stream.put_nowait(message)

    async def deliver(self, message: agent_pb2.AgentMessage) -> bool:
        """Returns when it has left: news must not queue up behind it. False: there is no master."""
        stream = self._stream
        if stream is None:
            return False
        stream.put_nowait(message)
        await stream.join()
        return True

    async def write(self, call: Any, stream: Stream) -> None:
        """Write the stream into its call, in batches, until the call breaks."""
        while True:
            batch = await next_batch(stream)
            await call.write(agent_pb2.AgentBatch(messages=batch))
            for _ in batch:
                stream.task_done()

    async def beat(self) -> None:
        """Show that this loop goes round, also when there is nothing to report."""
        while True:
            self._has_spoken = False
            await asyncio.sleep(self.quiet_s)
            if not self._has_spoken:
                self.send(agent_pb2.AgentMessage(heartbeat=agent_pb2.Heartbeat()))
