"""What planning and preemption ask about a place for one job, on any ledger. It says no more than how to ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gsched.model.ledgers.allocation import Allocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.snapshot import Bucket
from gsched.policy.future.future_limits import LimitsThen
from gsched.policy.future.least_needs import Need
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.reasons import Reason

LedgerOf = Callable[[str], HostLedger]
"""Name of a host -> its ledger, as it stands now or at the time that is looked at."""
HostMask = npt.NDArray[np.bool_]


class AsksFit(Protocol):
    """Asks whether a job would fit, on any ledger. It takes nothing."""

    def candidates(self, bucket: Bucket, demand: Demand) -> Collection[str]:
        """Hosts that could ever give something to the job: open, in its queue, asked for."""
        ...

    def usable(self, bucket: Bucket, demand: Demand) -> HostMask | None:
        """The same as flags in the order of all hosts' names; None where only `candidates` knows."""
        ...

    def met(self, bucket: Bucket, demand: Demand) -> npt.NDArray[np.uint8] | None:
        """For each host, in the same order: how many conditions it meets now before the first that it does not; None
        where nobody knows.
        """
        ...

    def open_to(self, queue: str) -> HostMask | None:
        """Hosts that are open and that the queue uses, as flags; None where nobody knows."""
        ...

    def is_outside(self, bucket: Bucket, demand: Demand, host: str) -> bool:
        """Whether the host is none of the queue's, or not asked for, however it is now."""
        ...

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
        ...

    def needs(self, bucket: Bucket, demand: Demand) -> Sequence[Need]:
        """The least that the job takes, for each of its alternatives."""
        ...
