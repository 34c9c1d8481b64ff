"""The master's messages, each led to what carries it out; what takes time runs beside the stream.

Decides nothing: who is ordered to do something knows how, and what is unknown here is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from gsched.agent.attempts.host_attempts import Attempts
from gsched.agent.background_tasks import BackgroundTasks
from gsched.agent.master_link import MasterLink
from gsched.agent.notices.notice_delivery import NoticeDelivery
from gsched.agent.outbox import Outbox
from gsched.agent.output import terminal_questions
from gsched.agent.output.output_tail import answer
from gsched.agent.store_memory import StoreMemory
from gsched.agent.tasks.task_questions import TaskQuestions
from gsched.model.gpus.gpu_idle import IdleLimits
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.attempts.control_actions import SuspendReasons
from gsched.run.order import SaveOrder
from gsched.wire.messages.convert import from_proto
from gsched.wire.v1 import agent_pb2

FORGET_AFTER_S = 0.05
"""How long after its end was stored an attempt's files are still there, in seconds."""


class MessageHandler:
    """Carries out the messages of the master, for one agent. `configure` takes over the master's settings; `end` ends
    the agent, as its word says.
    """

    def __init__(  # noqa: PLR0913 - one for each kind of order
        self,
        attempts: Attempts,
        relay: TaskQuestions,
        *,
        link: MasterLink,
        outbox: Outbox,
        background: BackgroundTasks,
        memory: StoreMemory,
        configure: Callable[[agent_pb2.Settings], Awaitable[None]],
        end: Callable[[str], None],
        open_gpu: Callable[[str], Coroutine[Any, Any, None]],
        notices: NoticeDelivery,
    ) -> None:
        self._attempts = attempts
        self._relay = relay
        self._link = link
        self._outbox = outbox
        self._background = background
        self._memory = memory
        self._configure = configure
        self._end = end
        self._open_gpu = open_gpu
        self._notices = notices
        self._replying = asyncio.Lock()

    async def handle(self, message: agent_pb2.MasterMessage) -> None:
        """Carry one message out. What takes time runs beside the stream."""
        kind = str(message.WhichOneof("kind"))
        if kind in ("settings", "start"):
            self._memory.take(getattr(message, kind).store)
        match kind:
            case "settings":
                await self._configure(message.settings)
                self._attempts.services.tell_again()
                self._attempts.removal_news.tell()
            case "store":
                self._memory.take(message.store)
            case "refusal":
                self._link.refused(message.refusal.text)
            case "start":
                # Looks at the GPUs first, which may take a while.
                key = (message.start.job_id, message.start.attempt)
                self._background.beside(self._attempts.start(message.start), key)
            case "terminate" | "warn" | "spare" | "signal" | "suspend" | "resume" | "limit":
                order = getattr(message, kind)
                self._background.beside(self._handle_about(kind, order), (order.job_id, order.attempt))
            case "forget":
                self._background.beside(self._forget([(item.job_id, item.attempt) for item in message.forget.attempts]))
            case "read_output":
                self._background.answer(self._answer_output(message.read_output))
            case "type_input":
                typed = message.type_input
                folder = self._attempts.folder((typed.job_id, typed.attempt))
                self._background.answer(terminal_questions.take_typed(typed, folder, self._send_output))
            case "daemon":
                self._end(message.daemon.action)
            case _:
                self._obey_other(message)

    def _obey_other(self, message: agent_pb2.MasterMessage) -> None:
        match message.WhichOneof("kind"):
            case "open_gpu":
                self._background.beside(self._open_gpu(message.open_gpu.uuid))
            case "judge_idleness":
                told = message.judge_idleness
                self._attempts.gpu_use.judge_by((told.job_id, told.attempt), from_proto(told.limits, IdleLimits))
            case "warn_idle":
                # Mail takes its time: no order about the attempt waits for it.
                key = (message.warn_idle.job_id, message.warn_idle.attempt)
                self._background.beside(self._attempts.idle_warnings.tell(key, message.warn_idle))
            case "send_notice":
                self._notices.order(message.send_notice)
            case "forget_notices":
                self._notices.forget(message.forget_notices.notice_ids)
            case "forget_removed_outputs":
                over = message.forget_removed_outputs.attempts
                self._attempts.removal_news.are_known((item.job_id, item.attempt) for item in over)
            case "task_ask":
                self._background.answer(self._answer_task(message.task_ask))
            case "task_reply":
                self._relay.answered(message.task_reply)
            case "find_service":
                self._background.answer(self._answer_service(message.find_service))
            case "open_service":
                self._background.answer(self._attempts.services.open(message.open_service))

    async def _forget(self, keys: Sequence[AttemptKey]) -> None:
        """What the master has stored goes, a little later: to remove folders takes longer than to begin a start, and
        the master that has heard of an end mostly orders one at once.
        """
        await asyncio.sleep(FORGET_AFTER_S)
        for key in keys:
            self._attempts.forget(key)
            await asyncio.sleep(0)

    async def _handle_about(self, kind: str, order: Any) -> None:
        """An order about an attempt that was started before."""
        key = (order.job_id, order.attempt)
        match kind:
            case "terminate":
                await self._attempts.terminate(
                    key,
                    order.reason,
                    given_up=order.given_up,
                    hangup=order.hangup,
                    failed=order.failed,
                    kill_delay_s=order.kill_delay_s if order.HasField("kill_delay_s") else None,
                    save=_save_order(order),
                )
            case "signal":
                await self._attempts.pass_on(key, order)
            case "warn":
                ends_by = order.ends_by if order.HasField("ends_by") else None
                await self._attempts.warn(key, order.signal, ends_by)
            case "spare":
                self._attempts.spare(key)
            case "suspend":
                reasons = SuspendReasons(order.reasons, order.load_index)
                await self._attempts.suspend(key, reasons, moves_gpus=order.moves_gpus)
            case "resume":
                await self._attempts.resume(key)
            case "limit":
                await self._attempts.limit(key, order)

    async def _answer_output(self, request: agent_pb2.ReadOutput) -> None:
        key = (request.job_id, request.attempt)
        if request.terminal:
            folder = self._attempts.folder(key)
            await terminal_questions.show(
                request, folder, lambda: self._attempts.is_over(key), self._attempts.read_kept, self._send_output
            )
            return
        await answer(
            request,
            read=self._attempts.read_kept if request.kept else self._attempts.read_output,
            is_over=self._attempts.is_over,
            endings=self._attempts.endings,
            send=self._send_output,
        )

    async def _answer_task(self, ask: agent_pb2.TaskAsk) -> None:
        reply = await self._attempts.tasks.answer(ask)
        async with self._replying:
            await self._outbox.deliver(agent_pb2.AgentMessage(task_reply=reply))

    async def _answer_service(self, asked: agent_pb2.FindService) -> None:
        found = await self._attempts.services.find(asked)
        await self._outbox.deliver(agent_pb2.AgentMessage(service_found=found))

    async def _send_output(self, reply: agent_pb2.OutputReply) -> bool:
        return await self._outbox.deliver(agent_pb2.AgentMessage(output=reply))


def _save_order(order: agent_pb2.TerminateAttempt) -> SaveOrder | None:
    asked = order.ask_to_save
    return SaveOrder(asked.signal, asked.grace_s, asked.target) if order.HasField("ask_to_save") else None
