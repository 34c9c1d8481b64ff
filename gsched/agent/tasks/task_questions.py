"""Questions about tasks, asked until they are answered: on this host at once, on others by way of the master.

Any of them may be asked again, so a master that restarts or a line that is cut for a while is waited for, and nothing
of it is seen but the delay. Nothing outlives the agent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from gsched.wire.v1 import agent_pb2

ANSWER_S = 15.0
"""Beyond what a question itself waits for: then it is asked again."""
AGAIN_S = 0.1
AGAIN_MOST_S = 2.0

AnswerTask = Callable[[agent_pb2.TaskAsk], Awaitable[agent_pb2.TaskReply]]


class TaskQuestions:
    """`answer` answers what is about tasks on this host, `send` puts a message to the master into the stream."""

    def __init__(self, host: str, answer: AnswerTask, send: Callable[[agent_pb2.AgentMessage], None]) -> None:
        self._host = host
        self._answer = answer
        self._send = send
        self._connected = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[agent_pb2.TaskReply]] = {}
        self._last = 0

    def begin(self) -> None:
        """There is a session with the master."""
        self._connected.set()

    def end(self) -> None:
        """The session is over: what was asked in it is asked again in the next one."""
        self._connected.clear()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(agent_pb2.TaskReply(later=True, error="the master went away"))

    def answered(self, reply: agent_pb2.TaskReply) -> None:
        """The master has passed an answer on."""
        waiting = self._waiting.get(reply.request)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    async def ask(self, ask: agent_pb2.TaskAsk, patience_s: float = float("inf")) -> agent_pb2.TaskReply:
        """The answer; one that says why there is none yet is given only after `patience_s`."""
        until = time.monotonic() + patience_s
        pause_s = AGAIN_S
        while True:
            reply = await (self._answer(ask) if ask.host == self._host else self._far(ask, until))
            left = until - time.monotonic()
            if not reply.later or left <= 0:
                return reply
            await asyncio.sleep(min(pause_s, left))  # nothing tells when it can be done
            pause_s = min(pause_s * 2, AGAIN_MOST_S)

    async def _far(self, ask: agent_pb2.TaskAsk, until: float) -> agent_pb2.TaskReply:
        left = until - time.monotonic()
        try:
            async with asyncio.timeout(None if left == float("inf") else max(left, 0.0)):
                await self._connected.wait()
        except TimeoutError:
            return agent_pb2.TaskReply(later=True, error="the master cannot be reached")
        self._last += 1
        sent = agent_pb2.TaskAsk()
        sent.CopyFrom(ask)
        sent.request = number = self._last
        waiting: asyncio.Future[agent_pb2.TaskReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        self._send(agent_pb2.AgentMessage(task_ask=sent))
        try:
            async with asyncio.timeout(ANSWER_S + ask.read.wait_s):  # wait_for may lose a cancellation
                return await waiting
        except TimeoutError:
            return agent_pb2.TaskReply(later=True, error=f"no answer from {ask.host}")
        finally:
            del self._waiting[number]
