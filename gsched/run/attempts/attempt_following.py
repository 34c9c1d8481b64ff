"""Where an attempt stands, from the request for its supervisor to its result.

Each answer comes from the attempt's folder and the kernel, so an agent that comes back goes on from wherever its
predecessor was. Driven by events: the fork server's answers, the supervisors' notices, the ends of processes (pidfds).
Never asks for a supervisor where another one has claimed the attempt, never takes a job for ended that lives.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Coroutine

import msgspec

from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.model.jobs.job import AttemptResult
from gsched.run.account import UnixAccount
from gsched.run.attempts.attempt import Attempt
from gsched.run.attempts.attempt_ending import AttemptEndings, named, to_be_warned
from gsched.run.attempts.last_steps import run_last
from gsched.run.attempts.shutdown import PROBLEM, Shutdown
from gsched.run.attempts.supervisor_pool import SupervisorLink, SupervisorPool
from gsched.run.attempts.unsupervised_job import EndWarning, UnsupervisedJob
from gsched.run.fork_server_client import ForkServer, Watch
from gsched.run.order import OnEnded, OnStarted, OnWarned, StartedInfo
from gsched.run.processes import attempt_processes, process_tree
from gsched.run.processes.process_usage import Sampler
from gsched.run.spool import Spool, Started, SupervisorClaim, WaitedEnd

_MAX_TRIES = 3
"""Supervisors that may die before they have claimed an attempt, until it is given up."""
_LOOK_AGAIN_S = 0.05
_MAX_LOOKS = 40
"""So often an unreadable claim is looked at again; the longest pause between two looks for a start is as many times
_LOOK_AGAIN_S.
"""
MOST_ASKED = 4
"""Supervisors that are being forked at a time: enough for the fork server never to wait. In a wave of short jobs those
whose jobs are over take the next orders meanwhile, and few forks are needed."""


class AttemptFollower:
    """Follows the attempts in `held`, by name, to their ends; who puts one there calls `request` or `take_up`."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        held: dict[str, Attempt],
        spool: Spool,
        cluster: str,
        gpu_locks: GpuLockFolders,
        shutdown: Shutdown | None,
        endings: AttemptEndings,
        clock: Clock,
        *,
        on_started: OnStarted,
        on_ended: OnEnded,
        on_warned: OnWarned,
    ) -> None:
        self._held = held
        self._spool = spool
        self._shutdown = shutdown
        self._endings = endings
        self._clock = clock
        self._on_started = on_started
        self._on_ended = on_ended
        self._on_warned = on_warned
        self._boot_id = process_tree.boot_id()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[str, _Asked] = {}
        """Supervisors that the fork server was asked for and has not told of, by the name of their first attempt."""
        self._waiting: deque[Attempt] = deque()
        """Those that are to have a supervisor, the next that is free or forked."""
        self._pool = SupervisorPool()
        self._loop = asyncio.get_running_loop()
        self.forks = ForkServer(
            spool.attempts,
            cluster,
            gpu_locks,
            on_forked=self._forked,
            on_refused=self._refused,
            on_started=self._notice,
            on_over=self._over,
            on_lost=self._fork_server_lost,
        )

    # -- starting ------------------------------------------------------------------------------------------------

    def request(self, held: Attempt) -> None:
        """Ask for its supervisor."""
        if held.tries >= _MAX_TRIES:
            self._finish(held, _not_started(coded("attempt.no_supervisor", str(self._spool.attempts))))
            return
        held.tries += 1
        self._waiting.append(held)
        self._serve()

    def _serve(self) -> None:
        """Give those that wait a supervisor, in their order."""
        while self._waiting:
            held = self._waiting[0]
            if not held.ended.is_set():
                link = self._pool.give(held.account, held.name)
                if link is not None:
                    self._supervised(held, link.pid, link.start, link.watch, link)
                elif len(self._asked) >= MOST_ASKED:
                    return
                else:
                    self._ask(held)
            self._waiting.popleft()

    def _ask(self, held: Attempt) -> None:
        """Have a supervisor forked for it."""
        held.awaits_answer = True
        try:
            orders = self.forks.ask(held.name, takes_more=self._pool.has_room(len(self._asked)))
        except OSError as error:
            self._finish(held, _not_started(coded("attempt.no_process", str(error.strerror))))
            return
        self._drop_asked(held.name)
        if orders is not None:
            self._asked[held.name] = _Asked(held.account, orders)

    def _forked(self, name: str, pid: int, pidfd: int) -> None:
        held, asked = self._held.get(name), self._asked.pop(name, None)
        process = process_tree.read_process(pid)
        start = process.start if process else 0
        watch = Watch(pid, start, lambda: None, pidfd)
        link = self._pool.link(pid, start, watch, asked.orders) if asked is not None else None
        if asked is not None and link is not None and asked.is_over:  # before we were told that there is one
            self._pool.keep(asked.account, link)
        elif held is None or held.ended.is_set():
            (link or watch).close()
        else:
            held.awaits_answer = False
            self._supervised(held, pid, start, watch, link)
        self._serve()

    def _supervised(self, held: Attempt, pid: int, start: int, watch: Watch, link: SupervisorLink | None) -> None:
        """This process is its supervisor; `link`: where that takes further orders."""
        self._unwatch(held)
        held.supervisor = (pid, start)
        held.was_seen = True
        held.link = link
        held.watch = watch
        watch.redirect(lambda: self._examine(held))

    def _drop_asked(self, name: str) -> None:
        """Whoever was asked for under this name takes no further order."""
        asked = self._asked.pop(name, None)
        if asked is not None:
            asked.orders.close()

    def _refused(self, name: str, why: str) -> None:
        self._drop_asked(name)
        held = self._held.get(name)
        if held is not None and not held.ended.is_set():
            self._finish(held, _not_started(coded("attempt.no_process", why)))
        self._serve()

    def _fork_server_lost(self) -> None:
        for name in list(self._asked):
            self._drop_asked(name)
        for held in list(self._held.values()):
            if held.awaits_answer:
                held.awaits_answer = False
                self._examine(held)
        self._serve()

    def _notice(self, name: str) -> None:
        held = self._held.get(name)
        if held is not None:
            self._note_started(held)
            self._endings.note_unkillable(held, self._spool.unkillable(name))
            self._note_warned(held)
            held.tell_news()

    def _over(self, name: str) -> None:
        """Its supervisor has written how it ended, and may have another order when that is known here."""
        asked, held = self._asked.get(name), self._held.get(name)
        if asked is not None:
            asked.is_over = True
        if held is None or held.ended.is_set():
            return
        link, held.link = held.link, None
        if link is not None:
            held.watch = None  # that of the next attempt
        result = self._spool.status(name)
        if result is None:  # somebody has removed the folder in between
            self._examine(held)
        else:
            self._note_started(held)
            self._finish(held, self._judged(held, result))
        held.supervisor = None  # it may be another's from now on
        if link is not None:
            self._pool.keep(held.account, link)
            self._serve()

    def _note_started(self, held: Attempt) -> None:
        """Report the start once it is on record."""
        if held.started is not None or held.ended.is_set():
            return
        held.started = started = self._spool.started(held.name)
        if started is None:
            return
        held.supervisor = (started.supervisor.pid, started.supervisor.start)
        held.let_go.set()
        info = StartedInfo(
            pid=started.pid,
            started_at=started.started_at,
            exec_home=started.exec_home,
            exec_cwd=started.exec_cwd,
            boot_id=started.supervisor.boot_id,
        )
        self._on_started(*held.key, info)

    def _note_warned(self, held: Attempt) -> None:
        """Report that its supervisor has warned the job of its end; not that it was asked to save its state."""
        if not held.saves and not held.is_part and self._spool.is_warned(held.name):
            self._on_warned(*held.key, self._spool.deadline(held.name))

    # -- following -----------------------------------------------------------------------------------------------

    def take_up(self, name: str) -> bool:
        """Hold an attempt that is in the spool; False when the folder is rubbish."""
        order = self._spool.order(name)
        if order is None:
            return False
        held = self._held[name] = Attempt(order, name)
        held.limits = self._spool.limits(name) or held.limits
        held.usage = Sampler(self._spool.figures(name))
        self._examine(held)
        return True

    def _examine(self, held: Attempt) -> None:
        """Find out from its files and processes where an attempt stands, and go on from there."""
        self._unwatch(held)
        if held.ended.is_set():
            return
        claim = self._spool.claim(held.name)
        # Before its status is read: one that ends in between has written it.
        is_alive = claim is not None and process_tree.is_alive(claim.pid, claim.start)
        result = self._spool.status(held.name)
        if result is not None:
            self._note_started(held)
            self._finish(held, self._judged(held, result))
        elif claim is None:
            self._examine_unclaimed(held)
        elif claim.boot_id != self._boot_id:
            self._note_started(held)
            lost = self._unknown_end(held, coded("attempt.host_restarted"))
            self._finish(held, msgspec.structs.replace(lost, host_down=lost.started))
        elif is_alive:
            self._follow(held, claim)
        else:
            self._follow_unsupervised(held)

    def _examine_unclaimed(self, held: Attempt) -> None:
        if held.started is not None:  # somebody removed its folder; it has run, and must not run again
            self._follow_unsupervised(held)
        elif not self._spool.is_claimed(held.name):
            self.request(held)
        elif held.looks < _MAX_LOOKS:  # the claim is being written at this moment
            self._look_again(held)
        else:
            self._follow_unsupervised(held)

    def _follow(self, held: Attempt, claim: SupervisorClaim) -> None:
        """A supervisor lives: its end is the next event."""
        held.supervisor = (claim.pid, claim.start)
        held.was_seen = True
        held.watch = Watch(claim.pid, claim.start, lambda: self._examine(held))
        self._note_started(held)
        self._endings.note_unkillable(held, self._spool.unkillable(held.name))
        self._note_warned(held)
        if held.started is None:
            # Its notice may have gone to an agent that is no more, however late it begins.
            held.looks = min(held.looks + 1, _MAX_LOOKS)
            held.timers.append(self._loop.call_later(_LOOK_AGAIN_S * held.looks, self._look_for_start, held))

    def _look_for_start(self, held: Attempt) -> None:
        self._note_started(held)
        if held.started is None:
            self._examine(held)

    def _look_again(self, held: Attempt) -> None:
        held.looks += 1
        held.timers.append(self._loop.call_later(_LOOK_AGAIN_S, self._examine, held))

    def _follow_unsupervised(self, held: Attempt) -> None:
        """The supervisor was killed. Follow the job itself as long as it lives; its exit status is lost."""
        held.supervisor = None
        self._note_started(held)
        started = held.started
        if started is None:  # the gate never opened, so the command was never executed
            if not held.is_part:
                self._finish(held, _not_started(coded("attempt.killed_early")))
            elif not held.is_swept:  # of what runs before a part is open something may be left
                held.is_swept = True
                self.spawn(self._sweep_unopened(held))
            return
        if process_tree.is_alive(started.pid, started.start):
            held.was_seen = True
            held.watch = Watch(started.pid, started.start, lambda: self._examine(held))
            self._limit_unsupervised(held, started)
            return
        if not held.is_swept:  # what follows the job is run once
            held.is_swept = True
            self.spawn(self._sweep_unsupervised(held))

    def _limit_unsupervised(self, held: Attempt, started: Started) -> None:
        """Its limits are the agent's to enforce now."""
        if held.unsupervised is None:
            held.unsupervised = UnsupervisedJob(
                held.limits,
                held.terminate_interval_s,
                started.started_at,
                find=lambda: attempt_processes.now(held),
                is_suspended=lambda: self._spool.is_suspended(held.name),
                clock=self._clock,
                on_helpless=lambda: self._endings.note_unkillable(held, named(attempt_processes.now(held))),
                warning=self._warning_of(held),
                is_contained=held.reach.is_contained,
            )

    def _warning_of(self, held: Attempt) -> EndWarning | None:
        """What its supervisor has not told the job."""
        order = self._spool.order(held.name)
        if order is None or not order.warning_signal or self._spool.is_warned(held.name):
            return None
        number, target = order.warning_signal, order.warning_target

        def send() -> None:
            self._spool.mark_warned(held.name)
            self._spool.note_deadline(held.name, self._clock.now() + order.warning_s)
            process_tree.send_all(to_be_warned(held, target, number), number)
            self._note_warned(held)

        return EndWarning(order.warning_s, order.terminate_at, send)

    async def _sweep_unopened(self, held: Attempt) -> None:
        left = await self._endings.sweep(held)
        self._finish(held, _not_started(listed([coded("attempt.killed_early"), left], "list.semicolon")))

    async def _sweep_unsupervised(self, held: Attempt) -> None:
        held.problem = await self._endings.sweep(held)
        waited = self._spool.waited(held.name)
        lost = "attempt.supervisor_killed" if waited is None else "attempt.supervisor_gone"
        what = coded("attempt.part_killed" if held.is_part else lost)
        order = self._spool.order(held.name)
        code, told = None, list[AnyText]()
        if order is not None:
            code, told = await run_last(order, self._spool.folder(held.name), held.group, self.forks.run)
        result = self._unknown_end(held, listed([what, held.problem, *told], "list.semicolon"))
        if waited is not None:
            result = _ended(result, waited)
        self._finish(held, msgspec.structs.replace(result, post_code=code))

    def _unknown_end(self, held: Attempt, problem: AnyText) -> AttemptResult:
        now = self._clock.now()
        run_s = max(now - held.started.started_at, 0.0) if held.started else 0.0
        term_reason = held.unsupervised.term_reason if held.unsupervised is not None else ""
        return AttemptResult(
            ended_at=now,
            run_s=run_s,
            problem=problem,
            term_reason=term_reason,
            started=held.started is not None,
            wants_requeue=self._spool.wants_requeue(held.name),
        )

    def _judged(self, held: Attempt, result: AttemptResult) -> AttemptResult:
        """The result, unless it is the work of a shutdown of the machine: then nobody knows how it would have ended."""
        claim = self._spool.claim(held.name) if self._shutdown is not None else None
        if claim is None or self._shutdown is None or claim.boot_id == self._boot_id:
            return result
        if not self._shutdown.ended(result, claim.boot_id):
            return result
        unknown = self._unknown_end(held, PROBLEM)
        return msgspec.structs.replace(unknown, ended_at=result.ended_at, run_s=result.run_s, host_down=True)

    def _finish(self, held: Attempt, result: AttemptResult) -> None:
        if held.ended.is_set():
            return
        self._unwatch(held)
        if held.unsupervised is not None:
            held.unsupervised.close()
        if held.group is not None:
            held.group.remove()  # its supervisor does; unless that was killed
        held.ended.set()
        held.let_go.set()
        held.tell_news()
        if not result.ended_at:
            result = msgspec.structs.replace(result, ended_at=self._clock.now())
        self._on_ended(*held.key, msgspec.structs.replace(result, usage=held.usage.final(result.usage, result.run_s)))

    def _unwatch(self, held: Attempt) -> None:
        if held.link is not None:
            held.link.close()
            held.link = None
        if held.watch is not None:
            held.watch.close()
            held.watch = None
        for timer in held.timers:
            timer.cancel()
        held.timers.clear()

    def close(self) -> None:
        """Stop watching and end the fork server. Supervisors and jobs go on."""
        for held in self._held.values():
            self._unwatch(held)
            if held.unsupervised is not None:
                held.unsupervised.close()
        for name in list(self._asked):
            self._drop_asked(name)
        self._pool.close()
        for task in self._tasks:
            task.cancel()
        self.forks.close()

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Do what goes on for a while for one of the attempts; it is dropped by `close`."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Asked:
    """A supervisor that was asked for: whose it is, and the socket that it is to get further orders by."""

    __slots__ = ("account", "is_over", "orders")

    def __init__(self, account: UnixAccount | None, orders: socket.socket) -> None:
        self.account = account
        self.orders = orders
        self.is_over = False
        """Its first attempt is over already, and it waits."""


def _ended(result: AttemptResult, waited: WaitedEnd) -> AttemptResult:
    """As its main process did; what it used is not known."""
    status, run_s = waited.status, max(result.run_s - (result.ended_at - waited.ended_at), 0.0)
    return msgspec.structs.replace(
        result,
        exit_code=None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        core_dumped=os.WCOREDUMP(status),
        ended_at=waited.ended_at,
        run_s=run_s,
    )


def _not_started(problem: AnyText) -> AttemptResult:
    return AttemptResult(started=False, problem=problem)
