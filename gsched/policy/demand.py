"""What one job of a requirement class needs, compiled once per class: what of it on each host, per task and once.

It never looks at a host. A job's tasks are its slots. Source of the rules: bsub(1), options -n, -R, -gpu and -x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from gsched.base.errors import RequirementError
from gsched.model.allocation import ALONE_CLAIM, PROCESS_CLAIM, SHARED_CLAIM, Course, Step
from gsched.model.resource import gpu_counter_claims
from gsched.model.snapshot import HostValues, RequirementClass
from gsched.resreq.ast import (
    BY_HOST,
    UNLISTED,
    Affinity,
    AllOf,
    Alternatives,
    AnyRequirement,
    Compound,
    Cu,
    Expression,
    Group,
    Name,
    OrderKey,
    Requirement,
    Reservation,
    Span,
)
from gsched.resreq.columns import Columns, Mask, compile_mask
from gsched.resreq.course import Steps, at_start, course
from gsched.resreq.evaluate import DEFAULT_ORDER, Verdict, compile_select
from gsched.resreq.features import Feature
from gsched.resreq.gpu import GpuRequirement, gpu_of, parse_gpu, print_size
from gsched.resreq.names import canonical, select_names
from gsched.resreq.printer import print_combined
from gsched.resreq.simple import with_rusage
from gsched.resreq.syntax import parse_combined_any

CACHED_CLASSES = 4096
PHYSICAL = "ngpus_physical"
"""The GPU resource that -gpu stands for; in rusage it means the same as -gpu num=."""

HONOURED: frozenset[Feature] = frozenset(Feature) - {
    Feature.CU_EXCL,
    Feature.GPU_DURATION,
}
"""Forms of the language that placing understands; admission refuses the others by name."""


_CLAIMS = {PROCESS_CLAIM: "mode=exclusive_process", ALONE_CLAIM: "j_exclusive=yes"}
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
    courses: tuple[Course, ...] = ()
    """Of the amounts that are given back before the job ends."""

    @property
    def wants_gpus(self) -> bool:
        return bool(self.devices) or self.auto_gpu


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
class Term:
    """A part of a requirement whose tasks all need the same; a job that is no compound has one."""

    requirement: Requirement
    tasks: int | None
    """Tasks of this part of a compound; None: those that the others leave, or all."""
    select: Callable[[HostValues], Verdict]
    mask: Callable[[Columns], Mask]
    names: frozenset[str]
    """Resources that select looks at."""
    conjuncts: tuple[tuple[frozenset[str], Callable[[HostValues], Verdict]], ...]
    """The parts of select that must all hold, with the resources that each looks at."""
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
    courses: Mapping[str, Steps] = field(default_factory=dict)
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

    def _course(self, name: str, tasks: int) -> Course:
        times = tasks if name in self.per_task else 1
        steps = tuple(Step(after_s=after, amount=amount * times) for after, amount in self.courses[name])
        return Course(resource=name, steps=steps)

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
class Choice:
    """One way to meet a requirement: an alternative of it, with one of the alternatives of its rusage."""

    terms: tuple[Term, ...]
    same: tuple[str, ...]
    """What all hosts of a compound agree in."""
    text: str
    """The requirement with only this choice in it; empty when there is no other."""
    name: str = ""
    """How a reason calls it, `Alternative 2`; empty when there is no other."""


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """A requirement class in the form that placing needs."""

    choices: tuple[Choice, ...]
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
    later: tuple[tuple[str, float], ...] = ()
    """Alternatives that do not count yet, with the seconds after submission from which on they do."""

    def may_use(self, host: str) -> bool:
        """Whether -m lets the job on the host."""
        return not self.asked_hosts or self.other_hosts or host in self.asked_hosts or host in self.first_hosts

    def least(self) -> dict[str, float]:
        """What a job takes of everything but slots at the least, on all its hosts together (`ngpus`: devices)."""
        found = [_least(choice, self.slots) for choice in self.choices]
        names = set(found[0]).intersection(*found[1:])
        return {name: min(each[name] for each in found) for name in names}


def _least(choice: Choice, slots: int) -> dict[str, float]:
    """One host for each term is the least there can be."""
    sums: dict[str, float] = {}
    for term, tasks in zip(choice.terms, tasks_of(choice, slots), strict=True):
        need = term.need(tasks)
        devices = sum(count for _, count in need.devices)
        for name, amount in [*need.amounts.items(), ("ngpus", float(devices))]:
            if amount:
                sums[name] = sums.get(name, 0.0) + amount
    return sums


def tasks_of(choice: Choice, slots: int) -> list[int]:
    """The tasks of each term of a job with `slots` slots or the next number that makes whole blocks."""
    stated = sum(term.tasks or 0 for term in choice.terms)
    return [_whole_blocks(slots - stated, term) if term.tasks is None else term.tasks for term in choice.terms]


def _whole_blocks(tasks: int, term: Term) -> int:
    return -(-tasks // term.block) * term.block


# -- reading ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=CACHED_CLASSES)
def demand_of(requirement: RequirementClass, local_type: str) -> Demand:
    """The demand of a class. Raises RequirementError for a text that admission should have refused."""
    asked = parse_gpu(requirement.gpu) if requirement.gpu else None
    whole = parse_combined_any(requirement.requirement)
    reader = _Reader(local_type, asked, requirement.auto_gpu, requirement.exclusive)
    demand = Demand(
        choices=tuple(reader.choices(whole, requirement.waited_s)),
        slots=requirement.slots,
        max_slots=max(requirement.slots, requirement.max_slots),
        asked_hosts=requirement.asked_hosts,
        other_hosts=requirement.other_hosts,
        levels=dict(zip(requirement.asked_hosts, requirement.host_levels, strict=False)),
        first_hosts=requirement.first_hosts,
        avoid_host=requirement.avoid_host,
        excluded_hosts=requirement.excluded_hosts,
        later=_later(whole, requirement.waited_s),
    )
    for choice in demand.choices:
        detail = _misfit(choice, demand)
        if detail:
            raise RequirementError("Bad resource requirement syntax", detail, requirement.requirement, 0)
    return demand


def _misfit(choice: Choice, demand: Demand) -> str:
    """Why the choice cannot be meant for so many tasks; empty when it can."""
    tasks = tasks_of(choice, demand.slots)
    if min(tasks) < 1 or (all(term.tasks for term in choice.terms) and sum(tasks) != demand.slots):
        return f"its parts do not make -n {demand.slots}"
    if sum(tasks) > demand.max_slots or any(
        number % term.block for number, term in zip(tasks, choice.terms, strict=True)
    ):
        return f"-n {demand.slots} does not make whole blocks of span[block]"
    return ""


def _later(whole: AnyRequirement, waited_s: float) -> tuple[tuple[str, float], ...]:
    named = enumerate(whole.choices, 1) if isinstance(whole, Alternatives) else ()
    return tuple((f"Alternative {number}", each.delay_s) for number, each in named if each.delay_s > waited_s)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes terms of requirements."""

    local_type: str
    gpu: GpuRequirement | None
    auto_gpu: bool
    exclusive: bool

    def choices(self, whole: AnyRequirement, waited_s: float) -> Iterator[Choice]:
        match whole:
            case Alternatives(alternatives):
                for number, each in enumerate(alternatives, 1):
                    if each.delay_s <= waited_s:
                        yield from self._ways(each.requirement, f"Alternative {number}")
            case _:
                yield from self._ways(whole, "")

    def _ways(self, requirement: Requirement | Compound, name: str) -> Iterator[Choice]:
        """`name`: of the alternative; empty when there is no other."""
        if isinstance(requirement, Compound):
            terms = tuple(
                self._term(with_rusage(term.requirement, [term.requirement.rusage]), term.count, place)
                for place, term in enumerate(requirement.terms)
            )
            text = " + ".join(
                f"{'' if term.tasks is None else f'{term.tasks}*'}{{{print_combined(term.requirement)}}}"
                for term in terms
            )
            yield Choice(terms, tuple(canonical(key.name) for key in requirement.same), text if name else "", name)
            return
        usages = requirement.every_rusage
        for number, usage in enumerate(usages, 1):
            part = with_rusage(requirement, [usage])
            text = print_combined(part) if name or len(usages) > 1 else ""
            of_usage = f"{name} with rusage {number}" if name else f"Alternative {number} of rusage"
            yield Choice((self._term(part, None, 0),), (), text, of_usage if len(usages) > 1 else name)

    def _term(self, part: Requirement, tasks: int | None, place: int) -> Term:
        reserved = _Reserved(self.gpu, part.span)
        for item in part.rusage:
            reserved.add(item)
        reserved.add_gpu()
        names = frozenset(name for name, _ in select_names(part.select)) if part.select is not None else frozenset()
        return Term(
            requirement=part,
            tasks=tasks,
            select=compile_select(part.select, local_type=self.local_type),
            mask=compile_mask(part.select, local_type=self.local_type),
            names=names,
            conjuncts=tuple(
                (frozenset(name for name, _ in select_names(each)), compile_select(each, local_type=self.local_type))
                for each in _conjuncts(part.select)
            ),
            order=_sort_keys(part.order),
            per_host=reserved.amounts[""],
            per_task=reserved.amounts["task"],
            once=reserved.amounts["job"],
            host_devices=tuple(Devices(*item) for item in reserved.devices[""].items()),
            task_devices=tuple(Devices(*item) for item in reserved.devices["task"].items()),
            bounds=tuple(reserved.bounds),
            span=part.span,
            same=tuple(canonical(key.name) for key in part.same),
            cu=part.cu,
            auto_gpu=self.auto_gpu,
            exclusive=self.exclusive,
            affinity=part.affinity,
            courses=reserved.courses,
            is_first=place == 0,
        )


