"""How a supervisor sleeps: it becomes a small program that waits (launcher/waiter.c), and an interpreter when needed.

A supervisor that only waits has copied two megabytes of the fork server for it. So where nothing has come for a while
it executes the program in its own process: that has the same number and start, is the parent of the job as before, and
has open whatever it must hold. All endings stay in one place, here: when a process has ended, at a poke, or when a time
is over the program executes the interpreter again, which takes up what `supervisor_state` says and looks at all anew.

What must hold across an execution: signals stay blocked and ignored, and pending ones pending; no child's end is taken;
each descriptor named in the state stays open; nothing secret is in the arguments, which everybody can read. Never done
where a thread, a terminal, tasks or a signal under way would have to be carried along.

An interpreter that begins again may be of a later version, which has been installed meanwhile: fields of the state are
only added, with defaults, and `gsched.run.forkserver.resume` keeps its name and argument.

Runs in the fork server's bare interpreter: standard library and msgspec only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import msgspec

from gsched.run.sleeping.supervisor_state import SupervisorState

RESUME = (
    'import sys; sys.path += sys.argv[1:3]; sys.modules["typing_extensions"] = None; '
    "from gsched.run.forkserver import resume; resume(int(sys.argv[3]))"
)
"""What the interpreter executes, behind the folders that the fork server has its modules from; `lost_folders` knows
supervisors by it."""
AFTER_S = 30.0
"""A supervisor sleeps when nothing has come for so long. To begin again takes some 50 ms of the processor, so that a
job pays less than 0.2 % of a processor, and a shorter one nothing."""
AGAIN_FACTOR = 1 / 30
"""One that was woken sleeps again after so much of that time, for its interpreter shares no memory with any other;
each time that it was woken it waits twice as long, up to MOST_FACTOR: the children of some jobs end all the time."""
MOST_FACTOR = 8
WORTH_FACTOR = 10
"""And nothing must be due for so many times AFTER_S."""


class Waiter:
    """The program, and how the interpreter is executed again."""

    __slots__ = ("after_s", "path", "roots")

    def __init__(self, path: str, after_s: float, roots: Sequence[str]) -> None:
        self.path = path
        self.after_s = after_s
        self.roots = (*roots,)
        """The folders that gsched and msgspec lie in."""

    def patience_s(self, woken: int) -> float:
        """How long a supervisor that was woken so often waits for news before it sleeps."""
        return self.after_s * (min(AGAIN_FACTOR * 2 ** min(woken - 1, 30), MOST_FACTOR) if woken else 1.0)

    def is_worth(self, due_s: float | None) -> bool:
        """Whether one may sleep that has something to do after that time; None: nothing."""
        return due_s is None or due_s >= self.after_s * WORTH_FACTOR

    def sleep(self, state: SupervisorState, folder: str, most_s: float | None) -> None:
        """Become the program, for at most so long. Returns where that cannot be done, with everything as before."""
        memory, kept = -1, state.descriptors()
        try:
            memory = os.memfd_create("gsched-supervisor")
            os.write(memory, msgspec.json.encode(state))
            for each in (*kept, memory):
                os.set_inheritable(each, True)
            most_ms = 0 if most_s is None else max(int(most_s * 1000), 1)
            resumed = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", RESUME, *self.roots, str(memory)]
            words = [os.path.basename(self.path), folder, str(state.pid), str(most_ms), *resumed]
            os.execv(self.path, words)
        except (OSError, ValueError):  # no memory, or the program is gone: it goes on waiting here
            for each in kept:
                os.set_inheritable(each, False)
            if memory >= 0:
                os.close(memory)
