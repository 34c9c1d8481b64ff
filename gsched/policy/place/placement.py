"""Where: the best of the hosts that can take a job, or why none can. All hosts are looked at in array operations.

One host that can take all of a job is preferred to several (several_hosts). The rank of a single host
is stated in gsched.policy.match.columns_rank. Nothing is taken here but for trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from gsched.base.coded_text import coded
from gsched.base.errors import RequirementError
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, RequirementClass, Snapshot
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.match.columns_cycle import CycleColumns, PlacementWay
from gsched.policy.match.columns_rank import Ranking
from gsched.policy.match.host_fit import fill, is_chosen
from gsched.policy.match.host_now import FitRules, live_values
from gsched.policy.place.chosen_alternative import choice_of
from gsched.policy.place.fast_path import FastPath
from gsched.policy.place.placement_guard import PlaceGuard
from gsched.policy.place.spreader import Spreader, may_spread, needs_several, one_task
from gsched.policy.requirement.demand import CACHED_CLASSES, Demand, HostNeed, RequirementChoice, tasks_of
from gsched.policy.requirement.demand_cache import Demands
from gsched.policy.requirement.gpu_range import exactly, range_of, without
from gsched.policy.requirement.reasons import Reason, not_yet, of_alternative, ranked

NOT_RESERVED = Reason(coded("pending.not_reserved"), candidate=False)
_UNREAD = PendingReason(coded("pending.new"))
"""Where nobody reads reasons."""


class FoundPlace(msgspec.Struct, frozen=True, gc=False):
    """A place for the bucket's next job. `effective`: the choice of its requirement, if there are several."""

    allocation: Allocation
    effective: str = ""
    is_promised: bool = True
    """Whether something may have been planned for a job of the class in the cycle before."""


class RefusedPlace(NamedTuple):
    """No place, and why; `whole_class`: whoever owns such a job in the queue."""

    reasons: tuple[PendingReason, ...]
    whole_class: bool = True


_ChoiceWays = tuple[RequirementChoice, list[PlacementWay]]


@lru_cache(maxsize=CACHED_CLASSES)
def _ways_of(demand: Demand) -> tuple[_ChoiceWays, ...]:
    """Each alternative, with a way for each of its terms."""
    found = []
    for number, choice in enumerate(demand.choices):
        shares = zip(choice.terms, tasks_of(choice, demand.slots), strict=True)
        found.append((choice, [PlacementWay(number, place, *share) for place, share in enumerate(shares)]))
    return tuple(found)


class _Kind:
    """A class of jobs in one queue. `error`: what is wrong with its requirement."""

    __slots__ = (
        "demand",
        "error",
        "fast_path",
        "is_fast_path_known",
        "is_plain",
        "is_promised",
        "queue",
        "ranking",
        "requirement",
        "ways",
    )

    def __init__(
        self, queue: Queue, requirement: RequirementClass, demand: Demand | RequirementError, is_promised: bool
    ) -> None:
        self.queue = queue
        self.requirement = requirement
        self.demand = None if isinstance(demand, RequirementError) else demand
        self.error = demand.text if isinstance(demand, RequirementError) else ""
        self.ways = () if self.demand is None else _ways_of(self.demand)
        self.is_plain = self._is_plain()
        """Whether its jobs run on one host and say nothing unusual."""
        self.ranking: Ranking | None = None
        """The one that all of them use then."""
        self.fast_path: FastPath | None = None
        self.is_fast_path_known = False
        self.is_promised = is_promised

    def _is_plain(self) -> bool:
        demand = self.demand
        if demand is None or len(self.ways) > 1 or self.requirement.reservation or demand.max_slots > demand.slots:
            return False
        ways = self.ways[0][1]
        return len(ways) == 1 and not may_spread(ways[0])


