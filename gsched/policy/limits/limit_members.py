"""Whom limits mean: rows of users and their groups, and job groups. It counts nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

EVERYBODY, DEFAULT = "all", "default"


def limit_of(limits: Mapping[str, float], groups: Mapping[str, tuple[str, ...]], user: str) -> float | None:
    """A user's limit among rows of lsb.users: his own row's, else the smallest of his groups' `group@` rows, else
    that of `default`; None: none. An infinite one is that of a row that sets none.
    """
    found = _row_of(limits, groups, user)
    return None if found == math.inf else found


def _row_of(limits: Mapping[str, float], groups: Mapping[str, tuple[str, ...]], user: str) -> float | None:
    own = limits.get(user)
    if own is not None:
        return own
    of_groups = [
        amount
        for name, amount in limits.items()
        if name.endswith("@") and (user in groups.get(name[:-1], ()) or EVERYBODY in groups.get(name[:-1], ()))
    ]
    return min(of_groups) if of_groups else limits.get(DEFAULT)


def groups_above(job_group: str) -> list[str]:
    """A job group and all those it lies in: `/a/b/c` gives `/a/b/c`, `/a/b`, `/a` and `/`."""
    names = [name for name in job_group.split("/") if name]
    return [f"/{'/'.join(names[:depth])}" for depth in range(len(names), -1, -1)]
