"""The agent's attempts: orders carried out once, results repeated until the master has them on disk.

The executor's folders are the journal; after a crash of the agent they say what runs, what ended and what never began.
"""

from __future__ import annotations

import asyncio
import grp
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path

import msgspec

from gsched.agent.affinity import affinity_lines, bound_to
from gsched.agent.custody import Custody
from gsched.agent.environment import attempt_line, host_lines, job_environment, output_path
from gsched.agent.fencing import Fencing
from gsched.agent.mail import send
from gsched.agent.outputs import KeptOutputs
from gsched.agent.peeking import Endings
from gsched.agent.settling import copies, settled
from gsched.base.clock import Clock
from gsched.base.errors import GschedError, Internal
from gsched.base.ids import attempt_name, parse_attempt_name, show_job
from gsched.base.patterns import expand_job_id
from gsched.model.allocation import Allocation, HostAllocation
from gsched.model.config import GpuUnrequested
from gsched.model.host_ledger import AttemptKey
from gsched.model.job import AttemptResult, JobSpec
from gsched.probe.topology import has_several_nodes
from gsched.run.executor import ProcessExecutor
from gsched.run.jobreport import Facts
from gsched.run.order import Fence, Limits, Mail, Order, StartedInfo, Step
from gsched.wire.auth import user_name
from gsched.wire.convert import fill, from_proto
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)

