"""Attempt folders: what an agent and its supervisors tell each other through files, and what survives both.

SPOOL/attempts/JOB.ATTEMPT/ holds `order`, `suspended`, `limits`, `reported`, `action_due`, `stopped`, `signalled` (by
the agent), `claim`, `started`, `status` (by the supervisor), the job's output where it has no file of its own, its
script and its list of hosts.
Folders are 0700, files 0600. Where an agent of root runs jobs of others they are 0711, from the directory itself on:
these go through to what is theirs there, by its name (script, list of hosts, input, output), and to nothing else.
SPOOL/spare/ holds folders that were emptied, for further attempts (run.spare_folders).
Everything read here may be missing or torn by a crash of the machine; then it counts as not there. Never waits
and never deletes what runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from gsched.base.coded_text import coded
from gsched.base.errors import Internal, ResourceExhausted
from gsched.base.ids import attempt_name, parse_attempt_name
from gsched.base.machine.atomic_write import clear_deadline, replace_file, write_deadline, write_file
from gsched.base.machine.folder_spread import spread_folders
from gsched.model.jobs.job import AttemptResult
from gsched.run import attempt_files
from gsched.run.account import UnixAccount, acting_as
from gsched.run.order import AttemptLimits, Order, RunKey, Unkillable, read_order, written_order
from gsched.run.processes.process_usage import Figures
from gsched.run.report.job_report import (
    SCRIPT_SHOWN,
    ReportedRun,
    ReportFacts,
    append,
    beginning_of,
    report_text,
    write_instead,
    write_report,
)
from gsched.run.spare_folders import SPARE, SpareFolders

T = TypeVar("T")

PASSABLE = 0o711
"""Mode of a folder that others may go through, and not list."""
REPORTED = "reported"
"""The file that says how long the output was when the report was put into its file."""


class SupervisorClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor that has the right to start an attempt. Its pid means something only in the boot it names."""

    pid: int
    start: int
    """Clock ticks since boot, as in /proc/PID/stat."""
    boot_id: str


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The job as its supervisor recorded it, just before it was let go."""

    pid: int
    start: int
    started_at: float
    supervisor: SupervisorClaim
    exec_home: str
    exec_cwd: str
    stdout: str
    stdout_from: int
    """Size of the file before the job wrote to it."""
    stderr: str
    stderr_from: int
    stdout_inode: tuple[int, int] = (0, 0)
    """Device and number of the file that the supervisor opened."""
    stderr_inode: tuple[int, int] = (0, 0)
    stdout_room: tuple[int, int] = (0, 0)
    """Where in that file the report is to stand above the output, and how long it may be; (0, 0): below."""


class WaitedEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the job's main process ended, as launcher/waiter.c saw it in the supervisor's place."""

    status: int
    """As wait(2) tells it."""
    ended_at: float


