"""How the master lives with Python's collector of rings of objects: rarely, and never while jobs are placed.

A mass dispatch makes tens of thousands of objects that are gone with it; a collector that comes by then goes through
all of them and finds nothing. It changes no decision.
"""

from __future__ import annotations

import gc

from gsched.core.engine import Schedule
from gsched.model.snapshot import Plan, Snapshot


def settle_in() -> None:
    """Keep what exists now, which lives long, out of every later collection, and look for rings rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def undisturbed(schedule: Schedule) -> Schedule:
    """The same cycle, during which nothing is collected in the whole process."""

    def cycle(snapshot: Snapshot, now: float, budget: int) -> Plan:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return schedule(snapshot, now, budget)
        finally:
            if was_on:
                gc.enable()

    return cycle
