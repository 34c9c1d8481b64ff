"""Which processes of a job in containers are its own, and which are there to hold the containers.

The latter pass signals on, or die of them with what they hold: a job that is told something would hear it twice, or
lose its files. So they are spared of all signals but those that they cannot catch. Reads /proc only, and sends nothing.
Runs in the fork server's bare interpreter: standard library only.
"""

from __future__ import annotations

import os
import signal

from gsched.run.processes.process_tree import Process, descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_HOLDING = frozenset(
    (
        *("podman", "conmon", "exe", "crun", "runc", "fuse-overlayfs", "slirp4netns", "pasta"),
        *("newuidmap", "newgidmap", "fusermount", "fusermount3", "fuse2fs", "squashfuse", "squashfuse_ll"),
        *("apptainer", "singularity", "starter", "starter-suid"),
    )
)
"""Names of processes that Podman and Apptainer start on the host, as /proc/PID/stat has them (15 characters)."""
_STARTED_BY_APPTAINER = ("Apptainer runt", "Singularity ru")
_FIRST_INSIDE = ("podman-init", "catatonit", "appinit")
_HOLDER, _NAMED = "conmon", "--name"
_FOR_ALL = frozenset({signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT})


def holds_container(process: Process) -> bool:
    """Whether the process is one of the program that runs containers: it has that name, and the host's own files; or
    it is the first process inside, which passes all on to the job's.
    """
    name = process.name
    if name in _FIRST_INSIDE:
        return _is_first_inside(process.pid) or _has_hosts_files(process.pid)
    return (name in _HOLDING or name.startswith(_STARTED_BY_APPTAINER)) and _has_hosts_files(process.pid)


def of_job(processes: Iterable[Process]) -> list[Process]:
    """Those that are the job's own."""
    return [each for each in processes if not holds_container(each)]


class SignalReach:
    """Whom signals to all processes of a job are sent to, in the course of it."""

    __slots__ = ("_has_begun", "is_contained")

    def __init__(self, *, is_contained: bool) -> None:
        self.is_contained = is_contained
        """The job runs in containers; without them it is all of its processes."""
        self._has_begun = False
        """One of its own processes was seen: where there is none any more, what holds them is about to end."""

    def meant(self, processes: Iterable[Process], signum: int) -> list[Process]:
        """Of these processes its own; before it has any all of them, for the image may still be fetched."""
        every = list(processes)
        if not self.is_contained or signum in _FOR_ALL:
            return every
        own = of_job(every)
        self._has_begun = self._has_begun or bool(own)
        return own if self._has_begun else every


def main_of(processes: Iterable[Process], main: int, *, is_contained: bool) -> int:
    """The job's main process, where `main` was started as that: in a container the first that began inside."""
    if not is_contained:
        return main
    every = list(processes)
    own = of_job(every)
    if not own or any(each.pid == main for each in own):
        return main
    return min(own, key=lambda each: (each.start, each.pid)).pid


def of_task(processes: Iterable[Process], leader: int) -> list[Process]:
    """What runs in the container of the task whose first process is `leader`, with what holds it: a process of Podman
    that is killed leaves both alone, and they have a session of their own. None where it has no such container.
    """
    words = _words_of(leader)
    name = words[words.index(_NAMED) + 1] if _NAMED in words[:-1] else ""
    every = {each.pid: each for each in processes}
    holders = [each for each in every.values() if each.name == _HOLDER and name and name in _words_of(each.pid)]
    return [*holders, *(below for each in holders for below in descendants(each.pid, every))]


def _words_of(pid: int) -> list[str]:
    """The command line of a process; none of one that is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")
    except OSError:
        return []


def _is_first_inside(pid: int) -> bool:
    """Whether it is process 1 of a namespace below ours (proc(5), NSpid of status)."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            line = next((each for each in file if each.startswith(b"NSpid:")), b"")
    except OSError:
        return False
    numbers = line.split()[1:]
    return len(numbers) > 1 and numbers[-1] == b"1"


def _has_hosts_files(pid: int) -> bool:
    """Whether its root directory is ours; also where that may not be asked."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/root/"), os.stat("/"))
    except OSError:
        return True
