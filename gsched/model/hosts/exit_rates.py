"""How many attempts may fail on a host before it is closed: GLOBAL_EXIT_RATE of lsb.params, EXIT_RATE of lsb.hosts.

Source: lsb.params(5), lsb.hosts(5).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

NO_LIMIT = 2**31 - 1
"""LSF's number for any number."""


class ExitKind(StrEnum):
    """EXIT_RATE_TYPE: which ends of attempts count."""

    ANY = "JOBEXIT"
    """Those that ran and failed, or were ended."""
    OWN = "JOBEXIT_NONLSF"
    """Those that ran and failed by themselves: nobody has ended them, nor a limit or a policy."""
    START = "JOBINIT"
    """Those whose command was never executed."""
    PARALLEL_START = "HPCINIT"
    """The same, of jobs on several hosts alone."""


class ExitRates(msgspec.Struct, frozen=True, kw_only=True):
    """What holds in the cluster."""

    most: int | None = None
    """GLOBAL_EXIT_RATE: so many may fail on a host that has no EXIT_RATE; None: any number."""
    within_s: float = 300.0
    """JOB_EXIT_RATE_DURATION: within so many seconds."""
    kinds: frozenset[ExitKind] = frozenset({ExitKind.OWN})
    per_slot: bool = False
    """ENABLE_EXIT_RATE_PER_SLOT: so many for each slot of the host."""

    def limit(self, of_host: int | None, slots: int | None) -> int | None:
        """How many may fail on a host with that EXIT_RATE and so many slots (0: nobody knows now; None: any number, of
        which one counts). None: any number.
        """
        most = self.most if of_host is None else of_host
        if most is None or most >= NO_LIMIT:
            return None
        if not self.per_slot:
            return most
        return None if slots == 0 else most * (slots or 1)
