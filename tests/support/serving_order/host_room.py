"""What is free on the hosts at a moment, or will be as far as anybody knows, without any reservation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tests.support.serving_order.serving_history import Moment, PastJob, Room

Mask = npt.NDArray[np.bool_]


class HostRoom:
    """At one moment."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._cluster = moment.cluster
        self._masks: dict[frozenset[str], Mask] = {}
        self.total: Room = np.array(list(self._cluster.hosts.values()), np.int64).reshape(-1, 2)
        self._parts = self._parts_running()

    def able(self, job: PastJob, free: Room, at: float) -> Mask:
        """Hosts that could take a part of the job from then on. At infinity no advance reservation is left."""
        able: Mask = np.logical_and(free[:, 0] >= job.gpus, free[:, 1] >= job.slots)
        for kept in self._cluster.kept:
            lasts = math.inf if job.limit_s is None else job.limit_s  # whatever is estimated: the window is promised
            if at < kept.end and kept.start < at + lasts:
                able = np.logical_and(able, [name not in kept.hosts for name in self._moment.rows])
        if job.usable is not None:
            mask = self._masks.get(job.usable)
            if mask is None:
                mask = self._masks[job.usable] = np.array([name in job.usable for name in self._moment.rows])
            able = np.logical_and(able, mask)
        return able

    def fits(self, job: PastJob, free: Room, at: float) -> bool:
        return int(self.able(job, free, at).sum()) >= job.hosts

    def rows_of(self, job: PastJob) -> list[int]:
        return self._moment.rows_of(self._moment.running[job.number][1])

    def known_end(self, job: PastJob) -> float:
        return self._moment.known_end(*self._moment.running[job.number])

    def without(self, later: Sequence[PastJob]) -> Room:
        """What is free if these had not started."""
        free = self._moment.free.copy()
        for each in later:
            free[self.rows_of(each)] += self._moment.needs(each)
        return free

    def ends_without(self, later: Sequence[PastJob]) -> npt.NDArray[np.float64]:
        """When parts of jobs are known to end; those of later ones do not count."""
        numbers, _, _, ends = self._parts
        return np.where(np.isin(numbers, [each.number for each in later]), math.inf, ends) if later else ends

    def free_at(self, at: float, free: Room, ends: npt.NDArray[np.float64]) -> Room:
        """What is free from `at` on without reservations, as far as anybody knows."""
        _, rows, needs, _ = self._parts
        over = (ends <= at) & (ends < math.inf)
        then = free.copy()
        np.add.at(then, rows[over], needs[over])
        return then

    def _parts_running(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Room, npt.NDArray[np.float64]]:
        """Of each part of a running job: the job's number, its host's row, what it holds, its known end."""
        moment = self._moment
        parts = [
            (number, row, moment.needs(job), moment.known_end(job, run))
            for number, (job, run) in moment.running.items()
            for row in moment.rows_of(run)
        ]
        numbers = np.array([each[0] for each in parts], np.int64)
        rows = np.array([each[1] for each in parts], np.int64)
        needs = np.array([each[2] for each in parts], np.int64).reshape(-1, 2)
        return numbers, rows, needs, np.array([each[3] for each in parts], np.float64)
