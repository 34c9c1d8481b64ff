"""Requirements that no scheduling cycle has looked at yet are read before it does, some in each turn.

A requirement takes about a millisecond to read and a cycle needs those of all kinds of waiting jobs: thousands of new
ones at once would keep the engine for seconds. It decides nothing: what cannot be read is left to the cycle.
"""

from __future__ import annotations

import contextlib

from gsched.base.errors import RequirementError
from gsched.core.command_turns import reading
from gsched.core.state.pending_jobs import PendingJobs
from gsched.model.scheduling.snapshot import RequirementClass
from gsched.policy.requirement.demand import CACHED_CLASSES
from gsched.policy.requirement.demand_reader import demand_of


class Unread:
    """Which classes of pending jobs are yet to be read."""

    def __init__(self, pending: PendingJobs) -> None:
        self._pending = pending
        self._read: set[RequirementClass] = set()
        self._local_type = ""

    def step(self, local_type: str, steps: int) -> bool:
        """Read as many as so many steps allow, one at the least; says whether some are left."""
        if local_type != self._local_type:
            self._read, self._local_type = set(), local_type
            self._pending.new_classes.extend(self._pending)
        new = self._pending.new_classes
        while new and steps > 0:
            each = new.popleft()
            if each in self._read or each not in self._pending:
                continue
            steps -= reading(each.requirement + each.gpu)
            with contextlib.suppress(RequirementError):
                demand_of(each, local_type)
            self._read.add(each)
        if len(self._read) > 2 * max(CACHED_CLASSES, len(self._pending)):
            self._read.intersection_update(self._pending)
        return bool(new)