class Spool:
    """The attempt folders below one directory."""

    def __init__(self, root: Path) -> None:
        self.attempts = Path(os.path.abspath(root)) / "attempts"
        self._attempts = str(self.attempts)
        try:
            self.attempts.mkdir(parents=True, exist_ok=True)
            if os.geteuid() or stat.S_IMODE(self.attempts.stat().st_mode) != PASSABLE:  # jobs of others may run there
                self.attempts.chmod(0o700)
            spread_folders(self.attempts)
            self._spare = SpareFolders(f"{self.attempts.parent}/{SPARE}")
        except OSError as error:
            raise ResourceExhausted(coded("attempt.spool_folder", str(self.attempts), str(error.strerror))) from error

    def folder(self, name: str) -> Path:
        return self.attempts / name

    def path(self, name: str, file: str) -> str:
        """Where this file of an attempt lies."""
        return f"{self._attempts}/{name}/{file}"

    def names(self) -> list[str]:
        """Names of all attempt folders, in order of job and attempt."""
        keys: list[RunKey] = []
        for entry in self.attempts.iterdir():
            try:
                keys.append(parse_attempt_name(entry.name))
            except ValueError:
                continue
        return [attempt_name(*key) for key in sorted(keys)]

    def write_order(self, order: Order) -> bool:
        """Make the attempt's folder; False when there is one. Raises ResourceExhausted when it cannot be made."""
        folder = f"{self._attempts}/{attempt_name(order.job_id, order.attempt)}"
        if not self._make_folder(folder, is_passed=order.account is not None):
            return False
        try:
            if order.script is not None:
                text = order.script.encode(errors="surrogateescape")
                _write_for(order.account, f"{folder}/{attempt_files.SCRIPT}", text, 0o700)
                order = msgspec.structs.replace(order, script=order.script.partition("\n")[0])
            if order.input is not None:
                text = order.input.encode(errors="surrogateescape")
                _write_for(order.account, f"{folder}/{attempt_files.INPUT}", text)
                order = msgspec.structs.replace(order, input="")
            if order.hostfile:
                _write_for(order.account, f"{folder}/{attempt_files.HOSTFILE}", order.hostfile.encode())
                order = msgspec.structs.replace(order, hostfile="")
            if order.affinity_hostfile:
                _write_for(order.account, f"{folder}/{attempt_files.AFFINITY}", order.affinity_hostfile.encode())
                order = msgspec.structs.replace(order, affinity_hostfile="")
            for name, content in order.job_files.items():
                _write_for(order.account, f"{folder}/{name}", content.encode())
            order = msgspec.structs.replace(order, job_files={})
            replace_file(f"{folder}/{attempt_files.ORDER}", written_order(order))
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ResourceExhausted(coded("attempt.spool_folder", folder, str(error.strerror or error))) from error
        return True

    def put_back(self, name: str, files: Mapping[str, bytes], account: UnixAccount | None) -> None:
        """Make a folder that was removed, with those of these files that are not there. Raises ResourceExhausted,
        OSError. `account`: the job's user, where that is another one.
        """
        folder = f"{self._attempts}/{name}"
        self._make_folder(folder, is_passed=account is not None)
        for file, data in files.items():
            if os.path.exists(f"{folder}/{file}"):
                continue
            if file in (attempt_files.HOSTFILE, attempt_files.AFFINITY):
                _write_for(account, f"{folder}/{file}", data)
            else:
                replace_file(f"{folder}/{file}", data)

    def _make_folder(self, folder: str, *, is_passed: bool) -> bool:
        try:
            if not self._spare.take(folder):
                try:
                    os.mkdir(folder, 0o700)
                except FileNotFoundError:  # somebody has removed what it is to lie in
                    self.attempts.mkdir(mode=0o700, parents=True, exist_ok=True)
                    os.mkdir(folder, 0o700)
            if is_passed:
                for passed in (self.attempts.parent, self.attempts, folder):
                    os.chmod(passed, PASSABLE)
        except FileExistsError:
            return False
        except OSError as error:
            raise ResourceExhausted(coded("attempt.spool_folder", folder, str(error.strerror))) from error
        return True

    def order(self, name: str) -> Order | None:
        """The order, its script cut to the first line; None when a crash left none. Raises Internal if unreadable."""
        path = self.path(name, attempt_files.ORDER)
        try:
            with open(path, "rb") as file:
                return read_order(file.read())
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:  # not a reason to take a job that may be running for rubbish
            raise Internal(f"cannot read {path}: {error.strerror}") from error

    def claim(self, name: str) -> SupervisorClaim | None:
        return self._read(name, attempt_files.CLAIM, SupervisorClaim)

    def is_claimed(self, name: str) -> bool:
        """Whether a supervisor has claimed it, readable or not."""
        return os.path.exists(self.path(name, attempt_files.CLAIM))

    def started(self, name: str) -> Started | None:
        return self._read(name, attempt_files.STARTED, Started)

    def status(self, name: str) -> AttemptResult | None:
        return self._read(name, attempt_files.STATUS, AttemptResult)

    def waited(self, name: str) -> WaitedEnd | None:
        """How a job ended whose supervisor slept then; None also where a step before the job may have ended it."""
        if os.path.exists(self.path(name, attempt_files.FAILED)):
            return None
        return self._read(name, attempt_files.WAITED, WaitedEnd)

    def is_over(self, name: str) -> bool:
        """Whether its supervisor has written how it ended."""
        return os.path.exists(self.path(name, attempt_files.STATUS))

    def is_past_job(self, name: str) -> bool:
        """Whether the job is over and the steps after it run."""
        return os.path.exists(self.path(name, attempt_files.LAST))

    def is_warned(self, name: str) -> bool:
        """Whether the job has been warned of its end."""
        return os.path.exists(self.path(name, attempt_files.WARNED))

    def mark_warned(self, name: str) -> None:
        """Note that the job has been warned; where that cannot be written down it may be warned again."""
        with contextlib.suppress(OSError):
            write_file(str(self.folder(name) / attempt_files.WARNED), b"")

    def last_signal(self, name: str) -> int:
        """Number of the last signal that was passed on to it; 0: none was."""
        try:
            with open(self.path(name, attempt_files.SIGNALLED), encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0

    def note_signal(self, name: str, number: int) -> None:
        """Write down that it is passed on; where that cannot be, it may be sent again."""
        with contextlib.suppress(OSError):
            replace_file(self.path(name, attempt_files.SIGNALLED), b"%d" % number)

    def wants_requeue(self, name: str) -> bool:
        """Whether the job has asked to run again when it has ended."""
        return os.path.exists(self.path(name, attempt_files.WANTS_REQUEUE))

    def note_wants_requeue(self, name: str) -> None:
        """It has; who writes its last word looks here. Raises OSError."""
        write_file(str(self.folder(name) / attempt_files.WANTS_REQUEUE), b"")

    def deadline(self, name: str) -> float | None:
        """Until when the job may save its state before it is ended, UTC seconds; None: nobody has asked for that."""
        try:
            with open(self.path(name, attempt_files.DEADLINE), encoding="ascii") as file:
                return float(file.read())
        except (OSError, ValueError):
            return None

    def note_deadline(self, name: str, at: float) -> None:
        """Write it down for the job, and for agents after this one; where that cannot be, it is not told."""
        with contextlib.suppress(OSError):
            write_deadline(self.path(name, attempt_files.DEADLINE), at)

    def forget_deadline(self, name: str) -> None:
        """The job need not have saved its state by then, and may be asked for it anew."""
        with contextlib.suppress(OSError):
            clear_deadline(self.path(name, attempt_files.DEADLINE))
        with contextlib.suppress(OSError):
            os.unlink(self.path(name, attempt_files.WARNED))

    def is_suspended(self, name: str) -> bool:
        """Whether the attempt was suspended and not resumed: outlives the agent, and stops the run limit's clock."""
        return self.is_marked(name, attempt_files.SUSPENDED)

    def unkillable(self, name: str) -> tuple[Unkillable, ...]:
        """Processes that the supervisor could not end."""
        return self._read(name, attempt_files.UNKILLABLE, tuple[Unkillable, ...]) or ()

    def set_suspended(self, name: str, suspended: bool) -> None:
        """Raises ResourceExhausted when it cannot be written down."""
        self.mark(name, attempt_files.SUSPENDED, suspended)

    def is_marked(self, name: str, mark: str) -> bool:
        """Whether the empty file called `mark` is there."""
        return os.path.exists(self.path(name, mark))

    def mark(self, name: str, mark: str, is_there: bool = True) -> None:
        """Make, or remove, the empty file called `mark`. Raises ResourceExhausted when that cannot be done."""
        path = self.folder(name) / mark
        try:
            path.touch(0o600) if is_there else path.unlink(missing_ok=True)
        except OSError as error:
            raise ResourceExhausted(f"{path}: {error.strerror}") from error

    def limits(self, name: str) -> AttemptLimits | None:
        """The limits that took the place of the order's; None when none did."""
        return self._read(name, attempt_files.LIMITS, AttemptLimits)

    def set_limits(self, name: str, limits: AttemptLimits) -> None:
        """Raises ResourceExhausted when they cannot be written down."""
        path = self.folder(name) / attempt_files.LIMITS
        try:
            replace_file(str(path), msgspec.json.encode(limits))
        except OSError as error:
            raise ResourceExhausted(coded("attempt.of_path", str(path), str(error.strerror or error))) from error

    def figures(self, name: str) -> Figures | None:
        """What was seen of its use of the host; None when nothing was, or nothing that can be read."""
        return self._read(name, attempt_files.USAGE, Figures)

    def keep_figures(self, name: str, figures: Figures) -> None:
        """For the next agent. A full disk, or a folder that is gone, costs what has come since the last time."""
        with contextlib.suppress(OSError):
            replace_file(str(self.folder(name) / attempt_files.USAGE), msgspec.json.encode(figures))

    def read_output(self, name: str, stream: str, offset: int, limit: int, account: UnixAccount | None = None) -> bytes:
        """Bytes that the job wrote to a stream. Nothing where it goes to a file that is not a plain one.

        `account`: the job's user, who must have the right to read it, where that is not the agent's.
        """
        if stream not in (attempt_files.STDOUT, attempt_files.STDERR):
            raise ValueError(f"'{stream}' is neither stdout nor stderr")
        started = self.started(name)
        if started is None or (stream == attempt_files.STDERR and started.stderr == started.stdout):
            return b""
        path, first, inode = started.stdout, started.stdout_from, started.stdout_inode
        if stream == attempt_files.STDERR:
            path, first, inode = started.stderr, started.stderr_from, started.stderr_inode
        else:
            reported = self._reported(name)
            limit = limit if reported is None else min(limit, reported - first - offset)
        try:
            with self._opened(name, path, os.O_RDONLY, account, inode) as fd:
                return os.pread(fd, max(limit, 0), first + max(offset, 0))
        except OSError:  # it is gone, or a directory, a pipe, a terminal
            return b""

    def read_tail(self, name: str, stream: str, most: int, account: UnixAccount | None = None) -> bytes:
        """The last bytes, at most so many, that the job wrote to a stream: no report below them. Otherwise as
        `read_output`.
        """
        started = self.started(name)
        if started is None or (stream == attempt_files.STDERR and started.stderr == started.stdout):
            return b""
        path, first, inode = started.stdout, started.stdout_from, started.stdout_inode
        if stream == attempt_files.STDERR:
            path, first, inode = started.stderr, started.stderr_from, started.stderr_inode
        reported = self._reported(name) if stream == attempt_files.STDOUT else None
        try:
            with self._opened(name, path, os.O_RDONLY, account, inode) as fd:
                about = os.fstat(fd)
                end = about.st_size if reported is None else min(about.st_size, reported)
                begin = max(end - most, first)
                return os.pread(fd, max(end - begin, 0), begin) if stat.S_ISREG(about.st_mode) else b""
        except OSError:  # as there
            return b""

    def keeps(self, name: str, stream: str) -> bool:
        """Whether the stream lies in the attempt's folder: it has no file, or that could not be opened."""
        started = self.started(name)
        if started is None:
            return False
        return (started.stdout if stream == attempt_files.STDOUT else started.stderr).startswith(
            f"{self.folder(name)}/"
        )

    @contextlib.contextmanager
    def _opened(
        self, name: str, path: str, flags: int, account: UnixAccount | None, inode: tuple[int, int]
    ) -> Iterator[int]:
        """A stream's file for a moment, with the rights of the job's user. Raises OSError.

        Of another user's job it is the very file that its supervisor opened, or none: the path may lead elsewhere now.
        """
        is_ours = path.startswith(f"{self.folder(name)}/")
        flags |= os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (os.O_NOFOLLOW if is_ours else 0)
        with acting_as(None if is_ours else account):
            fd = os.open(path, flags)
            try:
                about = os.fstat(fd)
                if account is not None and (about.st_dev, about.st_ino) != inode:
                    raise OSError(f"{path} is another file than the one that the job was started with")
                yield fd
            finally:
                os.close(fd)

    def report_text(self, name: str, facts: ReportFacts, result: AttemptResult, now: float, output: str) -> str:
        """The report as it is mailed, with what the job printed where that is in no file of its own."""
        started = self.started(name)
        if started is None:
            raise OSError("the attempt was never started")
        return report_text(facts, self._run(name, started), result, now=now, output=output)

    def _run(self, name: str, started: Started) -> ReportedRun:
        return ReportedRun(started.exec_home, started.exec_cwd, started.started_at, self._script(name))

    def is_first(self, name: str, what: str) -> bool:
        """Whether nobody has asked this before, of that attempt and that matter. Raises OSError.

        Of an attempt that is forgotten already nobody can ask a second time.
        """
        try:
            os.close(os.open(self.folder(name) / what, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        except FileNotFoundError:
            return True
        return True

    def report(
        self, name: str, facts: ReportFacts, result: AttemptResult, now: float, account: UnixAccount | None = None
    ) -> None:
        """Put the report into the output file that the job was given with -o, once. Raises OSError.

        `account`: the job's user, who must have the right to write there, where that is not the agent's.
        """
        folder, started = self.folder(name), self.started(name)
        if started is None or started.stdout == str(folder / attempt_files.STDOUT):
            return
        path, inode, room = started.stdout, started.stdout_inode, started.stdout_room
        with self._opened(name, path, os.O_RDWR, account, inode) as fd:
            written = os.fstat(fd).st_size
        before = self._reported(name)
        if before is None:
            write_file(f"{folder}/{REPORTED}", str(written).encode())
        # Else an agent that died may have written already what goes to the end of the file.
        is_below = before is not None and before != written
        texts = self._texts(name, facts, result, started, now)
        with self._opened(name, path, os.O_RDWR | os.O_APPEND, account, inode) as fd:
            write_report(fd, facts, room, texts, is_below=is_below)

    def say_instead(self, name: str, facts: ReportFacts, sentence: str, account: UnixAccount | None = None) -> None:
        """Say in the room that was left for the report why there is none. Raises OSError."""
        started = self.started(name)
        if started is None or not started.stdout_room[1]:
            return
        with self._opened(name, started.stdout, os.O_RDWR, account, started.stdout_inode) as fd:
            write_instead(fd, facts, started.stdout_room, sentence)

    def say(self, name: str, text: str, account: UnixAccount | None = None) -> None:
        """Put a line to the end of what the job prints: of its errors, where these have a file. Raises OSError."""
        started = self.started(name)
        if started is None:
            return
        path, inode = started.stderr, started.stderr_inode
        with self._opened(name, path, os.O_RDWR | os.O_APPEND, account, inode) as fd:
            append(fd, text.replace("\n", " ") + "\n")

    def _texts(
        self, name: str, facts: ReportFacts, result: AttemptResult, started: Started, now: float
    ) -> Callable[[bool], str]:
        """The report as it stands above the output, or below it."""
        run = self._run(name, started)
        return lambda is_above: report_text(facts, run, result, now=now, is_above=is_above)

    def _reported(self, name: str) -> int | None:
        """Size of the file without what the report has put to its end; None when there is no report."""
        try:
            return int((self.folder(name) / REPORTED).read_bytes())
        except (OSError, ValueError):
            return None

    def _script(self, name: str) -> str | None:
        """The beginning of the job's script; None for a job without one."""
        try:
            # Its user may have taken a lease on it (fcntl(2)): nobody waits for that.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(self.folder(name) / attempt_files.SCRIPT, flags), "rb") as file:
                return beginning_of(file.read(SCRIPT_SHOWN))
        except OSError:
            return None

    def remove(self, name: str) -> None:
        """Remove the folder, the order first: what is left after a crash in between is recognised as rubbish."""
        folder = f"{self._attempts}/{name}"
        try:
            os.unlink(f"{folder}/{attempt_files.ORDER}")
        except FileNotFoundError:
            pass
        try:  # most hold plain files alone, and rmtree takes several times as long
            for file in os.listdir(folder):
                os.unlink(f"{folder}/{file}")
            if not self._spare.keep(folder):
                os.rmdir(folder)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)

    def _read(self, name: str, file: str, kind: type[T]) -> T | None:
        try:
            with open(self.path(name, file), "rb") as opened:
                return msgspec.json.decode(opened.read(), type=kind)
        except (OSError, msgspec.MsgspecError):
            return None


def _write_for(account: UnixAccount | None, path: str, data: bytes, mode: int = 0o600) -> None:
    """A file that the job is to read: its user's, who has no need to change it. Raises OSError."""
    write_file(path, data)
    if mode != 0o600 or account is not None:
        os.chmod(path, mode if account is None else mode & 0o500)
    if account is not None:
        os.chown(path, account.uid, account.gid)
