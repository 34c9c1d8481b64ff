"""The agent's attempts: orders carried out once, results repeated until the master has them on disk.

The executor's folders are the journal; after a crash of the agent they say what runs, what ended and what never began.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from pathlib import Path

import msgspec

from gsched.agent.attempts.attempt_fences import AttemptFences
from gsched.agent.attempts.attempt_memory import AttemptMemory
from gsched.agent.attempts.held_resources import HeldResources, uuids_of
from gsched.agent.attempts.job_accounts import HostAccounts
from gsched.agent.attempts.order_builder import HostContext, OrderBuilder, Start
from gsched.agent.attempts.unkillable_reports import UnkillableReports
from gsched.agent.attempts.usage_reports import UsageReports
from gsched.agent.blocking_pool import PATH_PATIENCE_S, BlockingPool
from gsched.agent.gpu.gpu_moves import GPU_LOST, NO_MOVES, GpuMoves, MoveTools
from gsched.agent.gpu.gpu_owners import Owners
from gsched.agent.gpu.gpu_prolog_epilog import GpusUnfit, PrologEpilog
from gsched.agent.gpu_use import use_files
from gsched.agent.gpu_use.gpu_use_recorder import GpuUseRecorder, ReadGpus, no_gpus
from gsched.agent.logins.login_sessions import HostLogins
from gsched.agent.output import terminal_questions
from gsched.agent.output.failure_diagnosis import ErrorsOf, FailureDiagnosis, no_errors
from gsched.agent.output.idle_warnings import IdleWarnings
from gsched.agent.output.kept_outputs import KeptOutputs
from gsched.agent.output.output_quota import OutputQuota
from gsched.agent.output.output_tail import AttemptEndWaiters
from gsched.agent.output.removal_news import RemovalNews
from gsched.agent.output.report_delivery import ReportDelivery
from gsched.agent.services.job_services import JobServices
from gsched.agent.tasks.end_warnings import EndWarnings
from gsched.agent.tasks.host_tasks import HostTasks
from gsched.agent.tasks.step_records import StepRecords
from gsched.base.clock import Clock
from gsched.base.coded_text import coded, listed
from gsched.base.errors import GschedError, Internal
from gsched.base.ids import attempt_name
from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.model.gpus.gpu_curve import MOST_PACKED
from gsched.model.hosts.kept_output import KeptOutput
from gsched.model.jobs.job import PREEMPTED, RESIZING, AttemptResult, JobSpec
from gsched.model.jobs.job_service import AUTO_PORT
from gsched.model.jobs.step_facts import MOST_PACKED_STEPS
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.attempts.control_actions import SuspendReasons
from gsched.run.executor import ProcessExecutor
from gsched.run.order import AttemptLimits, Order, SaveOrder, StartedInfo
from gsched.run.processes.attempt_marks import left_by
from gsched.run.processes.warned_processes import MAIN, STEPS
from gsched.wire.identity.caller_identity import user_name
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.v1 import agent_pb2, model_pb2

log = logging.getLogger(__name__)

HELLO_CURVES = 8 << 20
"""Bytes that a hello has for what all attempts made of their GPUs over time that ended while there was no master."""
_KNOWN_FOLDERS = 512
"""So many paths are kept, which take longer to make than what is done with them."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Attempts:
    """What this host has been ordered to run. `send` puts a message to the master into the stream (or drops it)."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        host: str,
        spool: Path,
        cluster: str,
        uid: int,
        clock: Clock,
        *,
        send: Callable[[agent_pb2.AgentMessage], None],
        host_context: HostContext,
        fencing: AttemptFences | None = None,
        prolog_epilog: PrologEpilog | None = None,
        accounts: HostAccounts | None = None,
        locks: GpuLockFolders | None = None,
        kept_output: KeptOutput | None = None,
        read_gpus: ReadGpus = no_gpus,
        gpu_owners: Owners | None = None,
        xids: ErrorsOf = no_errors,
        moving: MoveTools = NO_MOVES,
    ) -> None:
        self._fencing = fencing
        self._prolog_epilog = prolog_epilog or PrologEpilog()
        self._accounts = accounts or HostAccounts(host, uid=uid)
        self._host = host
        self._spool = spool
        self._folder_of = lru_cache(_KNOWN_FOLDERS)((spool / "attempts").joinpath)
        self._cluster = cluster
        self._clock = clock
        self._send = send
        self._memory = AttemptMemory()
        self.holdings = HeldResources(self._memory.ended)
        self.gpu_use = self._make_gpu_use(read_gpus, gpu_owners or self.owners)
        self.unkillable = UnkillableReports(send)
        self.end_warnings = EndWarnings(send)
        self._returns: set[asyncio.Task[None]] = set()
        kept_output = kept_output or KeptOutput()
        self._outputs = KeptOutputs(spool / "outputs", clock, kept_output)
        self.removal_news = RemovalNews(self._outputs, send)
        self._quota = OutputQuota(kept_output.run_mib)
        self.endings = AttemptEndWaiters()
        self.signal_steps: Callable[[AttemptKey, int, int | None], None] = lambda key, signum, number: None
        """Sends a signal to the tasks of its steps, or of one of them; 0 ends that."""
        self.terminate_interval_s = 10.0
        self._executor = self._make_executor(locks)
        self.run_program = self._executor.run_program
        self.put_back_folders = self._executor.put_back_folders
        self.gpu_moves = self._make_gpu_moves(moving)
        self.tasks = HostTasks(host, self._executor, self.folder, lambda: self.terminate_interval_s)
        self.steps = StepRecords(self.folder)
        self.services = JobServices(host, self._executor, clock, running=lambda: self.started, send=send)
        self.logins = HostLogins(host, self._executor, running=lambda: self.started)
        self._blocking = BlockingPool()
        self._reports = ReportDelivery(self._executor, self._on_written, self._blocking)
        sender = f"LSF System <{user_name(uid)}@{host}>"
        self.idle_warnings = IdleWarnings(self._executor, self._reports, self._blocking, sender)
        self.usage = self._make_usage_reports()
        self._diagnosis = FailureDiagnosis(self._executor, self._blocking, xids)
        self._diagnosing: set[asyncio.Task[None]] = set()
        self._orders = OrderBuilder(host, user_name(uid), self._executor, clock, host_context)

    def _make_gpu_moves(self, tools: MoveTools) -> GpuMoves:
        return GpuMoves(
            tools,
            executor=self._executor,
            holdings=self.holdings,
            folder=self.folder,
            run=self.run_program,
            send=self._send,
            end=self._end_without_gpu,
        )

    def _make_gpu_use(self, read: ReadGpus, owners: Owners) -> GpuUseRecorder:
        return GpuUseRecorder(
            self._host,
            self._clock,
            read=read,
            running=lambda: self.started,
            holding=self.holdings.all,
            owners=owners,
            folder=self.folder,
            is_suspended=lambda key: self._executor.is_suspended(*key),
        )

    def _make_usage_reports(self) -> UsageReports:
        return UsageReports(
            self._executor,
            self._clock,
            self._memory,
            self.steps,
            gpu_use=self.gpu_use,
            services=self.services,
            idle_warnings=self.idle_warnings,
        )

    def _make_executor(self, locks: GpuLockFolders | None) -> ProcessExecutor:
        return ProcessExecutor(
            self._spool,
            self._cluster,
            on_started=self._on_started,
            on_ended=self._on_ended,
            on_unkillable=self.unkillable.found,
            on_warned=self.end_warnings.warned,
            clock=self._clock,
            gpu_locks=locks,
        )

    async def adopt(self) -> int:
        """Take up what an earlier agent left; returns how many attempts there are."""
        keys = await self._executor.adopt()
        for key in keys:
            order = self._executor.order(*key)
            if order is None:
                continue
            self._memory.stores[key] = agent_pb2.StoreMark(cluster_id=order.cluster_id, generation=order.generation)
            self.holdings.take_up(key, order, self._host)
            if order.is_part:
                self._memory.elsewhere.add(key)
            if key not in self._memory.ended:
                self._reports.expect(key, order)
        self.gpu_moves.adopt(keys)
        if self._fencing is not None:
            for name in self._fencing.clear(attempt_name(*key) for key in keys):
                log.warning("processes of attempt %s, of which nothing is known, are still there", name)
        return len(keys)

    @property
    def started(self) -> dict[AttemptKey, HostAllocation]:
        """What those have that have begun and are not over."""
        return {key: part for key, part in self.holdings.running.items() if key in self._memory.started}

    @property
    def unforgotten(self) -> set[AttemptKey]:
        """Attempts that run, and those whose end the master has not on disk yet."""
        return {*self.holdings, *self._memory.ended}

    async def settle(self) -> None:
        """Wait for the reports that are being written: what a hello tells the master is over needs no more work.

        Not for GPUs to be given back: a hello says that these are still held.
        """
        if self._diagnosing:
            await asyncio.wait(list(self._diagnosing))
        await self._reports.settle()

    async def limit_outputs(self) -> None:
        """For ever: keep what jobs print without -o within bounds."""
        await self._quota.watch(lambda: [self.folder(key) for key in self._executor.running()])

    async def limit_kept_outputs(self) -> None:
        """For ever: of what finished jobs have printed without -o the oldest goes where there is too much."""
        await self._outputs.watch(self.removal_news.tell)

    def close(self) -> None:
        """Stop watching; jobs go on."""
        self._executor.close()
        if self._fencing is not None:
            self._fencing.leave()

    # -- what the master orders -----------------------------------------------------------------------------------

    async def start(self, message: agent_pb2.StartAttempt) -> None:
        """Start the attempt, unless it is known: then its news are told again."""
        key = (message.job_id, message.attempt)
        if self._is_of_another(key, message.store):
            self._refuse(key)
            return
        if key in self._memory.ended:
            self._tell_ended(key)
            return
        if key in self.holdings:
            if key in self._memory.started:
                self._tell_started(key)
            return
        try:
            await self._start(key, message)
        except Exception as error:
            if not isinstance(error, GschedError):
                log.exception("attempt %s.%s cannot be started", *key)
            if key in self._executor.running():
                return  # the order is in the journal: it may run, now or after a restart
            problem = error.said if isinstance(error, GschedError) else str(error) or type(error).__name__
            result = AttemptResult(
                started=False,
                ended_at=self._clock.now(),
                problem=problem,
                gpus_unfit=isinstance(error, GpusUnfit),
            )
            self._on_ended(*key, result)

    def _is_of_another(self, key: AttemptKey, store: agent_pb2.StoreMark) -> bool:
        """Whether an attempt of that name is here already that the store of another cluster had ordered."""
        known = self._memory.stores.get(key)
        return known is not None and known.cluster_id not in ("", store.cluster_id)

    def _refuse(self, key: AttemptKey) -> None:
        """Tell that it was not started; nothing is noted, for the name stands for another attempt here."""
        message = agent_pb2.Ended(job_id=key[0], attempt=key[1])
        problem = coded("attempt.other_store", attempt_name(*key), self._host)
        fill(message.result, AttemptResult(started=False, ended_at=self._clock.now(), problem=problem))
        self._send(agent_pb2.AgentMessage(ended=message))

    async def _start(self, key: AttemptKey, message: agent_pb2.StartAttempt) -> None:
        spec = _spec_of(message.spec.SerializeToString())
        allocation = from_proto(message.allocation, Allocation)
        part = next((part for part in allocation.hosts if part.host == self._host), None)
        if part is None:
            raise Internal(coded("attempt.not_for_host", attempt_name(*key), self._host))
        self.holdings.take(key, part)
        self._memory.stores[key] = message.store
        if allocation.first_host != self._host:
            self._memory.elsewhere.add(key)
        login = await self._accounts.login(spec.user)
        await self._prolog_epilog.before(key, part, spec)
        fence = None
        if self._fencing is not None:
            fence = await self._fencing.fence_of(attempt_name(*key), part, message.gpu_unrequested)
        interval_s = self.terminate_interval_s
        taken = self.services.taken() if spec.service == AUTO_PORT else ()  # of other users, who let nobody read it
        # Where the user's paths lead is looked up in the user's name.
        start = Start(message, spec, allocation, part, login)
        order = await self._blocking.as_user(login.account, lambda: self._orders.of(start, fence, interval_s, taken))
        if order.any_gpu:
            self.holdings.may_use_any(key)
        self._reports.expect(key, order)
        await self._executor.start(order)

    def owners(self, pids: Iterable[int]) -> Mapping[int, str]:
        """Process id -> the attempt (`17.1`) that it belongs to, also one that is over; others are left out."""
        asked = list(pids)
        found = self._executor.owners(asked)
        return {**left_by((pid for pid in asked if pid not in found), self._cluster, self._executor.uid_of), **found}

    def on_gpus(self) -> Mapping[str, frozenset[str]]:
        """Attempts that have not ended, of which processes may be on GPUs -> UUIDs of their whole GPUs."""
        return {attempt_name(*key): uuids_of(self.holdings.part(key)) for key in self._executor.running()}

    def giving_back(self) -> Mapping[str, frozenset[str]]:
        """Attempts that have ended and still hold GPUs -> UUIDs of these."""
        return {attempt_name(*key): uuids_of(part) for key, part in self.holdings.returning.items()}

    async def terminate(
        self,
        key: AttemptKey,
        reason: str = "",
        *,
        given_up: bool = False,
        hangup: bool = False,
        failed: bool = False,
        kill_delay_s: int | None = None,
        save: SaveOrder | None = None,
    ) -> None:
        """End it; an attempt that is not here is over. `reason`: LSF's keyword for why; `hangup`: its terminal is gone;
        `kill_delay_s`: when SIGKILL follows the signals that ask, else as usual.

        `given_up`: its job has gone on without it. Then a part ends at once, and what is not here is told to be over.
        `failed`: its job has failed by itself. `save`: it is asked to save its state first.
        """
        if given_up and key not in self.holdings and key not in self._memory.ended:
            gone = agent_pb2.Ended(job_id=key[0], attempt=key[1], given_up=True)
            fill(gone.result, AttemptResult(started=False, ended_at=self._clock.now()))
            self._send(agent_pb2.AgentMessage(ended=gone))
            return
        self._explain(key, reason)
        if failed and key in self.holdings and key not in self._memory.ended:
            self._memory.failed.add(key)
        if given_up and key in self._memory.elsewhere:
            await self._executor.close_part(*key)
        else:
            interval_s = self.terminate_interval_s
            await self._executor.terminate(*key, interval_s, hangup=hangup, kill_delay_s=kill_delay_s, save=save)
            if hangup:  # else its end would wait for somebody to take its last output
                await terminal_questions.hang_up(self.folder(key))

    async def warn(self, key: AttemptKey, number: int, ends_by: float | None) -> None:
        """Warn its part of the job's end, as its first host has."""
        await self._executor.warn(*key, number, ends_by)

    def spare(self, key: AttemptKey) -> None:
        """It is not to end for another job's sake, after all."""
        if self._executor.spare(*key) and self._memory.reasons.get(key) in (PREEMPTED, RESIZING):
            del self._memory.reasons[key]

    async def _end_without_gpu(self, key: AttemptKey) -> None:
        await self.terminate(key, GPU_LOST)

    def _explain(self, key: AttemptKey, reason: str) -> None:
        """What to say of the attempt if it ends other than well. What was asked for first has ended it, unless its job
        was to go on then.
        """
        reasons = self._memory.reasons
        if reason and key in self.holdings and key not in self._memory.ended:
            reasons[key] = reason if reasons.get(key, "") in ("", PREEMPTED, RESIZING) else reasons[key]

    async def pass_on(self, key: AttemptKey, order: agent_pb2.SignalAttempt) -> None:
        """Send the signal once, and tell that it was sent. SIGKILL waits for nothing."""

        async def send() -> None:
            if order.HasField("step"):
                self.signal_steps(key, order.signal, order.step)
            else:
                await self.signal(key, order.signal, order.reason, order.target)
            if order.number:
                told = agent_pb2.AttemptSignalled(job_id=key[0], attempt=key[1], number=order.number)
                self._send(agent_pb2.AgentMessage(signalled=told))

        if order.number and order.signal != signal.SIGKILL:
            await self._executor.pass_on(*key, order.number, send)
        else:
            await send()

    async def signal(self, key: AttemptKey, number: int, reason: str = "", target: str = "") -> None:
        """Send one signal to all its processes, or to its `target` (MAIN, STEPS). `reason`: LSF's keyword for one that
        ends by it.
        """
        if target == STEPS:
            self.signal_steps(key, number, None)
            return
        if number in _ENDING:
            self._explain(key, reason)
        await self._executor.signal(*key, number, everything=target != MAIN)

    async def suspend(self, key: AttemptKey, reasons: SuspendReasons, *, moves_gpus: bool = False) -> None:
        """Stop its processes, or do what the site does in place of that; `moves_gpus`: move them off its GPU before, if
        that can be done, and stop them in any case.
        """
        if moves_gpus:
            self.gpu_moves.off(key)
        else:
            await self._executor.suspend(*key, reasons)

    async def resume(self, key: AttemptKey) -> None:
        """Let them go on, on its GPU."""
        if self.gpu_moves.concerns(key):
            self.gpu_moves.back(key)
        else:
            await self._executor.resume(*key, acts=True)

    async def limit(self, key: AttemptKey, message: agent_pb2.LimitAttempt) -> None:
        """Other limits than at its start; an attempt that is not here is over."""
        run_limit_s = message.run_limit_s if message.HasField("run_limit_s") else None
        await self._executor.limit(*key, AttemptLimits(run_limit_s=run_limit_s, limits=dict(message.limits)))

    def forget(self, key: AttemptKey) -> None:
        """The master has the result on disk: the journal may go, what the job printed stays for a while."""
        if not self._memory.forget(key):
            return
        self.holdings.forget(key)
        self.idle_warnings.forget(key)
        self.steps.forget(key)
        self._outputs.keep(attempt_name(*key), self.folder(key))
        self._executor.forget(*key)

    # -- what the master is told ----------------------------------------------------------------------------------

    def fill_hello(self, hello: agent_pb2.Hello) -> None:
        """Everything that is known, for a new session."""
        self.removal_news.begin_session()
        self.usage.begin()
        hello.only_user, hello.confirms_signals = self._accounts.only_user, True
        starting = (key for key in self.holdings if key not in self._memory.ended)  # some may not be in the journal yet
        for key in dict.fromkeys([*self._executor.running(), *starting]):
            held = hello.held.add(job_id=key[0], attempt=key[1], store=self._memory.stores.get(key))
            fill(held.part, self.holdings.part(key) or HostAllocation(host=self._host, slots=1))
            held.signalled = self._executor.last_signal(*key)
        for key, part in self.holdings.returning.items():
            fill(hello.held.add(job_id=key[0], attempt=key[1], store=self._memory.stores.get(key)).part, part)
        for key in self._memory.started:
            hello.started.append(self._started_message(key))
        told = [key for key in self._memory.ended if key not in self.holdings.returning]
        for key in told:
            hello.ended.append(self._ended_message(key, HELLO_CURVES // len(told)))

    def find_cpu_peak_over(self, seconds: float) -> None:
        """The peak of the CPU use of jobs is that of the mean over so many; 0, from a master of before: as it was."""
        self._executor.samples.window_s = seconds or self._executor.samples.window_s

    def folder(self, key: AttemptKey) -> Path:
        """Where its files lie, while it is known."""
        return self._folder_of(attempt_name(*key))

    def is_over(self, key: AttemptKey) -> bool:
        """Whether it will print nothing any more."""
        return key in self._memory.ended or key not in self.holdings

    async def read_output(self, key: AttemptKey, stream: str, offset: int, most: int) -> bytes:
        """What it has printed, from an offset on. Raises TimeoutError when its file system does not answer."""
        if key not in self.holdings:
            return self._outputs.read(attempt_name(*key), stream, offset, most)
        whose = self._executor.user_of(*key)
        if not whose:
            return self._executor.read_output(*key, stream, offset, most)
        reading = partial(self._executor.read_output, *key, stream, offset, most)
        return await self._blocking.run(whose, reading, PATH_PATIENCE_S)

    async def read_kept(self, key: AttemptKey, stream: str, offset: int, most: int) -> bytes:
        """As `read_output`, but only what is kept here: nothing of a stream whose file could be opened."""
        if key not in self.holdings:
            return self._outputs.read(attempt_name(*key), stream, offset, most)
        return self._executor.read_output(*key, stream, offset, most, only_kept=True)

    def _on_started(self, job_id: int, attempt: int, info: StartedInfo) -> None:
        self._memory.started[job_id, attempt] = info
        self._tell_started((job_id, attempt))
        self.gpu_use.begin()
        self.services.began((job_id, attempt))
        self._reports.started((job_id, attempt))

    def _on_ended(self, job_id: int, attempt: int, result: AttemptResult) -> None:
        key = (job_id, attempt)
        self._quota.cut(self.folder(key))
        reason = self._memory.reasons.pop(key, "")
        self.unkillable.ended(key)
        self.end_warnings.ended(key)
        self.gpu_moves.ended(key)
        part = self.holdings.part(key)
        order = self._executor.order(*key) if reason or part is None or result.exit_code else None
        is_ended = not result.succeeded or (order is not None and order.ends_by_term)
        if reason and result.started and is_ended and not result.term_reason:
            result = msgspec.structs.replace(result, term_reason=reason)
        if order is not None and _is_done_by_code(order, result):
            result = msgspec.structs.replace(result, counts_as_done=True)
        self._memory.ended[key] = result
        self.services.ended(key)
        self.logins.job_ended(key)
        self.holdings.on_change()
        self.endings.tell(key)
        if part is None and order is not None:  # it ended while no agent was here
            part = order.holding
            self._reports.expect(key, order)
            if order.is_part:
                self._memory.elsewhere.add(key)
        if part is not None and part.gpus:
            self.holdings.begin_return(key, part)
            task = asyncio.get_running_loop().create_task(self._give_back(key, part))
            self._returns.add(task)
            task.add_done_callback(self._returns.discard)
        elif self._diagnosis.is_wanted(result) and key not in self._memory.elsewhere:
            self._memory.unwritten.add(key)
            look = asyncio.get_running_loop().create_task(self._diagnose_and_tell(key))
            self._diagnosing.add(look)
            look.add_done_callback(self._diagnosing.discard)
        else:
            self._write_end(key)
        self._tell_ended(key)

    async def _diagnose_and_tell(self, key: AttemptKey) -> None:
        await self._diagnose(key)
        self._memory.unwritten.discard(key)
        self._write_end(key)
        self._tell_ended(key)

    async def _diagnose(self, key: AttemptKey) -> None:
        """Find out why it failed. Of a part the job's first host does."""
        result = self._memory.ended[key]
        if self._diagnosis.is_wanted(result) and key not in self._memory.elsewhere:
            self._memory.ended[key] = await self._diagnosis.of(key, result)

    def _write_end(self, key: AttemptKey) -> None:
        """What people get to read of the end: all that is known of it is in the result by now."""
        if self._reports.ended(key, self._memory.ended[key]):
            self._memory.unwritten.add(key)

    def _on_written(self, key: AttemptKey, result: AttemptResult) -> None:
        self._memory.unwritten.discard(key)
        if key in self._memory.ended:
            self._memory.ended[key] = result
            self._tell_ended(key)

    def _tell_started(self, key: AttemptKey) -> None:
        self._send(agent_pb2.AgentMessage(started=self._started_message(key)))

    async def _give_back(self, key: AttemptKey, part: HostAllocation) -> None:
        """The GPUs are not offered again before the master is told of the end."""
        result = self._memory.ended[key]
        usage = msgspec.structs.replace(result.usage, gpus=await self.gpu_use.end(key, part))
        self._memory.ended[key] = msgspec.structs.replace(result, usage=usage)
        await self._diagnose(key)
        self._write_end(key)
        if key in self._memory.failed or self._memory.ended[key].failed_by_itself:
            self._memory.blames[key] = await self._prolog_epilog.blame(key, part)
        await self._prolog_epilog.after(key, part)
        self.holdings.end_return(key)
        self._tell_ended(key)

    def _tell_ended(self, key: AttemptKey) -> None:
        """Only when there is nothing left to do for it: no report to write, no GPU to give back."""
        if key not in self._memory.ended or key in self.holdings.returning or key in self._memory.unwritten:
            return
        self._send(agent_pb2.AgentMessage(ended=self._ended_message(key)))

    def _started_message(self, key: AttemptKey) -> agent_pb2.Started:
        info = self._memory.started[key]
        return agent_pb2.Started(
            job_id=key[0],
            attempt=key[1],
            pid=info.pid,
            at=info.started_at,
            home=info.exec_home,
            cwd=info.exec_cwd,
            boot_id=info.boot_id,
        )

    def _ended_message(self, key: AttemptKey, most_curves: int = MOST_PACKED) -> agent_pb2.Ended:
        """`most_curves`: bytes that there is room for to tell of its GPUs over time."""
        is_part, store = key in self._memory.elsewhere, self._memory.stores.get(key)
        message = agent_pb2.Ended(job_id=key[0], attempt=key[1], is_part=is_part, store=store)
        if self._memory.ended[key].usage.gpus:
            message.gpu_curves = use_files.packed_curves(self.folder(key), min(most_curves, MOST_PACKED))
        result = self._memory.ended[key]
        told = listed([result.problem, self._memory.blames.get(key, "")], "list.semicolon")
        usage = msgspec.structs.replace(result.usage, steps=self.steps.packed(key, MOST_PACKED_STEPS))
        fill(message.result, msgspec.structs.replace(result, problem=told, usage=usage))
        return message


def _is_done_by_code(order: Order, result: AttemptResult) -> bool:
    """Whether it has ended by itself with one of SUCCESS_EXIT_VALUES."""
    is_own_end = result.started and not result.term_reason and not result.wants_requeue
    return is_own_end and result.exit_code in order.done_codes


@lru_cache(maxsize=4)
def _spec_of(message: bytes) -> JobSpec:
    """Elements of an array have the same, one after the other."""
    return from_proto(model_pb2.JobSpec.FromString(message), JobSpec)
