"""A supervisor's tasks: commands that the job starts beside its own main process, on this host of it.

Each is a child of the supervisor, in the job's group, under the job's limits; so it is stopped, ended, counted and
swept with the job. What it prints is kept until it is taken (gsched.run.supervisor.terminal).

Runs in the fork server's bare interpreter: standard library and msgspec only. Never starts a task twice, whatever is
asked again.
"""

from __future__ import annotations

import json
import os
import signal
from collections import deque
from collections.abc import Callable

from gsched.base.machine.atomic_write import replace_file
from gsched.run import task_files
from gsched.run.account import acting_as
from gsched.run.containers.container_words import contained
from gsched.run.processes import process_tree
from gsched.run.supervisor.children import Children
from gsched.run.supervisor.job_process import GO, JobProgram, become_job, why
from gsched.run.supervisor.terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.run.fence.group import FenceGroup
    from gsched.run.order import Order
    from gsched.run.supervisor.job_rights import JobRights
    from gsched.run.task_files import TaskOrder

UNTAKEN_S = 600.0
"""How long the output of a task that has ended is kept for one who does not ask."""
_REMEMBERED = 10_000
"""Names of tasks that are gone, so that a late repetition does not start one again."""


class _Task:
    """One that was started."""

    def __init__(self, pid: int, terminal: Terminal) -> None:
        self.pid = pid
        self.terminal = terminal
        self.has_ended = False


class Tasks:
    """The tasks of one attempt, in whose `folder` they are ordered. `tell()` tells the agent of news."""

    def __init__(
        self,
        folder: str,
        children: Children,
        group: FenceGroup | None,
        rights: JobRights,
        tell: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._children = children
        self._group = group
        self._rights = rights
        self._tell = tell
        self._tasks: dict[str, _Task | None] = {}
        """None: it could not be started."""
        self._gone: deque[str] = deque(maxlen=_REMEMBERED)
        self._dismissed: list[Terminal] = []
        """What stood for their terminals, not closed yet."""
        self._unwritten: dict[str, bytes] = {}
        """Names of tasks -> how they ended, which could not be written down."""

    def look(self, job: Order) -> None:
        """Start what has been ordered since, as the job's order has it now; let go what has been done with."""
        names = task_files.names(self._folder)
        for name in names:
            if name not in self._tasks and name not in self._gone:
                self._start(name, job)
        for name, task in list(self._tasks.items()):
            if name not in names and (task is None or task.has_ended):
                del self._tasks[name]
                self._gone.append(name)
                if task is not None:
                    self._children.forget(task.pid)
                    task.terminal.let_end(0.0)
                    self._dismissed.append(task.terminal)
        self._dismissed = [terminal for terminal in self._dismissed if not terminal.close()]

    def note_ends(self) -> bool:
        """Write down which have ended, after children were reaped; whether it is to be called again soon."""
        for name, data in list(self._unwritten.items()):
            self._write_end(name, data)
        for name, task in self._tasks.items():
            status = self._children.status_of(task.pid) if task is not None and not task.has_ended else None
            if task is None or status is None:
                continue
            task.has_ended = True
            is_unwanted = os.path.exists(f"{self._folder}/{task_files.TASKS}/{name}/{task_files.UNWANTED}")
            task.terminal.let_end(0.0 if is_unwanted else UNTAKEN_S)
            cpu_s, max_rss_kib = self._children.used_by(task.pid)
            end = {"status": status, "cpu_s": cpu_s, "max_rss_kib": max_rss_kib}
            self._write_end(name, json.dumps(end).encode())
        return bool(self._unwritten)

    def _start(self, name: str, job: Order) -> None:
        self._tasks[name] = None
        order = task_files.read_order(self._folder, name)
        try:
            if order is None:
                raise OSError("its order cannot be read")
            self._tasks[name] = self._fork(f"{self._folder}/{task_files.TASKS}/{name}", order, job)
        except (OSError, RuntimeError) as error:
            self._write_end(name, json.dumps({"problem": f"cannot start a process: {why(error)}"}).encode())
        self._tell()

    def _fork(self, folder: str, order: TaskOrder, job: Order) -> _Task:
        """Raises OSError, RuntimeError."""
        terminal = Terminal(folder, is_pty=order.pty)
        streams = terminal.streams
        is_started = False
        gate_in, gate_out = os.pipe()
        try:
            # Blocked until the child treats signals as a job does. Forked as usual, not into the group: there are
            # threads here.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                pid = os.fork()
                if pid == 0:
                    os.close(gate_out)
                    _become_task(folder, order, job, streams, gate_in, self._rights)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._children.follow(pid)
            if self._group is not None:
                try:
                    self._group.add(pid)
                except ProcessLookupError:  # killed already; its status will tell
                    pass
            process = process_tree.read_process(pid)
            record = {"pid": pid, "start": process.start if process else 0}
            replace_file(f"{folder}/{task_files.STARTED}", json.dumps(record).encode())
            terminal.start()
            is_started = True
            os.write(gate_out, GO)
        except BrokenPipeError:
            pass
        finally:
            for fd in {*streams, gate_in, gate_out}:
                os.close(fd)
            if not is_started:
                terminal.close(is_started=False)
        return _Task(pid, terminal)

    def _write_end(self, name: str, data: bytes) -> None:
        """The last word about it, and somebody waits for it: a disk that is full is tried again."""
        self._unwritten.pop(name, None)
        try:
            replace_file(f"{self._folder}/{task_files.TASKS}/{name}/{task_files.STATUS}", data)
        except FileNotFoundError:  # nobody wants to know any more
            return
        except OSError:
            self._unwritten[name] = data
            return
        self._tell()


def _become_task(
    folder: str, order: TaskOrder, job: Order, streams: tuple[int, int, int], gate: int, rights: JobRights
) -> None:
    """In the forked child: become the task whose files lie in the folder. Never returns."""
    try:
        try:
            with acting_as(rights.user):
                os.chdir(order.cwd)
        except (OSError, ValueError) as error:
            text = f"gsched: working directory {order.cwd}: {why(error)}; the task is not run\n"
            os.write(streams[2], text.encode(errors="surrogateescape"))
            return
        if not order.reads and not order.pty:
            streams = (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), *streams[1:])
        words = [*order.argv]
        if job.container is not None:
            task, has_terminal = os.path.basename(folder), order.pty
            words = contained(job.container, words, order.environment, order.cwd, has_terminal=has_terminal, task=task)
        become_job(JobProgram(order, [words], rights, job), streams, gate, has_terminal=order.pty)
    finally:
        os._exit(126)
