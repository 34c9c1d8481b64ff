"""What tests read out of a parsed requirement."""

from __future__ import annotations

from gsched.resreq.ast import Requirement
from gsched.resreq.combining.combine import Combined, combine
from gsched.resreq.judging.evaluate import DEFAULT_ORDER
from gsched.resreq.parsing.names import IsName, canonical
from gsched.resreq.parsing.syntax import parse_any


def rusage_amounts(requirement: Requirement) -> dict[str, float]:
    return {canonical(item.name): item.amount for item in requirement.rusage}


def order_keys(requirement: Requirement) -> list[tuple[str, bool]]:
    return [(canonical(key.name), key.is_reversed) for key in requirement.order] or list(DEFAULT_ORDER)


def combine_texts(job: str, queue: str = "", app: str = "", *, is_boolean: IsName | None = None) -> Combined:
    """What the texts of a job, its queue and its application profile make together."""
    return combine(parse_any(job), parse_any(queue), parse_any(app), is_boolean=is_boolean)
