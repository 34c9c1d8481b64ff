"""Questions about tasks, passed on from the agent of one of a job's hosts to that of another, and the answers back.

The master knows which hosts a job has, so it is the one to say whether a question may go there; beyond that it keeps
nothing but what is under way, and of that only so much for each host. A question that is lost is asked again.

Lives in the gRPC loop's thread. Never passes a question on to a host that is not in the attempt's allocation, nor one
from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine

from gsched.base.ids import show_job
from gsched.master.views.board import Board
from gsched.model.jobs.job import FINISHED
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)

ANSWER_S = 12.0
"""Beyond what a question itself waits for."""
MOST_WAIT_S = 20.0
MOST = 4096
"""Questions of one host that are under way."""
MOST_BYTES = 32 << 20
"""What the questions of one host that are under way carry, to and fro."""
MOST_BYTES_OF_ALL = 256 << 20
"""The same of all hosts."""
GONE = agent_pb2.TaskReply(later=True, error="its agent is not connected")

Post = Callable[[str, agent_pb2.MasterMessage], bool]


class TaskRelay:
    """`post(host, message)` puts a message into the stream of a host's agent; False when it is not connected."""

    def __init__(self, board: Board, post: Post) -> None:
        self._board = board
        self._post = post
        self._last = 0
        self._waiting: dict[int, tuple[str, asyncio.Future[agent_pb2.TaskReply]]] = {}
        self._under_way: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._works: set[asyncio.Task[None]] = set()

    def asked(self, host: str, ask: agent_pb2.TaskAsk) -> None:
        """The agent of `host` asks."""
        size = ask.ByteSize() + 2 * max(ask.read.most, 0)
        of_all = self._bytes.total() + size
        if self._under_way[host] >= MOST or self._bytes[host] + size > MOST_BYTES or of_all > MOST_BYTES_OF_ALL:
            self._reply(host, ask.request, agent_pb2.TaskReply(later=True, error="too much is under way"))
            return
        self._under_way[host] += 1
        self._bytes[host] += size
        self._begin(self._pass_on(host, ask, size))

    def answered(self, host: str, reply: agent_pb2.TaskReply) -> None:
        """The agent of `host` answers."""
        asked, waiting = self._waiting.get(reply.request, ("", None))
        if waiting is not None and asked == host and not waiting.done():
            waiting.set_result(reply)

    def gone(self, host: str) -> None:
        """The agent of `host` is not connected any more."""
        for asked, waiting in self._waiting.values():
            if asked == host and not waiting.done():
                waiting.set_result(GONE)

    async def _pass_on(self, host: str, ask: agent_pb2.TaskAsk, size: int) -> None:
        try:
            refusal = self._refusal(host, ask)
            reply = agent_pb2.TaskReply(error=refusal) if refusal else await self._answer(host, ask)
            self._reply(host, ask.request, reply)
        finally:
            for counts, amount in ((self._under_way, 1), (self._bytes, size)):
                counts[host] -= amount
                if not counts[host]:
                    del counts[host]

    def _refusal(self, host: str, ask: agent_pb2.TaskAsk) -> str:
        """Why the question may not be passed on; empty when it may."""
        job = self._board.job(ask.job_id)
        if job is None or job.allocation is None or job.state in FINISHED or job.attempt != ask.attempt:
            return f"job <{show_job(ask.job_id)}> does not run any more"
        hosts = {part.host for part in job.allocation.hosts}
        if host not in hosts:
            log.warning("the agent of %s asks for a task of job %s, which is not there", host, show_job(ask.job_id))
        missing = next((each for each in (host, ask.host) if each not in hosts), "")
        return f"job <{show_job(ask.job_id)}> does not have host {missing}" if missing else ""

    async def _answer(self, host: str, ask: agent_pb2.TaskAsk) -> agent_pb2.TaskReply:
        """What the agent of the task's host says."""
        self._last += 1
        number = self._last
        passed = agent_pb2.TaskAsk()
        passed.CopyFrom(ask)
        passed.request, passed.from_host = number, host
        waiting: asyncio.Future[agent_pb2.TaskReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (ask.host, waiting)
        try:
            if not self._post(ask.host, agent_pb2.MasterMessage(task_ask=passed)):
                return GONE
            async with asyncio.timeout(ANSWER_S + min(max(ask.read.wait_s, 0.0), MOST_WAIT_S)):
                return await waiting
        except TimeoutError:
            return agent_pb2.TaskReply(later=True, error=f"no answer from {ask.host}")
        finally:
            del self._waiting[number]

    def _reply(self, host: str, request: int, reply: agent_pb2.TaskReply) -> None:
        told = agent_pb2.TaskReply()
        told.CopyFrom(reply)
        told.request = request
        self._post(host, agent_pb2.MasterMessage(task_reply=told))

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)
