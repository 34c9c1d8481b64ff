"""Where: the best of the hosts that can take a job. A job runs on one host; the rank's keys are stated here.

With order[]: by its keys in their natural direction. Without: jobs with GPUs go where fewest devices stay free (packing
leaves room for big jobs), others to the least loaded host (r15s). A host to avoid comes last; ties go by name.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable

from gsched.model.allocation import HostAllocation
from gsched.model.host import ComputeMode
from gsched.model.snapshot import Bucket, HostSnapshot, HostValues, Snapshot
from gsched.policy.demand import Demand
from gsched.policy.explain import Reason
from gsched.policy.feasible import live_values, try_host
from gsched.policy.limits import SlotUse

Rank = tuple[bool, tuple[float, ...], str]
"""(is to be avoided, keys, host name): the smallest is the best."""


class _Candidates:
    """The hosts that can take a job of one class, best first, and why the others cannot."""

    __slots__ = ("_heap", "_ranks", "reasons", "seen")

    def __init__(self) -> None:
        self.seen = 0
        """How many of the cycle's placements are taken into account."""
        self.reasons: dict[str, Reason] = {}
        self._ranks: dict[str, Rank] = {}
        self._heap: list[Rank] = []

    def rank(self, host: str, rank: Rank) -> None:
        """The host can take a job."""
        self.reasons.pop(host, None)
        if self._ranks.get(host) != rank:
            self._ranks[host] = rank
            heapq.heappush(self._heap, rank)

    def refuse(self, host: str, reason: Reason) -> None:
        """The host cannot take a job now."""
        self._ranks.pop(host, None)
        self.reasons[host] = reason

    def best(self) -> str | None:
        """The best host; ranks that no longer hold are thrown away on the way."""
        while self._heap and self._ranks.get(self._heap[0][2]) != self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None


class Placer:
    """Places the jobs of one cycle. A class looks at each host once, and again when something was taken there."""

    def __init__(self, snapshot: Snapshot, hosts: Iterable[HostSnapshot], use: SlotUse) -> None:
        """`hosts`: the snapshot's hosts, some of them closed for this cycle's sake."""
        self._hosts = {host.name: host for host in sorted(hosts, key=lambda host: host.name)}
        self._ledger = snapshot.ledger
        self._increasing = snapshot.increasing
        self._use = use
        self._queue_hosts = {
            name: frozenset(queue.hosts) for name, queue in snapshot.queues.items() if queue.hosts is not None
        }
        self._values: dict[str, HostValues] = {}
        self._taken: list[str] = []
        self._used_now: set[str] = set()
        self._candidates: dict[Hashable, _Candidates] = {}
        self._owner_matters = any(host.user_limit is not None for host in self._hosts.values())
        self.steps = 0

    def place(self, bucket: Bucket, demand: Demand, *, spaced: bool) -> HostAllocation | list[Reason]:
        """The best host for the bucket's next job, or each host's reason. `spaced`: one job per host and cycle."""
        key: Hashable = bucket if self._owner_matters else (bucket.queue, bucket.requirement)
        candidates = self._candidates.get(key)
        if candidates is None:
            candidates = self._candidates[key] = _Candidates()
            stale: Iterable[str] = self._hosts
        else:
            stale = dict.fromkeys(self._taken[candidates.seen :])
        for name in stale:
            self._judge(bucket, demand, name, spaced, candidates)
        candidates.seen = len(self._taken)
        best = candidates.best()
        if best is not None:
            found = self._try(bucket, demand, self._hosts[best], spaced)
            assert isinstance(found, HostAllocation)  # nothing was taken there since it was judged
            return found
        del self._candidates[key]
        return [candidates.reasons[name] for name in self._hosts]

    def placed(self, bucket: Bucket, part: HostAllocation) -> None:
        """Something was taken on the host: look at it anew from now on."""
        self._values.pop(part.host, None)
        self._taken.append(part.host)
        self._used_now.add(part.host)
        self._use.count(bucket, part.host)

    def _judge(self, bucket: Bucket, demand: Demand, name: str, spaced: bool, candidates: _Candidates) -> None:
        self.steps += 1
        found = self._try(bucket, demand, self._hosts[name], spaced)
        if isinstance(found, Reason):
            candidates.refuse(name, found)
        else:
            candidates.rank(name, self._rank(demand, name, found))

    def _try(self, bucket: Bucket, demand: Demand, host: HostSnapshot, spaced: bool) -> HostAllocation | Reason:
        if host.closed:
            return Reason(host.closed)
        members = self._queue_hosts.get(bucket.queue)
        if members is not None and host.name not in members:
            return Reason("Not usable to the queue")
        if spaced and host.name in self._used_now:
            return Reason("Just started a job recently")
        limited = self._use.host_reason(bucket, host)
        if limited is not None:
            return limited
        ledger = self._ledger.host(host.name)
        values = self._values.get(host.name)
        if values is None:
            values = self._values[host.name] = live_values(host, ledger)
        return try_host(demand, host, ledger, values)

    def _rank(self, demand: Demand, name: str, part: HostAllocation) -> Rank:
        avoid = name == demand.avoid_host
        values = self._values[name]
        if demand.order is not None:
            return avoid, tuple(self._weight(values, key, flip) for key, flip in demand.order), name
        load = (self._weight(values, "r15s", False), self._weight(values, "pg", False))
        if demand.wants_gpus:
            return avoid, (self._idle_devices(name, part), *load), name
        return avoid, load, name

    def _idle_devices(self, name: str, part: HostAllocation) -> float:
        """Usable devices that nobody would hold if the part were taken."""
        ledger = self._ledger.host(name)
        claimed = {held.uuid for held in part.gpus}
        return float(
            sum(
                not gpu.problem
                and gpu.mode is not ComputeMode.PROHIBITED
                and gpu.uuid not in ledger.holders
                and gpu.uuid not in claimed
                for gpu in ledger.gpus.values()
            )
        )

    def _weight(self, values: HostValues, name: str, flip: bool) -> float:
        """A sort key that is small for the better host; unknown values come last."""
        value = values.get(name)
        if not isinstance(value, float | int):
            return float("inf")
        return float(value if (name in self._increasing) != flip else -value)
