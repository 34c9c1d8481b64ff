"""How far a simulation of a recorded history is from what was recorded: starts, hosts, GPUs. It reckons with fates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gsched.model.ledgers.allocation import Allocation
from gsched.sim.history.recorded_history import RecordedJob
from gsched.sim.world import Fate

SAME_S = 1.0
"""A start that is off by no more is the same: a real one waits for a commit and a report."""
_Place = list[tuple[str, int, list[int]]]


def deviation(fates: Iterable[Fate]) -> dict[str, Any]:
    """Shares of the recorded jobs that start when and where they did, and by how many seconds starts are off; empty
    where no history is played.
    """
    offs, places, count = [], 0, 0
    for fate in fates:
        if not isinstance(fate.job, RecordedJob):
            continue
        count += 1
        if fate.starts:
            began, allocation = fate.starts[-1]
            offs.append(abs(began - fate.job.began_at))
            places += place_of(allocation) == place_of(fate.job.place)
    if not count:
        return {}
    return {
        "recorded_jobs": count,
        "same_place": places / count,
        "same_start": sum(off <= SAME_S for off in offs) / count,
        "start_off_mean_s": math.fsum(offs) / len(offs) if offs else None,
        "start_off_most_s": max(offs, default=None),
    }


def place_of(allocation: Allocation) -> _Place:
    """Host, slots and numbers of the GPUs of each part: UUIDs of simulated hosts are others."""
    return [(part.host, part.slots, sorted(gpu.index for gpu in part.gpus)) for part in allocation.hosts]
