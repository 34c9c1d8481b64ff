"""What tests read out of a parsed requirement."""

from __future__ import annotations

from gsched.resreq.ast import Requirement
from gsched.resreq.evaluate import DEFAULT_ORDER
from gsched.resreq.names import canonical


def rusage_amounts(requirement: Requirement) -> dict[str, float]:
    return {canonical(item.name): item.amount for item in requirement.rusage}


def order_keys(requirement: Requirement) -> list[tuple[str, bool]]:
    return [(canonical(key.name), key.is_reversed) for key in requirement.order] or list(DEFAULT_ORDER)
