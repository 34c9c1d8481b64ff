"""What one job of a requirement class needs: what of it on each host, per task and once.

It never looks at a host; what makes it of texts is gsched.policy.requirement.demand_reader. A job's tasks
are its slots. Source of the rules: bsub(1), options -n, -R, -gpu and -x.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from gsched.model.ledgers.allocation import (
    ALONE_CLAIM,
    MIG_ALONE_CLAIM,
    PROCESS_CLAIM,
    SHARING,
    AmountSchedule,
    AmountStep,
)
from gsched.model.scheduling.snapshot import HostValues
from gsched.resreq.amount_steps import AmountSteps
from gsched.resreq.ast import BY_HOST, UNLISTED, Affinity, Cu, Expression, Requirement, Span
from gsched.resreq.judging.select import CompiledSelect
from gsched.resreq.parsing.gpu import print_size

PHYSICAL = "ngpus_physical"
"""The GPU resource that -gpu stands for; in rusage it means the same as -gpu num=."""

CACHED_CLASSES = 16_384
"""Classes of which it is kept what they need: a workflow may ask for another amount of memory with each job."""
_CLAIMS = {
    PROCESS_CLAIM: "mode=exclusive_process",
    ALONE_CLAIM: "j_exclusive=yes",
    MIG_ALONE_CLAIM: "j_exclusive=yes",
}
"""Claims by -gpu that are not the plain one, in its words."""


class DeviceKind(NamedTuple):
    """GPUs that are as good as each other for a claim."""

    claim: str
    """A counter (ngpus, ngpus_shared …), or one of the claims by -gpu of model.allocation."""
    share: float = 1.0
    gmem_mib: float = 0.0
    model: str = ""
    linked: bool = False
    tile: str = ""
    """GPUs per socket, "!" for evenly over the sockets."""
    packed: bool = False
    """Those that are shared most first."""
    mig: str = ""
    """Parts of GPUs by MIG of this size, `3` or `3/2`; empty: whole GPUs."""

    @property
    def name(self) -> str:
        """The resource that a reason names."""
        return self.claim if self.claim.startswith("ngpus") else PHYSICAL

    @property
    def wish(self) -> str:
        """What else is asked of the devices, for a reason; empty when nothing is."""
        words = [_CLAIMS[self.claim]] if self.claim in _CLAIMS else []
        words += [f"share={self.share:g}"] if self.share < 1.0 else []
        words += [f"gmem={print_size(self.gmem_mib)}"] if self.gmem_mib else []
        words += [f"gmodel={self.model}"] if self.model else []
        words += ["glink=yes"] if self.linked else []
        words += [f"mig={self.mig}"] if self.mig else []
        return ":".join([*words, f"gtile={self.tile}"] if self.tile else words)


class Devices(NamedTuple):
    """So many GPUs of a kind."""

    kind: DeviceKind
    number: int


class HostNeed(NamedTuple):
    """What some tasks of a job need on one host."""

    slots: int
    amounts: Mapping[str, float]
    devices: tuple[Devices, ...]
    auto_gpu: bool
    """One GPU where the host has any (GPU_UNREQUESTED auto=1)."""
    exclusive: bool
    affinity: Affinity | None = None
    """Processor units of each task."""
    courses: tuple[AmountSchedule, ...] = ()
    """Of the amounts that are given back before the job ends."""

    @property
    def wants_gpus(self) -> bool:
        return bool(self.devices) or self.auto_gpu

    @property
    def packed(self) -> HostNeed | None:
        """The same with GPUs first that others share already; None where none may be shared, or that is so anyway."""
        if not any(kind.claim in SHARING and not kind.packed for kind, _ in self.devices):
            return None
        return self._replace(
            devices=tuple(each._replace(kind=each.kind._replace(packed=True)) for each in self.devices)
        )


class SortKey(NamedTuple):
    """One key of order[...]: a resource's name, or an expression whose direction is that of the `name`d resource."""

    name: str
    is_reversed: bool
    expression: Expression | None = None


