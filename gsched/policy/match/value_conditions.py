"""Are the values of a host what a job asks for? See gsched.policy.match.fit_condition."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from gsched.base.coded_text import coded
from gsched.model.hosts.resource import GPU_COUNTERS
from gsched.model.scheduling.column_part import Flags, RowValues
from gsched.model.scheduling.columns import HostColumns, singly
from gsched.model.scheduling.snapshot import HostSnapshot
from gsched.policy.devices import gpu_choice
from gsched.policy.match.fit_condition import (
    HostsView,
    RowTest,
    ValueCondition,
)
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.requirement.demand import Bound, DemandTerm
from gsched.policy.requirement.reasons import Reason, reserving
from gsched.resreq.judging.select import CompiledSelect, Conjunct

UNSATISFIED = coded("pending.requirement")
_COUNTERS = frozenset(GPU_COUNTERS)


class ExclusiveResources(ValueCondition):
    """A host with exclusive resources (`!name` in lsf.cluster) is for jobs that name one of them in select[]."""

    is_fixed = True

    def __init__(self, names: frozenset[str]) -> None:
        self._asked = names

    @classmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        yield cls(term.select.names)

    def refusal(self, now: HostNow) -> Reason | None:
        host = now.host
        if not self._keeps_out(host):
            return None
        names = ", ".join(host.exclusive_resources)
        return Reason(UNSATISFIED, coded("numbers.kept_for", host.name, names), candidate=False)

    def _keeps_out(self, host: HostSnapshot) -> bool:
        return bool(host.exclusive_resources) and self._asked.isdisjoint(host.exclusive_resources)

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return view.of(np.array([self._keeps_out(host) for host in columns.hosts], dtype=np.bool_))


class Selected(ValueCondition):
    """select[]."""

    def __init__(self, select: CompiledSelect) -> None:
        self._select = select
        self.names = select.names

    @classmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        if term.select.expression is not None:
            yield cls(term.select)

    @property
    def key(self) -> Hashable:
        return repr(self._select.expression)

    def refusal(self, now: HostNow) -> Reason | None:
        verdict = self._select.judge(now.values)
        if verdict:
            return None
        closed = gpu_choice.not_offered(now.host_ledger, "ngpus") if self.names & _COUNTERS else ""
        if closed:  # which may be why a counter is as low as it is
            return Reason(UNSATISFIED, coded("numbers.on_not_offered", verdict.reason, now.host.name, closed))
        return Reason(UNSATISFIED, coded("numbers.on", verdict.reason, now.host.name))

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return ~self._select.mask(view).holds

    def row_tests(self, columns: HostColumns) -> list[RowTest]:
        return [_row_test(each, columns) for each in self._select.conjuncts if columns.is_live(each.names)]


class Thresholds(ValueCondition):
    """threshold= of rusage[]."""

    def __init__(self, bounds: tuple[Bound, ...], rules: FitRules) -> None:
        self._bounds = bounds
        self._increasing = rules.increasing
        self.names = frozenset(name for name, _ in bounds)

    @classmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        if term.bounds:
            yield cls(term.bounds, rules)

    @property
    def key(self) -> Hashable:
        return self._bounds

    def refusal(self, now: HostNow) -> Reason | None:
        for name, bound in self._bounds:
            value = now.values.get(name)
            known = float(value) if isinstance(value, float | int) else None
            if known is None or (known > bound if name in self._increasing else known < bound):
                said = coded("numbers.unknown_value") if known is None else coded("numbers.amount", known)
                return Reason(reserving(name), coded("numbers.threshold_on", bound, name, said, now.host.name))
        return None

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        missing = np.zeros(view.size, dtype=np.bool_)
        for name, bound in self._bounds:
            values = view.number(name)
            if values is None:
                missing[:] = True
            else:
                missing |= ~(values <= bound if name in self._increasing else values >= bound)
        return missing


VALUE_CONDITIONS: list[type[ValueCondition]] = [ExclusiveResources, Selected, Thresholds]


def value_conditions(term: DemandTerm, rules: FitRules) -> list[ValueCondition]:
    """What tasks of the term ask of a host's values."""
    return [each for kind in VALUE_CONDITIONS for each in kind.of(term, rules)]


def _row_test(conjunct: Conjunct, columns: HostColumns) -> RowTest:
    """Whether a part of select[] holds for a row: quick where one resource is compared with a number."""
    simple = conjunct.comparison
    column = None if simple is None else columns.number(simple.name)
    if simple is None or column is None:
        return lambda row: conjunct.judge(RowValues(columns, row))
    values, relation, number = singly(column), simple.relation, simple.number
    return lambda row: relation(values[row], number)  # of NaN no such relation holds
