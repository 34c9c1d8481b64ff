"""Interactive jobs: who sits at their terminals, and what is typed there.

A job of which nobody sees the output must not hold what it holds: it is ended when its command has been away for a
while. Lives in the gRPC loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any

from gsched.base.errors import BadRequest, GschedError, NotFound, PermissionDenied
from gsched.base.ids import show_job
from gsched.core.authorization import denied_to_all_but
from gsched.core.command import KillJobs
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.master.rpc.scheduler_service import ServiceContext
from gsched.master.views.board import Board
from gsched.model.event import AnyEvent, JobSubmitted
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.identity.caller_identity import Proven
from gsched.wire.server import answers, streams
from gsched.wire.v1 import terminal_pb2, terminal_pb2_grpc

log = logging.getLogger(__name__)

AWAY_S = 15.0
"""How long a command may be away from its job before the job is ended."""
RESTART_AWAY_S = 60.0
"""The same after a start of the master, for which commands wait."""
GONE = "the command that was its terminal is gone"
TYPED_LIMIT = 64 * 1024

Kill = Callable[[JobView], Coroutine[Any, Any, object]]


class TerminalAttendance:
    """Who is there. `kill` has a job ended that nobody attends to."""

    def __init__(self, board: Board, kill: Kill) -> None:
        self._board = board
        self._kill = kill
        self._present: Counter[int] = Counter()
        self._due: dict[int, asyncio.TimerHandle] = {}
        self._killing: set[asyncio.Task[object]] = set()

    def begin(self, job_ids: Iterable[int]) -> None:
        """After a start, with all interactive jobs there are: their commands need a while to come back."""
        for job_id in job_ids:
            self._expect(job_id, RESTART_AWAY_S)

    def publish(self, events: Sequence[AnyEvent]) -> None:
        """These events were committed."""
        for event in events:
            if isinstance(event, JobSubmitted) and event.spec.interactive:
                self._expect(event.job_id, AWAY_S)

    def arrive(self, job_id: int) -> None:
        """Somebody sits at the job's terminal."""
        self._present[job_id] += 1
        due = self._due.pop(job_id, None)
        if due is not None:
            due.cancel()

    def leave(self, job_id: int) -> None:
        """And does no longer."""
        self._present[job_id] -= 1
        if self._present[job_id] <= 0:
            del self._present[job_id]
            self._expect(job_id, AWAY_S)

    def _expect(self, job_id: int, within_s: float) -> None:
        if job_id not in self._present and job_id not in self._due:
            self._due[job_id] = asyncio.get_running_loop().call_later(within_s, self._miss, job_id)

    def _miss(self, job_id: int) -> None:
        del self._due[job_id]
        job = self._board.job(job_id)
        if job is None or job.state in FINISHED:
            return
        log.info("job %s: %s", show_job(job_id), GONE)
        killing = asyncio.get_running_loop().create_task(self._end(job))
        self._killing.add(killing)
        killing.add_done_callback(self._killing.discard)

    async def _end(self, job: JobView) -> None:
        try:
            await self._kill(job)
        except GschedError as error:  # a full disk, say: it is tried again
            log.warning("job %s, whose command is gone, cannot be ended: %s", show_job(job.job_id), error.text)
        self._expect(job.job_id, RESTART_AWAY_S)


def killer(services: ServiceContext) -> Kill:
    """Ends a job as its owner would."""

    async def kill(job: JobView) -> object:
        wanted = JobFilter(ids=(job.job_id,), user="all")
        return await services.ask(KillJobs(job.spec.user, False, (job.job_id,), wanted, text=GONE, hangup=True))

    return kill


class TerminalServicer(terminal_pb2_grpc.TerminalServicer):
    """The Terminal service; one per master."""

    def __init__(self, board: Board, sessions: AgentSessions, attendance: TerminalAttendance, auth: Proven) -> None:
        self._board = board
        self._auth = auth
        self._sessions = sessions
        self._attendance = attendance

    @streams
    async def Attach(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self._job(request.job_id, context)
        self._attendance.arrive(request.job_id)
        try:
            yield terminal_pb2.AttachReply()
            await asyncio.Event().wait()  # until the caller goes away
        finally:
            self._attendance.leave(request.job_id)

    @answers
    async def Type(self, request: Any, context: Any) -> Any:
        if len(request.data) > TYPED_LIMIT:
            raise BadRequest(f"{len(request.data)} bytes at once: {TYPED_LIMIT} are the most")
        job = self._job(request.job_id, context)
        if job.attempt != request.attempt:
            raise BadRequest(f"Job <{show_job(request.job_id)}> runs anew")
        return terminal_pb2.TypeReply(taken=await self._sessions.type_input(job, request))

    def _job(self, job_id: int, context: Any) -> JobView:
        """The job whose terminal the caller sits at: nobody else types there, for that is to act as its owner."""
        job = self._board.job(job_id)
        if job is None:
            raise NotFound(f"Job <{show_job(job_id)}> is not found")
        if self._auth.caller(context).user != job.spec.user:
            owner = denied_to_all_but(f"its owner ({job.spec.user})")
            raise PermissionDenied(f"Job <{show_job(job_id)}>: {owner}")
        if not job.spec.interactive:
            raise BadRequest(f"Job <{show_job(job_id)}> is not interactive")
        return job