class Bound(NamedTuple):
    """`threshold=` of a reservation: the resource must be beyond it before the job starts."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class DemandTerm:
    """A part of a requirement whose tasks all need the same; a job that is no compound has one."""

    requirement: Requirement
    tasks: int | None
    """Tasks of this part of a compound; None: those that the others leave, or all."""
    select: CompiledSelect
    order: tuple[SortKey, ...] | None
    """None when none was given."""
    per_host: Mapping[str, float]
    per_task: Mapping[str, float]
    once: Mapping[str, float]
    """What is reserved on the first host only (`/job`)."""
    host_devices: tuple[Devices, ...]
    task_devices: tuple[Devices, ...]
    bounds: tuple[Bound, ...]
    span: Span | None
    same: tuple[str, ...]
    cu: Cu | None
    auto_gpu: bool
    exclusive: bool
    affinity: Affinity | None = None
    courses: Mapping[str, AmountSteps] = field(default_factory=dict)
    """Amounts that are given back before the job ends -> how, of the amount of one host, task or job."""
    is_first: bool = True
    """Whether it is the part of a compound that is placed first."""

    def need(self, tasks: int, *, first: bool = True) -> HostNeed:
        """What `tasks` of its tasks need on one host; `first`: it is the job's first host."""
        amounts = dict(self.per_host)
        for name, amount in self.per_task.items():
            amounts[name] = amounts.get(name, 0.0) + amount * tasks
        if first and self.is_first:
            for name, amount in self.once.items():
                amounts[name] = amounts.get(name, 0.0) + amount
        counts: dict[DeviceKind, int] = dict(self.host_devices)
        for kind, count in self.task_devices:
            counts[kind] = counts.get(kind, 0) + count * tasks
        devices = tuple(Devices(kind, count) for kind, count in counts.items())
        courses = tuple(self._course(name, tasks) for name in self.courses if name in amounts)
        return HostNeed(tasks, amounts, devices, self.auto_gpu, self.exclusive, self.affinity, courses)

    def _course(self, name: str, tasks: int) -> AmountSchedule:
        times = tasks if name in self.per_task else 1
        steps = tuple(AmountStep(after_s=after, amount=amount * times) for after, amount in self.courses[name])
        return AmountSchedule(resource=name, steps=steps)

    @property
    def whole_units(self) -> bool:
        """cu[excl]: whichever compute units it uses it has for itself."""
        return self.cu is not None and self.cu.excl

    @property
    def one_host(self) -> bool:
        """span[hosts=1]."""
        return self.span is not None and self.span.hosts == 1

    def tile(self, values: HostValues) -> int | None:
        """Tasks that span[ptile] puts on a host with these values at the most; None when it does not say."""
        if self.span is None or self.span.ptile is None:
            return None
        for word, tasks in self.span.ptile_types:
            if word in (values.get("type"), values.get("model")):
                return tasks
        if self.span.ptile != BY_HOST:
            return 0 if self.span.ptile == UNLISTED else self.span.ptile
        most = values.get("maxslots")
        return int(most) if isinstance(most, float | int) and math.isfinite(most) else None

    @property
    def is_tiled(self) -> bool:
        return self.span is not None and self.span.ptile is not None

    @property
    def is_striped(self) -> bool:
        """span[stripe]: the tasks are dealt round the hosts."""
        return self.span is not None and self.span.stripe is not None

    @property
    def most_on_host(self) -> int | None:
        """Tasks that span[stripe=n] puts on a host at the most; None when it does not say."""
        return (self.span.stripe or None) if self.span is not None else None

    @property
    def block(self) -> int:
        """A host gets so many tasks, or a multiple of that (span[block])."""
        return (self.span.block if self.span is not None else None) or 1

    def share(self, room: int) -> int:
        """How many tasks span[block] and span[stripe=n] let a host have that has room for `room`."""
        most = room if self.most_on_host is None else min(room, self.most_on_host)
        return most - most % self.block


