"""Preemption: which running jobs of lower queues make room for a waiting one, and which preempted ones may go on.

Suspended jobs give back slots, and their one GPU where their host moves them off it; all else comes back from jobs that
are requeued. What gets free is held for the job it was freed for. No job is preempted soon after its start, after it
went on, or more often than is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.queues.preempt_sparing import NOBODY_SPARED
from gsched.model.queues.queue import PREEMPT, Queue
from gsched.model.scheduling.snapshot import Bucket, Preempted, Running, Snapshot
from gsched.policy.backfill.asks_fit import AsksFit
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.match.room_conditions import slots_missing
from gsched.policy.order.fairshare import queue_priority
from gsched.policy.preempt.lent_gpus import keep_resized
from gsched.policy.preempt.shared_victims import choose
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.reasons import Reason

MOST_SEARCHES = 4
"""Jobs for which one cycle looks for victims."""
LOOK_AGAIN_S = 5.0
"""A job that found no victims looks again after so long."""
MOST_RANKED = 512
"""Hosts whose jobs are put in order as victims: those that lack least."""
MOST_HOSTS = 64
"""Hosts of one search for a job that runs on one host."""
MOST_VICTIMS = 256
"""Victims of one search."""
MOST_PRUNED = 32
"""Victims that are tried to be spared once enough are found."""

_STOPPABLE = frozenset({"RUN"})
_ENDABLE = frozenset({"RUN", "USUSP", "SSUSP"})


class Displacement(NamedTuple):
    """Who makes room. `allocation` can be taken at once; when it is None, `planned` says when and where."""

    preempted: tuple[Preempted, ...]
    allocation: Allocation | None
    planned: PlannedStart | None = None


class _Way(Enum):
    """How a victim makes room."""

    REQUEUE = "requeue"
    """It ends, and waits again or, by its queue, is over: all that it holds is free then."""
    SUSPEND = "suspend"
    """It gives its slots."""
    MOVE = "move"
    """It gives its slots, and its GPU when it has been moved off it."""


_STOPPING = (_Way.SUSPEND, _Way.MOVE)


class _Victim(NamedTuple):
    key: tuple[int, int, bool, float, int]
    """-preference, queue's priority, holds GPUs that nobody gains, -start, -job id: the smallest goes first."""
    running: Running


def may_preempt(queue: Queue, victim: Queue) -> bool:
    """Whether jobs of `queue` may displace jobs of `victim`, which must be of lower priority. lsb.queues(5)."""
    if victim.priority >= queue.priority:
        return False
    named, by = queue.preemption.preemptive, victim.preemption.preemptable_by
    if named is not None and (not named or any(name == victim.name for name, _ in named)):
        return True
    return by is not None and (not by or queue.name in by)


