"""What this machine allows: where jobs' control groups can lie, whether a fence holds there, what was left behind.

An agent asks once, at its start. All groups of a cluster's host lie below one folder,
`gsched/TAG`, at the top of the hierarchy: a job must outlive the service or the login session that its agent belongs
to. Only an agent that itself runs in the fence of a job stays inside of that.

Never removes a group that holds a process, and nothing outside its own folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from gsched.base.coded_text import AnyText, coded, listed
from gsched.run.fence import cgroup_files, trial
from gsched.run.fence.group import V1, V2, FenceGroup, group_of, make_fenced
from gsched.run.fence.v1 import MINORS

_TRIAL = ".trial"
_TRIAL_MINOR = MINORS - 1
"""One that is denied whatever is known of the machine's GPUs, and that hardly any has."""
_UNTOLD = -1
_PROBLEMS = {
    trial.OPEN: coded("fence.device_opened"),
    trial.OUTSIDE: coded("fence.not_entered"),
}


class CgroupRoot:
    """A hierarchy, or two, in which this host's groups lie."""

    def __init__(self, kind: str, bases: tuple[str, ...]) -> None:
        self.kind = kind
        self.bases = bases

    def folders(self, name: str) -> tuple[str, ...]:
        """Where the group of this attempt lies."""
        return tuple(f"{base}/{name}" for base in self.bases)

    def group(self, name: str) -> FenceGroup:
        """The group of this attempt, made or not."""
        return group_of(self.kind, self.folders(name))

    def clear(self, known: Iterable[str]) -> list[str]:
        """Remove what earlier agents left behind of attempts that are not `known`; names those that hold processes."""
        left = {
            entry.name
            for base in self.bases
            if os.path.isdir(base)
            for entry in os.scandir(base)
            if entry.is_dir(follow_symlinks=False)
        }
        return sorted(name for name in left - set(known) if not self.group(name).remove())

    def leave(self) -> None:
        """Remove the folder, unless groups lie in it; it is made again when one is."""
        for base in self.bases:
            for folder in (base, os.path.dirname(base)):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    def __str__(self) -> str:
        return f"control groups {self.kind} in {self.bases[0]}"


def tag_of(key: str) -> str:
    """The name of the folder of this cluster's host; `key` is unique to both."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def find_cgroup_root(key: str, scratch: Path) -> CgroupRoot | AnyText:
    """Where groups can be made and fences hold, version 2 before version 1; else the reason why nowhere.

    `key` is unique to the cluster and host; in the folder `scratch` a device node is made and removed again.
    """
    if os.geteuid() != 0:
        return coded("fence.no_root")
    problems = []
    for kind, bases in _candidates(tag_of(key)):
        problem = _try(CgroupRoot(kind, bases), scratch)
        if not problem:
            return CgroupRoot(kind, bases)
        problems.append(coded("fence.of_kind", kind, problem))
    return listed(problems, "list.semicolon") or coded("fence.no_groups")


def _candidates(tag: str) -> list[tuple[str, tuple[str, ...]]]:
    """Where this host's groups would lie, for each version that is mounted."""
    own = _own_paths(cgroup_files.read("/proc/self/cgroup"))
    places = {
        name: f"{mount}{_inside(own.get(name, '/'), root)}/{cgroup_files.FOLDER}/{tag}"
        for name, (mount, root) in cgroup_files.hierarchies().items()
    }
    found: list[tuple[str, tuple[str, ...]]] = []
    if "" in places:
        found.append((V2, (places[""],)))
    if "devices" in places and "freezer" in places:
        found.append((V1, (places["devices"], places["freezer"])))
    return found


def _own_paths(text: str) -> dict[str, str]:
    """Controller ("" for version 2) -> path of this process's group. Source: cgroups(7), /proc/PID/cgroup."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            found[name] = path
    return found


def _inside(own: str, root: str) -> str:
    """The part of our own path to stay below: all of it in a job's fence, else none. `root`: what is mounted."""
    if f"/{cgroup_files.FOLDER}/" not in own:
        return ""
    return own.removeprefix(root.rstrip("/")) if own.startswith(root) else own


def _try(cgroup_root: CgroupRoot, scratch: Path) -> AnyText:
    """Make a group, fence it and see whether the fence holds; empty when it does."""
    group = cgroup_root.group(_TRIAL)
    try:
        make_fenced(group, (), ())
        held = _opened_from(group, scratch)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    finally:
        group.remove()
    return _PROBLEMS.get(held, "")


def _opened_from(group: FenceGroup, scratch: Path) -> int:
    """What becomes of opening a GPU's device from inside; untold where it cannot be opened from outside either."""
    node = scratch / f".fence-{os.getpid()}"
    try:
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(cgroup_files.CHARACTER_MAJOR, _TRIAL_MINOR))
    except OSError:
        return _UNTOLD
    try:
        if trial.opened(str(node)) == trial.DENIED:
            return _UNTOLD
        return trial.opened_inside(group, str(node))
    finally:
        node.unlink()
