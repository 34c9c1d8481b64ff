"""Compute units (cu[...]): which unit a host is in, and cu[excl], with which a job has its units for itself.

Such a job runs alone on its hosts and keeps all other hosts of its units from others, without running anything there.
It takes nothing. Source: the compute unit string of LSF's administration guide; lsb.queues(5), EXCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import structs

from gsched.base.coded_text import coded
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.policy.requirement.demand import DemandTerm
from gsched.policy.requirement.reasons import Reason

UnitDenial = Callable[[HostAllocation], Reason | None]
"""Why a part without slots cannot be had now; None when it can."""


class Units:
    """The compute units of the type that a term names, or of the first type if it names none."""

    def __init__(
        self, compute_units: Mapping[str, Mapping[str, Sequence[str]]], term: DemandTerm, hosts: Collection[str]
    ) -> None:
        """`hosts`: those that there are."""
        wanted = (term.cu.type if term.cu is not None else "") or next(iter(compute_units), "")
        self._units = list(compute_units.get(wanted, {}).items()) if term.cu is not None else []
        self._hosts = hosts
        self._whole = term.whole_units
        self.number: dict[str, int] | None = None
        """Host -> number of its unit, in the order of the configuration; None without cu[...]."""
        if term.cu is not None:
            self.number = {host: number for number, (_, members) in enumerate(self._units) for host in members}

    def denied(self, numbers: Iterable[int], why: UnitDenial) -> dict[int, Reason]:
        """The units that cannot be had with all their hosts, and why; none without cu[excl]."""
        found: dict[int, Reason] = {}
        for number in dict.fromkeys(numbers) if self._whole else ():
            name, members = self._units[number]
            for host in members:
                reason = why(_alone(host)) if host in self._hosts else None
                if reason is not None:
                    found[number] = Reason(reason.text, coded("numbers.compute_unit", name, reason.detail))
                    break
        return found

    def whole(self, allocation: Allocation) -> Allocation:
        """The allocation, with the other hosts of its units if the job is to have these for itself."""
        if not self._whole or self.number is None:
            return allocation
        own = {part.host for part in allocation.hosts}
        used = dict.fromkeys(self.number[host] for host in own if host in self.number)
        rest = (host for number in sorted(used) for host in self._units[number][1])
        kept = tuple(_alone(host) for host in rest if host not in own and host in self._hosts)
        return structs.replace(allocation, kept=kept) if kept else allocation


def _alone(host: str) -> HostAllocation:
    return HostAllocation(host=host, slots=0, exclusive=True)
