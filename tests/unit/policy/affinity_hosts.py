"""Hosts with invented topologies, and what jobs with affinity[] hold there."""

from __future__ import annotations

from gsched.model.hosts.topology import MemoryNode, Processor, Topology, offered
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger


def topology(sockets: int = 2, numas: int = 2, cores: int = 4, threads: int = 2) -> Topology:
    """`numas` NUMA nodes in each socket. As on most machines the second threads of all cores are numbered last."""
    found = []
    many = sockets * numas * cores
    for thread in range(threads):
        for core in range(many):
            node = core // cores
            found.append(Processor(thread * many + core, core, node // numas, node))
    return Topology(tuple(found), tuple(MemoryNode(node, 1000.0) for node in range(sockets * numas)))


def host_ledger(name: str = "a", slots: int | None = 64, **sizes: int) -> HostLedger:
    ledger = HostLedger(name)
    ledger.max_slots = slots
    ledger.observe_processors(offered(topology(**sizes), ()))
    return ledger


def held_cpus(ledger: HostLedger) -> list[int]:
    return sorted(cpu for part in ledger.held.values() for cpu in part.cpus)


def task_cpus(found: Allocation | HostAllocation) -> list[list[int]]:
    parts = found.hosts if isinstance(found, Allocation) else (found,)
    return [list(task.cpus) for part in parts for binding in part.bindings for task in binding.tasks]
