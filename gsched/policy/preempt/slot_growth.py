"""Started jobs get more slots while they run (-ar, gresize request), on the hosts where they are.

It comes after all waiting jobs were served and preempted ones went on, and takes nothing of hosts for which starts are
planned, or where a preempted job waits for its slots. What such a job needs beside slots must not become more by it:
GPUs and amounts that are reserved for each task stay as they were given. It changes nothing: the plan
says who is to have more.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from msgspec import structs

from gsched.base.errors import RequirementError
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.scheduling.snapshot import Growth, Running, Snapshot
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.requirement.demand import DemandTerm
from gsched.policy.requirement.demand_cache import Demands
from gsched.policy.requirement.gpu_range import claim_rank

ANY = 2**31
"""Slots, where nothing says how many there may be."""


class SlotGrowth:
    """For one cycle, at its end."""

    def __init__(
        self, snapshot: Snapshot, now: float, limits: LimitUse, reservations: Reservations, demands: Demands
    ) -> None:
        self._snapshot = snapshot
        self._now = now
        self._limits = limits
        self._reservations = reservations
        self._demands = demands
        self._given: dict[str, int] = {}
        """Host -> slots that were given away here."""

    def grow(self, gone: Container[int]) -> list[Growth]:
        """The started jobs that get more. `gone`: jobs that make room for others."""
        snapshot = self._snapshot
        if not snapshot.growing or not snapshot.shows_all_waiting:
            return []
        grown = []
        started = [snapshot.running[job_id] for job_id in snapshot.growing if job_id in snapshot.running]
        for each in sorted(started, key=partial(claim_rank, snapshot.queues)):
            if each.state == "RUN" and not each.is_ending and each.job_id not in gone:
                more = self._more(each)
                if more is not None:
                    grown.append(Growth(each.job_id, more))
        return grown

    def _more(self, running: Running) -> Allocation | None:
        """Its allocation with as many more slots as it may have; None where that is none."""
        term = self._term(running)
        if term is None or self._limits.is_stopped(running.bucket):
            return None
        wanted, parts = self._most(running) - running.allocation.slots, list(running.allocation.hosts)
        for place, part in enumerate(parts):
            tile = self._tile(term, part)
            most = min(wanted, self._free(part.host, term), tile - part.slots)
            added = self._allowed(running, part.host, most) if most > 0 and _grows_freely(term, part) else 0
            if added:
                wanted -= added
                self._given[part.host] = self._given.get(part.host, 0) + added
                parts[place] = structs.replace(part, slots=part.slots + added)
                self._limits.guarantees.hand_out(HostAllocation(host=part.host, slots=added))
                before, after = Allocation(hosts=(part,)), Allocation(hosts=(parts[place],))
                self._limits.count_growth(running.bucket, before, after)
        allocation = structs.replace(running.allocation, hosts=tuple(parts))
        return allocation if allocation != running.allocation else None

    def _most(self, running: Running) -> int:
        """Slots that it may have: TASKLIMIT may be less by now than when more were asked for."""
        queue = self._snapshot.queues.get(running.bucket.queue)
        of_queue = queue.task_limit if queue is not None else None
        most = running.wants_slots if of_queue is None else min(running.wants_slots, of_queue[2])
        return min(most, self._snapshot.application_tasks.get(running.bucket.application, most))

    def _term(self, running: Running) -> DemandTerm | None:
        """What each of its tasks needs; None where they do not all need the same, or places are more than slots."""
        demand = self._demands.of(running.bucket.requirement)
        if isinstance(demand, RequirementError) or len(demand.choices) != 1 or len(demand.choices[0].terms) != 1:
            return None
        term = demand.choices[0].terms[0]
        has_own = any(part.exclusive or part.bindings for part in running.allocation.parts)
        return None if has_own or term.affinity is not None else term

    def _tile(self, term: DemandTerm, part: HostAllocation) -> int:
        """The most slots that the job may have on the host, whatever is free."""
        seen = self._snapshot.hosts.get(part.host)
        tile = None if seen is None else term.tile(seen.values)
        most = tile if tile is not None else term.most_on_host
        return ANY if most is None else most

    def _free(self, host: str, term: DemandTerm) -> int:
        """Slots there that nobody has and nobody is to have. `term`: what each task of the job needs."""
        seen = self._snapshot.hosts.get(host)
        if seen is None or seen.closed or seen.busy or host in self._reservations.hosts():
            return 0
        ledger = self._snapshot.ledger.host(host)
        # Where no number of slots is set (MXJ), jobs grow no further than to its CPUs.
        free = seen.ncpus - ledger.slots_used if ledger.free_slots is None else ledger.free_slots
        if ledger.free_slots is not None and not term.need(1).wants_gpus:
            free -= self._snapshot.reserve_cores_per_gpu * ledger.idle()
        return max(0, free - self._given.get(host, 0))

    def _allowed(self, running: Running, host: str, most: int) -> int:
        """How many more limits of slots let it have there; it is no other job by that."""
        extra = (HostAllocation(host=host, slots=most),)
        for claim in self._limits.claims(running.bucket, extra, self._snapshot.minute_of_week):
            if claim.counter.counts_slots:
                most = min(most, int(claim.allowed - claim.used))
        guarantees = self._limits.guarantees
        while most > 0 and guarantees.refusal(running.bucket, (HostAllocation(host=host, slots=most),)) is not None:
            most -= 1
        if most <= 0:
            return 0
        extra = (HostAllocation(host=host, slots=most),)
        ends_at = self._now + self._reservations.future.run_s(running.bucket)
        return most if self._reservations.keeps_limits(extra, ends_at, running.bucket) is None else 0


def _grows_freely(term: DemandTerm, part: HostAllocation) -> bool:
    """Whether one more task there needs nothing but a slot."""
    now, then = term.need(part.slots), term.need(part.slots + 1)
    return (now.amounts, now.devices) == (then.amounts, then.devices)
