"""Submissions that were accepted as a whole and whose jobs are made in several commits.

That a submission was accepted is one event, which holds all that its jobs are made of: from that commit on it is
certain. Its jobs follow in the turns after it (job_making); a master that comes back in the middle makes the
others.
"""

from __future__ import annotations

import msgspec

from gsched.model.event import SubmissionAccepted
from gsched.model.jobs.job import JobSpec


class AcceptedSubmission(msgspec.Struct, array_like=True, gc=False):
    """An accepted submission of which jobs are still to be made."""

    event: SubmissionAccepted
    made: int = 0
    """So many are there."""
    jobs_left: int = 0
    """Elements of arrays counted, of those that are not."""
    slots_left: int = 0

    def to_be_made(self) -> range:
        """Numbers of the jobs that are not there yet."""
        first = self.event.first_id
        return range(first + self.made, first + self.event.count)

    def count_off(self, place: int, jobs: int, slots: int) -> None:
        """The job at that place is there, and wants so many slots."""
        self.made = place + 1
        self.jobs_left -= jobs
        self.slots_left -= slots

    @property
    def is_over(self) -> bool:
        """Whether all its jobs are there."""
        return self.made >= self.event.count


class _WhatItReads(msgspec.Struct):
    """Of a specification, the blob of what the job is given to read."""

    spooled_input: str = ""


_what_it_reads = msgspec.json.Decoder(_WhatItReads)


def inputs_of(event: SubmissionAccepted) -> frozenset[str]:
    """Blobs that jobs of the submission read (-is)."""
    return frozenset(_what_it_reads.decode(spec).spooled_input for spec in event.specs)


def encoded(spec: JobSpec) -> msgspec.Raw:
    """The specification as such an event holds it."""
    return msgspec.Raw(msgspec.json.encode(spec))
