"""The Scheduler service: what commands and programs ask. Reads come from the board, changes go through the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from gsched import __version__
from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound, PermissionDenied
from gsched.base.patterns import expand_job_id
from gsched.config.files import load
from gsched.core.command import Command, ControlHosts, ControlJobs, Reconfigure, Submit
from gsched.master.board import Board
from gsched.master.feed import Feed
from gsched.master.loop import EngineLoop, Item, refusal
from gsched.master.sessions import Sessions
from gsched.model.job import FINISHED, PENDING, JobSpec
from gsched.model.view import (
    ClusterView,
    JobFilter,
    JobHistory,
    ReconfigResult,
    Submission,
)
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.history import History
from gsched.wire.auth import OwnerOnly
from gsched.wire.convert import fill, from_proto, to_proto
from gsched.wire.server import answers, streams
from gsched.wire.v1 import model_pb2, scheduler_pb2, scheduler_pb2_grpc

JOBS_PER_MESSAGE = 500
BYTES_PER_MESSAGE = 4 << 20
"""Commands may be long: a reply is cut off here, far below what a message may hold."""
MOST_PER_JOB = 48 << 20
"""Bytes of one submission: its order must fit into one message to an agent."""
HISTORY_LIMIT = 10_000
EVENTS_PER_PAGE = 2_000


class SchedulerServicer(scheduler_pb2_grpc.SchedulerServicer):
    """One per master; all methods run in the gRPC loop."""

    def __init__(
        self,
        loop: EngineLoop,
        board: Board,
        store: EventLog,
        history: History,
        sessions: Sessions,
        feed: Feed,
        auth: OwnerOnly,
    ) -> None:
        self._loop = loop
        self._board = board
        self._store = store
        self._history = history
        self._sessions = sessions
        self._feed = feed
        self._auth = auth

    # -- changes --------------------------------------------------------------------------------------------------

    async def ask(self, command: Command, blobs: Mapping[str, bytes] | None = None) -> Any:
        """Have the engine carry a command out; returns once its events are durable. Raises GschedError."""
        if self._loop.problem:
            raise refusal(self._loop.problem)
        if not self._store.has_room():
            raise refusal(f"the disk of {self._store.path.parent} is full")
        return await ask(self._loop, command, blobs)

    @answers
    async def Submit(self, request: Any, context: Any) -> Any:
        caller = self._auth.caller(context)
        specs, blobs = [], {}
        for message in request.submissions:
            if message.ByteSize() > MOST_PER_JOB:
                raise BadRequest(f"a job of {message.ByteSize()} bytes is too large: {MOST_PER_JOB} are the most")
            spec, texts = _spec(from_proto(message, Submission))
            specs.append(spec)
            blobs.update(texts)
        done = await self.ask(Submit(caller.user, request.token, tuple(specs)), blobs)
        reply = scheduler_pb2.SubmitReply()
        for submitted in done:
            fill(reply.jobs.add(), submitted)
        return reply

    @answers
    async def Control(self, request: Any, context: Any) -> Any:
        caller = self._auth.caller(context)
        wanted = from_proto(request.filter, JobFilter) if request.HasField("filter") else None
        command = ControlJobs(
            caller.user, caller.is_admin, request.action, tuple(request.job_ids), wanted, request.signal
        )
        reply = scheduler_pb2.ControlReply()
        for result in await self.ask(command):
            fill(reply.results.add(), result)
        return reply

    @answers
    async def HostControl(self, request: Any, context: Any) -> Any:
        caller = self._auth.caller(context)
        command = ControlHosts(caller.user, caller.is_admin, request.action, tuple(request.hosts), request.comment)
        return scheduler_pb2.HostControlReply(hosts=await self.ask(command))

    @answers
    async def Reconfigure(self, request: Any, context: Any) -> Any:
        caller = self._auth.caller(context)
        config = self._board.config
        loaded = await asyncio.to_thread(load, config.locations.conf_dir, config.master_host)
        errors = tuple(str(problem) for problem in loaded.problems if problem.severity == "error")
        notes = tuple(str(problem) for problem in loaded.problems if problem.severity != "error")
        applied = False
        if request.apply and loaded.config is not None and not errors:
            if not caller.is_admin:
                raise PermissionDenied("User permission denied")
            errors = _fixed(config.locations, loaded.config.locations, config.cluster, loaded.config.cluster)
            if not errors:
                await self.ask(Reconfigure(caller.user, loaded.config))
                applied = True
        return to_proto(ReconfigResult(applied=applied, problems=errors, notes=notes), model_pb2.ReconfigResult)

    # -- reads ----------------------------------------------------------------------------------------------------

    @streams
    async def Jobs(self, request: Any, context: Any) -> AsyncIterator[Any]:
        wanted = from_proto(request, JobFilter)
        _check_filter(wanted, self._board)
        jobs = self._board.jobs(wanted)
        reply, size = scheduler_pb2.JobsReply(), 0
        for job in jobs:
            fill(reply.jobs.add(), job)
            size += len(job.spec.command)
            if len(reply.jobs) >= JOBS_PER_MESSAGE or size >= BYTES_PER_MESSAGE:
                yield reply
                reply, size = scheduler_pb2.JobsReply(), 0
        if reply.jobs:
            yield reply

    @answers
    async def Hosts(self, request: Any, context: Any) -> Any:
        hosts = {host.name: host for host in self._board.hosts()}
        reply = scheduler_pb2.HostsReply()
        for name in request.names or hosts:
            if name not in hosts:
                raise NotFound(f"{name}: Bad host name, host group name or cluster name")
            fill(reply.hosts.add(), hosts[name])
        return reply

    @answers
    async def Queues(self, request: Any, context: Any) -> Any:
        queues = self._board.queues()
        known = {queue.name for queue in queues}
        for name in request.names:
            if name not in known:
                raise NotFound(f"{name}: No such queue")
        reply = scheduler_pb2.QueuesReply()
        for queue in queues:
            if not request.names or queue.name in request.names:
                fill(reply.queues.add(), queue)
        return reply

    @answers
    async def Cluster(self, request: Any, context: Any) -> Any:
        config = self._board.config
        view = ClusterView(
            cluster=config.cluster,
            master_host=config.master_host,
            version=__version__,
            default_queue=config.params.default_queue,
            external_resources=tuple(name for name in config.resources if config.mapped.get(name)),
            cycle_summary=self._board.summary,
            store_problem=self._loop.problem,
            quarantined=self._board.quarantined,
        )
        return to_proto(view, model_pb2.ClusterView)

    @streams
    async def History(self, request: Any, context: Any) -> AsyncIterator[Any]:
        wanted = from_proto(request.filter, JobFilter)
        limit = min(request.limit or HISTORY_LIMIT, HISTORY_LIMIT)
        for row in await asyncio.to_thread(self._history.find_jobs, wanted, limit):
            events = await asyncio.to_thread(self._history.events_of, row.job_id)
            yield to_proto(JobHistory(job_id=row.job_id, events=tuple(events)), model_pb2.JobHistory)

    @streams
    async def Events(self, request: Any, context: Any) -> AsyncIterator[Any]:
        wanted = set(request.job_ids)
        records = self._feed.follow() if request.follow else None
        try:
            last = self._store.last_seq if request.after_seq < 0 else request.after_seq
            # An empty record says that the follower is registered: nothing that is committed later can be missed.
            yield model_pb2.EventRecord(seq=last)
            while page := await asyncio.to_thread(self._history.events_after, last, EVENTS_PER_PAGE):
                for record in page:
                    last = record.seq
                    if not wanted or record.job_id in wanted:
                        yield to_proto(record, model_pb2.EventRecord)
            while records is not None:
                fresh = await records.get()
                if fresh is None:
                    raise Conflict(f"the reader is too slow; go on after event {last}")
                if fresh.seq > last:
                    last = fresh.seq
                    if not wanted or fresh.job_id in wanted:
                        yield to_proto(fresh, model_pb2.EventRecord)
        finally:
            if records is not None:
                self._feed.leave(records)

    @streams
    async def Output(self, request: Any, context: Any) -> AsyncIterator[Any]:
        job = self._board.job(request.job_id)
        if job is None:
            raise NotFound(f"Job <{request.job_id}> is not found")
        if job.state in PENDING or job.allocation is None:
            raise Conflict(f"Job <{request.job_id}> : Not yet started.")
        if job.state in FINISHED and job.spec.output_file:
            where = expand_job_id(job.spec.output_file, job.job_id)
            raise Conflict(f"Job <{request.job_id}> : Job has already finished; its output is in {where}")
        async for chunk in self._sessions.output(job):
            yield to_proto(chunk, model_pb2.OutputChunk)


async def ask(loop: EngineLoop, command: Command, blobs: Mapping[str, bytes] | None = None) -> Any:
    """Put a command into the engine's inbox and await its answer. Raises GschedError when it is refused."""
    running = asyncio.get_running_loop()
    future: asyncio.Future[Any] = running.create_future()

    def settle(answer: Any, error: GschedError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer)

    def reply(answer: Any, error: GschedError | None) -> None:
        running.call_soon_threadsafe(settle, answer, error)

    loop.put(Item(command, reply, blobs or {}))
    return await future


