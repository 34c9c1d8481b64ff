"""Equal submissions share one spec in memory: a hundred thousand pending jobs are mostly a few kinds.

It knows nothing of jobs; what it forgets is only shared no longer.
"""

from __future__ import annotations

import msgspec

from gsched.model.jobs.job import JobSpec

REMEMBERED = 4096
"""Specs that later ones are compared with, the oldest forgotten first."""


class SpecPool:
    """Gives the same object for equal specs."""

    def __init__(self) -> None:
        self._known: dict[bytes, JobSpec] = {}
        self._given: set[int] = set()
        """Ids of the specs in `_known`: they live as long as they are there."""

    def shared(self, spec: JobSpec) -> JobSpec:
        """The spec, or an equal one that was given before. One that was given before costs next to nothing."""
        if id(spec) in self._given:
            return spec
        key = fingerprint(spec)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = spec
            self._given.add(id(spec))
            if len(self._known) > REMEMBERED:
                oldest = self._known.pop(next(iter(self._known)))
                self._given.discard(id(oldest))
        return found


def fingerprint(spec: JobSpec) -> bytes:
    """Equal for equal specs only."""
    return msgspec.msgpack.encode(spec)
