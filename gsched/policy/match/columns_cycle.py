"""The columns of one cycle: which classes were matched and ranked, kept in step with what the cycle takes.

Matches are kept with the columns between cycles as long as they are used; ranks live for one cycle.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import Allocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.column_part import Flags
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import HostSnapshot, RequirementClass, Snapshot
from gsched.policy.devices.idle_levels import IdleLevels
from gsched.policy.devices.scarce_placement import scarce_hosts
from gsched.policy.match.columns import Match, ReasonCodes, TaskRequest
from gsched.policy.match.columns_rank import Ranking, load_ranks
from gsched.policy.match.columns_reasons import MatchReasons
from gsched.policy.match.host_conditions import AcceptInterval, closed_hosts
from gsched.policy.match.host_now import FitRules
from gsched.policy.match.host_scratch import HostScratch, ScratchStart
from gsched.policy.match.room_conditions import idle_gpus
from gsched.policy.requirement.demand import Demand, DemandTerm
from gsched.policy.requirement.reasons import Reason

_MOST_UNUSED = 256
"""Matches that are kept though a cycle did not use them."""


class PlacementWay(NamedTuple):
    """Some tasks of a term, to be placed on one host."""

    choice: int
    place: int
    """Of the term in its compound."""
    term: DemandTerm
    tasks: int
    first: bool = True
    """Whether the host would be the job's first."""


def _idle_devices(_host: HostSnapshot, host_ledger: HostLedger) -> float:
    return float(sum(uuid not in host_ledger.holders for uuid in host_ledger.gpus))


