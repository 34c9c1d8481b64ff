"""The parent's side of gsched.probe.nvidia.nvml: asks for samples, with a time limit, and replaces what hangs or dies.

Whatever the driver does, a sample takes at most the time limit and never blocks the event loop. What the driver tells
by itself is passed on as it comes. pynvml is never imported here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gsched.base.clock import Clock, SystemClock
from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import Conflict, PermissionDenied, Unavailable
from gsched.model.gpus.gpu_use import DeviceUse
from gsched.model.hosts.host import ComputeMode, GpuReport
from gsched.probe.nvidia.nvml import NvmlAnswer

TIME_LIMIT_S = 20.0
"""A driver that works may be slow: the first look at an H200 in a virtual machine took more than two seconds."""
GPU_SHARE = 0.4
"""Of the time limit one GPU may take so much; then the sample goes on without it."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

UNASKED = msgspec.json.encode(NvmlAnswer(has_news=True)) + b"\n"

_LINE_LIMIT = 4 * 1024 * 1024
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])


class NvmlProbe:
    """GPUs by NVML, sampled in a child process.

    `time_limit_s` bounds one request, the start of the child included. After a failure the child is replaced, not
    sooner than a pause that doubles up to `longest_pause_s`; samples in between say at once that the GPUs are unknown.
    `on_news` is called when the driver has told of something that a sample would show.
    """

    def __init__(
        self,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        first_pause_s: float = FIRST_PAUSE_S,
        longest_pause_s: float = LONGEST_PAUSE_S,
        clock: Clock | None = None,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self._time_limit_s = time_limit_s
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._clock = clock or SystemClock()
        self._pause_s = first_pause_s
        self._not_before = 0.0
        self._reason: AnyText = ""
        self._on_news = on_news
        self._no_modes: AnyText = ""
        self._child: Process | None = None
        self._answers: asyncio.Queue[bytes | ValueError] = asyncio.Queue()
        self._reader: asyncio.Task[None] | None = None
        """Reads the child's lines as they come; what was not asked for never gets into the answers."""
        self._dying: set[asyncio.Task[int]] = set()
        self._lock = asyncio.Lock()
        self._decoder = msgspec.json.Decoder(NvmlAnswer)

    @property
    def pid(self) -> int | None:
        """Process id of the child; None while there is none."""
        return None if self._child is None else self._child.pid

    async def sample(self) -> GpuReport:
        async with self._lock:
            if self._clock.monotonic() < self._not_before:
                return self._unknown()
            try:
                reply = await self._ask("sample")
            except Unavailable as problem:
                self._fail(problem.said)
                return self._unknown()
            report = reply.report or GpuReport(known=False, reason=reply.error, provider="nvml")
            if not report.known:
                # A library that was replaced on disk, say, only a new process can load.
                self._fail(report.reason)
            else:
                self._pause_s, self._not_before = self._first_pause_s, 0.0
            return report

    async def use(self, indexes: Sequence[int]) -> tuple[DeviceUse, ...]:
        if not indexes:
            return ()
        async with self._lock:
            if self._clock.monotonic() < self._not_before:
                return ()
            try:
                reply = await self._ask(f"use {','.join(map(str, indexes))}")
            except Unavailable as problem:
                self._fail(problem.said)
                return ()
        return reply.use

    async def set_mode(self, indexes: Sequence[int], mode: ComputeMode) -> None:
        if not indexes:
            return
        async with self._lock:
            try:
                reply = await self._ask(f"set-mode {','.join(map(str, indexes))} {mode.value}")
            except Unavailable as problem:
                self._fail(problem.said)
                raise
        if reply.error:
            text = coded("mode.not_set", mode.value, reply.error)
            if reply.denied:
                self._no_modes = coded("mode.denied")
                raise PermissionDenied(text)
            raise Conflict(text)

    def why_no_modes(self) -> AnyText:
        return coded("mode.needs_root") if os.geteuid() != 0 else self._no_modes

    async def close(self) -> None:
        async with self._lock:
            self._drop()
            for task in list(self._dying):
                # A process that is stuck in the driver goes when the driver lets it, not when we wait.
                await asyncio.wait([task], timeout=1.0)
                task.cancel()

    async def _ask(self, request: str) -> NvmlAnswer:
        """One request and its answer. Raises Unavailable when there is none within the time limit."""
        try:
            async with asyncio.timeout(self._time_limit_s):
                line = await self._exchange(request)
        except asyncio.CancelledError:
            self._drop()  # its answer would be taken for that of the next request
            raise
        except TimeoutError:
            raise Unavailable(coded("nvml.no_answer", self._time_limit_s)) from None
        except (OSError, ValueError) as problem:  # no process could be started; a line without end
            raise Unavailable(coded("nvml.probe_failed", str(problem))) from None
        try:
            return self._decoder.decode(line)
        except msgspec.DecodeError as problem:
            raise Unavailable(coded("nvml.probe_unreadable", str(problem))) from None

    async def _exchange(self, request: str) -> bytes:
        child = self._child
        if child is None or child.returncode is not None:
            child = self._child = await self._start()
            if self._reader is not None:
                self._reader.cancel()
            self._answers = asyncio.Queue()
            self._reader = asyncio.create_task(self._read(child, self._answers))
        if child.stdin is None:
            raise AssertionError("the child was started with pipes")
        with contextlib.suppress(ConnectionError):  # its end shows below
            child.stdin.write(request.encode() + b"\n")
            await child.stdin.drain()
        line = await self._answers.get()
        if isinstance(line, ValueError):
            raise line
        if not line.endswith(b"\n"):
            raise Unavailable(await self._ending(child))
        return line

    async def _read(self, child: Process, answers: asyncio.Queue[bytes | ValueError]) -> None:
        """Until the child ends: its last line is one without an end."""
        assert child.stdout is not None
        line = b"\n"
        while line.endswith(b"\n"):
            try:
                line = await child.stdout.readline()
            except ValueError as problem:  # a line without end
                answers.put_nowait(problem)
                return
            if line == UNASKED:
                self._on_news()
            else:
                answers.put_nowait(line)

    async def _start(self) -> Process:
        if self._dying:
            raise Unavailable(coded("nvml.probe_hangs"))
        path = os.pathsep.join(part for part in (_PACKAGE_ROOT, os.environ.get("PYTHONPATH", "")) if part)
        return await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-P",
                "-m",
                "gsched.probe.nvidia.nvml",
                str(os.getpid()),
                str(GPU_SHARE * self._time_limit_s),
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LINE_LIMIT,
            env={**os.environ, "PYTHONPATH": path},
        )

    async def _ending(self, child: Process) -> AnyText:
        code = await child.wait()
        return coded("nvml.probe_signalled", -code) if code < 0 else coded("nvml.probe_ended", code)

    def _fail(self, reason: AnyText) -> None:
        """Let the child go and remember not to start another too soon."""
        self._drop()
        self._reason = reason
        self._not_before = self._clock.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, self._longest_pause_s)

    def _drop(self) -> None:
        child, self._child = self._child, None
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        if child is None or child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        task = asyncio.get_running_loop().create_task(child.wait())
        self._dying.add(task)
        task.add_done_callback(self._dying.discard)

    def _unknown(self) -> GpuReport:
        return GpuReport(known=False, reason=self._reason, provider="nvml")
