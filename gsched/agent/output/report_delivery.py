"""What people get to read of an attempt: the report in its output file, mail at its start and its end.

Each is written once, also across crashes of the agent. What cannot be written in time holds nothing up for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial

import msgspec

from gsched.agent.blocking_pool import BlockingPool
from gsched.agent.output.mail import send
from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.ids import attempt_name
from gsched.model.jobs.job import AttemptResult
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.account import UnixAccount
from gsched.run.executor import ProcessExecutor
from gsched.run.order import Mail, Order
from gsched.run.program import Program, ProgramEnd
from gsched.run.report.job_report import ReportFacts

log = logging.getLogger(__name__)

REPORT_PATIENCE_S = 10.0
"""How long the end of a job waits for the report to be written."""
MAIL_PATIENCE_S = 30.0
"""How long the end of a job waits for its mail to be handed over."""


class ReportDelivery:
    """Job reports in output files and mails, for one host. `on_written(key, result)` hears when all about an attempt's
    end is written.
    """

    def __init__(
        self, executor: ProcessExecutor, on_written: Callable[[AttemptKey, AttemptResult], None], blocking: BlockingPool
    ) -> None:
        self._blocking = blocking
        self._executor = executor
        self._on_written = on_written
        self._facts: dict[AttemptKey, ReportFacts] = {}
        self._mails: dict[AttemptKey, Mail] = {}
        self._accounts: dict[AttemptKey, UnixAccount | None] = {}
        """Of those with mail: whose they are."""
        self._ends: set[asyncio.Task[None]] = set()
        self._starts: set[asyncio.Task[None]] = set()

    def expect(self, key: AttemptKey, order: Order) -> None:
        """The attempt is about to run, or to be taken up: what its order says is to be written."""
        if order.report is not None:
            self._facts[key] = order.report
        if order.mail is not None:
            self._mails[key], self._accounts[key] = order.mail, order.account

    async def settle(self) -> None:
        """Wait for what is being written about ends."""
        if self._ends:
            await asyncio.wait(list(self._ends))

    def started(self, key: AttemptKey) -> None:
        """-B: a mail once for each attempt."""
        mail = self._mails.get(key)
        if mail is not None and mail.begin:
            self._beside(self._mail_start(key, mail, self._accounts.get(key)), self._starts)

    def ended(self, key: AttemptKey, result: AttemptResult) -> bool:
        """Begin to write what is to be written about the end; False when there is nothing."""
        facts, mail = self._facts.pop(key, None), self._mails.pop(key, None)
        account = self._accounts.pop(key, None)
        started = self._executor.started(*key)
        if result.pre_failed:
            if facts is None or started is None or not started.stdout_room[1]:
                return False
            sentence = f"Job <{facts.job}> was not started here: {result.problem}"
            self._beside(self._instead(key, facts, result, sentence), self._ends)
            return True
        if mail is not None and (mail.end or (mail.error and not result.succeeded)):
            self._beside(self._mail_end(key, mail, result, account), self._ends)
            return True
        if facts is not None and started is not None:
            self._beside(self._report(key, facts, result), self._ends)
            return True
        return False

    def _beside(self, work: Coroutine[object, object, None], among: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        among.add(task)
        task.add_done_callback(among.discard)

    async def _mail_start(self, key: AttemptKey, mail: Mail, account: UnixAccount | None) -> None:
        subject = f"Job {mail.facts.job}: <{mail.facts.name}> started."
        hosts = " ".join(f"<{host}>" for host, _ in mail.facts.hosts)
        text = f"Job <{mail.facts.name}> of user <{mail.facts.user}> has started on host(s) {hosts}.\n"
        await self._mailed(key, mail, "mailed.start", subject, lambda: text, account)

    async def _mail_end(self, key: AttemptKey, mail: Mail, result: AttemptResult, account: UnixAccount | None) -> None:
        """-N: the report. The result then says whether there was no mail."""
        how = "Done" if result.succeeded else "Exited"
        subject = f"Job {mail.facts.job}: <{mail.facts.name}> in cluster <{mail.facts.cluster}> {how}"
        problem = await self._mailed(
            key, mail, "mailed.end", subject, lambda: self._executor.report_text(*key, mail.facts, result), account
        )
        if problem:
            told = listed([result.problem, problem], "list.semicolon")
            result = msgspec.structs.replace(result, problem=told)
        where = f"not mailed: {problem}" if problem else f"mailed to {mail.to}"
        await self._instead(key, mail.facts, result, f"The report on job <{mail.facts.job}> was {where}.")

    async def _mailed(
        self, key: AttemptKey, mail: Mail, mark: str, subject: str, text: Callable[[], str], account: UnixAccount | None
    ) -> AnyText:
        """Send it unless an earlier agent has begun to; what is wrong is the answer."""

        loop = asyncio.get_running_loop()

        def run(program: Program, limit_s: float) -> ProgramEnd:
            return asyncio.run_coroutine_threadsafe(self._executor.run_program(program, limit_s), loop).result()

        def work() -> None:
            if self._executor.is_first(*key, mark):
                send(mail, subject, text(), run, account)

        try:
            await self._blocking.run(mail.facts.user, work, MAIL_PATIENCE_S)
        except (OSError, TimeoutError) as error:
            problem = coded("attempt.not_mailed", mail.to, str(error) or coded("attempt.mail_too_long"))
            log.warning("%s: %s", attempt_name(*key), problem)
            return problem
        return ""

    async def send(
        self, key: AttemptKey, mail: Mail, mark: str, subject: str, text: str, account: UnixAccount | None
    ) -> None:
        """A mail about something else, once for each `mark`; what is wrong is logged."""
        await self._mailed(key, mail, mark, subject, lambda: text, account)

    async def _report(self, key: AttemptKey, facts: ReportFacts, result: AttemptResult) -> None:
        """Put the report into the output file: whoever hears that a job is done can read it."""
        writing = partial(self._executor.report, *key, facts, result)
        try:
            await self._blocking.run(facts.user, writing, REPORT_PATIENCE_S)
        except (OSError, TimeoutError) as error:
            log.warning("no report in the output file of %s: %s", attempt_name(*key), error or "its file system hangs")
        self._on_written(key, result)

    async def _instead(self, key: AttemptKey, facts: ReportFacts, result: AttemptResult, sentence: str) -> None:
        """There is no report above the output: what is to be said there."""
        writing = partial(self._executor.say_instead, *key, facts, sentence)
        try:
            await self._blocking.run(facts.user, writing, REPORT_PATIENCE_S)
        except (OSError, TimeoutError) as error:
            log.warning("nothing said in the output file of %s: %s", attempt_name(*key), error or "it hangs")
        self._on_written(key, result)
