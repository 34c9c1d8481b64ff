"""Where: the best of the hosts that can take a job. A job runs on one host; the rank's keys are stated here.

With order[]: by its keys in their natural direction. Without: jobs with GPUs go where fewest devices stay free (packing
leaves room for big jobs), others to the least loaded host (r15s). A host to avoid comes last; ties go by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.model.allocation import HostAllocation
from gsched.model.ledger import Ledger
from gsched.model.resource import ALIASES, BUILTIN
from gsched.model.snapshot import Bucket, HostSnapshot, HostValues
from gsched.policy.demand import Demand
from gsched.policy.explain import Reason
from gsched.policy.feasible import live_values, try_host
from gsched.policy.limits import SlotUse

Rank = tuple[bool, tuple[float, ...], str]


class Placer:
    """Places jobs of one cycle, host by host; caches each host's live values until something is taken there."""

    def __init__(
        self, hosts: Iterable[HostSnapshot], ledger: Ledger, use: SlotUse, queue_hosts: dict[str, frozenset[str]]
    ) -> None:
        self._hosts = sorted(hosts, key=lambda host: host.name)
        self._ledger = ledger
        self._use = use
        self._queue_hosts = queue_hosts
        self._values: dict[str, HostValues] = {}
        self._used_now: set[str] = set()
        self.steps = 0

    def place(self, bucket: Bucket, demand: Demand, *, spaced: bool) -> HostAllocation | list[Reason]:
        """The best host for the bucket's next job, or each host's reason. `spaced`: one job per host and cycle."""
        best: tuple[Rank, HostAllocation] | None = None
        reasons: list[Reason] = []
        for host in self._hosts:
            self.steps += 1
            found = self._try(bucket, demand, host, spaced)
            if isinstance(found, Reason):
                reasons.append(found)
                continue
            rank = self._rank(demand, host, found)
            if best is None or rank < best[0]:
                best = (rank, found)
        if best is None:
            return reasons
        return best[1]

    def placed(self, bucket: Bucket, part: HostAllocation) -> None:
        """Something was taken on the host: look at it anew from now on."""
        self._values.pop(part.host, None)
        self._used_now.add(part.host)
        self._use.count(bucket, part.host)

    def _try(self, bucket: Bucket, demand: Demand, host: HostSnapshot, spaced: bool) -> HostAllocation | Reason:
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

    def _rank(self, demand: Demand, host: HostSnapshot, part: HostAllocation) -> Rank:
        avoid = host.name == demand.avoid_host
        if demand.order is not None:
            return avoid, tuple(_weight(self._values[host.name], name, flip) for name, flip in demand.order), host.name
        values = self._values[host.name]
        load = (_weight(values, "r15s", False), _weight(values, "pg", False))
        if demand.wants_gpus:
            ledger = self._ledger.host(host.name)
            left = float(len(ledger.gpus) - len(ledger.holders) - len(part.gpus))
            return avoid, (left, *load), host.name
        return avoid, load, host.name


def _weight(values: HostValues, name: str, flip: bool) -> float:
    """A sort key that is small for the better host; unknown values come last."""
    name = ALIASES.get(name, name)
    value = values.get(name)
    if not isinstance(value, float | int):
        return float("inf")
    resource = BUILTIN.get(name)
    larger_is_better = resource is None or not resource.increasing
    return float(-value if larger_is_better != flip else value)
