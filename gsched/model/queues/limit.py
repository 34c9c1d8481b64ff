"""Limit sections of lsb.resources: who together may hold how much of what, and budgets of GPU hours.

Source: lsb.resources(5), section Limit; GPU_HOURS is gsched's own.
"""

from __future__ import annotations

import msgspec

from gsched.model.queues.window import Window

SLOTS, JOBS, GPUS = "slots", "jobs", "ngpus"
"""Resource names of a limit that are not resources of hosts. `ngpus` counts devices however they were claimed;
`ngpus_physical` in a file means the same."""
PER_PROCESSOR = "slots_per_processor"
"""Slots on a host for each of its CPUs, rounded up; only of limits that tell hosts apart."""


PARTS = {"mem%": "mem", "swp%": "swp", "tmp%": "tmp"}
"""Amounts in percent of what a host has of the resource in all; only of limits that tell hosts apart."""


class Consumers(msgspec.Struct, frozen=True):
    """One consumer line (USERS, PER_USER …).

    `names`: those meant, groups already resolved into their members for users and hosts; empty means all.
    `excluded` are the `~name` of an `all ~name` line. `per`: each member has the amount for himself.
    """

    names: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    per: bool = False

    def has(self, name: str) -> bool:
        """Whether `name` is one of them."""
        return (not self.names or name in self.names) and name not in self.excluded


class Amount(msgspec.Struct, frozen=True):
    """So much while one of the windows is open (no windows: always)."""

    amount: float
    windows: tuple[Window, ...] = ()


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One Limit section. A consumer kind that the section does not mention is None and is not looked at.

    `amounts`: resource name (slots, jobs, ngpus, mem or any consumable resource; sizes in MiB) -> amounts by time.
    `gpu_hours`: at most so many GPU hours within the last `budget_window_s` seconds; None when it is no budget.
    """

    name: str
    users: Consumers | None = None
    queues: Consumers | None = None
    hosts: Consumers | None = None
    projects: Consumers | None = None
    applications: Consumers | None = None
    """Jobs without an application profile are none of them."""
    amounts: dict[str, tuple[Amount, ...]] = {}
    gpu_hours: float | None = None
    budget_window_s: float = 0.0
    source: str = ""
    is_shared_resource: bool = False
    """It is no section of lsb.resources but an instance of a resource that its hosts share
    (gsched.model.hosts.shared_resource), the only one in `amounts`."""


class HeldCounts(msgspec.Struct):
    """What the started jobs hold of whatever limits are set on. gsched.policy.limits.job_limits keeps and reads it."""

    queue_host: dict[tuple[str, str], int] = {}
    """(queue, host) -> slots."""
    user_host: dict[tuple[str, str], int] = {}
    """(user, host) -> slots."""
    user: dict[str, int] = {}
    """User -> slots."""
    pools: dict[str, dict[tuple[str, str], float]] = {}
    """Guaranteed pool -> (service class with a share in it or "", host) -> units; of whole hosts: jobs."""
    section: dict[str, dict[tuple[str, str, str, str, str], dict[str, float]]] = {}
    """Limit -> (user, queue, host, project, application), "" where it tells nobody apart -> resource -> amount."""
