"""A scripted executor: attempts "run" on a clock that its owner moves. For simulations and for fast tests of agents.

First-class: it keeps the promises of `Executor`, forgets nothing and starts no process. With a ManualClock the owner
calls `advance`, or moves the clock and calls `run_due`; with a system clock ends come by the event loop's timers.
"""

from __future__ import annotations

import asyncio
import heapq
import re
import signal
from collections.abc import Callable, Mapping

import msgspec

from gsched.base.clock import Clock, ManualClock
from gsched.base.errors import Conflict
from gsched.model.job import AttemptResult, Usage
from gsched.run.order import AttemptLimits, OnEnded, OnStarted, Order, RunKey, StartedInfo

_SLEEP = re.compile(r"(?:.*[\s;/])?sleep\s+(\d+(?:\.\d+)?)\s*(?:;\s*exit\s+(\d+)\s*)?$", re.DOTALL)
_EXIT = re.compile(r"(?:.*;\s*)?exit\s+(\d+)\s*$", re.DOTALL)
_FIRST_PID = 1000


class MockRun(msgspec.Struct, frozen=True, kw_only=True):
    """How one command behaves. `duration_s` None means until it is ended from outside."""

    duration_s: float | None = 0.0
    exit_code: int = 0
    signal: int | None = None
    """Dies of this signal instead of exiting."""
    ignores: frozenset[int] = frozenset()
    """Signals that do not end it (SIGKILL always does)."""
    refusal: str = ""
    """Never starts: the problem that is reported."""
    usage: Usage = Usage()
    output: bytes = b""


Script = Mapping[str, MockRun] | Callable[[Order], MockRun]
"""The behaviour of each command line, or of each order."""


def behaviour_of(command: str) -> MockRun:
    """What a line says of itself: `sleep 5`, `sleep 5; exit 3`, `exit 3`, `false`; anything else ends at once."""
    if found := _SLEEP.match(command):
        return MockRun(duration_s=float(found[1]), exit_code=int(found[2] or 0))
    if found := _EXIT.match(command):
        return MockRun(exit_code=int(found[1]))
    return MockRun(exit_code=1 if command.strip() in ("false", "/bin/false") else 0)


