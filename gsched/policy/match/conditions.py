"""What a host must meet to take tasks of a job: each condition once, for one host, for all hosts, and why not.

A condition is a class in one of the lists at the end; whoever asks whether a job fits goes through these lists: columns
(all hosts at once), the scalar trial of planning and preemption, the fast path, and the check of what is carried out.
`of` makes it for jobs that it concerns; `refusal` asks one host; `unmet` asks many in array operations and must say
the same. What is first in the lists is told first. It takes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import ClassVar

import numpy as np

from gsched.model.allocation import HostAllocation
from gsched.model.column_part import ColumnPart, Flags, Numbers, RowValues
from gsched.model.columns import HostColumns, singly
from gsched.model.host_ledger import HostLedger
from gsched.model.queue import Queue
from gsched.model.resource import GPU_COUNTERS
from gsched.model.snapshot import HostSnapshot
from gsched.model.topology import cpu_misfit
from gsched.policy.devices import cpu_affinity, gpu_choice
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.requirement.demand import (
    Bound,
    Conjunct,
    Demand,
    DemandTerm,
    DeviceKind,
    HostNeed,
)
from gsched.policy.requirement.reasons import Reason, Shortage, reserving, split
from gsched.resreq.ast import Affinity

HostsView = HostColumns | ColumnPart
"""All hosts, or some of their rows."""
RowTest = Callable[[int], object]
"""Whether a row meets something."""

UNSATISFIED = "Job's resource requirements not satisfied"
RECENT = Reason("Just started a job recently")
ONE_SLOT, SLOTS = "Job slot limit reached", "Not enough job slot(s)"


class Condition(ABC):
    """One thing that a host must meet."""

    is_fixed: ClassVar[bool] = False
    """Whether only a new configuration changes what it says of a host."""
    told_apart: ClassVar[bool] = False
    """Whether each host says why in its own words."""

    @abstractmethod
    def refusal(self, now: HostNow) -> Reason | None:
        """Why the host does not meet it; None when it does."""

    @abstractmethod
    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        """The rows of the view, which is of the columns, that do not meet it."""


class HostCondition(Condition):
    """Whether the host is one for jobs of a class in their queue, whatever is free there."""

    @classmethod
    @abstractmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        """The condition for such jobs; none where it says nothing. `on_first`: the host would be the job's first."""

    @property
    def key(self) -> Hashable:
        """Equal where two say the same of all hosts."""
        return id(self)


class ValueCondition(Condition):
    """Whether the host's values are what the job asks for."""

    names: frozenset[str] = frozenset()
    """Resources that it looks at. It is asked again for each host that is taken of if what is left of one counts."""

    @classmethod
    @abstractmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        """The condition for tasks of the term; none where it says nothing."""

    @property
    def key(self) -> Hashable:
        """Equal where two say the same of all hosts."""
        return id(self)

    def row_tests(self, columns: HostColumns) -> list[RowTest]:
        """What of it looks at what is left, for one row at a time."""

        def test(row: int) -> bool:
            return self.refusal(HostNow(columns.hosts[row], columns.books(row), RowValues(columns, row))) is None

        return [test] if columns.is_live(self.names) else []


class RoomCondition(Condition):
    """Whether so much is free there."""

    @classmethod
    @abstractmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        """The conditions for tasks that need this; none where it says nothing."""

    @classmethod
    def refusal_of(cls, part: HostAllocation, books: HostLedger) -> Reason | None:
        """Why the books do not let anybody take just this part; None when they do, or where they do not say."""
        return None

    def column(self, columns: HostColumns) -> Numbers | Flags | None:
        """Where a host meets it that has at least `wanted` in a column: this column, the same in an epoch of the
        columns. None where no column says it all; jobs then never go by the fast path.
        """
        return None

    @property
    def wanted(self) -> float:
        """See `column`."""
        return 1.0


class CountedRoom(RoomCondition):
    """Room that one column counts."""

    @abstractmethod
    def column(self, columns: HostColumns) -> Numbers | Flags:
        """What each host has."""

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return view.short_of(self.column(columns), self.wanted)


# -- is the host one for the class ------------------------------------------------------------------------------------


