"""The demands of the classes that one cycle meets, each read once. It places nothing and counts nothing."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.base.errors import RequirementError
from gsched.model.scheduling.snapshot import RequirementClass
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.demand_reader import demand_of


class Demands:
    """What jobs need, by class."""

    def __init__(self, local_type: str) -> None:
        self._local_type = local_type
        self._known: dict[RequirementClass, Demand | RequirementError] = {}

    def of(self, requirement: RequirementClass) -> Demand | RequirementError:
        """What a job of the class needs, or what is wrong with its requirement."""
        found = self._known.get(requirement)
        if found is None:
            try:
                found = demand_of(requirement, self._local_type)
            except RequirementError as error:
                found = error
            self._known[requirement] = found
        return found

    def least(self, requirement: RequirementClass) -> Mapping[str, float]:
        """What a job of the class takes at the least, as Demand.least says; nothing where its requirement is wrong."""
        demand = self.of(requirement)
        return {} if isinstance(demand, RequirementError) else demand.least()
