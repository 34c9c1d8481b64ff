"""Reads a requirement class: the texts of -R and -gpu as terms that placing understands (demand).

Once per class, then remembered; it never looks at a host. Source of the rules: bsub(1), options -n, -R, -gpu and -x.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from gsched.base.errors import RequirementError
from gsched.model.hosts.resource import gpu_counter_claims
from gsched.model.ledgers.allocation import ALONE_CLAIM, MIG_ALONE_CLAIM, MIG_CLAIM, PROCESS_CLAIM, SHARED_CLAIM
from gsched.model.scheduling.snapshot import RequirementClass
from gsched.policy.requirement.demand import (
    CACHED_CLASSES,
    PHYSICAL,
    Bound,
    Demand,
    DemandTerm,
    DeviceKind,
    Devices,
    RequirementChoice,
    SortKey,
    tasks_of,
)
from gsched.resreq.amount_steps import AmountSteps, at_start, course
from gsched.resreq.ast import (
    Alternatives,
    AnyRequirement,
    Compound,
    Name,
    OrderKey,
    Requirement,
    Reservation,
    Span,
)
from gsched.resreq.combining.stored import COMBINED, COMBINED_GPU
from gsched.resreq.judging.evaluate import DEFAULT_ORDER
from gsched.resreq.judging.select import compile_forms
from gsched.resreq.parsing.gpu import GpuRequirement, gpu_of
from gsched.resreq.parsing.names import canonical, select_names
from gsched.resreq.parsing.printer import print_combined
from gsched.resreq.parsing.simple import with_rusage


@lru_cache(maxsize=CACHED_CLASSES)
def demand_of(requirement: RequirementClass, local_type: str) -> Demand:
    """The demand of a class. Raises RequirementError for a text that admission should have refused."""
    whole = COMBINED.of(requirement.requirement)
    demand = Demand(
        choices=_choices_of(
            requirement.requirement,
            requirement.gpu,
            local_type,
            requirement.waited_s,
            auto_gpu=requirement.auto_gpu,
            exclusive=requirement.exclusive,
        ),
        slots=requirement.slots,
        max_slots=max(requirement.slots, requirement.max_slots),
        asked_hosts=requirement.asked_hosts,
        other_hosts=requirement.other_hosts,
        levels=dict(zip(requirement.asked_hosts, requirement.host_levels, strict=False)),
        first_hosts=requirement.first_hosts,
        avoid_host=requirement.avoid_host,
        excluded_hosts=requirement.excluded_hosts,
        container_runtimes=requirement.container_runtimes,
        later=_later(whole, requirement.waited_s),
        most_gpus=_most_gpus(requirement.gpu),
    )
    for choice in demand.choices:
        detail = _misfit(choice, demand)
        if detail:
            raise RequirementError("Bad resource requirement syntax", detail, requirement.requirement, 0)
    return demand


def _most_gpus(gpu: str) -> int:
    asked = COMBINED_GPU.of(gpu) if gpu else None
    return 0 if asked is None else asked.most


@lru_cache(maxsize=CACHED_CLASSES)
def _choices_of(
    requirement: str, gpu: str, local_type: str, waited_s: float, *, auto_gpu: bool, exclusive: bool
) -> tuple[RequirementChoice, ...]:
    """Read once for all classes that differ in their run limits, slots or hosts alone: of a real workload most do."""
    asked = COMBINED_GPU.of(gpu) if gpu else None
    reader = _Reader(local_type, asked, auto_gpu, exclusive)
    return tuple(reader.choices(COMBINED.of(requirement), waited_s))


def _misfit(choice: RequirementChoice, demand: Demand) -> str:
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

    def choices(self, whole: AnyRequirement, waited_s: float) -> Iterator[RequirementChoice]:
        match whole:
            case Alternatives(alternatives):
                for number, each in enumerate(alternatives, 1):
                    if each.delay_s <= waited_s:
                        yield from self._ways(each.requirement, f"Alternative {number}")
            case _:
                yield from self._ways(whole, "")

    def _ways(self, requirement: Requirement | Compound, name: str) -> Iterator[RequirementChoice]:
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
            yield RequirementChoice(
                terms, tuple(canonical(key.name) for key in requirement.same), text if name else "", name
            )
            return
        usages = requirement.every_rusage
        for number, usage in enumerate(usages, 1):
            part = with_rusage(requirement, [usage])
            text = print_combined(part) if name or len(usages) > 1 else ""
            of_usage = f"{name} with rusage {number}" if name else f"Alternative {number} of rusage"
            yield RequirementChoice((self._term(part, None, 0),), (), text, of_usage if len(usages) > 1 else name)

    def _term(self, part: Requirement, tasks: int | None, place: int) -> DemandTerm:
        reserved = _Reserved(self.gpu, part.span)
        for item in part.rusage:
            reserved.add(item)
        reserved.add_gpu()
        return DemandTerm(
            requirement=part,
            tasks=tasks,
            select=compile_forms(part.select, local_type=self.local_type),
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
            exclusive=self.exclusive or (part.cu is not None and part.cu.excl),
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
        self.courses: dict[str, AmountSteps] = {}
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
            self._claim("task" if method == "task" else "", DeviceKind(name, tile=self._gtile), int(amount))
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
    if asked.mig:
        claim = MIG_ALONE_CLAIM if asked.j_exclusive else MIG_CLAIM
    elif asked.mode == "exclusive_process":
        claim = PROCESS_CLAIM
    elif asked.j_exclusive or (asked.share is not None and asked.share >= 1.0):
        claim = ALONE_CLAIM
    else:
        claim = SHARED_CLAIM
    share = 1.0 if asked.share is None else asked.share
    return DeviceKind(
        claim,
        share,
        asked.gmem_mib or 0.0,
        asked.gmodel,
        asked.glink,
        asked.gtile,
        asked.gpack or share < 1.0,
        asked.mig,
    )


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