class _Reserved:
    """The reservations of a term, by how they are made: "" per host, "task", "job"."""

    def __init__(self, gpu: GpuRequirement | None, span: Span | None) -> None:
        self._gpu = gpu
        self._gtile = "" if span is None or span.gtile is None else str(span.gtile or "!")
        self.amounts: dict[str, dict[str, float]] = {"": {}, "task": {}, "job": {}}
        self.devices: dict[str, dict[DeviceKind, int]] = {"": {}, "task": {}}
        self.courses: dict[str, Steps] = {}
        self.bounds: list[Bound] = []

    def add(self, item: Reservation) -> None:
        name = canonical(item.name)
        method = item.method if item.method in ("task", "job") else ""
        if item.threshold is not None:
            self.bounds.append(Bound(name, item.threshold))
        amount = at_start(item)
        if amount <= 0:
            return
        if name == PHYSICAL:
            # With -gpu this is how its number shows in the combined requirement.
            self._gpu = self._gpu or gpu_of(item)
        elif name in gpu_counter_claims():
            self._claim("task" if method == "task" else "", DeviceKind(name, tile=self._gtile), int(item.amount))
        else:
            # Nothing is reserved twice in one rusage, so that an amount has one method and one course.
            self.amounts[method][name] = amount
            steps = course(item)
            if steps:
                self.courses[name] = steps

    def add_gpu(self) -> None:
        """What -gpu asks for."""
        if self._gpu is not None:
            kind = kind_of(self._gpu)
            kind = kind._replace(tile=kind.tile or self._gtile)
            self._claim("task" if self._gpu.per == "task" else "", kind, self._gpu.num)

    def _claim(self, method: str, kind: DeviceKind, count: int) -> None:
        if count:
            table = self.devices[method]
            table[kind] = table.get(kind, 0) + count


