"""How far off it was what was said of starts while jobs waited: each way to judge beside the others. It judges by what
was said then, and computes no estimate anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gsched.model.views.start_estimate import StartEstimate
from gsched.policy.future.past_waits import AT_ONCE_S

MINUTE_S = 60.0


@dataclass(slots=True)
class EstimateErrors:
    """Of jobs that have started; seconds by which the start was off what was said."""

    waited: int = 0
    """Jobs that had to wait."""
    unsaid: int = 0
    """Of these, those of which nothing is kept: they waited for something else than a place first, or were submitted
    before such things were kept."""
    inside: list[bool] = field(default_factory=list)
    """Of each that a p90 was said of, whether it started by then."""
    off_s: list[float] = field(default_factory=list)
    """How far it started from its p50."""
    mean_off_s: list[float] = field(default_factory=list)
    """How far from the constant guess, of the same jobs."""
    plan_off_s: list[float] = field(default_factory=list)
    """How far from the start that was planned first, of each that had one."""
    limit_off_s: list[float] = field(default_factory=list)
    """The same of those whose planned start rested on run limits alone."""

    def judge(self, submitted_at: float, started_at: float, said: StartEstimate | None) -> None:
        """Add a job that has started; times in UTC seconds."""
        if started_at - submitted_at <= AT_ONCE_S:
            return
        self.waited += 1
        if said is None:
            self.unsaid += 1
            return
        if said.p50_at is not None and said.p90_at is not None:
            self.inside.append(started_at <= said.p90_at)
            self.off_s.append(abs(started_at - said.p50_at))
            if said.mean_at is not None:
                self.mean_off_s.append(abs(started_at - said.mean_at))
        if said.plan_at is not None:
            self.plan_off_s.append(abs(started_at - said.plan_at))
        if said.limit_at is not None:
            self.limit_off_s.append(abs(started_at - said.limit_at))

    @property
    def share_inside(self) -> float | None:
        """Of the jobs that a p90 was said of, those that started by then."""
        return sum(self.inside) / len(self.inside) if self.inside else None


def errors_of(starts: Iterable[tuple[float, float, StartEstimate | None]]) -> EstimateErrors:
    """Of jobs: when each was submitted, when it started, what was said first."""
    found = EstimateErrors()
    for start in starts:
        found.judge(*start)
    return found


def median_s(off_s: Sequence[float]) -> float | None:
    """By nearest rank; None where there are none."""
    return sorted(off_s)[max(0, math.ceil(len(off_s) / 2) - 1)] if off_s else None


def within_minute(off_s: Sequence[float]) -> float | None:
    """The share that is off by no more than a minute."""
    return sum(each <= MINUTE_S for each in off_s) / len(off_s) if off_s else None