class Preemptor:
    """Preemption in one cycle. It changes the cycle's ledger (suspends there) and reserves what is freed."""

    def __init__(self, snapshot: Snapshot, now: float, trial: AsksFit, reservations: Reservations) -> None:
        self._snapshot = snapshot
        self._now = now
        self._trial = trial
        self._reservations = reservations
        self.gone: set[int] = set()
        """Displaced in this cycle."""
        self._preemptable: dict[str, dict[str, int]] = {}
        self._ripe: dict[str, dict[str, list[Running]]] = {}
        self._ending: list[Running] | None = None
        self._searches = 0

    def find(self, job_id: int, bucket: Bucket, demand: Demand) -> Displacement | None:
        """Victims for a job that fits nowhere, already displaced in the cycle's ledger; None if there are none.

        The caller takes `allocation`, if there is one, like any placement; otherwise the job waits for its victims,
        and what they free is reserved for it. Without success it is not looked again for LOOK_AGAIN_S seconds.
        """
        queues = self._queues_below(bucket.queue)
        if not queues or self._searches >= MOST_SEARCHES:
            return None
        if self._now - self._reservations.victims_sought_at(job_id, bucket) < LOOK_AGAIN_S:
            return None
        self._searches += 1
        found = self._find(job_id, bucket, demand, queues)
        if found is None:
            self._reservations.sought_victims(bucket)
        return found

    def _find(self, job_id: int, bucket: Bucket, demand: Demand, queues: dict[str, int]) -> Displacement | None:
        every = [name for name in self._trial.candidates(bucket, demand) if name in self._snapshot.hosts]
        names = every
        if self._reservations.ahead.concerns(bucket):  # nobody is displaced for a job that a limit keeps from the host
            needs, opens = self._trial.needs(bucket, demand), self._reservations.ahead.opens
            names = [name for name in names if opens(bucket, needs, name) == -math.inf]
        if self._is_coming(bucket, demand, names):
            return None
        ripe = self._ripe_jobs(bucket.queue, queues)
        for way in self._ways(queues):
            by_host = self._by_host(ripe, queues, bucket, demand, names, way)
            victims = self._choose(bucket, demand, names, by_host, way)
            if victims is not None:
                found = self._displace(job_id, bucket, *victims, way)
                if found is not None:
                    return found
        others = [name for name in every if name not in names]
        return self._for_shared(job_id, bucket, demand, others, queues) if self._may_end(queues) else None

    def _may_end(self, queues: Iterable[str]) -> bool:
        """Whether jobs of any of these queues may be ended for another."""
        return self._snapshot.preempt_requeue or any(self._ends_for_good(name) for name in queues)

    def _ways(self, queues: Iterable[str]) -> tuple[_Way, ...]:
        """In which order they are tried. Who would be lost for good is, unless the site requeues jobs, the last."""
        if self._snapshot.preempt_requeue:
            return (_Way.REQUEUE, *_STOPPING)
        return (*_STOPPING, _Way.REQUEUE) if self._may_end(queues) else _STOPPING

    def _ends_for_good(self, name: str) -> bool:
        """Whether jobs of the queue end when they are preempted (TERMINATE_WHEN)."""
        queue = self._snapshot.queues.get(name)
        return queue is not None and PREEMPT in queue.terminate_when

    def _for_shared(
        self, job_id: int, bucket: Bucket, demand: Demand, names: Sequence[str], queues: dict[str, int]
    ) -> Displacement | None:
        """Victims on any host for a job that lacks what hosts share."""
        needs = self._trial.needs(bucket, demand)
        if len(needs) != 1 or not needs[0].on_one:
            return None
        ripe = {each.job_id: each for jobs in self._ripe_jobs(bucket.queue, queues).values() for each in jobs}
        able = [each for each in ripe.values() if self._is_able(each, _Way.REQUEUE) and each.job_id not in self.gone]
        ranked = sorted(self._victim(each, queues, wants_gpus=needs[0].gpus > 0) for each in able)
        candidates = _runs(ranked)[:MOST_VICTIMS]
        for host in names[:MOST_HOSTS] if candidates else ():
            lacks = self._reservations.ahead.shared_lacks(bucket, needs[0], host)
            if not lacks:
                continue
            fits = partial(self._fits, bucket, demand, [host], way=_Way.REQUEUE)
            chosen = choose(lacks, candidates, host, fits)
            found = None if chosen is None else self._free_later(job_id, bucket, *chosen, _Way.REQUEUE)
            if found is not None:
                return found
        return None

    def resumable(self) -> list[int]:
        """Preempted jobs that may go on: their slots are free, and held for nobody else. To be asked at the end of a
        cycle that came to all jobs. Their slots are taken in the cycle's ledger.
        """
        ledger, running = self._snapshot.ledger, self._snapshot.running
        waiting = [running[key[0]] for key in ledger.suspended if key[0] in running and key[0] not in self.gone]
        waiting.sort(key=lambda each: (-self._priority(each), each.started_at, each.job_id))
        resumed = []
        for each in waiting:
            if each.state == "SSUSP" and not each.is_ending and self._has_slots(each):
                ledger.resume(each.key, each.allocation)
                if each.moved_off is not None:
                    ledger.move_back(each.key, each.moved_off)
                resumed.append(each.job_id)
        return resumed

    # -- who may be displaced -------------------------------------------------------------------------------------

    def _queues_below(self, name: str) -> dict[str, int]:
        """Queues whose jobs may be displaced -> preference."""
        found = self._preemptable.get(name)
        if found is None:
            queues = self._snapshot.queues
            queue = queues.get(name)
            named = dict(queue.preemption.preemptive or ()) if queue is not None else {}
            found = self._preemptable[name] = (
                {}
                if queue is None
                else {each.name: named.get(each.name, 0) for each in queues.values() if may_preempt(queue, each)}
            )
        return found

    def _ripe_jobs(self, queue: str, below: dict[str, int]) -> dict[str, list[Running]]:
        """Host -> jobs there that jobs of the queue may displace. Kept for the cycle."""
        found = self._ripe.get(queue)
        if found is None:
            found = self._ripe[queue] = {}
            for running in self._snapshot.running.values():
                if running.bucket.queue in below and self._is_ripe(running) and not self._is_owner(running, queue):
                    for part in running.allocation.parts:
                        found.setdefault(part.host, []).append(running)
        return found

    def _is_owner(self, running: Running, queue: str) -> bool:
        """Whether the job is of a service class with a guarantee, which jobs of the queue do not displace."""
        name = running.bucket.service_class
        if not name or self._snapshot.queues[queue].ignores_guarantees:
            return False
        return any(name in pool.shares for pool in self._snapshot.guarantees)

    def _by_host(
        self,
        ripe: dict[str, list[Running]],
        queues: dict[str, int],
        bucket: Bucket,
        demand: Demand,
        names: Sequence[str],
        way: _Way,
    ) -> dict[str, list[_Victim]]:
        """Host -> those who may be displaced in this way, first choice first; hosts that lack least before the others.

        Hosts where even all of them would not be enough are left out.
        """
        needs = self._trial.needs(bucket, demand)
        slots, gpus = min(need.slots for need in needs), min(need.gpus for need in needs)
        lacking: list[tuple[int, int, str, list[Running]]] = []
        for host in names:
            able = [each for each in ripe.get(host, ()) if self._is_able(each, way) and each.job_id not in self.gone]
            if able:
                host_ledger = self._snapshot.ledger.host(host)
                free = slots if host_ledger.free_slots is None else host_ledger.free_slots
                idle = len(host_ledger.gpus) - len(host_ledger.holders)
                parts = [host_ledger.held[each.key] for each in able if each.key in host_ledger.held]
                more = sum(part.slots for part in parts)
                freed = 0 if way is _Way.SUSPEND else sum(len(part.gpus) for part in parts)
                if free + more >= slots and idle + freed >= gpus:
                    lacking.append((max(0, gpus - idle), max(0, slots - free), host, able))
        lacking.sort(key=lambda each: each[:3])
        return {
            host: sorted(self._victim(each, queues, wants_gpus=gpus > 0) for each in able)
            for _, _, host, able in lacking[:MOST_RANKED]
        }

    def _is_able(self, running: Running, way: _Way) -> bool:
        """The same with what its queue, its host and the site do. A GPU whose mode was set for the job is not another's
        to set.
        """
        if self._ends_for_good(running.bucket.queue):
            return way is _Way.REQUEUE and running.state in _ENDABLE
        if way is _Way.REQUEUE and not self._snapshot.preempt_requeue:
            return False
        if not _able(running, way) or way is not _Way.MOVE:
            return _able(running, way)
        part = running.allocation.hosts[0]
        devices = self._snapshot.ledger.host(part.host).gpus
        found = [devices.get(gpu.uuid) for gpu in part.gpus]
        return all(gpu is not None and gpu.moves_jobs and gpu.standing_mode is None for gpu in found)

    def _victim(self, running: Running, queues: dict[str, int], *, wants_gpus: bool) -> _Victim:
        wasted = not wants_gpus and any(part.gpus for part in running.allocation.hosts)
        preference = queues[running.bucket.queue]
        key = (-preference, self._priority(running), wasted, -running.started_at, -running.job_id)
        return _Victim(key, running)

    def _is_ripe(self, running: Running) -> bool:
        """Whether it has run long enough, has not been preempted too often, and is not ending already."""
        if running.is_ending or running.job_id in self.gone:
            return False
        if self._is_spared(running):
            return False
        return self._now - _went_on(running) >= self._snapshot.min_run_before_preempt_s

    def _is_spared(self, running: Running) -> bool:
        """By what application profile, queue or cluster say, each where the one before says nothing."""
        bucket, snapshot = running.bucket, self._snapshot
        queue = snapshot.queues.get(bucket.queue)
        sparing = snapshot.application_sparing.get(bucket.application, NOBODY_SPARED)
        sparing = sparing.over(queue.sparing if queue is not None else NOBODY_SPARED).over(snapshot.sparing)
        needed = bucket.requirement
        total = needed.estimate_s if needed.estimate_s is not None else needed.run_s
        unbroken_s = self._now - _went_on(running)
        return sparing.spares(self._now - running.started_at, total, running.preempted, unbroken_s)

    def _priority(self, running: Running) -> int:
        return queue_priority(self._snapshot.queues, running.bucket.queue)

    # -- how many are needed --------------------------------------------------------------------------------------

    def _is_coming(self, bucket: Bucket, demand: Demand, names: Sequence[str]) -> bool:
        """Whether the job will fit as soon as those have ended that are ending already."""
        if self._ending is None:
            self._ending = [each for each in self._snapshot.running.values() if each.is_ending]
        hosts = {part.host for each in self._ending for part in each.allocation.parts}.intersection(names)
        if not hosts:
            return False
        order = [*sorted(hosts), *(name for name in names if name not in hosts)][: MOST_HOSTS + len(hosts)]
        return self._fits(bucket, demand, order, self._ending, way=_Way.REQUEUE) is not None

    def _fits(
        self, bucket: Bucket, demand: Demand, hosts: Sequence[str], victims: Sequence[Running], *, way: _Way
    ) -> Allocation | None:
        by_host: dict[str, list[Running]] = {}
        for victim in victims:
            for part in victim.allocation.parts:
                by_host.setdefault(part.host, []).append(victim)

        def host_ledger(host: str) -> HostLedger:
            ledger = self._snapshot.ledger.host(host)
            displaced = by_host.get(host)
            if not displaced:
                return ledger
            ledger = ledger.copy()
            for victim in displaced:
                if victim.key in ledger.held:
                    _make_room(ledger, victim, way)
            return ledger

        found = self._trial.place(bucket, demand, hosts, host_ledger)
        return None if isinstance(found, Reason) else found

    def _choose(
        self, bucket: Bucket, demand: Demand, names: Sequence[str], by_host: dict[str, list[_Victim]], way: _Way
    ) -> tuple[list[Running], Allocation] | None:
        """The fewest victims found, and what the job holds instead of them."""
        if not by_host:
            return None
        if not all(need.on_one for need in self._trial.needs(bucket, demand)):
            return self._choose_anywhere(bucket, demand, names, by_host, way)
        best: tuple[int, list[_Victim], str, Allocation] | None = None
        hosts = sorted((found[0].key, host) for host, found in by_host.items())
        for _, host in hosts[:MOST_HOSTS]:
            found = self._choose_on(bucket, demand, host, by_host[host][:MOST_VICTIMS], way)
            if found is not None and (best is None or (len(found[0]), found[0], host) < best[:3]):
                best = (len(found[0]), found[0], host, found[1])
        return None if best is None else ([each.running for each in best[1]], best[3])

    def _choose_on(
        self, bucket: Bucket, demand: Demand, host: str, victims: Sequence[_Victim], way: _Way
    ) -> tuple[list[_Victim], Allocation] | None:
        """One victim that suffices, else the first ones that do together, without those that are not needed."""
        for victim in victims[:MOST_PRUNED]:
            found = self._fits(bucket, demand, [host], [victim.running], way=way)
            if found is not None:
                return [victim], found
        low, high = 1, len(victims)
        if high < 2 or self._fits(bucket, demand, [host], _runs(victims), way=way) is None:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._fits(bucket, demand, [host], _runs(victims[:middle]), way=way) is None:
                low = middle
            else:
                high = middle
        return self._spare(bucket, demand, [host], list(victims[:high]), way)

    def _choose_anywhere(
        self, bucket: Bucket, demand: Demand, names: Sequence[str], by_host: dict[str, list[_Victim]], way: _Way
    ) -> tuple[list[Running], Allocation] | None:
        usable = set(names)
        every = {each.running.job_id: each for victims in by_host.values() for each in victims}
        victims = sorted(every.values())[:MOST_VICTIMS]
        first = [part.host for each in victims for part in each.running.allocation.parts if part.host in usable]
        hosts = list(dict.fromkeys([*first, *names]))[:MOST_VICTIMS]
        if self._fits(bucket, demand, hosts, _runs(victims), way=way) is None:
            return None
        low, high = 0, len(victims)
        while high - low > 1:
            middle = (low + high) // 2
            if self._fits(bucket, demand, hosts, _runs(victims[:middle]), way=way) is None:
                low = middle
            else:
                high = middle
        found = self._spare(bucket, demand, hosts, victims[:high], way)
        return None if found is None else (_runs(found[0]), found[1])

    def _spare(
        self, bucket: Bucket, demand: Demand, hosts: Sequence[str], victims: list[_Victim], way: _Way
    ) -> tuple[list[_Victim], Allocation] | None:
        """Let those go on that are not needed, the last choice first."""
        found = self._fits(bucket, demand, hosts, _runs(victims), way=way)
        for victim in list(reversed(victims))[:MOST_PRUNED]:
            fewer = [each for each in victims if each is not victim]
            without = self._fits(bucket, demand, hosts, _runs(fewer), way=way) if fewer else None
            if without is not None:
                victims, found = fewer, without
        return None if found is None else (victims, found)

    # -- displacing -----------------------------------------------------------------------------------------------

    def _displace(
        self, job_id: int, bucket: Bucket, victims: list[Running], allocation: Allocation, way: _Way
    ) -> Displacement | None:
        if way is _Way.SUSPEND:
            return self._suspend(job_id, bucket, victims, allocation)
        return self._free_later(job_id, bucket, victims, allocation, way)

    def _suspend(
        self, job_id: int, bucket: Bucket, victims: list[Running], allocation: Allocation
    ) -> Displacement | None:
        ledger = self._snapshot.ledger
        for victim in victims:
            ledger.suspend(victim.key, victim.allocation)
        ends_at = self._now + self._reservations.future.run_s(bucket)
        refused = any(self._reservations.allows(part, ends_at, bucket) is not None for part in allocation.parts)
        refused = refused or self._reservations.keeps_limits(allocation.hosts, ends_at, bucket) is not None
        refused = refused or self._reservations.ahead.breaks_limits(bucket, allocation.hosts)
        if refused or not self._reservations.may_stop(victims):
            for victim in victims:
                ledger.resume(victim.key, victim.allocation)
            return None
        self.gone.update(victim.job_id for victim in victims)
        self._reservations.guard.suspended(victims)  # who comes later in the cycle leaves them their slots
        return Displacement(_preempted(job_id, victims, _Way.SUSPEND), allocation)

    def _free_later(
        self, job_id: int, bucket: Bucket, victims: list[Running], allocation: Allocation, way: _Way
    ) -> Displacement | None:
        if way is _Way.MOVE and not self._reservations.may_stop(victims):
            return None
        ending = self._reservations.future.ending
        added = {victim.job_id for victim in victims} - ending
        ending |= added
        terminate_s = self._snapshot.terminate_s
        saving = [each for each in victims if not self._ends_for_good(each.bucket.queue)] if way is _Way.REQUEUE else ()
        ends = (each.ends_when_asked(self._now, terminate_s) for each in saving)
        planned = self._reservations.hold(job_id, bucket, allocation, max(ends, default=self._now + terminate_s))
        if planned is None:
            ending -= added
            return None
        self.gone |= added
        return Displacement(_preempted(job_id, victims, way), None, planned)

    def _has_slots(self, running: Running) -> bool:
        """Its slots are free, and the GPU that it was moved off."""
        for part in (running.moved_off or running.allocation).hosts:
            if slots_missing(part.slots, self._snapshot.ledger.host(part.host)):
                return False
            host = self._snapshot.hosts.get(part.host)
            gpus = part.gpus if running.moved_off is not None else ()
            if any(gpu.uuid in self._snapshot.ledger.host(part.host).holders for gpu in gpus):
                return False
            slots = HostAllocation(host=part.host, slots=part.slots, gpus=gpus)
            if host is None or host.closed or not self._reservations.may_go_on(slots, math.inf, running.bucket):
                return False
        return True


def _went_on(running: Running) -> float:
    """Since when it runs without having been suspended."""
    return max(running.started_at, running.resumed_at)


def _able(running: Running, way: _Way) -> bool:
    """Whether the job can be displaced in this way, as far as it is concerned."""
    if way is _Way.REQUEUE:
        return running.rerunnable and running.state in _ENDABLE
    return running.state in _STOPPABLE and (way is _Way.SUSPEND or running.may_move)


def _make_room(ledger: HostLedger, victim: Running, way: _Way) -> None:
    if way is _Way.REQUEUE:
        ledger.give(victim.key)
        keep_resized(ledger, victim.job_id, victim.keeps)
        return
    ledger.suspend(victim.key)
    if way is _Way.MOVE:
        ledger.move_off(victim.key)


def _runs(victims: Sequence[_Victim]) -> list[Running]:
    return [victim.running for victim in victims]


def _preempted(by: int, victims: list[Running], way: _Way) -> tuple[Preempted, ...]:
    return tuple(Preempted(each.job_id, by, way is _Way.REQUEUE, way is _Way.MOVE) for each in victims)
