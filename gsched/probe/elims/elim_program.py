"""The life of one elim: started, read, ended, started again.

It runs in a process group of its own, which is ended as a whole; no part of it outlives `stop` or the agent. Nothing
here knows what the reported names mean.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText, coded
from gsched.probe.elims.elim_format import ElimFormatError, ElimParser, Report, quote
from gsched.probe.elims.process_guard import ProcessGroupGuard

ABORT_CODE = 99
"""Exit code by which an elim says that it has nothing to report on this host (ELIM_ABORT_VALUE)."""

OWN_ELIM = "elim.gpu"
"""It is gsched's, and would not understand the words that a site's elims are started with."""

LONGEST_BACKOFF = 10
"""The time between two starts grows up to this many times the shortest one."""

TERM_GRACE_S = 2.0
"""How long an elim may take to end after SIGTERM."""

READ_PAUSE_S = 0.05
"""Rest after each piece of output: a program that writes without end is slowed down by its full pipe."""

_DRAIN_S = 0.5


DEBUG_BLOCK_S = 2.0
"""LSF_ELIM_DEBUG without LSF_ELIM_BLOCKTIME: how long an elim may take to complete a report that it has begun."""


class ElimRules(NamedTuple):
    """How elims are dealt with that end or say nothing. Source: lsf.cluster(5), LSF_ELIM_BLOCKTIME and its kin."""

    restart_s: float = 90.0
    """The shortest time between two starts of one elim."""
    block_s: float | None = None
    """LSF_ELIM_BLOCKTIME: an elim that completes no report for so long is started again; None: it is left in peace."""
    restarts: int | None = None
    """LSF_ELIM_RESTARTS: so often is one elim started again at most; None: always."""
    debug: bool = False
    """LSF_ELIM_DEBUG: reports are logged."""
    arguments: tuple[str, ...] = ()
    """ELIMARGS: the words that elims are started with."""


class ElimListener(Protocol):
    """Who hears of an elim; `name` is the program's file name."""

    def started(self, name: str) -> None:
        """The elim is being started."""
        ...

    def reported(self, name: str, reports: list[Report]) -> None:
        """Complete reports, in order."""
        ...

    def failed(self, name: str, note: AnyText, *, distrust: bool) -> None:
        """The elim ended or was ended; `distrust` says that its last values must not be used any more."""
        ...


class _Ending(NamedTuple):
    """How one run ended: in words, with which exit code (None: it was ended here), whether its values are void."""

    text: AnyText
    code: int | None
    distrust: bool


def pause_before_start(restart_s: float, failures: int, lived_s: float) -> float:
    """Seconds until an elim may be started again that has failed `failures` times in a row and lived `lived_s`."""
    return max(0.0, restart_s * min(2.0 ** min(max(0, failures - 1), 10), LONGEST_BACKOFF) - lived_s)


