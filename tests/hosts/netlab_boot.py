"""The first process of a lab host: mounts what is the host's own, says `ready`, then reaps until its input ends.

Run by netlab.py as process 1 of new namespaces, `python -I -S netlab_boot.py SPEC`, SPEC being a file of JSON. When
this process ends the kernel ends all others of the host; it ends when whoever made the host has gone, by whatever way.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys

MS_REC, MS_BIND = 0x4000, 0x1000
_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError."""
    words = [text.encode() if text else None for text in (source, target, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"{source} on {target}")


class Places:
    """Files and folders that are kept open, so that they can be bound though a mount hides their paths by then."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def hold(self, path: str) -> None:
        self._held[path] = os.open(path, os.O_PATH)

    def bind(self, path: str, target: str) -> None:
        mount(f"/proc/self/fd/{self._held[path]}", target, flags=MS_BIND | MS_REC)

    def bind_back(self, path: str) -> None:
        """At its own path again, unless it is to be seen there still."""
        held = os.fstat(self._held[path])
        with contextlib.suppress(OSError):
            now = os.stat(path)
            if (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino) and os.access(path, os.X_OK):
                return
        os.makedirs(path, mode=0o755, exist_ok=True)
        self.bind(path, path)


def boot(spec: dict) -> None:
    """Make this namespace the host of `spec`."""
    os.umask(0o022)
    places = Places()
    for path in [*spec["needed"], *spec["binds"].values(), *spec["control_groups"].values()]:
        places.hold(path)
    socket.sethostname(spec["name"])
    mount("proc", "/proc", "proc")
    for target, source in spec["binds"].items():
        if target.startswith("/proc/"):
            places.bind(source, target)
    mount("sysfs", "/sys", "sysfs")
    if spec["control_groups"] and "/sys/fs/cgroup" not in spec["control_groups"]:
        mount("tmpfs", "/sys/fs/cgroup", "tmpfs", data="mode=755")
    for target, source in spec["control_groups"].items():
        os.makedirs(target, exist_ok=True)
        places.bind(source, target)
    for target, mode in spec["empty"].items():
        mount("tmpfs", target, "tmpfs", data=f"mode={mode}")
    for target, source in spec["binds"].items():
        if not target.startswith("/proc/"):
            places.bind(source, target)
    for path in spec["needed"]:
        places.bind_back(path)
    os.chdir("/")


def reap(*_: object) -> None:
    """Whoever lost its parent is this process's child."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    boot(spec)
    signal.signal(signal.SIGCHLD, reap)
    os.write(1, b"ready\n")
    os.close(1)
    while True:
        with contextlib.suppress(InterruptedError):
            if select.select([0], [], [])[0] and not os.read(0, 1):
                return


if __name__ == "__main__":
    main()