class HostOfQueue(HostCondition):
    """HOSTS of the queue."""

    is_fixed = True

    def __init__(self, members: frozenset[str]) -> None:
        self._members = members

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        members = rules.queue_hosts.get(queue.name)
        if members is not None:
            yield cls(members)

    def refusal(self, now: HostNow) -> Reason | None:
        return None if now.host.name in self._members else Reason("Not usable to the queue", candidate=False)

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return view.of(~_named(columns, self._members))


class AskedHost(HostCondition):
    """-m, and the first execution hosts that it names."""

    is_fixed = True

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        if demand.asked_hosts and not demand.other_hosts:
            yield cls(frozenset((*demand.asked_hosts, *demand.first_hosts)))
        if on_first:
            yield cls(frozenset(demand.first_hosts))

    def refusal(self, now: HostNow) -> Reason | None:
        return None if now.host.name in self._names else Reason("Not specified in job submission", candidate=False)

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return view.of(~_named(columns, self._names))


class HostNotExcluded(HostCondition):
    """Hosts that an exclusive requeue exit value keeps the job from."""

    is_fixed = True

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        if demand.excluded_hosts:
            yield cls(demand.excluded_hosts)

    def refusal(self, now: HostNow) -> Reason | None:
        if now.host.name not in self._names:
            return None
        return Reason("Excluded by the requeue exit values of the job", candidate=False)

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return view.of(_named(columns, self._names))


class HostOpen(HostCondition):
    """The host takes jobs at all."""

    told_apart = True

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        yield cls()

    @property
    def key(self) -> Hashable:
        return ()

    def refusal(self, now: HostNow) -> Reason | None:
        return split(now.host.closed) if now.host.closed else None

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        found: Flags = view.of(closed_hosts(columns)) > 0
        return found


class HostNotBusy(HostCondition):
    """Its load lets jobs of the queue start."""

    told_apart = True

    def __init__(self, queue: str) -> None:
        self._queue = queue

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        yield cls(queue.name)

    @property
    def key(self) -> Hashable:
        return self._queue

    def _said(self, host: HostSnapshot) -> str:
        return host.busy.get(self._queue) or host.busy.get("", "")

    def refusal(self, now: HostNow) -> Reason | None:
        said = self._said(now.host)
        return split(said) if said else None

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        busy = columns.standing(("busy", self._queue), lambda host: bool(self._said(host)))
        found: Flags = view.of(busy) > 0
        return found


class AcceptInterval(HostCondition):
    """JOB_ACCEPT_INTERVAL has passed since the last job was started there.

    It is a matter of a moment, so that plans may count on the host. Hosts that the cycle itself uses are marked beside.
    """

    def __init__(self, queue: Queue, rules: FitRules) -> None:
        self._interval_s = rules.interval_of(queue)
        self._now = rules.now

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        if rules.interval_of(queue) > 0:
            yield cls(queue, rules)

    def refusal(self, now: HostNow) -> Reason | None:
        return RECENT if self._now < now.host.last_dispatch + self._interval_s else None

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        last = columns.standing("last_dispatch", lambda host: host.last_dispatch)
        found: Flags = view.of(last) + self._interval_s > self._now
        return found


# -- are its values what is asked for ---------------------------------------------------------------------------------


class ExclusiveResources(ValueCondition):
    """A host with exclusive resources (`!name` in lsf.cluster) is for jobs that name one of them in select[]."""

    is_fixed = True

    def __init__(self, names: frozenset[str]) -> None:
        self._asked = names

    @classmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        yield cls(term.names)

    def refusal(self, now: HostNow) -> Reason | None:
        host = now.host
        if not self._keeps_out(host):
            return None
        names = ", ".join(host.exclusive_resources)
        return Reason(UNSATISFIED, f"{host.name} is kept for jobs that ask for {names}", candidate=False)

    def _keeps_out(self, host: HostSnapshot) -> bool:
        return bool(host.exclusive_resources) and self._asked.isdisjoint(host.exclusive_resources)

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return view.of(np.array([self._keeps_out(host) for host in columns.hosts], dtype=np.bool_))


