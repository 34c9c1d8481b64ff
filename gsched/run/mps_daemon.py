"""NVIDIA's MPS control daemon: started for some GPUs, found again after a restart, told to quit.

A daemon is known by the folder that it was started with: its process has the folder's pipes in its environment, so
that a process number that is another's by now is never mistaken for it. Sources: NVIDIA's Multi-Process Service guide
(the control program, its environment and the file with its process number) and nvidia-cuda-mps-control(1).

A daemon for another user than the agent's is run by that user, in folders of that user, where nothing is opened with
other rights. Never touches a process that is not named as NVIDIA's, has other pipes or is another user's. All waits are
bounded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import ResourceExhausted
from gsched.run.account import FIRST_PERSON, UnixAccount, acting_as
from gsched.run.order import Fence
from gsched.run.processes import process_tree
from gsched.run.program import Program, RunsPrograms

log = logging.getLogger(__name__)

PROGRAM = "nvidia-cuda-mps-control"
"""The control program, and with -d the daemon."""
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
MOST_FOLDER_BYTES = 80
"""The daemon's sockets lie in the folder, and a socket's path has at most 107 bytes."""
START_S = 10.0
QUIT_S = 5.0
DEFAULT_PIPES = "/tmp/nvidia-mps"
"""Where a daemon listens, and programs look for one, that are not told another folder."""
_NAME = "nvidia-cuda-mps-server"[:15]
"""What the kernel keeps of the name of daemon and server alike."""
_LOOK_S = 0.02
_MOST_READ = 16 * 1024


class MpsDaemon:
    """The daemon of one folder, running or not."""

    def __init__(self, folder: Path, account: UnixAccount | None = None) -> None:
        self.folder = folder
        self.account = account
        """Whose it is; None: the agent's own user's."""
        self.pipes = folder / "p"
        self.logs = folder / "l"

    @property
    def environment(self) -> dict[str, str]:
        """What its clients need."""
        return {PIPES: str(self.pipes), LOGS: str(self.logs)}

    async def start(self, program: str, uuids: Sequence[str], run: RunsPrograms, fence: Fence | None = None) -> None:
        """Start it for these GPUs, or parts of GPUs, in the control group of this fence, and wait until it listens.

        Raises ResourceExhausted.
        """
        path = shutil.which(program)
        if path is None:
            raise ResourceExhausted(coded("mps.no_program", program))
        shutil.rmtree(self.pipes, ignore_errors=True)  # of one that is gone
        for folder in (self.pipes, self.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.account is not None:
                os.chown(folder, self.account.uid, self.account.gid)
        try:
            ended = await run(self._program(path, "-d", fence=fence, CUDA_VISIBLE_DEVICES=",".join(uuids)), START_S)
        except TimeoutError:
            why: AnyText = coded("mps.too_slow")
        else:
            if ended.status == 0 and await self._listens():
                return
            why = ended.last_line or coded("mps.no_daemon", ended.exit_code)
        raise ResourceExhausted(coded("mps.not_started", ", ".join(uuids), why))

    def pid(self) -> int | None:
        """Its process; None when it does not run."""
        try:
            pid = int(self._read(self.pipes / f"{PROGRAM}.pid"))
        except (OSError, ValueError):
            return None
        return pid if self.has(pid) else None

    def has(self, pid: int) -> bool:
        """Whether it is the daemon, or the server that it has started for its clients."""
        is_its_users = self.account is None or process_tree.owner_of(pid) == self.account.uid
        return is_its_users and pipes_of(pid) == str(self.pipes)

    def _read(self, path: Path) -> bytes:
        """The end of a file that its user may have written. Raises OSError."""
        with acting_as(self.account):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return os.pread(fd, _MOST_READ, max(0, os.fstat(fd).st_size - _MOST_READ))
            finally:
                os.close(fd)

    async def stop(self, program: str, run: RunsPrograms) -> None:
        """End it and its server, and remove the folder. Never raises; what does not quit is killed."""
        path = shutil.which(program)
        processes = [process for process in process_tree.scan().values() if self.has(process.pid)]
        if self.pid() is not None and path is not None:
            try:
                await run(self._program(path, stdin=b"quit\n"), QUIT_S)
            except TimeoutError:
                log.warning("the MPS control daemon in %s does not answer", self.folder)
            except OSError as error:
                log.warning("the MPS control daemon in %s cannot be told to quit: %s", self.folder, error)
            else:
                await _until(lambda: not any(map(_lives, processes)), QUIT_S)
        if problem := process_tree.send_all(
            processes, signal.SIGKILL
        ):  # these very processes, whatever their numbers are
            log.warning("the MPS control daemon in %s cannot be ended: %s", self.folder, problem)
        await _until(lambda: not any(map(_lives, processes)), QUIT_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def last_words(self) -> str:
        """The last line of its log; empty when there is none."""
        try:
            lines = self._read(self.logs / "control.log").decode("utf8", "replace").splitlines()
        except OSError:
            return ""
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")

    async def _listens(self) -> bool:
        return await _until(lambda: self.pid() is not None, START_S / 5)

    def _program(self, *words: str, stdin: bytes = b"", fence: Fence | None = None, **more: str) -> Program:
        """The control program, run by the daemon's user; `more`: what it has in its environment besides."""
        return Program(
            words=words,
            environment={"PATH": os.environ.get("PATH", os.defpath), **self.environment, **more},
            stdin=stdin,
            umask=0o077,
            account=self.account,
            fence=fence,
        )


def _lives(process: process_tree.Process) -> bool:
    return process_tree.is_alive(process.pid, process.start)


async def _until(is_true: Callable[[], bool], patience_s: float) -> bool:
    """Wait for something about a process that is nobody's child: the kernel tells nobody of it."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while not is_true():
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_LOOK_S)
    return True


def pipes_of(pid: int) -> str:
    """The pipes of the MPS daemon that the process is, or is a server of; empty for all other processes."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf8", errors="replace") as file:
            if file.read().rstrip("\n") != _NAME:
                return ""
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return ""
    if not any(variables):  # it is ending
        return ""
    start = f"{PIPES}=".encode()
    named = (each[len(start) :].decode("utf8", "surrogateescape") for each in variables if each.startswith(start))
    return next(named, "") or DEFAULT_PIPES


def serves_host(pid: int) -> bool:
    """Whether it is the MPS daemon of the whole host, or a server of it: programs of jobs may be its clients.

    Root, a service or the agent's own user runs that daemon, and has its folder. A server may run as its client's user
    but is the daemon's child; what a process calls itself, and has in its environment, is its user's to choose.
    """
    try:
        pipes = pipes_of(pid)
        if not pipes or not _is_systems(os.stat(pipes).st_uid):
            return False
    except OSError:
        return False
    process = process_tree.read_process(pid)
    pids = (pid, process.ppid) if process is not None else (pid,)
    return any(pipes_of(each) == pipes and _is_systems(process_tree.owner_of(each)) for each in pids)


def _is_systems(uid: int | None) -> bool:
    return uid is not None and (uid < FIRST_PERSON or uid == os.getuid())
