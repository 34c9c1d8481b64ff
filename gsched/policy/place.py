"""Where: the best of the hosts that can take a job, or why none can. All hosts are looked at in array operations.

One host that can take all of a job is preferred to several (gsched.policy.parallel_place). The rank of a single host
is stated in gsched.policy.columns_rank. Nothing is taken here but for trying.
"""

from __future__ import annotations

from dataclasses import dataclass

from gsched.base.errors import RequirementError
from gsched.model.allocation import Allocation, HostAllocation
from gsched.model.queue import Queue
from gsched.model.reason import PendingReason
from gsched.model.snapshot import Bucket, RequirementClass, Snapshot
from gsched.policy.columns import FITS
from gsched.policy.columns_cycle import CycleColumns, Way
from gsched.policy.columns_rank import Ranking
from gsched.policy.demand import Choice, Demand, Term, demand_of, tasks_of
from gsched.policy.explain import Reason, ranked
from gsched.policy.feasible import Rules, fill, live_values, try_host
from gsched.policy.limits import LimitUse
from gsched.policy.parallel_place import Spreader, may_spread, needs_several, one_task
from gsched.policy.place_guard import PlaceGuard

NOT_RESERVED = Reason("Not part of the job's advance reservation", candidate=False)
BAD_REQUIREMENT = "Job has bad res req"


@dataclass(frozen=True, slots=True)
class Found:
    """A place for the bucket's next job. `effective`: the choice of its requirement, if there are several."""

    allocation: Allocation
    effective: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """No place, and why; `whole_class`: whoever owns such a job in the queue."""

    reasons: tuple[PendingReason, ...]
    whole_class: bool = True