@dataclass(frozen=True, slots=True, eq=False)
class RequirementChoice:
    """One way to meet a requirement: an alternative of it, with one of the alternatives of its rusage."""

    terms: tuple[DemandTerm, ...]
    same: tuple[str, ...]
    """What all hosts of a compound agree in."""
    text: str
    """The requirement with only this choice in it; empty when there is no other."""
    name: str = ""
    """How a reason calls it, `Alternative 2`; empty when there is no other."""


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """A requirement class in the form that placing needs."""

    choices: tuple[RequirementChoice, ...]
    """At least one, the first choice first; alternatives whose delay has not passed are not among them."""
    slots: int
    max_slots: int
    """At least `slots`."""
    asked_hosts: tuple[str, ...]
    other_hosts: bool
    levels: Mapping[str, int]
    """-m host+n."""
    first_hosts: tuple[str, ...]
    avoid_host: str
    excluded_hosts: tuple[str, ...]
    container_runtimes: tuple[str, ...] = ()
    """As of the class."""
    later: tuple[tuple[str, float], ...] = ()
    """Alternatives that do not count yet, with the seconds after submission from which on they do."""
    most_gpus: int = 0
    """The most of num=2..8 that it may have on its host, while nobody else needs them; 0: no more than its choices say.
    """

    def least(self) -> dict[str, float]:
        """What a job takes of everything but slots at the least, on all its hosts together (`ngpus`: devices)."""
        found = [_least(choice, self.slots) for choice in self.choices]
        names = set(found[0]).intersection(*found[1:])
        return {name: min(each[name] for each in found) for name in names}

    def usual_gpus(self) -> float:
        """GPUs on all its hosts together by its first choice, of shared ones their parts; where span[ptile] names no
        number, on one host.
        """
        choice = self.choices[0]
        return math.fsum(map(_usual_gpus, choice.terms, tasks_of(choice, self.slots)))

    def least_idle_devices(self) -> int:
        """So many devices that nobody holds are on one of its hosts at the least when it starts."""
        return _least_idle_devices(self)


@lru_cache(maxsize=CACHED_CLASSES)
def _least_idle_devices(demand: Demand) -> int:
    choices = demand.choices
    return min(max(map(_alone_on_one, choice.terms, tasks_of(choice, demand.slots))) for choice in choices)


def _alone_on_one(term: DemandTerm, tasks: int) -> int:
    """Devices that nobody else may hold, on the one host or on any of several with one task or one block of them."""
    need = term.need(tasks if term.one_host else term.block)
    return sum(count for kind, count in need.devices if kind.claim not in SHARING)


def _usual_gpus(term: DemandTerm, tasks: int) -> float:
    tile = term.span.ptile if term.span is not None else None
    hosts = math.ceil(tasks / tile) if isinstance(tile, int) and tile > 0 else 1
    each = math.fsum(kind.share * count for kind, count in term.host_devices)
    return hosts * each + tasks * math.fsum(kind.share * count for kind, count in term.task_devices)


def _least(choice: RequirementChoice, slots: int) -> dict[str, float]:
    """One host for each term is the least there can be."""
    sums = amounts_of(choice, slots)
    needs = (term.need(tasks) for term, tasks in zip(choice.terms, tasks_of(choice, slots), strict=True))
    devices = sum(count for need in needs for _, count in need.devices)
    return {**sums, "ngpus": float(devices)} if devices else sums


def amounts_of(choice: RequirementChoice, slots: int) -> dict[str, float]:
    """What a job reserves at the least of everything but slots and devices, on all its hosts together."""
    sums: dict[str, float] = {}
    for term, tasks in zip(choice.terms, tasks_of(choice, slots), strict=True):
        for name, amount in term.need(tasks).amounts.items():
            if amount:
                sums[name] = sums.get(name, 0.0) + amount
    return sums


def tasks_of(choice: RequirementChoice, slots: int) -> list[int]:
    """The tasks of each term of a job with `slots` slots or the next number that makes whole blocks."""
    stated = sum(term.tasks or 0 for term in choice.terms)
    return [_whole_blocks(slots - stated, term) if term.tasks is None else term.tasks for term in choice.terms]


def _whole_blocks(tasks: int, term: DemandTerm) -> int:
    return -(-tasks // term.block) * term.block
