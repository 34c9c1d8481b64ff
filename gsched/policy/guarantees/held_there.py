"""What the jobs of one owner hold together on one host of a pool that counts GPUs: a GPU once, however many share it.

It knows no other owner and no guarantee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.held_amounts import amount_of
from gsched.model.queues.limit import GPUS


class HeldThere:
    """See the module. `unit`: the pool's."""

    def __init__(self, unit: Mapping[str, float]) -> None:
        self._unit = unit
        self._devices: Counter[str] = Counter()
        self._amounts = dict.fromkeys((name for name in unit if name != GPUS), 0.0)

    def add(self, part: HostAllocation, sign: int = 1) -> None:
        """A job of the owner has the part, or (-1) has it no more."""
        for gpu in part.gpus:
            self._devices[gpu.uuid] += sign
            if not self._devices[gpu.uuid]:
                del self._devices[gpu.uuid]
        for name in self._amounts:
            self._amounts[name] += sign * amount_of(part, name)

    def in_units(self, more: HostAllocation | None = None) -> float:
        """How many units that is, not rounded; with `more` beside it."""
        gpus = len(self._devices)
        if more is not None:
            gpus += sum(gpu.uuid not in self._devices for gpu in more.gpus)
        amounts = self._amounts.items()
        others = ((name, held + (amount_of(more, name) if more is not None else 0.0)) for name, held in amounts)
        return max(gpus / self._unit[GPUS], *(amount / self._unit[name] for name, amount in others), 0.0)
