"""What one job of a requirement class needs on a host, compiled once per class: select, GPU claims, amounts, order.

It never looks at a host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from gsched.model.resource import gpu_counter_claims
from gsched.model.snapshot import HostValues, RequirementClass
from gsched.resreq.ast import Requirement
from gsched.resreq.evaluate import DEFAULT_ORDER, Verdict, compile_select, order_keys
from gsched.resreq.names import canonical
from gsched.resreq.syntax import parse_combined

CACHED_CLASSES = 4096


@dataclass(frozen=True, slots=True)
class Demand:
    """A requirement class in the form that placing needs. GPU claims are per host; `order` is None when not given."""

    select: Callable[[HostValues], Verdict]
    claims: Mapping[str, int]
    amounts: Mapping[str, float]
    order: tuple[tuple[str, bool], ...] | None
    slots: int
    asked_hosts: tuple[str, ...]
    avoid_host: str
    auto_gpu: bool

    @property
    def wants_gpus(self) -> bool:
        return bool(self.claims) or self.auto_gpu


def reserved_amounts(requirement: Requirement, slots: int) -> dict[str, float]:
    """Canonical name -> what a job of `slots` slots on one host reserves: `/task` counts per slot, the rest once."""
    return {canonical(item.name): item.amount * (slots if item.method == "task" else 1) for item in requirement.rusage}


def gpu_claims(amounts: Mapping[str, float]) -> dict[str, int]:
    """GPU counter -> devices claimed, of `reserved_amounts`."""
    return {name: int(amounts[name]) for name in gpu_counter_claims() if amounts.get(name, 0) > 0}


@lru_cache(maxsize=CACHED_CLASSES)
def demand_of(requirement: RequirementClass, local_type: str) -> Demand:
    """The demand of a class. Raises RequirementError for a text that admission should have refused."""
    parsed = parse_combined(requirement.requirement)
    amounts = reserved_amounts(parsed, requirement.slots)
    keys = tuple(order_keys(parsed))
    return Demand(
        select=compile_select(parsed.select, local_type=local_type),
        claims=gpu_claims(amounts),
        amounts={name: amount for name, amount in amounts.items() if name not in gpu_counter_claims() and amount > 0},
        order=None if keys == DEFAULT_ORDER else keys,
        slots=requirement.slots,
        asked_hosts=requirement.asked_hosts,
        avoid_host=requirement.avoid_host,
        auto_gpu=requirement.auto_gpu,
    )