def _spec(submission: Submission) -> tuple[JobSpec, dict[str, bytes]]:
    """The spec with its texts replaced by blob ids, and the blobs. What only the master may set is cleared."""
    blobs = {blob_id(text): text for text in (submission.environment, submission.script) if text}
    spec = msgspec.structs.replace(
        submission.spec,
        user="",
        combined_req="",
        auto_gpu=False,
        environment=blob_id(submission.environment) if submission.environment else "",
        script=blob_id(submission.script) if submission.script else "",
    )
    return spec, blobs


def _check_filter(wanted: JobFilter, board: Board) -> None:
    if wanted.queue and wanted.queue not in board.config.queues:
        raise BadRequest(f"{wanted.queue}: No such queue")
    if wanted.host and wanted.host not in board.config.hosts:
        raise BadRequest(f"{wanted.host}: Bad host name, host group name or cluster name")


def _fixed(old: Any, new: Any, old_cluster: str, new_cluster: str) -> tuple[str, ...]:
    """What a reconfig cannot change while the daemons run."""
    found = [
        f"{name.upper()} cannot change from {getattr(old, name)} to {getattr(new, name)} while the daemons run"
        for name in ("state_dir", "run_dir", "spool_dir")
        if getattr(old, name) != getattr(new, name)
    ]
    if old_cluster != new_cluster:
        found.append(f"the cluster's name cannot change from {old_cluster} to {new_cluster} while the daemons run")
    return tuple(found)
