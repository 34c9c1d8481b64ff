"""A change compared with what there was: which figures move, and which users win and lose. It reckons with tables."""

from __future__ import annotations

from gsched.sim.job_table import Table
from gsched.sim.simulation import SimulationTables

NOTICED_S = 1.0
"""A mean wait that moves by less is the same."""


def user_changes(before: SimulationTables, after: SimulationTables) -> Table:
    """A row for each user, who wins most first: mean waits and slowdowns, and what they move by (below 0: less)."""
    old, new = _by_user(before.users), _by_user(after.users)
    rows = []
    for user in sorted(old.keys() | new.keys()):
        was, is_now = old.get(user, {}), new.get(user, {})
        rows.append(
            {
                "user": user,
                "jobs": is_now.get("jobs", was.get("jobs")),
                "wait_before_s": was.get("wait_mean_s"),
                "wait_after_s": is_now.get("wait_mean_s"),
                "wait_change_s": _difference(was.get("wait_mean_s"), is_now.get("wait_mean_s")),
                "slowdown_before": was.get("slowdown_mean"),
                "slowdown_after": is_now.get("slowdown_mean"),
            }
        )
    rows.sort(key=lambda row: (row["wait_change_s"] is None, row["wait_change_s"], row["user"]))
    return {name: [row[name] for row in rows] for name in USER_CHANGES}


USER_CHANGES = (
    *("user", "jobs", "wait_before_s", "wait_after_s", "wait_change_s", "slowdown_before", "slowdown_after"),
)


def winners_and_losers(changes: Table) -> tuple[list[str], list[str]]:
    """Users whose mean wait is shorter, the most first, and those whose is longer, the most first."""
    moved = list(zip(changes["user"], changes["wait_change_s"], strict=True))
    winners = [user for user, by in moved if by is not None and by <= -NOTICED_S]
    losers = [user for user, by in reversed(moved) if by is not None and by >= NOTICED_S]
    return winners, losers


def _by_user(users: Table) -> dict[str, dict[str, float | None]]:
    rows = (dict(zip(users, row, strict=True)) for row in zip(*users.values(), strict=True))
    return {row["user"]: row for row in rows}


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
