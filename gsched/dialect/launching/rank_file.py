"""Rank files of Open MPI for PowerAI DDL: which rank runs on which cores of which host.

Source: the rank_gen program of PowerAI DDL and its two files in IBM's documentation of 2017; orterun(1) of Open MPI 4,
"Rankfiles". Host number z*Y+y has GPUs x = 0 ... X-1; the rank of (x, y, z) is x*Y*Z + y*Z + z; GPU x belongs to socket
x div (X/sockets), whose cores its ranks share evenly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest

MOST_OF_A_KIND = 10_000


@dataclass(frozen=True, slots=True)
class HostCores:
    """Sockets of a host, and cores of each of them."""

    sockets: int
    cores: int


@dataclass(frozen=True, slots=True)
class RankTopology:
    """GPUs of a host, hosts of a rack, racks."""

    gpus: int
    hosts: int
    racks: int

    @classmethod
    def read(cls, text: str) -> RankTopology:
        """`4x2x1`; `4x2` is one rack. Raises BadRequest."""
        if not re.fullmatch(r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}(x[1-9][0-9]{0,4})?", text, re.ASCII):
            raise BadRequest(f"--topo: '{text[:40]}' is not GPUsxHOSTSxRACKS, as in 4x2x1")
        gpus, hosts, racks, *_ = [*(int(part) for part in text.split("x")), 1]
        found = cls(gpus, hosts, racks)
        if found.size > MOST_OF_A_KIND:
            raise BadRequest(f"--topo: {text} has {found.size} ranks; {MOST_OF_A_KIND} can be launched at a time")
        return found

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.gpus * self.hosts * self.racks

    @property
    def host_count(self) -> int:
        """How many hosts it takes."""
        return self.hosts * self.racks

    def rank(self, host: int, gpu: int) -> int:
        """That of a GPU of the host with this number."""
        rack, place = divmod(host, self.hosts)
        return gpu * self.host_count + place * self.racks + rack

    def __str__(self) -> str:
        return f"{self.gpus}x{self.hosts}x{self.racks}"


def rank_lines(topology: RankTopology, hosts: Sequence[str], cores: Sequence[HostCores]) -> str:
    """The lines `rank R=HOST slot=SOCKET:CORES`, for hosts in their order and what each has of cores. Raises BadRequest
    where there are other than the hosts that the topology has.
    """
    if len(hosts) != topology.host_count:
        raise BadRequest(f"--topo {topology} has {topology.host_count} hosts, and the job {len(hosts)}")
    lines = []
    for number, (host, has) in enumerate(zip(hosts, cores, strict=True)):
        for gpu in range(topology.gpus):
            lines.append(f"rank {topology.rank(number, gpu)}={host} slot={_slot(gpu, topology.gpus, has)}\n")
    return "".join(lines)


def _slot(gpu: int, gpus: int, has: HostCores) -> str:
    """Socket and cores of a GPU: `0:0-4`."""
    sockets = max(min(has.sockets, gpus), 1)
    socket = gpu * sockets // gpus
    first = -(-socket * gpus // sockets)
    on_socket = -(-(socket + 1) * gpus // sockets) - first
    place, cores = gpu - first, max(has.cores, 1)
    if cores < on_socket:  # several share one
        return f"{socket}:{place % cores}"
    begin, end = place * cores // on_socket, (place + 1) * cores // on_socket - 1
    return f"{socket}:{begin}" if begin == end else f"{socket}:{begin}-{end}"
