"""A reservation as the judge of serving order reckons it, and what he remembers of it from moment to moment."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.support.serving_order.serving_history import PastJob, Room


@dataclass(slots=True)
class Reservation:
    """The job fits at `start`, when `then` is free, and not before."""

    job: PastJob
    start: float
    end: float
    then: Room
    """Without the other reservations."""
    least: Room
    """The same, if nobody waits for those who may come after the job."""
    is_sure: bool = True
    """Not only one of those who may have it, as it was somebody's turn or not."""
    is_firm: bool = False
    """Something is reserved for it, or for one that comes before it."""
    one_by_one: list[Reservation] = field(default_factory=list)
    """What it could be if hosts are chosen for those before it, in one way or another, and then for it."""
    first: float = math.inf
    """The earliest start that was ever told."""
    latest: float | None = None
    """The latest start, once it was said."""
    is_latest_sure: bool = True
    held: Reservation | None = None
    """The same at its latest start, where others may put it off so long; None: they may not."""
    is_held_for_sure: bool = False
    """Not only where it is in doubt whether it rests on an estimate."""

    def versions(self) -> list[Reservation]:
        return [self] if self.held is None else [self, self.held]

    def is_there(self, at: float) -> bool:
        """Whether the job runs then. At infinity those do of which nobody knows when they end."""
        return self.start <= at and (at < self.end or math.isinf(self.end))

    def is_met_by(self, end: float) -> bool:
        """Whether one that starts now and runs until `end` still runs when the job starts."""
        return self.start < end or math.isinf(end)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is remembered of a job that has a reservation, while it has it."""

    later: frozenset[int]
    """Numbers of those that come after it and have started since."""
    maybe_later: frozenset[int]
    """And of those that may come after it."""
    is_sure: bool
    """It had it for sure, and limits let it in for sure when it got it."""
    first: float = math.inf
    """The earliest start that was told."""
    latest: float | None = None
    """The latest start."""
    is_latest_sure: bool = True
    queue: str = ""


@dataclass(frozen=True, slots=True)
class KeptPlaces:
    """Numbers of jobs of fairshare queues that have a reservation, and keep it whoever's turn it is."""

    perhaps: frozenset[int] = frozenset()
    surely: frozenset[int] = frozenset()


NOTHING_BEFORE = Remembered(frozenset(), frozenset(), is_sure=True)
