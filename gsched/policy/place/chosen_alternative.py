"""Which alternative (`{..} || {..}`) of a job's requirement a place meets that plans or preemption have found.

It looks at what the place holds and at its hosts, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import HostValues
from gsched.policy.requirement.demand import Demand, DemandTerm, HostNeed, RequirementChoice

ValuesOf = Callable[[str], HostValues]
"""Name of a host -> what is left of its resources, without what the place takes."""


def choice_of(demand: Demand, allocation: Allocation, values: ValuesOf) -> RequirementChoice:
    """The first of the demand's choices that holds just what the place does, on hosts that its select[] wants.

    Where none does that wholly (of a compound, whose parts may share hosts; or on hosts that are free only when other
    jobs have gone) the first that comes nearest.
    """
    choices = demand.choices
    return choices[0] if len(choices) == 1 else max(choices, key=lambda each: _likeness(each, allocation, values))


def _likeness(choice: RequirementChoice, allocation: Allocation, values: ValuesOf) -> tuple[bool, bool, bool]:
    wanted = {name for term in choice.terms for name in (*term.per_host, *term.per_task, *term.once)}
    could_be = all(part.amounts.keys() <= wanted for part in allocation.hosts)
    if len(choice.terms) > 1:
        stated = sum(term.tasks or 0 for term in choice.terms)
        has_all = all(any(name in part.amounts for part in allocation.hosts) for name in wanted)
        return could_be, has_all and stated <= allocation.slots, False
    (term,) = choice.terms
    is_same = could_be and _holds(term, allocation)
    return could_be, is_same, is_same and all(bool(term.select.judge(values(part.host))) for part in allocation.hosts)


def _holds(term: DemandTerm, allocation: Allocation) -> bool:
    """Whether the place holds what the tasks of this term take on its hosts, no more and no less."""
    if term.one_host and len(allocation.hosts) > 1:
        return False
    for number, part in enumerate(allocation.hosts):
        need = term.need(part.slots, first=not number)
        if part.amounts != dict(need.amounts) or (not need.auto_gpu and len(part.gpus) != _devices(need)):
            return False
    return True


def _devices(need: HostNeed) -> int:
    return sum(count for _, count in need.devices)
