"""Tells a job that its GPUs are idle: a line in its output, and mail. Who sits at its terminal is told by the command
there.

The master orders it, by numbers, and repeats an order until it hears that it was carried out. Each is carried out once,
also across crashes of the agent; what cannot be written is not tried again, and harms nobody.
"""

from __future__ import annotations

import logging
from functools import partial

from gsched.agent.blocking_pool import BlockingPool
from gsched.agent.output.report_delivery import REPORT_PATIENCE_S, ReportDelivery
from gsched.base.coded_text import sentence
from gsched.base.ids import attempt_name, show_job
from gsched.model.gpus.gpu_idle import IdleWarning
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.executor import ProcessExecutor
from gsched.run.order import Mail, Order
from gsched.run.report.job_report import ReportFacts
from gsched.wire.messages.convert import from_proto
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)


class IdleWarnings:
    """Warnings of idle GPUs to the users of one host. `sender`: whom mail comes from."""

    def __init__(self, executor: ProcessExecutor, reports: ReportDelivery, blocking: BlockingPool, sender: str) -> None:
        self._executor = executor
        self._reports = reports
        self._blocking = blocking
        self._sender = sender
        self._told: dict[AttemptKey, int] = {}
        """Attempt -> number of the last one."""

    def last(self, key: AttemptKey) -> int:
        """Number of the last one that was carried out; 0: none that this agent knows of."""
        return self._told.get(key, 0)

    def forget(self, key: AttemptKey) -> None:
        """The attempt is over."""
        self._told.pop(key, None)

    async def tell(self, key: AttemptKey, order: agent_pb2.WarnIdle) -> None:
        """Carry it out, unless it was."""
        held = self._executor.order(*key) if key in self._executor.running() else None
        warning = from_proto(order.warning, IdleWarning)
        if held is None or warning.number <= self.last(key):
            return
        self._told[key] = warning.number
        try:
            is_first = self._executor.is_first(*key, f"idle-warned.{warning.number}")
        except OSError as error:  # said twice at worst, and not at all at best
            log.warning("%s: %s: it is not written down that it was warned", attempt_name(*key), error)
            is_first = True
        if not is_first:
            return
        text = sentence(warning.text)
        if not held.interactive and not held.is_part:
            await self._say(key, text)
        if order.mail_to:
            await self._mail(key, order, held, text)

    async def _say(self, key: AttemptKey, text: str) -> None:
        whose = self._executor.user_of(*key)
        try:
            await self._blocking.run(whose, partial(self._executor.say, *key, f"gsched: {text}"), REPORT_PATIENCE_S)
        except (OSError, TimeoutError) as error:
            log.warning("%s is not warned in its output: %s", attempt_name(*key), error or "its file system hangs")

    async def _mail(self, key: AttemptKey, order: agent_pb2.WarnIdle, held: Order, text: str) -> None:
        job = show_job(key[0])
        mail = Mail(
            to=order.mail_to,
            sender=self._sender,
            program=order.mail_program,
            server=order.mail_server,
            facts=_facts(job, order),
        )
        subject = f"Job {job}: <{order.job_name}> holds idle GPUs"
        await self._reports.send(key, mail, f"mailed.idle.{order.warning.number}", subject, f"{text}\n", held.account)


def _facts(job: str, order: agent_pb2.WarnIdle) -> ReportFacts:
    """Mail needs to know whose it is; nothing else of it is in this one."""
    return ReportFacts(
        job=job,
        name=order.job_name,
        command="",
        sender="",
        cluster="",
        submit_host="",
        user=order.user,
        hosts=(),
        queue="",
        submitted_at=0.0,
        dispatched_at=0.0,
    )
