"""The device nodes of parts of GPUs by MIG: who can open those of an instance can use it, beside /dev/nvidiaN.

Source: NVIDIA's Multi-Instance GPU user guide, "Device Nodes and Capabilities": /proc/devices names the major number of
`nvidia-caps`, /proc/driver/nvidia-caps/mig-minors the minor of each instance that there can be.
Reads files only. The GPU's number in it is its device minor, never its index.
"""

from __future__ import annotations

import re
from pathlib import Path

PROC = Path("/proc")
_DRIVER = "nvidia-caps"
_INSTANCE = re.compile(r"gpu([0-9]+)/gi([0-9]+)/(?:ci([0-9]+)/)?access ([0-9]+)", re.ASCII)

Capabilities = dict[tuple[int, int | None], tuple[int, int]]
"""(GPU instance, compute instance; None: the GPU instance's own) -> (major, minor)."""


def capabilities(minor: int, proc: Path = PROC) -> Capabilities | None:
    """Device nodes of all instances that the GPU with this minor could have; None where the kernel does not say."""
    major = _major(proc)
    try:
        lines = (proc / "driver" / _DRIVER / "mig-minors").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    found: Capabilities = {}
    for each in filter(None, map(_INSTANCE.fullmatch, map(str.strip, lines))):
        gpu, instance, compute, node = each.groups()
        if int(gpu) == minor and major is not None:
            found[int(instance), None if compute is None else int(compute)] = (major, int(node))
    return found or None


def _major(proc: Path) -> int | None:
    """Source: proc(5), /proc/devices; character devices stand before the block devices."""
    try:
        text, _, _ = (proc / "devices").read_text("ascii", "replace").partition("Block devices")
    except OSError:
        return None
    rows = (line.split() for line in text.splitlines())
    return next((int(row[0]) for row in rows if len(row) == 2 and row[1] == _DRIVER and row[0].isdigit()), None)