class Selected(ValueCondition):
    """select[]."""

    def __init__(self, term: DemandTerm) -> None:
        self._term = term
        self.names = term.names

    @classmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        if term.requirement.select is not None:
            yield cls(term)

    @property
    def key(self) -> Hashable:
        return repr(self._term.requirement.select)

    def refusal(self, now: HostNow) -> Reason | None:
        verdict = self._term.select(now.values)
        return None if verdict else Reason(UNSATISFIED, f"{verdict.reason} on {now.host.name}")

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return ~self._term.mask(view).holds

    def row_tests(self, columns: HostColumns) -> list[RowTest]:
        return [_row_test(each, columns) for each in self._term.conjuncts if columns.is_live(each.names)]


class Thresholds(ValueCondition):
    """threshold= of rusage[]."""

    def __init__(self, bounds: tuple[Bound, ...], rules: FitRules) -> None:
        self._bounds = bounds
        self._increasing = rules.increasing
        self.names = frozenset(name for name, _ in bounds)

    @classmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        if term.bounds:
            yield cls(term.bounds, rules)

    @property
    def key(self) -> Hashable:
        return self._bounds

    def refusal(self, now: HostNow) -> Reason | None:
        for name, bound in self._bounds:
            value = now.values.get(name)
            known = float(value) if isinstance(value, float | int) else None
            if known is None or (known > bound if name in self._increasing else known < bound):
                said = "unknown" if known is None else f"{known:.10g}"
                return Reason(reserving(name), f"threshold {bound:.10g}, {name} is {said} on {now.host.name}")
        return None

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        missing = np.zeros(view.size, dtype=np.bool_)
        for name, bound in self._bounds:
            values = view.number(name)
            if values is None:
                missing[:] = True
            else:
                missing |= ~(values <= bound if name in self._increasing else values >= bound)
        return missing


# -- is there room ----------------------------------------------------------------------------------------------------


class NoExclusiveJob(CountedRoom):
    """No job has the host for itself."""

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        yield cls()

    @classmethod
    def refusal_of(cls, part: HostAllocation, books: HostLedger) -> Reason | None:
        return _owned(books)

    def refusal(self, now: HostNow) -> Reason | None:
        return _owned(now.books)

    def column(self, columns: HostColumns) -> Flags:
        return columns.unlocked


class NoOtherJob(CountedRoom):
    """Nobody holds anything on a host that a job wants for itself."""

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        if need.exclusive:
            yield cls()

    @classmethod
    def refusal_of(cls, part: HostAllocation, books: HostLedger) -> Reason | None:
        return _used(books) if part.exclusive else None

    def refusal(self, now: HostNow) -> Reason | None:
        return _used(now.books)

    def column(self, columns: HostColumns) -> Flags:
        return columns.empty


class FreeSlots(CountedRoom):
    """Job slots."""

    def __init__(self, slots: int) -> None:
        self._slots = slots

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        yield cls(need.slots)

    @classmethod
    def refusal_of(cls, part: HostAllocation, books: HostLedger) -> Reason | None:
        return slots_missing(part.slots, books)

    def refusal(self, now: HostNow) -> Reason | None:
        return slots_missing(self._slots, now.books)

    def column(self, columns: HostColumns) -> Numbers:
        return columns.free

    @property
    def wanted(self) -> float:
        return self._slots


class SlotsKeptForGpus(RoomCondition):
    """RESERVE_CORES_PER_GPU: a job without GPUs leaves so many slots to each GPU that nobody holds."""

    def __init__(self, slots: int, per_gpu: int) -> None:
        self._slots = slots
        self._per_gpu = per_gpu

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        if rules.cores_per_gpu > 0 and need.slots and not need.wants_gpus:
            yield cls(need.slots, rules.cores_per_gpu)

    def refusal(self, now: HostNow) -> Reason | None:
        free, idle, slots = now.books.free_slots, now.books.idle(), self._slots
        if free is None or free - self._per_gpu * idle >= slots:
            return None
        kept = f"{self._per_gpu * idle} of them kept for {idle} free GPU{'s' if idle > 1 else ''}"
        return Reason(_slots_text(slots), f"{slots} wanted, {free} free on {now.host.name}, {kept}")

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        missing: Flags = view.of(columns.free) - self._per_gpu * view.of(idle_gpus(columns)) < self._slots
        return missing

    def kept(self, columns: HostColumns) -> Numbers:
        """Slots that each host keeps so."""
        return self._per_gpu * idle_gpus(columns)


