"""Agents that are connected: their outgoing streams, instructions as messages, questions that wait for an answer.

Lives in the gRPC loop's thread. An instruction for a host that is not connected is dropped: the hello repeats it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping

from gsched.base.coded_text import AnyText
from gsched.base.errors import BadRequest, DamagedData, GschedError, Unavailable
from gsched.core.instruction import (
    ConfigureAgent,
    ForgetAttempts,
    ForgetNotices,
    ForgetRemovedOutputs,
    Instruction,
    JudgeIdleness,
    LimitAttempt,
    OpenGpu,
    ResumeAttempt,
    SendNotice,
    SignalAttempt,
    SpareAttempt,
    StartJob,
    SuspendAttempt,
    TerminateAttempt,
    WarnAttempt,
    WarnIdle,
)
from gsched.master.agents.agent_roster import AgentRoster
from gsched.master.agents.connected_agents import ConnectedAgent
from gsched.master.agents.service_relay import ServiceRelay
from gsched.master.agents.suspend_reasons import lsf_reasons
from gsched.master.agents.task_relay import TaskRelay
from gsched.master.store_lineage import StoreLineage
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig, GpuUnrequested
from gsched.model.hosts.resource import ResourceType
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice import MAIL, WARNING, WEBHOOK, Notice
from gsched.model.jobs.notice_targets import read_targets
from gsched.model.queues.application import Application, niceness
from gsched.model.queues.queue import PREEMPT, Queue
from gsched.model.views.view import JobView, OutputChunk
from gsched.resreq.parsing.gpu import asks_for_none
from gsched.store.passing_blobs import content_of
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2, terminal_pb2

log = logging.getLogger(__name__)
Outgoing = asyncio.Queue[agent_pb2.MasterMessage | None]
QUIET_PART = 0.25
"""Of GSCHED_HOST_LOST: so long an agent with nothing to tell may be silent."""
OUTPUT_TIMEOUT_S = 20.0
OUTPUT_WAIT_S = 10.0
"""An agent waits so long for more output of a job that is followed, then it is asked again."""
OUTPUT_PIECE = 1 << 20
OUTPUT_MOST = 1 << 30
"""Bytes of one stream that are shown at a time, unless the job is followed."""
STREAMS = ("stdout", "stderr")
MOST_ANSWERED = len(STREAMS) * OUTPUT_PIECE
MOST_PIECES = 10_000
"""Bytes and messages of an answer to one question; a short piece is what a job prints while it is read."""


class _Question:
    """What an agent was asked, and its answers that nobody has looked at yet."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.answers: asyncio.Queue[agent_pb2.OutputReply | None] = asyncio.Queue()
        self.is_spent = False
        """No more answers are taken: there were too many."""
        self._bytes = self._pieces = 0

    def add(self, reply: agent_pb2.OutputReply) -> None:
        self._bytes += len(reply.data)
        self._pieces += 1
        self.is_spent = self._bytes > MOST_ANSWERED or self._pieces > MOST_PIECES
        if self.is_spent:
            reply = agent_pb2.OutputReply(error=f"the agent of {self.host} sends more than it was asked for")
        self.answers.put_nowait(reply)


