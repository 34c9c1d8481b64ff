"""Replies that hold many things: lists put into a message, and streams of jobs cut into messages that may travel.

It knows the wire's messages and nothing of where the views come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gsched.base.ids import index_of
from gsched.model.views.view import JobView
from gsched.wire.messages.batch_codec import SharedReasons
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import scheduler_pb2

JOBS_PER_MESSAGE = 500
BYTES_PER_MESSAGE = 4 << 20
"""Commands may be long: a reply is cut off here, far below what a message may hold."""


def filled(reply: Any, field: str, items: Iterable[msgspec.Struct]) -> Any:
    """`reply` with the items in its repeated field."""
    for item in items:
        fill(getattr(reply, field).add(), item)
    return reply


def part_reply(parts: Iterable[tuple[int, msgspec.Struct]]) -> scheduler_pb2.ControlReply:
    """Answers for some of the jobs of a command, each with its place among all of them."""
    reply = scheduler_pb2.ControlReply()
    for place, result in parts:
        fill(reply.results.add(), result)
        reply.places.append(place)
    return reply


def job_replies(jobs: Iterable[JobView]) -> Iterator[scheduler_pb2.JobsReply]:
    """The jobs in messages of some hundreds.

    Elements that differ by their number alone, as those do that wait in an array's record, are copies of one message:
    that is several times faster than filling each.
    """
    reply, size = scheduler_pb2.JobsReply(), 0
    like: JobView | None = None
    last: Any = None
    reasons = SharedReasons()
    for job in jobs:
        message = reply.jobs.add()
        if like is not None and _is_alike(job, like):
            message.CopyFrom(last)
            message.job_id = job.job_id
        else:
            reasons.fill(message, job)
            like = job
        last = message
        size += len(job.spec.command)
        if len(reply.jobs) >= JOBS_PER_MESSAGE or size >= BYTES_PER_MESSAGE:
            yield reply
            reply, size = scheduler_pb2.JobsReply(), 0
    if reply.jobs:
        yield reply


def _is_alike(job: JobView, other: JobView) -> bool:
    if not index_of(job.job_id) or job.spec is not other.spec:
        return False
    return msgspec.structs.replace(job, job_id=other.job_id) == other
