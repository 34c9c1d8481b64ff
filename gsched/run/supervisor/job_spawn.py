"""A job as a process that was never a copy of its supervisor: posix_spawn(3), with a shell that waits at the gate.

After a fork both sides copy each page that they touch, some six hundred for one job: two thirds of what a short job
costs. So a job without a user, limits or steps of its own is started as /bin/sh, which waits until the start is on
record, tells the job its process number, and becomes the job. It must leave the environment as it is: that is known
of dash alone. Never starts what could not be executed: of that the forked child says why (job_process).

Runs in the fork server's bare interpreter: standard library only.
"""

from __future__ import annotations

import fcntl
import os
import re

from gsched.run.supervisor.steps import RESETTABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.run.order import Order

_SHELL = "/bin/sh"
_IS_DASH = os.path.basename(os.path.realpath(_SHELL)) == "dash"
_GATE = 9
"""Descriptor of the gate in the shell, which knows one digit alone."""
_ABOVE_GATE = _GATE + 1
_WAIT = f"""read -r GSCHED_GATE <&{_GATE} || exit 126
unset GSCHED_GATE
export LS_JOBPID=$$ LSB_JOBRES_PID=$PPID
[ -z "${{SLURM_PROCID+x}}" ] || export SLURM_TASK_PID=$$
exec "$@" {_GATE}<&-
"""
_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\0[A-Za-z_][A-Za-z0-9_]*)*")
"""Names of variables, with NUL in between: all others dash drops. Source: dash(1), and POSIX, Shell Command Language,
3.231 Name."""
_OF_DASH = ("GSCHED_GATE", "IFS", "LINENO", "OPTIND", "PPID")
"""Variables that it sets itself, whatever the environment says."""


def may_spawn(order: Order) -> bool:
    """Whether the job would be the same as one that is forked."""
    environment = order.environment
    needs_fork = order.account is not None or order.granted or order.first or order.interactive
    if not _IS_DASH or needs_fork or order.nice or order.limits or order.is_part:
        return False
    if not environment or _NAMES.fullmatch("\0".join(environment)) is None:
        return False
    return environment.get("PWD", "").startswith("/") and not any(name in environment for name in _OF_DASH)


def spawn_job(order: Order, words: list[str], streams: tuple[int, int, int], gate: int) -> int:
    """Process number of the job, which waits at the gate; 0: it must be forked. Raises OSError.

    `words`: what it becomes. The working directory is this process's.
    """
    if not _is_executable(words[0], order.environment.get("PATH", os.defpath)):
        return 0
    above = fcntl.fcntl(gate, fcntl.F_DUPFD_CLOEXEC, _ABOVE_GATE)
    mask = os.umask(order.umask)
    try:
        targets = [*enumerate(streams)]
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in (*targets, (_GATE, above))]
        return os.posix_spawn(
            _SHELL,
            ["sh", "-c", _WAIT, "sh", *words],
            order.environment,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=RESETTABLE,
        )
    finally:
        os.umask(mask)
        os.close(above)


def _is_executable(program: str, path: str) -> bool:
    """Whether exec of the shell finds it, and may execute it."""
    if "/" in program:
        return os.access(program, os.X_OK) and os.path.isfile(program)
    places = (f"{folder}/{program}" for folder in path.split(":") if folder)
    return any(os.access(place, os.X_OK) and os.path.isfile(place) for place in places)
