"""The agent's end of the fork server: start it, ask it for supervisors and programs, start it anew when it dies.

All of it is driven by the event loop; nothing here blocks, nothing knows what an attempt's files say. Closing it
ends the fork server and no supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import itertools
import os
import socket
import subprocess
import sys
from array import array
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.run import agent_line, forkserver
from gsched.run.processes import process_tree
from gsched.run.program import Program, ProgramEnd, ProgramFiles
from gsched.run.sleeping.handing_over import AFTER_S

WAITER_NAME = "gsched-waiter"
"""The program that supervisors become while nothing is to be done, as launcher/build_launcher.py has it: beside the
interpreter where gsched was installed with a C compiler."""
SLEEP_AFTER_S = AFTER_S
_POLL_S = 0.5
_NOTIFY_BUFFER_BYTES = 1 << 20
_AGAIN_S = 0.05
_KILL_S = 5.0
"""How long the end of a program that was killed is waited for."""


class ForkServer:
    """A client of the fork server.

    `on_forked(name, pid, pidfd)`: a supervisor exists; the receiver owns `pidfd` (-1 where the kernel has none).
    `on_refused(name, why)`: no process could be made. `on_started(name)`: a supervisor has let its job go.
    `on_over(name)`: one has written how it ended, and waits for another order.
    `on_lost()`: the fork server died; what was asked and not answered may or may not have happened.
    """

    def __init__(
        self,
        spool: Path,
        cluster: str,
        locks: GpuLockFolders,
        *,
        on_forked: Callable[[str, int, int], None],
        on_refused: Callable[[str, str], None],
        on_started: Callable[[str], None],
        on_over: Callable[[str], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._arguments = [str(spool), cluster, locks.common, locks.roots, "root" if locks.is_root else ""]
        self._arguments += [waiter(), str(SLEEP_AFTER_S)]
        self._on_forked = on_forked
        self._on_refused = on_refused
        self._on_started = on_started
        self._on_over = on_over
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._waiting: deque[tuple[bytes, list[int], socket.socket | None]] = deque()
        """What is to be sent, the descriptors that go with it, and what is closed when they have gone."""
        self._programs: dict[str, asyncio.Future[int]] = {}
        """Token -> how it ended."""
        self._tokens = map("p{}".format, itertools.count(1))
        self._rest = b""
        self._notify_in, self._notify_out = os.pipe()
        os.set_blocking(self._notify_in, False)
        self._widen_pipe()
        self._loop.add_reader(self._notify_in, self._read_notices)

    @property
    def pid(self) -> int | None:
        """Process id of the fork server, None when none runs."""
        return self._process.pid if self._process else None

    def ask(self, name: str, *, takes_more: bool) -> socket.socket | None:
        """Have a supervisor forked for the attempt. Raises OSError when no fork server can be started.

        `takes_more`: by the socket it takes the names of further attempts, and leaves when that is closed; None: it
        takes no more.
        """
        pair = None
        if takes_more:
            with contextlib.suppress(OSError):  # no descriptor is free
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if pair is None:
            self._request(name, [])
            return None
        ours, theirs = pair
        try:
            self._request(name, [theirs.fileno()], theirs)
        except OSError:
            ours.close()
            theirs.close()
            raise
        ours.setblocking(False)
        return ours

    async def run(self, program: Program, limit_s: float | None = None) -> ProgramEnd:
        """Run a program to its end. Raises OSError when it cannot be executed, or when the fork server died meanwhile;
        TimeoutError when it was killed after `limit_s`.
        """
        token, papers = next(self._tokens), ProgramFiles(program)
        ended = self._programs[token] = self._loop.create_future()
        try:
            self._request(f"{forkserver.RUN}{token}", papers.fds)
            try:
                async with asyncio.timeout(limit_s):
                    status = await asyncio.shield(ended)
            except TimeoutError:
                self._request(f"{forkserver.KILL}{token}", [])
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(_KILL_S):
                        await asyncio.shield(ended)
                raise
            return papers.ended(status)
        finally:
            del self._programs[token]
            ended.cancel()
            papers.close()

    def _request(self, text: str, fds: list[int], closes: socket.socket | None = None) -> None:
        """`closes`: what is closed when it is sent. Raises OSError when no fork server can be started."""
        if self._socket is None:
            self.launch()
        self._waiting.append((text.encode(), fds, closes))
        self._send()

    def launch(self) -> None:
        """Start the fork server unless it runs. Raises OSError."""
        if self._socket is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        roots = [str(Path(file).parents[above]) for file, above in ((forkserver.__file__, 2), (msgspec.__file__, 1))]
        command = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", forkserver.PRELUDE, *roots]
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [*command, *self._arguments, str(theirs.fileno()), str(self._notify_out)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), self._notify_out),
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        self._socket = ours
        self._loop.add_reader(ours.fileno(), self._read_answers)

    def close(self) -> None:
        """End the fork server; supervisors and jobs go on."""
        self._drop()
        if self._notify_in >= 0:
            self._loop.remove_reader(self._notify_in)
            os.close(self._notify_in)
            os.close(self._notify_out)
            self._notify_in = -1

    def _widen_pipe(self) -> None:
        """Room for tens of thousands of notices, so that a busy agent holds no supervisor up."""
        try:
            fcntl.fcntl(self._notify_out, fcntl.F_SETPIPE_SZ, _NOTIFY_BUFFER_BYTES)
        except OSError:  # the user's quota of pipe memory; the usual size will do
            pass

    def _send(self) -> None:
        sock = self._socket
        if sock is None:
            return
        while self._waiting:
            try:
                text, fds, closes = self._waiting[0]
                if fds:
                    socket.send_fds(sock, [text], fds)
                else:  # also of a program that is not waited for any more: it is not run
                    sock.send(text)
            except BlockingIOError:
                self._loop.add_writer(sock.fileno(), self._send)
                return
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:  # descriptors under way; the fork server takes them soon
                    self._loop.call_later(_AGAIN_S, self._send)
                return  # else the reader sees the end of the connection too, and deals with it
            self._waiting.popleft()
            if closes is not None:
                closes.close()
        self._loop.remove_writer(sock.fileno())

    def _read_answers(self) -> None:
        for _ in range(64):  # then let others have the loop
            if self._socket is None:
                return
            try:
                message, ancillary, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(4))
            except BlockingIOError:
                return
            except OSError:
                message, ancillary = b"", []
            if not message:
                self._drop()
                self._on_lost()
                return
            name, pid, why = [*message.decode(errors="replace").split(" ", 2), ""][:3]
            if name in self._programs:
                self._tell_end(name, pid, why)
            elif pid == "-":
                self._on_refused(name, why)
            elif pid == "=":  # of a program that nobody waits for any more
                pass
            else:
                self._on_forked(name, int(pid), _received_fd(ancillary))

    def _tell_end(self, token: str, sign: str, text: str) -> None:
        ended = self._programs[token]
        if ended.done():
            return
        if sign == "=":
            ended.set_result(int(text))
        else:
            ended.set_exception(OSError(text))

    def _read_notices(self) -> None:
        try:
            data = os.read(self._notify_in, 65536)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name, _, word = line.decode(errors="replace").partition(" ")
            if word == agent_line.OVER:
                self._on_over(name)
            else:
                self._on_started(name)

    def _drop(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for _, _, closes in self._waiting:
            if closes is not None:
                closes.close()
        self._waiting.clear()
        for ended in self._programs.values():
            if not ended.done():
                ended.set_exception(OSError("the fork server has ended, and nobody knows how the program did"))
        if self._process is not None:
            self._process.kill()  # it holds nothing that a kill could hurt, and is waited for at once
            self._process.wait()
            self._process = None


def waiter() -> str:
    """Path of the program that waits in the place of supervisors; empty where there is none."""
    path = os.path.join(os.path.dirname(sys.executable), WAITER_NAME)
    return path if os.access(path, os.X_OK) else ""


def _received_fd(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds = array("i")
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
            if fds:
                return fds[0]
    return -1


class Watch:
    """Calls `gone` once when a process has ended: through its pidfd, or by looking now and then without one."""

    def __init__(self, pid: int, start: int, gone: Callable[[], None], pidfd: int = -1) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid = pid
        self._start = start
        self._gone = gone
        self._timer: asyncio.Handle | None = None
        if pidfd < 0:
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                pidfd = -1
            if pidfd < 0 or not process_tree.is_alive(pid, start):
                if pidfd >= 0:
                    os.close(pidfd)
                self._fd = -1
                self._timer = self._loop.call_soon(self._look)
                return
        self._fd = pidfd
        self._loop.add_reader(pidfd, self._fire)

    def redirect(self, gone: Callable[[], None]) -> None:
        """Call this from now on, in place of what was to be called."""
        self._gone = gone

    def close(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _look(self) -> None:
        if process_tree.is_alive(self._pid, self._start):
            self._timer = self._loop.call_later(_POLL_S, self._look)
        else:
            self._fire()

    def _fire(self) -> None:
        self.close()
        self._gone()
