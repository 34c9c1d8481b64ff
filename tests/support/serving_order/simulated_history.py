"""What a simulation did, as the judge of serving order sees it: a job and its one run."""

from __future__ import annotations

from gsched.sim.world import START, Fate
from tests.support.serving_order.serving_history import PastJob, Run

DEFAULT_PRIORITY = 50
"""Of a job without -sp, where MAX_USER_PRIORITY is 100."""


def past_of(number: int, fate: Fate, counts_in: tuple[str, ...] = ()) -> PastJob:
    """The job of a simulation in which it ran once, to its end. Times are seconds from the beginning."""
    ((start, allocation),) = fate.starts
    job = fate.job
    assert fate.ended_at is not None
    hosts = tuple(part.host for part in allocation.hosts)
    return PastJob(
        number=number,
        submitted=job.arrives_s,
        queue=job.queue,
        user=job.user,
        hosts=len(hosts),
        gpus=job.gpus,
        priority=DEFAULT_PRIORITY if job.priority is None else job.priority,
        limit_s=job.limit_s,
        counts_in=counts_in,
        runs=(Run(start=start - START, end=fate.ended_at - START, hosts=hosts, ended_as=fate.ended_as),),
    )
