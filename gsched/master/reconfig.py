"""What a reconfig does not change at once: it is refused, or a note says when it takes effect.

It must never pass over in silence a setting that has changed and is not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gsched.model.config import ClusterConfig


def fixed(old: Any, new: Any, old_cluster: str, new_cluster: str) -> tuple[str, ...]:
    """What a reconfig cannot change while the daemons run."""
    found = [
        f"{name.upper()} cannot change from {getattr(old, name)} to {getattr(new, name)} while the daemons run"
        for name in ("state_dir", "run_dir", "spool_dir")
        if getattr(old, name) != getattr(new, name)
    ]
    if old_cluster != new_cluster:
        found.append(f"the cluster's name cannot change from {old_cluster} to {new_cluster} while the daemons run")
    return tuple(found)


def told_at_start(old: ClusterConfig, new: ClusterConfig) -> Iterator[str]:
    """Notes on what has changed in lsf.conf and agents read at their start alone."""
    settings = {
        "GSCHED_GPU_FENCE": (old.gpu_fence, new.gpu_fence),
        "GSCHED_MPS_CONTROL": (old.mps_control, new.mps_control),
    }
    for name, (before, after) in settings.items():
        if before != after:
            yield f"{name} has changed: it takes effect when the agents are started again (gadmin hrestart all)"
