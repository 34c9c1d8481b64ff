"""What a scheduling cycle sees: pending jobs in ordered buckets, hosts with values and books, limits already used.

A snapshot shares structure with the state; the policy treats everything in it as read-only except the
forked ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gsched.model.allocation import Allocation
from gsched.model.ledger import Ledger
from gsched.model.queue import Queue
from gsched.model.resource import BUILTIN

HostValues = Mapping[str, float | str | bool | None]
"""Resource name -> value; None means unknown."""


class RequirementClass(NamedTuple):
    """Jobs that can hold exactly the same places: what decides which hosts could take them."""

    requirement: str
    """Combined requirement text."""
    slots: int
    asked_hosts: tuple[str, ...]
    avoid_host: str
    auto_gpu: bool


class Bucket(NamedTuple):
    """Jobs that are served in the same order: one queue, one user, one requirement class."""

    queue: str
    user: str
    requirement: RequirementClass


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """A host in a cycle. `closed` says in LSF's words why it takes no jobs now; empty when it does."""

    name: str
    values: HostValues
    closed: str = ""
    queue_slots: Mapping[str, int] = field(default_factory=dict)
    user_slots: Mapping[str, int] = field(default_factory=dict)
    user_limit: int | None = None
    last_dispatch: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything `schedule` may look at."""

    queues: Mapping[str, Queue]
    hosts: Mapping[str, HostSnapshot]
    ledger: Ledger
    """A fork: the policy may take from it."""
    pending: Mapping[Bucket, Iterable[int]]
    """Ids of the jobs of each bucket, first come first."""
    queue_slots: Mapping[str, int]
    queue_user_slots: Mapping[tuple[str, str], int]
    increasing: frozenset[str] = frozenset(resource.name for resource in BUILTIN.values() if resource.increasing)
    """Resources of which less is better; order[] sorts these upwards and all others downwards."""
    local_type: str = ""
    job_accept_interval_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Placement:
    """One job that can start now."""

    job_id: int
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cycle decided: placements in order, a reason for every bucket that is left waiting, one sentence."""

    placements: tuple[Placement, ...]
    reasons: Mapping[Bucket, tuple[str, ...]]
    summary: str
    truncated: bool = False
    """The budget of steps ran out; another cycle should follow."""
