"""Tables that only the engine's thread can read off: what limits allow and use, shares of fairshare queues.

They are read once a second at most while something happens, and not at all where neither is configured, so that a
commit never pays for a table that nobody looks at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gsched.core.engine import Engine
from gsched.master.views.withheld_slots import withheld
from gsched.model.scheduling.snapshot import Snapshot
from gsched.model.views.guarantee_view import PoolView
from gsched.model.views.room_view import LimitView
from gsched.model.views.view import ShareView
from gsched.policy.guarantees.pool_views import pool_views
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.order.fairshare import tree_of

SHORTEST_S = 1.0
"""Time between two readings while jobs come and go."""
LONGEST_S = 10.0
"""The same while nothing happens: use decays and run times grow all the same."""


@dataclass(frozen=True, slots=True)
class GaugeReadings:
    """One reading. `shares`: fairshare queue -> the rows of all its levels."""

    limits: tuple[LimitView, ...] = ()
    pools: tuple[PoolView, ...] = ()
    shares: Mapping[str, tuple[ShareView, ...]] = field(default_factory=dict)


class Gauges:
    """Follows one engine; `readings` may be read by any thread."""

    def __init__(self) -> None:
        self.readings = GaugeReadings()
        self._read_at = -math.inf
        self._is_dirty = True

    def note_change(self) -> None:
        """Something has happened: the readings are out of date."""
        self._is_dirty = True

    def follow(self, engine: Engine, now: float) -> float:
        """Read if it is time to; returns when to call again at the latest, UTC seconds."""
        config = engine.config
        if not config.limits and not config.pools and all(queue.fairshare is None for queue in config.queues.values()):
            if self.readings != GaugeReadings():
                self.readings = GaugeReadings()
            return math.inf
        self._read_at = min(self._read_at, now)  # the clock may have been set back
        due = self._read_at + (SHORTEST_S if self._is_dirty else LONGEST_S)
        if now < due:
            return due
        snapshot = engine.snapshot(now)
        self.readings = GaugeReadings(
            limits=tuple(LimitUse(snapshot).views()) if config.limits else (),
            pools=pool_views(LimitUse(snapshot).guarantees) if config.pools else (),
            shares=_shares(engine, snapshot),
        )
        self._read_at, self._is_dirty = now, False
        return now + LONGEST_S


def _shares(engine: Engine, snapshot: Snapshot) -> dict[str, tuple[ShareView, ...]]:
    """Fairshare queue -> its rows, with the free slots that are kept for its users."""
    ledger = snapshot.ledger
    kept = withheld(engine.cycles.planned, {name: ledger.host(name).free_slots for name in snapshot.hosts})
    rows = {}
    for queue in engine.config.queues.values():
        if queue.fairshare is None:
            continue
        tree = tree_of(snapshot, queue)
        for each in kept:
            if each.bucket.queue in (queue.share_queues or (queue.name,)):
                tree.keep(tree.leaf(each.bucket.user, each.bucket.user_group), each.slots)
        rows[queue.name] = tuple(tree.rows())
    return rows