class ElimProgram:
    """One elim. The time between two starts (`rules.restart_s`) doubles while the elim keeps failing."""

    def __init__(
        self,
        path: Path,
        environment: Mapping[str, str],
        listener: ElimListener,
        *,
        guard: ProcessGroupGuard,
        rules: ElimRules,
        clock: Clock,
    ) -> None:
        self.path = path
        self.name = path.name
        self._environment = dict(environment)
        self._listener = listener
        self._guard = guard
        self._rules = rules
        self._clock = clock
        self._now: _Run | None = None
        self.has_given_up = False
        """It has been started again as often as it may be."""
        self._stopping = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the elim, SIGTERM first, and do not start it again."""
        self._stopping.set()
        await self._task

    @property
    def pending(self) -> str:
        """What it has begun to report and not completed; empty for nothing."""
        return self._now.pending if self._now is not None else ""

    async def _run(self) -> None:
        failures = starts = 0
        restart_s, most = self._rules.restart_s, self._rules.restarts
        while not self._stopping.is_set():
            started = self._clock.monotonic()
            run = self._now = _Run(lambda reports: self._listener.reported(self.name, reports), self._clock)
            ending = await self._once(run)
            self._now = None
            starts += 1
            if ending is None:
                return
            if ending.code == ABORT_CODE:
                self._listener.failed(self.name, "", distrust=True)
                return
            lived = self._clock.monotonic() - started
            failures = 0 if run.has_reported and lived >= restart_s else failures + 1
            wait_s = pause_before_start(restart_s, failures, lived)
            words = coded("elim.said_last", quote(run.last_words)) if run.last_words else ""
            self.has_given_up = most is not None and starts > most
            again = coded("elim.again_in", wait_s) if wait_s >= 1 else coded("elim.again_now")
            if most is not None and self.has_given_up:
                again = coded("elim.not_again", most)
            note = coded("elim.failed", self.name, ending.text, words, again)
            self._listener.failed(self.name, note, distrust=ending.distrust)
            if self.has_given_up:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._stopping.wait()

    async def _once(self, run: _Run) -> _Ending | None:
        """One run from start to end; None when it was stopped."""
        self._listener.started(self.name)  # before it can have said anything
        try:
            transport = await self._spawn(run)
        except OSError as problem:
            return _Ending(coded("elim.no_start", str(problem.strerror or problem)), 0, True)
        group = transport.get_pid()
        try:
            with contextlib.suppress(OSError):  # no process for the guard: the elim is worth more
                self._guard.add(group)
            stopping = asyncio.ensure_future(self._stopping.wait())
            silent = asyncio.ensure_future(run.blocked(self._rules))
            causes: set[asyncio.Future[Any]] = {run.exited, run.broken, stopping, silent}
            await asyncio.wait(causes, return_when=asyncio.FIRST_COMPLETED)
            stopped, is_silent = not stopping.cancel(), not silent.cancel()
            if run.exited.done():
                # What it wrote last may still be in the pipe, and a child of its own may hold the pipe open.
                await asyncio.wait({run.closed}, timeout=_DRAIN_S)
            else:
                await self._end(group, run)
                if is_silent and not (stopped or run.broken.done()):
                    # What it said last holds as long as any value does.
                    return _Ending(silent.result(), None, False)
            return None if stopped else _ending(run, transport.get_returncode())
        finally:
            _signal(group, signal.SIGKILL)  # what it left behind
            self._guard.remove(group)
            transport.close()

    async def _spawn(self, run: _Run) -> asyncio.SubprocessTransport:
        words = (str(self.path), *(() if self.name == OWN_ELIM else self._rules.arguments))
        for command in (words, ("/bin/sh", *words)):
            try:
                transport, _ = await asyncio.get_running_loop().subprocess_exec(
                    lambda: run,
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    cwd=str(self.path.parent),
                    env=self._environment,
                    start_new_session=True,
                )
                return transport
            except OSError as problem:
                # A script without a first line naming its interpreter is one for sh, as execlp(3) has it.
                if problem.errno != errno.ENOEXEC or command is not words:
                    raise
        raise AssertionError("unreachable")

    async def _end(self, group: int, run: _Run) -> None:
        _signal(group, signal.SIGTERM)
        await asyncio.wait({run.exited}, timeout=TERM_GRACE_S)
        _signal(group, signal.SIGKILL)
        await asyncio.wait({run.exited}, timeout=TERM_GRACE_S)


class _Run(asyncio.SubprocessProtocol):
    """The pipes of one run: `exited`, `closed` (all output read) and `broken` (it wrote rubbish) tell what happened."""

    def __init__(self, take: Callable[[list[Report]], None], clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        self._clock = clock
        self._moved = asyncio.Event()
        """Something has been read."""
        self._reported_at = clock.monotonic()
        self._begun_at: float | None = None
        """When the report was begun that is not complete."""
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.broken: asyncio.Future[AnyText] = loop.create_future()
        self.has_reported = False
        self.last_words = ""
        self._take = take
        self._parser = ElimParser()
        self._errors = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self._resting: dict[int, asyncio.TimerHandle] = {}
        """By pipe: when it is read again."""

    @property
    def pending(self) -> str:
        """What has been begun to be reported and is not complete; empty for nothing."""
        return self._parser.pending

    async def blocked(self, rules: ElimRules) -> AnyText:
        """Wait until it has taken too long for a report; says so."""
        while True:
            due = self._due(rules)
            if due is not None and self._clock.monotonic() >= due:
                begun = coded("elim.only", quote(self.pending)) if self.pending else ""
                name = "LSF_ELIM_BLOCKTIME" if rules.block_s is not None else "LSF_ELIM_DEBUG"
                return coded("elim.blocked", rules.block_s or DEBUG_BLOCK_S, begun, name)
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.001, due - self._clock.monotonic())):
                    await self._moved.wait()

    def _due(self, rules: ElimRules) -> float | None:
        """When a report must be complete; None: at no time."""
        if rules.block_s is not None:
            return self._reported_at + rules.block_s
        if not rules.debug or self._begun_at is None:
            return None
        return self._begun_at + DEBUG_BLOCK_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._keep_words(data)
        elif not self.broken.done():
            self._read(data)
        self._rest(fd)

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def _read(self, data: bytes) -> None:
        try:
            reports = self._parser.feed(data)
        except ElimFormatError as problem:
            self.broken.set_result(problem.said)
            return
        now = self._clock.monotonic()
        if not self.pending:
            self._begun_at = None
        elif reports or self._begun_at is None:
            self._begun_at = now
        if reports:
            self.has_reported, self._reported_at = True, now
            self._take(reports)
        self._moved.set()

    def _keep_words(self, data: bytes) -> None:
        """Remember the last line of standard error: it often says why the program ends."""
        self._errors = (self._errors + data)[-1000:]
        lines = [line for line in self._errors.decode("utf-8", "replace").splitlines() if line.strip()]
        self.last_words = lines[-1].strip() if lines else ""

    def _rest(self, fd: int) -> None:
        pipe = self._transport and self._transport.get_pipe_transport(fd)
        if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing():
            pipe.pause_reading()
            # Pieces that came before the pipes were connected are told together: there is one rest after them all.
            if fd in self._resting:
                self._resting[fd].cancel()
            self._resting[fd] = asyncio.get_running_loop().call_later(READ_PAUSE_S, _resume, pipe)


def _resume(pipe: asyncio.ReadTransport) -> None:
    if not pipe.is_closing():
        pipe.resume_reading()


def _ending(run: _Run, code: int | None) -> _Ending:
    if run.broken.done():
        return _Ending(run.broken.result(), None, True)
    if code is None or code < 0:
        return _Ending(coded("elim.signalled", -(code or 0)), code, True)
    # One that leaves in peace meant what it said: that holds as long as any value does.
    return _Ending(coded("elim.ended", code), code, code != 0)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
