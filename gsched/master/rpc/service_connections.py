"""The JobServices service: who may use a job's service finds it, and is connected to it.

That is to act as the job's owner: nobody else may but whom the owner has named, administrators neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound, PermissionDenied, Unavailable
from gsched.base.ids import show_job
from gsched.core.authorization import denied_to_all_but
from gsched.master.agents.service_relay import GONE, AgentEnd, ServiceRelay
from gsched.master.views.board import Board
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import JobView
from gsched.wire.identity.caller_identity import Proven
from gsched.wire.server import answers, streams
from gsched.wire.v1 import job_service_pb2, job_service_pb2_grpc

LOOK_S = 2.0
"""How often it is looked at whether who is connected still may be."""


class JobServicesServicer(job_service_pb2_grpc.JobServicesServicer):
    """One per master."""

    def __init__(self, board: Board, relay: ServiceRelay, auth: Proven) -> None:
        self._board = board
        self._relay = relay
        self._auth = auth

    @answers
    async def Find(self, request: Any, context: Any) -> Any:
        try:
            job = self._job(request.job_id, context)
            found = await self._relay.find(job)
        except Unavailable as error:
            return job_service_pb2.FindServiceReply(problem=error.text)
        assert job.allocation is not None
        return job_service_pb2.FindServiceReply(
            attempt=job.attempt, host=job.allocation.first_host, port=found.port, secret=found.secret
        )

    @streams
    async def Connect(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        first = await anext(aiter(requests), None)
        if first is None:
            raise BadRequest("a connection begins with the job that it is for")
        job = self._job(first.job_id, context, steps=first.steps)
        if job.attempt != first.attempt and not first.steps:
            raise Conflict(f"Job <{show_job(job.job_id)}> runs anew")
        async with self._relay.opened(job, steps=first.steps) as end:
            yield job_service_pb2.ServiceBytes()
            beside = [
                asyncio.create_task(_send(requests, end)),
                asyncio.create_task(self._look_after(job, context, end, steps=first.steps)),
            ]
            try:
                while data := await end.read():
                    yield job_service_pb2.ServiceBytes(data=data)
            finally:
                for each in beside:
                    each.cancel()
                await asyncio.gather(*beside, return_exceptions=True)

    async def _look_after(self, job: JobView, context: Any, end: AgentEnd, *, steps: bool) -> None:
        """End the connection when the caller may use the service no longer, or its job has begun anew."""
        with suppress(GschedError):
            while self._job(job.job_id, context, steps=steps).attempt == job.attempt:
                await asyncio.sleep(LOOK_S)
        end.close()

    def _job(self, job_id: int, context: Any, *, steps: bool = False) -> JobView:
        """The job whose service the caller may use, or that he may start steps of. Raises GschedError."""
        job, shown = self._board.job(job_id), show_job(job_id)
        if job is None:
            raise NotFound(f"Job <{shown}> is not found")
        user = self._auth.caller(context).user
        if steps and user != job.spec.user:
            raise PermissionDenied(f"Job <{shown}>: {denied_to_all_but(f'its owner ({job.spec.user})')}")
        if user != job.spec.user and not (job.spec.service and user in job.spec.service_users):
            owner = denied_to_all_but(f"its owner ({job.spec.user}) and whom that one has named (--service-users)")
            raise PermissionDenied(f"Job <{shown}>: {owner}")
        if not job.spec.service and not steps:
            raise Conflict(f"Job <{shown}> has no service (gsub --service)")
        if job.state in FINISHED:
            raise Conflict(f"Job <{shown}> has ended" + ("" if steps else ", and its service with it"))
        if job.allocation is None:
            raise Unavailable(f"Job <{shown}> has not started")
        return job


async def _send(requests: Any, end: AgentEnd) -> None:
    """What the caller sends, no faster than it is taken; when he sends no more, it is over."""
    with suppress(*GONE):
        async with aclosing(requests) as pieces:
            async for piece in pieces:
                await end.write(piece.data, unasked=piece.unasked)
    end.close()
