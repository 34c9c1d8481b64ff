"""The fork server: a small interpreter that forks a supervisor for each attempt, and what the agent runs as others.

A fork of the agent, with its libraries and threads, costs more than ten times as much and may deadlock or crash gRPC.
This process imports next to nothing, freezes its heap so that its children share it, and lives as long as the agent's
socket.

Protocol, on a SOCK_SEQPACKET socket: the agent sends an attempt's name, with the socket that its supervisor is to get
the names of further ones by; the answer is `NAME PID` with the supervisor's pidfd, or `NAME - WHY` when no process
could be made. With `run TOKEN` come the files of a program (gsched.run.program);
the answer is `TOKEN = STATUS` when it has ended, or `TOKEN - WHY`. `kill TOKEN` ends such a program with its process
group. Never touches an attempt itself, nor opens anything for a program: their own processes do.

Run as: python -I -S -E -X utf8 -c PRELUDE PACKAGE_ROOT MSGSPEC_ROOT SPOOL CLUSTER LOCK_FOLDERS... WAITER AFTER_S
SOCKET_FD NOTIFY_FD; WAITER: path of the program that supervisors become after so many seconds (handing_over), or empty.
"""

from __future__ import annotations

import _socket
import ctypes
import gc
import os
import select
import signal
import struct
import sys
from collections.abc import Sequence

from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.run import program_child
from gsched.run.order import Order, read_order, written_order
from gsched.run.sleeping.handing_over import Waiter
from gsched.run.sleeping.resuming import go_on
from gsched.run.supervisor.opening import SupervisorSettings
from gsched.run.supervisor.serving import supervise

PRELUDE = (
    # msgspec does without typing_extensions; each fork would copy it, inspect, ast and tokenize
    'import sys; sys.path += sys.argv[1:3]; sys.modules["typing_extensions"] = None; '
    "from gsched.run.forkserver import main; sys.exit(main(sys.argv[3:]))"
)

_PR_SET_CHILD_SUBREAPER = 36
RUN, KILL = "run ", "kill "
"""How requests about programs begin; names of attempts have no blank."""
_MESSAGE_BYTES = 512
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261}
"""Number of the system call set_mempolicy(2), which the C library has no function for."""
_MPOL_BIND = 2
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)


def main(arguments: list[str]) -> int:
    """Serve until the agent closes its end of the socket."""
    spool, cluster, common, roots, is_root, waiter, after_s, socket_fd, notify_fd = arguments
    for fd in (int(socket_fd), int(notify_fd)):
        os.set_inheritable(fd, False)
    libc = ctypes.CDLL(None, use_errno=True)

    def become_subreaper() -> object:
        return libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def bind_memory(nodes: Sequence[int]) -> None:
        mask = (ctypes.c_ulong * (max(nodes) // _WORD_BITS + 1))()
        for node in nodes:
            mask[node // _WORD_BITS] |= 1 << node % _WORD_BITS
        number = _SET_MEMPOLICY.get(os.uname().machine)
        if number is None:
            raise OSError(f"how to do it on {os.uname().machine} is not known")
        if libc.syscall(number, _MPOL_BIND, mask, len(mask) * _WORD_BITS + 1):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    os.chdir("/")
    settings = SupervisorSettings(
        spool,
        cluster,
        GpuLockFolders(common, roots, bool(is_root)),
        int(notify_fd),
        become_subreaper,
        bind_memory,
        Waiter(waiter, float(after_s), sys.argv[1:3]) if waiter else None,
    )
    requests = _socket.socket(fileno=int(socket_fd))
    wake_in, wake_out = os.pipe()
    for fd in (wake_in, wake_out):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent; it then closes the socket
    read_order(written_order(Order(job_id=1, attempt=1, command="")))  # msgspec learns a type when it first reads one
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        _Server(requests, wake_in, wake_out, settings).serve()
    except ConnectionError:  # the agent is gone
        pass
    return 0


def resume(fd: int) -> None:
    """Body of a supervisor that has slept; `fd`: what it knew (handing_over). Never returns.

    Programs that wait have the name of this function in their arguments, also those of earlier versions.
    """
    go_on(fd)


class _Server:
    """One agent's."""

    def __init__(self, requests: _socket.socket, wake_in: int, wake_out: int, settings: SupervisorSettings) -> None:
        self._requests = requests
        self._wake_in = wake_in
        self._own = (requests.fileno(), wake_in, wake_out)
        self._settings = settings
        self._programs: dict[int, str] = {}
        """Process -> token, of programs that have not ended."""

    def serve(self) -> None:
        """Until the agent closes its end. Raises ConnectionError when it is gone."""
        poller = select.poll()
        poller.register(self._requests.fileno(), select.POLLIN)
        poller.register(self._wake_in, select.POLLIN)
        room = _socket.CMSG_SPACE(program_child.FDS * struct.calcsize("i"))
        while True:
            ready = [fd for fd, _ in poller.poll()]
            if self._wake_in in ready:
                os.read(self._wake_in, 4096)
                self._reap()
            if self._requests.fileno() in ready:
                message, ancillary, _, _ = self._requests.recvmsg(_MESSAGE_BYTES, room, _socket.MSG_CMSG_CLOEXEC)
                if not message:
                    return
                self._answer(message.decode(), _received(ancillary))

    def _answer(self, request: str, fds: list[int]) -> None:
        try:
            if request.startswith(RUN):
                self._run(request.removeprefix(RUN), fds)
            elif request.startswith(KILL):
                self._kill(request.removeprefix(KILL))
            else:
                self._supervise(request, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _fork(self, name: str) -> int:
        """The child's process id, 0 in the child; -1 when there is none, and the agent knows."""
        try:
            pid = os.fork()
        except OSError as error:
            self._requests.send(f"{name} - {error.strerror}".encode())
            return -1
        if pid == 0:
            for fd in self._own:
                os.close(fd)
        return pid

    def _supervise(self, name: str, fds: list[int]) -> None:
        """Fork one supervisor and tell the agent which."""
        pid = self._fork(name)
        if pid == 0:
            supervise(self._settings, name, fds[0] if len(fds) == 1 else -1)
        if pid < 0:
            return
        # The child is reaped by nobody but this loop, so its pid is still its own here.
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # a kernel or a sandbox without pidfds, or no descriptor free
            self._requests.send(f"{name} {pid}".encode())
            return
        try:
            rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", pidfd))]
            self._requests.sendmsg([f"{name} {pid}".encode()], rights)
        finally:
            os.close(pidfd)

    def _run(self, token: str, fds: list[int]) -> None:
        if len(fds) != program_child.FDS:  # no descriptor was free
            self._requests.send(f"{token} - its files have not come".encode())
            return
        pid = self._fork(token)
        if pid == 0:
            program_child.become_program(fds)
        if pid > 0:
            self._programs[pid] = token

    def _kill(self, token: str) -> None:
        """With what it has started in its session, unless that has a process group of its own."""
        for pid, each in self._programs.items():
            if each == token:  # it was not reaped: its number is its own
                for kill in (os.killpg, os.kill):
                    try:
                        kill(pid, signal.SIGKILL)
                    except ProcessLookupError:  # it leads no group yet
                        pass

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            token = self._programs.pop(pid, None)
            if token is not None:
                self._requests.send(f"{token} = {status}".encode())


def _received(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Descriptors that came along."""
    size = struct.calcsize("i")
    found: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            found += struct.unpack(f"{len(data) // size}i", data[: len(data) - len(data) % size])
    return found
