"""The interpreter that begins again where a supervisor has slept: it sees the attempt to its end, or sleeps once more.

Runs in a bare interpreter, as the fork server does: standard library and msgspec only. Never starts an attempt.
"""

from __future__ import annotations

import os

import msgspec

from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.run.sleeping.handing_over import Waiter
from gsched.run.sleeping.supervisor_state import SupervisorState, take_up
from gsched.run.supervisor.opening import SupervisorSettings
from gsched.run.supervisor.supervisor import Supervisor


def read_state(fd: int) -> SupervisorState:
    """What was written before the program was executed; its descriptors are no program's any more. Raises OSError,
    ValueError."""
    state = msgspec.json.decode(os.pread(fd, os.fstat(fd).st_size, 0), type=SupervisorState)
    os.close(fd)
    for each in state.descriptors():
        os.set_inheritable(each, False)
    return state


def go_on(fd: int) -> None:
    """Body of a supervisor that has slept (handing_over): see its attempt to the end. It takes no further one, for its
    memory is shared with nobody. Never returns.
    """
    code = 1
    try:
        state = read_state(fd)
        unused = GpuLockFolders("", "", False)
        settings = SupervisorSettings(
            state.spool, state.cluster, unused, state.notify_fd, _unused, _unused, Waiter(*state.waiter)
        )
        supervisor = Supervisor(settings, state.name)
        take_up(supervisor, state)
        supervisor.see_to_the_end()
        code = 0
    finally:
        os._exit(code)  # the agent goes on where this cannot


def _unused(*_words: object) -> None:
    """What is done once, before the job starts."""
