"""Where the tasks of a step go: hosts, numbers and GPUs within what the job has.

A step is what `srun` starts within an allocation: tasks that begin together. How many tasks a host gets is dealt out
one by one, as Slurm does it; `block` then numbers them host by host, `cyclic` in turn. It never looks at a process.

Source: srun(1) of Slurm 22.05, "--distribution", "--nodes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gsched.base.errors import BadRequest

MOST_TASKS = 10_000
"""Tasks of one step."""
BLOCK, CYCLIC = "block", "cyclic"


class StepShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a step asks for."""

    tasks: int
    nodes: int = 0
    """0: any number, all of the job's where there are tasks enough."""
    cpus: int = 1
    """Of each task."""
    per_node: int = 0
    """Tasks on a host at most; 0: as many as there is room for."""
    hosts: tuple[str, ...] = ()
    """Only these; empty: all of the job's."""
    excluded: tuple[str, ...] = ()
    relative: int = 0
    """So many of the job's first hosts are left out."""
    distribution: str = BLOCK
    gpus_per_task: int | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    """In all. None of the three: it sees all GPUs of the job, and keeps nobody from them."""
    overlaps: bool = False
    """It takes no room from other steps."""
    overcommits: bool = False
    """More tasks than CPUs may be started."""
    is_whole: bool = False
    """It takes all CPUs of its hosts."""


class StepRoom(msgspec.Struct, frozen=True):
    """What the job has on a host, and what other steps hold of it."""

    host: str
    slots: int
    gpus: int
    used_slots: int = 0
    used_gpus: tuple[int, ...] = ()
    """Places of GPUs, from 0, that other steps have for themselves."""


class TaskPlace(msgspec.Struct, frozen=True):
    """Where one task runs."""

    host: str
    node: int
    """Number of the host within the step, from 0."""
    local: int
    """Number of the task on its host, from 0."""
    gpus: tuple[int, ...] | None = None
    """Places of its GPUs among the job's on that host; None: all of them."""


class StepPlan(msgspec.Struct, frozen=True):
    """A step that can begin: its tasks in the order of their numbers, and what it takes of each host."""

    places: tuple[TaskPlace, ...]
    slots: dict[str, int]
    gpus: dict[str, tuple[int, ...]]


def plan_step(shape: StepShape, rooms: Sequence[StepRoom]) -> StepPlan | None:
    """None: it has to wait until other steps have ended. Raises BadRequest where it can never begin."""
    _check(shape, rooms)
    usable = _usable(shape, rooms)
    if _choose(shape, [StepRoom(each.host, each.slots, each.gpus) for each in usable]) is None:
        raise BadRequest(_too_much(shape, usable))
    if shape.overlaps:
        usable = [StepRoom(each.host, each.slots, each.gpus) for each in usable]
    chosen = _choose(shape, usable)
    return _planned(shape, chosen) if chosen is not None else None


def _check(shape: StepShape, rooms: Sequence[StepRoom]) -> None:
    if not 0 < shape.tasks <= MOST_TASKS:
        raise BadRequest(f"{shape.tasks} tasks: 1 to {MOST_TASKS} can be started at a time")
    if shape.distribution not in (BLOCK, CYCLIC):
        raise BadRequest(f"distribution {shape.distribution[:40]}: block and cyclic are known")
    known = {each.host for each in rooms}
    if foreign := [name for name in (*shape.hosts, *shape.excluded) if name not in known]:
        listed = ", ".join(sorted(known))
        raise BadRequest(f"Requested node {foreign[0][:80]} is not in this allocation: it has {listed}")
    if shape.nodes > len(rooms):
        raise BadRequest(f"More nodes requested than permitted: {shape.nodes} are asked for, the job has {len(rooms)}")


def _usable(shape: StepShape, rooms: Sequence[StepRoom]) -> list[StepRoom]:
    """The hosts that it may use, in the job's order. Raises BadRequest where there is none."""
    found = [each for each in list(rooms)[shape.relative :] if each.host not in shape.excluded]
    found = [each for each in found if not shape.hosts or each.host in shape.hosts]
    if not found:
        raise BadRequest("Requested node configuration is not available: no node of the job is left")
    if shape.hosts:
        missing = set(shape.hosts) - {each.host for each in found}
        if missing:
            raise BadRequest(f"Requested node {min(missing)} is left out by another option")
    return found


def _too_much(shape: StepShape, rooms: Sequence[StepRoom]) -> str:
    slots, gpus = sum(each.slots for each in rooms), sum(each.gpus for each in rooms)
    asked = f"{shape.tasks} tasks" + (f" of {shape.cpus} CPUs" if shape.cpus > 1 else "")
    where = f"{len(rooms)} nodes with {slots} CPUs and {gpus} GPUs"
    without = msgspec.structs.replace(shape, gpus_per_task=None, gpus_per_node=None, gpus=None)
    fits_without = _choose(without, [StepRoom(each.host, each.slots, each.gpus) for each in rooms]) is not None
    what = "More GPUs" if fits_without else "More processors"
    return f"{what} requested than permitted: {asked} do not fit into the job's {where}"