class Placer:
    """Places the jobs of one cycle."""

    def __init__(
        self,
        snapshot: Snapshot,
        rules: FitRules,
        field: CycleColumns,
        demands: Demands,
        limits: LimitUse,
        guard: PlaceGuard,
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._field = field
        self._limits = limits
        self._guard = guard
        self._spreader = Spreader(snapshot, rules, field, guard)
        self._demands = demands
        self._kinds: dict[tuple[str, RequirementClass], _Kind] = {}
        self._kinds_by_id: dict[tuple[str, int], _Kind] = {}
        """The same by the identity of the class, which costs less than its hash."""
        self.fast_paths: dict[tuple[str, int], FastPath] = {}
        """What `fast_path` has found, by queue and identity of the class, for jobs of no array, group or profile."""

    # -- classes --------------------------------------------------------------------------------------------------

    def _kind(self, queue: Queue, requirement: RequirementClass) -> _Kind:
        kind = self._kinds_by_id.get((queue.name, id(requirement)))
        if kind is None:
            kind = self._kinds.get((queue.name, requirement))
            if kind is None:
                is_promised = self._guard.is_promised(queue.name, requirement)
                kind = _Kind(queue, requirement, self._demands.of(requirement), is_promised)
                self._kinds[queue.name, requirement] = kind
            self._kinds_by_id[queue.name, id(requirement)] = kind
        return kind

    def could_start(self, queue: Queue, requirement: RequirementClass) -> bool:
        """Whether the hosts as they are could take a job of the class, limits and reservations aside."""
        kind = self._kind(queue, requirement)
        demand = kind.demand
        if demand is None or demand.least_idle_devices() > self._field.most_idle_devices():
            return False
        for _, ways in kind.ways:
            if len(ways) > 1:
                if all(self._field.match(queue, requirement, demand, one_task(way)).fitting for way in ways):
                    return True
                continue
            if self._field.match(queue, requirement, demand, ways[0]).fitting:
                return True
            if may_spread(ways[0]) and self._spreader.room(queue, requirement, demand, ways[0]) >= ways[0].tasks:
                return True
        return False

    def reasons(self, queue: Queue, requirement: RequirementClass) -> tuple[PendingReason, ...]:
        """Why the hosts as they are take no job of the class. Never empty."""
        return self._host_reasons(self._kind(queue, requirement), {}, [])

    def fast_path(self, bucket: Bucket) -> FastPath | None:
        """The short way to a place for the bucket's next job; None where there is none, or not yet."""
        if not self._limits.says_nothing(bucket):
            return None
        kind = self._kind(self._snapshot.queues[bucket.queue], bucket.requirement)
        if kind.is_promised:
            return None
        if not kind.is_fast_path_known:
            kind.is_fast_path_known, kind.fast_path = True, self._new_fast_path(kind, bucket)
        if kind.fast_path is not None:
            self.fast_paths[bucket.queue, id(bucket.requirement)] = kind.fast_path
        return kind.fast_path

    def close_fast_path(self, queue: Queue, requirement: RequirementClass) -> None:
        """Jobs of the class go the long way."""
        kind = self._kind(queue, requirement)
        kind.is_fast_path_known, kind.fast_path = True, None

    def _new_fast_path(self, kind: _Kind, bucket: Bucket) -> FastPath | None:
        if kind.demand is None or not kind.is_plain or kind.demand.most_gpus:
            return None
        choice, (way,) = kind.ways[0]
        if not FastPath.may_take(way.term.need(way.tasks)):
            return None
        if kind.ranking is None:
            kind.ranking = self._field.ranking(kind.queue, kind.requirement, kind.demand, way)
        if kind.ranking.single is None:
            return None
        return FastPath(self._field, kind.ranking, self._guard, choice.text, bucket)

    def fulfilled(self, bucket: Bucket) -> None:
        """A job of the bucket has started, and with it what may have been planned for one of its class."""
        kind = self._kind(self._snapshot.queues[bucket.queue], bucket.requirement)
        kind.is_promised = self._guard.is_promised(bucket.queue, bucket.requirement)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def place(self, bucket: Bucket) -> FoundPlace | RefusedPlace:
        """The best place for the bucket's next job, or the reasons why there is none."""
        kind = self._kind(self._snapshot.queues[bucket.queue], bucket.requirement)
        demand = kind.demand
        if demand is None:
            return RefusedPlace(self._host_reasons(kind, {}, []))
        if kind.is_promised:
            ready = self._guard.ready(bucket)
            if ready is not None and all(self._is_chosen(kind, demand, part.host) for part in ready.hosts):
                return FoundPlace(ready, self.effective(demand, ready))
        lacking: list[Reason | None] = []
        if demand.most_gpus:
            roomy = self._roomiest(bucket, kind)
            if roomy is not None:
                return FoundPlace(Allocation(hosts=(roomy,)), demand.choices[0].text, kind.is_promised)
        if kind.is_plain:
            ranking = kind.ranking
            if ranking is None:
                ranking = kind.ranking = self._field.ranking(kind.queue, kind.requirement, demand, kind.ways[0][1][0])
            part = self._on(bucket, ranking)
            if part is not None:
                return FoundPlace(Allocation(hosts=(part,)), demand.choices[0].text, kind.is_promised)
        else:
            most = demand.max_slots
            if most > demand.slots:
                most = int(max(demand.slots, min(most, self._limits.slots_left(bucket))))
            for choice, ways in kind.ways:
                found = self._try_choice(bucket, kind.queue, demand, choice, ways, most)
                if isinstance(found, Allocation):
                    return FoundPlace(found, choice.text, kind.is_promised)
                lacking.append(found)
        reasons = self._host_reasons(kind, self._guard.own.get(bucket, {}), lacking)
        return RefusedPlace(reasons, not self._guard.is_own(bucket))

    def _roomiest(self, bucket: Bucket, kind: _Kind) -> HostAllocation | None:
        """The least of a range of GPUs, on the best of the hosts where the job could have most of it; None where it can
        have its least at the most. More than the least is lent when the cycle has served all.
        """
        asked = range_of(kind.requirement)
        if asked is None:
            return None
        for gpus in range(min(asked.most, self._field.most_idle_devices()), asked.least, -1):
            wide = self._kind(kind.queue, exactly(kind.requirement, gpus))
            if wide.demand is None or not wide.is_plain:
                return None
            refused = dict(self._guard.own.get(bucket, ()))
            ranking = self._field.ranking(kind.queue, wide.requirement, wide.demand, wide.ways[0][1][0])
            part = self._on(bucket, ranking)
            if bucket in self._guard.own:  # what is too much for a host may be little enough with fewer
                self._guard.own[bucket] = refused
            if part is not None:
                return without(part, gpus - asked.least)
        return None

    def place_on_several(self, bucket: Bucket) -> FoundPlace | None:
        """The best place on several hosts, if the bucket's jobs are such that run on several and on so many alone."""
        kind = self._kind(self._snapshot.queues[bucket.queue], bucket.requirement)
        demand = kind.demand
        if demand is None or kind.is_plain or demand.max_slots > demand.slots:
            return None
        for choice, ways in kind.ways:
            if len(ways) == 1 and may_spread(ways[0]):
                way = ways[0]
                found = self._spreader.spread(bucket, kind.queue, demand, way, way.tasks)
                if isinstance(found, Allocation):
                    return FoundPlace(found, choice.text, kind.is_promised)
        return None

    def _is_chosen(self, kind: _Kind, demand: Demand, host: str) -> bool:
        host_ledger = self._snapshot.ledger.host(host)
        return is_chosen(demand, self._snapshot.hosts[host], host_ledger, kind.queue, self._rules)

    def effective(self, demand: Demand, allocation: Allocation) -> str:
        """The text of the choice that a place is of which was found otherwise."""
        hosts, ledger = self._snapshot.hosts, self._snapshot.ledger
        return choice_of(demand, allocation, lambda name: live_values(hosts[name], ledger.host(name))).text

    def _try_choice(
        self,
        bucket: Bucket,
        queue: Queue,
        demand: Demand,
        choice: RequirementChoice,
        ways: list[PlacementWay],
        most: int,
    ) -> Allocation | Reason | None:
        if len(ways) > 1:
            return self._spreader.compound(bucket, queue, demand, choice, ways)
        way = ways[0]
        most = max(way.tasks, most - most % way.term.block)
        full = way if most == way.tasks else way._replace(tasks=most)
        for each in (full, way) if most > way.tasks and way.term.one_host else (full,):
            if not needs_several(each):
                refused = dict(self._guard.own.get(bucket, ()))
                part = self._on_one_host(bucket, queue, demand, each)
                if part is not None:
                    return Allocation(hosts=(part,))
                if each is not way and bucket in self._guard.own:  # a limit that refuses all of it may allow the least
                    self._guard.own[bucket] = refused
        return self._spreader.spread(bucket, queue, demand, way, most) if may_spread(full) else None

    def _on_one_host(self, bucket: Bucket, queue: Queue, demand: Demand, way: PlacementWay) -> HostAllocation | None:
        ranking = self._field.ranking(queue, bucket.requirement, demand, way)
        only = self._guard.only(bucket)
        if only is not None and not ranking.refused:
            names = self._field.columns.names
            ranking.refuse_all([row for row, name in enumerate(names) if name not in only], NOT_RESERVED)
        return self._on(bucket, ranking)

    def _on(self, bucket: Bucket, ranking: Ranking) -> HostAllocation | None:
        """The best part for a job of the bucket, which may be kept from some hosts by limits."""
        own = self._guard.own
        for row in own.get(bucket, ()) if own else ():
            ranking.drop(row)
        part = self._best(bucket, ranking)
        if own and bucket in own:
            ranking.look_again(own[bucket])
        return part

    def _best(self, bucket: Bucket, ranking: Ranking) -> HostAllocation | None:
        """The part on the best host; those that turn out not to do are refused on the way."""
        columns, match, guard = self._field.columns, ranking.match, self._guard
        need = match.asked.need
        renewed = False
        while True:
            row = ranking.best()
            if row is None:
                if renewed or not match.is_live:
                    return None
                # What was taken meanwhile may even have made select[] true.
                renewed = True
                ranking.renew()
                for out in guard.own.get(bucket, ()):
                    ranking.drop(out)
                continue
            host_ledger = columns.host_ledger(row)
            if row in columns.tried and match.is_live and not match.selects(row):
                # Its code will say so when it is looked at anew; for a host that the cycle has not used it says so now.
                ranking.drop(row)
                continue
            found = fill(need, host_ledger)
            if isinstance(found, Reason):
                ranking.refuse(row, found)
                continue
            found = ranking.with_best_device(row, found)
            if guard.lets_pass(bucket, found):
                return found
            kept = guard.planned(bucket, found, is_whole=True)
            if kept is not None:
                if bucket in guard.refused_for_time:
                    guard.refuse(bucket, row, kept)
                    ranking.drop(row)
                else:
                    ranking.refuse(row, kept)
                continue
            guard.alike_hosts = ()
            limited = guard.limited(bucket, found)
            allowed = found if limited is None else self._on_shared_gpus(bucket, need, host_ledger)
            if limited is None or allowed is not None:
                return allowed
            for each in dict.fromkeys((row, *columns.rows_of(guard.alike_hosts))):
                guard.refuse(bucket, each, limited)
                ranking.drop(each)

    def _on_shared_gpus(self, bucket: Bucket, need: HostNeed, host_ledger: HostLedger) -> HostAllocation | None:
        """The part on GPUs that others have already, where pools of GPUs keep idle ones from the job."""
        packed = need.packed if self._limits.guarantees.count_gpus else None
        if packed is None:
            return None
        found, guard = fill(packed, host_ledger), self._guard
        if isinstance(found, HostAllocation) and not (
            guard.planned(bucket, found, is_whole=True) or guard.limited(bucket, found)
        ):
            return found
        guard.alike_hosts = ()  # others may have such GPUs
        return None

    # -- reasons --------------------------------------------------------------------------------------------------

    def _host_reasons(
        self, kind: _Kind, own: dict[int, Reason], lacking: Sequence[Reason | None]
    ) -> tuple[PendingReason, ...]:
        """The reasons against the first alternative, then those against the others, by name. `own`: rows that the
        bucket may not use; `lacking`: what all hosts together lack, for each alternative that was tried.
        """
        if not self._snapshot.are_reasons_read:
            return (_UNREAD,)
        if kind.demand is None:
            return (PendingReason(coded("pending.bad_requirement", kind.error)),)
        told: list[PendingReason] = []
        for number, (choice, ways) in enumerate(kind.ways):
            lacks = lacking[number] if number < len(lacking) else None
            reasons = self._choice_reasons(kind, kind.demand, ways, own, lacks)
            told += of_alternative(choice.name, reasons) if number else reasons
        told += [not_yet(name, delay_s) for name, delay_s in kind.demand.later]
        return tuple(told)

    def _choice_reasons(
        self, kind: _Kind, demand: Demand, ways: list[PlacementWay], own: dict[int, Reason], lacks: Reason | None
    ) -> tuple[PendingReason, ...]:
        """What all hosts together lack, then each host's reason. Never empty."""
        queue, requirement = kind.queue, kind.requirement
        way = ways[0]
        if len(ways) == 1 and not may_spread(way):
            return self._field.reasons(queue, requirement, demand, way, own)
        if len(ways) == 1 and lacks is None:
            lacks = self._spreader.shortage(queue, requirement, demand, way)
        if len(ways) > 1:  # of a compound the part that no host takes, if there is one
            fits = (self._field.match(queue, requirement, demand, one_task(each)).fitting for each in ways)
            way = next((each for each, hosts in zip(ways, fits, strict=True) if not hosts), way)
        hosts = self._field.reasons(queue, requirement, demand, one_task(way), own)
        if lacks is None:
            return hosts
        return ranked([lacks.pending(), *(each for each in hosts if each.hosts)])
