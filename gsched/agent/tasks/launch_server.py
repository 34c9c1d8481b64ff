"""The agent's socket for its jobs: `glaunch` asks here for tasks, and is served until they have ended.

Who asks is proven by the kernel: the process on the other end belongs to an attempt of this host, or nothing is done.
An agent that ends leaves the tasks alone: the commands come back to its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pwd
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from gsched.agent.tasks.launched_step import LaunchedStep
from gsched.agent.tasks.step_desk import StepDesk
from gsched.agent.tasks.step_records import StepEnd, StepRecord
from gsched.agent.tasks.task_launch import LaunchFrames, LaunchOrder, LaunchWork, TaskLaunch
from gsched.agent.tasks.task_questions import TaskQuestions
from gsched.base.errors import GschedError
from gsched.model.jobs.job_step import StepGranted, StepRequest
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.wire.identity.socket_peer import peer_of
from gsched.wire.messages import launch_protocol, requeue_messages, step_messages
from gsched.wire.messages.frames import ProtocolError, frame
from gsched.wire.messages.launch_protocol import LaunchRequest
from gsched.wire.stream_end import end_stream

log = logging.getLogger(__name__)

REQUEST_S = 10.0
CLOSE_S = 60.0
"""How long a command may take to read what it was told last."""
MOST_CONNECTIONS = 256
"""Of one user at a time."""
_FAILED = StepEnd(code=255)
MOST_TASKS = 10_000
"""Of one launch."""
MOST_LOAD = 128 << 20
"""Bytes of memory that the launches of one user may take here, about."""
_STRING, _TASK = 64, 8192
"""Bytes that a word and a task take, about."""

Prove = Callable[[int, int], AttemptKey | None]
Hosts = Callable[[AttemptKey], Sequence[str]]
STEP_WAIT = "Job step creation temporarily disabled, retrying (Requested nodes are busy)"


class LaunchMemoryExceeded(Exception):
    """The launches of a user take as much memory as they may."""


class Load:
    """What one connection takes of its user's share. `loads`: what all of a user's take."""

    def __init__(self, loads: Counter[int], uid: int) -> None:
        self._loads = loads
        self._uid = uid
        self._own = 0

    def add(self, size: int) -> None:
        """Raises TooMuch."""
        if self._loads[self._uid] + size > MOST_LOAD:
            raise LaunchMemoryExceeded
        self._loads[self._uid] += size
        self._own += size

    def passed_on(self) -> Load:
        """Leave it to another to end this load."""
        other = Load(self._loads, self._uid)
        other._own, self._own = self._own, 0
        return other

    def end(self) -> None:
        """Give back what was taken of the user's share."""
        self._loads[self._uid] -= self._own
        self._own = 0
        if not self._loads[self._uid]:
            del self._loads[self._uid]


@dataclass(frozen=True, slots=True)
class LaunchCaller:
    """Who asks: a process of this host, or (`key`) somebody outside of the job who may ask for its steps."""

    pid: int
    uid: int
    key: AttemptKey | None = None