class AgentSessions:
    """Host name -> the queue of messages its agent is to get."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._outgoing: dict[str, tuple[int, Outgoing]] = {}
        self._agents: dict[str, ConnectedAgent] = {}
        self._questions: dict[int, _Question] = {}
        self._last_question = 0
        self._last_session = 0
        self.tasks = TaskRelay(board, self.post)
        self.services = ServiceRelay(self.post)
        self.roster = AgentRoster()
        self.lineage: StoreLineage | None = None
        """What agents are told of the store; None: nothing."""

    @property
    def config(self) -> ClusterConfig:
        """The configuration in force."""
        return self._board.config

    @property
    def connected(self) -> int:
        """How many hosts have a session now."""
        return len(self._outgoing)

    def serves(self, host: str) -> bool:
        """Whether the host is in the configuration, or still holds jobs of when it was."""
        return host in self._board.config.hosts or host in self._board.leaving

    def rival(self, host: str, agent: ConnectedAgent) -> AnyText:
        """Why this agent may not speak for the host now: another one does; empty when it may."""
        present = self._agents.get(host)
        return "" if present is None or present.is_same(agent) else present.refuses(host)

    def open(self, host: str, agent: ConnectedAgent) -> tuple[int, Outgoing]:
        """A new session of the host's agent; an older one of the same host is ended (by a None in its queue)."""
        older = self._outgoing.get(host)
        if older is not None:
            self.close(host, older[0])
            older[1].put_nowait(None)
        self._last_session += 1
        outgoing: Outgoing = asyncio.Queue()
        self._outgoing[host] = (self._last_session, outgoing)
        self._agents[host] = agent
        return self._last_session, outgoing

    def close(self, host: str, session: int) -> None:
        """The agent is gone; whoever waits for an answer of it waits no longer."""
        current = self._outgoing.get(host)
        if current is None or current[0] != session:
            return
        del self._outgoing[host]
        del self._agents[host]
        self.roster.left(host)
        for question in self._questions.values():
            if question.host == host:
                question.answers.put_nowait(None)
        self.tasks.gone(host)
        self.services.gone(host)

    def end_all(self) -> None:
        """End every session, so that the process need not wait for agents before it ends."""
        for _, outgoing in self._outgoing.values():
            outgoing.put_nowait(None)

    def post(self, host: str, message: agent_pb2.MasterMessage) -> bool:
        """Put one message into the host's stream; False when its agent is not connected."""
        target = self._outgoing.get(host)
        if target is not None:
            target[1].put_nowait(message)
        return target is not None

    def tell_of_store(self) -> None:
        """All agents are to remember how far the store has come, when they know too little of it."""
        if self.lineage is None or not self.lineage.has_news():
            return
        mark = self.lineage.message()
        for host in self._outgoing:
            self.post(host, agent_pb2.MasterMessage(store=mark))

    def needed(self, instruction: Instruction) -> tuple[str, ...]:
        """Names of the blobs that its message holds; none when there will be no message."""
        if instruction.host not in self._outgoing:
            return ()
        names: tuple[str, ...] = ()
        if isinstance(instruction, SendNotice):
            names = (instruction.notice.targets,)
        elif isinstance(instruction, StartJob) and (job := self._started(instruction)) is not None:
            names = (job.spec.environment, job.spec.script, job.spec.spooled_input)
        return tuple(filter(None, names))

    def deliver(self, instructions: Iterable[Instruction], blobs: Mapping[str, bytes]) -> list[tuple[Instruction, str]]:
        """Put each instruction into its host's stream; returns those that cannot be sent, each with the reason.

        `blobs`: all that they need, by name.
        """
        failed: list[tuple[Instruction, str]] = []
        for instruction in instructions:
            target = self._outgoing.get(instruction.host)
            if target is None:
                continue
            try:
                message = self._message(instruction, blobs)
            except Exception as error:  # one that cannot be sent must not hold up the others
                log.error("%s cannot be sent: %s", instruction, error, exc_info=not isinstance(error, GschedError))
                failed.append((instruction, str(error)))
                continue
            if message is not None:
                target[1].put_nowait(message)
        return failed

    async def output(
        self, job: JobView, stdout_from: int = 0, stderr_from: int = 0, *, follow: bool = False, kept: bool = False
    ) -> AsyncIterator[OutputChunk]:
        """The job's output so far, from those bytes on; with `follow` until the attempt is over; with `kept` only what
        could not be written to its file. Raises Unavailable.

        The agent is asked for the next piece when the last one has been taken: a slow reader fills no memory.
        """
        assert job.allocation is not None
        host = job.allocation.first_host
        first = {"stdout": max(0, stdout_from), "stderr": max(0, stderr_from)}
        offsets = dict(first)
        while True:
            has_some = False
            ask = agent_pb2.ReadOutput(
                job_id=job.job_id,
                attempt=job.attempt,
                stdout_from=offsets["stdout"],
                stderr_from=offsets["stderr"],
                most=OUTPUT_PIECE,
                wait_s=OUTPUT_WAIT_S if follow else 0.0,
                terminal=bool(job.spec.interactive),
                kept=kept,
            )
            async for answer in self._ask(host, agent_pb2.MasterMessage(read_output=ask)):
                if answer.data:
                    has_some = True
                    offsets[answer.stream] += len(answer.data)
                    yield OutputChunk(stream=answer.stream, data=answer.data)
            if not has_some and (answer.over or not follow):
                return
            for stream, start in first.items():
                if not follow and offsets[stream] - start >= OUTPUT_MOST:
                    cut = f"\n[gpeek stops after {OUTPUT_MOST >> 20} MiB of {stream}; there is more]\n".encode()
                    yield OutputChunk(stream=stream, data=cut)
                    return

    async def type_input(self, job: JobView, typed: terminal_pb2.TypeRequest) -> int:
        """Have it typed at an interactive job's terminal; how many bytes have been taken. Raises Unavailable."""
        if job.allocation is None:
            raise Unavailable("the job does not run")
        ask = agent_pb2.TypeInput(
            job_id=job.job_id,
            attempt=job.attempt,
            first=typed.first,
            data=typed.data,
            end=typed.end,
            rows=typed.rows,
            columns=typed.columns,
        )
        taken = 0
        async for answer in self._ask(job.allocation.first_host, agent_pb2.MasterMessage(type_input=ask)):
            taken = answer.taken
        return taken

    async def _ask(self, host: str, message: agent_pb2.MasterMessage) -> AsyncIterator[agent_pb2.OutputReply]:
        """The answers of a host's agent up to the last one; fills in the question's number."""
        target = self._outgoing.get(host)
        if target is None:
            raise Unavailable(f"the output is on {host}, whose agent is not connected")
        self._last_question += 1
        number = self._last_question
        question = self._questions[number] = _Question(host)
        getattr(message, str(message.WhichOneof("kind"))).request = number
        target[1].put_nowait(message)
        try:
            while True:
                try:
                    async with asyncio.timeout(OUTPUT_TIMEOUT_S):
                        answer = await question.answers.get()
                except TimeoutError:
                    raise Unavailable(f"the agent of {host} did not send the output in time") from None
                if answer is None:
                    raise Unavailable(f"the agent of {host} went away while it sent the output")
                if answer.error:
                    raise DamagedData(answer.error) if answer.gone else Unavailable(answer.error)
                yield answer
                if answer.last:
                    return
        finally:
            del self._questions[number]

    def answered(self, host: str, reply: agent_pb2.OutputReply) -> None:
        """A piece of output has come from that host's agent. Raises BadRequest for what was not asked of it."""
        question = self._questions.get(reply.request)
        if question is None:
            return  # nobody waits for it any more
        if question.host != host:
            raise BadRequest(f"{question.host} was asked question {reply.request}, not {host}")
        if reply.data and reply.stream not in STREAMS:
            raise BadRequest(f"'{reply.stream[:20]}' is no stream of a job")
        if question.is_spent:
            return
        question.add(reply)

    # -- instructions as messages ---------------------------------------------------------------------------------

    def _message(self, instruction: Instruction, blobs: Mapping[str, bytes]) -> agent_pb2.MasterMessage | None:
        match instruction:
            case StartJob():
                return self._start(instruction, blobs)
            case TerminateAttempt(job_id=job_id, attempt=attempt, reason=reason):
                terminate = agent_pb2.TerminateAttempt(
                    job_id=job_id,
                    attempt=attempt,
                    reason=reason,
                    given_up=instruction.given_up,
                    hangup=instruction.hangup,
                    failed=instruction.failed,
                    kill_delay_s=instruction.kill_delay_s,
                )
                if (save := instruction.save) is not None:
                    asked = agent_pb2.AskToSave(signal=save.signal, grace_s=save.grace_s, target=save.target)
                    terminate.ask_to_save.CopyFrom(asked)
                return agent_pb2.MasterMessage(terminate=terminate)
            case SignalAttempt(job_id=job_id, attempt=attempt, signal=signal, reason=reason):
                sent = agent_pb2.SignalAttempt(
                    job_id=job_id,
                    attempt=attempt,
                    signal=signal,
                    reason=reason,
                    target=instruction.target,
                    step=instruction.step,
                    number=instruction.number,
                )
                return agent_pb2.MasterMessage(signal=sent)
            case SuspendAttempt():
                return self._suspend(instruction)
            case ResumeAttempt(job_id=job_id, attempt=attempt):
                return agent_pb2.MasterMessage(resume=agent_pb2.ResumeAttempt(job_id=job_id, attempt=attempt))
            case LimitAttempt(job_id=job_id, attempt=attempt):
                return self._limit(job_id, attempt)
            case ForgetAttempts(attempts=attempts):
                forget = agent_pb2.Forget(
                    attempts=[agent_pb2.AttemptId(job_id=job_id, attempt=attempt) for job_id, attempt in attempts]
                )
                return agent_pb2.MasterMessage(forget=forget)
            case ConfigureAgent(host=host, shared=shared):
                told = settings(self._board.config, host, shared)
                if self.lineage is not None:
                    told.store.CopyFrom(self.lineage.message())
                return agent_pb2.MasterMessage(settings=told)
            case SendNotice(notice=notice):
                return self._notice(notice, blobs)
        return self._other_message(instruction)

    def _other_message(self, instruction: Instruction) -> agent_pb2.MasterMessage | None:
        """Of what is about no attempt, or about its warnings."""
        match instruction:
            case WarnAttempt(job_id=job_id, attempt=attempt, signal=signal, ends_by=ends_by):
                warn = agent_pb2.WarnAttempt(job_id=job_id, attempt=attempt, signal=signal, ends_by=ends_by)
                return agent_pb2.MasterMessage(warn=warn)
            case SpareAttempt(job_id=job_id, attempt=attempt):
                return agent_pb2.MasterMessage(spare=agent_pb2.SpareAttempt(job_id=job_id, attempt=attempt))
            case ForgetNotices(notice_ids=notice_ids):
                return agent_pb2.MasterMessage(forget_notices=agent_pb2.ForgetNotices(notice_ids=notice_ids))
            case ForgetRemovedOutputs(attempts=attempts):
                told = [agent_pb2.AttemptId(job_id=job_id, attempt=attempt) for job_id, attempt in attempts]
                forget = agent_pb2.ForgetRemovedOutputs(attempts=told)
                return agent_pb2.MasterMessage(forget_removed_outputs=forget)
            case OpenGpu(uuid=uuid):
                return agent_pb2.MasterMessage(open_gpu=agent_pb2.OpenGpu(uuid=uuid))
            case JudgeIdleness() | WarnIdle():
                return self._about_idleness(instruction)
        raise AssertionError(f"no message for {instruction}")

    def _started(self, instruction: StartJob) -> JobView | None:
        """The job; None when it has moved on since."""
        job = self._board.job(instruction.job_id)
        if job is None or job.allocation is None or job.attempt != instruction.attempt:
            return None
        return job

    def _suspend(self, instruction: SuspendAttempt) -> agent_pb2.MasterMessage:
        """With why it is suspended."""
        job_id, attempt, moves = instruction.job_id, instruction.attempt, instruction.moves_gpus
        suspend = agent_pb2.SuspendAttempt(job_id=job_id, attempt=attempt, moves_gpus=moves)
        if (job := self._board.job(job_id)) is not None:
            suspend.reasons, suspend.load_index = lsf_reasons(job.state, job.suspending_reason)
        return agent_pb2.MasterMessage(suspend=suspend)

    def _start(self, instruction: StartJob, blobs: Mapping[str, bytes]) -> agent_pb2.MasterMessage | None:
        job = self._started(instruction)
        if job is None or job.allocation is None:
            return None
        config = self._board.config
        message = agent_pb2.MasterMessage()
        start = message.start
        start.job_id, start.attempt = instruction.job_id, instruction.attempt
        fill(start.spec, job.spec)
        fill(start.allocation, job.allocation)
        if job.spec.environment:
            start.environment = blobs[job.spec.environment]
        if job.spec.script:
            start.script = blobs[job.spec.script]
        unrequested = GpuUnrequested.HIDE if asks_for_none(job.spec.gpu_req) else config.params.gpu_unrequested
        start.gpu_unrequested = unrequested.value
        start.effective_req = job.effective_req
        start.earlier_runs = job.requeues
        start.cluster = config.cluster
        start.submitted_at, start.dispatched_at = job.submitted_at, job.dispatched_at or job.submitted_at
        start.report = config.params.job_report
        start.report_below = config.params.stdout_direct
        start.efficiency_min_run_s = config.params.efficiency_min_run_s
        if self.lineage is not None:
            start.store.CopyFrom(self.lineage.message())
        queue = config.queues.get(job.spec.queue)
        profile = config.applications.get(job.spec.application)
        start.nice = niceness(queue, profile)
        if job.spec.spooled_input:
            start.input = content_of(blobs[job.spec.spooled_input])
        self._add_steps(start, job.spec, queue, profile)
        return message

    def _add_steps(
        self, start: agent_pb2.StartAttempt, spec: JobSpec, queue: Queue | None, profile: Application | None
    ) -> None:
        """What the site runs around the job. What the job says takes the place of what its profile says."""
        queue, profile = queue or Queue(name=""), profile or Application(name="")
        for level, command in (("queue", queue.pre_exec), ("application", "" if spec.pre_exec else profile.pre_exec)):
            if command:
                start.pre_exec.add(command=command, what=f"the {level}'s pre-exec command", level=level)
        own = "" if spec.post_exec else profile.post_exec
        for level, command in (("application", own), ("queue", queue.post_exec)):
            if command:
                start.post_exec.add(command=command, what=f"the {level}'s post-exec command", level=level)
        for level, command in (("queue", queue.host_pre_exec), ("application", profile.host_pre_exec)):
            if command:
                start.host_pre_exec.add(command=command, level=level)
        for level, command in (("application", profile.host_post_exec), ("queue", queue.host_post_exec)):
            if command:
                start.host_post_exec.add(command=command, level=level)
        notifies = spec.notify_begin or spec.notify_end or spec.notify_error
        params = self._board.config.params
        if notifies and (params.mail_program or params.mail_server):
            start.mail_to = self._address(spec.mail_user, spec.user)
            start.mail_program, start.mail_server = params.mail_program, params.mail_server
        start.job_starter = profile.job_starter or queue.job_starter
        controls = profile.controls.before(queue.controls)
        if controls.text:
            fill(start.controls, controls)
            start.controls.defaults_on_failure = params.default_after_failed_control
        start.pre_timeout_s = profile.pre_timeout_s or params.pre_timeout_s or 0
        start.post_timeout_s = profile.post_timeout_s or params.post_timeout_s or 0
        start.ends_when_preempted = PREEMPT in queue.terminate_when
        start.env_vars.update(profile.env_vars)
        start.success_exit_values = profile.success_exit_values or queue.success_exit_values

    def _limit(self, job_id: int, attempt: int) -> agent_pb2.MasterMessage | None:
        job = self._board.job(job_id)
        if job is None or job.attempt != attempt:
            return None  # it has moved on since
        limit = agent_pb2.LimitAttempt(
            job_id=job_id, attempt=attempt, run_limit_s=job.spec.run_limit_s, limits=job.spec.limits
        )
        return agent_pb2.MasterMessage(limit=limit)

    def _about_idleness(self, instruction: JudgeIdleness | WarnIdle) -> agent_pb2.MasterMessage | None:
        """A warning with mail where the site says how it is sent, unless the job has its warnings mailed as notices."""
        if isinstance(instruction, JudgeIdleness):
            judge = agent_pb2.JudgeIdleness(job_id=instruction.job_id, attempt=instruction.attempt)
            fill(judge.limits, instruction.limits)
            return agent_pb2.MasterMessage(judge_idleness=judge)
        job = self._board.job(instruction.job_id)
        if job is None or job.attempt != instruction.attempt:
            return None  # it has moved on since
        warn = agent_pb2.WarnIdle(job_id=job.job_id, attempt=job.attempt)
        fill(warn.warning, instruction.warning)
        warn.user, warn.job_name = job.spec.user, job.spec.shown_name(job.job_id)
        params = self._board.config.params
        is_mailed = any(wish.way == MAIL and wish.wants(WARNING) for wish in job.spec.notices)
        if (params.mail_program or params.mail_server) and not is_mailed:
            warn.mail_to = self._address(job.spec.mail_user, job.spec.user)
            warn.mail_program, warn.mail_server = params.mail_program, params.mail_server
        return agent_pb2.MasterMessage(warn_idle=warn)

    def _address(self, asked: str, user: str) -> str:
        """Where the user's mail goes: as was asked for, else as LSB_MAILTO says."""
        return asked or self._board.config.params.mail_to.replace("!U", user)

    def _notice(self, notice: Notice, blobs: Mapping[str, bytes]) -> agent_pb2.MasterMessage:
        """With what only the agent is told: where it goes. Raises BadRequest."""
        targets = read_targets(blobs[notice.targets] if notice.targets else b"")
        if notice.place >= len(targets):
            raise BadRequest(f"notice {notice.notice_id} has no target")
        target, params = targets[notice.place], self._board.config.params
        message = agent_pb2.MasterMessage()
        send = message.send_notice
        fill(send.notice, notice)
        send.cluster, send.to, send.form = self._board.config.cluster, target.to, target.form
        if target.way == MAIL:
            send.to = self._address(target.to, notice.user)
            send.mail_program, send.mail_server = params.mail_program, params.mail_server
            if not (send.mail_program or send.mail_server):
                raise BadRequest("lsf.conf has neither LSB_MAILPROG nor LSB_MAILSERVER")
        elif target.way == WEBHOOK:
            send.proxy = params.notice_proxy
        return message


