"""The JobTables service: many jobs in columns. Made beside the loop that serves everybody; changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from gsched.master.rpc.listings import check_filter
from gsched.master.views.board import Board
from gsched.master.views.job_table import table_jobs
from gsched.model.views.view import JobFilter
from gsched.wire.messages.column_codec import table_replies
from gsched.wire.messages.convert import from_proto
from gsched.wire.server import streams
from gsched.wire.v1 import job_table_pb2_grpc


class JobTablesServicer(job_table_pb2_grpc.JobTablesServicer):
    """One per master; all methods run in the gRPC loop."""

    def __init__(self, board: Board) -> None:
        self._board = board

    @streams
    async def Read(self, request: Any, context: Any) -> AsyncIterator[Any]:
        wanted = from_proto(request.filter, JobFilter)
        check_filter(wanted, self._board)
        # A pass over all jobs takes a while: not in the loop, where orders to agents would wait behind it.
        jobs = await asyncio.to_thread(table_jobs, self._board, wanted, with_reasons=request.reasons)
        replies = table_replies(jobs)
        while (reply := await asyncio.to_thread(next, replies, None)) is not None:
            yield reply
