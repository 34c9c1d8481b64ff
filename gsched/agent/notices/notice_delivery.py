"""Sends the notices of this host: each user's by a process of that user, a few users' at a time, again when it must be.

A notice is on disk before the master hears that it has arrived, and stays there until the master has what became of it.
A try is noted down by the sender before it is made and when it was; a try of which no end is noted is made again under
the same id, for nobody can know whether it arrived. Nothing here waits for a server, and no job waits for a notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

import gsched
from gsched.agent.blocking_pool import BlockingPool
from gsched.agent.notices.notice_files import (
    KeptNotice,
    NoticeFiles,
    NoticeOrder,
    RunHeader,
    RunJournal,
    TryEnd,
    read_journal,
    wait_until_written,
)
from gsched.agent.notices.notice_queue import NoticeQueue
from gsched.agent.notices.notice_texts import delivery
from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import GschedError
from gsched.model.jobs.notice import Notice, NoticeEnd
from gsched.run.account import UnixAccount
from gsched.run.order import Fence
from gsched.run.program import Program, RunsPrograms
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)

PRELUDE = (
    "import sys; sys.path += sys.argv[1:3]; from gsched.agent.notices.sender import main; main(sys.stdin.buffer.read())"
)
"""Begins a sender, which needs modules of its own; the agent does without them."""
MOST_SENDERS = 8
"""Users who have a sender at a time."""
BATCH = 16
"""Notices of one run."""
RUN_S = 120.0
"""After so long a run begins no further try."""
KILL_S = 200.0
"""After so long it is ended: its last try has had its time."""
BACK_OFF_S = (2.0, 10.0, 60.0, 300.0, 1200.0, 3600.0, 3600.0, 7200.0)
"""How long after each try the next one is made; after the last there is none."""
REWRITE_S = 30.0
"""How long after notices could not be written down that is tried again."""
FAULT_S = 60.0
"""How long a user is left alone after a run that failed by a fault of this program."""
_LIMITS = ((resource.RLIMIT_CPU, 120, 180), (resource.RLIMIT_CORE, 0, 0))
"""Of a sender and of the user's programs that it runs."""
_KEPT_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Of the agent's: where the site's certificates are."""

AccountOf = Callable[[str], Awaitable[UnixAccount | None]]
"""Whom things are done as for a user. Raises GschedError."""


class SenderGroups(Protocol):
    """Control groups for senders: without GPUs, and nothing of one is left when its run is over."""

    def take_up(self, user: str) -> None:
        """An earlier agent may have made one."""
        ...

    async def make(self, user: str) -> Fence | None:
        """Raises GschedError, OSError."""
        ...

    def end(self, user: str) -> None:
        """Kill what is left in the group, and remove it."""
        ...


class NoticeDelivery:
    """The notices of one host. `send` puts a message to the master into the stream (or drops it)."""

    def __init__(
        self,
        host: str,
        spool: Path,
        clock: Clock,
        *,
        run: RunsPrograms,
        account: AccountOf,
        groups: SenderGroups,
        send: Callable[[agent_pb2.AgentMessage], None],
    ) -> None:
        self._host = host
        self._files = NoticeFiles(spool)
        self._clock = clock
        self._run = run
        self._account = account
        self._groups = groups
        self._send = send
        self._aside = BlockingPool()
        self._queue = NoticeQueue()
        self._incoming: dict[str, KeptNotice] = {}
        """Those that are not on disk yet: nobody has been told that they are here."""
        self._writing: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        """User -> the run that is under way, or an earlier agent's that is not over."""
        self._timer: asyncio.Handle | None = None
        """Looks for what is due; one at a time, however much has happened."""

    # -- what the master says -----------------------------------------------------------------------------------------

    def order(self, message: agent_pb2.SendNotice) -> None:
        """Send it, unless it is known: then what became of it is told again."""
        order = NoticeOrder(
            notice=from_proto(message.notice, Notice),
            cluster=message.cluster,
            to=message.to,
            form=message.form or "json",
            mail_program=message.mail_program,
            mail_server=message.mail_server,
            proxy=message.proxy,
        )
        known = self._queue.get(order.notice.notice_id)
        if known is not None:
            self._tell(known)
            return
        kept = KeptNotice(order=order, due=self._clock.now())
        self._incoming.setdefault(kept.notice_id, kept)
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write_incoming())

    async def _write_incoming(self) -> None:
        """Write down what has come, beside the loop; again after a while where the disk does not take it."""
        has_said = False
        try:
            while self._incoming:
                new = list(self._incoming.values())
                try:
                    written = await asyncio.to_thread(self._files.write_each, new)
                except OSError as error:
                    if not has_said:
                        log.error("notices cannot be written down and are not sent for now: %s", error)
                    has_said = True
                    await asyncio.sleep(REWRITE_S)  # room on a disk is no event that could be awaited
                    continue
                self._take_in(new, written)
        finally:
            self._writing = None

    def _take_in(self, new: list[KeptNotice], written: set[str]) -> None:
        for kept in new:
            wanted = self._incoming.pop(kept.notice_id, None) is not None
            if wanted and kept.notice_id in written:
                self._queue.add(kept)
            else:  # forgotten meanwhile, or of an id that nobody has made
                self._files.remove(kept.notice_id)
        self._look_soon()

    def forget(self, notice_ids: Iterable[str]) -> None:
        """The master has what became of them on disk, or does not want them any more."""
        for notice_id in notice_ids:
            self._incoming.pop(notice_id, None)
            if self._queue.remove(notice_id) is not None:
                self._files.remove(notice_id)

    def fill_hello(self, hello: agent_pb2.Hello) -> None:
        """Everything that is known, for a new session."""
        for kept in self._queue:
            if kept.end is None:
                hello.notices.append(kept.notice_id)
            else:
                fill(hello.notice_ends.add(), kept.end)

    # -- the agent's life ---------------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Take up what an earlier agent left: notices, and runs that may not be over."""
        for kept in self._files.read():
            self._queue.add(kept)
        for path in self._files.journals():
            header = read_journal(path).header
            user = header.user if header is not None else ""
            before = self._running.get(user)
            self._groups.take_up(user)
            self._begin(user, self._take_up(user, path, before))
        self._look_soon()

    def close(self) -> None:
        """Look after them no longer; senders that run go on, and the next agent reads what they write down."""
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._writing, *self._running.values()):
            if task is not None:
                task.cancel()

    def _begin(self, user: str, work: Awaitable[None]) -> None:
        task = self._running[user] = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: self._over(user, done))

    def _over(self, user: str, task: asyncio.Task[None]) -> None:
        if self._running.get(user) is task:
            del self._running[user]
        if task.cancelled():
            return
        now = self._clock.now()
        if task.exception() is not None:
            log.error("notices of user %s are not sent for now", user, exc_info=task.exception())
            for kept in self._queue.batch(user, now, BATCH):
                kept.due = now + FAULT_S
        self._queue.renew(user)
        self._look_soon()

    def _look_soon(self) -> None:
        """Look for what is due when all that has come together has been taken in."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Begin the runs that can begin, and come back when there is more to do."""
        now = self._clock.now()
        for user in self._queue.users_due(now, self._running):
            if len(self._running) >= MOST_SENDERS:
                break
            self._begin(user, self._send_some(user, self._queue.batch(user, now, BATCH)))
        due = self._queue.next_due(now, self._running)
        self._timer = None
        if due is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - now), self._look)

    # -- one run ------------------------------------------------------------------------------------------------------

    async def _send_some(self, user: str, batch: list[KeptNotice]) -> None:
        try:
            account = await self._account(user)
        except GschedError as error:
            await self._all_failed(batch, error.said)
            return
        try:
            header = RunHeader(user=user, notice_ids=tuple(kept.notice_id for kept in batch))
            journal = await asyncio.to_thread(self._files.new_journal, header)
        except OSError as error:
            await self._all_failed(batch, coded("notice.not_begun", error.strerror or str(error)))
            return
        stood = {kept.notice_id: (kept.tries, kept.due) for kept in batch}
        problem = await self._run_sender(user, batch, account, journal)
        await self._read_end(user, journal)
        if all(stood[kept.notice_id] == (kept.tries, kept.due) for kept in batch):
            await self._all_failed(batch, problem or coded("notice.no_sender", 0))

    async def _run_sender(
        self, user: str, batch: list[KeptNotice], account: UnixAccount | None, journal: Path
    ) -> AnyText:
        """Why there was none, or it was ended; empty when it has ended by itself."""
        try:
            fence = await self._groups.make(user)
            ended = await self._run(self._program(batch, account, journal, fence), KILL_S)
        except TimeoutError:
            return coded("notice.no_answer", int(KILL_S))
        except GschedError as error:
            return error.said
        except OSError as error:
            return coded("notice.not_begun", error.strerror or str(error))
        return coded("notice.no_sender", ended.exit_code) if ended.exit_code else ""

    def _program(
        self, batch: list[KeptNotice], account: UnixAccount | None, journal: Path, fence: Fence | None
    ) -> Program:
        roots = [str(Path(file).parents[above]) for file, above in ((gsched.__file__, 1), (msgspec.__file__, 1))]
        told = {"limit_s": RUN_S, "deliveries": [delivery(kept, self._host) for kept in batch]}
        environment = dict(os.environ)
        if account is not None:
            environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
            environment |= {"PATH": os.defpath, "HOME": account.home, "LOGNAME": account.name, "USER": account.name}
        return Program(
            words=(sys.executable, "-I", "-S", "-X", "utf8", "-c", PRELUDE, *roots),
            environment=environment,
            stdin=json.dumps(told).encode(),
            output=str(journal),
            umask=0o077,
            granted=_LIMITS,
            account=account,
            fence=fence,
        )

    async def _take_up(self, user: str, journal: Path, before: asyncio.Task[None] | None) -> None:
        """A run of an earlier agent: wait for its end."""
        if before is not None:
            await asyncio.wait([before])
        await self._read_end(user, journal)

    async def _read_end(self, user: str, journal: Path) -> None:
        """Wait until nobody writes to the journal, take it into account, and remove it."""
        with contextlib.suppress(OSError, TimeoutError):
            await self._aside.run(user, lambda: wait_until_written(journal), KILL_S)
        self._groups.end(user)
        await self._account_for(read_journal(journal))
        with contextlib.suppress(OSError):
            journal.unlink()

    # -- what became of tries -----------------------------------------------------------------------------------------

    async def _account_for(self, journal: RunJournal) -> None:
        tried: list[KeptNotice] = []
        for notice_id in journal.header.notice_ids if journal.header is not None else ():
            kept = self._queue.get(notice_id)
            if kept is None or kept.end is not None:
                continue
            number = journal.begun.get(notice_id, 0)
            if number > kept.tries:
                broken_off = TryEnd(problem="notice.broken_off", again=True)
                self._note_try(kept, number, journal.ended.get((notice_id, number), broken_off))
                tried.append(kept)
            elif notice_id in journal.skipped:
                kept.due = self._clock.now() + BACK_OFF_S[min(kept.tries, len(BACK_OFF_S) - 1)]
        await self._write_and_tell(tried)

    async def _all_failed(self, batch: Collection[KeptNotice], problem: AnyText) -> None:
        """No sender could be started for them."""
        for kept in batch:
            self._note_try(kept, kept.tries + 1, TryEnd(again=True, problem="notice.not_begun"), problem)
        await self._write_and_tell(batch)

    def _note_try(self, kept: KeptNotice, number: int, end: TryEnd, problem: AnyText = "") -> None:
        kept.tries = number
        kept.problem = problem or (coded(end.problem, *end.values) if end.problem else "")
        is_last = number > len(BACK_OFF_S)
        if not end.problem or not end.again or is_last:
            kept.end = NoticeEnd(notice_id=kept.notice_id, problem=kept.problem, tries=number)
        else:
            kept.due = self._clock.now() + max(BACK_OFF_S[number - 1], end.after_s or 0.0)

    async def _write_and_tell(self, tried: Collection[KeptNotice]) -> None:
        """What became of them, first on disk; what nobody wants any more is not written again."""
        wanted = [kept for kept in tried if self._queue.get(kept.notice_id) is kept]
        try:
            await asyncio.to_thread(self._files.write_each, wanted)
        except OSError as error:
            log.error("what became of notices cannot be written down: %s", error)
        for kept in wanted:
            if self._queue.get(kept.notice_id) is kept:
                self._tell(kept)
            else:
                self._files.remove(kept.notice_id)

    def _tell(self, kept: KeptNotice) -> None:
        if kept.end is not None:
            message = agent_pb2.AgentMessage()
            fill(message.notice_end, kept.end)
            self._send(message)
