"""One launch: what a `glaunch` has asked for, from its request to the ends of its tasks.

Nothing is read of what a task prints before what was read of it is on its way to who asked, so however much it is,
little of it is in memory. Never ends a task by itself: who hears that the command has gone away does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from gsched.agent.tasks.host_tasks import PIECE, SMALL
from gsched.agent.tasks.launched_step import LaunchedStep
from gsched.agent.tasks.step_records import StepEnd
from gsched.agent.tasks.task_questions import TaskQuestions
from gsched.model.jobs.job_step import StepRequest
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.supervisor import steps
from gsched.run.supervisor.run_limits import KILL_WAIT_S
from gsched.wire.messages import launch_protocol, step_messages
from gsched.wire.messages.frames import Decoder, ProtocolError, frame
from gsched.wire.messages.launch_protocol import LaunchRequest
from gsched.wire.v1 import agent_pb2

START_S = 120.0
"""How long a host that cannot be reached is waited for with a task that has not been started."""
WAIT_S = 10.0
"""How long a host waits for output of a task until it is asked again."""
END_S = 60.0
"""How long a host is asked to end a task that nobody waits for."""
STARTS = 32
"""Tasks that are being started at a time: each carries the environment."""
MOST_SIGNALS = 8
"""Different signals that are on their way to the tasks of a launch at a time."""
FLOODS = 2
"""Tasks of which large pieces of output are under way at a time, so that a slow line is not silent for long."""


class LaunchWork:
    """What all launches of one agent have in common: how much is done at a time, and what is done behind them."""

    def __init__(self) -> None:
        self.starts = asyncio.Semaphore(STARTS)
        self.floods = asyncio.Semaphore(FLOODS)
        self._works: set[asyncio.Task[None]] = set()

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Carry it out while nobody waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    def close(self) -> None:
        """What is not done yet is not done."""
        for work in self._works:
            work.cancel()


class LaunchFrames:
    """Frames that the command (glaunch) sends."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._decoder = Decoder()
        self._frames: list[tuple[bytes, bytes]] = []

    async def next(self) -> tuple[bytes, bytes] | None:
        """None at the end of the connection. Raises ProtocolError, OSError."""
        while not self._frames:
            data = await self._reader.read(launch_protocol.MAX_PIECE)
            if not data:
                return None
            self._frames = self._decoder.feed(data)
        return self._frames.pop(0)

    async def begins_with(self, kind: bytes) -> bool:
        """Whether the next frame is of this kind; it is still the next one then. Raises ProtocolError, OSError."""
        found = await self.next()
        if found is not None:
            self._frames.insert(0, found)
        return found is not None and found[0] == kind

    async def request(self, charge: Callable[[int], None]) -> tuple[LaunchRequest, StepRequest | None]:
        """What is to be launched, and as which step, if it is one; `charge` is told of its bytes as they come, and may
        raise. Raises ProtocolError.
        """
        blobs = {launch_protocol.REQUEST: bytearray(), step_messages.STEP: bytearray()}
        while (found := await self.next()) is not None:
            kind, payload = found
            if kind == launch_protocol.GO:
                step = bytes(blobs[step_messages.STEP])
                request = LaunchRequest.decode(bytes(blobs[launch_protocol.REQUEST]))
                return request, step_messages.decode_request(step) if step else None
            charge(len(payload))
            if kind not in blobs:
                break
            blobs[kind] += payload
            if sum(map(len, blobs.values())) > launch_protocol.MAX_REQUEST:
                break
        raise ProtocolError("no request")


class LaunchedTask:
    """One of a launch."""

    def __init__(self, number: int, host: str, had: tuple[int, int] | None) -> None:
        self.number = number
        self.host = host
        self.begun = asyncio.Event()
        """It runs, or could not be started."""
        self.out, self.err = had or (0, 0)
        self.has_ended = had is None
        self.cpu_s = 0.0
        self.max_rss_kib = 0
        """0: not known."""


