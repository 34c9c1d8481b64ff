"""Actions of JOB_CONTROLS: a signal to all processes of a job, or a command that the site has run in place of it.

Commands run as the job's user, inside its fence, with its environment; never longer than ACTION_S, and nobody who ends
a job waits for one that he did not ask for. Those of one attempt follow each other, but the end waits for none before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import NamedTuple

from gsched.base.errors import ResourceExhausted
from gsched.model.queues.job_controls import signal_of
from gsched.run.attempt_files import ACTION_DUE, STOPPED
from gsched.run.attempts.attempt import Attempt
from gsched.run.order import Order
from gsched.run.processes import attempt_processes, process_tree
from gsched.run.program import Program, ProgramEnd
from gsched.run.spool import Spool
from gsched.run.supervisor.steps import SITE_FOLDER

log = logging.getLogger(__name__)

ACTION_S = 300.0
"""So long a command may take; then it is killed."""


class SuspendReasons(NamedTuple):
    """Why a job is suspended, in LSF's numbers (LSB_SUSP_REASONS, LSB_SUSP_SUBREASONS)."""

    reasons: int = 0
    load_index: int = 0


class ControlActions:
    """Of one spool. `run` runs a program for at most so many seconds (ForkServer.run); `spawn` does work beside."""

    def __init__(
        self,
        spool: Spool,
        run: Callable[[Program, float], Awaitable[ProgramEnd]],
        spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]],
    ) -> None:
        self._spool = spool
        self._run = run
        self._spawn = spawn

    def note(self, held: Attempt, action: str, *, suspends: bool) -> bool:
        """Write down that the attempt is to be suspended, or to go on, and whether an action is due; False: the order
        is a repeat. It is none where an agent before this one has not come to the end of the action.

        Raises ResourceExhausted when it cannot be written down.
        """
        is_under_way = held.action is not None and not held.action.done()
        is_being_done = is_under_way or not self._spool.is_marked(held.name, ACTION_DUE)
        if action and is_being_done and self._spool.is_suspended(held.name) == suspends:
            return False
        self._spool.mark(held.name, ACTION_DUE, bool(action))  # first: what is not due is never made up for
        self._spool.set_suspended(held.name, suspends)
        return True

    async def do(
        self,
        held: Attempt,
        action: str,
        as_usual: Callable[[], Awaitable[None]],
        reasons: SuspendReasons | None = None,
    ) -> None:
        """Have it done when those before are over, beside; without an action, and where one has failed and that is
        wanted then, it is done `as_usual`: at once where nothing is before it.
        """
        before = held.action
        if not action and (before is None or before.done()):
            await as_usual()
        else:
            held.action = self._spawn(self._after(before, held, action, as_usual, reasons))

    async def _after(
        self,
        before: asyncio.Task[None] | None,
        held: Attempt,
        action: str,
        as_usual: Callable[[], Awaitable[None]],
        reasons: SuspendReasons | None,
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        if held.ended.is_set():
            return
        if reasons is None and action and self._spool.is_marked(held.name, STOPPED):
            await as_usual()  # the site's action that was to stop it has failed: this one cannot know what to undo
        if not action or (not await self.act(held, action, reasons) and held.controls.defaults_on_failure):
            await as_usual()
        if held.action is asyncio.current_task():  # else another one is due
            with contextlib.suppress(ResourceExhausted):  # at worst it is done again by the next agent
                self._spool.mark(held.name, ACTION_DUE, False)

    async def act(self, held: Attempt, action: str, reasons: SuspendReasons | None = None) -> bool:
        """Do it now; whether it has not failed."""
        there = held.reach.meant(attempt_processes.now(held), number := signal_of(action))
        if number:
            process_tree.send_all(there, number)
            return True
        order = self._spool.order(held.name)
        if order is None:
            return False
        try:
            ended = await self._run(_program(order, action, there, reasons), ACTION_S)
        except (OSError, TimeoutError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else f"killed after {ACTION_S:g} s"
            log.warning("the action of JOB_CONTROLS for attempt %s failed: %s", held.name, why)
            return False
        if ended.exit_code:
            log.warning("the action of JOB_CONTROLS for attempt %s exited with %d", held.name, ended.exit_code)
        return not ended.exit_code


def _program(order: Order, command: str, there: list[process_tree.Process], reasons: SuspendReasons | None) -> Program:
    """The shell that runs the command. It is no process of the job: it does not carry its mark."""
    environment = {name: value for name, value in order.environment.items() if name != process_tree.MARK_VARIABLE}
    environment |= {
        "LS_EXEC_T": "JOB_CONTROLS",
        "LSB_JOBPIDS": " ".join(str(each.pid) for each in there),
        "LSB_JOBPGIDS": " ".join(str(pgid) for pgid in dict.fromkeys(each.pgid for each in there)),
    }
    if reasons is not None:
        environment["LSB_SUSP_REASONS"] = str(reasons.reasons)
        environment["LSB_SUSP_SUBREASONS"] = str(reasons.load_index)
    return Program(
        words=("/bin/sh", "-c", command),
        environment=environment,
        keeps_output=False,
        cwd=SITE_FOLDER,
        umask=order.umask,
        account=order.account,
        granted=order.granted,
        fence=order.fence,
    )
