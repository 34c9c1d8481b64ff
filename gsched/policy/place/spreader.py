"""Jobs on several hosts: what each host could take, over all hosts at once, then dealt by task_spread.

Hosts that can take most tasks come first, so that a job runs on few hosts; with order[] those of the best rank. The
parts of a compound are placed in their order, each beside what the parts before it take; where that finds no place for
one of them, each of the others has its turn first, and then they are dealt together (compound). Nothing
of it stays taken.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from gsched.base.coded_text import coded, listed
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.column_part import HostNumbers
from gsched.model.scheduling.row_log import RowNumbers
from gsched.model.scheduling.snapshot import Bucket, RequirementClass, Snapshot
from gsched.policy.match.columns import FITS, Match
from gsched.policy.match.columns_cycle import CycleColumns, PlacementWay
from gsched.policy.match.compute_units import Units
from gsched.policy.match.host_fit import TaskFits
from gsched.policy.match.host_now import FitRules
from gsched.policy.match.room_conditions import FreeDevices, SlotsKeptForGpus, refusal_of, task_room
from gsched.policy.place.placement_guard import PlaceGuard
from gsched.policy.requirement.demand import Demand, DemandTerm, RequirementChoice
from gsched.policy.requirement.reasons import Reason
from gsched.policy.several_hosts.compound import CompoundPart, HostTry, TriesOfCycle, deal, is_plain
from gsched.policy.several_hosts.task_spread import Fill, Offer, apart, assemble, merge, same_of, short_of, turns_of

_SPARE_OFFERS = 64
"""Hosts beyond those that should do which a job is offered."""
_TRIED = -9
"""Attempt number under which parts of a compound stand in the ledger while the next part is tried."""
_ROUNDING = 1e-9


class Spreader:
    """Places jobs on several hosts, in one cycle."""

    def __init__(self, snapshot: Snapshot, rules: FitRules, field: CycleColumns, guard: PlaceGuard) -> None:
        self._snapshot = snapshot
        self._fits = TaskFits(rules)
        self._field = field
        self._guard = guard
        self._tries = TriesOfCycle()

    def room(self, queue: Queue, requirement: RequirementClass, demand: Demand, way: PlacementWay) -> int:
        """How many of the way's tasks the hosts could take together, at the most."""
        _, tasks = self._room(queue, requirement, demand, way)
        return int(tasks.sum())

    def shortage(self, queue: Queue, requirement: RequirementClass, demand: Demand, way: PlacementWay) -> Reason:
        """What is missing, when `room` is not enough."""
        _, tasks = self._room(queue, requirement, demand, way)
        return short_of(way.term, way.tasks, int(tasks.sum()), int(np.count_nonzero(tasks)))

    def spread(self, bucket: Bucket, queue: Queue, demand: Demand, way: PlacementWay, most: int) -> Allocation | Reason:
        """Places for `most` tasks, or as many as there are but not fewer than the way's."""
        found = self._place(bucket, queue, demand, way, most, None)
        if isinstance(found, Reason):
            return self._guard.held_back(bucket, way.tasks) or found
        whole = self._allowed(bucket, self._units(way.term).whole(merge(found)))
        if not isinstance(whole, Reason) or not self._guard.shun_pools(bucket):
            return whole
        # Each part may have what is left of a guaranteed pool, and all together more than that.
        found = self._place(bucket, queue, demand, way, most, None)
        return whole if isinstance(found, Reason) else self._allowed(bucket, self._units(way.term).whole(merge(found)))

    def compound(
        self, bucket: Bucket, queue: Queue, demand: Demand, choice: RequirementChoice, ways: list[PlacementWay]
    ) -> Allocation | Reason:
        """Places for all parts, on hosts that agree in what same[...] of the whole names."""
        reason: Reason | None = None
        for hosts in self._alike(choice):
            for turns in turns_of(len(ways)):
                found = self._parts(bucket, queue, demand, [ways[number] for number in turns], hosts)
                # Each part may have what it gets, and all together more than a limit of a host allows.
                whole = found if isinstance(found, Reason) else self._allowed(bucket, merge(found))
                if not isinstance(whole, Reason):
                    return whole
                reason = reason or whole
            dealt = self._dealt(bucket, queue, demand, ways, hosts)
            if dealt is not None:
                whole = self._allowed(bucket, merge([part for parts in dealt for part in parts]))
                if not isinstance(whole, Reason):
                    return whole
        return reason or short_of(choice.terms[0], demand.slots, 0, 0)

    def _dealt(
        self, bucket: Bucket, queue: Queue, demand: Demand, ways: list[PlacementWay], hosts: Collection[str] | None
    ) -> list[list[HostAllocation]] | None:
        """Places for the parts of a compound, chosen for all of them at once."""
        terms, tries = [way.term for way in ways], self._tries.of(demand)
        if tries.left <= 0 or not all(map(is_plain, terms)):
            return None
        parts = []
        for way in ways:
            offers, _ = self._offers(bucket, queue, demand, way, way.tasks)
            room = {offer.host: offer.tasks for offer in self._usable(bucket, offers, hosts)}
            if sum(room.values()) < way.tasks:
                return None
            parts.append(CompoundPart(way.term, way.tasks, room))

        def is_allowed(part: HostAllocation) -> bool:
            return self._guard.planned(bucket, part) is None and self._guard.limited(bucket, part) is None

        there = HostTry(self._snapshot, self._fits, self._snapshot.ledger.host, terms, tries, is_allowed)
        return deal(parts, there, demand.first_hosts)

    def _allowed(self, bucket: Bucket, allocation: Allocation) -> Allocation | Reason:
        return self._guard.forbids(bucket, allocation) or allocation

    def _alike(self, choice: RequirementChoice) -> list[Collection[str] | None]:
        if not choice.same:
            return [None]
        groups: dict[object, set[str]] = {}
        for host in self._field.columns.hosts:
            key = same_of(choice.same, host.values)
            if key is not None:
                groups.setdefault(key, set()).add(host.name)
        return list(groups.values())

    def _parts(
        self, bucket: Bucket, queue: Queue, demand: Demand, ways: list[PlacementWay], hosts: Collection[str] | None
    ) -> list[HostAllocation] | Reason:
        ledger = self._snapshot.ledger
        taken: list[tuple[int, Allocation]] = []
        placed: list[tuple[int, tuple[HostAllocation, ...]]] = []
        reason: Reason | None = None
        for number, way in enumerate(ways):
            found = self._place(bucket, queue, demand, way, way.tasks, hosts)
            if isinstance(found, Reason):
                reason = found
                break
            placed.append((way.place, found))
            taken.append((_TRIED - number, Allocation(hosts=tuple(map(apart, found)))))
            ledger.take((-1, _TRIED - number), taken[-1][1])
            self._field.follow()
        for attempt, allocation in taken:
            ledger.give((-1, attempt), allocation)
        self._field.follow()
        if reason is not None:
            return reason
        return [part for _, parts in sorted(placed, key=lambda each: each[0]) for part in parts]

    # -- one term -------------------------------------------------------------------------------------------------

    def _place(
        self, bucket: Bucket, queue: Queue, demand: Demand, way: PlacementWay, most: int, hosts: Collection[str] | None
    ) -> tuple[HostAllocation, ...] | Reason:
        offers, denied = self._offers(bucket, queue, demand, way, most)
        offers = self._usable(bucket, offers, hosts)
        if way.term.one_host:
            offers = [offer for offer in offers if offer.tasks >= way.tasks][:_SPARE_OFFERS]
            whole = (assemble(way.term, way.tasks, most, [each], self._filler(bucket, way.term)) for each in offers)
            for found in whole:
                if not isinstance(found, Reason):
                    return found
            return short_of(way.term, way.tasks, 0, 0, denied)
        firsts = demand.first_hosts if way.place == 0 else ()
        found = assemble(way.term, way.tasks, most, offers, self._filler(bucket, way.term), first_hosts=firsts)
        if isinstance(found, Reason) and denied is not None:
            other = coded("reason.with_numbers", denied.text, denied.detail)
            return found._replace(detail=listed([found.detail, other], "list.semicolon"))
        return found

    def _usable(self, bucket: Bucket, offers: list[Offer], hosts: Collection[str] | None) -> list[Offer]:
        """Those on hosts that -U and same[...] of the whole leave to the job."""
        only = self._guard.only(bucket)
        sets = [each for each in (only, hosts) if each is not None]
        return [offer for offer in offers if all(offer.host in each for each in sets)] if sets else offers

    def _filler(self, bucket: Bucket, term: DemandTerm) -> Fill:
        def fill(name: str, tasks: int, is_first: bool) -> HostAllocation | Reason:
            host, host_ledger = self._snapshot.hosts[name], self._snapshot.ledger.host(name)
            found = self._fits.of(term, tasks, first=is_first).on(host, host_ledger)
            if isinstance(found, Reason):
                return found
            return self._guard.planned(bucket, found) or self._guard.limited(bucket, found) or found

        return fill

    def _units(self, term: DemandTerm) -> Units:
        return Units(self._snapshot.compute_units, term, self._snapshot.hosts)

    def _offers(
        self, bucket: Bucket, queue: Queue, demand: Demand, way: PlacementWay, most: int
    ) -> tuple[list[Offer], Reason | None]:
        """The best first; and why a compute unit is not among them that cu[excl] would want with all its hosts."""
        columns, term = self._field.columns, way.term
        rows, tasks = self._room(queue, bucket.requirement, demand, way._replace(tasks=most))
        ranking = self._field.ranking(queue, bucket.requirement, demand, one_task(way))
        shut = self._guard.shut_hosts(bucket)
        if shut:
            tasks = np.where(np.isin(rows, columns.rows_of(shut)), 0.0, tasks)
        chosen = np.flatnonzero(tasks > 0)
        rows, tasks = rows[chosen], tasks[chosen]
        place = ranking.order(rows, -tasks if term.order is None else None)
        if not (term.same or term.cu is not None or demand.first_hosts or way.place or bucket.requirement.reservation):
            # span[ptile] and span[stripe] may put a single task on a host.
            tiles = np.minimum(tasks, 1.0) if term.is_tiled or term.is_striped else tasks
            enough = int(np.searchsorted(np.cumsum(tiles[place]), most)) + 1 + _SPARE_OFFERS
            place = place[:enough]
        units = self._units(term)
        offers = []
        for row, room in zip(rows[place].tolist(), tasks[place].tolist(), strict=True):
            host = columns.hosts[row]
            same = same_of(term.same, host.values)
            if same is not None and (units.number is None or host.name in units.number):
                unit = 0 if units.number is None else units.number[host.name]
                offers.append(Offer(host.name, int(room), term.tile(host.values), same, unit))
        denied = units.denied((each.unit for each in offers), lambda part: self._denied(bucket, part))
        return [each for each in offers if each.unit not in denied], next(iter(denied.values()), None)

    def _denied(self, bucket: Bucket, part: HostAllocation) -> Reason | None:
        return refusal_of(part, self._snapshot.ledger.host(part.host)) or self._guard.planned(bucket, part)

    def _room(
        self, queue: Queue, requirement: RequirementClass, demand: Demand, way: PlacementWay
    ) -> tuple[RowNumbers, HostNumbers]:
        """Rows of hosts that could take a task, and how many they could take, at most the way's tasks."""
        match = self._field.match(queue, requirement, demand, one_task(way))
        rows: RowNumbers = np.flatnonzero(match.codes == FITS)
        columns = self._field.columns
        slots = columns.free[rows]
        for each in match.conditions:
            if isinstance(each, SlotsKeptForGpus):
                slots = slots - each.kept(columns)[rows]
        tasks = np.minimum(slots, float(way.tasks))
        for name, amount in way.term.per_task.items():
            left = columns.number(name)
            if left is not None:
                beside = way.term.per_host.get(name, 0.0)
                tasks = np.minimum(tasks, np.floor((left[rows] - beside) / amount + _ROUNDING))
        tasks = np.minimum(tasks, self._device_room(match, way.term, rows))
        if way.term.affinity is not None:
            tasks = np.minimum(tasks, task_room(columns, way.term.affinity)[rows])
        if way.term.most_on_host is not None:
            tasks = np.minimum(tasks, float(way.term.most_on_host))
        if way.term.block > 1:
            tasks = np.floor(tasks / way.term.block) * way.term.block
        return rows, np.maximum(tasks, 0.0)

    def _device_room(self, match: Match, term: DemandTerm, rows: RowNumbers) -> HostNumbers:
        room = np.full(len(rows), np.inf)
        per_task, per_host = dict(term.task_devices), dict(term.host_devices)
        for each in match.conditions:
            if isinstance(each, FreeDevices) and each.kind in per_task:
                beside = each.column(self._field.columns)[rows] - per_host.get(each.kind, 0)
                room = np.minimum(room, np.floor(beside / per_task[each.kind]))
        return room


def one_task(way: PlacementWay) -> PlacementWay:
    """One of the way's tasks, on a host that need not be the first."""
    return way._replace(tasks=1, first=False)


def needs_several(way: PlacementWay) -> bool:
    """Whether cu[...], span[ptile] or span[stripe] keeps the tasks from being on one host, or may do so."""
    span = way.term.span
    if way.term.cu is not None:
        return True  # which units may be used is asked there
    if way.tasks < 2 or span is None:
        return False
    if way.term.is_striped:
        return True
    return span.ptile is not None and (bool(span.ptile_types) or span.ptile < way.tasks)  # BY_HOST is 0


def may_spread(way: PlacementWay) -> bool:
    """Whether the tasks may be on several hosts, or on one in a compute unit."""
    return way.term.cu is not None or (way.tasks > 1 and not way.term.one_host)