class LaunchOrder(NamedTuple):
    """What a job's process asked for, of which attempt, and what came of it: where the tasks run, and what each is."""

    key: AttemptKey
    request: LaunchRequest
    hosts: Sequence[str]
    words: Sequence[str]
    login_shell: str
    step: LaunchedStep | None = None


class TaskLaunch:
    """The tasks of one command, from its request to their ends."""

    def __init__(
        self,
        background: LaunchWork,
        relay: TaskQuestions,
        host: str,
        order: LaunchOrder,
        frames: LaunchFrames,
        writer: asyncio.StreamWriter,
    ) -> None:
        request, hosts = order.request, order.hosts
        self._login_shell = order.login_shell
        self._background = background
        self._relay = relay
        self._host = host
        self._key = order.key
        self._request = request
        self._words = list(order.words)
        self._frames = frames
        self._writer = writer
        progress = request.progress or ((0, 0),) * len(hosts)
        self._tasks = [
            LaunchedTask(number, host, had) for number, (host, had) in enumerate(zip(hosts, progress, strict=True))
        ]
        self._step = order.step
        self._readers = [task for task in self._tasks if self._is_reader(task.number)]
        self._code, self._ended_by = 0, 0
        """The highest exit code of the tasks that have ended, 128 + N for signal N; that signal."""
        self._left = len(self.unended())
        self._over = asyncio.Event()
        self._is_cancelled = False
        self.on_over: Callable[[StepEnd], object] = lambda end: None
        """Called when the last task has ended, before the command hears of it."""
        self.on_use: Callable[[StepEnd], object] = lambda end: None
        """Called when it is known that tasks which run have used more than before."""
        self._typed: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()
        self._writing = asyncio.Lock()
        self._signals: set[int] = set()
        """Those that are on their way."""

    def unended(self) -> list[LaunchedTask]:
        """Tasks whose end has not been told."""
        return [task for task in self._tasks if not task.has_ended]

    @property
    def end(self) -> StepEnd:
        """What has become of its tasks so far."""
        known = [task.max_rss_kib for task in self._tasks if task.max_rss_kib]
        return StepEnd(
            code=0 if self._ended_by else self._code,
            signal=self._ended_by,
            max_rss_mib=max(known) / 1024 if known else None,
            cpu_s=sum(task.cpu_s for task in self._tasks),
            is_cancelled=self._is_cancelled,
        )

    async def run(self) -> bool:
        """Serve it until all tasks have ended; False when the command has gone away before. Raises OSError."""
        hearing = asyncio.create_task(self._hear())
        following = [asyncio.create_task(self._follow(task)) for task in self.unended()]
        all_of_them = asyncio.gather(*following)
        feeding = asyncio.create_task(self._feed())
        waited: tuple[asyncio.Future[Any], ...] = (hearing, all_of_them)
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if all_of_them.done():
                all_of_them.result()
                return True
            return False
        except (ConnectionError, ProtocolError):
            return False
        finally:
            for work in (hearing, feeding, all_of_them):
                work.cancel()
            await asyncio.gather(hearing, feeding, all_of_them, return_exceptions=True)

    async def end_task(self, task: LaunchedTask) -> None:
        """Nobody waits for it any more."""
        ask = self._about(task)
        ask.signal.signal, ask.signal.ends = 15, True
        await self._relay.ask(ask, END_S)

    # -- one task -------------------------------------------------------------------------------------------------

    def _about(self, task: LaunchedTask) -> agent_pb2.TaskAsk:
        return agent_pb2.TaskAsk(
            job_id=self._key[0],
            attempt=self._key[1],
            task=f"{self._request.key}-{task.number}",
            host=task.host,
            from_host=self._host,
        )

    async def _follow(self, task: LaunchedTask) -> None:
        """Start it, pass on what it prints, tell its end."""
        status, problem = 0, await self._start(task)
        task.begun.set()
        if not problem:
            status, problem = await self._show(task)
        code = 255 if problem else _exit_code(status)
        if code > self._code:
            self._code = code
            self._ended_by = os.WTERMSIG(status) if not problem and os.WIFSIGNALED(status) else 0
        self._left -= 1
        if not self._left:
            self._over.set()
            self.on_over(self.end)
        await self._write(launch_protocol.ENDED, task, f"{status} {problem}".encode())
        task.has_ended = True
        self._background.beside(self._release(task))

    async def _release(self, task: LaunchedTask) -> None:
        ask = self._about(task)
        ask.release.SetInParent()
        await self._relay.ask(ask, END_S)

    async def _start(self, task: LaunchedTask) -> str:
        """Why it could not be started; empty when it was."""
        ask = self._about(task)
        start = ask.start
        words = self._command(task.number)
        if not words:
            return f"no line of the file of programs is for task {task.number}"
        start.argv.extend(_bytes(word) for word in words)
        own = (f"LSF_PM_TASKID={task.number + 1}", f"GSCHED_TASK_COUNT={len(self._tasks)}", f"PWD={self._request.cwd}")
        start.environment.extend(_bytes(each) for each in (*self._request.environment, *own))
        start.cwd, start.umask, start.reads = _bytes(self._request.cwd), self._request.umask, task in self._readers
        if self._step is not None:
            self._describe(self._step, task.number, start)
        async with self._background.starts:
            reply = await self._relay.ask(ask, START_S)
        return str(reply.error)

    @staticmethod
    def _describe(step: LaunchedStep, number: int, start: agent_pb2.StartTask) -> None:
        """What a task of a step has that others have not."""
        gpus = step.places[number].gpus
        start.own.extend(_bytes(each) for each in step.variables(number))
        start.pty, start.outside, start.picks_gpus = step.has_terminal(number), step.is_outside, gpus is not None
        start.gpus.extend(gpus or ())

    def _is_reader(self, number: int) -> bool:
        """Whether standard input goes to this task."""
        if not self._request.reads:
            return False
        return len(self._tasks) == 1 if self._step is None else self._step.reads(number)

    def _command(self, number: int) -> list[str]:
        """As rsh does it: the words joined by blanks are a line for a shell, unless they are to be executed as such."""
        if self._step is not None:
            return self._step.words(number, self._words)
        if self._request.shell == launch_protocol.NO_SHELL:
            return self._words
        line = ["/bin/sh", "-c", " ".join(self._words)]
        return steps.in_login(self._login_shell, line) if self._request.shell == launch_protocol.LOGIN_SHELL else line

    async def _show(self, task: LaunchedTask) -> tuple[int, str]:
        """Its output, up to its end: wait status, and what went wrong."""
        most = SMALL
        while True:
            ask = self._about(task)
            ask.read.stdout_from, ask.read.stderr_from, ask.read.most = task.out, task.err, most
            if most == SMALL:
                ask.read.wait_s = WAIT_S
                reply = await self._relay.ask(ask)
            else:
                async with self._background.floods if task.host != self._host else contextlib.nullcontext():
                    reply = await self._relay.ask(ask)
            await self._pass_on(task, reply)
            if reply.over:
                task.cpu_s, task.max_rss_kib = reply.cpu_s, reply.max_rss_kib
            elif reply.cpu_s > task.cpu_s or reply.max_rss_kib > task.max_rss_kib:
                task.cpu_s = max(task.cpu_s, reply.cpu_s)
                task.max_rss_kib = max(task.max_rss_kib, reply.max_rss_kib)
                self.on_use(self.end)
            if reply.over or reply.error:
                return reply.status, reply.error
            is_flood = most in (len(reply.stdout), len(reply.stderr))
            most = PIECE if is_flood else SMALL

    async def _pass_on(self, task: LaunchedTask, reply: agent_pb2.TaskReply) -> None:
        for kind, data in ((launch_protocol.OUT, reply.stdout), (launch_protocol.ERR, reply.stderr)):
            if data:
                await self._write(kind, task, data)
        task.out += len(reply.stdout)
        task.err += len(reply.stderr)

    async def _write(self, kind: bytes, task: LaunchedTask, data: bytes) -> None:
        async with self._writing:
            self._writer.write(frame(kind, task.number.to_bytes(4, "big") + data))
            await self._writer.drain()

    # -- from the command -----------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        """Returns when the command has gone away. Raises ProtocolError, OSError."""
        while (found := await self._frames.next()) is not None:
            kind, payload = found
            if kind == launch_protocol.SIGNAL:
                number = int(payload) if payload.isdigit() and len(payload) < 3 else 0
                self.send_signal(number)
            elif kind == step_messages.WINDOW:
                self._resize(payload)
            elif kind in (launch_protocol.DATA, launch_protocol.END) and self._typed.empty() and self._readers:
                self._typed.put_nowait((kind, payload))
            else:
                raise ProtocolError(f"a frame {kind!r} that nobody has asked for")

    def cancel(self) -> None:
        """Somebody ends it (scancel): SIGTERM to all tasks, SIGKILL to what is left KILL_WAIT_S later."""
        if not self._is_cancelled:
            self._is_cancelled = True
            self._background.beside(self._end_gently())

    async def _end_gently(self) -> None:
        with contextlib.suppress(OSError):  # the command has gone away, and that ends the tasks as well
            async with self._writing:
                self._writer.write(frame(step_messages.CANCELLED, b""))
                await self._writer.drain()
        for number in (signal.SIGTERM, signal.SIGCONT):
            await self._signal_all(self.unended(), number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_WAIT_S):
                await self._over.wait()
        await self._signal_all(self.unended(), signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """To all tasks; one that is on its way already is not sent again, as the kernel does it (signal(7))."""
        if number not in self._signals and len(self._signals) < MOST_SIGNALS:
            self._signals.add(number)
            self._background.beside(self._signal_all(self.unended(), number))

    async def _signal_all(self, tasks: Sequence[LaunchedTask], number: int) -> None:
        try:
            await asyncio.gather(*(self._signal(task, number) for task in tasks))
        finally:
            self._signals.discard(number)

    async def _signal(self, task: LaunchedTask, number: int) -> None:
        ask = self._about(task)
        ask.signal.signal = number
        await self._relay.ask(ask, END_S)

    def _resize(self, payload: bytes) -> None:
        """The window of who sits at the terminal of task 0 has another size."""
        rows, _, columns = payload.partition(b" ")
        if len(payload) < 12 and rows.isdigit() and columns.isdigit() and not self._tasks[0].has_ended:
            ask = self._about(self._tasks[0])
            ask.type.rows, ask.type.columns = int(rows), int(columns)
            self._background.beside(self._ask_quietly(ask))

    async def _ask_quietly(self, ask: agent_pb2.TaskAsk) -> None:
        await self._relay.ask(ask, END_S)

    async def _feed(self) -> None:
        """Ask the command for its standard input piece by piece, and hand it to the tasks that read."""
        readers = [task for task in self._readers if not task.has_ended]
        for task in readers:
            await task.begun.wait()
        if readers:
            taken = min([await self._type(task, 0, b"", is_last=False) for task in readers])
            with contextlib.suppress(ConnectionError):  # the command has gone away; who hears it deals with that
                await self._feed_from(readers, taken)

    async def _feed_from(self, readers: Sequence[LaunchedTask], taken: int) -> None:
        while True:
            async with self._writing:
                self._writer.write(frame(launch_protocol.WANT, b"%d" % taken))
                await self._writer.drain()
            kind, data = await self._typed.get()
            for task in readers:
                await self._type_all(task, taken, data, is_last=kind == launch_protocol.END)
            taken += len(data)
            if kind == launch_protocol.END:
                return

    async def _type_all(self, task: LaunchedTask, first: int, data: bytes, *, is_last: bool) -> None:
        taken, end = first, first + len(data)
        while taken < end and not task.has_ended:
            taken = await self._type(task, taken, data[taken - end :], is_last=False)
        if is_last and not task.has_ended:
            await self._type(task, end, b"", is_last=True)

    async def _type(self, task: LaunchedTask, first: int, data: bytes, *, is_last: bool) -> int:
        ask = self._about(task)
        ask.type.first, ask.type.data, ask.type.end = first, data, is_last
        reply = await self._relay.ask(ask)
        return max(reply.taken, first)


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _bytes(text: str) -> bytes:
    return text.encode("utf8", "surrogateescape")
