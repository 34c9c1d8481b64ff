"""Which exceptions jobs show, by the thresholds of their queues, for `gjobs`, `gacct`, `ghist` and `gqueues`.

It asks the master for queues once, and never for each job. A queue that is gone has no thresholds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gsched.model.jobs.job import FINISHED, STARTED
from gsched.model.queues.exception_thresholds import ExceptionThresholds
from gsched.model.views.job_exceptions import job_exceptions
from gsched.model.views.view import JobFilter, JobView, QueueView
from gsched.wire.calls.client import Client
from gsched.wire.calls.past_calls import PastLook

_NONE = ExceptionThresholds()
_WITH_EXCEPTIONS = tuple(sorted(state.value for state in STARTED | FINISHED))


class JobExceptions:
    """The exceptions of jobs as of one time."""

    def __init__(self, queues: Iterable[QueueView], now: float) -> None:
        """`now`: UTC seconds, up to which jobs that have not ended have run."""
        self._limits = {queue.name: queue.exceptions or _NONE for queue in queues}
        self._now = now

    def of(self, view: JobView) -> tuple[str, ...]:
        """In bjobs' words: overrun, underrun, idle, runtime_est_exceeded."""
        return job_exceptions(view, self._limits.get(view.spec.queue, _NONE), self._now)

    def judges_idle(self, view: JobView) -> bool:
        """Whether the queue of the job has JOB_IDLE."""
        return self._limits.get(view.spec.queue, _NONE).idle is not None


def exception_counts(look: Client | PastLook, queues: Iterable[QueueView], now: float) -> dict[str, Counter[str]]:
    """Queue -> exception -> jobs that show it, those that ended within CLEAN_PERIOD with them; of queues that have
    thresholds. It looks at all jobs of these that have started.
    """
    found = {}
    for queue in queues:
        if queue.exceptions:
            exceptions = JobExceptions((queue,), now)
            jobs = look.jobs(JobFilter(queue=queue.name, states=_WITH_EXCEPTIONS, finished=True))
            found[queue.name] = Counter(word for job in jobs for word in exceptions.of(job))
    return found
