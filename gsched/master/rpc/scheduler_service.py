"""The Scheduler service: what commands and programs ask. Reads come from the board, changes go through the engine."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from gsched.base.errors import BadRequest, Conflict, NotFound, PermissionDenied, Unavailable
from gsched.base.ids import show_job
from gsched.base.patterns import expand_job_id
from gsched.config.configuration import load
from gsched.config.effective_parameters import effective_parameters
from gsched.core import authorization
from gsched.core.command import Command, ControlHosts, DrainHosts, Submit
from gsched.master.access.refused_accounts import JobAccounts
from gsched.master.agents.agent_sessions import AgentSessions
from gsched.master.config_switch import switching_to
from gsched.master.engine_thread import EngineLoop, refusal
from gsched.master.event_feed import EventFeed
from gsched.master.past.finished import Finished
from gsched.master.past.job_histories import is_followed
from gsched.master.past.reader import PastReader
from gsched.master.reconfig_notes import KnownNotes, fixed, told_at_start
from gsched.master.rpc.control_requests import job_command
from gsched.master.rpc.engine_calls import EngineAnswer, ask, ask_in_parts, remove_archived
from gsched.master.rpc.listings import check_filter, cluster_view, hosts_reply, queues_reply
from gsched.master.rpc.replies import filled, job_replies, part_reply
from gsched.master.store_lineage import FirstNumber
from gsched.master.views.board import Board
from gsched.model.event import GPU_CURVES, SubmissionAccepted
from gsched.model.jobs.job import FINISHED, PENDING, JobSpec
from gsched.model.jobs.notice_targets import check_targets, read_targets
from gsched.model.views.archive_question import ArchivedJobs, RemovedArchived
from gsched.model.views.view import (
    EventRecord,
    JobFilter,
    JobTexts,
    ReconfigResult,
    Submission,
    Submitted,
)
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.history_queries import History
from gsched.store.passing_blobs import content_of, given_input
from gsched.wire.identity.caller_identity import Proven
from gsched.wire.messages.batch_codec import add_submitted, read_submissions
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.server import answers, streams
from gsched.wire.v1 import model_pb2, past_pb2, scheduler_pb2, scheduler_pb2_grpc

_UNTOLD = (str(SubmissionAccepted.__struct_config__.tag), GPU_CURVES)
"""Kinds of long events that nobody follows."""
MOST_PER_JOB = 48 << 20
"""Bytes of one submission: its order must fit into one message to an agent."""
EVENTS_PER_PAGE = 2_000
MOST_PAUSE_S = 60.0
"""Between two records of a reader that wants few of them."""
MOST_PAGING = 2
"""Readers of old events that are in the store at a time: others' queries are read by the same threads."""
FEW_SUBMITTED = 20
"""Jobs of one call that are read at once."""
FEW = 100
"""Jobs that are looked up at once when they are asked for by number."""


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """What both services have at hand."""

    loop: EngineLoop
    board: Board
    store: EventLog
    auth: Proven
    notes: KnownNotes = field(default_factory=KnownNotes)
    first_number: FirstNumber | None = None

    @property
    def problem(self) -> str:
        """Why no command that changes anything is taken now; empty when all is well."""
        return self.loop.problem or self.store.shortage()

    async def ask(self, command: Command, blobs: Mapping[str, bytes] | None = None) -> Any:
        """Have the engine carry a command out; returns once its events are durable. Raises GschedError."""
        await self._admit(command)
        return await ask(self.loop, command, blobs)

    async def ask_in_parts(
        self, command: Command, blobs: Mapping[str, bytes] | None = None
    ) -> AsyncIterator[EngineAnswer]:
        """The same for a command over many jobs, see gsched.master.rpc.engine_calls. Raises GschedError."""
        await self._admit(command)
        async for told in ask_in_parts(self.loop, command, blobs):
            yield told

    async def remove_archived(self, wanted: ArchivedJobs, by: str) -> RemovedArchived:
        """Have jobs that an archive has taken out of the store, by that administrator. Raises GschedError."""
        if problem := self.problem:
            raise refusal(problem)
        return await remove_archived(self.loop, wanted, by)

    async def _admit(self, command: Command) -> None:
        if problem := self.problem:
            raise refusal(problem)
        if self.first_number is not None and isinstance(command, Submit):
            await self.first_number.wait()