class Placer:
    """Places the jobs of one cycle."""

    def __init__(
        self, snapshot: Snapshot, rules: Rules, field: CycleColumns, limits: LimitUse, guard: PlaceGuard
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._field = field
        self._limits = limits
        self._guard = guard
        self._spreader = Spreader(snapshot, rules, field, guard)
        self._demands: dict[RequirementClass, Demand | RequirementError] = {}
        self._ways_of: dict[int, list[tuple[Choice, list[Way]]]] = {}

    # -- classes --------------------------------------------------------------------------------------------------

    def demand(self, requirement: RequirementClass) -> Demand | RequirementError:
        """What a job of the class needs, or what is wrong with its requirement."""
        found = self._demands.get(requirement)
        if found is None:
            try:
                found = demand_of(requirement, self._snapshot.local_type)
            except RequirementError as error:
                found = error
            self._demands[requirement] = found
        return found

    def could_start(self, queue: Queue, requirement: RequirementClass) -> bool:
        """Whether the hosts as they are could take a job of the class, limits and reservations aside."""
        demand = self.demand(requirement)
        if isinstance(demand, RequirementError):
            return False
        for _, ways in self._ways(demand):
            if len(ways) > 1:
                if all(self._field.match(queue, requirement, demand, one_task(way)).fitting for way in ways):
                    return True
                continue
            if self._field.match(queue, requirement, demand, ways[0]).fitting:
                return True
            if may_spread(ways[0]) and self._spreader.room(queue, requirement, demand, ways[0]) >= demand.slots:
                return True
        return False

    def reasons(self, queue: Queue, requirement: RequirementClass) -> tuple[PendingReason, ...]:
        """Why the hosts as they are take no job of the class. Never empty."""
        demand = self.demand(requirement)
        if isinstance(demand, RequirementError):
            return (PendingReason(f"{BAD_REQUIREMENT} ({demand.text})"),)
        _, ways = self._ways(demand)[0]
        return self._host_reasons(queue, requirement, demand, ways, {}, None)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def place(self, bucket: Bucket) -> Found | Refused:
        """The best place for the bucket's next job, or the reasons why there is none."""
        requirement = bucket.requirement
        demand = self.demand(requirement)
        queue = self._snapshot.queues[bucket.queue]
        if isinstance(demand, RequirementError):
            return Refused(self.reasons(queue, requirement))
        ready = self._guard.ready(bucket)
        if ready is not None:
            return Found(ready, self._effective_of(demand, ready))
        most = demand.max_slots
        if most > demand.slots:
            most = int(max(demand.slots, min(most, self._limits.slots_left(bucket))))
        first: Reason | None = None
        for choice, ways in self._ways(demand):
            found = self._try_choice(bucket, queue, demand, choice, ways, most)
            if isinstance(found, Allocation):
                return Found(found, choice.text)
            first = first or found
        _, ways = self._ways(demand)[0]
        own = self._guard.own.get(bucket, {})
        reasons = self._host_reasons(queue, requirement, demand, ways, own, first)
        return Refused(reasons, bucket not in self._guard.limited_buckets)

    def _try_choice(
        self, bucket: Bucket, queue: Queue, demand: Demand, choice: Choice, ways: list[Way], most: int
    ) -> Allocation | Reason | None:
        if len(ways) > 1:
            return self._spreader.compound(bucket, queue, demand, choice, ways)
        way = ways[0]
        full = way if most == way.tasks else way._replace(tasks=most)
        for each in (full, way) if most > way.tasks and way.term.one_host else (full,):
            if not needs_several(each):
                part = self._on_one_host(bucket, queue, demand, each)
                if part is not None:
                    return Allocation(hosts=(part,))
        return self._spreader.spread(bucket, queue, demand, way, most) if may_spread(full) else None

    def _on_one_host(self, bucket: Bucket, queue: Queue, demand: Demand, way: Way) -> HostAllocation | None:
        ranking = self._field.ranking(queue, bucket.requirement, demand, way)
        only = self._guard.only(bucket)
        if only is not None and not ranking.refused:
            names = self._field.columns.names
            ranking.refuse_all([row for row, name in enumerate(names) if name not in only], NOT_RESERVED)
        own = self._guard.own.get(bucket, {})
        for row in own:
            ranking.drop(row)
        part = self._best(bucket, ranking)
        own = self._guard.own.get(bucket, own)
        if own:
            ranking.look_again(own)
        return part

    def _best(self, bucket: Bucket, ranking: Ranking) -> HostAllocation | None:
        """The part on the best host; those that turn out not to do are refused on the way."""
        columns, match = self._field.columns, ranking.match
        dropped: dict[int, Reason] = {}
        renewed = False
        while True:
            row = ranking.best()
            if row is None:
                if renewed or not match.is_live:
                    return None
                # What was taken meanwhile may even have made select[] true.
                renewed = True
                ranking.renew()
                for out in (*dropped, *self._guard.own.get(bucket, ())):
                    ranking.drop(out)
                for out, reason in dropped.items():
                    if match.codes[out] == FITS:
                        ranking.refuse(out, reason)
                continue
            host, books = columns.hosts[row], columns.books(row)
            if not match.is_live:
                found = fill(match.asked.need, books)
            else:
                values = live_values(host, books)
                found = try_host(match.asked.term, host, books, values, match.asked.need, self._rules)
            if isinstance(found, Reason):
                if match.is_live and not renewed:
                    dropped[row] = found
                    ranking.drop(row)
                else:
                    ranking.refuse(row, found)
                continue
            kept = self._guard.planned(bucket, found)
            if kept is not None:
                ranking.refuse(row, kept)
                continue
            limited = self._guard.limited(bucket, found)
            if limited is None:
                return found
            self._guard.refuse(bucket, row, limited)
            ranking.drop(row)

    # -- reasons --------------------------------------------------------------------------------------------------

    def _host_reasons(
        self,
        queue: Queue,
        requirement: RequirementClass,
        demand: Demand,
        ways: list[Way],
        own: dict[int, Reason],
        first: Reason | None,
    ) -> tuple[PendingReason, ...]:
        """What all hosts together lack, then each host's reason."""
        way = ways[0]
        several = len(ways) > 1 or may_spread(way)
        if not several:
            return self._field.reasons(queue, requirement, demand, way, own)
        if first is None and len(ways) == 1:
            first = self._spreader.shortage(queue, requirement, demand, way)
        hosts = self._field.reasons(queue, requirement, demand, one_task(way), own)
        if first is None:
            return hosts
        return ranked([first.pending(), *(each for each in hosts if each.hosts)])

    def _ways(self, demand: Demand) -> list[tuple[Choice, list[Way]]]:
        found = self._ways_of.get(id(demand))
        if found is None:
            found = self._ways_of[id(demand)] = [
                (
                    choice,
                    [Way(number, place, term, tasks) for place, (term, tasks) in enumerate(_shares(choice, demand))],
                )
                for number, choice in enumerate(demand.choices)
            ]
        return found

    def _effective_of(self, demand: Demand, allocation: Allocation) -> str:
        """Of a place that was planned: the first choice that takes such amounts."""
        for choice in demand.choices:
            wanted = {name for term in choice.terms for name in (*term.per_host, *term.per_task, *term.once)}
            if all(part.amounts.keys() <= wanted for part in allocation.hosts):
                return choice.text
        return demand.choices[0].text


def _shares(choice: Choice, demand: Demand) -> list[tuple[Term, int]]:
    return list(zip(choice.terms, tasks_of(choice, demand.slots), strict=True))
