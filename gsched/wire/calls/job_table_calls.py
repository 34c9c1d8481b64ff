"""The part of the client that asks for tables of jobs; it waits for a master as the Client it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc

from gsched.model.views.jobs_in_columns import JobsInColumns
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.calls.call_failure import NotThere
from gsched.wire.messages.column_codec import columns_of_views, read_columns
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import job_table_pb2, job_table_pb2_grpc


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
