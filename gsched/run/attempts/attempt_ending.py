"""The end of attempts on request: INT, TERM, KILL to all their processes, and what is said of those that do not end.

Nothing here waits for a process that cannot end without saying who that is, and nothing blocks the event loop.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Collection, Iterable

from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText
from gsched.model.queues.job_controls import signal_of
from gsched.run.attempts.attempt import Attempt
from gsched.run.attempts.control_actions import ControlActions
from gsched.run.containers.container_processes import main_of
from gsched.run.order import OnUnkillable, SaveOrder, Unkillable
from gsched.run.processes import attempt_processes, process_tree
from gsched.run.processes.warned_processes import warned
from gsched.run.spool import Spool
from gsched.run.supervisor import host_parts
from gsched.run.supervisor.children import refused_text

BEGIN_S = 5.0
"""How long an order about an attempt waits for the job to begin."""
HANGUP_S = 1.0
"""How long a job whose terminal was hung up may take to end."""
_KILL_AGAIN_S = 1.0
_ACTION_BEGUN = "terminate_action"
"""The file in an attempt's folder that tells that the command in place of SIGINT and SIGTERM was begun."""
_SWEEP_LOOK_S = 0.01
_LOOKS_S = (0.02, 0.1, 0.5)
"""When, after a signal, one looks again for processes that it has not reached."""