REPORT_PATIENCE_S = 10.0
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def _group_name(gid: int) -> str:
    """The number where there is no name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


MAIL_PATIENCE_S = 30.0
"""How long the end of a job waits for its mail to be handed over."""
MOST_LINE_BYTES = 100 * 1024
"""A command line that is longer goes into a file: the kernel takes no more than 128 KiB in one argument."""


def _too_long(command: str) -> bytes:
    """The command as a script where it does not fit into an argument, else nothing."""
    text = command.encode("utf8", "surrogateescape")
    return text + b"\n" if len(text) > MOST_LINE_BYTES else b""


def steps_around(spec: JobSpec, message: agent_pb2.StartAttempt) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """What runs before and after the job: copies, then what queue and profile say, then what the job says; after it
    the other way round."""
    first, last = copies(spec)
    first += [Step(command=each.command, what=each.what, is_site=True) for each in message.pre_exec]
    if spec.pre_exec:
        first.append(Step(command=spec.pre_exec, what="the job's pre-exec command"))
    if spec.post_exec:
        last.append(Step(command=spec.post_exec, what="the job's post-exec command"))
    last += [Step(command=each.command, what=each.what, is_site=True) for each in message.post_exec]
    return tuple(first), tuple(last)


class Attempts:
    """What this host has been ordered to run. `send` puts a message to the master into the stream (or drops it)."""

    def __init__(
        self,
        host: str,
        spool: Path,
        cluster: str,
        uid: int,
        clock: Clock,
        *,
        send: Callable[[agent_pb2.AgentMessage], None],
        locks_gpus: Callable[[], bool],
        places: Mapping[str, str],
        fencing: Fencing | None = None,
        custody: Custody | None = None,
    ) -> None:
        """`locks_gpus()` tells whether the host's GPUs are real ones, which other clusters may want too; `places` are
        the variables that tell jobs where the cluster lies.
        """
        self._places = places
        self._fencing = fencing
        self._custody = custody or Custody()
        self._unix_group = _group_name(os.getgid())
        self._host = host
        self._spool = spool
        self._user = user_name(uid)
        self._clock = clock
        self._send = send
        self._locks_gpus = locks_gpus
        self._parts: dict[AttemptKey, HostAllocation] = {}
        self._any_gpu: set[AttemptKey] = set()
        """Attempts that may use GPUs which they do not hold: GPU_UNREQUESTED says so."""
        self._started: dict[AttemptKey, StartedInfo] = {}
        self._ended: dict[AttemptKey, AttemptResult] = {}
        self._unreturned: dict[AttemptKey, HostAllocation] = {}
        """Of attempts that have ended: what is not given back yet."""
        self._reasons: dict[AttemptKey, str] = {}
        """LSF's keywords for attempts that are being ended."""
        self._facts: dict[AttemptKey, Facts] = {}
        self._mails: dict[AttemptKey, Mail] = {}
        self._reports: set[asyncio.Task[None]] = set()
        self._reporting: set[AttemptKey] = set()
        self._returns: set[asyncio.Task[None]] = set()
        self._mailing: set[asyncio.Task[None]] = set()
        self._outputs = KeptOutputs(spool / "outputs")
        self.endings = Endings()
        self.terminate_interval_s = 10.0
        self._executor = ProcessExecutor(
            spool, cluster, on_started=self._on_started, on_ended=self._on_ended, clock=clock
        )

    async def adopt(self) -> int:
        """Take up what an earlier agent left; returns how many attempts there are."""
        keys = await self._executor.adopt()
        for key in keys:
            order = self._executor.order(*key)
            if order is not None and order.holding is not None:
                self._parts[key] = order.holding
            if order is not None and order.any_gpu:
                self._any_gpu.add(key)
            if order is not None and order.report is not None and key not in self._ended:
                self._facts[key] = order.report
            if order is not None and order.mail is not None and key not in self._ended:
                self._mails[key] = order.mail
        if self._fencing is not None:
            for name in self._fencing.clear(attempt_name(*key) for key in keys):
                log.warning("processes of attempt %s, of which nothing is known, are still there", name)
        return len(keys)

    async def settle(self) -> None:
        """Wait for the reports that are being written: what a hello tells the master is over needs no more work.

        Not for GPUs to be given back: a hello says that these are still held.
        """
        if self._reports:
            await asyncio.wait(list(self._reports))

    def close(self) -> None:
        """Stop watching; jobs go on."""
        self._executor.close()
        if self._fencing is not None:
            self._fencing.leave()

    # -- what the master orders -----------------------------------------------------------------------------------

    async def start(self, message: agent_pb2.StartAttempt) -> None:
        """Start the attempt, unless it is known: then its news are told again."""
        key = (message.job_id, message.attempt)
        if key in self._ended:
            self._tell_ended(key)
            return
        if key in self._parts:
            if key in self._started:
                self._tell_started(key)
            return
        try:
            await self._start(key, message)
        except Exception as error:
            if not isinstance(error, GschedError):
                log.exception("attempt %s.%s cannot be started", *key)
            if key in self._executor.running():
                return  # the order is in the journal: it may run, now or after a restart
            problem = str(error) or type(error).__name__
            self._on_ended(*key, AttemptResult(started=False, ended_at=self._clock.now(), problem=problem))

    async def _start(self, key: AttemptKey, message: agent_pb2.StartAttempt) -> None:
        spec = from_proto(message.spec, JobSpec)
        allocation = from_proto(message.allocation, Allocation)
        part = next((part for part in allocation.hosts if part.host == self._host), None)
        if part is None:
            raise Internal(f"attempt {attempt_name(*key)} was sent to {self._host}, but is not for it")
        self._parts[key] = part
        await self._custody.before(key, part, spec)
        fence = None
        if self._fencing is not None:
            fence = await self._fencing.fence_of(attempt_name(*key), part, message.gpu_unrequested)
        order = self._order(message, spec, allocation, part, fence)
        if order.any_gpu:
            self._any_gpu.add(key)
        if order.report is not None:
            self._facts[key] = order.report
        if order.mail is not None:
            self._mails[key] = order.mail
        await self._executor.start(order)

    def _order(
        self,
        message: agent_pb2.StartAttempt,
        spec: JobSpec,
        allocation: Allocation,
        part: HostAllocation,
        fence: Fence | None,
    ) -> Order:
        job_id = message.job_id
        spec, folders = settled(spec, job_id, self._user, self._unix_group)
        first, last = steps_around(spec, message)
        script = message.script or _too_long(spec.command)
        environment = job_environment(
            message.environment,
            job_id,
            message.attempt,
            spec,
            allocation,
            self._host,
            cluster=message.cluster,
            effective_req=message.effective_req,
            gpu_unrequested=message.gpu_unrequested,
            user=self._user,
            hostfile=self._executor.hostfile(job_id, message.attempt),
            earlier_runs=message.earlier_runs,
            affinity_hostfile=self._executor.affinity_hostfile(job_id, message.attempt),
            script_file=self._executor.script_file(job_id, message.attempt) if message.script else "",
            places=self._places,
            unix_group=self._unix_group,
            fenced=fence is not None,
        )
        cpus, memory_nodes = bound_to(part)
        return Order(
            job_id=job_id,
            attempt=message.attempt,
            command=spec.command,
            script=script.decode("utf8", "surrogateescape") if script else None,
            environment=environment,
            cwd=spec.run_dir,
            home=environment.get("HOME", ""),
            umask=spec.umask,
            nice=message.nice,
            input_file=expand_job_id(spec.input_file, job_id),
            input=message.input.decode("utf8", "surrogateescape") if message.HasField("input") else None,
            folders=folders,
            first=first,
            last=last,
            job_starter=message.job_starter,
            login_shell=spec.login_shell,
            warning_signal=getattr(signal, f"SIG{spec.warning_signal}") if spec.warning_signal else 0,
            warning_s=spec.warning_s or 0,
            terminate_at=spec.terminate_at,
            output_file=output_path(spec.output_file, job_id, spec.run_dir, "out"),
            output_overwrite=spec.output_overwrite,
            error_file=output_path(spec.error_file, job_id, spec.run_dir, "err"),
            error_overwrite=spec.error_overwrite,
            run_limit_s=spec.run_limit_s,
            terminate_interval_s=self.terminate_interval_s,
            limits=spec.limits,
            hostfile=host_lines(allocation),
            cpus=cpus,
            memory_nodes=memory_nodes if memory_nodes and has_several_nodes() else (),
            affinity_hostfile=affinity_lines(allocation),
            attempt_line=attempt_line(job_id, message.attempt, self._host, self._clock.now(), message.earlier_runs),
            gpu_lock_uuids=tuple(gpu.uuid for gpu in part.gpus) if self._locks_gpus() else (),
            mail=self._mail(message, spec, allocation) if message.mail_to else None,
            report=self._report_facts(message, spec, allocation) if message.report and spec.output_file else None,
            holding=part,
            fence=fence,
            any_gpu=not part.gpus and message.gpu_unrequested == GpuUnrequested.ALLOW,
        )

    def _mail(self, message: agent_pb2.StartAttempt, spec: JobSpec, allocation: Allocation) -> Mail:
        return Mail(
            to=message.mail_to,
            sender=f"LSF System <{self._user}@{self._host}>",
            facts=self._report_facts(message, spec, allocation),
            program=message.mail_program,
            server=message.mail_server,
            begin=spec.notify_begin,
            end=spec.notify_end,
            error=spec.notify_error,
        )

    def _report_facts(self, message: agent_pb2.StartAttempt, spec: JobSpec, allocation: Allocation) -> Facts:
        job_id = message.job_id
        asked = [part.amounts["mem"] for part in allocation.hosts if "mem" in part.amounts]
        return Facts(
            job=show_job(job_id),
            name=spec.shown_name(job_id),
            command=spec.command,
            sender=f"{self._user}@{self._host}",
            cluster=message.cluster,
            submit_host=spec.submit_host,
            user=spec.user,
            hosts=tuple((part.host, part.slots) for part in allocation.hosts),
            queue=spec.queue,
            submitted_at=message.submitted_at,
            dispatched_at=message.dispatched_at,
            requested_mem_mib=sum(asked) if asked else None,
            output_file=output_path(spec.output_file, job_id, spec.run_dir, "out"),
            error_file=output_path(spec.error_file, job_id, spec.run_dir, "err"),
        )

    def owners(self, pids: Iterable[int]) -> Mapping[int, str]:
        """Process id -> the attempt (`17.1`) that it belongs to, of those that belong to one."""
        return self._executor.owners(pids)

    def given_gmem(self) -> Mapping[tuple[str, str], float]:
        """(attempt, UUID) -> the gmem= in MiB that it has of that GPU, of those that have one."""
        return {
            (attempt_name(*key), gpu.uuid): gpu.gmem_mib
            for key, part in self._parts.items()
            for gpu in part.gpus
            if gpu.gmem_mib
        }

    def held_gpus(self, name: str) -> frozenset[str] | None:
        """UUIDs of the GPUs that the attempt holds; None for one that may use any, or is not here."""
        key = parse_attempt_name(name)
        part = self._parts.get(key)
        return None if part is None or key in self._any_gpu else frozenset(gpu.uuid for gpu in part.gpus)

    async def terminate(self, key: AttemptKey, reason: str = "") -> None:
        """End it; an attempt that is not here is over. `reason`: LSF's keyword for why."""
        self._explain(key, reason)
        await self._executor.terminate(*key, self.terminate_interval_s)

    def _explain(self, key: AttemptKey, reason: str) -> None:
        """What to say of the attempt if it ends other than well. What was asked for first has ended it."""
        if reason and key in self._parts and key not in self._ended:
            self._reasons.setdefault(key, reason)

    async def signal(self, key: AttemptKey, number: int, reason: str = "") -> None:
        """Send one signal to all its processes. `reason`: LSF's keyword for an attempt that ends by it."""
        if number in _ENDING:
            self._explain(key, reason)
        await self._executor.signal(*key, number)

    async def suspend(self, key: AttemptKey) -> None:
        """Stop its processes."""
        await self._executor.suspend(*key)

    async def resume(self, key: AttemptKey) -> None:
        """Let them go on."""
        await self._executor.resume(*key)

    async def limit(self, key: AttemptKey, message: agent_pb2.LimitAttempt) -> None:
        """Other limits than at its start; an attempt that is not here is over."""
        run_limit_s = message.run_limit_s if message.HasField("run_limit_s") else None
        await self._executor.limit(*key, Limits(run_limit_s=run_limit_s, limits=dict(message.limits)))

    def forget(self, key: AttemptKey) -> None:
        """The master has the result on disk: the journal may go, what the job printed stays for a while."""
        if self._ended.pop(key, None) is None:
            return
        self._parts.pop(key, None)
        self._started.pop(key, None)
        self._any_gpu.discard(key)
        name = attempt_name(*key)
        self._outputs.keep(name, self._spool / "attempts" / name, self._clock.now())
        self._executor.forget(*key)

    # -- what the master is told ----------------------------------------------------------------------------------

    def fill_hello(self, hello: agent_pb2.Hello) -> None:
        """Everything that is known, for a new session."""
        starting = (key for key in self._parts if key not in self._ended)  # some may not be in the journal yet
        for key in dict.fromkeys([*self._executor.running(), *starting]):
            held = hello.held.add(job_id=key[0], attempt=key[1])
            fill(held.part, self._parts.get(key) or HostAllocation(host=self._host, slots=1))
        for key, part in self._unreturned.items():
            fill(hello.held.add(job_id=key[0], attempt=key[1]).part, part)
        for key in self._started:
            hello.started.append(self._started_message(key))
        for key in self._ended:
            if key not in self._unreturned:
                hello.ended.append(self._ended_message(key))

    def usage_report(self) -> agent_pb2.UsageReport | None:
        """A sample of every running attempt; None when nothing runs."""
        report = agent_pb2.UsageReport()
        for key in self._started:
            usage = self._executor.usage(*key) if key not in self._ended else None
            if usage is not None:
                fill(report.attempts.add(job_id=key[0], attempt=key[1]).usage, usage)
        return report if report.attempts else None

    def is_over(self, key: AttemptKey) -> bool:
        """Whether it will print nothing any more."""
        return key in self._ended or key not in self._parts

    def read_output(self, key: AttemptKey, stream: str, offset: int, most: int) -> bytes:
        """What it has printed, from an offset on."""
        if key in self._parts:
            return self._executor.read_output(*key, stream, offset, most)
        return self._outputs.read(attempt_name(*key), stream, offset, most)

    def _on_started(self, job_id: int, attempt: int, info: StartedInfo) -> None:
        self._started[job_id, attempt] = info
        self._tell_started((job_id, attempt))
        mail = self._mails.get((job_id, attempt))
        if mail is not None and mail.begin:
            self._beside(self._mail_start((job_id, attempt), mail), self._mailing)

    def _on_ended(self, job_id: int, attempt: int, result: AttemptResult) -> None:
        key = (job_id, attempt)
        reason = self._reasons.pop(key, "")
        if reason and result.started and not result.succeeded and not result.term_reason:
            result = msgspec.structs.replace(result, term_reason=reason)
        self._ended[key] = result
        self.endings.tell(key)
        part = self._parts.get(key)
        facts, mail = self._facts.pop(key, None), self._mails.pop(key, None)
        if part is None:  # it ended while no agent was here
            order = self._executor.order(*key)
            if order is not None:
                part, facts, mail = order.holding, order.report, order.mail
        if part is not None and part.gpus:
            self._unreturned[key] = part
            self._beside(self._give_back(key, part), self._returns)
        if mail is not None and not result.pre_failed and (mail.end or (mail.error and not result.succeeded)):
            self._reporting.add(key)
            self._beside(self._mail_end(key, mail, result), self._reports)
            return
        if facts is None or result.pre_failed or self._executor.started(*key) is None:
            self._tell_ended(key)
            return
        self._reporting.add(key)
        self._beside(self._report(key, facts, result), self._reports)

    def _beside(self, work: Coroutine[object, object, None], among: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        among.add(task)
        task.add_done_callback(among.discard)

    async def _mail_start(self, key: AttemptKey, mail: Mail) -> None:
        """-B, once for each attempt."""
        subject = f"Job {mail.facts.job}: <{mail.facts.name}> started."
        hosts = " ".join(f"<{host}>" for host, _ in mail.facts.hosts)
        text = f"Job <{mail.facts.name}> of user <{mail.facts.user}> has started on host(s) {hosts}.\n"
        await self._mailed(key, mail, "mailed.start", subject, lambda: text)

    async def _mail_end(self, key: AttemptKey, mail: Mail, result: AttemptResult) -> None:
        """-N: the report, then the master is told, and whether there was no mail."""
        how = "Done" if result.succeeded else "Exited"
        subject = f"Job {mail.facts.job}: <{mail.facts.name}> in cluster <{mail.facts.cluster}> {how}"
        problem = await self._mailed(
            key, mail, "mailed.end", subject, lambda: self._executor.report_text(*key, mail.facts, result)
        )
        if problem and key in self._ended:
            told = "; ".join(text for text in (result.problem, problem) if text)
            self._ended[key] = msgspec.structs.replace(result, problem=told)
        self._reporting.discard(key)
        self._tell_ended(key)

    async def _mailed(self, key: AttemptKey, mail: Mail, mark: str, subject: str, text: Callable[[], str]) -> str:
        """Send it unless an earlier agent has begun to. A mail that cannot be sent holds nothing up for long: what is
        wrong is the answer.
        """

        def work() -> None:
            if self._executor.is_first(*key, mark):
                send(mail, subject, text())

        try:
            await asyncio.wait_for(asyncio.to_thread(work), MAIL_PATIENCE_S)
        except (OSError, TimeoutError) as error:
            problem = f"no mail to {mail.to}: {error or 'it takes too long'}"
            log.warning("%s: %s", attempt_name(*key), problem)
            return problem
        return ""

    async def _report(self, key: AttemptKey, facts: Facts, result: AttemptResult) -> None:
        """Put the report below the output, then tell the master: whoever hears that a job is done can read it.

        A file system that hangs holds neither up for long.
        """
        writing = asyncio.to_thread(self._executor.report, *key, facts, result)
        try:
            await asyncio.wait_for(writing, REPORT_PATIENCE_S)
        except (OSError, TimeoutError) as error:
            log.warning("no report below the output of %s: %s", attempt_name(*key), error or "its file system hangs")
        self._reporting.discard(key)
        self._tell_ended(key)

    def _tell_started(self, key: AttemptKey) -> None:
        self._send(agent_pb2.AgentMessage(started=self._started_message(key)))

    async def _give_back(self, key: AttemptKey, part: HostAllocation) -> None:
        """The GPUs are not offered again before the master is told of the end."""
        await self._custody.after(key, part)
        del self._unreturned[key]
        self._tell_ended(key)

    def _tell_ended(self, key: AttemptKey) -> None:
        """Only when there is nothing left to do for it: no report to write, no GPU to give back."""
        if key not in self._ended or key in self._unreturned or key in self._reporting:
            return
        self._send(agent_pb2.AgentMessage(ended=self._ended_message(key)))

    def _started_message(self, key: AttemptKey) -> agent_pb2.Started:
        info = self._started[key]
        return agent_pb2.Started(
            job_id=key[0],
            attempt=key[1],
            pid=info.pid,
            at=info.started_at,
            home=info.exec_home,
            cwd=info.exec_cwd,
            boot_id=info.boot_id,
        )

    def _ended_message(self, key: AttemptKey) -> agent_pb2.Ended:
        message = agent_pb2.Ended(job_id=key[0], attempt=key[1])
        fill(message.result, self._ended[key])
        return message
