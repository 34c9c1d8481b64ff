"""The job's side of the fork: open what it reads and writes, and become it.

Called by the supervisor, in the bare interpreter of the fork server: standard library only. Never returns from
`become_job`, whatever happens, so that no second copy of the supervisor can ever run on.
"""

from __future__ import annotations

import math
import os
import stat
import time
import warnings  # noqa: F401 - os.execvpe imports it, which is too late for a user who cannot read the interpreter's files

from gsched.run.report import report_room
from gsched.run.supervisor import run_limits as job_limits
from gsched.run.supervisor.steps import LATE, default_signals, run_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gsched.base.coded_text import AnyText
    from gsched.run.order import JobStep, Order
    from gsched.run.supervisor.job_rights import JobRights
    from gsched.run.task_files import TaskOrder

GO = b"g\n"
"""What a forked job waits for on its gate; an end of file instead means that it must not execute anything."""


class Output:
    """An open output file: its descriptor, its path, and its size before the job wrote anything.

    `line` is written below what a file holds already, so that the attempts of one job can be told apart.
    """

    __slots__ = ("device", "fd", "inode", "path", "room", "size")

    def __init__(self, path: str, overwrite: bool, mode: int, line: str = "") -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
        if overwrite:
            flags |= os.O_TRUNC
        # A pipe that nobody reads must fail here instead of holding the job up for ever.
        self.fd = os.open(path, flags | os.O_NONBLOCK, mode)
        os.set_blocking(self.fd, True)
        self.path = path
        about = os.fstat(self.fd)
        if line and about.st_size and stat.S_ISREG(about.st_mode):
            os.write(self.fd, f"{'' if _ends_a_line(path) else chr(10)}{line}\n".encode(errors="surrogateescape"))
            about = os.fstat(self.fd)
        self.size = about.st_size
        self.device, self.inode = about.st_dev, about.st_ino
        self.room = (0, 0)
        """Where the job's report will stand, and how many bytes are left for it."""

    def leave_room(self, job: str, size: int) -> None:
        """For the report on the job, above what it will print. Raises OSError."""
        self.room = report_room.leave(self.fd, job, size, ends_a_line=_ends_a_line(self.path))
        self.size = os.fstat(self.fd).st_size if self.room == (0, 0) else sum(self.room)


class Nowhere:
    """In the place of an output file that there is none of: a path where nothing lies."""

    __slots__ = ("device", "inode", "path", "room", "size")

    def __init__(self, path: str) -> None:
        self.path = path
        self.room = (0, 0)
        self.size = self.device = self.inode = 0


def _ends_a_line(path: str) -> bool:
    """Whether the file ends with a newline, as far as it may be read."""
    try:
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return True


class JobProgram:
    """What a process is to become: the first of `programs` that can be executed, with its environment, umask, nice
    value, limits and the job's rights.
    """

    __slots__ = ("environment", "first_timeout_s", "limits", "nice", "programs", "rights", "umask")

    def __init__(self, order: Order | TaskOrder, programs: list[list[str]], rights: JobRights, job: Order) -> None:
        """`order` has environment and umask, `job` the rest: the same but for a task."""
        self.programs = programs
        self.environment = order.environment
        self.umask = order.umask
        self.nice = job.nice
        self.first_timeout_s = job.first_timeout_s
        self.limits = job.limits
        self.rights = rights


def become_job(
    program: JobProgram,
    streams: tuple[int, int, int],
    gate: int,
    first: Sequence[JobStep] = (),
    failed: str = "",
    *,
    has_terminal: bool = False,
) -> None:
    """In the forked child: become the job, as soon as the start is on record. Never returns.

    The steps of `first` come before; when one fails the job is not executed, and the file `failed` says so. Until then
    the process has the rights of its supervisor; what is executed has the job's.

    Exits like a shell where no program can be executed: 127 when the last does not exist, else 126. `has_terminal`:
    its standard streams are a pseudo-terminal, which becomes its own.
    """
    code = 126
    try:
        os.setsid()
        default_signals()
        for target, fd in enumerate(streams):
            os.dup2(fd, target)
        if has_terminal:
            own_terminal()
        os.umask(program.umask)
        if program.nice:
            lower_priority(program.nice)
        if os.read(gate, len(GO)) != GO:
            os._exit(code)
        environment = {**program.environment, "LS_JOBPID": str(os.getpid()), "LSB_JOBRES_PID": str(os.getppid())}
        if "SLURM_PROCID" in environment:
            environment["SLURM_TASK_PID"] = str(os.getpid())
        until = time.monotonic() + program.first_timeout_s if program.first_timeout_s else math.inf
        code = run_first(first, program, environment, until, failed) or execute(
            program.programs, environment, program.limits, program.rights
        )
    finally:
        os._exit(code)


def run_first(
    first: Sequence[JobStep], program: JobProgram, environment: dict[str, str], until: float, failed: str
) -> int:
    """The steps before the job, one after the other, until `until` (time.monotonic); the exit code of the one that has
    failed, which the file `failed` tells of then, else 0.
    """
    for place, step in enumerate(first):
        try:
            ended_with = run_step(step, environment, program.rights, program.umask, until)
        except Exception as error:  # also what nobody thinks of: else the job seems to have ended by itself
            os.write(2, f"gsched: {why(error)}\n".encode(errors="replace"))
            ended_with = 126
        code = LATE if ended_with is None else ended_with
        if code:
            write_failure(failed, place, code, is_late=ended_with is None)
            return code
    return 0


def execute(programs: list[list[str]], environment: dict[str, str], limits: dict[str, float], rights: JobRights) -> int:
    """Take the job's rights and limits and execute the first of the programs that can be; else an exit code."""
    try:
        rights.take()
    except OSError as error:
        os.write(2, f"gsched: {why(error)}\n".encode(errors="replace"))
        return 126
    job_limits.restrict(limits)
    failure: Exception = FileNotFoundError()
    for argv in programs:
        try:
            os.execvpe(argv[0], argv, environment)
        except Exception as error:  # also what nobody thinks of: a job that cannot begin says why
            failure = error
    os.write(2, f"gsched: {programs[-1][0]}: {why(failure)}\n".encode(errors="replace"))
    return 127 if isinstance(failure, FileNotFoundError) else 126


def own_terminal() -> None:
    """Standard input becomes the terminal that controls this session (tty_ioctl(4), TIOCSCTTY)."""
    import fcntl  # few jobs have a terminal
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def write_failure(path: str, place: int, code: int, *, is_late: bool) -> None:
    """Put down which step failed, by its place among those before the job, and how; `is_late`: it took too long."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.write(fd, f"{code} {place} {int(is_late)}".encode())
    os.close(fd)


def lower_priority(nice: int) -> None:
    """NICE of the queue. Without root a negative one is not allowed: the job then runs as it is."""
    try:
        os.nice(nice)
    except PermissionError:
        os.write(2, f"gsched: NICE {nice} of the queue needs root; the job runs without it\n".encode())


def interpreter(text: str, path: str, shell: Sequence[str] = ("/bin/sh",)) -> list[str]:
    """How a script is executed: as the kernel reads its `#!` line (execve(2)), and by `shell` without one."""
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        return [*shell, path]
    program, _, argument = first[2:].strip(" \t").replace("\t", " ").partition(" ")
    return [program or "/bin/sh", *([argument.strip()] if argument.strip() else []), path]


def why(error: Exception) -> AnyText:
    """The reason in words, without errno and path, which the sentence around it has."""
    said: AnyText = getattr(error, "said", "")
    return said or (error.strerror if isinstance(error, OSError) else None) or str(error)
