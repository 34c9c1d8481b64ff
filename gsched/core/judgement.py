"""Is a resource requirement one that this cluster understands and can honour? Judged once per text, then remembered.

A requirement costs some hundred microseconds to read and combine, and thousands of submissions share one. It never
looks at what hosts have now: whether a host could meet it is admission's question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from gsched.base.errors import RequirementError
from gsched.model.config import ClusterConfig
from gsched.model.resource import BUILTIN, GPU_COUNTERS, ResourceType
from gsched.policy.demand import reserved_amounts
from gsched.resreq.ast import Requirement, Reservation
from gsched.resreq.combine import combine
from gsched.resreq.names import canonical, check_names
from gsched.resreq.syntax import BAD_NAME, BAD_SYNTAX, parse

REMEMBERED = 1024
"""Requirements that are remembered per configuration."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A requirement that can be scheduled by: the combined text, and what a job reserves on its host."""

    text: str
    amounts: Mapping[str, float]


Judge = Callable[[str, str, int], Judged]
"""(requirement text, queue name, slots) -> Judged. Raises RequirementError."""


def judge_for(config: ClusterConfig) -> Judge:
    """The judge of a configuration; it forgets what was used least recently."""

    @lru_cache(maxsize=REMEMBERED)
    def judge(res_req: str, queue: str, slots: int) -> Judged:
        return _judge(config, res_req, queue, slots)

    return judge


def _judge(config: ClusterConfig, res_req: str, queue: str, slots: int) -> Judged:
    queue_req = config.queues[queue].res_req
    asked, given = parse(res_req), parse(queue_req)
    for requirement in (asked, given):
        _check_known(requirement, config)
        for key in requirement.order:
            _check_sortable(key.name, key.position, requirement.source, config)
        for item in requirement.rusage:
            _check_reservable(item, requirement.source, config)
    _check_span(asked, given, slots)
    combined = combine(res_req, queue_req, is_boolean=lambda name: _has_type(config, name, ResourceType.BOOLEAN))
    return Judged(combined.text, reserved_amounts(combined.requirement, slots))


def _has_type(config: ClusterConfig, name: str, wanted: ResourceType) -> bool:
    resource = config.resource(canonical(name))
    return resource is not None and resource.type is wanted


def _check_known(requirement: Requirement, config: ClusterConfig) -> None:
    check_names(
        requirement,
        lambda name: config.resource(canonical(name)) is not None,
        [*BUILTIN, *config.resources],
        is_text=lambda name: _has_type(config, name, ResourceType.STRING),
    )


def _check_sortable(name: str, position: int, source: str, config: ClusterConfig) -> None:
    if not _has_type(config, name, ResourceType.NUMERIC):
        raise RequirementError(BAD_NAME, f"order[{name}]: {name} is not a number to sort by", source, position)


def _check_reservable(item: Reservation, source: str, config: ClusterConfig) -> None:
    name = canonical(item.name)
    if name == "ngpuprohibited":
        detail = "ngpuprohibited cannot be reserved: a prohibited GPU is never used"
        raise RequirementError(BAD_NAME, detail, source, item.position)
    if name in GPU_COUNTERS:
        if item.amount != int(item.amount):
            detail = f"{item.name}={item.text}: GPUs are claimed whole"
            raise RequirementError(BAD_SYNTAX, detail, source, item.position)
        return
    resource = config.resource(name)
    if resource is not None and not resource.consumable:
        where = f": set CONSUMABLE to Y in {resource.source}" if resource.source else " (it is built in)"
        detail = f"{item.name} is not consumable and cannot be reserved by rusage{where}"
        raise RequirementError(BAD_NAME, detail, source, item.position)


def _check_span(asked: Requirement, given: Requirement, slots: int) -> None:
    """A job runs on one host; what asks for more is refused. hosts=1, hosts=-1 and same[] hold there anyway."""
    requirement = asked if asked.span is not None else given
    if requirement.span is None or requirement.span.ptile is None or requirement.span.ptile >= slots:
        return
    detail = (
        f"span[ptile={requirement.span.ptile}] spreads -n {slots} over several hosts, which is not supported: a job "
        f"runs on one host (span[hosts=1], or ptile={slots} or more)"
    )
    raise RequirementError(BAD_SYNTAX, detail, requirement.source, max(0, requirement.source.find("span")))
