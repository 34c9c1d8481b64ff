"""A process that puts itself into a control group and tries to open a device there: whether the fence of it holds.

A process of its own, for an agent must not fork. Standard library only.

Run as: python -I -S -E -X utf8 -c PRELUDE PACKAGE_ROOT KIND NODE FOLDER...
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys

from gsched.run.fence.group import FenceGroup, group_of
from gsched.run.fence.v2 import V2Group

DENIED, OPEN, OUTSIDE = 10, 11, 12
"""Exit codes: it may not be opened, it may, and the process could not be put into the group."""
PRELUDE = (
    "import sys; sys.path.append(sys.argv[1]); from gsched.run.fence.trial import main; sys.exit(main(sys.argv[2:]))"
)
_PATIENCE_S = 60.0


def opened_inside(group: FenceGroup, node: str) -> int:
    """What becomes of opening the device from inside of the group. Raises OSError."""
    kind, folders = ("v2", [group.folder]) if isinstance(group, V2Group) else ("v1", [group.devices, group.freezer])
    root = os.path.abspath(f"{os.path.dirname(__file__)}/../../..")
    words = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", PRELUDE, root, kind, node, *folders]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise OSError("a process that tries its fence does not end") from None
    if done.returncode not in (DENIED, OPEN, OUTSIDE):
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"a process that tries its fence fails with exit code {done.returncode}: {said[:200]}")
    return done.returncode


def opened(node: str) -> int:
    """What becomes of opening the device here."""
    try:
        os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return DENIED if error.errno in (errno.EPERM, errno.EACCES) else OPEN
    return OPEN


def main(arguments: list[str]) -> int:
    """In the process of its own."""
    kind, node, *folders = arguments
    try:
        group_of(kind, folders).add(os.getpid())
    except OSError:
        return OUTSIDE
    return opened(node)
