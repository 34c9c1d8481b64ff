"""What runs around a job on its first host: pre- and post-execution commands, and the words a job is started with.

Used by the supervisor and by the job's own process, in the bare interpreter of the fork server: standard library only.
Source: bsub(1), -E, -Ep and -L; lsb.queues(5), PRE_EXEC, POST_EXEC and JOB_STARTER.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps each call of
import math
import os
import select
import signal
import time
from collections.abc import Callable

from gsched.run.processes import process_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gsched.run.order import JobStep
    from gsched.run.supervisor.job_rights import JobRights

ABORT = 99
"""Exit code of a pre-execution command after which the job is not tried again (LSB_EXIT_PRE_ABORT)."""
SITE_PATH = "/bin:/usr/bin:/sbin:/usr/sbin"
SITE_FOLDER = "/tmp"
LATE = 98
"""Exit code of a job whose steps before it took too long. Source: lsb.params(5), JOB_PREPROC_TIMEOUT."""
_LOOK_S = 0.05
_MOST_POLL_MS = (1 << 31) - 1
"""poll(2) takes no more; who waits longer looks again."""
_USER_COMMAND = "%USRCMD"
_CSH_LOGIN = "if ( -r /etc/csh.login ) source /etc/csh.login; if ( -r ~/.login ) source ~/.login; exec $argv:q"


RESETTABLE = tuple(
    signum
    for signum in signal.valid_signals()
    if signum not in (signal.SIGKILL, signal.SIGSTOP)
    and (signum < signal.SIGRTMIN or signal.getsignal(signum) is not signal.SIG_DFL)
)
"""What may be ignored: by us, by Python, or since before us (a daemon that was started with nohup)."""


def default_signals() -> None:
    """Treat all signals as a fresh process does, none of them blocked."""
    for signum in RESETTABLE:
        _signal.signal(signum, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def fork_step(
    step: JobStep,
    environment: dict[str, str],
    rights: JobRights,
    umask: int,
    enter: Callable[[int], object] | None = None,
) -> int:
    """Start the step as a child with its own rights; its process id. Raises OSError when there can be none.

    `enter` puts the child, by its process id, where it must be before it executes anything; else it does not.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        if enter is not None:
            enter(os.getpid())
        default_signals()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        environment = rights.environment_of(step, environment)
        rights.take_for(step, umask)
        if step.is_site:
            os.chdir(SITE_FOLDER)
            environment = {**environment, "PATH": SITE_PATH}
        os.execve("/bin/sh", ["/bin/sh", "-c", step.command], environment)
    finally:
        os._exit(126)


def run_step(
    step: JobStep, environment: dict[str, str], rights: JobRights, umask: int, until: float = math.inf
) -> int | None:
    """Run it to its end; its exit code as a shell would tell it. None: it was killed at `until` (time.monotonic)."""
    pid = fork_step(step, environment, rights, umask)
    if until == math.inf:
        return shell_code(os.waitpid(pid, 0)[1])
    status = _wait_until(pid, until)
    if status is not None:
        return shell_code(status)
    for each in process_tree.family(os.getpid()):
        process_tree.send(each, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _wait_until(pid: int, until: float) -> int | None:
    """The wait status of a child; None where it is there at `until`. Without pidfds it looks again and again."""
    try:
        ended = os.pidfd_open(pid)
    except OSError:
        ended = -1
    else:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
    try:
        while True:
            left_s = until - time.monotonic()
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return status
            if left_s <= 0:
                return None
            if ended < 0:
                time.sleep(min(left_s, _LOOK_S))
            else:
                poll.poll(min(math.ceil(left_s * 1000), _MOST_POLL_MS))
    finally:
        if ended >= 0:
            os.close(ended)


def shell_code(status: int) -> int:
    """The exit code that a shell makes of a wait status."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def quoted(words: list[str]) -> str:
    """The words as text of a shell."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def started_by(starter: str, command: str) -> str:
    """The command line with JOB_STARTER in front of it, or around it."""
    return starter.replace(_USER_COMMAND, command) if _USER_COMMAND in starter else f"{starter} {command}"


def shell(environment: Mapping[str, str]) -> list[str]:
    """What runs a job's command line, and a script that names no interpreter: /bin/sh. Where that is no bash and the
    job has functions that bash has exported (`module`, say), bash in POSIX mode, as /bin/sh is on other systems: dash
    would take them from all that it starts.
    """
    has_functions = "\0BASH_FUNC_" in "\0".join(("", *environment))
    if has_functions and os.path.basename(os.path.realpath("/bin/sh")) != "bash" and os.access("/bin/bash", os.X_OK):
        return ["/bin/bash", "--posix"]
    return ["/bin/sh"]


def in_login(shell: str, words: list[str]) -> list[str]:
    """The words, run by a shell that reads its login files first."""
    if shell.endswith("csh"):  # they have no login without a terminal
        return [shell, "-c", _CSH_LOGIN, *words]
    return [shell, "-l", "-c", 'exec "$0" "$@"', *words]
