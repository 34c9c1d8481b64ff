"""How full a cluster gets: tasks of an OpenB list arrive one after the other and never leave. Nothing is timed.

The protocol of "Beware of Fragmentation" (USENIX ATC 2023): the list, and on top of it tasks drawn from it with
replacement until the GPU time asked for is 130 % of the cluster's GPUs; a list that asks for more loses tasks by
chance until it is 130 %. Then it is shuffled. A task that fits nowhere is dropped. The list is known as history, the
order is not. A slot is a thousandth of a CPU. All chance comes from `random.Random(seed)`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gsched.base.errors import BadRequest, GschedError
from gsched.model.config import ClusterConfig, GpuPlacement
from gsched.sim.cluster_file import SimulatedHost
from gsched.sim.cluster_use import KINDS, Fragments, HostRoom, TaskKind, hold
from gsched.sim.job_table import Table
from gsched.sim.trace import TraceJob
from gsched.sim.world import World

T = TypeVar("T")
DEMAND = 1.3
"""How much is asked for in the end, in clusters."""
BATCH = 100
"""Arrivals between two scheduling cycles."""
SLOTS_PER_CPU = 1000
AUDIT_EVERY = 50_000


@dataclass(slots=True)
class ClusterFill:
    """What came of it. Shares are parts of the cluster's GPUs."""

    summary: dict[str, Any]
    curve: Table
    """What was asked for by then -> what is allocated, and what is free and cannot be used."""


def fill_cluster(
    hosts: Sequence[SimulatedHost],
    tasks: Sequence[TraceJob],
    config: ClusterConfig,
    seed: int,
    *,
    knows_list: bool = True,
    progress: Callable[[int, int, float], None] | None = None,
) -> ClusterFill:
    """Fill the hosts (see `in_thousandths`) with the tasks of the list. `knows_list`: as history; else the scheduler
    learns from what arrives. `progress`: (arrived, all, 0). Raises BadRequest where there is nothing to fill, or to
    fill it with.
    """
    capacity = float(sum(host.gpus for host in hosts))
    if not capacity or not any(asked_of(task) for task in tasks):
        raise BadRequest("there are no GPUs, or no task asks for one")
    arrivals = draw(tasks, _milli, 1000 * capacity, seed)
    world = World(config, machines=hosts, audit_every=AUDIT_EVERY, unread_reasons=True)
    if knows_list and config.params.gpu_placement is GpuPlacement.SCARCE:
        _teach(world, tasks)
    rooms = {host.name: HostRoom(host.slots, [1.0] * host.gpus) for host in hosts}
    fragments = Fragments(_kinds(tasks))
    arrived = allocated = 0.0
    placed, at_full = 0, None
    curve: Table = {"asked_share": [], "allocated_share": [], "fragment_share": []}
    for start in range(0, len(arrivals), BATCH):
        batch = arrivals[start : start + BATCH]
        for task, got in zip(batch, world.offer(batch), strict=True):
            arrived += asked_of(task)
            if got is not None:
                placed += 1
                allocated += asked_of(task)
                for part in got.hosts:
                    hold(rooms[part.host], part, 1)
            at_full = allocated if at_full is None and arrived >= capacity else at_full
            if arrived / capacity * 100 >= len(curve["asked_share"]) + 1:
                _note(curve, arrived / capacity, allocated / capacity, _unusable(rooms, fragments) / capacity)
        if progress is not None:
            progress(min(start + BATCH, len(arrivals)), len(arrivals), 0.0)
    summary = {
        "hosts": len(hosts),
        "gpus": int(capacity),
        "tasks": len(tasks),
        "arrivals": len(arrivals),
        "placed": placed,
        "allocated_at_100_percent": (allocated if at_full is None else at_full) / capacity,
        "allocated_at_130_percent": allocated / capacity,
        "fragments_at_130_percent": _unusable(rooms, fragments) / capacity,
    }
    return ClusterFill(summary, curve)


def in_thousandths(hosts: Sequence[SimulatedHost]) -> list[SimulatedHost]:
    """The hosts with a slot for each thousandth of a CPU."""
    return [replace(host, slots=host.slots * SLOTS_PER_CPU) for host in hosts]


def asked_of(task: TraceJob) -> float:
    """GPUs that it asks for; of a shared one the part."""
    return task.gpus * _share(task)


def draw(tasks: Sequence[T], asked_of_one: Callable[[T], int], capacity: float, seed: int) -> list[T]:
    """The arrivals of one run, whatever a task is. `capacity`: GPUs in the unit of what a task asks for."""
    chance = random.Random(seed)
    arrivals, goal = list(tasks), DEMAND * capacity
    asked = sum(asked_of_one(task) for task in arrivals)
    if asked > goal:
        chance.shuffle(arrivals)
        while asked > goal:
            asked -= asked_of_one(arrivals.pop())
    else:
        while asked < goal:
            arrivals.append(chance.choice(tasks))
            asked += asked_of_one(arrivals[-1])
    chance.shuffle(arrivals)
    return arrivals


def _milli(task: TraceJob) -> int:
    return round(1000 * asked_of(task))


def _share(task: TraceJob) -> float:
    _, found, share = task.gpu_req.partition(":share=")
    return float(share) if found else 1.0


def _teach(world: World, tasks: Sequence[TraceJob]) -> None:
    """The list as history: what tasks there are, without any of them."""
    for task in tasks:
        try:
            world.check(task)
        except GschedError:  # no host could ever hold it
            continue


def _kinds(tasks: Sequence[TraceJob]) -> list[TaskKind]:
    seen = Counter((task.slots, task.gpus, _share(task)) for task in tasks if task.gpus).most_common(KINDS)
    total = sum(count for _, count in seen)
    return [TaskKind(slots, gpus, share, count / total) for (slots, gpus, share), count in seen]


def _unusable(rooms: dict[str, HostRoom], fragments: Fragments) -> float:
    return math.fsum(fragments(room) for room in rooms.values())


def _note(curve: Table, *row: float) -> None:
    for column, value in zip(curve.values(), row, strict=True):
        column.append(round(value, 6))
