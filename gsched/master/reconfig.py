"""What a reconfig does not change at once: it is refused, or a note says when it takes effect.

It must never pass over in silence a setting that has changed and is not followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched.model.config import ClusterConfig


def fixed(old: ClusterConfig, new: ClusterConfig) -> tuple[str, ...]:
    """What a reconfig cannot change while the daemons run."""
    was, wanted = old.locations, new.locations
    found = [
        f"{name.upper()} cannot change from {getattr(was, name)} to {getattr(wanted, name)} while the daemons run"
        for name in ("state_dir", "run_dir", "spool_dir")
        if getattr(was, name) != getattr(wanted, name)
    ]
    if old.cluster != new.cluster:
        found.append(f"the cluster's name cannot change from {old.cluster} to {new.cluster} while the daemons run")
    if (old.is_shared or new.is_shared) and (old.network, old.master_host) != (new.network, new.master_host):
        found.append("the master's host, its ports and GSCHED_TLSDIR cannot change while the daemons run")
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
