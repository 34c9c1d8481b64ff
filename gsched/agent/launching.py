"""The agent's socket for its jobs: `glaunch` asks here for tasks, and is served until they have ended.

Who asks is proven by the kernel: the process on the other end belongs to an attempt of this host, or nothing is done.
Nothing is read of what a task prints before what was read of it is on its way to who asked, so however much it is,
little of it is in memory. An agent that ends leaves the tasks alone: the commands come back to its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pwd
import socket
import struct
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gsched.agent.relay import Relay
from gsched.agent.tasks import PIECE, SMALL
from gsched.model.host_ledger import AttemptKey
from gsched.run import steps
from gsched.wire import launching
from gsched.wire.frames import Decoder, ProtocolError, frame
from gsched.wire.launching import LaunchRequest
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)

START_S = 120.0
"""How long a host that cannot be reached is waited for with a task that has not been started."""
WAIT_S = 10.0
"""How long a host waits for output of a task until it is asked again."""
END_S = 60.0
"""How long a host is asked to end a task that nobody waits for."""
REQUEST_S = 10.0
MOST_CONNECTIONS = 256
"""Of one user at a time."""
MOST_TASKS = 10_000
"""Of one launch."""
STARTS = 32
"""Tasks that are being started at a time: each carries the environment."""
FLOODS = 2
"""Tasks of which large pieces of output are under way at a time, so that a slow line is not silent for long."""

Prove = Callable[[int, int], AttemptKey | None]
Hosts = Callable[[AttemptKey], Sequence[str]]


class LaunchDoor:
    """`prove(pid, uid)` names the attempt that a process belongs to; `hosts(key)` its hosts, a name for each slot."""

    def __init__(self, host: str, relay: Relay, prove: Prove, hosts: Hosts) -> None:
        self._host = host
        self._relay = relay
        self._prove = prove
        self._hosts = hosts
        self._server: asyncio.Server | None = None
        self._launches: set[asyncio.Task[None]] = set()
        self._users: Counter[int] = Counter()
        self._ends: set[asyncio.Task[None]] = set()
        self.starts = asyncio.Semaphore(STARTS)
        self.floods = asyncio.Semaphore(FLOODS)

    async def open(self, listening: socket.socket) -> None:
        """Serve this listening socket."""
        self._server = await asyncio.start_unix_server(self._accept, sock=listening)

    def close(self) -> None:
        """Stop serving. Tasks go on."""
        if self._server is not None:
            self._server.close()
        for task in (*self._launches, *self._ends):
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self._launches.add(this)
        connection = writer.get_extra_info("socket")
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        self._users[uid] += 1
        try:
            await self._serve(reader, writer, pid, uid)
        except (OSError, ProtocolError, TimeoutError) as problem:
            log.debug("a connection of process %d: %s", pid, problem)
        except asyncio.CancelledError:  # the agent ends
            pass
        except Exception:
            log.exception("a launch by process %d failed", pid)
        finally:
            self._users[uid] -= 1
            if not self._users[uid]:
                del self._users[uid]
            self._launches.discard(this)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int, uid: int) -> None:
        if self._users[uid] > MOST_CONNECTIONS:
            refusal = f"{MOST_CONNECTIONS} launches of this user are under way on {self._host} already"
            await _refuse(writer, refusal)
            return
        key = self._prove(pid, uid)
        if key is None:
            await _refuse(writer, f"this process belongs to no job on {self._host}; it works only inside a job")
            return
        # A piece counts as had as soon as it has left this process.
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(frame(launching.HELLO, launching.GREETING))
        frames = Frames(reader)
        async with asyncio.timeout(REQUEST_S):
            request = await frames.request()
        hosts = list(self._hosts(key))
        refusal, asked, words = targets(request, hosts)
        if not refusal and request.progress is not None and len(request.progress) != len(asked):
            refusal = "the launch is not the one that was begun"
        if refusal:
            await _refuse(writer, refusal)
            return
        writer.write(frame(launching.COUNT, b"%d" % len(asked)))
        shell = _login_shell(uid)
        launch = Launch(self, self._relay, self._host, key, request, asked, words, shell, frames, writer)
        if not await launch.run():
            for task in launch.unended():
                self.beside(launch.end_task(task))

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Carry it out while nobody waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)


async def _refuse(writer: asyncio.StreamWriter, text: str) -> None:
    writer.write(frame(launching.REFUSED, text.encode()))
    await writer.drain()


def targets(request: LaunchRequest, slots: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Why it cannot be (or nothing), the host of each task, and the words of the command.

    `slots`: the job's hosts, a name for each slot. Without a host there is a task for each of them.
    """
    words = list(request.words)
    asked = list(request.hosts)
    if not asked and words and (host := known_as(words[0], slots)):
        asked, words = [host], words[1:]
    found = []
    for name in asked:
        host = known_as(name, slots)
        if not host:
            return f"{name} is not a host of this job; it has {', '.join(dict.fromkeys(slots))}", [], []
        found.append(host)
    if not words:
        return "no command to run", [], []
    found = found or list(slots)
    if len(found) > MOST_TASKS:
        return f"{len(found)} tasks; {MOST_TASKS} can be launched at a time", [], []
    return "", found, words


