"""The processors of this host, as the kernel describes them, of those that this process may run on.

It never guesses: where the kernel does not say in which core or socket a CPU is, nothing is known. Source: the kernel's
Documentation/admin-guide/cputopology.rst and ABI/stable/sysfs-devices-node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gsched.base.errors import BadRequest
from gsched.base.idset import parse_idset
from gsched.model.hosts.topology import MemoryNode, Processor, Topology

SYSTEM = "/sys/devices/system"


def read_topology(root: str = SYSTEM, cpus: Iterable[int] | None = None) -> Topology | None:
    """The topology; None where the kernel does not tell it. `cpus`: those to look at, by default the usable ones."""
    try:
        usable = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
        places = {cpu: _place(Path(root), cpu) for cpu in usable}
    except (OSError, ValueError, BadRequest):
        return None
    # The kernel's core_id may repeat in every socket; threads of one core name the same first sibling.
    cores = {core: number for number, core in enumerate(sorted(set(places.values())))}
    processors = (Processor(cpu, cores[place], place[1], place[0]) for cpu, place in places.items())
    nodes = sorted({numa for numa, _, _ in places.values()})
    return Topology(tuple(processors), tuple(_memory(Path(root), nodes)))


def has_several_nodes(root: str = SYSTEM) -> bool:
    """Whether this host has memory in more than one NUMA node, so that it matters which; true if nobody knows."""
    try:
        return len(parse_idset((Path(root) / "node" / "has_memory").read_text("ascii").strip())) > 1
    except (OSError, ValueError, BadRequest):
        return True


def _place(root: Path, cpu: int) -> tuple[int, int, int]:
    """(NUMA node, socket, first thread of the core). A kernel without NUMA has one node, 0."""
    folder = root / "cpu" / f"cpu{cpu}"
    socket = int((folder / "topology" / "physical_package_id").read_text("ascii"))
    siblings = parse_idset((folder / "topology" / "thread_siblings_list").read_text("ascii").strip())
    nodes = [entry.name[4:] for entry in folder.iterdir() if entry.name.startswith("node")]
    return (int(nodes[0]) if nodes else 0, max(0, socket), siblings[0])


def _memory(root: Path, nodes: Iterable[int]) -> Iterable[MemoryNode]:
    for node in nodes:
        try:
            lines = (root / "node" / f"node{node}" / "meminfo").read_text("ascii").splitlines()
            total = next(line.split()[3] for line in lines if " MemTotal:" in line)
            yield MemoryNode(node, int(total) / 1024)
        except (OSError, ValueError, IndexError, StopIteration):
            continue
