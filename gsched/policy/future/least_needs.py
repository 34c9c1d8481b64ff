"""The least that a job takes, as far as it can be told before a place is known. It looks at no host."""

from __future__ import annotations

from typing import NamedTuple

from gsched.model.ledgers.allocation import SHARING, HostAllocation
from gsched.policy.requirement.demand import Demand, HostNeed, RequirementChoice, amounts_of

NO_LIMIT = 1e9
Amounts = tuple[tuple[str, float], ...]
"""(resource, amount) pairs."""


class Need(NamedTuple):
    """The least that a job takes. `slots` and `gpus` on each of its hosts, `total` slots on all of them."""

    slots: int
    gpus: int
    total: int
    most: float = NO_LIMIT
    """Most slots on one host."""
    whole_units: bool = False
    """It takes compute units with all their hosts (cu[excl])."""
    amounts: Amounts = ()
    """What it reserves of other resources on each of its hosts."""
    total_amounts: Amounts = ()
    """The same on all of them together."""

    @property
    def on_one(self) -> bool:
        """Whether it is enough to look at one host at a time."""
        return self.total <= self.slots and not self.whole_units


def needs_of(demand: Demand) -> list[Need]:
    """The needs of a job's alternatives, as far as they can be told beforehand."""
    needs = []
    for choice in demand.choices:
        need, term = _need_of(choice, demand.slots), choice.terms[0]
        one = term.need(need.slots, first=need.total <= need.slots).amounts if len(choice.terms) == 1 else {}
        needs.append(
            need._replace(
                whole_units=term.whole_units,
                amounts=tuple(one.items()),
                total_amounts=tuple(amounts_of(choice, demand.slots).items()),
            )
        )
    return needs


def _need_of(choice: RequirementChoice, slots: int) -> Need:
    if len(choice.terms) > 1:
        return Need(1, 0, slots)
    term = choice.terms[0]
    if term.one_host or slots == 1:
        return Need(slots, _alone(term.need(slots)), slots)
    if term.block > 1:
        return Need(term.block, _alone(term.need(term.block)), slots)
    if term.most_on_host is not None:
        return Need(1, _alone(term.need(1)), slots, float(term.most_on_host))
    tile = term.span.ptile if term.span is not None and not term.span.ptile_types else None
    if tile:
        # The last host may get fewer tasks than the others, and then fewer devices.
        least = slots % tile or tile
        return Need(least, _alone(term.need(least)), slots, float(tile))
    return Need(1, _alone(term.need(1)), slots)


def _alone(need: HostNeed) -> int:
    """Devices that nobody else may hold."""
    return sum(count for kind, count in need.devices if kind.claim not in SHARING)


def alone_of(part: HostAllocation) -> int:
    """Devices of a part that nobody else may hold."""
    return sum(held.claim not in SHARING for held in part.gpus)