def settings(config: ClusterConfig, host: str, shared: Iterable[str] = ()) -> agent_pb2.Settings:
    """The working parameters of a host's agent. `shared`: resources that it reports for other hosts too."""
    named = (*config.external_on(host), *shared)
    wanted = [config.resources[name] for name in named if name in config.resources]
    dynamic = [resource for resource in wanted if resource.interval_s is not None]
    mode = config.hosts[host].compute_mode if host in config.hosts else None
    return agent_pb2.Settings(
        cluster=config.cluster,
        resources=[
            agent_pb2.WantedResource(
                name=resource.name,
                interval_s=resource.interval_s or 0,
                is_string=resource.type is ResourceType.STRING,
            )
            for resource in dynamic
        ],
        exchange_s=config.timing.exchange_s,
        quiet_s=max(config.timing.exchange_s, config.params.host_lost_after_s * QUIET_PART),
        gpu_probe_s=config.timing.gpu_probe_s,
        gpu_use_s=config.timing.gpu_use_s,
        elim_restart_s=config.timing.elim_restart_s,
        elim_block_s=config.timing.elim_block_s,
        elim_restarts=config.timing.elim_restarts,
        elim_debug=config.timing.elim_debug,
        elim_arguments=config.timing.elim_arguments,
        usage_sample_s=config.timing.usage_sample_s,
        cpu_peak_s=config.timing.cpu_peak_s,
        terminate_interval_s=config.params.job_terminate_interval_s,
        gpu_provider=config.gpu_provider,
        server_dir=config.locations.server_dir,
        is_master_host=host == config.master_host,
        compute_mode=mode.value if mode is not None else "",
        gpu_foreign=config.params.gpu_foreign.value,
        gpu_foreign_kill_s=config.params.gpu_foreign_kill_s,
        gpu_foreign_mib=config.params.gpu_foreign_mib,
        gpu_fatal_xids=config.params.gpu_fatal_xids,
        gpu_clean_probes=config.params.gpu_clean_probes,
        gpu_health_check=config.params.gpu_health_check,
        gpu_health_timeout_s=config.params.gpu_health_timeout_s,
        gpu_health_interval_s=config.params.gpu_health_interval_h * 3600,
        gpu_max_temperature_c=config.params.gpu_max_temperature_c,
    )