def known_as(name: str, hosts: Sequence[str]) -> str:
    """The job's host of this name, with or without its domain; empty when there is none."""
    if name in hosts:
        return name
    short = name.partition(".")[0].lower()
    return next((host for host in hosts if "." in name + host and host.partition(".")[0].lower() == short), "")


class Frames:
    """What the command says."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._decoder = Decoder()
        self._frames: list[tuple[bytes, bytes]] = []

    async def next(self) -> tuple[bytes, bytes] | None:
        """None at the end of the connection. Raises ProtocolError, OSError."""
        while not self._frames:
            data = await self._reader.read(launching.MAX_PIECE)
            if not data:
                return None
            self._frames = self._decoder.feed(data)
        return self._frames.pop(0)

    async def request(self) -> LaunchRequest:
        """What is to be launched. Raises ProtocolError."""
        blob = bytearray()
        while (found := await self.next()) is not None:
            kind, payload = found
            if kind == launching.GO:
                return LaunchRequest.decode(bytes(blob))
            blob += payload
            if kind != launching.REQUEST or len(blob) > launching.MAX_REQUEST:
                break
        raise ProtocolError("no request")


class _Task:
    """One of a launch."""

    def __init__(self, number: int, host: str, had: tuple[int, int] | None) -> None:
        self.number = number
        self.host = host
        self.out, self.err = had or (0, 0)
        self.has_ended = had is None


class Launch:
    """The tasks of one command, from its request to their ends."""

    def __init__(
        self,
        door: LaunchDoor,
        relay: Relay,
        host: str,
        key: AttemptKey,
        request: LaunchRequest,
        hosts: Sequence[str],
        words: Sequence[str],
        login_shell: str,
        frames: Frames,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._login_shell = login_shell
        self._door = door
        self._relay = relay
        self._host = host
        self._key = key
        self._request = request
        self._words = list(words)
        self._frames = frames
        self._writer = writer
        progress = request.progress or ((0, 0),) * len(hosts)
        self._tasks = [_Task(number, host, had) for number, (host, had) in enumerate(zip(hosts, progress, strict=True))]
        self._reads = request.reads and len(hosts) == 1
        self._typed: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()
        self._writing = asyncio.Lock()

    def unended(self) -> list[_Task]:
        """Those whose end has not been told."""
        return [task for task in self._tasks if not task.has_ended]

    async def run(self) -> bool:
        """Serve it until all tasks have ended; False when the command has gone away before. Raises OSError."""
        hearing = asyncio.create_task(self._hear())
        following = [asyncio.create_task(self._follow(task)) for task in self.unended()]
        all_of_them = asyncio.gather(*following)
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
            hearing.cancel()
            all_of_them.cancel()
            await asyncio.gather(hearing, all_of_them, return_exceptions=True)

    async def end_task(self, task: _Task) -> None:
        """Nobody waits for it any more."""
        ask = self._about(task)
        ask.signal.signal, ask.signal.ends = 15, True
        await self._relay.ask(ask, END_S)

    # -- one task -------------------------------------------------------------------------------------------------

    def _about(self, task: _Task) -> agent_pb2.TaskAsk:
        return agent_pb2.TaskAsk(
            job_id=self._key[0],
            attempt=self._key[1],
            task=f"{self._request.key}-{task.number}",
            host=task.host,
            from_host=self._host,
        )

    async def _follow(self, task: _Task) -> None:
        """Start it, pass on what it prints, tell its end."""
        status, problem = 0, await self._start(task)
        if not problem:
            feeding = asyncio.create_task(self._feed(task)) if self._reads else None
            try:
                status, problem = await self._show(task)
            finally:
                if feeding is not None:
                    feeding.cancel()
        await self._write(launching.ENDED, task, f"{status} {problem}".encode())
        task.has_ended = True
        self._door.beside(self._release(task))

    async def _release(self, task: _Task) -> None:
        ask = self._about(task)
        ask.release.SetInParent()
        await self._relay.ask(ask, END_S)

    async def _start(self, task: _Task) -> str:
        """Why it could not be started; empty when it was."""
        ask = self._about(task)
        start = ask.start
        start.argv.extend(_bytes(word) for word in self._command())
        own = (f"LSF_PM_TASKID={task.number + 1}", f"GSCHED_TASK_COUNT={len(self._tasks)}", f"PWD={self._request.cwd}")
        start.environment.extend(_bytes(each) for each in (*self._request.environment, *own))
        start.cwd, start.umask, start.reads = _bytes(self._request.cwd), self._request.umask, self._reads
        async with self._door.starts:
            reply = await self._relay.ask(ask, START_S)
        return str(reply.error)

    def _command(self) -> list[str]:
        """As rsh does it: the words joined by blanks are a line for a shell, unless they are to be executed as such."""
        if self._request.shell == launching.NO_SHELL:
            return self._words
        line = ["/bin/sh", "-c", " ".join(self._words)]
        return steps.in_login(self._login_shell, line) if self._request.shell == launching.LOGIN_SHELL else line

    async def _show(self, task: _Task) -> tuple[int, str]:
        """Its output, up to its end: wait status, and what went wrong."""
        most = SMALL
        while True:
            ask = self._about(task)
            ask.read.stdout_from, ask.read.stderr_from, ask.read.most = task.out, task.err, most
            if most == SMALL:
                ask.read.wait_s = WAIT_S
                reply = await self._relay.ask(ask)
            else:
                async with self._door.floods if task.host != self._host else contextlib.nullcontext():
                    reply = await self._relay.ask(ask)
            await self._pass_on(task, reply)
            if reply.over or reply.error:
                return reply.status, reply.error
            is_flood = most in (len(reply.stdout), len(reply.stderr))
            most = PIECE if is_flood else SMALL

    async def _pass_on(self, task: _Task, reply: agent_pb2.TaskReply) -> None:
        for kind, data in ((launching.OUT, reply.stdout), (launching.ERR, reply.stderr)):
            if data:
                await self._write(kind, task, data)
        task.out += len(reply.stdout)
        task.err += len(reply.stderr)

    async def _write(self, kind: bytes, task: _Task, data: bytes) -> None:
        async with self._writing:
            self._writer.write(frame(kind, task.number.to_bytes(4, "big") + data))
            await self._writer.drain()

    # -- from the command -----------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        """Returns when the command has gone away. Raises ProtocolError, OSError."""
        while (found := await self._frames.next()) is not None:
            kind, payload = found
            if kind == launching.SIGNAL:
                number = int(payload) if payload.isdigit() and len(payload) < 3 else 0
                for task in self.unended():
                    self._door.beside(self._signal(task, number))
            elif kind in (launching.DATA, launching.END) and self._typed.empty() and self._reads:
                self._typed.put_nowait((kind, payload))
            else:
                raise ProtocolError(f"a frame {kind!r} that nobody has asked for")

    async def _signal(self, task: _Task, number: int) -> None:
        ask = self._about(task)
        ask.signal.signal = number
        await self._relay.ask(ask, END_S)

    async def _feed(self, task: _Task) -> None:
        """Ask the command for its standard input piece by piece, and hand it to the task."""
        taken = await self._type(task, 0, b"", is_last=False)
        while True:
            async with self._writing:
                self._writer.write(frame(launching.WANT, b"%d" % taken))
                await self._writer.drain()
            kind, data = await self._typed.get()
            end = taken + len(data)
            while taken < end:
                taken = await self._type(task, taken, data[taken - end :], is_last=False)
            if kind == launching.END:
                await self._type(task, taken, b"", is_last=True)
                return

    async def _type(self, task: _Task, first: int, data: bytes, *, is_last: bool) -> int:
        ask = self._about(task)
        ask.type.first, ask.type.data, ask.type.end = first, data, is_last
        reply = await self._relay.ask(ask)
        return max(reply.taken, first)


def _login_shell(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


def _bytes(text: str) -> bytes:
    return text.encode("utf8", "surrogateescape")
