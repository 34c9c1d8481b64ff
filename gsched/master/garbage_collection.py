"""How the master lives with Python's collector of rings of objects: rarely, little at a time, and never while jobs are
placed.

What there is much of (jobs, their specifications, events, views) cannot be part of a ring, and is kept from the
collector where it is defined (`gc=False`): a look at 100,000 jobs would stop the master for a second. A mass dispatch
makes tens of thousands of objects that are gone with it; a collector that comes by then goes through all of them and
finds nothing. It changes no decision.
"""

from __future__ import annotations

import gc

from gsched.core.engine import Schedule
from gsched.model.scheduling.snapshot import Plan, Snapshot
from gsched.policy.cycle import Planning

YOUNG = 5_000
"""New objects between two looks at them, of 1 or 2 ms; five times as many are looked at once more."""


def settle_in() -> None:
    """Keep what exists now, which lives long, out of every later collection, and look for rings rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 5, 50)


def undisturbed(schedule: Schedule) -> Schedule:
    """The same cycle, during whose turns nothing is collected in the whole process."""

    def cycle(snapshot: Snapshot, now: float, budget: int, turn: int) -> Planning:
        planning = schedule(snapshot, now, budget, turn)
        while True:
            was_on = gc.isenabled()
            gc.disable()
            try:
                next(planning)
            except StopIteration as done:
                plan: Plan = done.value
                return plan
            finally:
                if was_on:
                    gc.enable()
            yield

    return cycle
