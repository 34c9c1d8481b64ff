"""Who besides administrators makes advance reservations: on which hosts, and at which times of the week.

It knows no reservations. Source: lsb.resources(5), section ResourceReservation.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

from gsched.model.queues.window import WEEK_MIN, Window, minute_of_week, open_min


class ReservationPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One section. None stands for all."""

    name: str
    users: tuple[str, ...] | None = None
    excluded_users: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    excluded_hosts: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    """TIME_WINDOW: within these; none: at any time."""
    users_text: str = ""
    hosts_text: str = ""
    times_text: str = ""
    """USERS, HOSTS and TIME_WINDOW as they are written; empty where they are not set."""

    def is_for(self, user: str) -> bool:
        """Whether the user may make reservations by it."""
        return user not in self.excluded_users and (self.users is None or user in self.users)

    def among(self, hosts: Collection[str]) -> list[str]:
        """Those of the hosts that they may be on, in the same order."""
        excluded = frozenset(self.excluded_hosts)
        allowed = None if self.hosts is None else frozenset(self.hosts)
        return [host for host in hosts if host not in excluded and (allowed is None or host in allowed)]

    def has_hosts(self, hosts: Collection[str]) -> bool:
        """Whether they may be on these hosts."""
        return len(self.among(hosts)) == len(hosts)

    def has_time(self, start: float, end: float) -> bool:
        """Whether they may be from `start` up to `end` (UTC seconds): the windows are open all the while."""
        if not self.windows:
            return True
        at = start - start % 60.0
        while at < end:
            minute = minute_of_week(at)
            open_for = open_min(self.windows, minute)
            if open_for in (0, WEEK_MIN):
                return open_for > 0
            step = min(open_for, math.ceil((end - at) / 60.0))
            # The clock is put forward or back within the step: up to that moment alone, which halving finds.
            while step > 1 and minute_of_week(at + 60.0 * step) != (minute + step) % WEEK_MIN:
                step //= 2
            at += 60.0 * step
        return True
