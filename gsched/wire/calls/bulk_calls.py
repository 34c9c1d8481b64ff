"""Calls about many jobs, which may take minutes: they last as long as the master goes on, and know what has been done.

A master of before has no such methods: it is asked as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc

from gsched.base.errors import Unavailable
from gsched.model.views.jobs_in_columns import JobsInColumns
from gsched.model.views.view import Control, JobFilter, JobView, Submitted
from gsched.wire.calls.call_failure import NotThere
from gsched.wire.calls.retried_calls import BrokenOff, Calls
from gsched.wire.messages.batch_codec import read_submitted
from gsched.wire.messages.column_codec import columns_of_views, read_columns
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.v1 import job_table_pb2, job_table_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc

FEW = 500
"""Jobs of a call that is answered at one go."""
REPEATED = frozenset({"kill", "stop", "resume"})
"""What a second time does nothing to the jobs to which it was done."""


class BulkCalls:
    """Submissions and changes of many jobs, by one channel."""

    def __init__(self, channel: grpc.Channel, calls: Calls) -> None:
        self._calls = calls
        self._scheduler = scheduler_pb2_grpc.SchedulerStub(channel)
        self._administration = scheduler_pb2_grpc.AdministrationStub(channel)

    def submit(self, request: scheduler_pb2.SubmitRequest) -> list[Submitted]:
        """All or none of the jobs; its token makes it safe to ask again where the master restarts meanwhile."""
        while True:
            try:
                for reply in self._replies(self._scheduler.SubmitInParts, self._scheduler.Submit, request):
                    if reply.jobs:
                        return read_submitted(reply)
            except BrokenOff:
                continue
            raise Unavailable("the master did not say which jobs it has made")

    def control(self, request: scheduler_pb2.ControlRequest, done: list[Control]) -> list[Control]:
        """The answers for all jobs, in order. What has been done so far stands in `done`."""
        methods = (self._scheduler.ControlInParts, self._scheduler.Control)
        return self._changed(*methods, request, done, may_repeat=request.action in REPEATED)

    def modify(self, request: scheduler_pb2.ModifyRequest, done: list[Control]) -> list[Control]:
        """Change values of jobs, in parts."""
        methods = (self._administration.ModifyInParts, self._administration.Modify)
        return self._changed(*methods, request, done, may_repeat=True)

    def _changed(
        self, in_parts: Any, at_once: Any, request: Any, done: list[Control], *, may_repeat: bool
    ) -> list[Control]:
        """A master that goes away in the middle has done a part, which is not asked for again."""
        numbers, known = list(request.job_ids), set[int]()
        while True:
            placed: list[tuple[int, Control]] = []
            try:
                for reply in self._replies(in_parts, at_once, request):
                    results = [from_proto(item, Control) for item in reply.results]
                    new = [each for each in results if each.job_id not in known]
                    done += new
                    placed += zip(reply.places or range(len(results)), results, strict=True)
                if not known:
                    return [result for _, result in sorted(placed, key=lambda each: each[0])]
                return done
            except BrokenOff:
                if not may_repeat:
                    raise
                known = {each.job_id for each in done}
                if numbers:
                    del request.job_ids[:]
                    request.job_ids.extend(number for number in numbers if number not in known)
                    if not request.job_ids:
                        return done

    def _replies(self, in_parts: Callable[..., Any], at_once: Callable[..., Any], request: Any) -> Iterator[Any]:
        try:
            yield from self._calls.in_parts(in_parts, request)
        except NotThere:
            yield self._calls.call(at_once, request)


class JobTableCalls:
    """`stream` sends one request by a method of the channel, as the Client that owns it does; `views` are whole
    jobs.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        stream: Callable[[Any, Any], Iterator[Any]],
        views: Callable[[JobFilter], Iterator[JobView]],
    ) -> None:
        self._stub = job_table_pb2_grpc.JobTablesStub(channel)
        self._stream = stream
        self._views = views

    def read(self, wanted: JobFilter, *, reasons: bool = False) -> Iterator[JobsInColumns]:
        """Jobs that the filter admits, in the order gjobs shows them, for a table that shows little of each; with
        `reasons` also why they wait or are suspended.
        """
        request = job_table_pb2.JobTableRequest(reasons=reasons)
        fill(request.filter, wanted)
        try:
            yield from map(read_columns, self._stream(self._stub.Read, request))
        except NotThere:  # a master of before
            yield from columns_of_views(self._views(wanted))