class CycleColumns:
    """Rankings of classes in one cycle. One step is one class looked at on all hosts."""

    def __init__(self, snapshot: Snapshot, rules: FitRules) -> None:
        columns = snapshot.columns
        if columns is None or columns.ledger is not snapshot.ledger:
            columns = HostColumns(snapshot.hosts, snapshot.ledger)
        self.columns = columns
        self.steps = 0
        self.first_looks = 0
        """Of these, at classes that no cycle has looked at lately."""
        self._snapshot = snapshot
        self._rules = rules
        self.recent: dict[float, Flags] = {}
        """JOB_ACCEPT_INTERVAL of queues, seconds -> rows that take no more jobs for a moment."""
        self._matches = _kept_matches(columns, snapshot)
        self._used: set[Hashable] = set()
        self._scarce = scarce_hosts(columns, snapshot)
        self._rankings: dict[Hashable, Ranking] = {}
        self._levels = IdleLevels(columns.log.rows, lambda: idle_gpus(columns), lambda: load_ranks(columns))
        self._reasons: dict[Hashable, MatchReasons] = columns.memo.setdefault("reasons", {})
        self.scratches: dict[int, HostScratch] = {}
        """Rows from which fast paths take."""

    def match(self, queue: Queue, requirement: RequirementClass, demand: Demand, way: PlacementWay) -> Match:
        """The class against all hosts, as the ledgers are now."""
        return self._match(self._key(queue, requirement, demand, way), queue, demand, way)

    def ranking(self, queue: Queue, requirement: RequirementClass, demand: Demand, way: PlacementWay) -> Ranking:
        """The same by rank. It keeps itself in step."""
        key = self._key(queue, requirement, demand, way)
        found = self._rankings.get(key)
        if found is None:
            match = self._match(key, queue, demand, way) if key not in self._used else self._matches[key]
            found = self._rankings[key] = Ranking(
                self.columns, match, self._rules, self._recent_of(queue), self._scarce, self._levels
            )
        return found

    def open_hosts(self, queue: Queue, requirement: RequirementClass, demand: Demand) -> list[str]:
        """The hosts that could ever give something to jobs of the class: open, in its queue, asked for; by name."""
        names = self.columns.names
        return [names[row] for row in np.flatnonzero(self.open_rows(queue, requirement, demand)).tolist()]

    def open_rows(self, queue: Queue, requirement: RequirementClass, demand: Demand) -> Flags:
        """The same as flags of rows."""
        match = self._match_of_first(queue, requirement, demand)
        return match.codes >= match.recent_code

    def met(self, queue: Queue, requirement: RequirementClass, demand: Demand) -> ReasonCodes:
        """For each row: how many conditions it meets before the first that it does not."""
        return self._match_of_first(queue, requirement, demand).codes

    def _match_of_first(self, queue: Queue, requirement: RequirementClass, demand: Demand) -> Match:
        """The first term of the class, one task of it."""
        return self.match(queue, requirement, demand, PlacementWay(0, 0, demand.choices[0].terms[0], 1, first=False))

    def open_to(self, queue: Queue) -> Flags:
        """Rows of hosts that take jobs at all and that the queue uses."""
        found: Flags = closed_hosts(self.columns) == 0
        members = self._rules.queue_hosts.get(queue.name)
        if members is not None:
            own = np.zeros(self.columns.size, dtype=np.bool_)
            own[self.columns.rows_of(frozenset(members))] = True
            found = found & own
        return found

    def reasons(
        self, queue: Queue, requirement: RequirementClass, demand: Demand, way: PlacementWay, refused: dict[int, Reason]
    ) -> tuple[PendingReason, ...]:
        """Why each host takes no job of the class; `refused`: rows that would, but for another reason."""
        key = self._key(queue, requirement, demand, way)
        match = self._match(key, queue, demand, way)
        ranking = self._rankings.get(key)
        reasons = self._reasons.get(key)
        if reasons is None or reasons.match is not match:
            reasons = self._reasons[key] = MatchReasons(self.columns, match)
        return reasons.of({**ranking.refused, **refused} if ranking is not None else refused)

    def most_idle_devices(self) -> int:
        """How many devices that nobody holds there are on one host at the most."""
        idle = self.columns.derived(_idle_devices, _idle_devices, counts_idle=True)
        return int(idle.max(initial=0))

    def usable_hosts(self) -> int:
        """How many hosts are not closed."""
        return self.columns.size - int(closed_hosts(self.columns).sum())

    def dissolve(self) -> None:
        """The cycle is over: its rankings and their ways to look at a host let go of each other."""
        for ranking in self._rankings.values():
            ranking.single = None

    def follow(self) -> None:
        """The ledger of the cycle has changed: look at those hosts anew."""
        changed = self._snapshot.ledger.changed
        index = self.columns.index
        for name in sorted(changed):
            row = index.get(name)
            if row is not None:
                self.scratches.pop(row, None)
                self.columns.try_out(row)
        changed.clear()

    def started(self, allocation: Allocation) -> None:
        """The allocation was taken from the ledger; where JOB_ACCEPT_INTERVAL is set its hosts take no more for now."""
        columns = self.columns
        for part in allocation.parts:
            row = columns.index[part.host]
            for recent in self.recent.values():
                recent[row] = True
            self.scratches.pop(row, None)
            columns.try_out(row, devices=bool(part.gpus or part.bindings))
        self._snapshot.ledger.changed.clear()

    def scratch(self, row: int) -> HostScratch | None:
        """What the host of the row has left, for fast paths to take from; None where counting does not say all."""
        columns, ledger = self.columns, self.columns.ledger
        name = columns.names[row]
        if ledger.origin is None or name in ledger.own_hosts or name in ledger.put_off:
            start = ScratchStart.of(ledger.host(name))
        else:
            start = columns.kept_of_rows.get(row) or ScratchStart.of(ledger.host(name))
            columns.kept_of_rows[row] = start
        if start.idle is None:
            return None
        found = self.scratches[row] = HostScratch(name, start.idle.copy(), start.reserved.copy())
        return found

    def took(self, row: int) -> None:
        """Something is taken from the scratch of the row: under JOB_ACCEPT_INTERVAL its host takes no more for now."""
        for recent in self.recent.values():
            recent[row] = True

    def close(self) -> None:
        """Forget matches that are no longer needed, and what of the rankings holds on to each other."""
        for ranking in self._rankings.values():
            ranking.single = None
        if len(self._matches) > len(self._used) + _MOST_UNUSED:
            for key in [key for key in self._matches if key not in self._used]:
                del self._matches[key]
                self._reasons.pop(key, None)

    def _match(self, key: Hashable, queue: Queue, demand: Demand, way: PlacementWay) -> Match:
        found = self._matches.get(key)
        if found is None:
            is_first = _is_first(demand, way)
            need = way.term.need(way.tasks, first=is_first)
            firsts = is_first and way.term.is_first and bool(demand.first_hosts)
            asked = TaskRequest(queue, demand, way.term, need, firsts)
            found = self._matches[key] = Match(self.columns, asked, self._rules)
            self.first_looks += 1
        self._used.add(key)
        self.steps += 1
        found.sync(self._recent_of(queue))
        return found

    def _key(self, queue: Queue, requirement: RequirementClass, demand: Demand, way: PlacementWay) -> Hashable:
        return (queue.name, requirement, way.choice, way.place, way.tasks, _is_first(demand, way))

    def _recent_of(self, queue: Queue) -> Flags | None:
        interval = self._rules.interval_of(queue)
        if interval <= 0:
            return None
        found = self.recent.get(interval)
        if found is None:
            found = self.recent[interval] = AcceptInterval(queue, self._rules).unmet(self.columns, self.columns)
        return found


def _is_first(demand: Demand, way: PlacementWay) -> bool:
    """Whether the way's tasks ask something of a job's first host that they do not ask of others."""
    return way.first and bool(way.term.once or (way.term.is_first and demand.first_hosts))


def _kept_matches(columns: HostColumns, snapshot: Snapshot) -> dict[Hashable, Match]:
    """The matches of cycles before, if they were made under the same rules."""
    basis = (snapshot.queues, snapshot.increasing, snapshot.local_type, snapshot.reserve_cores_per_gpu)
    if columns.memo.get("basis") != basis:
        columns.memo.clear()
        columns.memo["basis"] = basis
    found: dict[Hashable, Match] = columns.memo.setdefault("matches", {})
    return found
