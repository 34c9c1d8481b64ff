"""How a simulated cluster was used: slots and GPUs held over time, free GPUs that were fragments, energy.

It goes through the starts and ends of attempts in the order of time and schedules nothing.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.sim.cluster_file import SimulatedHost
from gsched.sim.world import Fate

KINDS = 50
"""Of the kinds of jobs that ask for GPUs, so many of the most frequent count for fragmentation."""
_WHOLE = 1e-9


@dataclass(frozen=True, slots=True)
class TaskKind:
    """What jobs want of one host."""

    slots: int
    gpus: int
    share: float
    weight: float = 0.0


@dataclass(slots=True)
class HostRoom:
    """What is free on a host."""

    slots: int
    free: list[float]
    """Of each GPU the part that nobody holds."""
    fragment: float = 0.0
    """GPUs that are free and cannot be used, in the mean over the kinds of jobs."""


@dataclass(slots=True)
class ClusterUse:
    """Figures from the first arrival to the last end; a series for charts."""

    span_s: float = 0.0
    gpu_s: float = 0.0
    slot_s: float = 0.0
    free_gpu_s: float = 0.0
    fragment_s: float = 0.0
    energy_j: float | None = None
    """None: the cluster file does not say what GPUs take."""
    series: list[tuple[float, float, int, int]] = field(default_factory=list)
    """(seconds, GPUs held, slots held, jobs waiting) whenever one has changed."""


def cluster_use(hosts: Sequence[SimulatedHost], fates: Mapping[int, Fate], start: float, end: float) -> ClusterUse:
    """What was held from `start`, the first arrival, to `end` (UTC seconds)."""
    total = sum(host.gpus for host in hosts)
    rooms = {host.name: HostRoom(host.slots, [1.0] * host.gpus) for host in hosts}
    fragment_of = Fragments(_kinds(fates.values()))
    for room in rooms.values():
        room.fragment = fragment_of(room)
    fragment = math.fsum(room.fragment for room in rooms.values())
    use, gpus, slots, waiting, before = ClusterUse(span_s=max(0.0, end - start)), 0.0, 0, 0, start
    for at, waits, sign, parts in _steps(fates, end):
        passed = max(0.0, at - before)
        use.gpu_s += gpus * passed
        use.slot_s += slots * passed
        use.free_gpu_s += max(0.0, total - gpus) * passed
        use.fragment_s += fragment * passed
        before = max(before, at)
        waiting += waits
        for part in parts:
            room = rooms[part.host]
            gpus += sign * math.fsum(gpu.share for gpu in part.gpus)
            slots += sign * part.slots
            fragment -= room.fragment
            hold(room, part, sign)
            room.fragment = fragment_of(room)
            fragment += room.fragment
        use.series.append((at - start, gpus, slots, waiting))
    use.energy_j = _energy(hosts, use, total)
    return use


def _steps(fates: Mapping[int, Fate], end: float) -> Iterator[tuple[float, int, int, tuple[HostAllocation, ...]]]:
    """(time, change of the number of waiting jobs, 1 taken or -1 given back, where), in the order of time."""
    steps: list[tuple[float, int, int, int, tuple[HostAllocation, ...]]] = []
    for number, fate in fates.items():
        heapq.heappush(steps, (fate.arrived_at, 1, number, 1, ()))
        for place, (began, allocation) in enumerate(fate.starts):
            ended = fate.ends[place] if place < len(fate.ends) else end
            again = fate.ended_at is None or place < len(fate.starts) - 1
            heapq.heappush(steps, (began, 2, number, -1, allocation.hosts))
            heapq.heappush(steps, (ended, 0, number, int(again and ended < end), allocation.hosts))
    while steps:
        at, what, _, waits, parts = heapq.heappop(steps)
        yield at, waits, (1 if what == 2 else -1), parts


def hold(room: HostRoom, part: HostAllocation, sign: int) -> None:
    """The part of an allocation is taken (`sign` 1) or given back (-1)."""
    room.slots -= sign * part.slots
    for gpu in part.gpus:
        left = room.free[gpu.index] - sign * gpu.share
        room.free[gpu.index] = 0.0 if left < _WHOLE else 1.0 if left > 1 - _WHOLE else left


def _kinds(fates: Iterable[Fate]) -> list[TaskKind]:
    seen = Counter(_kind_of(fate.starts[0][1]) for fate in fates if fate.starts and fate.starts[0][1].hosts[0].gpus)
    frequent = seen.most_common(KINDS)
    total = sum(count for _, count in frequent)
    return [TaskKind(kind.slots, kind.gpus, kind.share, count / total) for kind, count in frequent]


def _kind_of(allocation: Allocation) -> TaskKind:
    part = allocation.hosts[0]
    return TaskKind(part.slots, len(part.gpus), part.gpus[0].share)


class Fragments:
    """Free GPUs of a host that a job cannot use there, weighted by how frequent its kind is: the measure of "Beware of
    Fragmentation" (USENIX ATC 2023), without memory.
    """

    def __init__(self, kinds: Sequence[TaskKind]) -> None:
        self._kinds = kinds
        self._known: dict[tuple[int, tuple[float, ...]], float] = {}
        self._most = max((kind.slots for kind in kinds), default=0)

    def __call__(self, room: HostRoom) -> float:
        """As it is now. Hosts that are alike are reckoned once."""
        key = (min(room.slots, self._most), tuple(sorted(room.free)))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._reckoned(*key)
        return found

    def _reckoned(self, slots: int, parts: tuple[float, ...]) -> float:
        free = math.fsum(parts)
        lost = 0.0
        for kind in self._kinds if free else ():
            able = [part for part in parts if part >= kind.share - _WHOLE]
            fits = kind.slots <= slots and len(able) >= kind.gpus
            lost += kind.weight * (free - math.fsum(able) if fits else free)
        return lost


def _energy(hosts: Sequence[SimulatedHost], use: ClusterUse, total: int) -> float | None:
    """Joules of the GPUs: known where the cluster file says it of each host with GPUs, and the same of all."""
    known = {(host.gpu_busy_w, host.gpu_idle_w) for host in hosts if host.gpus}
    if len(known) != 1 or not total:
        return None
    busy, idle = known.pop()
    return None if busy is None or idle is None else busy * use.gpu_s + idle * use.free_gpu_s