class FreeAmount(CountedRoom):
    """An amount of a resource that is reserved."""

    def __init__(self, name: str, amount: float) -> None:
        self.name = name
        self._amount = amount

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        for name, amount in need.amounts.items():
            yield cls(name, amount)

    def refusal(self, now: HostNow) -> Reason | None:
        name, amount = self.name, self._amount
        if name not in now.values:
            return Reason(reserving(name), f"{amount:.10g} wanted, {now.host.name} has no {name}")
        left = now.values[name]
        known = float(left) if isinstance(left, float | int) else None
        if known is None or known < amount:
            return Shortage(name, amount, known, None).reason(now.host.name)
        return None

    def column(self, columns: HostColumns) -> Numbers:
        found = columns.number(self.name)
        return np.full(columns.size, np.nan) if found is None else found

    @property
    def wanted(self) -> float:
        return self._amount


class FreeDevices(CountedRoom):
    """GPUs of one kind. For several kinds the columns say only the most of each that could be had."""

    def __init__(self, kind: DeviceKind, count: int, need: HostNeed) -> None:
        self.kind = kind
        self._count = count
        self._need = need

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        for kind, count in need.devices:
            yield cls(kind, count, need)

    @classmethod
    def refusal_of(cls, part: HostAllocation, books: HostLedger) -> Reason | None:
        if len({held.uuid for held in part.gpus}) != len(part.gpus):
            return Reason(f"a GPU of {books.host} is named twice")
        for held in part.gpus:
            if not books.may_hold(held):
                there = held.uuid in books.gpus
                why = f"of {books.host} cannot be claimed as {held.claim} now" if there else f"is not on {books.host}"
                return Reason(f"GPU {held.uuid} {why}")
        return None

    def refusal(self, now: HostNow) -> Reason | None:
        kind = self.kind
        if kind.claim in GPU_COUNTERS and kind.claim not in now.values:
            return Reason(reserving(kind.name), f"{self._count} wanted, {now.host.name} has no {kind.name}")
        held = now.gpus(self._need)
        return held.reason(now.host.name) if isinstance(held, Shortage) and held.resource == kind.name else None

    def column(self, columns: HostColumns) -> Numbers:
        return columns.derived(self.kind, self._obtainable, counts_idle=gpu_choice.is_plain(self.kind))

    def _obtainable(self, host: HostSnapshot, books: HostLedger) -> float:
        kind = self.kind
        if kind.claim in GPU_COUNTERS and kind.claim not in host.values:
            return 0  # a counter can be claimed where it is mapped only
        return gpu_choice.obtainable(books, kind)

    @property
    def wanted(self) -> float:
        return self._count


class FreeDeviceOfAny(CountedRoom):
    """A GPU for a job that asked for none (GPU_UNREQUESTED auto=1), on a host that has any."""

    def __init__(self, need: HostNeed) -> None:
        self._need = need

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        if need.auto_gpu and not need.devices:
            yield cls(need)

    def refusal(self, now: HostNow) -> Reason | None:
        held = now.gpus(self._need)
        return held.reason(now.host.name) if isinstance(held, Shortage) else None

    def column(self, columns: HostColumns) -> Numbers:
        return columns.derived("any", lambda _, books: gpu_choice.obtainable_any(books))


class FreeProcessorUnits(CountedRoom):
    """Processor units for affinity[]."""

    def __init__(self, need: HostNeed, affinity: Affinity) -> None:
        self._need = need
        self._affinity = affinity

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        if need.affinity is not None:
            yield cls(need, need.affinity)

    @classmethod
    def refusal_of(cls, part: HostAllocation, books: HostLedger) -> Reason | None:
        why = cpu_misfit(books.host, part.cpus, books.processors, books.bound_cpus()) if part.bindings else ""
        return Reason(why) if why else None

    def refusal(self, now: HostNow) -> Reason | None:
        found = now.binding(self._need)
        return found if isinstance(found, Reason) else None

    def column(self, columns: HostColumns) -> Numbers:
        return task_room(columns, self._affinity)

    @property
    def wanted(self) -> float:
        return self._need.slots


