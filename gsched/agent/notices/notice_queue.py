"""The notices of a host in memory: which users have some that are due, and which those are. Pure: time is an argument.

Looking for what is due costs as much as there are users, never as much as there are notices.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from gsched.agent.notices.notice_files import KeptNotice

LONGEST_WAIT_S = 4 * 3600.0
"""No notice waits longer between two tries, whatever becomes of the clock."""


class NoticeQueue:
    """The notices that are kept; the ones that are not over stand in a queue of their user."""

    def __init__(self) -> None:
        self._all: dict[str, KeptNotice] = {}
        self._open: dict[str, dict[str, KeptNotice]] = {}
        self._due: dict[str, float] = {}
        """User -> when the first of its open notices is due, UTC seconds."""

    def __iter__(self) -> Iterator[KeptNotice]:
        return iter(self._all.values())

    def get(self, notice_id: str) -> KeptNotice | None:
        """The notice of that id; None where there is none."""
        return self._all.get(notice_id)

    def add(self, kept: KeptNotice) -> None:
        """One more."""
        self._all[kept.notice_id] = kept
        if kept.end is None:
            self._open.setdefault(kept.user, {})[kept.notice_id] = kept
            self._due[kept.user] = min(kept.due, self._due.get(kept.user, math.inf))

    def remove(self, notice_id: str) -> KeptNotice | None:
        """Remove a notice and return it; None where it was not kept."""
        kept = self._all.pop(notice_id, None)
        if kept is not None and self._open.get(kept.user, {}).pop(notice_id, None) is not None:
            self.renew(kept.user)
        return kept

    def renew(self, user: str) -> None:
        """Something of the user's has been tried: what is over leaves the queue, the rest is due anew."""
        left = {notice_id: kept for notice_id, kept in self._open.pop(user, {}).items() if kept.end is None}
        self._due.pop(user, None)
        if left:
            self._open[user] = left
            self._due[user] = min(kept.due for kept in left.values())

    def users_due(self, now: float, busy: Collection[str]) -> list[str]:
        """Users with something to be sent now, who has waited longest first; without those that are busy."""
        found = [(due, user) for user, due in self._due.items() if user not in busy and self._is_due(due, now)]
        return [user for _, user in sorted(found)]

    def next_due(self, now: float, busy: Collection[str]) -> float | None:
        """When the first is due of users that have none due now; None: there is none."""
        later = (due for user, due in self._due.items() if user not in busy and not self._is_due(due, now))
        return min(later, default=None)

    def batch(self, user: str, now: float, most: int) -> list[KeptNotice]:
        """What the user has due, those that were not tried yet first, in the order of what they tell."""
        ready = [kept for kept in self._open.get(user, {}).values() if self._is_due(kept.due, now)]
        return sorted(ready, key=lambda kept: (kept.tries > 0, kept.order.notice.at))[:most]

    def _is_due(self, due: float, now: float) -> bool:
        return due <= now or due - now > LONGEST_WAIT_S
