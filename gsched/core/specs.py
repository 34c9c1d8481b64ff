"""Equal submissions share one spec in memory: a hundred thousand pending jobs are mostly a few kinds.

It knows nothing of jobs; what it forgets is only shared no longer.
"""

from __future__ import annotations

import msgspec

from gsched.model.job import JobSpec

REMEMBERED = 4096
"""Specs that later ones are compared with, the oldest forgotten first."""


class SpecPool:
    """Gives the same object for equal specs."""

    def __init__(self) -> None:
        self._known: dict[bytes, JobSpec] = {}

    def shared(self, spec: JobSpec) -> JobSpec:
        """The spec, or an equal one that was given before."""
        key = fingerprint(spec)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = spec
            if len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        return found


def fingerprint(spec: JobSpec) -> bytes:
    """Equal for equal specs only."""
    return msgspec.msgpack.encode(spec)
