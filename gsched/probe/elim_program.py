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
from gsched.probe.elim_format import ElimFormatError, ElimParser, Report, quote
from gsched.probe.guard import Guard

ABORT_CODE = 99
"""Exit code by which an elim says that it has nothing to report on this host (ELIM_ABORT_VALUE)."""

LONGEST_BACKOFF = 10
"""The time between two starts grows up to this many times the shortest one."""

TERM_GRACE_S = 2.0
"""How long an elim may take to end after SIGTERM."""

READ_PAUSE_S = 0.05
"""Rest after each piece of output: a program that writes without end is slowed down by its full pipe."""

_DRAIN_S = 0.5


class ElimListener(Protocol):
    """Who hears of an elim; `name` is the program's file name."""

    def reported(self, name: str, reports: list[Report]) -> None:
        """Complete reports, in order."""
        ...

    def failed(self, name: str, note: str, *, distrust: bool) -> None:
        """The elim ended or was ended; `distrust` says that its last values must not be used any more."""
        ...


class _Ending(NamedTuple):
    """How one run ended: in words, with which exit code (None: it was ended here), whether its values are void."""

    text: str
    code: int | None
    distrust: bool


def pause_before_start(restart_s: float, failures: int, lived_s: float) -> float:
    """Seconds until an elim may be started again that has failed `failures` times in a row and lived `lived_s`."""
    return max(0.0, restart_s * min(2.0 ** min(max(0, failures - 1), 10), LONGEST_BACKOFF) - lived_s)


class ElimProgram:
    """One elim. `restart_s` is the shortest time between two starts; it doubles while the elim keeps failing."""

    def __init__(
        self,
        path: Path,
        environment: Mapping[str, str],
        listener: ElimListener,
        *,
        guard: Guard,
        restart_s: float,
        clock: Clock,
    ) -> None:
        self.path = path
        self.name = path.name
        self._environment = dict(environment)
        self._listener = listener
        self._guard = guard
        self._restart_s = restart_s
        self._clock = clock
        self._stopping = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the elim, SIGTERM first, and do not start it again."""
        self._stopping.set()
        await self._task

    async def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            started = self._clock.monotonic()
            run = _Run(lambda reports: self._listener.reported(self.name, reports))
            ending = await self._once(run)
            if ending is None:
                return
            if ending.code == ABORT_CODE:
                self._listener.failed(self.name, "", distrust=True)
                return
            lived = self._clock.monotonic() - started
            failures = 0 if run.has_reported and lived >= self._restart_s else failures + 1
            wait_s = pause_before_start(self._restart_s, failures, lived)
            words = f" ({quote(run.last_words)})" if run.last_words else ""
            note = f"{self.name}: {ending.text}{words}; started again {f'in {wait_s:.0f} s' if wait_s >= 1 else 'now'}"
            self._listener.failed(self.name, note, distrust=ending.distrust)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._stopping.wait()

    async def _once(self, run: _Run) -> _Ending | None:
        """One run from start to end; None when it was stopped."""
        try:
            transport = await self._spawn(run)
        except OSError as problem:
            return _Ending(f"cannot be started: {problem.strerror or problem}", 0, True)
        group = transport.get_pid()
        try:
            with contextlib.suppress(OSError):  # no process for the guard: the elim is worth more
                self._guard.add(group)
            stopping = asyncio.ensure_future(self._stopping.wait())
            causes: set[asyncio.Future[Any]] = {run.exited, run.broken, stopping}
            await asyncio.wait(causes, return_when=asyncio.FIRST_COMPLETED)
            stopped = not stopping.cancel()
            if run.exited.done():
                # What it wrote last may still be in the pipe, and a child of its own may hold the pipe open.
                await asyncio.wait({run.closed}, timeout=_DRAIN_S)
            else:
                await self._end(group, run)
            return None if stopped else _ending(run, transport.get_returncode())
        finally:
            _signal(group, signal.SIGKILL)  # what it left behind
            self._guard.remove(group)
            transport.close()

    async def _spawn(self, run: _Run) -> asyncio.SubprocessTransport:
        for command in ((str(self.path),), ("/bin/sh", str(self.path))):
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
                if problem.errno != errno.ENOEXEC or len(command) > 1:
                    raise
        raise AssertionError("unreachable")

    async def _end(self, group: int, run: _Run) -> None:
        _signal(group, signal.SIGTERM)
        await asyncio.wait({run.exited}, timeout=TERM_GRACE_S)
        _signal(group, signal.SIGKILL)
        await asyncio.wait({run.exited}, timeout=TERM_GRACE_S)


class _Run(asyncio.SubprocessProtocol):
    """The pipes of one run: `exited`, `closed` (all output read) and `broken` (it wrote rubbish) tell what happened."""

    def __init__(self, take: Callable[[list[Report]], None]) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.broken: asyncio.Future[str] = loop.create_future()
        self.has_reported = False
        self.last_words = ""
        self._take = take
        self._parser = ElimParser()
        self._errors = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self._resting: dict[int, asyncio.TimerHandle] = {}
        """By pipe: when it is read again."""

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
            self.broken.set_result(problem.text)
            return
        if reports:
            self.has_reported = True
            self._take(reports)

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
        return _Ending(f"was ended by signal {-(code or 0)}", code, True)
    # One that leaves in peace meant what it said: that holds as long as any value does.
    return _Ending(f"ended with exit code {code}", code, code != 0)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
