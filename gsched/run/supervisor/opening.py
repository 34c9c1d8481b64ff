"""What must stand before a job starts: locks, CPUs, folders, streams and the fence.

Runs in the supervisor, in the fork server's bare interpreter: standard library only. What cannot be had is an error
that says whether the job would fail again elsewhere; nothing is executed here, and no file or folder that the job's
user has named is opened or made with other rights than that user's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from gsched.base.coded_text import AnyText, coded
from gsched.base.machine import gpu_lock
from gsched.run.account import acting_as
from gsched.run.attempt_files import INPUT, SCRIPT, STDERR, STDOUT
from gsched.run.containers.container_words import contained, image_path, look_for
from gsched.run.fence.group import FenceGroup, group_of, make_fenced
from gsched.run.processes import process_tree
from gsched.run.processes.procfs import is_of_proc
from gsched.run.shell_line import plain_words
from gsched.run.supervisor import steps
from gsched.run.supervisor.job_process import Nowhere, Output, interpreter, why
from gsched.run.supervisor.job_rights import JobRights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.run.order import Order
    from gsched.run.sleeping.handing_over import Waiter
    from gsched.run.supervisor.terminal import Terminal


FINAL_FAILURE, NO_OUTPUT = 2, 1
"""What a job exits with that cannot be executed; where that is for want of its output file, as in Slurm."""
FOLDER_S, FOLDER_LOOK_S = 3.0, 0.05
"""How long the folder of such a file may still be missing: programs that submit to Slurm make it when they know the
job's number (submitit), and there a batch job is not started at once. Source: slurm.conf(5), batch_sched_delay.
"""


class SupervisorSettings:
    """What all attempts of one fork server have in common."""

    __slots__ = ("become_subreaper", "bind_memory", "boot_id", "cluster", "locks", "notify_fd", "spool", "waiter")

    def __init__(
        self,
        spool: str,
        cluster: str,
        locks: gpu_lock.GpuLockFolders,
        notify_fd: int,
        become_subreaper: Callable[[], object],
        bind_memory: Callable[[Sequence[int]], object],
        waiter: Waiter | None = None,
    ) -> None:
        self.spool = spool
        self.cluster = cluster
        self.locks = locks
        self.notify_fd = notify_fd
        self.become_subreaper = become_subreaper
        """Makes the calling process a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER)."""
        self.bind_memory = bind_memory
        """Lets the calling process and its children have memory of these NUMA nodes alone. Raises OSError."""
        self.boot_id = process_tree.boot_id()
        self.waiter = waiter
        """What a supervisor becomes while nothing is to be done; None: it stays what it is."""


class FinalFailure(Exception):
    """The job cannot be executed, here or on a second try."""

    def __init__(self, problem: AnyText, term_reason: str = "", exit_code: int = FINAL_FAILURE) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.term_reason = term_reason
        self.exit_code = exit_code


class NotStarted(Exception):
    """The attempt cannot start here and now; the same job may start elsewhere or later."""

    def __init__(self, problem: AnyText) -> None:
        super().__init__(str(problem))
        self.problem = problem


class StepFailed(NotStarted):
    """A command that runs before the job has failed on a host that is not its first."""

    def __init__(self, problem: AnyText, code: int) -> None:
        super().__init__(problem)
        self.code = code


class Refusal(OSError):
    """Something that the supervisor refuses as the kernel would; `said` is why."""

    def __init__(self, said: AnyText) -> None:
        super().__init__(str(said))
        self.said = said


class AttemptOpening:
    """Opens folder, streams and limits of one attempt. `note(text)` takes down what is not as it was asked for and
    keeps no job from running.
    """

    def __init__(self, folder: str, settings: SupervisorSettings, note: Callable[[AnyText], None]) -> None:
        self._order: Order
        self._folder = folder
        self._settings = settings
        self._note = note
        self.rights: JobRights
        self.locks: list[int] = []
        self.group: FenceGroup | None = None
        self.terminal: Terminal | None = None
        self.streams = (-1, -1, -1)
        """Standard input, output and error of the job."""
        self.output: Output | Nowhere
        self.error: Output | Nowhere

    def take_up(self, order: Order, locks: list[int]) -> None:
        """Go on in another interpreter of the same process, after `prepare`: all of it stands."""
        self._order, self.locks = order, locks
        self.rights = JobRights(order)
        if order.fence is not None:
            self.group = group_of(order.fence.kind, order.fence.folders)

    def prepare(self, order: Order) -> None:
        """All that the order wants, first what the rest needs. Raises NotStarted and FinalFailure."""
        self._order = order
        self.rights = JobRights(order)
        self._lock()
        self._bind()
        if order.is_part:
            self.output = self.error = Nowhere(f"{self._folder}/{STDOUT}")
        else:
            self._open()
        self._make_group()
        self._leave_room()  # last: what cannot be started leaves nothing in the file

    def _open(self) -> None:
        """Folders and streams, with the job's umask."""
        os.umask(self._order.umask)
        try:
            with acting_as(self.rights.user):
                self._enter_folder()
                self._find_image()
            self.streams = self._open_streams()
        except PermissionError as error:  # a root that may not do all that root may
            raise NotStarted(str(error)) from error
        os.umask(0o077)

    def _lock(self) -> None:
        uuids, settings = self._order.gpu_lock_uuids, self._settings
        try:
            self.locks = gpu_lock.lock_gpus(uuids, settings.cluster, settings.locks)
        except gpu_lock.GpuLockError as error:
            raise NotStarted(error.said) from error

    def _enter_folder(self) -> None:
        for folder in self._order.folders:
            try:
                os.makedirs(folder, exist_ok=True)
            except (OSError, ValueError) as error:
                self._note(coded("attempt.folder", folder, why(error)))
        try:
            os.chdir(self._order.cwd)
        except (OSError, ValueError) as error:
            problem = coded("attempt.no_directory", self._order.cwd, why(error))
            raise FinalFailure(problem, "TERM_CWD_NOTEXIST") from error

    def _find_image(self) -> None:
        """What runs containers says it in words of its own. Where steps come first, they may fetch the image."""
        container = self._order.container
        if container is None or self._order.first or not container.holds_main:
            return
        try:
            look_for(container.image)
        except OSError as error:
            raise FinalFailure(coded("attempt.no_image", image_path(container.image), why(error))) from error

    def _leave_room(self) -> None:
        """For the report above the output; where that cannot be done the report will stand below it."""
        size, facts, output = self._order.report_room, self._order.report, self.output
        if not size or facts is None or not isinstance(output, Output):
            return
        if output.path != os.path.abspath(self._order.output_file):
            return
        try:
            with acting_as(self.rights.user):
                output.leave_room(facts.job, size)
        except OSError as error:
            self._note(coded("attempt.output", output.path, why(error)))

    def _make_group(self) -> None:
        """The fence stands before the job does."""
        fence = self._order.fence
        if fence is None:
            return
        group = group_of(fence.kind, fence.folders)
        self.group = group  # also where it was made and has no rules: it is removed
        try:
            make_fenced(group, fence.minors, fence.denied)
        except OSError as error:
            raise NotStarted(coded("attempt.no_fence", why(error))) from error

    def _bind(self) -> None:
        """affinity[...]: the job inherits the supervisor's CPUs and nodes."""
        cpus, nodes = self._order.cpus, self._order.memory_nodes
        what, code = str([*cpus]), "attempt.not_bound"
        try:
            if cpus:
                os.sched_setaffinity(0, cpus)
                if os.sched_getaffinity(0) != set(cpus):
                    raise Refusal(coded("attempt.cpus_denied"))
            what, code = str([*nodes]), "attempt.not_bound_memory"
            if nodes:
                self._settings.bind_memory(nodes)
        except OSError as error:
            raise NotStarted(coded(code, what, why(error))) from error

    def _open_streams(self) -> tuple[int, int, int]:
        """Standard input, output and error of the job, opened as the job would (its directory, its umask)."""
        if self._order.interactive:
            return self._open_terminal()
        is_ours = self._order.input is not None
        source = f"{self._folder}/{INPUT}" if is_ours else self._order.input_file or os.devnull
        try:
            with acting_as(None if is_ours else self.rights.user):
                stdin = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
            self._check(stdin)
        except (OSError, ValueError) as error:
            raise FinalFailure(coded("attempt.no_input", source, why(error))) from error
        out, err = self._order.output_file, self._order.error_file
        self.output = self._open_output(out, self._order.output_overwrite, STDOUT)
        same = os.path.abspath(out) == os.path.abspath(err) if out and err else bool(out)
        truncates = self._order.error_overwrite
        self.error = self.output if same else self._open_output(err, truncates, STDERR)
        return stdin, self.output.fd, self.error.fd

    def _open_terminal(self) -> tuple[int, int, int]:
        """Of an interactive job. Its output is kept nowhere."""
        from gsched.run.supervisor.terminal import Terminal  # only now: other jobs do without

        mask = os.umask(0o077)  # its socket is the agent's, whatever the job's user wants of files
        try:
            self.terminal = Terminal(self._folder, is_pty=self._order.interactive == "pty")
            self._hand_over(self.terminal.streams)
        except OSError as error:
            raise NotStarted(coded("attempt.no_terminal", why(error))) from error
        finally:
            os.umask(mask)
        self.output = Nowhere(f"{self._folder}/{STDOUT}")
        self.error = self.output if self.terminal.is_pty else Nowhere(f"{self._folder}/{STDERR}")
        return self.terminal.streams

    def _open_output(self, path: str, overwrite: bool, fallback: str) -> Output:
        """Where one stream goes: its file, or the attempt's folder when there is none or it cannot be opened."""
        spooled = f"{self._folder}/{fallback}"
        line = self._order.attempt_line
        if path:
            try:
                output = self._output_of_job(os.path.abspath(path), overwrite and not line, line)
                self._check(output.fd)
                return output
            except (OSError, ValueError) as error:
                if self._order.output_required:
                    raise FinalFailure(coded("attempt.output", path, why(error)), exit_code=NO_OUTPUT) from error
                self._note(coded("attempt.output_kept", path, why(error)))
        kept = Output(spooled, True, 0o600)
        self._hand_over((kept.fd,))
        return kept

    def _output_of_job(self, path: str, overwrite: bool, line: str) -> Output:
        """The file, opened as its user would. Raises OSError, ValueError."""
        until = time.monotonic() + FOLDER_S if self._order.output_required else 0.0
        while True:
            try:
                with acting_as(self.rights.user):
                    return Output(path, overwrite, 0o666, line)
            except FileNotFoundError:
                if time.monotonic() >= until:
                    raise
            time.sleep(FOLDER_LOOK_S)

    def _check(self, stream: int) -> None:
        """A process may open more of its own /proc than the job may of its supervisor's. Raises OSError."""
        if self.rights.user is not None and is_of_proc(stream):
            os.close(stream)
            raise Refusal(coded("attempt.of_proc"))

    def _hand_over(self, streams: Iterable[int]) -> None:
        """They are the user's: programs open /dev/stdout and their terminal by name as well. Raises OSError."""
        user = self.rights.user
        if user is None:
            return
        for stream in streams:
            os.fchown(stream, user.uid, user.gid)

    def programs(self) -> list[list[str]]:
        """Argument lists to try one after the other."""
        order = self._order
        starter, login = order.job_starter, order.login_shell
        script, sh = None, ["/bin/sh"] if order.container is not None else steps.shell(order.environment)
        if order.script is not None:
            script = [*interpreter(order.script, f"{self._folder}/{SCRIPT}", sh), *order.script_words]
        if starter:
            line = steps.started_by(starter, steps.quoted(script) if script else order.command)
            programs = [[*sh, "-c", line]]
        elif script:
            programs = [script]
        else:
            shell, direct = [*sh, "-c", order.command], plain_words(order.command)
            programs = [direct, shell] if direct and not login else [shell]
        programs = [steps.in_login(login, words) for words in programs] if login else programs
        if order.container is None or not order.container.holds_main:
            return programs
        has_terminal = order.interactive == "pty"
        return [contained(order.container, programs[0], order.environment, order.cwd, has_terminal=has_terminal)]
