"""How the master lives with Python's collector of rings of objects: rarely, little at a time, and never while jobs are
placed.

What there is much of (jobs, their specifications, events, views) cannot be part of a ring, and is kept from the
collector where it is defined (`gc=False`): a look at 100,000 jobs would stop the master for a second. A mass dispatch
makes tens of thousands of objects that are gone with it; a collector that comes by then goes through all of them and
finds nothing. So the engine looks for rings between its turns, when replies and orders are out and nobody waits for
them; what a cycle has placed is carried out and stored before. It changes no decision.
"""

from __future__ import annotations

import gc

from gsched.core.scheduling_cycles import Schedule
from gsched.model.scheduling.snapshot import Plan, Snapshot
from gsched.policy.cycle import Planning

YOUNG = 5_000
"""New objects between two looks at them, of 1 or 2 ms."""
MIDDLE, OLD = 5, 50
"""So many such looks make one at what was left by them, and so many of these one at all."""
FLOOD = 10 * YOUNG
"""New objects within one turn from which on nobody waits for its end."""

_NEVER = 0


def settle_in() -> None:
    """Keep what exists now, which lives long, out of every later collection, and look for rings rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(FLOOD, MIDDLE, OLD)


def tidy_up() -> None:
    """Look for rings, if there is enough that is new: to be called where nobody waits.

    How old what is looked at is is left to Python, which goes through all that there is only where a quarter of it is
    new: a look at everything beside 100,000 jobs takes half a second.
    """
    if gc.get_count()[0] >= YOUNG:
        gc.set_threshold(1, MIDDLE, OLD)
        _make_objects()
    gc.set_threshold(FLOOD, MIDDLE, OLD)


def _make_objects() -> None:
    """Python looks when objects are made; of sets it keeps none to be used again."""
    for _ in range(3):
        {_made}  # noqa: B018


_made = object()


def undisturbed(schedule: Schedule) -> Schedule:
    """The same cycle. From its first turn until `tidy_up` nothing is collected in the whole process: a collector that
    came right after would go through all that has been placed, before anything of it starts.
    """

    def cycle(snapshot: Snapshot, now: float, budget: int, turn: int) -> Planning:
        gc.set_threshold(_NEVER, MIDDLE, OLD)
        plan: Plan = yield from schedule(snapshot, now, budget, turn)
        return plan

    return cycle
