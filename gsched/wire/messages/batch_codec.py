"""What is alike is read and written once and then copied: waiting elements of an array, equal jobs of one submission.

A hundred thousand of them come in one message: reading each anew would take five times as long and forty times the
room. So are the GPUs of a host, whose readings move while all else stays. Equal means equal bytes on the wire; nothing
is ever taken for equal because it looks so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.jobs.reason import PendingReason
from gsched.model.views.view import JobView, Submission, Submitted
from gsched.wire.messages.convert import fill, from_proto, to_proto
from gsched.wire.v1 import model_pb2, scheduler_pb2

REASONS_KEPT = 256
"""Different reasons that are kept for further jobs."""
V = TypeVar("V", JobView, Submitted)
READINGS = (
    *("used_mib", "foreign_mib", "utilization_percent", "memory_utilization_percent"),
    *("temperature_c", "power_w", "pstate"),
)
"""What moves at a GPU while nothing happens to it: numbers, absent when unknown."""


def job_views(messages: Iterable[model_pb2.JobView]) -> Iterator[JobView]:
    """The messages as views. Their numbers are taken out of them on the way."""
    return _numbered(messages, JobView)


def read_submitted(reply: scheduler_pb2.SubmitReply) -> list[Submitted]:
    """The answers of a reply. Their numbers are taken out of it on the way."""
    return list(_numbered(reply.jobs, Submitted))


def _numbered(messages: Iterable[Any], value_type: type[V]) -> Iterator[V]:
    """The messages as values, in which nothing but `job_id` must differ for them to be read once."""
    last: V | None = None
    last_bytes = b""
    for message in messages:
        job_id = message.job_id
        message.job_id = 0
        data = message.SerializeToString()
        if last is None or data != last_bytes:
            last, last_bytes = from_proto(message, value_type), data
        yield msgspec.structs.replace(last, job_id=job_id)


def add_submitted(reply: scheduler_pb2.SubmitReply, done: Iterable[Submitted]) -> None:
    """Put the answers for new jobs into a reply; those of one submission mostly differ by their number alone."""
    messages: dict[Submitted, model_pb2.Submitted] = {}
    for each in done:
        kind = msgspec.structs.replace(each, job_id=0)
        message = messages.get(kind)
        if message is None:
            message = messages[kind] = to_proto(kind, model_pb2.Submitted)
        message.job_id = each.job_id
        reply.jobs.append(message)


def add_submissions(request: scheduler_pb2.SubmitRequest, submissions: Iterable[Submission]) -> None:
    """Put the jobs into a request. An environment like that of the job before is not said again."""
    messages: dict[tuple[bytes | None, ...], model_pb2.Submission] = {}
    add, last = request.submissions.add, b""
    for place, submission in enumerate(submissions):
        environment = submission.environment
        texts = (environment, submission.script, submission.input, submission.notice_targets)
        key = (msgspec.msgpack.encode(submission.spec), *texts)
        found = messages.get(key)
        if found is None:
            found = messages[key] = to_proto(submission, model_pb2.Submission)
        message = add()
        message.CopyFrom(found)
        if environment and environment == last:
            message.ClearField("environment")
            request.same_environment.append(place)
        last = environment


def read_submissions(request: scheduler_pb2.SubmitRequest) -> Iterator[tuple[Submission, int]]:
    """The jobs of a request, each with its size in bytes; equal ones are the same object.

    Environments that are those of the job before are taken out of the request.
    """
    known: dict[tuple[bytes, bytes], tuple[Submission, int]] = {}
    shared, environment = frozenset(request.same_environment), b""
    for place, message in enumerate(request.submissions):
        if place not in shared:
            environment = message.environment
            message.ClearField("environment")
        key = (message.SerializeToString(), environment)
        found = known.get(key)
        if found is None:
            submission = msgspec.structs.replace(from_proto(message, Submission), environment=environment)
            found = known[key] = (submission, len(key[0]) + len(environment))
        yield found


class SharedReasons:
    """Fills messages of jobs, most of which wait for what others wait for, too: these reasons are filled once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[PendingReason, ...], list[Any]]] = {}
        """By id, of objects that live as long as they are here."""

    def fill(self, message: Any, job: JobView) -> None:
        """Copy the job into an empty message."""
        reasons = job.pending_reasons
        if not reasons:
            fill(message, job)
            return
        found = self._known.get(id(reasons))
        if found is None:
            if len(self._known) >= REASONS_KEPT:
                self._known.clear()
            filled_in = [to_proto(each, model_pb2.PendingReason) for each in reasons]
            found = self._known[id(reasons)] = (reasons, filled_in)
        fill(message, msgspec.structs.replace(job, pending_reasons=()))
        message.pending_reasons.extend(found[1])


class GpuReports:
    """Reads the reports of one host: of a GPU of which readings alone have moved, only these are read."""

    def __init__(self) -> None:
        self._known: dict[bytes, Gpu] = {}
        """What the last report said of each GPU beside its readings -> the GPU without them."""

    def read(self, message: model_pb2.GpuReport) -> GpuReport:
        """The message as a report. The readings are taken out of it on the way. Raises BadRequest."""
        known: dict[bytes, Gpu] = {}
        gpus = []
        each: Any
        for each in message.gpus:
            readings = {}
            for name in READINGS:
                value = getattr(each, name)
                if value or each.HasField(name):
                    readings[name] = value
                    each.ClearField(name)
            data = each.SerializeToString()
            gpu = known[data] = self._known.get(data) or from_proto(each, Gpu)
            gpus.append(msgspec.structs.replace(gpu, **readings))
        self._known = known
        del message.gpus[:]
        return msgspec.structs.replace(from_proto(message, GpuReport), gpus=tuple(gpus))