class LaunchServer:
    """`prove(pid, uid)` names the attempt that a process belongs to, asked in another thread; `hosts(key)` its hosts, a
    name for each slot.
    """

    def __init__(self, host: str, relay: TaskQuestions, prove: Prove, hosts: Hosts, desk: StepDesk) -> None:
        self._host = host
        self._desk = desk
        self._relay = relay
        self._prove = prove
        self._hosts = hosts
        self._server: asyncio.Server | None = None
        self._launches: set[asyncio.Task[None]] = set()
        self._users: Counter[int] = Counter()
        self._loads: Counter[int] = Counter()
        self._background = LaunchWork()
        self._steps: dict[AttemptKey, dict[int, TaskLaunch]] = {}
        """Those whose commands are served, by number."""
        self.ask_requeue: Callable[[AttemptKey], str] = lambda key: "jobs are not run again here"
        """Notes that a job wants to run again when its attempt has ended; why not, or nothing."""

    def signal_steps(self, key: AttemptKey, signum: int, number: int | None = None) -> None:
        """Send a signal to the tasks of the attempt's steps, on all hosts, or of one of them; 0 ends the step. What has
        ended meanwhile, or nobody serves, is left alone.
        """
        for served, each in list(self._steps.get(key, {}).items()):
            if number not in (None, served):
                continue
            if signum:
                each.send_signal(signum)
            else:
                each.cancel()

    async def open(self, listening: socket.socket) -> None:
        """Serve this listening socket."""
        self._server = await asyncio.start_unix_server(self._accept, sock=listening)

    def close(self) -> None:
        """Stop serving. Tasks go on."""
        if self._server is not None:
            self._server.close()
        for launch in self._launches:
            launch.cancel()
        self._background.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, uid, _ = peer_of(writer.get_extra_info("socket"))
        await self._attend(LaunchCaller(pid, uid), reader, writer)

    async def serve_owner(self, key: AttemptKey, uid: int, connection: socket.socket) -> None:
        """Serve who may ask for steps of this attempt, as the master has found: it belongs to the user `uid`."""
        reader, writer = await asyncio.open_connection(sock=connection)
        await self._attend(LaunchCaller(0, uid, key), reader, writer)

    async def _attend(self, caller: LaunchCaller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self._launches.add(this)
        pid, uid = caller.pid, caller.uid
        self._users[uid] += 1
        load = Load(self._loads, uid)
        try:
            await self._serve(reader, writer, caller, load)
        except LaunchMemoryExceeded:
            refusal = f"the launches of this user take as much memory on {self._host} as they may"
            with contextlib.suppress(OSError):
                await _refuse(writer, refusal)
        except (OSError, ProtocolError, TimeoutError) as problem:
            log.debug("a connection of process %d: %s", pid, problem)
        except asyncio.CancelledError:  # the agent ends
            pass
        except Exception:
            log.exception("a launch by process %d failed", pid)
        finally:
            load.end()
            self._users[uid] -= 1
            if not self._users[uid]:
                del self._users[uid]
            self._launches.discard(this)
            with contextlib.suppress(asyncio.CancelledError):  # the agent ends, and asyncio takes it for a failure
                await end_stream(writer, CLOSE_S)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: LaunchCaller, load: Load
    ) -> None:
        uid = caller.uid
        if self._users[uid] > MOST_CONNECTIONS:
            refusal = f"{MOST_CONNECTIONS} launches of this user are under way on {self._host} already"
            await _refuse(writer, refusal)
            return
        # It walks from process to process and reads control groups: nothing for the loop.
        key = caller.key or await asyncio.to_thread(self._prove, caller.pid, uid)
        if key is None:
            await _refuse(writer, f"this process belongs to no job on {self._host}; it works only inside a job")
            return
        # A piece counts as had as soon as it has left this process.
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(frame(launch_protocol.HELLO, launch_protocol.GREETING))
        frames = LaunchFrames(reader)
        async with asyncio.timeout(REQUEST_S):
            if caller.key is None and await frames.begins_with(requeue_messages.ASK):
                await self._note_requeue(key, writer)
                return
            request, wanted = await frames.request(load.add)
        hosts = list(self._hosts(key))
        if not hosts:
            await _refuse(
                writer, f"nobody knows the job's hosts any more: its folder in the spool of {self._host} is gone"
            )
            return
        if wanted is not None:
            await self._serve_step(
                LaunchOrder(key, request, hosts, request.words, ""), wanted, frames, writer, caller, load
            )
            return
        if caller.key is not None:
            await _refuse(writer, "only steps are started from outside of a job")
            return
        refusal, asked, words = targets(request, hosts)
        if not refusal and request.progress is not None and len(request.progress) != len(asked):
            refusal = "the launch is not the one that was begun"
        if refusal:
            await _refuse(writer, refusal)
            return
        strings = len(request.environment) + len(request.words) + len(request.hosts)
        load.add(_STRING * strings + _TASK * len(asked))
        writer.write(frame(launch_protocol.COUNT, b"%d" % len(asked)))
        order = LaunchOrder(key, request, asked, words, _login_shell(uid))
        launch = TaskLaunch(self._background, self._relay, self._host, order, frames, writer)
        if not await launch.run():
            self._background.beside(_end_tasks(launch, load.passed_on()))

    async def _note_requeue(self, key: AttemptKey, writer: asyncio.StreamWriter) -> None:
        """The attempt's job is to wait again when it has ended."""
        refusal = self.ask_requeue(key)
        if refusal:
            await _refuse(writer, refusal)
            return
        writer.write(frame(requeue_messages.NOTED))
        await writer.drain()

    async def _serve_step(
        self,
        order: LaunchOrder,
        wanted: StepRequest,
        frames: LaunchFrames,
        writer: asyncio.StreamWriter,
        caller: LaunchCaller,
        load: Load,
    ) -> None:
        """The same for a step, which may have to wait for other steps of its job."""
        request, key = order.request, order.key
        record = await self._granted(order, wanted, frames, writer)
        if record is None:
            return
        hosts = [place.host for place in record.plan.places]
        launch: TaskLaunch | None = None
        is_over = True
        try:
            if request.progress is not None and len(request.progress) != len(hosts):
                await _refuse(writer, "the launch is not the one that was begun")
                return
            load.add(_STRING * (len(request.environment) + len(request.words)) + _TASK * len(hosts))
            granted = StepGranted(record.number, record.plan.places)
            writer.write(frame(step_messages.STEPPED, msgspec.json.encode(granted)))
            writer.write(frame(launch_protocol.COUNT, b"%d" % len(hosts)))
            step = LaunchedStep(wanted, record, is_outside=caller.key is not None)
            order = order._replace(hosts=hosts, step=step)
            launch = TaskLaunch(self._background, self._relay, self._host, order, frames, writer)
            launch.on_over = lambda end: self._desk.note_end(key, request.key, end)
            launch.on_use = lambda end: self._desk.note_use(key, request.key, end)
            is_over = False
            with self._registered(key, record.number, launch):
                is_over = await launch.run()
            if not is_over:
                self._background.beside(self._end_step(launch, key, request.key, load.passed_on()))
        finally:
            if is_over:
                await self._desk.end(key, request.key, launch.end if launch is not None else _FAILED)

    @contextlib.contextmanager
    def _registered(self, key: AttemptKey, number: int, launch: TaskLaunch) -> Iterator[None]:
        """It can be signalled meanwhile."""
        steps = self._steps.setdefault(key, {})
        steps[number] = launch
        try:
            yield
        finally:
            if steps.get(number) is launch:
                del steps[number]
            if not steps and self._steps.get(key) is steps:
                del self._steps[key]

    async def _granted(
        self, order: LaunchOrder, wanted: StepRequest, frames: LaunchFrames, writer: asyncio.StreamWriter
    ) -> StepRecord | None:
        """The step's room; None where it gets none, or its command has gone away while it waited."""
        request = order.request
        program = request.words[0].rpartition("/")[2] if request.words else "multi-prog"
        name = wanted.name or program

        def on_busy() -> None:
            writer.write(frame(step_messages.BUSY, STEP_WAIT.encode()))

        beginning = asyncio.create_task(
            self._desk.begin(order.key, request.key, name, wanted.shape, None if wanted.is_at_once else on_busy)
        )
        hearing = asyncio.create_task(frames.next())
        try:
            await asyncio.wait({beginning, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if beginning.done():
                return beginning.result()
        except (GschedError, OSError) as error:
            await _refuse(writer, error.text if isinstance(error, GschedError) else f"{self._host}: {error.strerror}")
        finally:
            for work in (beginning, hearing):
                work.cancel()
            await asyncio.gather(beginning, hearing, return_exceptions=True)
        return None

    async def _end_step(self, launch: TaskLaunch, key: AttemptKey, name: str, load: Load) -> None:
        try:
            await _end_tasks(launch, load)
        finally:
            await self._desk.end(
                key, name, msgspec.structs.replace(launch.end, code=0, signal=signal.SIGTERM, is_cancelled=True)
            )


async def _end_tasks(launch: TaskLaunch, load: Load) -> None:
    """Nobody waits for them any more."""
    try:
        await asyncio.gather(*(launch.end_task(task) for task in launch.unended()))
    finally:
        load.end()


async def _refuse(writer: asyncio.StreamWriter, text: str) -> None:
    writer.write(frame(launch_protocol.REFUSED, text.encode()))
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


def _login_shell(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"
