"""A place by force (grun): on the hosts that an administrator names, whatever select[], loads, limits and slots say.

Devices and amounts are never forced: they must be free there. It takes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.errors import RequirementError
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.scheduling.snapshot import RequirementClass, Snapshot
from gsched.policy.match.compute_units import Units
from gsched.policy.match.host_fit import fill
from gsched.policy.requirement.demand_reader import demand_of
from gsched.policy.requirement.reasons import Reason


def placed_by_force(snapshot: Snapshot, requirement: RequirementClass, hosts: Sequence[str]) -> Allocation | None:
    """What the job would hold on the hosts, its slots dealt evenly, the first host first; None if devices lack."""
    names = list(dict.fromkeys(hosts))[: requirement.slots]
    try:
        demand = demand_of(requirement, snapshot.local_type)
    except RequirementError:
        return None
    term = demand.choices[0].terms[0]
    parts: list[HostAllocation] = []
    for number, name in enumerate(names):
        slots = requirement.slots // len(names) + (number < requirement.slots % len(names))
        part = fill(term.need(slots, first=number == 0), snapshot.ledger.host(name))
        if isinstance(part, Reason):
            return None
        parts.append(part)
    if not parts:
        return None
    units = Units(snapshot.compute_units, term, snapshot.hosts)
    return units.whole(Allocation(hosts=tuple(parts)))
