"""The executor that runs real processes: it hands orders to the fork server and follows their supervisors to the end.

Truth lies in the attempt folders and in the kernel; what is kept here can be rebuilt by `adopt` at any time, so killing
the process that hosts an executor loses nothing. Everything is driven by events: pidfds, the fork server's answers and
the supervisors' notices. Never starts an attempt twice (the supervisors' claim sees to it), never ends one unasked.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path

import msgspec

from gsched.base.clock import Clock, SystemClock
from gsched.base.errors import Conflict
from gsched.base.gpulock import default_folder
from gsched.base.ids import attempt_name, parse_attempt_name
from gsched.model.job import AttemptResult, Usage
from gsched.run import attemptfiles, contain, members, parts, supervisor
from gsched.run.account import Account
from gsched.run.attempt import Attempt
from gsched.run.ending import BEGIN_S, Endings, named
from gsched.run.jobreport import Facts
from gsched.run.laststeps import run_last
from gsched.run.launch import ForkServer, Watch
from gsched.run.order import Key, Limits, OnEnded, OnStarted, OnUnkillable, Order, StartedInfo
from gsched.run.orphan import EndWarning, Orphan
from gsched.run.shellline import in_place
from gsched.run.shutdown import PROBLEM, last_shutdown
from gsched.run.spool import Claim, Spool, Started
from gsched.run.tasking import Tasking

MAILED_OUTPUT = 1 << 20
"""Bytes of a job's output in a mail at most."""
_MAX_TRIES = 3
"""Supervisors that may die before they have claimed an attempt, until it is given up."""
_LOOK_AGAIN_S = 0.05
_MAX_LOOKS = 40
_FREEZE_LOOK_S = 0.001
_FREEZE_LOOKS = 100


