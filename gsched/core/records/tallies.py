"""Sums that limits are held against: slots and jobs that have started, jobs and slots that wait.

It counts what it is told and knows no limit. Derived from jobs and arrays, never stored; the audit counts anew.
"""

from __future__ import annotations

from gsched.base.ids import array_of, index_of
from gsched.core.records.job import JobRecord
from gsched.core.records.job_groups import add, groups_above
from gsched.model.jobs.job import JobSpec


class LimitTally:
    """A count of 0 is not kept."""

    def __init__(self) -> None:
        self.queue_slots: dict[str, int] = {}
        """Queue -> slots of its started jobs."""
        self.queue_user_slots: dict[tuple[str, str], int] = {}
        """(queue, user) -> slots of his started jobs there."""
        self.group_jobs: dict[str, int] = {}
        """Job group -> started jobs in it and below."""
        self.array_jobs: dict[int, int] = {}
        """Array -> started elements."""
        self.pending_jobs: dict[str, int] = {}
        """User -> jobs and elements in PEND or PSUSP."""
        self.pending_slots: dict[str, int] = {}
        """User -> slots that these want at the least."""

    def waiting(self, spec: JobSpec, jobs: int) -> None:
        """So many more jobs (fewer when negative) of the specification wait."""
        add(self.pending_jobs, spec.user, jobs)
        add(self.pending_slots, spec.user, jobs * spec.slots)

    def started(self, job: JobRecord, sign: int) -> None:
        """The job has got (1) what its allocation says, or has given it back (-1)."""
        assert job.allocation is not None
        slots = sign * job.allocation.slots
        add(self.queue_slots, job.spec.queue, slots)
        add(self.queue_user_slots, (job.spec.queue, job.spec.user), slots)
        for group in groups_above(job.spec.group):
            add(self.group_jobs, group, sign)
        if index_of(job.job_id):
            add(self.array_jobs, array_of(job.job_id), sign)