class AttemptEndings:
    """Ends attempts of one spool."""

    def __init__(self, spool: Spool, on_unkillable: OnUnkillable, clock: Clock, actions: ControlActions) -> None:
        self._spool = spool
        self._actions = actions
        self._clock = clock
        self._on_unkillable = on_unkillable

    async def end(self, held: Attempt, interval_s: float, *, hangup: bool = False) -> None:
        """INT, TERM, KILL, or as its order says TERM, KILL, or where its terminal was hung up HUP, KILL. The steps that
        follow a job are left alone, unless somebody ends the attempt in them.
        """
        await self.begun_or_killed(held)
        if held.is_part:
            attempt_processes.tell(held, host_parts.END)
        ends_steps = self._spool.is_past_job(held.name)
        gently: tuple[int, ...] = (signal.SIGTERM,) if held.ends_by_term else (signal.SIGINT, signal.SIGTERM)
        if held.controls.terminate and not ends_steps and not hangup:
            gently = await self._asked_to_end(held, interval_s, gently)
            if held.ended.is_set():
                return
        for signum in (signal.SIGHUP,) if hangup else gently:
            if await self._ends_by(held, signum, interval_s, ends_steps=ends_steps):
                return
        await self._kill_until_ended(held, ends_steps=ends_steps)

    async def _kill_until_ended(self, held: Attempt, *, ends_steps: bool) -> None:
        since = time.monotonic()
        while ends_steps or not self._spool.is_past_job(held.name):
            if held.group is not None:
                held.group.kill()
            there = main_last(held, attempt_processes.now(held))
            process_tree.send_all(there, signal.SIGKILL)
            if await self._ends_within(held, _KILL_AGAIN_S):
                return
            if time.monotonic() - since >= process_tree.UNKILLABLE_AFTER_S:  # in the kernel, or another user's by now
                self.note_unkillable(held, named(there))

    async def _asked_to_end(self, held: Attempt, interval_s: float, gently: tuple[int, ...]) -> tuple[int, ...]:
        """Do what the site does in place of these signals, once; which signals are to be sent before SIGKILL.

        Nobody waits for a command longer than it may take: what has ended by then, or `interval_s` later, has.
        """
        action = held.controls.terminate
        if number := signal_of(action):
            return (number,)
        if self._is_first(held):
            if held.group is not None:
                held.group.thaw()
            if self._spool.is_suspended(held.name):  # a stopped process takes no notice until it goes on
                process_tree.send_all(attempt_processes.now(held), signal.SIGCONT)
            acting = asyncio.ensure_future(self._actions.act(held, action))
            ending = asyncio.ensure_future(held.ended.wait())
            await asyncio.wait((acting, ending), return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            if held.controls.defaults_on_failure and acting.done() and not acting.result():
                return gently
        await self._ends_within(held, interval_s)
        return ()

    def _is_first(self, held: Attempt) -> bool:
        """Whether no agent has begun with the action. One that cannot be noted is not begun: SIGKILL follows."""
        try:
            return self._spool.is_first(held.name, _ACTION_BEGUN)
        except OSError:
            return False

    async def end_saved(self, held: Attempt, save: SaveOrder, interval_s: float) -> None:
        """Ask it to save its state, once, and end it when its time for that is over, if it is still there.

        When that is is in the attempt's folder: an agent that comes after this one asks for nothing anew, and waits no
        longer.
        """
        await self.begun_or_killed(held)
        until = self._spool.deadline(held.name) if self._spool.is_warned(held.name) else None
        if until is None:
            until = self._clock.now() + save.grace_s
            self._spool.note_deadline(held.name, until)
            self._spool.mark_warned(held.name)
            self._ask_to_save(held, save)
        if not await self._ends_within(held, max(min(until - self._clock.now(), save.grace_s), 0.0)):
            await self.end(held, interval_s)

    async def warn(self, held: Attempt, signum: int, ends_by: float | None) -> None:
        """Send it the signal that its job has on its first host, unless it was warned before."""
        if self._spool.is_warned(held.name):
            return
        if ends_by is not None:
            self._spool.note_deadline(held.name, ends_by)
        self._spool.mark_warned(held.name)
        if signum:
            process_tree.send_all(to_be_warned(held, "", signum), signum)

    async def forget_ask(self, held: Attempt) -> None:
        """It was asked to save its state and need not: when its time for that is over it is as if nobody had asked."""
        until = self._spool.deadline(held.name)
        if until is not None and not await self._ends_within(held, max(until - self._clock.now(), 0.0)):
            self._spool.forget_deadline(held.name)

    def _ask_to_save(self, held: Attempt, save: SaveOrder) -> None:
        asked = to_be_warned(held, save.target, save.signal) if save.signal else []
        process_tree.send_all(asked, save.signal)
        if self._spool.is_suspended(held.name):  # a stopped process takes no notice until it goes on
            if held.group is not None:
                held.group.thaw()
            process_tree.send_all(attempt_processes.now(held), signal.SIGCONT)

    async def begun_or_killed(self, held: Attempt) -> None:
        """Wait for the job to begin, or the attempt to end.

        A supervisor that does not come so far in time hangs on something that the job's user has named: an input that
        is a pipe nobody writes to, a file server that does not answer. It has executed nothing yet, so it is killed.
        """
        while not held.let_go.is_set():
            try:
                async with asyncio.timeout(BEGIN_S):
                    await held.let_go.wait()
            except TimeoutError:
                if self._spool.started(held.name) is None:
                    attempt_processes.tell(held, signal.SIGKILL)

    async def see_dead(self, held: Attempt, killed: Iterable[process_tree.Process]) -> None:
        """Say which of these are still there after a time that is long enough for all that can end.

        If the job itself is, it is killed until it ends, for it may have been missed: a look at all processes is not
        one moment. What the job's first host closes (a part), and steps that follow a job, are left to their own ends.
        """
        if await self._ends_within(held, process_tree.UNKILLABLE_AFTER_S):
            return
        self.note_unkillable(held, named(each for each in killed if process_tree.is_alive(each.pid, each.start)))
        if not held.is_part and not held.is_killed_again:
            held.is_killed_again = True
            await self._kill_until_ended(held, ends_steps=False)

    async def _ends_by(self, held: Attempt, signum: int, interval_s: float, *, ends_steps: bool) -> bool:
        """Signal every process of the attempt once and wait; whether it has ended within `interval_s`.

        A process that was forked while we looked, or had not become its program yet, is signalled a moment later: a
        shell puts an interrupt off until the command that it has started ends. What a process that catches the signal
        starts is left alone: it saves something, or tidies up.
        """
        seen: set[tuple[int, int, str]] = set()
        spared: set[tuple[int, int]] = set()
        looked_s = 0.0
        for at_s in (*_LOOKS_S, interval_s):
            if not ends_steps and self._spool.is_past_job(held.name):
                return True
            tree = held.reach.meant(attempt_processes.now(held), signum)
            spared |= _started_by_handlers(tree, seen, spared, signum)
            fresh = [
                each
                for each in tree
                if (each.pid, each.start, each.name) not in seen and (each.pid, each.start) not in spared
            ]
            seen.update((each.pid, each.start, each.name) for each in fresh)
            process_tree.send_all(fresh, signum)
            if self._spool.is_suspended(held.name):  # a stopped process takes no notice until it goes on
                if held.group is not None:
                    held.group.thaw()
                process_tree.send_all(fresh, signal.SIGCONT)
            until_s = min(at_s, interval_s)
            if await self._ends_within(held, until_s - looked_s):
                return True
            looked_s = until_s
            if looked_s >= interval_s:
                break
        return False

    async def _ends_within(self, held: Attempt, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await held.ended.wait()
        except TimeoutError:
            return False
        return True

    async def sweep(self, held: Attempt) -> AnyText:
        """End what a job has left whose supervisor was killed; the text names what is not ours to end."""
        if held.group is not None:
            held.group.kill()
        since = time.monotonic()
        while left := attempt_processes.now(held):
            reached, refused = process_tree.send_each(left, signal.SIGKILL)
            is_helpless = time.monotonic() - since >= process_tree.UNKILLABLE_AFTER_S
            if is_helpless and not reached:
                return refused_text(refused)
            if is_helpless:
                self.note_unkillable(held, named(reached))
            await asyncio.sleep(_KILL_AGAIN_S if is_helpless else _SWEEP_LOOK_S)
        return ""

    def note_unkillable(self, held: Attempt, found: Iterable[Unkillable]) -> None:
        """Report those that were not, once."""
        fresh = sorted(set(found) - held.unkillable)
        if fresh and not held.ended.is_set():
            held.unkillable.update(fresh)
            self._on_unkillable(*held.key, tuple(fresh))


def _started_by_handlers(
    tree: Iterable[process_tree.Process],
    seen: Collection[tuple[int, int, str]],
    spared: Collection[tuple[int, int]],
    signum: int,
) -> set[tuple[int, int]]:
    """(pid, start) of processes that came after the signal, below one that was sent it and has a handler for it.

    `seen`: those that were sent it; `spared`: those found before. Of an interrupt nobody can say: a shell without a
    trap has a handler for it as well.
    """
    if signum == signal.SIGINT:
        return set()
    sent = {pid: start for pid, start, _ in seen}
    handled = {pid for pid, _ in spared}
    found: set[tuple[int, int]] = set()
    for each in sorted(tree, key=lambda process: (process.start, process.pid)):
        is_sent = sent.get(each.pid) == each.start
        if not is_sent and (each.ppid in handled or (each.ppid in sent and process_tree.catches(each.ppid, signum))):
            handled.add(each.pid)
            found.add((each.pid, each.start))
    return found


def to_be_warned(held: Attempt, target: str, signum: int) -> list[process_tree.Process]:
    """The processes that are sent the signal before an end; `target` as an order has it."""
    there = attempt_processes.now(held)
    main = held.started.pid if held.started is not None else 0
    main = main_of(there, main, is_contained=held.reach.is_contained)
    return warned(held.reach.meant(there, signum), target, main)


def named(processes: Iterable[process_tree.Process]) -> list[Unkillable]:
    """What is told of each."""
    return [(process.pid, process.name) for process in processes]


def main_last(held: Attempt, processes: Iterable[process_tree.Process]) -> list[process_tree.Process]:
    """The order to kill in: with the end of its main process a job is over, and the supervisor sends SIGTERM to what
    is left of it, which those that were sent one before need not hear again.
    """
    main = held.started
    return sorted(processes, key=lambda each: main is not None and (each.pid, each.start) == (main.pid, main.start))
