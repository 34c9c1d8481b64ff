"""Views of what keeps jobs waiting, and of what is kept for others: limits, reservations, fragments, counts of reasons.

As those of `view` they are copies that nobody changes, made by the master and laid out by the commands.
"""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText


class ReservationView(msgspec.Struct, frozen=True, kw_only=True):
    """An advance reservation; `active`: its time has come."""

    name: str
    users: tuple[str, ...] = ()
    start: float = 0.0
    end: float = 0.0
    slots: dict[str, int] = {}
    gpus: dict[str, int] = {}
    used: dict[str, int] = {}
    """Host -> slots that jobs of the reservation hold."""
    active: bool = False


class ReservationPolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """A section ResourceReservation of lsb.resources in its own words; empty where it does not say."""

    name: str
    users: str = ""
    hosts: str = ""
    time_window: str = ""


class ReasonCount(msgspec.Struct, frozen=True, kw_only=True):
    """A line of gjobs -psum: so many jobs (or host occurrences) have this reason."""

    text: AnyText
    count: int
    is_host_based: bool = False


class PendingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """gjobs -psum: how many jobs wait, and for what; several reasons may hold for one job."""

    jobs: int = 0
    published_at: float = 0.0
    reasons: tuple[ReasonCount, ...] = ()


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A line of glimits: what a limit allows its consumers and how much of it they use.

    Of each kind of consumers the one whose line it is, else all whom the limit names (`ann bob`, `all ~ann`); "" for
    everybody.
    """

    name: str
    user: str = ""
    queue: str = ""
    host: str = ""
    project: str = ""
    application: str = ""
    resource: str = ""
    used: float = 0.0
    allowed: float = 0.0
    idle: bool = False
    """Nobody uses anything of it: shown only when all limits are asked for."""


class LimitSection(msgspec.Struct, frozen=True, kw_only=True):
    """A Limit section of lsb.resources as it was written, for glimits -c. `settings`: `KEY = value`, in their order."""

    name: str
    settings: tuple[str, ...] = ()


class FragmentView(msgspec.Struct, frozen=True, kw_only=True):
    """A line of gadmin frag: what fits a host now, and what holds the rest back."""

    host: str
    gpus: int = 0
    free: int = 0
    partly_free: int = 0
    """Devices that are shared and have room left."""
    slots_free: int | None = None
    mem_free_mib: float | None = None
    usable: int = 0
    """GPUs that one more job could get there."""
    blocked_by: str = ""
