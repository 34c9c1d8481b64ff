"""A job's group in the hierarchies of version 1: the devices controller is the fence, the freezer stops and kills.

Sources: the kernel's Documentation/admin-guide/cgroup-v1/devices.rst and freezer-subsystem.rst. The devices controller
cannot say "all of a major but these", so minors are denied one by one.

Standard library only. Never touches a group that it has not made.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from gsched.run.fence import cgroup_files

MINORS = 64
"""Minors below this are denied whether such a GPU is known or not."""


class V1Group:
    """A folder in the hierarchy of devices, and one in that of the freezer (which may be the same)."""

    def __init__(self, devices: str, freezer: str) -> None:
        self.devices = devices
        self.freezer = freezer
        self.places = (cgroup_files.place_of(freezer), cgroup_files.place_of(devices))

    def make(self) -> None:
        """As V2Group.make."""
        cgroup_files.make(self.devices)
        if self.freezer != self.devices:
            cgroup_files.make(self.freezer)

    def fence(self, minors: Sequence[int], denied: Iterable[tuple[int, int]]) -> None:
        """As V2Group.fence."""
        may = {*minors, *cgroup_files.CONTROL_MINORS}
        others = {*denied, *((cgroup_files.CHARACTER_MAJOR, minor) for minor in range(MINORS))}
        fd = os.open(f"{self.devices}/devices.deny", os.O_WRONLY | os.O_CLOEXEC)
        try:
            for major, minor in sorted(others):
                if major != cgroup_files.CHARACTER_MAJOR or minor not in may:
                    os.write(fd, f"c {major}:{minor} rwm".encode())
        finally:
            os.close(fd)

    def add(self, pid: int) -> None:
        """As V2Group.add."""
        for folder in {self.devices, self.freezer}:
            cgroup_files.write(f"{folder}/cgroup.procs", str(pid))

    def fork(self) -> int | None:
        """As V2Group.fork: it cannot be done."""
        return None

    def pids(self) -> list[int]:
        """As V2Group.pids."""
        return list(dict.fromkeys(pid for folder in (self.freezer, self.devices) for pid in cgroup_files.pids(folder)))

    def freeze(self) -> bool:
        """As V2Group.freeze."""
        return self._set("FROZEN")

    def is_frozen(self) -> bool:
        """As V2Group.is_frozen."""
        return cgroup_files.read(f"{self.freezer}/freezer.state").strip() == "FROZEN"

    def thaw(self) -> None:
        """As V2Group.thaw."""
        self._set("THAWED")

    def kill(self) -> None:
        """As V2Group.kill."""
        cgroup_files.kill_frozen(self.freeze, self.is_frozen, self.pids)
        self.thaw()

    def remove(self) -> bool:
        """As V2Group.remove."""
        removed = [cgroup_files.remove(folder) for folder in {self.freezer, self.devices}]
        return all(removed)

    def cpu_s(self) -> float | None:
        """As V2Group.cpu_s: the hierarchies that it lies in do not tell."""
        return None

    def mem_mib(self) -> float | None:
        """As V2Group.mem_mib, likewise."""
        return None

    def _set(self, state: str) -> bool:
        return cgroup_files.tell(f"{self.freezer}/freezer.state", state)
