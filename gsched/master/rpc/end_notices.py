"""Who waits for which job: an end is told to those who asked for that job, and costs nobody else anything.

Lives in the gRPC loop's thread. What has ended is read off the board: nobody is told of it before it is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Any

from gsched.base.errors import BadRequest, GschedError
from gsched.base.ids import array_of, index_of
from gsched.master.past.finished import Finished
from gsched.master.views.board import Board
from gsched.model.event import AnyEvent, ArrayElementsFinished, JobFinished
from gsched.model.jobs.job import FINISHED, JobState
from gsched.model.views.view import JobEnd
from gsched.wire.messages.convert import fill
from gsched.wire.server import streams
from gsched.wire.v1 import waiting_pb2, waiting_pb2_grpc

ENDS_PER_MESSAGE = 500
AT_ONE_GO = 500
"""Numbers that are looked up before others are served: 2 ms."""
MOST_AWAITED = 1_000_000


class EndWaiter:
    """One stream: what it still waits for, and the ends that have not left yet. None: it asks for nothing more."""

    def __init__(self) -> None:
        self.ends: asyncio.Queue[JobEnd | None] = asyncio.Queue()
        self.open: set[int] = set()
        self.problem = ""
        """Why nothing more is taken from it."""


class Ends:
    """All who wait, by the job they wait for."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._waiters: dict[int, set[EndWaiter]] = {}

    def ask(self, waiter: EndWaiter, job_ids: Iterable[int]) -> list[int]:
        """Tell the waiter of these jobs' ends: now, or when they come. Returns those that are not in memory."""
        unknown = []
        for job_id in job_ids:
            end = self._end_of(job_id)
            if end is not None and not end.state:
                unknown.append(job_id)
            elif end is not None:
                waiter.ends.put_nowait(end)
            else:
                waiter.open.add(job_id)
                self._waiters.setdefault(job_id, set()).add(waiter)
        return unknown

    def leave(self, waiter: EndWaiter) -> None:
        """Nobody is left to be told."""
        for job_id in waiter.open:
            waiters = self._waiters[job_id]
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[job_id]
        waiter.open.clear()

    def publish(self, events: Sequence[AnyEvent]) -> None:
        """These events were committed, and the board shows what they brought about."""
        if not self._waiters:
            return
        touched: dict[int, None] = {}
        for event in events:
            if isinstance(event, JobFinished):
                touched.update(dict.fromkeys((event.job_id, array_of(event.job_id))))
            elif isinstance(event, ArrayElementsFinished):
                touched.update((number, None) for number in self._waiters if array_of(number) == event.job_id)
        for job_id in touched:
            if job_id in self._waiters and (end := self._end_of(job_id)) is not None:
                for waiter in self._waiters.pop(job_id):
                    waiter.open.discard(job_id)
                    waiter.ends.put_nowait(end)

    def _end_of(self, job_id: int) -> JobEnd | None:
        """How it ended; None while it has not."""
        array = self._board.array(job_id) if not index_of(job_id) else None
        if array is not None:
            counts = {state: count for state, count in array.summary().counts.items() if count}
            if not FINISHED.issuperset(counts):
                return None
            state = JobState.EXIT if JobState.EXIT in counts else JobState.DONE
            return JobEnd(job_id=job_id, state=state.value, name=array.template.spec.name, counts=counts)
        job = self._board.job(job_id)
        if job is None:
            return JobEnd(job_id=job_id, state="")
        if job.state not in FINISHED:
            return None
        host = job.allocation.first_host if job.allocation is not None else ""
        return JobEnd(job_id=job_id, state=job.state, result=job.result, host=host, name=job.spec.shown_name(job_id))


async def _next_ends(queue: asyncio.Queue[JobEnd | None]) -> list[JobEnd | None]:
    """The next end, and those behind it that are there already."""
    ends = [await queue.get()]
    while len(ends) < ENDS_PER_MESSAGE and not queue.empty():
        ends.append(queue.get_nowait())
    return ends


class WaitingServicer(waiting_pb2_grpc.WaitingServicer):
    """The Waiting service; one per master."""

    def __init__(self, ends: Ends, finished: Finished) -> None:
        self._ends = ends
        self._finished = finished

    @streams
    async def Ends(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        waiter = EndWaiter()
        reading = asyncio.create_task(self._read(requests, waiter))
        try:
            while (ends := await _next_ends(waiter.ends)) != [None]:
                reply = waiting_pb2.EndsReply()
                for end in ends:
                    if end is None:
                        waiter.ends.put_nowait(None)
                    else:
                        fill(reply.ends.add(), end)
                yield reply
            if waiter.problem:
                raise BadRequest(waiter.problem)
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            self._ends.leave(waiter)

    async def _read(self, requests: Any, waiter: EndWaiter) -> None:
        try:
            async for request in requests:
                if len(waiter.open) + waiter.ends.qsize() + len(request.job_ids) > MOST_AWAITED:
                    waiter.problem = f"more than {MOST_AWAITED} jobs are waited for on one stream"
                    return
                unknown = []
                for start in range(0, len(request.job_ids), AT_ONE_GO):
                    unknown += self._ends.ask(waiter, request.job_ids[start : start + AT_ONE_GO])
                    await asyncio.sleep(0)  # the loop serves others too
                for end in await self._finished.ends(unknown):
                    waiter.ends.put_nowait(end)
        except GschedError as error:
            waiter.problem = error.text
        finally:
            waiter.ends.put_nowait(None)
