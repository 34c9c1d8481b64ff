"""The turns of a scheduling cycle: when others come between, and when it ends before all has been looked at.

Work is counted in the steps of gsched.core.command_turns, some 2.5 µs each, and never timed: equal snapshots give equal
turns. It decides nothing about jobs.
"""

from __future__ import annotations

from collections.abc import Container

from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.backfill.trial_fit import TrialFit
from gsched.policy.match.columns_cycle import CycleColumns
from gsched.policy.order.serving_order import ReasonKey, ServingOrder

AT_ONE_GO = 1 << 62
"""Work of a turn that never is over."""
SERVING = 60
"""Work of serving a job."""
FAST_SERVING = 4
"""The same on the fast path of its class."""
FAST_AT_ONCE = 256
"""After so many of these one asks whether the turn is over: to ask takes as long as a part of such a job."""
SORTING = 20
"""Work of finding out whether a class is worth serving."""
EXPLAINING = 40
"""Work of finding the reasons of a class."""
LOOK = 80
"""Work of each look at a class on all hosts, beside these; the first one of all takes twice as much again."""
HOSTS_IN_A_STEP = 20
"""A look takes a step more for so many hosts."""
TRYING = 20
"""Work of trying a job on one host, as is done to plan its start; beside these too."""
SHORT_TURN = 1_000
"""Work of a turn in which nothing is found that starts: what has come meanwhile may let a job start, and waits for the
plan.
"""
LOOKS_FOR_OTHERS = 16
"""So often in a cycle it is asked whether starts are all that is left to be planned: each time takes some 10 µs."""


class CycleTurns:
    """See the module. A cycle that is made at one go has no turns, and never ends early."""

    def __init__(self, snapshot: Snapshot, work: int, field: CycleColumns, trial: TrialFit) -> None:
        """`work`: of a whole turn. `field` and `trial` count what they do."""
        self._field = field
        self._trial = trial
        self._whole = work
        self._may_end_early = snapshot.may_end_early and work != AT_ONE_GO
        self._may_give_up = snapshot.may_give_up and work != AT_ONE_GO
        self.work = self._left = min(work, SHORT_TURN) if self._may_give_up else work
        """`work` of the turn that is under way."""
        self._done = 0
        """In turns that are over."""
        self._per_look = LOOK + len(snapshot.hosts) // HOSTS_IN_A_STEP
        self._looks = self._tried = 0
        self._looks_for_others = LOOKS_FOR_OTHERS
        self.has_ended_early = False

    def are_over(self, work: int, *, has_placed: bool) -> bool:
        """Whether others come now that so much more has been done; `has_placed`: something starts."""
        looks, tried = self._field.steps + 2 * self._field.first_looks, self._trial.tried
        self._left -= work + self._per_look * (looks - self._looks) + TRYING * (tried - self._tried)
        self._looks, self._tried = looks, tried
        if self._left > 0:
            return False
        self._done += self.work
        if has_placed or self._done >= self._whole:
            self.work = self._whole
        self._left = self.work
        return True

    def shorten(self) -> None:
        """From now on nothing is looked for that starts."""
        if self._whole != AT_ONE_GO:
            self._whole = self.work = min(self._whole, SHORT_TURN)
            self._left = min(self._left, self.work)

    def give_up(self, *, is_awaited: bool | None, has_placed: bool) -> bool:
        """Whether the cycle ends now, so that what has come meanwhile is looked at before much is done in vain."""
        if not is_awaited or not self._may_give_up or has_placed or self._done >= self._whole:
            return False
        self.has_ended_early = True
        return True

    def leave_plans(self, bucket: Bucket, only_planned: Container[ReasonKey], order: ServingOrder) -> bool:
        """Whether the cycle ends now: some jobs start, and starts of those that are left, first the bucket's, can only
        be planned.
        """
        if not self._may_end_early or (bucket.queue, bucket.requirement) not in only_planned:
            return False
        self._looks_for_others -= 1
        self.has_ended_early = self._looks_for_others >= 0 and not order.has_others(only_planned)
        return self.has_ended_early
