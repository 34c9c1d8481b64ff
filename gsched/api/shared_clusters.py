"""Connections that a process has without having made them itself: those of jobs that came from another process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsched.api.cluster import Cluster

_made: dict[str, Cluster] = {}
_lock = threading.Lock()


def shared_cluster(folder: str, make: Callable[[str], Cluster]) -> Cluster:
    """The one Cluster of this process for that configuration folder; made where there is none that can be used."""
    with _lock:
        found = _made.get(folder)
        if found is None or not found.is_usable:
            found = _made[folder] = make(folder)
        return found
