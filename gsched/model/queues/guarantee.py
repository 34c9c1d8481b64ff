"""Service classes and the pools of resources that are guaranteed to them.

A pool is counted in units: slots, whole hosts, packages of several resources of one host, or amounts of one resource.
It says what was written and never what is used. Source: lsb.serviceclasses(5); lsb.resources(5), section
GuaranteedResourcePool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from gsched.model.queues.limit import GPUS, SLOTS, Consumers

WHOLE_HOSTS = "hosts"
"""TYPE of a pool whose units are hosts that nobody else uses."""


class ServiceClass(msgspec.Struct, frozen=True, kw_only=True):
    """A service class with GOALS = [GUARANTEE]: a container of jobs. A kind of consumers that is None admits all."""

    name: str
    description: str = ""
    queues: tuple[str, ...] | None = None
    users: Consumers | None = None
    """Groups resolved."""
    share_groups: tuple[str, ...] | None = None
    """FAIRSHARE_GROUPS: what jobs say with -G."""
    applications: tuple[str, ...] | None = None
    projects: tuple[str, ...] | None = None
    access: str = ""
    """ACCESS_CONTROL as it was written."""
    auto_attach: bool = False
    """AUTO_ATTACH: jobs that it admits and that name no class belong to it."""
    source: str = ""

    def refused(self, *, queue: str, user: str, share_group: str, application: str, project: str) -> str:
        """The part of ACCESS_CONTROL that keeps such a job out (`QUEUES`); empty where none does."""
        if self.queues is not None and queue not in self.queues:
            return "QUEUES"
        if self.users is not None and not self.users.has(user):
            return "USERS"
        if self.share_groups is not None and share_group not in self.share_groups:
            return "FAIRSHARE_GROUPS"
        if self.applications is not None and application not in self.applications:
            return "APPS"
        return "PROJECTS" if self.projects is not None and project not in self.projects else ""


class Portion(msgspec.Struct, frozen=True):
    """So many units, or so many percent of a number of them."""

    amount: float
    is_percent: bool = False

    def of(self, whole: float) -> float:
        """The number of units; of a part only those that are whole."""
        return math.floor(whole * self.amount / 100 + 1e-9) if self.is_percent else self.amount

    def __str__(self) -> str:
        return f"{self.amount:.10g}{'%' if self.is_percent else ''}"


class LoanPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """LOAN_POLICIES: who may use what is guaranteed to others and not in use, and how much of it."""

    queues: tuple[str, ...] = ()
    """Whose jobs may borrow; empty: none unless `all_queues`."""
    all_queues: bool = False
    at_once: tuple[str, ...] = ()
    """`!queue`: of these, jobs whose loans do not wait until the owners have been served."""
    duration_s: float | None = None
    """The longest run limit of a job that borrows; None: any job may."""
    close_on_demand: bool = False
    """Nothing is lent while a job of an owner waits whose guarantee is not used up."""
    retain: Portion | None = None
    """Of each owner's guarantee so much stays free for him."""
    idle_buffer: Portion | None = None
    """Of all that is guaranteed together so much stays free."""

    def lends_to(self, queue: str, run_s: float | None) -> bool:
        """Whether a job of the queue with that run limit may borrow at all."""
        if not self.all_queues and queue not in self.queues:
            return False
        return self.duration_s is None or (run_s is not None and run_s <= self.duration_s)


class GuaranteePool(msgspec.Struct, frozen=True, kw_only=True):
    """One GuaranteedResourcePool section."""

    name: str
    kind: str
    """TYPE as it was written, without blanks."""
    unit: Mapping[str, float] = {}
    """Of a unit of the pool: resource (slots, ngpus, mem in MiB ...) -> amount. Empty: a whole host."""
    hosts: Consumers = Consumers()
    """Groups resolved."""
    select: str = ""
    """RES_SELECT."""
    shares: Mapping[str, Portion] = {}
    """DISTRIBUTION: service class -> what is guaranteed to it; percents are of the pool."""
    loans: LoanPolicy | None = None
    slots_per_host: int | None = None
    """Slots of a host that jobs of the owners may use together."""
    description: str = ""
    written: Mapping[str, str] = {}
    """DISTRIBUTION, HOSTS, LOAN_POLICIES, RES_SELECT and others as they were written."""
    source: str = ""

    @property
    def is_of_hosts(self) -> bool:
        """Whether its units are whole hosts."""
        return not self.unit

    @property
    def is_linear(self) -> bool:
        """Whether units are amounts of one resource, so that what a job takes is the same on each host."""
        return len(self.unit) == 1 and next(iter(self.unit.values())) == 1

    @property
    def counts_gpus(self) -> bool:
        """Whether GPUs are in its units, each of which counts once however many jobs of an owner share it on a host."""
        return GPUS in self.unit

    @property
    def noun(self) -> str:
        """What its units are called: slots, hosts, packages, or the name of a resource."""
        if self.is_of_hosts:
            return WHOLE_HOSTS
        return next(iter(self.unit)) if self.is_linear else "packages"


SLOTS_OF: Mapping[str, float] = {SLOTS: 1.0}
"""The unit of a pool of slots."""
