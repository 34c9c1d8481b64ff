"""Which processor units: chosen on one host for the tasks of a job with affinity[], from what its ledger says is free.

It takes nothing. Units near the job's GPUs go before all others. They are given in the order in which they lie;
distribute=balance takes from where most is free, and distribute=pack from the smallest core, socket or NUMA node that
can hold all tasks. Each task keeps to one NUMA node where it can.
Source: affinity string of LSF's administration guide; bsub(1), option -R.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter

from gsched.base.coded_text import coded
from gsched.model.hosts.topology import Processor
from gsched.model.ledgers.allocation import CpuBinding, TaskCpus
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.policy.requirement.reasons import Reason
from gsched.resreq.ast import Affinity
from gsched.resreq.parsing.printer import print_affinity
from gsched.resreq.parsing.syntax import parse

NOT_ENOUGH = coded("pending.affinity")
ALL_JOBS = "alljobs"
"""What `exclusive=(level)` without a scope means: no other job may have anything there."""
_PACKED_INTO = ("core", "socket", "numa")
_PLURAL = {"numa": "NUMA nodes", "socket": "sockets", "core": "cores", "thread": "threads"}


class _Unit:
    """A thread, core, socket or NUMA node of a host."""

    __slots__ = ("number", "place", "processors")

    def __init__(self, number: int, processors: Sequence[Processor]) -> None:
        self.number = number
        self.processors = processors
        first = processors[0]
        self.place = (first.numa, first.socket, first.core, first.cpu)

    def within(self, level: str) -> set[int]:
        """The units of a level that it touches."""
        return {each.at(level) for each in self.processors}


_Units = list[_Unit]
_Task = _Units


def choose(
    ledger: HostLedger, affinity: Affinity, tasks: int, near: frozenset[int] = frozenset()
) -> CpuBinding | Reason:
    """Units for so many tasks, or why they cannot be had. They lie in the NUMA nodes `near` if all of them can."""
    picker = _Picker(ledger, affinity)
    found = picker.tasks_within(near, tasks) if near else []
    if len(found) < tasks:
        found = picker.tasks(tasks)
    if len(found) < tasks:
        return picker.shortage(tasks)
    return picker.binding(found)


def room(ledger: HostLedger, affinity: Affinity, most: int = 1 << 20) -> int:
    """How many tasks the host's free units could take, at most `most`."""
    if not ledger.processors:
        return 0
    picker = _Picker(ledger, affinity)
    if picker.is_simple:
        return min(most, len(picker.free) // (affinity.number * affinity.factor))
    return len(picker.tasks(most))


def rechoose(ledger: HostLedger, bindings: Iterable[CpuBinding]) -> tuple[CpuBinding, ...] | None:
    """The bindings as they fit this ledger, other units in the place of those that are taken; None if they do not."""
    taken = ledger.bound_cpus()
    there = {each.cpu for each in ledger.processors}
    found: list[CpuBinding] = []
    for binding in bindings:
        if taken.isdisjoint(binding.held) and there.issuperset(binding.held):
            again: CpuBinding | Reason = binding
        else:
            picker = _Picker(ledger, affinity_of(binding.affinity), taken)
            tasks = picker.tasks(len(binding.tasks))
            again = picker.binding(tasks) if len(tasks) == len(binding.tasks) else picker.shortage(len(binding.tasks))
        if isinstance(again, Reason):
            return None
        found.append(again)
        taken = taken.union(again.held)
    return tuple(found)


@lru_cache(maxsize=1024)
def affinity_of(text: str) -> Affinity:
    """The section of a binding. Raises RequirementError for a text that is none."""
    found = parse(text).affinity
    assert found is not None
    return found


class _Picker:
    """The choice on one host. `taken`: CPUs that others hold, if not those that the ledger names."""

    def __init__(self, ledger: HostLedger, affinity: Affinity, taken: set[int] | None = None) -> None:
        self._ledger = ledger
        self._affinity = affinity
        level, scope = affinity.exclusive
        scope = scope or ALL_JOBS
        self._within_task = level if scope == "intask" else ""
        self._between_tasks = level if scope == "injob" else ""
        self._against_others = level if scope == ALL_JOBS else ""
        self._taken = ledger.bound_cpus() if taken is None else taken
        self._all = _units(ledger.processors, affinity.unit)
        self.free = self._free()
        """Units that the job may have, in the order in which they lie."""

    @property
    def is_simple(self) -> bool:
        """Whether it is the number of free units alone that counts."""
        asked = self._affinity
        return not (asked.same or self._within_task or self._between_tasks or asked.pack_level)

    def _free(self) -> _Units:
        taken = self._taken
        if not taken:
            return self._all
        free = [unit for unit in self._all if not any(each.cpu in taken for each in unit.processors)]
        level = self._against_others
        if not level:
            return free
        others = {each.at(level) for each in self._ledger.processors if each.cpu in taken}
        return [unit for unit in free if others.isdisjoint(unit.within(level))]

    # -- tasks ----------------------------------------------------------------------------------------------------

    def tasks(self, wanted: int) -> list[_Task]:
        """Units for so many tasks, or for as many as there is room for."""
        asked = self._affinity
        best: list[_Task] = []
        for units in self._regions(wanted) if asked.distribute == "pack" else (self.free,):
            found = self._fill(units, wanted)
            if len(found) == wanted:
                return found
            if len(found) > len(best):
                best = found
        return best

    def tasks_within(self, nodes: frozenset[int], wanted: int) -> list[_Task]:
        """The same, of units that lie in these NUMA nodes alone."""
        everywhere = self.free
        self.free = [unit for unit in everywhere if unit.within("numa") <= nodes]
        found = self.tasks(wanted)
        self.free = everywhere
        return found

    def _regions(self, wanted: int) -> Iterator[_Units]:
        """Where the tasks are packed into: with pack(level=number) only in so many units of the level."""
        asked = self._affinity
        if asked.pack_level:
            parts = _split(self.free, asked.pack_level)
            if asked.pack_number == 1:
                yield from sorted(parts, key=len)
            else:
                largest = sorted(parts, key=lambda part: -len(part))[: asked.pack_number]
                yield sorted(chain.from_iterable(largest), key=_place)
            return
        enough = wanted * asked.number * asked.factor
        for level in _PACKED_INTO:
            yield from (part for part in sorted(_split(self.free, level), key=len) if len(part) >= enough)
        yield self.free

    def _fill(self, units: _Units, wanted: int) -> list[_Task]:
        found: list[_Task] = []
        left = units
        is_balanced = self._affinity.distribute == "balance"
        while len(found) < wanted:
            task = self._task(_balanced(left) if is_balanced else left)
            if task is None:
                break
            found.append(task)
            left = _without(left, task, self._between_tasks)
        return found

    def _task(self, units: _Units) -> _Task | None:
        """One task, in one unit of the level that tasks must not share if it can be, in one NUMA node if it can be."""
        for level in (self._between_tasks, "numa"):
            for part in _split(units, level) if level else ():
                found = self._groups(part)
                if found is not None:
                    return found
        return self._groups(units)

    def _groups(self, units: _Units) -> _Task | None:
        asked = self._affinity
        if len(units) < asked.number * asked.factor:
            return None
        found: _Task = []
        left = units
        for _ in range(asked.factor):
            group = self._group(left)
            if group is None:
                return None
            found += group
            left = _without(left, group, self._within_task)
        return found

    def _group(self, units: _Units) -> _Units | None:
        number, same = self._affinity.number, self._affinity.same
        for part in _split(units, same) if same else (units,):
            if len(part) >= number:
                return part[:number]
        return None

    # -- what is told ---------------------------------------------------------------------------------------------

    def binding(self, tasks: Sequence[_Task]) -> CpuBinding:
        """The choice as it is held."""
        processors = self._ledger.processors
        held = {each.cpu for task in tasks for unit in task for each in unit.processors}
        level = self._against_others
        if level:
            whole = {number for task in tasks for unit in task for number in unit.within(level)}
            held |= {each.cpu for each in processors if each.at(level) in whole}
        return CpuBinding(
            affinity=print_affinity(self._affinity),
            held=tuple(sorted(held)),
            tasks=tuple(self._task_cpus(task) for task in tasks),
        )

    def _task_cpus(self, task: _Task) -> TaskCpus:
        cpus = {each.cpu for unit in task for each in unit.processors}
        level = self._affinity.cpubind or "thread"
        touched = {number for unit in task for number in unit.within(level)}
        bound = [each for each in self._ledger.processors if each.at(level) in touched]
        return TaskCpus(
            cpus=tuple(sorted(cpus)),
            bound=tuple(sorted(each.cpu for each in bound)),
            nodes=tuple(sorted({each.numa for each in bound})),
            units=tuple(self._path(unit) for unit in task),
        )

    def _path(self, unit: _Unit) -> str:
        depth = ("numa", "socket", "core", "thread").index(self._affinity.unit) + 1
        return "".join(f"/{number}" for number in unit.place[:depth])

    def shortage(self, tasks: int) -> Reason:
        """That so many tasks cannot be had, with numbers."""
        asked, host = self._affinity, self._ledger.host
        if not self._all:
            why = self._ledger.no_processors or coded("numbers.no_processor")
            return Reason(NOT_ENOUGH, coded("numbers.on", why, host))
        level, scope = asked.exclusive
        wishes = [f"same={asked.same}"] if asked.same else []
        wishes += [f"exclusive=({level}{',' if scope else ''}{scope})"] if level else []
        wishes += [f"distribute=pack({asked.pack_level}={asked.pack_number})"] if asked.pack_level else []
        wish = coded("numbers.with", " and ".join(wishes)) if wishes else ""
        each = asked.number * asked.factor
        many = f"{tasks}*{each}" if tasks > 1 else f"{each}"
        what = f"{many} {asked.unit if tasks * each == 1 else _PLURAL[asked.unit]}"
        return Reason(NOT_ENOUGH, coded("numbers.units_free", what, wish, len(self.free), len(self._all), host))


_place = attrgetter("place")


def _units(processors: Iterable[Processor], level: str) -> _Units:
    parts: dict[int, list[Processor]] = {}
    for each in processors:
        parts.setdefault(each.at(level), []).append(each)
    return sorted((_Unit(number, part) for number, part in parts.items()), key=_place)


def _split(units: _Units, level: str) -> list[_Units]:
    """The units by the unit of a level that they lie in, in order; those that lie in several are in no part."""
    parts: dict[int, _Units] = {}
    for unit in units:
        touched = unit.within(level)
        if len(touched) == 1:
            parts.setdefault(touched.pop(), []).append(unit)
    return list(parts.values())


def _without(units: _Units, chosen: _Units, level: str) -> _Units:
    """The units that were not chosen; with a level: those that lie in no unit of it that was touched."""
    if not level:
        gone = {unit.number for unit in chosen}
        return [unit for unit in units if unit.number not in gone]
    barred = {number for unit in chosen for number in unit.within(level)}
    return [unit for unit in units if barred.isdisjoint(unit.within(level))]


def _balanced(units: _Units) -> _Units:
    """Those first that lie where most is free: in the NUMA node, the socket, the core."""
    free: dict[tuple[str, int], int] = {}
    for unit in units:
        for level, number in zip(("numa", "socket", "core"), unit.place, strict=False):
            free[level, number] = free.get((level, number), 0) + 1

    def key(unit: _Unit) -> tuple[int, ...]:
        numa, socket, core, cpu = unit.place
        return (-free["numa", numa], numa, -free["socket", socket], socket, -free["core", core], core, cpu)

    return sorted(units, key=key)
