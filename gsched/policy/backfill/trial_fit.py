"""Would one job of a class fit, on any ledger? The scalar trial that planning and preemption ask. It takes nothing.

It follows the same rule as placing (host_fit, task_spread), host by host in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.column_part import Flags
from gsched.model.scheduling.snapshot import Bucket, HostSnapshot, Snapshot
from gsched.policy.backfill.asks_fit import LedgerOf
from gsched.policy.devices import cpu_affinity
from gsched.policy.future.future_limits import LimitsThen
from gsched.policy.future.least_needs import Need, needs_of
from gsched.policy.match.columns import ReasonCodes
from gsched.policy.match.columns_cycle import CycleColumns
from gsched.policy.match.compute_units import Units
from gsched.policy.match.fit_condition import refusal
from gsched.policy.match.host_conditions import host_conditions
from gsched.policy.match.host_fit import TaskFit, TaskFits
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.match.room_conditions import refusal_of
from gsched.policy.requirement.demand import Demand, DemandTerm, RequirementChoice, tasks_of
from gsched.policy.requirement.reasons import NO_HOST, Reason
from gsched.policy.several_hosts.compound import CompoundPart, HostTry, TriesOfCycle, deal, is_plain
from gsched.policy.several_hosts.task_spread import Fill, Offer, apart, assemble, merge, same_of, turns_of

_TRIED = -9
"""Attempt number under which the parts of a compound stand in ledgers while the next part is tried."""


class _Asked(NamedTuple):
    """What is asked of all hosts alike."""

    demand: Demand
    host_ledger: LedgerOf
    then: LimitsThen | None

    @property
    def most_slots(self) -> int:
        """The most that the job may take."""
        demand = self.demand
        if self.then is None or demand.max_slots <= demand.slots:
            return demand.max_slots
        return int(max(demand.slots, min(demand.max_slots, self.then.slots_left())))

    def lets_have(self, part: HostAllocation) -> bool:
        return self.then is None or self.then.part_reason(part) is None


class TrialFit:
    """See the module. One for each cycle."""

    def __init__(self, snapshot: Snapshot, rules: FitRules, field: CycleColumns | None = None) -> None:
        """`field`: the cycle's columns, to tell open hosts apart quickly."""
        self._snapshot = snapshot
        self._rules = rules
        self._fits = TaskFits(rules)
        self._field = field
        self._tries = TriesOfCycle()
        self.tried = 0
        """Hosts on which it was tried what a job would hold there."""

    def candidates(self, bucket: Bucket, demand: Demand) -> list[str]:
        """Hosts that could ever give something to the job: open, in its queue, asked for; by name."""
        queue = self._snapshot.queues.get(bucket.queue)
        return [] if queue is None else self._open_hosts(bucket, demand, queue)

    def usable(self, bucket: Bucket, demand: Demand) -> Flags | None:
        """The same as flags in the order of all hosts' names; None where only `candidates` knows."""
        queue = self._snapshot.queues.get(bucket.queue)
        if queue is None or self._field is None:
            return None
        return self._field.open_rows(queue, bucket.requirement, demand)

    def met(self, bucket: Bucket, demand: Demand) -> ReasonCodes | None:
        """For each host, in the same order: how many conditions it meets now before the first that it does not; None
        where nobody knows.
        """
        queue = self._snapshot.queues.get(bucket.queue)
        if queue is None or self._field is None:
            return None
        return self._field.met(queue, bucket.requirement, demand)

    def open_to(self, queue: str) -> Flags | None:
        """Hosts that are open and that the queue uses, as flags; None where nobody knows."""
        found = self._snapshot.queues.get(queue)
        return None if found is None or self._field is None else self._field.open_to(found)

    def is_outside(self, bucket: Bucket, demand: Demand, host: str) -> bool:
        """Whether the host is none of the queue's, or not asked for, however it is now."""
        queue = self._snapshot.queues.get(bucket.queue)
        if queue is None:
            return True
        fixed = (each for each in host_conditions(queue, demand, self._rules) if each.is_fixed)
        return refusal(fixed, self._now(host)) is not None

    def _open_hosts(self, bucket: Bucket, demand: Demand, queue: Queue) -> list[str]:
        if self._field is not None:
            return self._field.open_hosts(queue, bucket.requirement, demand)
        conditions = host_conditions(queue, demand, self._rules)
        return sorted(name for name in self._snapshot.hosts if refusal(conditions, self._now(name)) is None)

    def _now(self, host: str) -> HostNow:
        return HostNow(self._snapshot.hosts[host], self._snapshot.ledger.host(host))

    def needs(self, bucket: Bucket, demand: Demand) -> list[Need]:
        """The least that the job takes, for each of its alternatives."""
        return needs_of(demand)

    def place(
        self,
        bucket: Bucket,
        demand: Demand,
        hosts: Sequence[str],
        host_ledger: LedgerOf,
        then: LimitsThen | None = None,
    ) -> Allocation | Reason:
        """What one job would hold on some of `hosts` if they had these ledgers; earlier ones are preferred if alike.

        `then`: what limits leave to it; None: all.
        """
        first: Reason | None = None
        asked = _Asked(demand, host_ledger, then)
        for choice in demand.choices:
            found = self._choice(asked, choice, hosts)
            if isinstance(found, Allocation):
                over = then.reason(found.hosts) if then is not None else None
                if over is None:
                    return found
                found = over
            first = first or found
        return first or NO_HOST

    def _choice(self, asked: _Asked, choice: RequirementChoice, hosts: Sequence[str]) -> Allocation | Reason:
        if len(choice.terms) == 1:
            term, (least,) = choice.terms[0], tasks_of(choice, asked.demand.slots)
            most = asked.most_slots
            found = self._term(asked, term, least, max(least, most - most % term.block), hosts)
            return found if isinstance(found, Reason) else self._units(term).whole(merge(found))
        return self._compound(asked, choice, hosts)

    def _compound(self, asked: _Asked, choice: RequirementChoice, hosts: Sequence[str]) -> Allocation | Reason:
        reason: Reason | None = None
        for group in self._alike(choice.same, hosts):
            for turns in turns_of(len(choice.terms)):
                found = self._parts(asked, choice, turns, group)
                if isinstance(found, Reason):
                    reason = reason or found
                    continue
                whole = merge([part for number in range(len(turns)) for part in found[number]])
                # Each part may have what it gets, and all together more than a limit of a host allows.
                over = None if asked.then is None else asked.then.reason(whole.hosts)
                if over is None:
                    return whole
                reason = reason or over
            dealt = self._dealt(asked, choice, group)
            if dealt is not None:
                return merge([part for parts in dealt for part in parts])
        return reason or NO_HOST

    def _dealt(
        self, asked: _Asked, choice: RequirementChoice, hosts: Sequence[str]
    ) -> list[list[HostAllocation]] | None:
        """Places for the parts of a compound, chosen for all of them at once."""
        tries = self._tries.of(asked.demand)
        if tries.left <= 0 or not all(is_plain(term) for term in choice.terms):
            return None
        parts = []
        for term, tasks in zip(choice.terms, tasks_of(choice, asked.demand.slots), strict=True):
            room = {offer.host: offer.tasks for offer in self._offers(asked, term, tasks, hosts)}
            if sum(room.values()) < tasks:
                return None
            parts.append(CompoundPart(term, tasks, room))
        there = HostTry(self._snapshot, self._fits, asked.host_ledger, choice.terms, tries, asked.lets_have)
        return deal(parts, there, asked.demand.first_hosts)

    def _parts(
        self, asked: _Asked, choice: RequirementChoice, turns: Sequence[int], hosts: Sequence[str]
    ) -> dict[int, tuple[HostAllocation, ...]] | Reason:
        """Places for the parts of a compound, each beside those whose turn came before."""
        tried: dict[str, HostLedger] = {}
        parts: dict[int, tuple[HostAllocation, ...]] = {}
        shares, host_ledger = tasks_of(choice, asked.demand.slots), asked.host_ledger
        beside = asked._replace(host_ledger=lambda name: tried.get(name) or host_ledger(name))
        for number in turns:
            tasks = shares[number]
            found = self._term(beside, choice.terms[number], tasks, tasks, hosts)
            if isinstance(found, Reason):
                return found
            for part in found:
                own = tried.get(part.host) or host_ledger(part.host).copy()
                own.exclusive = None  # its own parts do not keep each other out
                own.take((-1, _TRIED - number), apart(part))
                tried[part.host] = own
            parts[number] = found
        return parts

    def _alike(self, same: Sequence[str], hosts: Sequence[str]) -> list[list[str]]:
        groups: dict[object, list[str]] = {}
        for name in hosts:
            key = same_of(same, self._snapshot.hosts[name].values)
            if key is not None:
                groups.setdefault(key, []).append(name)
        return list(groups.values())

    def _term(
        self, asked: _Asked, term: DemandTerm, least: int, most: int, hosts: Sequence[str]
    ) -> tuple[HostAllocation, ...] | Reason:
        reason: Reason | None = None
        firsts = asked.demand.first_hosts if term.is_first else ()
        tile = most if not term.is_tiled else 0
        alone = dict.fromkeys((most, least)) if term.one_host else (most,)
        for tasks in alone if term.cu is None and (not term.is_striped or most == 1) else ():
            fit = self._fits.of(term, tasks)
            for name in hosts:
                host = self._snapshot.hosts[name]
                if (firsts and name not in firsts) or (term.is_tiled and 1 < tasks > (term.tile(host.values) or tile)):
                    continue
                found = self._try(asked, fit, host)
                if isinstance(found, HostAllocation):
                    return (found,)
                reason = reason or found
        if term.cu is None and (most == 1 or term.one_host):
            return reason or NO_HOST
        offers, fill = self._offers(asked, term, most, hosts), self._filler(asked, term)
        if not term.one_host:
            return assemble(term, least, most, offers, fill, first_hosts=firsts)
        for offer in offers:
            whole = assemble(term, least, most, [offer], fill, first_hosts=firsts)
            if not isinstance(whole, Reason):
                return whole
        return reason or NO_HOST

    def _try(self, asked: _Asked, fit: TaskFit, host: HostSnapshot) -> HostAllocation | Reason:
        self.tried += 1
        found = fit.on(host, asked.host_ledger(host.name))
        if asked.then is None or isinstance(found, Reason):
            return found
        return asked.then.part_reason(found) or found

    def _filler(self, asked: _Asked, term: DemandTerm) -> Fill:
        def fill(name: str, tasks: int, is_first: bool) -> HostAllocation | Reason:
            return self._try(asked, self._fits.of(term, tasks, first=is_first), self._snapshot.hosts[name])

        return fill

    def _offers(self, asked: _Asked, term: DemandTerm, most: int, hosts: Sequence[str]) -> list[Offer]:
        """What each host could give at the most, by its slots; filling it says what it gives in fact."""
        units = self._units(term)
        one = self._fits.of(term, 1, first=False)
        offers = []
        for name in hosts:
            host, ledger = self._snapshot.hosts[name], asked.host_ledger(name)
            same = same_of(term.same, host.values)
            if same is None or (units.number is not None and name not in units.number):
                continue
            if isinstance(self._try(asked, one, host), Reason):
                continue
            room = most if ledger.free_slots is None else min(most, ledger.free_slots)
            for kind, per_task in term.task_devices:
                room = min(room, len(ledger.gpus) // per_task if kind.share == 1.0 else room)
            if term.affinity is not None:
                room = cpu_affinity.room(ledger, term.affinity, room)
            unit = 0 if units.number is None else units.number[name]
            offers.append(Offer(name, term.share(room), term.tile(host.values), same, unit))
        denied = units.denied(
            (each.unit for each in offers), lambda part: refusal_of(part, asked.host_ledger(part.host))
        )
        return [each for each in offers if each.unit not in denied]

    def _units(self, term: DemandTerm) -> Units:
        return Units(self._snapshot.compute_units, term, self._snapshot.hosts)
