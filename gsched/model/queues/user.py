"""Users and groups as configured in lsb.users; shares of a fairshare policy."""

from __future__ import annotations

import re

import msgspec

USER_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@+\\-]{0,254}\$?")
"""Names of users that travel; what a shell, a log or a header could take for something else is none."""


class Share(msgspec.Struct, frozen=True):
    """`[name, shares]` of USER_SHARES. `name` is a user, a group (divided among its members by the group's own shares),
    `group@` (each member gets `shares`), "default" (each other user) or "others" (all other users together).
    """

    name: str
    shares: int


class UserGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A UserGroup row. `members` are users and groups as written; `users` all users in it, groups resolved; "all"
    stands for everybody.
    """

    name: str
    members: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    shares: tuple[Share, ...] = ()
    admins: tuple[str, ...] = ()


class UserLimits(msgspec.Struct, frozen=True, kw_only=True):
    """A User row of lsb.users. None: no limit. A name `group@` gives each member these limits."""

    name: str
    max_jobs: int | None = None
    """MAX_JOBS: slots the user's (or all of the group's) started jobs may hold together."""
    max_jobs_per_processor: float | None = None
    """JL/P."""
    max_pending: int | None = None
    """MAX_PEND_JOBS."""
    max_pending_slots: int | None = None
    """MAX_PEND_SLOTS."""
