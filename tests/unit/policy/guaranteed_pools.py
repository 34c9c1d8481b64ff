"""Jobs of service classes and guaranteed pools for tests of policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsched.model.queues.guarantee import GuaranteePool, Portion
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, RequirementClass

QUEUES = (Queue(name="q"), Queue(name="short"), Queue(name="free", ignores_guarantees=True))
TEN_MIN = 600.0


def job(
    service_class: str = "", queue: str = "q", slots: int = 1, user: str = "ann", text: str = "", **asked: Any
) -> Bucket:
    return Bucket(queue, user, RequirementClass(text, slots, **asked), service_class=service_class)


def pool(unit: Mapping[str, float] | None = None, name: str = "p", **changes: Any) -> GuaranteePool:
    unit = {"slots": 1.0} if unit is None else unit
    shares = {key: Portion(float(value)) for key, value in changes.pop("shares", {"gold": 3}).items()}
    return GuaranteePool(name=name, kind="slots", unit=unit, shares=shares, **changes)


OWNERS = ("gold", "silver")