HOST_CONDITIONS: list[type[HostCondition]] = [
    HostOfQueue,
    AskedHost,
    HostNotExcluded,
    HostOpen,
    HostNotBusy,
]
"""AcceptInterval comes after them."""
VALUE_CONDITIONS: list[type[ValueCondition]] = [ExclusiveResources, Selected, Thresholds]
ROOM_CONDITIONS: list[type[RoomCondition]] = [
    NoExclusiveJob,
    NoOtherJob,
    FreeSlots,
    SlotsKeptForGpus,
    FreeAmount,
    FreeDevices,
    FreeDeviceOfAny,
    FreeProcessorUnits,
]


def host_conditions(queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool = False) -> list[HostCondition]:
    """What makes a host one for jobs of a class in the queue, AcceptInterval aside."""
    return [each for kind in HOST_CONDITIONS for each in kind.of(queue, demand, rules, on_first=on_first)]


def value_conditions(term: DemandTerm, rules: FitRules) -> list[ValueCondition]:
    """What tasks of the term ask of a host's values."""
    return [each for kind in VALUE_CONDITIONS for each in kind.of(term, rules)]


def room_conditions(need: HostNeed, rules: FitRules) -> list[RoomCondition]:
    """What must be free on a host for tasks that need this."""
    return [each for kind in ROOM_CONDITIONS for each in kind.of(need, rules)]


def beside_devices(part: HostAllocation, rules: FitRules) -> list[RoomCondition]:
    """What must be free for a part that was chosen, whichever devices and processor units it gets."""
    need = HostNeed(part.slots, part.amounts, (), auto_gpu=bool(part.gpus), exclusive=part.exclusive)
    return [each for each in room_conditions(need, rules) if not isinstance(each, FreeDeviceOfAny)]


def refusal(conditions: Iterable[Condition], now: HostNow) -> Reason | None:
    """Why the host does not meet the first of these that it does not meet; None when it meets all."""
    for each in conditions:
        found = each.refusal(now)
        if found is not None:
            return found
    return None


def refusal_of(part: HostAllocation, books: HostLedger) -> Reason | None:
    """Why nobody can take just this part now, by the books alone; None when it can be taken."""
    for kind in ROOM_CONDITIONS:
        found = kind.refusal_of(part, books)
        if found is not None:
            return found
    return None


# -- columns ----------------------------------------------------------------------------------------------------------


def closed_hosts(columns: HostColumns) -> Numbers:
    """1 for hosts that say themselves that they take nothing."""
    return columns.standing("closed", lambda host: bool(host.closed))


def idle_gpus(columns: HostColumns) -> Numbers:
    """Devices of each host that nobody holds."""
    return columns.derived("idle", lambda _, books: books.idle(), counts_idle=True)


def task_room(columns: HostColumns, affinity: Affinity) -> Numbers:
    """How many tasks with this affinity[] the free processor units of each host could take."""
    return columns.derived(affinity, lambda _, books: cpu_affinity.room(books, affinity))


def _named(columns: HostColumns, names: Iterable[str]) -> Flags:
    found = np.zeros(columns.size, dtype=np.bool_)
    found[columns.rows_of(names)] = True
    return found


def _row_test(conjunct: Conjunct, columns: HostColumns) -> RowTest:
    """Whether a part of select[] holds for a row: quick where one resource is compared with a number."""
    simple = conjunct.comparison
    column = None if simple is None else columns.number(simple.name)
    if simple is None or column is None:
        return lambda row: conjunct.holds(RowValues(columns, row))
    values, relation, number = singly(column), simple.relation, simple.number
    return lambda row: relation(values[row], number)  # of NaN no such relation holds


# -- one host ---------------------------------------------------------------------------------------------------------


def _owned(books: HostLedger) -> Reason | None:
    owner = books.exclusive
    return None if owner is None else Reason("Running an exclusive job", f"job {owner[0]} on {books.host}")


def _used(books: HostLedger) -> Reason | None:
    count = len(books.held)
    if not count:
        return None
    text = "Job's requirement for exclusive execution not satisfied"
    return Reason(text, f"{count} {'jobs run' if count > 1 else 'job runs'} on {books.host}")


def _slots_text(slots: int) -> str:
    return ONE_SLOT if slots == 1 else SLOTS


def slots_missing(slots: int, books: HostLedger) -> Reason | None:
    """Why so many slots cannot be had; None when they can."""
    free = books.free_slots
    if free is None or free >= slots:
        return None
    return Reason(_slots_text(slots), f"{slots} wanted, {free} of {books.max_slots} free on {books.host}")
