"""Why the hosts of a match take no job: counted over all hosts at once, with the numbers of the first of each kind.

The codes come from the conditions, each asked of one host; what was found is kept while it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gsched.base.coded_text import AnyText
from gsched.model.jobs.reason import PendingReason
from gsched.model.scheduling.columns import HostColumns
from gsched.policy.match.columns import FITS, Match
from gsched.policy.match.host_conditions import RECENT, SaidByHost
from gsched.policy.match.host_now import HostNow, live_values
from gsched.policy.requirement.reasons import NAMED_HOSTS, Reason, ranked

_Found = dict[tuple[AnyText, bool], tuple[int, AnyText, list[str]]]
"""(text, candidate) -> hosts, numbers of the first, names of the first few."""


class MatchReasons:
    """The reasons of a match, kept with the columns between cycles."""

    def __init__(self, columns: HostColumns, match: Match) -> None:
        self._columns = columns
        self.match = match
        self._revision = -1
        self._firsts: frozenset[int] = frozenset()
        """Rows whose numbers are told."""
        self._told: tuple[PendingReason, ...] = ()

    def of(self, refused: Mapping[int, Reason]) -> tuple[PendingReason, ...]:
        """Each host's reason, counted; `refused` are those of hosts where the class would fit. Never empty."""
        match = self.match
        if refused:
            found = self._count()
            for row, reason in sorted(refused.items()):
                if match.codes[row] == FITS:
                    _add(found, reason, 1, [self._columns.names[row]])
            return _told(found)
        if match.revision != self._revision or not match.changed.isdisjoint(self._firsts):
            self._told = _told(self._count())
            self._revision = match.revision
        match.changed.clear()
        return self._told

    def _count(self) -> _Found:
        match, columns = self.match, self._columns
        found: _Found = {}
        firsts = []
        for code in np.flatnonzero(match.counts).tolist():
            if code == FITS:
                continue
            rows = np.flatnonzero(match.codes == code)
            firsts.append(int(rows[0]))
            condition = match.conditions[code]
            if isinstance(condition, SaidByHost):
                self._said(rows.tolist(), condition, found)
                continue
            names = [columns.names[row] for row in rows[:NAMED_HOSTS]]
            _add(found, self._ask(int(rows[0]), code), len(rows), names)
        self._firsts = frozenset(firsts)
        return found

    def _said(self, rows: Iterable[int], condition: SaidByHost, found: _Found) -> None:
        groups: dict[PendingReason, list[str]] = {}
        for row in rows:
            host = self._columns.hosts[row]
            if (said := condition.said(host)) is not None:
                groups.setdefault(said, []).append(host.name)
        for reason, names in groups.items():
            _add(found, Reason(reason.text, reason.detail), len(names), names)

    def _ask(self, row: int, code: int) -> Reason:
        columns = self._columns
        host, host_ledger = columns.hosts[row], columns.host_ledger(row)
        now = HostNow(host, host_ledger, live_values(host, host_ledger, columns.shared_left(row)))
        return self.match.conditions[code].refusal(now) or RECENT


def _add(found: _Found, reason: Reason, count: int, names: list[str]) -> None:
    key = (reason.text, reason.candidate)
    before = found.get(key)
    if before is None:
        found[key] = (count, reason.detail, names[:NAMED_HOSTS])
    else:
        found[key] = (before[0] + count, before[1] or reason.detail, [*before[2], *names][:NAMED_HOSTS])


def _told(found: _Found) -> tuple[PendingReason, ...]:
    return ranked(
        PendingReason(text, count, detail, candidate, tuple(names))
        for (text, candidate), (count, detail, names) in found.items()
    )
