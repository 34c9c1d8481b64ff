"""A job's control group, whatever the kernel's version of them.

Runs in the fork server's bare interpreter as well as in the agent: standard library only, and little of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gsched.run.fence.v1 import V1Group
from gsched.run.fence.v2 import V2Group

V1, V2 = "v1", "v2"

FenceGroup = V1Group | V2Group
"""What one of them can do the other can; V2Group says what that is."""


def group_of(kind: str, folders: Sequence[str]) -> FenceGroup:
    """The group that lies in these folders, made or not: one folder for v2; those of devices and freezer for v1."""
    return V2Group(folders[0]) if kind == V2 else V1Group(folders[0], folders[1])


def make_fenced(group: FenceGroup, minors: Sequence[int] | None, denied: Iterable[tuple[int, int]]) -> None:
    """Make it, with its rules (see V2Group.fence); `minors` None: without any. Raises OSError."""
    group.make()
    if minors is not None:
        group.fence(minors, denied)
