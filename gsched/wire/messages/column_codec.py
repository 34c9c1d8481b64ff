"""Jobs in columns as messages, and back. Columns travel packed: reading them makes no object for each job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gsched.base.errors import Internal
from gsched.model.views.jobs_in_columns import JobsInColumns, TableJob, columns_of
from gsched.model.views.view import JobView
from gsched.wire.messages.batch_codec import job_views
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import job_table_pb2

JOBS_PER_REPLY = 2_000
CHARACTERS_PER_REPLY = 1 << 20
"""Of names, which may be whole commands: a reply is cut off here, far below what a message may hold."""


def table_replies(jobs: Iterable[TableJob]) -> Iterator[job_table_pb2.JobTableReply]:
    """The jobs in messages of some thousands."""
    jobs = iter(jobs)
    while part := list(_some(jobs)):
        yield _reply(columns_of(part))


def _some(jobs: Iterator[TableJob]) -> Iterator[TableJob]:
    """The next ones that fit into a message."""
    left = CHARACTERS_PER_REPLY
    for job in islice(jobs, JOBS_PER_REPLY):
        yield job
        left -= len(job[1])
        if left <= 0:
            return


def _reply(columns: JobsInColumns) -> job_table_pb2.JobTableReply:
    reply = job_table_pb2.JobTableReply(
        places=columns.places, job_ids=columns.job_ids, names=columns.names, submitted_at=columns.submitted_at
    )
    for view in columns.alike:
        fill(reply.alike.add(), view)
    return reply


def read_columns(reply: job_table_pb2.JobTableReply) -> JobsInColumns:
    """The message as columns. Raises Internal for one that cannot be meant."""
    columns = JobsInColumns(
        alike=tuple(job_views(reply.alike)),
        places=list(reply.places),
        job_ids=list(reply.job_ids),
        names=list(reply.names),
        submitted_at=list(reply.submitted_at),
    )
    lengths = {len(columns.places), len(columns.names), len(columns.submitted_at), len(columns.job_ids)}
    if len(lengths) > 1 or max(columns.places, default=-1) >= len(columns.alike):
        raise Internal("the master answered with a table whose columns do not agree")
    return columns


def columns_of_views(jobs: Iterable[JobView]) -> Iterator[JobsInColumns]:
    """Whole views in columns, as they come: of a master of before, which knows no tables."""
    jobs = iter(jobs)
    while part := [
        (job.job_id, job.spec.listed_name(job.job_id), job.submitted_at, job) for job in islice(jobs, JOBS_PER_REPLY)
    ]:
        yield columns_of(part)
