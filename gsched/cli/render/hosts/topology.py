"""`ghosts -aff` (bhosts -aff) and `gjobs -l -aff` (bjobs -l -aff): processor units of hosts and of jobs.

Source of the layouts: bhosts(1) and bjobs(1) of LSF 10.1, option -aff. What is not counted, memory in use of a NUMA
node and memory of a task on one, prints `-`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.base.idset import format_idset
from gsched.base.units import format_scaled_mib
from gsched.cli.render.jobs.job_devices import AffinityUnit
from gsched.cli.render.text.text_columns import left, printable
from gsched.model.hosts.topology import Processor, Topology
from gsched.model.views.view import HostView

_INDENT = "    "
_HEADER = """\
                     CPU BINDING                          MEMORY BINDING
                     ------------------------             --------------------
 HOST                TYPE   LEVEL  EXCL   IDS             POL   NUMA SIZE
"""


def render_topologies(hosts: Iterable[HostView]) -> str:
    """`ghosts -aff`: one tree per host, a blank line between them."""
    return "\n".join("".join(_tree(host, f" {printable(host.name)}")) for host in hosts)


def long_topology(host: HostView) -> str:
    """What -aff adds to a record of `ghosts -l`."""
    state = "Enabled" if host.topology is not None and host.topology.processors else "Disabled"
    return f" AFFINITY: {state}\n" + "".join(" " + line for line in _tree(host, ""))


def affinity_table(units: Iterable[AffinityUnit]) -> str:
    """The table AFFINITY of `gjobs -l -aff`: a line for each processor unit of each task."""
    lines = ["\n AFFINITY:\n", _HEADER]
    for each in units:
        binding = f"{left(each.type, 6)} {left(each.level or '-', 6)} {left(each.exclusive or '-', 6)}"
        memory = f"{left(each.policy or '-', 5)} {left(each.nodes or '-', 4)} -"
        lines.append(f" {left(each.host, 19)} {binding} {left(each.unit, 15)} {memory}\n")
    return "".join(lines)


def _tree(host: HostView, name: str) -> Iterator[str]:
    topology = host.topology
    if topology is None or not topology.processors:
        yield f"Host[-]{name}\n"
        why = "its agent tells of no such processors" if host.affinity else "AFFINITY is not enabled in lsb.hosts"
        yield f"{_INDENT}no processor units for jobs with affinity[]: {why}\n"
        return
    memory = {each.numa: each.memory_mib for each in topology.memory}
    whole = format_scaled_mib(sum(memory.values())) if memory else "-"
    yield f"Host[{whole}]{name}\n"
    yield from _nodes(topology, memory, host.cpu_jobs)
    yield from _holders(host.cpu_jobs)


def _nodes(topology: Topology, memory: dict[int, float], jobs: dict[int, str]) -> Iterator[str]:
    place: tuple[int, int] | None = None
    cores: dict[tuple[int, int, int], list[Processor]] = {}
    for each in topology.processors:
        cores.setdefault((each.numa, each.socket, each.core), []).append(each)
    for (numa, socket, core), threads in sorted(cores.items()):
        if place is None or place[0] != numa:
            total = format_scaled_mib(memory[numa]) if numa in memory else "-"
            yield f"{_INDENT}NUMA[{numa}: - / {total}]\n"
        if place != (numa, socket):
            yield f"{_INDENT * 2}Socket{socket}\n"
        place = (numa, socket)
        cpus = " ".join(f"{'*' if each.cpu in jobs else ''}{each.cpu}" for each in threads)
        yield f"{_INDENT * 3}core{core}({cpus})\n"


def _holders(jobs: dict[int, str]) -> Iterator[str]:
    """Who holds what: gsched's own."""
    held: dict[str, list[int]] = {}
    for cpu, job in jobs.items():
        held.setdefault(job, []).append(cpu)
    for job, cpus in sorted(held.items(), key=lambda item: min(item[1])):
        yield f"{_INDENT}Job <{job}> holds CPU {format_idset(cpus)}\n"
