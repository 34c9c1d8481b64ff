"""What an agent needs of its attempts for their tasks (tasks): whose a process is, and word to a supervisor.

It reads what the executor holds and changes nothing of it. Never takes a process's word for whose it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping

from gsched.base.ids import attempt_name
from gsched.run.attempts.attempt import Attempt
from gsched.run.containers.container_processes import of_task
from gsched.run.order import RunKey
from gsched.run.processes import attempt_processes, process_tree
from gsched.run.processes.process_usage import SessionUse
from gsched.run.spool import Spool
from gsched.run.supervisor import supervisor_signals


class TaskOrders:
    """Orders of tasks for the attempts in `held`, by name."""

    def __init__(self, held: Mapping[str, Attempt], spool: Spool) -> None:
        self._held = held
        self._spool = spool

    def proven(self, pid: int, uid: int) -> RunKey | None:
        """The attempt that the process belongs to by what it cannot forge, and that has not ended; `uid` must be its
        user's, for a number may have become another process's. May run in another thread.
        """
        name = attempt_processes.proven((held for held in [*self._held.values()] if not held.ended.is_set()), pid)
        held = self._held.get(name)
        if held is None or uid != (held.account.uid if held.account is not None else os.getuid()):
            return None
        return held.key

    def is_possible(self, key: RunKey) -> bool:
        """Whether the job runs and its supervisor lives."""
        held = self._running(key)
        if held is None or held.started is None or held.unsupervised is not None:
            return False
        return not self._spool.is_past_job(held.name)

    def poke(self, key: RunKey) -> None:
        """Have the supervisor look for tasks that were ordered, or are done with."""
        held = self._running(key)
        if held is not None:
            attempt_processes.tell(held, supervisor_signals.POKE)

    async def news(self, key: RunKey, timeout_s: float) -> None:
        """Wait until the supervisor tells something or the attempt ends, so long at most."""
        held = self._running(key)
        if held is not None:
            news = held.news
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await news.wait()

    def session_use(self, key: RunKey, leader: int) -> SessionUse | None:
        """What the processes of a task's session used when the attempt was last sampled; None: not known yet."""
        held = self._running(key)
        return held.usage.sessions.get(leader) if held is not None else None

    def signal_session(self, key: RunKey, leader: int, start: int, signum: int) -> None:
        """Signal those of the attempt's processes that are in the session of one, which began at `start`, and that one
        itself: a task that was forked a moment ago has not begun its session.
        """
        held = self._running(key)
        if held is not None:
            found = attempt_processes.now(held)
            meant = [each for each in found if leader in (each.session, each.pid) and each.start >= start]
            if held.reach.is_contained and signum == signal.SIGKILL:
                meant += of_task(found, leader)
            process_tree.send_all(meant, signum)

    def _running(self, key: RunKey) -> Attempt | None:
        held = self._held.get(attempt_name(*key))
        return None if held is None or held.ended.is_set() else held