class _Run:
    __slots__ = ("due", "order", "pid", "result", "run", "started_at", "stopped_at")

    def __init__(self, order: Order, run: MockRun, pid: int, now: float) -> None:
        self.order = order
        self.run = run
        self.pid = pid
        self.started_at = now
        self.stopped_at: float | None = None
        self.due: list[tuple[float, int]] = []
        """(time, signal) of what will happen to it; signal 0 is its own end."""
        self.result: AttemptResult | None = None
        if run.duration_s is not None:
            self.due.append((now + run.duration_s, 0))
        self.limit(order.run_limit_s, now)

    def limit(self, run_limit_s: float | None, since: float) -> None:
        """Let it be ended so long after `since`, whatever was foreseen before."""
        self.due = [each for each in self.due if each[1] >= 0]
        if run_limit_s is not None:
            signals = (signal.SIGUSR2, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
            interval_s = self.order.terminate_interval_s
            self.due += [(since + run_limit_s + i * interval_s, -signum) for i, signum in enumerate(signals)]
        self.due.sort(key=lambda each: each[0])


class MockExecutor:
    """An Executor without processes. `signals` records every signal sent, as (job id, attempt, signal)."""

    def __init__(
        self,
        clock: Clock,
        *,
        on_started: OnStarted,
        on_ended: OnEnded,
        script: Script | None = None,
        boot_id: str = "mock",
    ) -> None:
        self._clock = clock
        self._on_started = on_started
        self._on_ended = on_ended
        self._script = script
        self._boot_id = boot_id
        self._runs: dict[RunKey, _Run] = {}
        self._heap: list[tuple[float, RunKey]] = []
        self._next_pid = _FIRST_PID
        self._timers: set[asyncio.TimerHandle] = set()
        self.signals: list[tuple[int, int, int]] = []

    # -- the interface -------------------------------------------------------------------------------------------

    async def start(self, order: Order) -> None:
        """Begin; a command of no duration has ended when this returns."""
        key = (order.job_id, order.attempt)
        if key in self._runs:
            return
        now = self._clock.now()
        run = self._runs[key] = _Run(order, self._behaviour(order), self._next_pid, now)
        self._next_pid += 1
        if run.run.refusal:
            self._finish(run, AttemptResult(started=False, problem=run.run.refusal))
            return
        self._on_started(*key, self._info(run))
        self._schedule(run)
        self.run_due()

    async def adopt(self) -> list[RunKey]:
        """All attempts held, their events repeated: what a new agent on the same host would find."""
        keys = list(self._runs)
        for key in keys:
            run = self._runs[key]
            if not run.run.refusal:
                self._on_started(*key, self._info(run))
            if run.result is not None:
                self._on_ended(*key, run.result)
        return keys

    async def signal(self, job_id: int, attempt: int, signum: int, everything: bool = True) -> None:
        """Ends the attempt with that signal unless it ignores it, or has no default action that ends."""
        run = self._running(job_id, attempt)
        if run is None:
            return
        self.signals.append((job_id, attempt, signum))
        if signum == signal.SIGSTOP:
            self._stop(run)
        elif signum == signal.SIGCONT:
            self._continue(run)
        elif signum == signal.SIGKILL or (run.stopped_at is None and self._is_fatal(run, signum)):
            self._finish(run, AttemptResult(signal=signum))

    async def terminate(self, job_id: int, attempt: int, interval_s: float, *, hangup: bool = False) -> None:
        """INT now, TERM and KILL after `interval_s` each, on the clock."""
        run = self._running(job_id, attempt)
        if run is None:
            return
        if run.stopped_at is not None:
            self._continue(run)
        await self.signal(job_id, attempt, signal.SIGINT)
        if run.result is None:
            now = self._clock.now()
            run.due += [(now + interval_s, signal.SIGTERM), (now + 2 * interval_s, signal.SIGKILL)]
            run.due.sort(key=lambda each: each[0])
            self._schedule(run)

    async def suspend(self, job_id: int, attempt: int) -> None:
        """Time stands still for the attempt."""
        await self.signal(job_id, attempt, signal.SIGSTOP)

    async def resume(self, job_id: int, attempt: int) -> None:
        """Time goes on for the attempt."""
        await self.signal(job_id, attempt, signal.SIGCONT)

    async def limit(self, job_id: int, attempt: int, limits: AttemptLimits) -> None:
        """Another run limit; the others are enforced on nobody here."""
        run = self._running(job_id, attempt)
        if run is not None:
            run.limit(limits.run_limit_s, run.started_at)
            self._schedule(run)
            self.run_due()

    def usage(self, job_id: int, attempt: int) -> Usage | None:
        """The script's figures, with the attempt's one process."""
        run = self._running(job_id, attempt)
        if run is None:
            return None
        return msgspec.structs.replace(run.run.usage, pgid=run.pid, pids=(run.pid,), sampled_at=self._clock.now())

    def running(self) -> list[RunKey]:
        """Attempts that have not ended."""
        return [key for key, run in self._runs.items() if run.result is None]

    def forget(self, job_id: int, attempt: int) -> None:
        """Drop an ended attempt. Raises Conflict while it runs."""
        run = self._runs.get((job_id, attempt))
        if run is not None and run.result is None:
            raise Conflict(f"attempt {job_id}.{attempt} has not ended")
        self._runs.pop((job_id, attempt), None)

    def read_output(self, job_id: int, attempt: int, stream: str, offset: int, limit: int) -> bytes:
        """The scripted output, on "stdout"."""
        run = self._runs.get((job_id, attempt))
        if run is None or stream != "stdout":
            return b""
        return run.run.output[offset : offset + max(limit, 0)]

    def close(self) -> None:
        """Cancel timers; attempts stay as they are."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # -- time ----------------------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """When (UTC) something happens next by itself, None when nothing will."""
        while self._heap:
            at, key = self._heap[0]
            run = self._runs.get(key)
            if run is not None and _is_moving(run) and run.due and run.due[0][0] == at:
                return at
            heapq.heappop(self._heap)  # something else happened to it meanwhile
        return None

    def run_due(self) -> None:
        """Let everything happen whose time has come, in order of time, then of job."""
        while (at := self.next_due()) is not None and at <= self._clock.now():
            _, key = heapq.heappop(self._heap)
            run = self._runs[key]
            _, what = run.due.pop(0)
            self._happen(run, what, at)
            self._schedule(run)

    def advance(self, seconds: float) -> None:
        """Move a ManualClock on, stopping at each event so that it happens at its own time."""
        clock = self._clock
        if not isinstance(clock, ManualClock):
            raise TypeError("only a ManualClock can be moved")
        until = clock.now() + seconds
        while (due := self.next_due()) is not None and due <= until:
            clock.advance(max(due - clock.now(), 0.0))
            self.run_due()
        clock.advance(max(until - clock.now(), 0.0))

    # -- inside --------------------------------------------------------------------------------------------------

    def _behaviour(self, order: Order) -> MockRun:
        if callable(self._script):
            return self._script(order)
        if self._script is not None and order.command in self._script:
            return self._script[order.command]
        return behaviour_of(order.command)

    def _happen(self, run: _Run, what: int, at: float) -> None:
        if what == 0:
            died_of = run.run.signal
            code = None if died_of is not None else run.run.exit_code
            self._finish(run, AttemptResult(exit_code=code, signal=died_of, ended_at=at))
            return
        signum, reason = (what, "") if what > 0 else (-what, "TERM_RUNLIMIT")
        self.signals.append((run.order.job_id, run.order.attempt, signum))
        if signum == signal.SIGKILL or self._is_fatal(run, signum):
            self._finish(run, AttemptResult(signal=signum, ended_at=at, term_reason=reason))

    def _finish(self, run: _Run, result: AttemptResult) -> None:
        now = result.ended_at or self._clock.now()
        run.due.clear()
        run.result = msgspec.structs.replace(
            result, ended_at=now, run_s=now - run.started_at, usage=msgspec.structs.replace(run.run.usage, pgid=run.pid)
        )
        self._on_ended(run.order.job_id, run.order.attempt, run.result)

    def _is_fatal(self, run: _Run, signum: int) -> bool:
        harmless = {signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
        return signum not in run.run.ignores and signum not in harmless and signum != 0

    def _stop(self, run: _Run) -> None:
        if run.stopped_at is None:
            run.stopped_at = self._clock.now()

    def _continue(self, run: _Run) -> None:
        if run.stopped_at is None:
            return
        lost = self._clock.now() - run.stopped_at
        run.stopped_at = None
        run.due = [(at + lost, what) for at, what in run.due]
        self._schedule(run)

    def _info(self, run: _Run) -> StartedInfo:
        order = run.order
        return StartedInfo(
            pid=run.pid,
            started_at=run.started_at,
            exec_home=order.home,
            exec_cwd=order.cwd,
            boot_id=self._boot_id,
        )

    def _running(self, job_id: int, attempt: int) -> _Run | None:
        run = self._runs.get((job_id, attempt))
        return None if run is None or run.result is not None else run

    def _schedule(self, run: _Run) -> None:
        """Note when it is due; with a clock that ticks by itself, have the event loop come back then."""
        if not run.due or not _is_moving(run):
            return
        heapq.heappush(self._heap, (run.due[0][0], (run.order.job_id, run.order.attempt)))
        if isinstance(self._clock, ManualClock):
            return
        loop = asyncio.get_running_loop()

        def come_back() -> None:
            self._timers.discard(timer)
            self.run_due()

        timer = loop.call_later(max(run.due[0][0] - self._clock.now(), 0.0) + 0.001, come_back)
        self._timers.add(timer)


def _is_moving(run: _Run) -> bool:
    return run.result is None and run.stopped_at is None
