"""The executor that runs real processes: what an agent can ask of attempts on this host.

It writes orders and passes on signals; where each attempt stands is followed by attempt_following. Truth lies in the
attempt folders and in the kernel; what is kept here can be rebuilt by `adopt` at any time, so killing the process that
hosts an executor loses nothing. Never starts an attempt twice (the supervisors' claim sees to it), never ends one
unasked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path

import msgspec

from gsched.base.clock import Clock, SystemClock
from gsched.base.coded_text import coded
from gsched.base.errors import Conflict, ResourceExhausted
from gsched.base.ids import attempt_name, parse_attempt_name
from gsched.base.machine.gpu_lock import GpuLockFolders, places
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.run import attempt_files
from gsched.run.account import UnixAccount
from gsched.run.attempts.attempt import Attempt
from gsched.run.attempts.attempt_ending import BEGIN_S, HANGUP_S, AttemptEndings
from gsched.run.attempts.attempt_following import AttemptFollower
from gsched.run.attempts.control_actions import ControlActions, SuspendReasons
from gsched.run.attempts.lost_folders import put_back, record_again
from gsched.run.attempts.shutdown import last_shutdown
from gsched.run.attempts.task_orders import TaskOrders
from gsched.run.attempts.usage_samples import UsageSamples
from gsched.run.containers.container_processes import main_of
from gsched.run.order import AttemptLimits, OnEnded, OnStarted, OnUnkillable, OnWarned, Order, RunKey, SaveOrder
from gsched.run.processes import attempt_processes, process_tree
from gsched.run.program import Program, ProgramEnd
from gsched.run.report.job_report import ReportFacts
from gsched.run.shell_line import in_place
from gsched.run.spool import Spool, Started
from gsched.run.supervisor import host_parts, supervisor_signals
from gsched.run.supervisor.run_limits import KILL_WAIT_S

MAILED_OUTPUT = 1 << 20
"""Bytes of a job's output in a mail at most."""
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
        on_warned: OnWarned = lambda job_id, attempt, ends_by: None,
        clock: Clock | None = None,
        gpu_locks: GpuLockFolders | None = None,
    ) -> None:
        """`cluster` must be unique on this machine: it tells this cluster's GPU locks and processes from others'.
        `gpu_locks`: where these are, where that is not as for a private cluster.

        Raises ResourceExhausted when the spool folder cannot be made.
        """
        self._spool = Spool(spool)
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._actions = ControlActions(self._spool, self._run_of_site, self._beside)
        self._endings = AttemptEndings(self._spool, on_unkillable, self._clock, self._actions)
        self._held: dict[str, Attempt] = {}
        self.tasking = TaskOrders(self._held, self._spool)
        """What there is for tasks of these attempts."""
        self.samples = UsageSamples(self._spool, self._clock)
        self._following = AttemptFollower(
            self._held,
            self._spool,
            cluster,
            gpu_locks or places(is_shared=False),
            last_shutdown(spool),
            self._endings,
            self._clock,
            on_started=on_started,
            on_ended=on_ended,
            on_warned=on_warned,
        )
        self._forks = self._following.forks
        self.run_program = self._forks.run
        """Run a program of another user, or in a control group (see ForkServer.run)."""

    # -- the interface -------------------------------------------------------------------------------------------

    async def start(self, order: Order) -> None:
        """Run the attempt unless it is known. Raises ResourceExhausted when its folder cannot be written."""
        name = attempt_name(order.job_id, order.attempt)
        if name in self._held:
            return
        # The mark last: a job that was submitted by a job brings the mark of that one along.
        marked = {**order.environment, "PWD": order.cwd, process_tree.MARK_VARIABLE: f"{self._cluster}/{name}"}
        command = order.command if order.job_starter else in_place(order.command, marked)
        of_site = {**order.site_environment, process_tree.MARK_VARIABLE: marked[process_tree.MARK_VARIABLE]}
        order = msgspec.structs.replace(order, environment=marked, command=command, site_environment=of_site)
        if self._spool.write_order(order):
            held = self._held[name] = Attempt(order, name)
            self._following.request(held)
        elif not self._following.take_up(name):  # a folder that a crash of the machine left half made
            self._spool.remove(name)
            await self.start(order)

    async def adopt(self) -> list[RunKey]:
        """Take up every attempt in the spool; those nobody has claimed are started now."""
        keys = []
        try:
            record_again(self._spool, self._cluster)
        except OSError as error:
            why = coded("attempt.of_path", str(self._spool.attempts), str(error.strerror or error))
            raise ResourceExhausted(why) from error
        for name in self._spool.names():
            if name in self._held or self._following.take_up(name):
                keys.append(parse_attempt_name(name))
            else:
                self._spool.remove(name)
        try:
            self._forks.launch()  # ready before the first job, not because of it
        except OSError:  # said with the first job that needs it
            pass
        return keys

    def put_back_folders(self) -> set[str]:
        """Make the folders again that somebody has removed of attempts that run; names those. Raises ResourceExhausted,
        OSError."""
        running = [held.name for held in self._held.values() if held.started is not None and not held.ended.is_set()]
        return put_back(self._spool, self._cluster, running)

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
            told = held.reach.meant(self._tree(held), signum)
            reached, _ = process_tree.send_each(told, signum)
            if signum == signal.SIGKILL and held.group is not None:
                held.group.thaw()  # else it arrives when the job is resumed
            if signum == signal.SIGKILL:
                self._following.spawn(self._endings.see_dead(held, reached))
        elif held.started is not None:
            main = process_tree.read_process(held.started.pid)
            if main is None or main.start != held.started.start:
                return
            if held.reach.is_contained:
                there = self._tree(held)
                inside = main_of(there, main.pid, is_contained=True)
                main = next((each for each in there if each.pid == inside), main)
            process_tree.send(main, signum)

    async def pass_on(
        self, job_id: int, attempt: int, number: int, act: Callable[[], Coroutine[object, object, None]]
    ) -> None:
        """Send the signal of that number by `act` when the job has begun, unless it or a later one was sent before."""
        held = self._running(job_id, attempt)
        if held is not None:
            await self._once_begun(held, lambda: self._pass_on(held, number, act))

    async def _pass_on(self, held: Attempt, number: int, act: Callable[[], Coroutine[object, object, None]]) -> None:
        if number > self._spool.last_signal(held.name):
            self._spool.note_signal(held.name, number)
            await act()

    def last_signal(self, job_id: int, attempt: int) -> int:
        """Number of the last signal that was passed on to it; 0: none was."""
        return self._spool.last_signal(attempt_name(job_id, attempt))

    async def terminate(
        self,
        job_id: int,
        attempt: int,
        interval_s: float,
        *,
        hangup: bool = False,
        kill_delay_s: float | None = None,
        save: SaveOrder | None = None,
    ) -> None:
        """Begin INT, TERM, KILL, `interval_s` apart; a repeat has an effect only with a shorter interval.

        `hangup`: its terminal is gone, so HUP, and KILL soon afterwards. `kill_delay_s`: somebody wants this interval,
        which no repeat without one changes. `save`: it is asked to save its state first, and has time for that, which
        any order without it cuts short.
        """
        interval_s = min(interval_s, HANGUP_S) if hangup else interval_s
        held = self._running(job_id, attempt)
        if held is None:
            return
        if kill_delay_s is not None:
            interval_s = kill_delay_s
        elif held.ends_by_term and not hangup:
            interval_s = KILL_WAIT_S
        if held.ending is not None and not held.ending.done() and (save is not None or not held.saves):
            is_chosen = held.has_chosen_delay and kill_delay_s is None and not hangup
            if is_chosen or interval_s >= held.terminate_interval_s:
                return
        if held.ending is not None:
            held.ending.cancel()
        if held.sparing is not None:
            held.sparing.cancel()
        held.has_chosen_delay = kill_delay_s is not None
        held.terminate_interval_s = interval_s
        held.saves = save is not None
        if save is not None:
            held.ending = self._following.spawn(self._endings.end_saved(held, save, interval_s))
        else:
            held.ending = self._following.spawn(self._endings.end(held, interval_s, hangup=hangup))

    async def warn(self, job_id: int, attempt: int, signum: int, ends_by: float | None) -> None:
        """Warn a part of its job's end, once: the job's first host has done so."""
        held = self._running(job_id, attempt)
        if held is not None and held.is_part:
            await self._once_begun(held, lambda: self._endings.warn(held, signum, ends_by))

    def spare(self, job_id: int, attempt: int) -> bool:
        """Do not end it when its time to save its state is over. False: it is being ended already, or is over."""
        held = self._running(job_id, attempt)
        if held is None or (held.ending is not None and not held.saves):
            return False
        until = self._spool.deadline(held.name)
        if held.ending is not None and (until is None or until <= self._clock.now()):
            return False  # its end has begun
        if held.ending is not None:
            held.ending.cancel()
        held.ending, held.saves = None, False
        if held.sparing is None or held.sparing.done():
            held.sparing = self._following.spawn(self._endings.forget_ask(held))
        return True

    async def close_part(self, job_id: int, attempt: int) -> None:
        """End a part with whatever runs there: its job is over."""
        held = self._running(job_id, attempt)
        if held is not None and held.is_part:
            await self._endings.begun_or_killed(held)
            attempt_processes.tell(held, host_parts.CLOSE)

    async def suspend(self, job_id: int, attempt: int, reasons: SuspendReasons | None = None) -> None:
        """Stop every process of the attempt, and its run limit's clock.

        `reasons`: why; then what its order says is done in place of that to its processes, once.
        """
        held = self._running(job_id, attempt)
        if held is not None:
            await self._once_begun(held, lambda: self._suspend(held, reasons))

    async def _suspend(self, held: Attempt, reasons: SuspendReasons | None) -> None:
        if held.ended.is_set():
            return
        action = held.controls.suspend if reasons is not None else ""
        if not self._actions.note(held, action, suspends=True):
            return
        await self._actions.do(held, action, lambda: self._stop(held), reasons)
        self._poke(held)

    async def _once_begun(self, held: Attempt, act: Callable[[], Coroutine[object, object, None]]) -> None:
        """Do it when the job has begun. A start that hangs holds up no other order, above all not that to end it."""
        try:
            async with asyncio.timeout(BEGIN_S):
                await held.let_go.wait()
        except TimeoutError:
            self._following.spawn(_after(held.let_go, act))
        else:
            await act()

    async def _stop(self, held: Attempt) -> None:
        """Freeze the attempt's group, which it does not notice; SIGSTOP for what is not in a group, and where a command
        of the site is to let it go on, which thaws nothing.
        """
        group = held.group
        if held.controls.suspend and held.controls.resume:
            with contextlib.suppress(ResourceExhausted):  # stopped it is in any case
                self._spool.mark(held.name, attempt_files.STOPPED)
        if group is None or held.controls.resume or not group.freeze():
            process_tree.stop(lambda: self._tree(held))
            return
        for _ in range(_FREEZE_LOOKS):
            if group.is_frozen():
                break
            await asyncio.sleep(_FREEZE_LOOK_S)
        inside = set(group.pids())
        process_tree.stop(lambda: [each for each in self._tree(held) if each.pid not in inside])

    async def resume(self, job_id: int, attempt: int, *, acts: bool = False) -> None:
        """Let every process of the attempt go on. `acts`: what its order says is done in place of that, once."""
        held = self._running(job_id, attempt)
        if held is not None:
            await self._once_begun(held, lambda: self._resume(held, acts=acts))

    async def _resume(self, held: Attempt, *, acts: bool) -> None:
        action = held.controls.resume if acts else ""
        if not self._actions.note(held, action, suspends=False):
            return
        self._poke(held)
        if held.group is not None:
            held.group.thaw()
        await self._actions.do(held, action, lambda: self._go_on(held))

    async def _go_on(self, held: Attempt) -> None:
        if held.group is not None:  # frozen since it was to go on, where an action has failed meanwhile
            held.group.thaw()
        process_tree.resume(lambda: self._tree(held))
        with contextlib.suppress(ResourceExhausted):
            self._spool.mark(held.name, attempt_files.STOPPED, False)

    async def limit(self, job_id: int, attempt: int, limits: AttemptLimits) -> None:
        """Write the limits down, then tell whoever enforces them. Raises ResourceExhausted when that cannot be done."""
        held = self._running(job_id, attempt)
        if held is None:
            return
        if held.is_part:  # the job's first host minds its run time
            limits = msgspec.structs.replace(limits, run_limit_s=None)
        self._spool.set_limits(held.name, limits)
        held.limits = limits
        await self._once_begun(held, lambda: self._limit(held, limits))

    async def _limit(self, held: Attempt, limits: AttemptLimits) -> None:
        if held.unsupervised is not None:
            held.unsupervised.renew(limits)
        self._poke(held)

    def usage(self, job_id: int, attempt: int) -> Usage | None:
        """A sample of the attempt's processes; None of one that has not started or has ended."""
        held = self._running(job_id, attempt)
        return self.samples.sample(held) if held is not None and held.started is not None else None

    def owners(self, pids: Iterable[int]) -> dict[int, str]:
        """Process id -> name of the attempt that it belongs to, of those that belong to one that has not ended."""
        return attempt_processes.owners((held for held in self._held.values() if not held.ended.is_set()), pids)

    def processes(self, job_id: int, attempt: int) -> list[process_tree.Process]:
        """Living processes of an attempt that has not ended, now: a look at all processes of the host."""
        held = self._running(job_id, attempt)
        return self._tree(held) if held is not None else []

    def running(self) -> list[RunKey]:
        """Attempts that have not ended."""
        return [held.key for held in self._held.values() if not held.ended.is_set()]

    def hostfile(self, job_id: int, attempt: int) -> str:
        """Path of the file that an order's `hostfile` is written to."""
        return self._spool.path(attempt_name(job_id, attempt), attempt_files.HOSTFILE)

    def script_file(self, job_id: int, attempt: int) -> str:
        """Path of the file that an order's `script` is written to."""
        return self._spool.path(attempt_name(job_id, attempt), attempt_files.SCRIPT)

    def affinity_hostfile(self, job_id: int, attempt: int) -> str:
        """Path of the file that an order's `affinity_hostfile` is written to."""
        return self._spool.path(attempt_name(job_id, attempt), attempt_files.AFFINITY)

    def job_file(self, job_id: int, attempt: int, name: str) -> str:
        """Path of the file of this name that is written for an order's `job_files`."""
        return self._spool.path(attempt_name(job_id, attempt), name)

    def started(self, job_id: int, attempt: int) -> Started | None:
        """The job as its supervisor recorded it; None for one that has not started."""
        held = self._held.get(attempt_name(job_id, attempt))
        return held.started if held is not None else None

    def report(self, job_id: int, attempt: int, facts: ReportFacts, result: AttemptResult) -> None:
        """Put the report into the file of the job's output, once.

        Blocks as its file system does; may run in another thread. Raises OSError.
        """
        name = attempt_name(job_id, attempt)
        self._spool.report(name, facts, result, self._clock.now(), self._account(name))

    def say_instead(self, job_id: int, attempt: int, facts: ReportFacts, sentence: str) -> None:
        """Say in the place of a report above the job's output why there is none. Raises OSError."""
        name = attempt_name(job_id, attempt)
        self._spool.say_instead(name, facts, sentence, self._account(name))

    def say(self, job_id: int, attempt: int, text: str) -> None:
        """Put a line to the end of what the job prints. Blocks as its file system does. Raises OSError."""
        name = attempt_name(job_id, attempt)
        self._spool.say(name, text, self._account(name))

    def is_ending(self, job_id: int, attempt: int) -> bool:
        """Whether it is being ended, or is over."""
        held = self._running(job_id, attempt)
        return held is None or (held.ending is not None and not held.ending.done())

    def is_suspended(self, job_id: int, attempt: int) -> bool:
        """Whether it was suspended and not resumed."""
        return self._spool.is_suspended(attempt_name(job_id, attempt))

    def report_text(self, job_id: int, attempt: int, facts: ReportFacts, result: AttemptResult) -> str:
        """The report as it is mailed. Raises OSError."""
        name, most = attempt_name(job_id, attempt), MAILED_OUTPUT
        output = b"" if facts.output_file else self._spool.read_output(name, "stdout", 0, most, self._account(name))
        return self._spool.report_text(name, facts, result, self._clock.now(), output.decode(errors="replace"))

    def is_first(self, job_id: int, attempt: int, what: str) -> bool:
        """Whether nobody has asked this before, of that attempt and that matter. Raises OSError."""
        return self._spool.is_first(attempt_name(job_id, attempt), what)

    def note_wants_requeue(self, job_id: int, attempt: int) -> None:
        """Its job is to run again when it has ended, whatever its exit code. Raises OSError."""
        self._spool.note_wants_requeue(attempt_name(job_id, attempt))

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

    def read_output(
        self, job_id: int, attempt: int, stream: str, offset: int, limit: int, *, only_kept: bool = False
    ) -> bytes:
        """Bytes of "stdout" or "stderr"; empty at the end, for merged standard error, and for unknown attempts.

        `only_kept`: also for a stream that goes to a file of its own.
        """
        name = attempt_name(job_id, attempt)
        if only_kept and not self._spool.keeps(name, stream):
            return b""
        return self._spool.read_output(name, stream, offset, limit, self._account(name))

    def read_tail(self, job_id: int, attempt: int, stream: str, most: int) -> bytes:
        """The last bytes of "stdout" or "stderr", read with the rights of the job's user; blocks as its file system."""
        name = attempt_name(job_id, attempt)
        return self._spool.read_tail(name, stream, most, self._account(name))

    def user_of(self, job_id: int, attempt: int) -> str:
        """The job's user where that is not the agent's; else empty."""
        account = self._account(attempt_name(job_id, attempt))
        return account.name if account is not None else ""

    def uid_of(self, name: str) -> int | None:
        """Number of the user that an attempt runs as, or ran; None where that is not known any more."""
        held = self._held.get(name)
        if held is None:
            return None
        return os.getuid() if held.account is None else held.account.uid

    def _account(self, name: str) -> UnixAccount | None:
        held = self._held.get(name)
        return held.account if held is not None else None

    def close(self) -> None:
        """Stop watching and end the fork server. Supervisors and jobs go on."""
        self._following.close()
        self._held.clear()

    async def _run_of_site(self, program: Program, limit_s: float) -> ProgramEnd:
        return await self._forks.run(program, limit_s)

    def _beside(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        return self._following.spawn(work)

    def _poke(self, held: Attempt) -> None:
        if held.unsupervised is not None:
            held.unsupervised.poke()
        attempt_processes.tell(held, supervisor_signals.POKE)

    def _tree(self, held: Attempt) -> list[process_tree.Process]:
        """Its living processes, now."""
        return attempt_processes.now(held)

    def _running(self, job_id: int, attempt: int) -> Attempt | None:
        held = self._held.get(attempt_name(job_id, attempt))
        return None if held is None or held.ended.is_set() else held


async def _after(event: asyncio.Event, act: Callable[[], Coroutine[object, object, None]]) -> None:
    await event.wait()
    await act()
