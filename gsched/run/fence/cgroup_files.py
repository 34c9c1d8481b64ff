"""Folders of control groups: both versions are read and removed alike. Source: cgroups(7).

Standard library only, and no more than os, signal and time. What is gone is empty.
"""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CHARACTER_MAJOR = 195
"""Major number of the device nodes of NVIDIA's driver. Source: the kernel's devices.txt, "Nvidia graphics devices"."""
CONTROL_MINORS = (254, 255)
"""nvidia-modeset and nvidiactl: every user of any GPU needs them, and they give nobody a GPU."""


FOLDER = "gsched"
"""The folder of all our groups in a hierarchy."""
_MAX_TRIES = 20
_FREEZE_PATIENCE_S = 0.1


def write(path: str, text: str) -> None:
    """Write to a control file. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read(path: str) -> str:
    """A control file's contents, empty when there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        data = b""
        while chunk := os.read(fd, 65536):
            data += chunk
        return data.decode()
    except OSError:
        return ""
    finally:
        os.close(fd)


def figures(path: str) -> dict[str, int]:
    """What a file of lines `NAME NUMBER` says; empty when there is none."""
    lines = (line.partition(" ") for line in read(path).splitlines())
    return {name: int(number) for name, _, number in lines if number.isdecimal()}


def figure(path: str, name: str) -> int:
    """The number of one such line, 0 where there is none; of a long file this costs a part of all `figures`."""
    _, found, rest = f"\n{read(path)}".partition(f"\n{name} ")
    number = rest.partition("\n")[0]
    return int(number) if found and number.isdecimal() else 0


def below(folder: str) -> list[str]:
    """The group's folder and those of all groups below it, the innermost first."""
    found = []
    try:
        with os.scandir(folder) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    for path in inner:
        found += below(path)
    return [*found, folder]


def pids(folder: str) -> list[int]:
    """All processes in it and below it. 0 stands for one of another pid namespace, which has no number here."""
    found = [int(pid) for path in below(folder) for pid in read(f"{path}/cgroup.procs").split()]
    return [pid for pid in found if pid > 0]


def place_of(folder: str) -> str:
    """What tells a group's folder from all others, wherever the hierarchy is mounted: `/gsched/TAG/NAME`."""
    return "/" + "/".join(folder.split("/")[-3:])


def hierarchies() -> dict[str, tuple[str, str]]:
    """ "" for version 2, and the controllers of version 1 that we use -> where it is mounted, and which group that is.

    What is mounted first counts, and at one place what covers the others. Source: proc_pid_mountinfo(5), cgroups(7).
    """
    found: dict[str, tuple[str, str]] = {}
    for line in read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        names = options.split()[-1].split(",") if kind == "cgroup" else [""] if kind == "cgroup2" else []
        for name in names:
            if name in ("", "devices", "freezer") and found.get(name, (mount,))[0] == mount:
                found[name] = (mount, root)
    return found


def places_of(pid: int) -> list[str]:
    """The places of those of our groups that a process is in, one that lies inside of another behind it.

    Only of groups below our folder at the top of a hierarchy, where root alone makes any: further below a user may have
    a part of it (systemd gives one to each login), whose groups have names of the user's choice.
    """
    found = []
    tops = _tops()
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for top in {tops[name] for name in controllers.split(",") if name in tops}:
            steps = path.removeprefix(top).split("/")
            if path.startswith(f"{top}/{FOLDER}/"):
                found += [place_of("/".join(steps[: at + 3])) for at, step in enumerate(steps) if step == FOLDER]
    return list(dict.fromkeys(found))


_known_tops: dict[str, str] = {}


def _tops() -> dict[str, str]:
    """Controller -> the path, in /proc/PID/cgroup, of what is mounted; read once."""
    if not _known_tops:
        _known_tops.update((name, root.rstrip("/")) for name, (_, root) in hierarchies().items())
    return _known_tops


def join(pid: int, other: int) -> None:
    """Put a process into the groups that another one is in, of the hierarchies that we use. Raises OSError."""
    mounts = hierarchies()
    for line in read(f"/proc/{other}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for mount, root in {mounts[name] for name in controllers.split(",") if name in mounts}:
            write(f"{mount}{path.removeprefix(root.rstrip('/'))}/cgroup.procs", str(pid))


def make(folder: str) -> None:
    """Make the group anew. Raises OSError, also for one that holds processes."""
    try:
        os.mkdir(folder, 0o755)
        return
    except (FileExistsError, FileNotFoundError):
        pass
    left = pids(folder)
    if left or not remove(folder):
        raise OSError(f"{folder} holds processes of an earlier job: {' '.join(map(str, left[:10]))}")
    for tries_left in reversed(range(_MAX_TRIES)):
        try:
            os.makedirs(folder, 0o755)
        except FileNotFoundError:  # another agent has just removed the folder above it, which was empty
            if not tries_left:
                raise
        else:
            return


def remove(folder: str) -> bool:
    """Remove the group and those below it; False if any holds processes."""
    try:
        os.rmdir(folder)
        return True
    except FileNotFoundError:
        return True
    except OSError:  # it has groups below it, or processes
        pass
    for path in below(folder):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass
        except OSError:
            return False
    return True


def tell(path: str, text: str) -> bool:
    """Write to a control file; whether it could be."""
    try:
        write(path, text)
    except OSError:
        return False
    return True


def kill_frozen(freeze: Callable[[], object], is_frozen: Callable[[], bool], pids: Callable[[], list[int]]) -> None:
    """SIGKILL to a group that is stopped first, for nobody may fork meanwhile; it arrives when they are thawed."""
    freeze()
    deadline = time.monotonic() + _FREEZE_PATIENCE_S
    while not is_frozen() and time.monotonic() < deadline:
        time.sleep(0.001)
    kill_each(pids())


def kill_each(found: list[int]) -> None:
    """SIGKILL to each. For processes that are frozen: none of them can have ended and left its number to another."""
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