def _choose(shape: StepShape, rooms: Sequence[StepRoom]) -> list[tuple[StepRoom, int]] | None:
    """Hosts with the number of their tasks; None where they have no room now."""
    fitting = [(room, most) for room in rooms if (most := _most_tasks(shape, room)) > 0]
    if shape.nodes or shape.hosts:
        count = max(shape.nodes, len(shape.hosts))
        counts: Sequence[int] = (min(count, shape.tasks),)
    else:
        counts = range(min(len(fitting), shape.tasks), 0, -1)
    for count in counts:
        for order in (fitting, sorted(fitting, key=lambda each: -each[1])):
            dealt = _dealt(shape.tasks, order[:count]) if len(order) >= count else None
            if dealt is not None and _gpus_suffice(shape, dealt):
                return dealt
    return None


def _most_tasks(shape: StepShape, room: StepRoom) -> int:
    """Tasks that the host has room for."""
    free_gpus = room.gpus - len(room.used_gpus)
    if shape.gpus_per_node is not None and free_gpus < shape.gpus_per_node:
        return 0
    most = shape.tasks if shape.overcommits else (room.slots - room.used_slots) // max(1, shape.cpus)
    if shape.is_whole and room.used_slots:
        return 0
    if shape.gpus_per_task:
        most = min(most, free_gpus // shape.gpus_per_task)
    return min(most, shape.per_node) if shape.per_node else most


def _dealt(tasks: int, hosts: Sequence[tuple[StepRoom, int]]) -> list[tuple[StepRoom, int]] | None:
    """One task for each host in turn, as long as it has room; None where there is not room for all."""
    if sum(most for _, most in hosts) < tasks:
        return None
    level, left = 0, tasks
    while True:  # whole rounds at once: there may be many tasks
        open_hosts = [most for _, most in hosts if most > level]
        step = min(min(open_hosts) - level, left // len(open_hosts))
        if not step:
            break
        level += step
        left -= step * len(open_hosts)
        if not left:
            break
    found = []
    for room, most in hosts:
        more = int(most > level and left > 0)
        left -= more
        found.append((room, min(most, level) + more))
    return found


def _gpus_suffice(shape: StepShape, dealt: Sequence[tuple[StepRoom, int]]) -> bool:
    return shape.gpus is None or shape.gpus <= sum(room.gpus - len(room.used_gpus) for room, _ in dealt)


def _planned(shape: StepShape, chosen: Sequence[tuple[StepRoom, int]]) -> StepPlan:
    own = _gpus_of_hosts(shape, chosen)
    each_host: list[list[TaskPlace]] = []
    for node, (room, count) in enumerate(chosen):
        gpus = own.get(room.host)
        each = shape.gpus_per_task
        each_host.append(
            [
                TaskPlace(room.host, node, local, gpus[local * each : (local + 1) * each] if gpus and each else gpus)
                for local in range(count)
            ]
        )
    if shape.distribution == CYCLIC:
        most = max(map(len, each_host))
        places = [host[turn] for turn in range(most) for host in each_host if turn < len(host)]
    else:
        places = [place for host in each_host for place in host]
    slots = {
        room.host: 0 if shape.overlaps else room.slots if shape.is_whole else min(room.slots, count * shape.cpus)
        for room, count in chosen
    }
    return StepPlan(tuple(places), slots, {} if shape.overlaps else own)


def _gpus_of_hosts(shape: StepShape, chosen: Sequence[tuple[StepRoom, int]]) -> dict[str, tuple[int, ...]]:
    """Places of the GPUs that the step has on each host; empty where it did not say."""
    if shape.gpus_per_task is None and shape.gpus_per_node is None and shape.gpus is None:
        return {}
    free = {room.host: [place for place in range(room.gpus) if place not in room.used_gpus] for room, _ in chosen}
    counts: Mapping[str, int]
    if shape.gpus_per_task is not None:
        counts = {room.host: shape.gpus_per_task * count for room, count in chosen}
    elif shape.gpus_per_node is not None:
        counts = {room.host: shape.gpus_per_node for room, _ in chosen}
    else:
        asked = [(room, len(free[room.host])) for room, _ in chosen]
        dealt = _dealt(shape.gpus or 0, asked) if shape.gpus else [(room, 0) for room, _ in asked]
        counts = {room.host: count for room, count in dealt or ()}
    return {host: tuple(free[host][:count]) for host, count in counts.items()}