class SchedulerServicer(scheduler_pb2_grpc.SchedulerServicer):
    """One per master; all methods run in the gRPC loop."""

    def __init__(
        self, services: ServiceContext, history: History, reader: PastReader, sessions: AgentSessions, feed: EventFeed
    ) -> None:
        self._services = services
        self._loop = services.loop
        self._board = services.board
        self._store = services.store
        self._auth = services.auth
        self._history = history
        self._reader = reader
        self._finished = Finished(reader)
        self._sessions = sessions
        self._feed = feed
        self._job_accounts = JobAccounts(lambda: services.board.config)
        self._paging = asyncio.Semaphore(MOST_PAGING)

    # -- changes --------------------------------------------------------------------------------------------------

    @answers
    async def Submit(self, request: Any, context: Any) -> Any:
        command, blobs = await self._submission(request, context)
        return await self._submitted(await self._services.ask(command, blobs))

    @streams
    async def SubmitInParts(self, request: Any, context: Any) -> AsyncIterator[Any]:
        command, blobs = await self._submission(request, context)
        async for told in self._services.ask_in_parts(command, blobs):
            yield scheduler_pb2.SubmitReply() if told.answer is None else await self._submitted(told.answer)

    async def _submission(self, request: Any, context: Any) -> tuple[Command, dict[str, bytes]]:
        caller = self._auth.caller(context)
        await self._job_accounts.check(caller.user)
        # What a host is called that vouches is known, not said.
        host = caller.host if caller.way == "door" else ""
        is_short = len(request.submissions) <= FEW_SUBMITTED
        specs, blobs = _read(request, host) if is_short else await asyncio.to_thread(_read, request, host)
        return Submit(caller.user, request.token, specs), blobs

    async def _submitted(self, done: Sequence[Submitted]) -> Any:
        reply = scheduler_pb2.SubmitReply()
        if len(done) <= FEW_SUBMITTED:
            add_submitted(reply, done)
        else:
            await asyncio.to_thread(add_submitted, reply, done)
        return reply

    @answers
    async def Control(self, request: Any, context: Any) -> Any:
        command, blobs = job_command(request, self._auth.caller(context))
        results = await self._services.ask(command, blobs)
        return await asyncio.to_thread(filled, scheduler_pb2.ControlReply(), "results", results)

    @streams
    async def ControlInParts(self, request: Any, context: Any) -> AsyncIterator[Any]:
        command, blobs = job_command(request, self._auth.caller(context))
        async for told in self._services.ask_in_parts(command, blobs):
            if told.answer is None:
                yield await asyncio.to_thread(part_reply, told.parts)

    @answers
    async def HostControl(self, request: Any, context: Any) -> Any:
        caller = self._auth.caller(context)
        if request.action == "drain":
            grace_s = request.grace_s if request.HasField("grace_s") else None
            drain = DrainHosts(caller.user, caller.is_admin, tuple(request.hosts), request.comment, grace_s)
            jobs = await self._services.ask(drain)
            return scheduler_pb2.HostControlReply(jobs=[to_proto(job, model_pb2.DrainedJob) for job in jobs])
        command = ControlHosts(caller.user, caller.is_admin, request.action, tuple(request.hosts), request.comment)
        return scheduler_pb2.HostControlReply(hosts=await self._services.ask(command))

    @answers
    async def Reconfigure(self, request: Any, context: Any) -> Any:
        caller = self._auth.caller(context)
        config = self._board.config
        loaded = await asyncio.to_thread(
            # Whoever may not apply it shall not have the master run programs.
            load,
            config.locations.conf_dir,
            config.master_host,
            run_egroup=caller.is_admin,
        )
        errors = tuple(str(problem) for problem in loaded.problems if problem.severity == "error")
        notes = self._services.notes.news(loaded.problems)
        applied = False
        if request.apply and loaded.config is not None and not errors:
            if not caller.is_admin:
                raise PermissionDenied(authorization.cluster_denied(config))
            errors = fixed(config, loaded.config)
            if not errors:
                await self._services.ask(*switching_to(loaded, caller.user))
                applied = True
                self._services.notes.replace(loaded.problems)
                notes += tuple(told_at_start(config, loaded.config))
        return to_proto(ReconfigResult(applied=applied, problems=errors, notes=notes), model_pb2.ReconfigResult)

    # -- reads ----------------------------------------------------------------------------------------------------

    @streams
    async def Jobs(self, request: Any, context: Any) -> AsyncIterator[Any]:
        wanted = from_proto(request, JobFilter)
        check_filter(wanted, self._board)
        if 0 < len(wanted.ids) <= FEW and not wanted.name and self._board.are_single(wanted.ids):
            for found in job_replies(self._board.jobs(wanted)):
                yield found
            return
        # A pass over all jobs takes a while: not in the loop, where orders to agents would wait behind it.
        replies = job_replies(await asyncio.to_thread(self._board.jobs, wanted))
        while (reply := await asyncio.to_thread(next, replies, None)) is not None:
            yield reply

    @answers
    async def Hosts(self, request: Any, context: Any) -> Any:
        # Ten thousand hosts take a moment: not in the loop that serves everybody.
        return await asyncio.to_thread(hosts_reply, self._board, request, self._sessions.roster.annotated)

    @answers
    async def Queues(self, request: Any, context: Any) -> Any:
        shares = self._loop.gauges.readings.shares
        return await asyncio.to_thread(queues_reply, self._board, request.names, shares, time.time())

    @answers
    async def Cluster(self, request: Any, context: Any) -> Any:
        config = self._board.config
        view = cluster_view(
            config,
            cycle_summary=self._board.summary,
            store_problem=self._services.problem,
            quarantined=self._board.quarantined,
            parameters=effective_parameters(config, self._board.shared.gpu_hosts) if request.parameters else (),
            may_administer=self._auth.caller(context).is_admin,
        )
        return to_proto(view, model_pb2.ClusterView)

    @streams
    async def History(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """As programs of before ask for them; Past.Histories tells more."""
        query = past_pb2.HistoryQuery(jobs=request.filter, limit=request.limit)
        async for reply in self._reader.histories(query):
            for one in reply.histories:
                yield one

    @streams
    async def Events(self, request: Any, context: Any) -> AsyncIterator[Any]:
        wanted = frozenset(request.job_ids)
        records = self._feed.follow() if request.follow else None
        try:
            last = self._store.last_seq if request.after_seq < 0 else request.after_seq
            # An empty record says that the follower is registered: nothing that is committed later can be missed.
            yield model_pb2.EventRecord(seq=last)
            while page := await self._page_after(last):
                for record in page:
                    last = record.seq
                    if _is_told(record, wanted):
                        yield to_proto(record, model_pb2.EventRecord)
            while records is not None:
                came = [await records.get()]
                while request.pause_s > 0 and not records.empty():
                    came.append(records.get_nowait())
                if None in came:
                    raise Conflict(f"the reader is too slow; go on after event {last}")
                fresh = [record for record in came if record is not None and record.seq > last]
                last = max((record.seq for record in fresh), default=last)
                told = [record for record in fresh if _is_told(record, wanted)]
                if told:
                    yield to_proto(told[-1], model_pb2.EventRecord)
                if told and request.pause_s > 0:
                    await asyncio.sleep(min(request.pause_s, MOST_PAUSE_S))
        finally:
            if records is not None:
                self._feed.leave(records)

    async def _page_after(self, seq: int) -> list[EventRecord]:
        async with self._paging:
            return await asyncio.to_thread(self._history.events_after, seq, EVENTS_PER_PAGE)

    @answers
    async def Texts(self, request: Any, context: Any) -> Any:
        caller, shown = self._auth.caller(context), show_job(request.job_id)
        job, array = self._board.job(request.job_id), self._board.array(request.job_id)
        of = job or (array.template if array is not None else None) or await self._finished.any_of(request.job_id)
        if of is None:
            raise NotFound(f"Job <{shown}> is not found")
        spec = of.spec
        if not authorization.Caller(caller.user, caller.is_admin).speaks_for(spec):
            raise PermissionDenied(f"Job <{shown}>: {authorization.owner_denied(spec, self._board.config)}")
        blobs = {
            name: await asyncio.to_thread(self._store.get_blob, name)
            for name in (spec.script, spec.environment)
            if name
        }
        texts = JobTexts(script=blobs.get(spec.script, b""), environment=blobs.get(spec.environment, b""))
        return to_proto(texts, model_pb2.JobTexts)

    @answers
    async def Attachment(self, request: Any, context: Any) -> Any:
        caller, shown = self._auth.caller(context), show_job(request.job_id)
        job = self._board.job(request.job_id) or await self._finished.any_of(request.job_id)
        if job is None:
            raise NotFound(f"Job <{shown}> is not found")
        if not authorization.Caller(caller.user, caller.is_admin).may_read_box(
            request.box, job.spec, self._board.config
        ):
            raise PermissionDenied(
                f"Job <{shown}>: {authorization.box_denied(request.box, job.spec, self._board.config)}"
            )
        name = next((each.attachment for each in job.messages if each.box == request.box), "")
        if not name:
            raise NotFound(f"Job <{shown}>: No attachment available in message box {request.box}")
        data = content_of(await asyncio.to_thread(self._store.get_blob, name))
        return scheduler_pb2.AttachmentReply(data=data)

    @streams
    async def Output(self, request: Any, context: Any) -> AsyncIterator[Any]:
        job, shown = self._board.job(request.job_id), show_job(request.job_id)
        is_array = self._board.array(request.job_id) is not None
        if job is None and not is_array:
            job = await self._finished.any_of(request.job_id)
            is_array = job is not None and job.job_id != request.job_id
        if is_array:
            raise BadRequest(f"Job <{shown}> : a job array; name one of its elements, as in '{shown}[1]'")
        if job is None:
            raise NotFound(f"Job <{shown}> is not found")
        caller = self._auth.caller(context)
        mine, may = caller.user == job.spec.user, authorization.Caller(caller.user, caller.is_admin).may_touch
        if not (mine or (not request.terminal and may(job.spec, self._board.config))):
            raise PermissionDenied(f"Job <{shown}>: {authorization.job_denied(job.spec, self._board.config)}")
        if job.state in PENDING or job.allocation is None:
            raise Conflict(f"Job <{shown}> : Not yet started.")
        if job.spec.interactive and not request.terminal:
            raise Conflict(f"Job <{shown}> : an interactive job; what it prints is shown where it was submitted")
        if job.state in FINISHED and job.spec.output_file:
            is_kept = False
            with contextlib.suppress(Unavailable):  # of a host that is away nothing is to be had
                async for chunk in self._sessions.output(job, request.stdout_from, request.stderr_from, kept=True):
                    is_kept = True
                    yield to_proto(chunk, model_pb2.OutputChunk)
            if is_kept:
                return
            host = job.allocation.first_host if job.allocation is not None else ""
            where = expand_job_id(
                job.spec.output_file, job.job_id, host=host, attempt=job.spec.attempt_in_names(job.attempt)
            )
            raise Conflict(f"Job <{shown}> : Job has already finished; its output is in {where}")
        async for chunk in self._sessions.output(job, request.stdout_from, request.stderr_from, follow=request.follow):
            yield to_proto(chunk, model_pb2.OutputChunk)


def _is_told(record: EventRecord, wanted: frozenset[int]) -> bool:
    """Whether who follows these numbers gets the record. A large submission is told job by job, not as it was accepted:
    that is one record of megabytes. What became of GPUs over time is only looked up.
    """
    return record.kind not in _UNTOLD and is_followed(record.job_id, wanted)


def _read(request: Any, host: str) -> tuple[tuple[JobSpec, ...], dict[str, bytes]]:
    """The jobs of a request as the engine takes them, submitted on `host` if that is known, and their texts by id."""
    specs: list[JobSpec] = []
    blobs: dict[str, bytes] = {}
    submissions = list(read_submissions(request))
    ready: dict[int, JobSpec] = {}  # by id: equal ones are one object
    ids = cache(blob_id)  # most have the same environment
    for submission, size in submissions:
        spec = ready.get(id(submission))
        if spec is None:
            if size > MOST_PER_JOB:
                raise BadRequest(f"a job of {size} bytes is too large: {MOST_PER_JOB} are the most")
            spec, texts = _spec(submission, ids)
            if host:
                spec = msgspec.structs.replace(spec, submit_host=host)
            ready[id(submission)] = spec
            blobs.update(texts)
        specs.append(spec)
    return tuple(specs), blobs


def _spec(submission: Submission, name: Callable[[bytes], str]) -> tuple[JobSpec, dict[str, bytes]]:
    """The spec with its texts replaced by blob ids, and the blobs. What only the master may set is cleared."""
    environment, script = submission.environment, submission.script
    given = given_input(submission.input) if submission.input is not None else None
    blobs = targets_of(submission.spec, submission.notice_targets)
    spec = msgspec.structs.replace(
        cleared(submission.spec),
        environment=name(environment) if environment else "",
        script=name(script) if script else "",
        spooled_input=name(given) if given is not None else "",
        notice_targets="".join(blobs),
    )
    for blob, text in ((spec.environment, environment), (spec.script, script), (spec.spooled_input, given)):
        if blob and text is not None:
            blobs[blob] = text
    return spec, blobs


def targets_of(spec: JobSpec, packed: bytes) -> dict[str, bytes]:
    """Where the notices go that the spec wants, by the blob's id; nothing where it wants none. Raises BadRequest."""
    check_targets(spec.notices, read_targets(packed))
    return {blob_id(packed): packed} if packed else {}


def cleared(spec: JobSpec) -> JobSpec:
    """The spec without what only the master may set."""
    return msgspec.structs.replace(
        spec,
        user="",
        combined_req="",
        combined_gpu_req="",
        conditions="",
        aging_per_s=0.0,
        auto_gpu=False,
        environment="",
        script="",
        spooled_input="",
        notice_targets="",
    )
