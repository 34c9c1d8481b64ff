"""The fork server's side of a program that the agent has run: a fresh child becomes it.

In the bare interpreter of the fork server: standard library only. Never returns, and never executes anything that could
not be put into its control group first, or be made the user that it should be.
"""

from __future__ import annotations

import json
import os

from gsched.run.account import UnixAccount, become
from gsched.run.fence.group import group_of
from gsched.run.supervisor.job_process import (
    why,  # which has what os.execvpe imports: the user may not read it any more
)
from gsched.run.supervisor.job_rights import grant
from gsched.run.supervisor.steps import default_signals

FDS = 4
"""Description, standard input, standard output and error, and what keeps it from being executed."""
_FAILED = 126


def become_program(fds: list[int]) -> None:
    """Execute what the first of these files describes (see gsched.run.program.Program). Never returns."""
    try:
        _become(*fds[:-1])
    except BaseException as error:
        text = str(why(error)) if isinstance(error, Exception) else type(error).__name__
        os.pwrite(fds[-1], text.encode(errors="replace")[:4096], 0)
    finally:
        os._exit(_FAILED)


def _become(described: int, stdin: int, printed: int) -> None:
    """Raises OSError, and ValueError for a description that nobody here has written."""
    with open(os.dup(described), "rb") as file:
        what = json.loads(file.read())
    os.setsid()
    fence, account = what["fence"], what["account"]
    if fence is not None:  # as root: the user has no right to
        group_of(fence["kind"], fence["folders"]).add(os.getpid())
    default_signals()
    for target, fd in ((0, stdin), (1, printed), (2, printed)):
        os.dup2(fd, target)
    os.umask(what["umask"])
    grant(what["granted"])
    if account is not None:
        become(UnixAccount.of(account))
    os.chdir(what["cwd"])
    os.execvpe(what["words"][0], what["words"], what["environment"])
