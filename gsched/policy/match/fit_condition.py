"""What a condition is: one thing that a host must meet to take tasks of a job; for one host, for all, and why not.

There are three kinds, each with a list: host_conditions, value_conditions, room_conditions. Whoever asks whether a job
fits goes through these lists: columns (all hosts at once), the scalar trial of planning and preemption, the fast path,
and the check of what is carried out. To add a condition, write a class and name it in its list: `of` makes it for the
jobs that it concerns; `refusal` asks one host; `unmet` asks many in array operations and must say the same. What stands
first in the lists is told first. The words of its reason stand in base.sentences. A RoomCondition has a `refusal_of`,
or the check of what is carried out does not see it, and a `column`, or its jobs never take the fast path. For an
example see tests/unit/policy/test_policy_new_condition.py. Limits and planned starts are no conditions of a host
(place.placement_guard). A condition takes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import ClassVar

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.column_part import ColumnPart, Flags, HostNumbers, RowValues
from gsched.model.scheduling.columns import HostColumns
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.requirement.demand import Demand, DemandTerm, HostNeed
from gsched.policy.requirement.reasons import Reason

HostsView = HostColumns | ColumnPart
"""All hosts, or some of their rows."""
RowTest = Callable[[int], object]
"""Whether a row meets something."""


class FitCondition(ABC):
    """One thing that a host must meet."""

    is_fixed: ClassVar[bool] = False
    """Whether only a new configuration changes what it says of a host."""

    @abstractmethod
    def refusal(self, now: HostNow) -> Reason | None:
        """Why the host does not meet it; None when it does."""

    @abstractmethod
    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        """The rows of the view, which is of the columns, that do not meet it."""


class HostCondition(FitCondition):
    """Whether the host is one for jobs of a class in their queue, whatever is free there."""

    @classmethod
    @abstractmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        """The condition for such jobs; none where it says nothing. `on_first`: the host would be the job's first."""

    @property
    def key(self) -> Hashable:
        """Equal where two say the same of all hosts."""
        return self


class ValueCondition(FitCondition):
    """Whether the host's values are what the job asks for."""

    names: frozenset[str] = frozenset()
    """Resources that it looks at. It is asked again for each host that is taken of if what is left of one counts."""

    @classmethod
    @abstractmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        """The condition for tasks of the term; none where it says nothing."""

    @property
    def key(self) -> Hashable:
        """Equal where two say the same of all hosts."""
        return self

    def row_tests(self, columns: HostColumns) -> list[RowTest]:
        """What of it looks at what is left, for one row at a time."""

        def test(row: int) -> bool:
            return self.refusal(HostNow(columns.hosts[row], columns.host_ledger(row), RowValues(columns, row))) is None

        return [test] if columns.is_live(self.names) else []


class RoomCondition(FitCondition):
    """Whether so much is free there."""

    @classmethod
    @abstractmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        """The conditions for tasks that need this; none where it says nothing."""

    @classmethod
    def refusal_of(cls, part: HostAllocation, host_ledger: HostLedger) -> Reason | None:
        """Why the ledger does not let anybody take just this part; None when it does, or where it does not say."""
        return None

    def column(self, columns: HostColumns) -> HostNumbers | Flags | None:
        """Where a host meets it that has at least `wanted` in a column: this column, the same in an epoch of the
        columns. None where no column says it all; jobs then never go by the fast path.
        """
        return None

    @property
    def wanted(self) -> float:
        """See `column`."""
        return 1.0


class CountedRoom(RoomCondition):
    """Room that one column counts."""

    @abstractmethod
    def column(self, columns: HostColumns) -> HostNumbers | Flags:
        """What each host has."""

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return view.short_of(self.column(columns), self.wanted)


def refusal(conditions: Iterable[FitCondition], now: HostNow) -> Reason | None:
    """Why the host does not meet the first of these that it does not meet; None when it meets all."""
    for each in conditions:
        found = each.refusal(now)
        if found is not None:
            return found
    return None
