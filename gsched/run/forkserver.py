"""The fork server: a small interpreter that forks a supervisor for each attempt.

A fork of the agent, with its libraries and threads, costs more than ten times as much and may deadlock. This process
imports next to nothing, freezes its heap so that its children share it, and lives as long as the agent's socket.

Protocol, on a SOCK_SEQPACKET socket: the agent sends an attempt's name; the answer is `NAME PID` with the supervisor's
pidfd, or `NAME - WHY` when no process could be made. Never touches an attempt itself; the supervisors do.

Run as: python -I -S -E -X utf8 -c PRELUDE PACKAGE_ROOT SPOOL CLUSTER LOCK_FOLDER SOCKET_FD NOTIFY_FD
"""

from __future__ import annotations

import _socket
import ctypes
import gc
import os
import select
import signal
import struct

from gsched.base.gpulock import Places
from gsched.run import supervisor
from gsched.run.opening import Settings

PRELUDE = (
    "import sys; sys.path.append(sys.argv[1]); from gsched.run.forkserver import main; sys.exit(main(sys.argv[2:]))"
)

_PR_SET_CHILD_SUBREAPER = 36
_MESSAGE_BYTES = 512
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261}
"""Number of the system call set_mempolicy(2), which the C library has no function for."""
_MPOL_BIND = 2
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)


def main(arguments: list[str]) -> int:
    """Serve until the agent closes its end of the socket."""
    spool, cluster, common, roots, is_root, socket_fd, notify_fd = arguments
    for fd in (int(socket_fd), int(notify_fd)):
        os.set_inheritable(fd, False)
    libc = ctypes.CDLL(None, use_errno=True)

    def adopt_orphans() -> object:
        return libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def bind_memory(nodes: list[int]) -> None:
        mask = (ctypes.c_ulong * (max(nodes) // _WORD_BITS + 1))()
        for node in nodes:
            mask[node // _WORD_BITS] |= 1 << node % _WORD_BITS
        number = _SET_MEMPOLICY.get(os.uname().machine)
        if number is None:
            raise OSError(f"how to do it on {os.uname().machine} is not known")
        if libc.syscall(number, _MPOL_BIND, mask, len(mask) * _WORD_BITS + 1):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    os.chdir("/")
    settings = Settings(
        spool, cluster, Places(common, roots, bool(is_root)), int(notify_fd), adopt_orphans, bind_memory
    )
    requests = _socket.socket(fileno=int(socket_fd))
    wake_in, wake_out = os.pipe()
    for fd in (wake_in, wake_out):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent; it then closes the socket
    gc.collect()
    gc.freeze()
    gc.disable()
    poller = select.poll()
    poller.register(requests.fileno(), select.POLLIN)
    poller.register(wake_in, select.POLLIN)
    try:
        _loop(requests, wake_in, poller, settings, (requests.fileno(), wake_in, wake_out))
    except ConnectionError:  # the agent is gone
        pass
    return 0


def _loop(
    requests: _socket.socket, wake_in: int, poller: select.poll, settings: Settings, own: tuple[int, ...]
) -> None:
    while True:
        ready = [fd for fd, _ in poller.poll()]
        if wake_in in ready:
            os.read(wake_in, 4096)
            _reap()
        if requests.fileno() in ready:
            request = requests.recv(_MESSAGE_BYTES)
            if not request:
                return
            _serve(requests, request.decode(), settings, own)


def _serve(requests: _socket.socket, name: str, settings: Settings, own: tuple[int, ...]) -> None:
    """Fork one supervisor and tell the agent which."""
    try:
        pid = os.fork()
    except OSError as error:
        requests.send(f"{name} - cannot start a process: {error.strerror}".encode())
        return
    if pid == 0:
        for fd in own:
            os.close(fd)
        supervisor.supervise(settings, name)
    # The child is reaped by nobody but this loop, so its pid is still its own here.
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # a kernel or a sandbox without pidfds, or no descriptor free
        requests.send(f"{name} {pid}".encode())
        return
    try:
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", pidfd))]
        requests.sendmsg([f"{name} {pid}".encode()], rights)
    finally:
        os.close(pidfd)


def _reap() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
