"""Job groups: made on demand by the jobs in them, gone with the last of those unless somebody made them by name.

It keeps what it is given and decides nothing. Source of the rules: bsub(1), option -g; bgadd(1).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from gsched.core.records.entities import JobGroup

K = TypeVar("K", bound=Hashable)


def add(table: dict[K, int], key: K, amount: int) -> None:
    """Add to a count; a count of 0 is not kept."""
    left = table.get(key, 0) + amount
    if left:
        table[key] = left
    else:
        table.pop(key, None)


def groups_above(group: str) -> list[str]:
    """`/a/b` -> `/a/b`, `/a`: the group itself and those that hold it, without the root."""
    found = []
    while group and group != "/":
        found.append(group)
        group = group.rpartition("/")[0]
    return found


def join(groups: dict[str, JobGroup], members: dict[str, int], group: str, sign: int) -> None:
    """A job or an array joins (1) or leaves (-1) the group; groups that are needed come into being."""
    if not group:
        return
    add(members, group, sign)
    if sign < 0:
        drop_empty(groups, members, group)
        return
    for each in groups_above(group):
        groups.setdefault(each, JobGroup())


def drop_empty(groups: dict[str, JobGroup], members: dict[str, int], group: str) -> None:
    """Groups that nobody made by name go with their last job."""
    for each in groups_above(group):
        below = each + "/"
        is_used = each in members or any(other.startswith(below) for other in groups)
        if not is_used and each in groups and not groups[each].made_by:
            del groups[each]


def make(groups: dict[str, JobGroup], group: str, job_limit: int | None, by: str) -> None:
    """The group is there and has this limit; groups above it come with it."""
    for each in groups_above(group):
        groups.setdefault(each, JobGroup(owner=by, made_by=by))
    groups[group] = JobGroup(job_limit, by, groups[group].owner or by)
