"""GPU_FOREIGN = kill-after:SECONDS: a process of nobody's job that stays on a GPU is told to go, then killed.

Nothing else ends a process that is not a job's, and this only where an admin has asked for it. Never ended, whatever is
configured: see `spared`. What the agent has no right to end stays, and the log says so.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable

from gsched.agent.gpu.foreign_processes import DIRTY, FOREIGN
from gsched.base.coded_text import has_code
from gsched.model.hosts.host import Gpu
from gsched.run.account import FIRST_PERSON
from gsched.run.processes import process_tree
from gsched.run.processes.attempt_marks import is_job_of_any

log = logging.getLogger(__name__)

GRACE_S = 10.0
"""Between SIGTERM and SIGKILL."""
DISPLAYS = frozenset(
    {
        *("X", "Xorg", "Xwayland", "gdm-x-session", "gnome-shell", "mutter", "kwin_x11", "kwin_wayland", "plasmashell"),
        *("cinnamon", "compiz", "xfwm4", "sway", "weston", "labwc", "Hyprland"),
    }
)
"""Names of programs that draw somebody's screen."""


class Eviction:
    """Remembers since when each foreign process is there. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, int], float] = {}
        """(process id, start) -> when it was first seen."""
        self._sent: dict[tuple[int, int], str] = {}
        """What was done last, or why nothing was."""

    def consider(self, gpus: Iterable[Gpu], kill_s: float, now: float) -> None:
        """Act on the foreign processes of these GPUs; those that are no longer there are forgotten.

        A GPU that is closed for another reason, such as the lock of another cluster, is not looked at.
        """
        found = {}
        for gpu in gpus:
            for pid in gpu.foreign_pids if has_code(gpu.problem, FOREIGN, DIRTY) else ():
                process = process_tree.read_process(pid)
                if process is not None:
                    found[process.pid, process.start] = (process, gpu)
        self._since = {key: self._since.get(key, now) for key in found}
        self._sent = {key: what for key, what in self._sent.items() if key in found}
        for key, (process, gpu) in found.items():
            stayed_s = now - self._since[key]
            if stayed_s >= kill_s:
                self._act(process, gpu, signal.SIGKILL if stayed_s >= kill_s + GRACE_S else signal.SIGTERM)

    def _act(self, process: process_tree.Process, gpu: Gpu, number: signal.Signals) -> None:
        key = (process.pid, process.start)
        user = next((each.user for each in gpu.processes if each.pid == process.pid), "")
        what = f"process {process.pid} ({process.name}) of {user or '?'} on GPU {gpu.index} ({gpu.uuid})"
        why = spared(process)
        done = f"{what} is not ended: {why}" if why else f"{what} belongs to no job and gets {number.name}"
        if self._sent.get(key) == done:
            return
        self._sent[key] = done
        log.warning("%s", done)
        problem = "" if why else process_tree.send(process, number)
        if problem:
            log.warning("%s stays: %s", what, problem)


def spared(process: process_tree.Process) -> str:
    """Why the process is never ended by this; empty when it may be."""
    if process.pid == 1 or process.ppid == 2 or process.pid == 2:
        return "it belongs to the system"
    if any(process.pid == each.pid for each in process_tree.ancestors(os.getpid())) or process.ppid == os.getpid():
        return "it belongs to the agent"
    if is_job_of_any(process.pid):
        return "it is a job's of another cluster"
    if process.name in DISPLAYS:
        return "it draws a screen"
    number = process_tree.owner_of(process.pid)
    if number is None:
        return "it has ended"
    return "" if number >= FIRST_PERSON else "it is root's or a service's"
