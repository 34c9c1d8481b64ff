"""Which kinds of GPU jobs come to this cluster, and how often: learned from what is submitted, for placing.

It is no part of the state: nothing of it is stored, and it decides nothing but ranks. A master that starts learns from
the jobs in its store. What is remembered is bounded, and what came long ago counts less and less.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from gsched.core.resources.resource_values import LOCAL_TYPE
from gsched.model.jobs.job import JobSpec
from gsched.model.scheduling.snapshot import JobKind, RequirementClass
from gsched.policy.devices.scarce_placement import kind_of_class

MOST_KINDS = 64
MOST_COUNTED = 10_000.0
"""When so many jobs are counted all counts are halved."""
MOST_OF_ARRAY = 1000
"""One array counts for no more jobs than this: it would make all others forgotten."""
_MOST_NEW = 1024
_NEWS = 8
"""The mix is made anew when one job in so many was not in it."""


class _Asked(NamedTuple):
    """What of a submission decides its kind."""

    requirement: str
    gpu: str
    slots: int
    exclusive: bool


class KindsSeen:
    """How many jobs with GPUs of each kind were submitted; earlier ones count less."""

    def __init__(self) -> None:
        self._new: dict[_Asked, int] = {}
        """Submitted since the counts were last looked at."""
        self._counts: dict[JobKind, float] = {}
        self._news = 0.0
        """Counted since the mix was made."""
        self._mix: tuple[tuple[JobKind, float], ...] = ()

    def note(self, spec: JobSpec, count: int = 1) -> None:
        """So many jobs of the specification were submitted. Jobs without GPUs do not count."""
        if not spec.combined_gpu_req and "ngpus" not in spec.combined_req:
            return
        asked = _Asked(spec.combined_req, spec.combined_gpu_req, spec.slots, spec.exclusive)
        self._new[asked] = self._new.get(asked, 0) + min(count, MOST_OF_ARRAY)
        if len(self._new) > _MOST_NEW:
            del self._new[next(iter(self._new))]

    def mix(self) -> tuple[tuple[JobKind, float], ...]:
        """The kinds and how often each came, the same object until that has changed noticeably."""
        if self._new:
            for asked, count in self._new.items():
                kind = _kind(asked)
                if kind is not None and count:
                    self._count(kind, count)
            self._new.clear()
        if self._news and self._news * _NEWS >= sum(self._counts.values()):
            self._mix, self._news = tuple(sorted(self._counts.items())), 0.0
        return self._mix

    def _count(self, kind: JobKind, count: int) -> None:
        counts = self._counts
        if kind not in counts and len(counts) >= MOST_KINDS:
            del counts[min(counts, key=lambda kind: (counts[kind], kind))]
        counts[kind] = counts.get(kind, 0.0) + count
        self._news += count
        if sum(counts.values()) > MOST_COUNTED:
            self._counts = {kind: often / 2 for kind, often in counts.items() if often >= 1}


@lru_cache(maxsize=4096)
def _kind(asked: _Asked) -> JobKind | None:
    requirement = RequirementClass(asked.requirement, asked.slots, gpu=asked.gpu, exclusive=asked.exclusive)
    return kind_of_class(requirement, LOCAL_TYPE)
