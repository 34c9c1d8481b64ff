"""Is so much free on a host? See gsched.policy.match.fit_condition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gsched.base.coded_text import CodedText, coded
from gsched.model.hosts.resource import GPU_COUNTERS
from gsched.model.hosts.topology import cpu_misfit
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.column_part import Flags, HostNumbers
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import HostSnapshot
from gsched.policy.devices import cpu_affinity, gpu_choice
from gsched.policy.match.fit_condition import CountedRoom, HostsView, RoomCondition
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.requirement.demand import DeviceKind, HostNeed
from gsched.policy.requirement.reasons import Reason, Shortage, reserving
from gsched.resreq.ast import Affinity

ONE_SLOT, SLOTS = coded("pending.no_slot"), coded("pending.too_few_slots")


class NoExclusiveJob(CountedRoom):
    """No job has the host for itself."""

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        yield cls()

    @classmethod
    def refusal_of(cls, part: HostAllocation, host_ledger: HostLedger) -> Reason | None:
        return _owned(host_ledger)

    def refusal(self, now: HostNow) -> Reason | None:
        return _owned(now.host_ledger)

    def column(self, columns: HostColumns) -> Flags:
        return columns.unlocked


class NoOtherJob(CountedRoom):
    """Nobody holds anything on a host that a job wants for itself."""

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        if need.exclusive:
            yield cls()

    @classmethod
    def refusal_of(cls, part: HostAllocation, host_ledger: HostLedger) -> Reason | None:
        return _used(host_ledger) if part.exclusive else None

    def refusal(self, now: HostNow) -> Reason | None:
        return _used(now.host_ledger)

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
    def refusal_of(cls, part: HostAllocation, host_ledger: HostLedger) -> Reason | None:
        return slots_missing(part.slots, host_ledger)

    def refusal(self, now: HostNow) -> Reason | None:
        return slots_missing(self._slots, now.host_ledger)

    def column(self, columns: HostColumns) -> HostNumbers:
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
        free, idle, slots = now.host_ledger.free_slots, now.host_ledger.idle(), self._slots
        if free is None or free - self._per_gpu * idle >= slots:
            return None
        code = "numbers.kept_for_gpus" if idle > 1 else "numbers.kept_for_gpu"
        return Reason(_slots_text(slots), coded(code, slots, free, now.host.name, self._per_gpu * idle, idle))

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        missing: Flags = view.of(columns.free) - self._per_gpu * view.of(idle_gpus(columns)) < self._slots
        return missing

    def kept(self, columns: HostColumns) -> HostNumbers:
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
            return Reason(reserving(name), coded("numbers.has_none", amount, now.host.name, name))
        left = now.values[name]
        known = float(left) if isinstance(left, float | int) else None
        if known is None or known < amount:
            return Shortage(name, amount, known, None).reason(now.host.name)
        return None

    def column(self, columns: HostColumns) -> HostNumbers:
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
    def refusal_of(cls, part: HostAllocation, host_ledger: HostLedger) -> Reason | None:
        if len({held.uuid for held in part.gpus}) != len(part.gpus):
            return Reason(coded("misfit.gpu_twice", host_ledger.host))
        for held in part.gpus:
            if not host_ledger.may_hold(held):
                there = held.uuid in host_ledger.gpus
                code = "misfit.gpu_not_claimable" if there else "misfit.gpu_not_there"
                return Reason(coded(code, held.uuid, host_ledger.host, held.claim))
        return None

    def refusal(self, now: HostNow) -> Reason | None:
        kind = self.kind
        if kind.claim in GPU_COUNTERS and kind.claim not in now.values:
            return Reason(reserving(kind.name), coded("numbers.has_none", self._count, now.host.name, kind.name))
        held = now.gpus(self._need)
        return held.reason(now.host.name) if isinstance(held, Shortage) and held.resource == kind.name else None

    def column(self, columns: HostColumns) -> HostNumbers:
        return columns.derived(self.kind, self._obtainable, counts_idle=gpu_choice.is_plain(self.kind))

    def _obtainable(self, host: HostSnapshot, host_ledger: HostLedger) -> float:
        kind = self.kind
        if kind.claim in GPU_COUNTERS and kind.claim not in host.values:
            return 0  # a counter can be claimed where it is mapped only
        return gpu_choice.obtainable(host_ledger, kind)

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

    def column(self, columns: HostColumns) -> HostNumbers:
        return columns.derived("any", lambda _, host_ledger: gpu_choice.obtainable_any(host_ledger))


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
    def refusal_of(cls, part: HostAllocation, host_ledger: HostLedger) -> Reason | None:
        why = (
            cpu_misfit(host_ledger.host, part.cpus, host_ledger.processors, host_ledger.bound_cpus())
            if part.bindings
            else ""
        )
        return Reason(why) if why else None

    def refusal(self, now: HostNow) -> Reason | None:
        found = now.binding(self._need)
        return found if isinstance(found, Reason) else None

    def column(self, columns: HostColumns) -> HostNumbers:
        return task_room(columns, self._affinity)

    @property
    def wanted(self) -> float:
        return self._need.slots


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


def room_conditions(need: HostNeed, rules: FitRules) -> list[RoomCondition]:
    """What must be free on a host for tasks that need this."""
    return [each for kind in ROOM_CONDITIONS for each in kind.of(need, rules)]


def beside_devices(part: HostAllocation, rules: FitRules) -> list[RoomCondition]:
    """What must be free for a part that was chosen, whichever devices and processor units it gets."""
    need = HostNeed(part.slots, part.amounts, (), auto_gpu=bool(part.gpus), exclusive=part.exclusive)
    return [each for each in room_conditions(need, rules) if not isinstance(each, FreeDeviceOfAny)]


def refusal_of(part: HostAllocation, host_ledger: HostLedger) -> Reason | None:
    """Why nobody can take just this part now, by the ledger alone; None when it can be taken."""
    for kind in ROOM_CONDITIONS:
        found = kind.refusal_of(part, host_ledger)
        if found is not None:
            return found
    return None


def idle_gpus(columns: HostColumns) -> HostNumbers:
    """Devices of each host that nobody holds."""
    return columns.derived("idle", lambda _, host_ledger: host_ledger.idle(), counts_idle=True)


def task_room(columns: HostColumns, affinity: Affinity) -> HostNumbers:
    """How many tasks with this affinity[] the free processor units of each host could take."""
    return columns.derived(affinity, lambda _, host_ledger: cpu_affinity.room(host_ledger, affinity))


def _owned(host_ledger: HostLedger) -> Reason | None:
    owner = host_ledger.exclusive
    return (
        None if owner is None else Reason(coded("pending.locked"), coded("numbers.job_on", owner[0], host_ledger.host))
    )


def _used(host_ledger: HostLedger) -> Reason | None:
    count = len(host_ledger.held)
    if not count:
        return None
    text = coded("pending.not_empty")
    return Reason(text, coded("numbers.jobs_run" if count > 1 else "numbers.job_runs", count, host_ledger.host))


def _slots_text(slots: int) -> CodedText:
    return ONE_SLOT if slots == 1 else SLOTS


def slots_missing(slots: int, host_ledger: HostLedger) -> Reason | None:
    """Why so many slots cannot be had; None when they can."""
    free = host_ledger.free_slots
    if free is None or free >= slots:
        return None
    return Reason(
        _slots_text(slots), coded("numbers.slots_free", slots, free, host_ledger.max_slots or 0, host_ledger.host)
    )