def kind_of(asked: GpuRequirement) -> DeviceKind:
    """The devices that -gpu asks for."""
    if asked.mode == "exclusive_process":
        claim = PROCESS_CLAIM
    elif asked.j_exclusive or (asked.share is not None and asked.share >= 1.0):
        claim = ALONE_CLAIM
    else:
        claim = SHARED_CLAIM
    share = 1.0 if asked.share is None else asked.share
    return DeviceKind(
        claim, share, asked.gmem_mib or 0.0, asked.gmodel, asked.glink, asked.gtile, asked.gpack or share < 1.0
    )


def _conjuncts(select: Expression | None) -> Iterator[Expression]:
    match select:
        case None:
            return
        case Group(inner):
            yield from _conjuncts(inner)
        case AllOf(terms):
            for term in terms:
                yield from _conjuncts(term)
        case _:
            yield select


def _sort_keys(keys: Iterable[OrderKey]) -> tuple[SortKey, ...] | None:
    found = []
    for key in keys:
        if key.expression is None or isinstance(key.expression, Name):
            found.append(SortKey(canonical(key.name), key.is_reversed))
        else:
            first = next(name for name, _ in select_names(key.expression))
            found.append(SortKey(first, key.is_reversed, key.expression))
    default = tuple(SortKey(*key) for key in DEFAULT_ORDER)
    return None if not found or tuple(found) == default else tuple(found)
