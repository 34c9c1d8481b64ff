"""A host's processors: which CPU is a thread of which core, and where cores lie in sockets and NUMA nodes.

Numbers are unique on the host at each level. It never says who holds what: see gsched.model.ledgers.ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from gsched.base.errors import BadRequest

MAX_PROCESSORS = 8192
MAX_NUMBER = 1_000_000
"""No unit of a host has a larger number."""


class Processor(msgspec.Struct, frozen=True, gc=False):
    """A CPU as the kernel numbers it, that is a hardware thread, and the units that it is in."""

    cpu: int
    core: int
    socket: int
    numa: int

    def at(self, level: str) -> int:
        """Number of the unit that it is in, of a level "numa", "socket", "core" or "thread"."""
        return self.cpu if level == "thread" else int(getattr(self, level))


class MemoryNode(msgspec.Struct, frozen=True, gc=False):
    """The memory of a NUMA node."""

    numa: int
    memory_mib: float


class Topology(msgspec.Struct, frozen=True):
    """All CPUs that an agent may use, ascending, and the memory of NUMA nodes as far as it is known."""

    processors: tuple[Processor, ...] = ()
    memory: tuple[MemoryNode, ...] = ()

    @property
    def counts(self) -> tuple[int, int, int] | None:
        """Physical processors, cores of one, threads of a core; None while nobody knows."""
        if not self.processors:
            return None
        sockets = len({each.socket for each in self.processors})
        cores = len({(each.socket, each.core) for each in self.processors})
        return sockets, cores // sockets, len(self.processors) // cores

    @property
    def nodes(self) -> frozenset[int]:
        """Numbers of the NUMA nodes."""
        return frozenset(each.numa for each in self.processors)


def checked(topology: Topology) -> Topology:
    """The topology, if it is one. Raises BadRequest: an agent reports nonsense."""
    processors = topology.processors
    if len(processors) > MAX_PROCESSORS or len(topology.memory) > MAX_PROCESSORS:
        raise BadRequest(f"topology: more than {MAX_PROCESSORS} processors")
    if len({each.cpu for each in processors}) != len(processors):
        raise BadRequest("topology: a CPU is named twice")
    numbers = [number for each in processors for number in (each.cpu, each.core, each.socket, each.numa)]
    if any(not 0 <= number <= MAX_NUMBER for number in [*numbers, *(each.numa for each in topology.memory)]):
        raise BadRequest(f"topology: a number is not between 0 and {MAX_NUMBER}")
    if any(each.memory_mib < 0 for each in topology.memory):
        raise BadRequest("topology: a memory size is below 0")
    place: dict[int, tuple[int, int]] = {}
    for each in processors:
        if place.setdefault(each.core, (each.socket, each.numa)) != (each.socket, each.numa):
            raise BadRequest(f"topology: core {each.core} is in two sockets or NUMA nodes")
    return topology


def offered(topology: Topology, cpus: Iterable[int]) -> tuple[Processor, ...]:
    """The processors of those CPUs, all of them if there are none named, by node, socket, core and CPU."""
    wanted = frozenset(cpus)
    chosen = (each for each in topology.processors if not wanted or each.cpu in wanted)
    return tuple(sorted(chosen, key=lambda each: (each.numa, each.socket, each.core, each.cpu)))


def cpu_misfit(host: str, wanted: Sequence[int], offered: Iterable[Processor], taken: Collection[int]) -> str:
    """Why these CPUs cannot be held there beside those that are `taken`; empty when they can."""
    if len(set(wanted)) != len(wanted):
        return f"a CPU of {host} is named twice"
    there = {each.cpu for each in offered}
    for cpu in wanted:
        if cpu not in there:
            return f"CPU {cpu} is not offered by {host}"
        if cpu in taken:
            return f"CPU {cpu} of {host} is held by another job"
    return ""
