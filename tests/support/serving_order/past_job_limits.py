"""Whether limits on how many jobs run at once admit a job, now or when it could start."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from tests.support.serving_order.past_reservation import Reservation
from tests.support.serving_order.serving_history import Moment, PastJob


class PastJobLimits:
    """At one moment."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._cluster = moment.cluster
        self.taken: Counter[str] = Counter()
        """Limit -> jobs that count in it and could have started besides."""

    def admit(self, job: PastJob, without: Sequence[PastJob]) -> bool:
        """Whether limits on jobs admit it, were it not for some that have started."""
        counts, most = self._moment.counts, self._cluster.most_jobs
        return all(
            counts[name] - sum(name in each.counts_in for each in without) < most[name]
            for name in job.counts_in
            if name in most
        )

    def of(self, job: PastJob) -> list[str]:
        return [name for name in job.counts_in if name in self._cluster.most_jobs]

    def _counted_at(
        self, name: str, at: float, without: Sequence[PastJob], staying: Collection[int] | None = None
    ) -> int:
        """How many of the jobs that run count in the limit then; at infinity those whose end nobody knows.

        `staying`: numbers of those who count then; None: of all.
        """
        running = [each for each in self._moment.running.values() if each[0] not in without]
        counting = [each for each in running if name in each[0].counts_in]
        if math.isinf(at) and staying is not None:
            counting = [each for each in counting if each[0].number in staying]
        ends = [self._moment.known_end(job, run) for job, run in counting]
        return sum(end > at or math.isinf(end) for end in ends)

    def admit_then(
        self,
        there: Reservation,
        made: Sequence[Reservation],
        without: Sequence[PastJob],
        staying: Collection[int],
    ) -> bool:
        """Whether limits on jobs will admit it beside the others, and leave those that start later what they take.

        `staying`: numbers of those for whose end who starts nobody knows when need not wait.
        """
        starts = [
            there.start,
            *(each.start for each in made if there.start < each.start and there.is_there(each.start)),
        ]
        return all(
            self._counted_at(name, at, without, staying)
            + sum(name in each.job.counts_in and each.is_there(at) for each in made)
            < self._cluster.most_jobs[name]
            for name in self.of(there.job)
            for at in starts
        )

    def lack_after(
        self,
        job: PastJob,
        met: Sequence[Reservation],
        reserved: Sequence[Reservation],
        without: Sequence[PastJob],
    ) -> bool:
        """Whether one of those before it could find too little left of a limit if the job starts now.

        `met`: those of the reservations that begin while the job is known to run.
        """
        return any(
            name in each.job.counts_in
            and self._counted_at(name, each.start, without)
            + self.taken[name]
            + sum(name in other.job.counts_in and other.is_there(each.start) for other in reserved)
            >= self._cluster.most_jobs[name]
            for name in self.of(job)
            for each in met
        )

    def have_left(self, job: PastJob) -> bool:
        """Whether limits on jobs admit it beside those that were taken to start."""
        most, counts = self._cluster.most_jobs, self._moment.counts
        return all(counts[name] + self.taken[name] < most[name] for name in job.counts_in if name in most)

    def admit_in_the_end(self, job: PastJob, later: Sequence[PastJob], made: Sequence[Reservation]) -> bool:
        """Whether it is known that limits will let the job in: where nobody knows, it may have nothing."""
        return all(
            self._counted_at(name, math.inf, later)
            + sum(name in each.job.counts_in and each.is_there(math.inf) for each in made)
            < self._cluster.most_jobs[name]
            for name in self.of(job)
        )