class ProcessExecutor:
    """Runs attempts as processes of this user. Must be made inside a running event loop."""

    def __init__(
        self,
        spool: Path,
        cluster: str,
        *,
        on_started: OnStarted,
        on_ended: OnEnded,
        on_unkillable: OnUnkillable = lambda job_id, attempt, processes: None,
        clock: Clock | None = None,
        gpu_lock_folder: Path | None = None,
    ) -> None:
        """`cluster` must be unique on this machine: it tells this cluster's GPU locks and processes from others'.

        Raises ResourceExhausted when the spool folder cannot be made.
        """
        self._spool = Spool(spool)
        self._cluster = cluster
        self._on_started = on_started
        self._on_ended = on_ended
        self._endings = Endings(self._spool, on_unkillable)
        self._clock = clock or SystemClock()
        self._boot_id = contain.boot_id()
        self._shutdown = last_shutdown(spool)
        self._held: dict[str, Attempt] = {}
        self.tasking = Tasking(self._held, self._spool)
        """What there is for tasks of these attempts."""
        self._table: tuple[float, dict[int, contain.Process]] = (-1.0, {})
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._forks = ForkServer(
            self._spool.attempts,
            cluster,
            str(gpu_lock_folder or default_folder()),
            on_forked=self._forked,
            on_refused=self._refused,
            on_started=self._notice,
            on_lost=self._fork_server_lost,
        )

    # -- the interface -------------------------------------------------------------------------------------------

    async def start(self, order: Order) -> None:
        """Run the attempt unless it is known. Raises ResourceExhausted when its folder cannot be written."""
        name = attempt_name(order.job_id, order.attempt)
        if name in self._held:
            return
        # The mark last: a job that was submitted by a job brings the mark of that one along.
        marked = {**order.environment, "PWD": order.cwd, contain.MARK_VARIABLE: f"{self._cluster}/{name}"}
        command = order.command if order.job_starter else in_place(order.command, marked)
        of_site = {**order.site_environment, contain.MARK_VARIABLE: marked[contain.MARK_VARIABLE]}
        order = msgspec.structs.replace(order, environment=marked, command=command, site_environment=of_site)
        if self._spool.write_order(order):
            held = self._held[name] = Attempt(order, name)
            self._request(held)
        elif not self._take_up(name):  # a folder that a crash of the machine left half made
            self._spool.remove(name)
            await self.start(order)

    async def adopt(self) -> list[Key]:
        """Take up every attempt in the spool; those nobody has claimed are started now."""
        keys = []
        for name in self._spool.names():
            if name in self._held or self._take_up(name):
                keys.append(parse_attempt_name(name))
            else:
                self._spool.remove(name)
        try:
            self._forks.launch()  # ready before the first job, not because of it
        except OSError:  # said with the first job that needs it
            pass
        return keys

    async def signal(self, job_id: int, attempt: int, signum: int, everything: bool = True) -> None:
        """Signal all processes of the attempt, or its main process alone."""
        held = self._running(job_id, attempt)
        if held is None:
            return
        if signum == signal.SIGKILL and everything:
            await self._endings.begun_or_killed(held)
        await self._once_begun(held, lambda: self._signal(held, signum, everything))

    async def _signal(self, held: Attempt, signum: int, everything: bool) -> None:
        if everything:
            reached, _ = contain.send_each(self._tree(held), signum)
            if signum == signal.SIGKILL and held.group is not None:
                held.group.thaw()  # else it arrives when the job is resumed
            if signum == signal.SIGKILL:
                self._spawn(self._endings.see_dead(held, reached))
        elif held.started is not None:
            main = contain.read_process(held.started.pid)
            if main is not None and main.start == held.started.start:
                contain.send(main, signum)

    async def terminate(self, job_id: int, attempt: int, interval_s: float) -> None:
        """Begin INT, TERM, KILL, `interval_s` apart; a repeat has an effect only with a shorter interval."""
        held = self._running(job_id, attempt)
        if held is None:
            return
        if held.ending is not None and not held.ending.done():
            if interval_s >= held.terminate_interval_s:
                return
            held.ending.cancel()
        held.terminate_interval_s = interval_s
        held.ending = self._spawn(self._endings.end(held, interval_s))

    async def close_part(self, job_id: int, attempt: int) -> None:
        """End a part with whatever runs there: its job is over."""
        held = self._running(job_id, attempt)
        if held is not None and held.is_part:
            await self._endings.begun_or_killed(held)
            members.tell(held, parts.CLOSE)

    async def suspend(self, job_id: int, attempt: int) -> None:
        """Stop every process of the attempt, and its run limit's clock."""
        held = self._running(job_id, attempt)
        if held is not None:
            await self._once_begun(held, lambda: self._suspend(held))

    async def _suspend(self, held: Attempt) -> None:
        if not held.ended.is_set():
            self._spool.set_suspended(held.name, True)
            await self._stop(held)
            self._poke(held)

    async def _once_begun(self, held: Attempt, act: Callable[[], Coroutine[object, object, None]]) -> None:
        """Do it when the job has begun. A start that hangs holds up no other order, above all not that to end it."""
        try:
            await asyncio.wait_for(held.let_go.wait(), BEGIN_S)
        except TimeoutError:
            self._spawn(_after(held.let_go, act))
        else:
            await act()

    async def _stop(self, held: Attempt) -> None:
        """Freeze the attempt's group, which it does not notice; SIGSTOP for what is not in a group."""
        group = held.group
        if group is None or not group.freeze():
            contain.stop(lambda: self._tree(held))
            return
        for _ in range(_FREEZE_LOOKS):
            if group.is_frozen():
                break
            await asyncio.sleep(_FREEZE_LOOK_S)
        inside = set(group.pids())
        contain.stop(lambda: [each for each in self._tree(held) if each.pid not in inside])

    async def resume(self, job_id: int, attempt: int) -> None:
        """Let every process of the attempt go on."""
        held = self._running(job_id, attempt)
        if held is not None:
            await self._once_begun(held, lambda: self._resume(held))

    async def _resume(self, held: Attempt) -> None:
        self._spool.set_suspended(held.name, False)
        self._poke(held)
        if held.group is not None:
            held.group.thaw()
        contain.resume(lambda: self._tree(held))

    async def limit(self, job_id: int, attempt: int, limits: Limits) -> None:
        """Write the limits down, then tell whoever enforces them. Raises ResourceExhausted when that cannot be done."""
        held = self._running(job_id, attempt)
        if held is None:
            return
        if held.is_part:  # the job's first host minds its run time
            limits = msgspec.structs.replace(limits, run_limit_s=None)
        self._spool.set_limits(held.name, limits)
        held.limits = limits
        await self._once_begun(held, lambda: self._limit(held, limits))

    async def _limit(self, held: Attempt, limits: Limits) -> None:
        if held.orphan is not None:
            held.orphan.renew(limits)
        self._poke(held)

    def usage(self, job_id: int, attempt: int) -> Usage | None:
        """A sample of the attempt's processes. One look at /proc serves all attempts asked about within 0.2 s."""
        held = self._running(job_id, attempt)
        if held is None or held.started is None:
            return None
        taken, table = self._table
        if time.monotonic() - taken > 0.2:
            table = contain.scan()
            self._table = (time.monotonic(), table)
        reaper = table.get(held.supervisor[0]) if held.supervisor else None
        found, now = members.members(held, table), self._clock.now()
        if held.is_part:
            return held.usage.sample_part(found, reaper, now)
        return held.usage.sample(found, reaper, held.started.pid, now)

    def owners(self, pids: Iterable[int]) -> dict[int, str]:
        """Process id -> name of the attempt that it belongs to, of those that belong to one that has not ended."""
        return members.owners((held for held in self._held.values() if not held.ended.is_set()), pids)

    def running(self) -> list[Key]:
        """Attempts that have not ended."""
        return [held.key for held in self._held.values() if not held.ended.is_set()]

    def hostfile(self, job_id: int, attempt: int) -> str:
        """Path of the file that an order's `hostfile` is written to."""
        return str(self._spool.folder(attempt_name(job_id, attempt)) / attemptfiles.HOSTFILE)

    def script_file(self, job_id: int, attempt: int) -> str:
        """Path of the file that an order's `script` is written to."""
        return str(self._spool.folder(attempt_name(job_id, attempt)) / attemptfiles.SCRIPT)

    def affinity_hostfile(self, job_id: int, attempt: int) -> str:
        """Path of the file that an order's `affinity_hostfile` is written to."""
        return str(self._spool.folder(attempt_name(job_id, attempt)) / attemptfiles.AFFINITY)

    def started(self, job_id: int, attempt: int) -> Started | None:
        """The job as its supervisor recorded it; None for one that has not started."""
        held = self._held.get(attempt_name(job_id, attempt))
        return held.started if held is not None else None

    def report(self, job_id: int, attempt: int, facts: Facts, result: AttemptResult) -> None:
        """Put the report below the job's output, once. Blocks as its file system does; may run in another thread.

        Raises OSError.
        """
        name = attempt_name(job_id, attempt)
        self._spool.report(name, facts, result, self._clock.now(), self._account(name))

    def report_text(self, job_id: int, attempt: int, facts: Facts, result: AttemptResult) -> str:
        """The report as it is mailed. Raises OSError."""
        name, most = attempt_name(job_id, attempt), MAILED_OUTPUT
        output = b"" if facts.output_file else self._spool.read_output(name, "stdout", 0, most, self._account(name))
        return self._spool.report_text(name, facts, result, self._clock.now(), output.decode(errors="replace"))

    def is_first(self, job_id: int, attempt: int, what: str) -> bool:
        """Whether nobody has asked this before, of that attempt and that matter. Raises OSError."""
        return self._spool.is_first(attempt_name(job_id, attempt), what)

    def order(self, job_id: int, attempt: int) -> Order | None:
        """The order of an attempt that is held here; None for another one."""
        name = attempt_name(job_id, attempt)
        return self._spool.order(name) if name in self._held else None

    def forget(self, job_id: int, attempt: int) -> None:
        """Remove an ended attempt and its folder. Raises Conflict while it runs."""
        name = attempt_name(job_id, attempt)
        held = self._held.get(name)
        if held is not None and not held.ended.is_set():
            raise Conflict(f"attempt {name} has not ended")
        if self._held.pop(name, None) is not None:
            self._spool.remove(name)

    def read_output(self, job_id: int, attempt: int, stream: str, offset: int, limit: int) -> bytes:
        """Bytes of "stdout" or "stderr"; empty at the end, for merged standard error, and for unknown attempts."""
        name = attempt_name(job_id, attempt)
        return self._spool.read_output(name, stream, offset, limit, self._account(name))

    def user_of(self, job_id: int, attempt: int) -> str:
        """The job's user where that is not the agent's; else empty."""
        account = self._account(attempt_name(job_id, attempt))
        return account.name if account is not None else ""

    def _account(self, name: str) -> Account | None:
        held = self._held.get(name)
        return held.account if held is not None else None

    def close(self) -> None:
        """Stop watching and end the fork server. Supervisors and jobs go on."""
        for held in self._held.values():
            self._unwatch(held)
            if held.orphan is not None:
                held.orphan.close()
        for task in self._tasks:
            task.cancel()
        self._forks.close()
        self._held.clear()

    # -- starting ------------------------------------------------------------------------------------------------

    def _request(self, held: Attempt) -> None:
        if held.tries >= _MAX_TRIES:
            where = self._spool.attempts
            self._finish(held, _not_started(f"no supervisor could claim the attempt (can {where} be written?)"))
            return
        held.tries += 1
        held.awaits_answer = True
        try:
            self._forks.ask(held.name)
        except OSError as error:
            self._finish(held, _not_started(f"cannot start a process: {error.strerror}"))

    def _forked(self, name: str, pid: int, pidfd: int) -> None:
        held = self._held.get(name)
        process = contain.read_process(pid)
        start = process.start if process else 0
        if held is None or held.ended.is_set():
            Watch(pid, start, lambda: None, pidfd).close()
            return
        held.awaits_answer = False
        self._unwatch(held)
        held.supervisor = (pid, start)
        held.was_seen = True
        held.watch = Watch(pid, start, lambda: self._examine(held), pidfd)

    def _refused(self, name: str, why: str) -> None:
        held = self._held.get(name)
        if held is not None and not held.ended.is_set():
            self._finish(held, _not_started(why))

    def _fork_server_lost(self) -> None:
        for held in list(self._held.values()):
            if held.awaits_answer:
                held.awaits_answer = False
                self._examine(held)

    def _notice(self, name: str) -> None:
        held = self._held.get(name)
        if held is not None:
            self._note_started(held)
            self._endings.note_unkillable(held, self._spool.unkillable(name))
            held.tell_news()

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

    # -- following -----------------------------------------------------------------------------------------------

    def _take_up(self, name: str) -> bool:
        """Hold an attempt that is in the spool; False when the folder is rubbish."""
        order = self._spool.order(name)
        if order is None:
            return False
        held = self._held[name] = Attempt(order, name)
        held.limits = self._spool.limits(name) or held.limits
        self._examine(held)
        return True

    def _examine(self, held: Attempt) -> None:
        """Find out from its files and processes where an attempt stands, and go on from there."""
        self._unwatch(held)
        if held.ended.is_set():
            return
        result = self._spool.status(held.name)
        if result is not None:
            self._note_started(held)
            self._finish(held, self._judged(held, result))
            return
        claim = self._spool.claim(held.name)
        if claim is None:
            self._examine_unclaimed(held)
        elif claim.boot_id != self._boot_id:
            self._note_started(held)
            lost = self._unknown_end(held, "the host restarted while the job ran")
            self._finish(held, msgspec.structs.replace(lost, host_down=lost.started))
        elif contain.is_alive(claim.pid, claim.start):
            self._follow(held, claim)
        else:
            self._orphaned(held)

    def _examine_unclaimed(self, held: Attempt) -> None:
        if held.started is not None:  # somebody removed its folder; it has run, and must not run again
            self._orphaned(held)
        elif not self._spool.is_claimed(held.name):
            self._request(held)
        elif held.looks < _MAX_LOOKS:  # the claim is being written at this moment
            self._look_again(held)
        else:
            self._orphaned(held)

    def _follow(self, held: Attempt, claim: Claim) -> None:
        """A supervisor lives: its end is the next event."""
        held.supervisor = (claim.pid, claim.start)
        held.was_seen = True
        held.watch = Watch(claim.pid, claim.start, lambda: self._examine(held))
        self._note_started(held)
        self._endings.note_unkillable(held, self._spool.unkillable(held.name))
        if held.started is None and held.looks < _MAX_LOOKS:
            # Its notice may have gone to an agent that is no more.
            held.timers.append(self._loop.call_later(_LOOK_AGAIN_S * (1 + held.looks), self._look_for_start, held))
            held.looks += 1

    def _look_for_start(self, held: Attempt) -> None:
        self._note_started(held)
        if held.started is None:
            self._examine(held)

    def _look_again(self, held: Attempt) -> None:
        held.looks += 1
        held.timers.append(self._loop.call_later(_LOOK_AGAIN_S, self._examine, held))

    def _orphaned(self, held: Attempt) -> None:
        """The supervisor was killed. Follow the job itself as long as it lives; its exit status is lost."""
        held.supervisor = None
        self._note_started(held)
        started = held.started
        if started is None:  # the gate never opened, so the command was never executed
            self._finish(held, _not_started("its supervisor was killed before the job started"))
            return
        if contain.is_alive(started.pid, started.start):
            held.was_seen = True
            held.watch = Watch(started.pid, started.start, lambda: self._examine(held))
            self._limit_orphan(held, started)
            return
        if not held.is_swept:  # what follows the job is run once
            held.is_swept = True
            self._spawn(self._sweep_orphans(held))

    def _limit_orphan(self, held: Attempt, started: Started) -> None:
        """Its limits are the agent's to enforce now."""
        if held.orphan is None:
            held.orphan = Orphan(
                held.limits,
                held.terminate_interval_s,
                started.started_at,
                find=lambda: self._tree(held),
                is_suspended=lambda: self._spool.is_suspended(held.name),
                clock=self._clock,
                on_helpless=lambda: self._endings.note_unkillable(held, named(self._tree(held))),
                warning=self._warning_of(held),
            )

    def _warning_of(self, held: Attempt) -> EndWarning | None:
        """What its supervisor has not told the job."""
        order = self._spool.order(held.name)
        if order is None or not order.warning_signal or self._spool.is_warned(held.name):
            return None
        number = order.warning_signal

        def send() -> None:
            self._spool.mark_warned(held.name)
            contain.send_all(self._tree(held), number)

        return EndWarning(order.warning_s, order.terminate_at, send)

    async def _sweep_orphans(self, held: Attempt) -> None:
        held.problem = await self._endings.sweep(held)
        what = "the job's supervisor was killed, so its exit status is not known"
        if held.is_part:
            what = "the supervisor of this part of the job was killed"
        order = self._spool.order(held.name)
        code, told = None, list[str]()
        if order is not None:
            code, told = await run_last(order, self._spool.folder(held.name), held.group)
        result = self._unknown_end(held, "; ".join(text for text in (what, held.problem, *told) if text))
        self._finish(held, msgspec.structs.replace(result, post_code=code))

    def _unknown_end(self, held: Attempt, problem: str) -> AttemptResult:
        now = self._clock.now()
        run_s = max(now - held.started.started_at, 0.0) if held.started else 0.0
        term_reason = held.orphan.term_reason if held.orphan is not None else ""
        return AttemptResult(
            ended_at=now, run_s=run_s, problem=problem, term_reason=term_reason, started=held.started is not None
        )

    def _judged(self, held: Attempt, result: AttemptResult) -> AttemptResult:
        """The result, unless it is the work of a shutdown of the machine: then nobody knows how it would have ended."""
        claim = self._spool.claim(held.name)
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
        if held.orphan is not None:
            held.orphan.close()
        if held.group is not None:
            held.group.remove()  # its supervisor does; unless that was killed
        held.ended.set()
        held.let_go.set()
        held.tell_news()
        if not result.ended_at:
            result = msgspec.structs.replace(result, ended_at=self._clock.now())
        self._on_ended(*held.key, msgspec.structs.replace(result, usage=held.usage.final(result.usage)))

    def _poke(self, held: Attempt) -> None:
        if held.orphan is not None:
            held.orphan.poke()
        members.tell(held, supervisor.POKE)

    def _tree(self, held: Attempt) -> list[contain.Process]:
        """Its living processes, now."""
        return members.now(held)

    def _running(self, job_id: int, attempt: int) -> Attempt | None:
        held = self._held.get(attempt_name(job_id, attempt))
        return None if held is None or held.ended.is_set() else held

    def _unwatch(self, held: Attempt) -> None:
        if held.watch is not None:
            held.watch.close()
            held.watch = None
        for timer in held.timers:
            timer.cancel()
        held.timers.clear()

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _after(event: asyncio.Event, act: Callable[[], Coroutine[object, object, None]]) -> None:
    await event.wait()
    await act()


def _not_started(problem: str) -> AttemptResult:
    return AttemptResult(started=False, problem=problem)
