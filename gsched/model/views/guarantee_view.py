"""Views of service classes and guaranteed pools, for gsla and gresources.

As those of `view` they are copies that nobody changes, made by the master and laid out by the commands.
"""

from __future__ import annotations

import msgspec


class PoolOwner(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool guarantees to a service class, in its units, and how much of the pool the class uses."""

    name: str
    guaranteed: float = 0.0
    used: float = 0.0
    """All, also what is beyond the guarantee."""

    @property
    def used_of_guarantee(self) -> float:
        return min(self.used, self.guaranteed)


class PoolHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host that counts for a pool now. `used`: service class, or "" for all others, -> units; of whole hosts jobs."""

    name: str
    total: float = 0.0
    free: float = 0.0
    used: dict[str, float] = {}


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """A guaranteed pool as it is now."""

    name: str
    kind: str = ""
    """TYPE."""
    noun: str = ""
    """What its units are called."""
    description: str = ""
    written: dict[str, str] = {}
    """DISTRIBUTION, HOSTS, LOAN_POLICIES ... as they were written."""
    status: str = ""
    """`ok`, `overcommitted`: more is guaranteed than there is; `close_loans`: nothing is lent while owners wait."""
    total: float = 0.0
    free: float = 0.0
    lent: float = 0.0
    """What others use of that which owners are guaranteed."""
    owners: tuple[PoolOwner, ...] = ()
    hosts: tuple[PoolHost, ...] = ()

    @property
    def guaranteed(self) -> float:
        return sum(each.guaranteed for each in self.owners)

    @property
    def used(self) -> float:
        return sum(each.used_of_guarantee for each in self.owners)


class ServiceClassView(msgspec.Struct, frozen=True, kw_only=True):
    """A service class. Counts are by state: PEND, RUN, SSUSP, USUSP, FINISH."""

    name: str
    description: str = ""
    access: str = ""
    auto_attach: bool = False
    jobs: dict[str, int] = {}
    slots: dict[str, int] = {}
