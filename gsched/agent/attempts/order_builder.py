"""From the master's word that an attempt is to start to the order that this host's executor carries out.

Everything that depends on the host is filled in here: the environment, folders, files, CPUs. Nothing is started, and
nothing is decided that the master has decided.
"""

from __future__ import annotations

import grp
import os
import secrets
import signal
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from gsched.agent.attempts.cpu_binding import affinity_lines, bound_to
from gsched.agent.attempts.job_accounts import Login
from gsched.agent.attempts.job_container import ContainerHost, runtime_for, with_container
from gsched.agent.attempts.job_environment import (
    EnvironmentFacts,
    attempt_line,
    host_lines,
    job_environment,
    login_variables,
    output_path,
)
from gsched.agent.attempts.path_expansion import copies, settled, with_tmpdir
from gsched.agent.attempts.pbs_environment import PbsFacts, gpu_lines, in_folders, node_lines, pbs_variables
from gsched.agent.services.service_ports import service_variables
from gsched.agent.tasks.launch_environment import commands_folder, launch_variables, launcher, with_launcher
from gsched.agent.tasks.network_variables import network_variables
from gsched.base.clock import Clock
from gsched.base.coded_text import coded
from gsched.base.ids import show_job
from gsched.base.patterns import expand_job_id
from gsched.dialect.slurm.job_variables import SlurmFacts, slurm_variables
from gsched.model.config import GpuUnrequested
from gsched.model.efficiency.job_use import asked_of
from gsched.model.hosts.job_tmpdir import NO_TMPDIR, JobTmpdir
from gsched.model.jobs.job import EXIT_SAVED, PBS, SLURM, JobSpec
from gsched.model.jobs.job_signal import MAIN, STEPS
from gsched.model.jobs.requeue_exits import requeue_values, success_codes
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.container import PODMAN
from gsched.model.queues.job_controls import JobControls
from gsched.probe.topology import has_several_nodes
from gsched.run import attempt_files
from gsched.run.executor import ProcessExecutor
from gsched.run.order import Fence, JobStep, Mail, Order
from gsched.run.report.job_report import ReportFacts, room_for
from gsched.run.supervisor.run_limits import KILL_WAIT_S
from gsched.run.supervisor.steps import SITE_FOLDER
from gsched.wire.messages.convert import from_proto
from gsched.wire.v1 import agent_pb2

MOST_LINE_BYTES = 100 * 1024
"""A command line that is longer goes into a file: the kernel takes no more than 128 KiB in one argument."""
_MARK_BYTES = 8
"""Of the random word in the name of a temporary directory."""


def _too_long(command: str) -> bytes:
    """The command as a script where it does not fit into an argument, else nothing."""
    text = command.encode("utf8", "surrogateescape")
    return text + b"\n" if len(text) > MOST_LINE_BYTES else b""


def steps_around(spec: JobSpec, message: agent_pb2.StartAttempt) -> tuple[tuple[JobStep, ...], tuple[JobStep, ...]]:
    """What runs before and after the job: copies, then what queue and profile say, then what the job says; after it
    the other way round."""
    first, last = copies(spec)
    before, after = host_steps(message)
    first[:0] = before
    for each in message.pre_exec:
        first.append(JobStep(command=each.command, what=each.what, level=each.level, is_site=True))
    if spec.pre_exec:
        first.append(JobStep(command=spec.pre_exec, level="job"))
    if spec.post_exec:
        last.append(JobStep(command=spec.post_exec, what=coded("step.post_exec", "job")))
    for each in message.post_exec:
        what = coded("step.post_exec", each.level) if each.level else each.what  # a master of before says no level
        last.append(JobStep(command=each.command, what=what, is_site=True))
    return tuple(first), (*last, *after)


def host_steps(message: agent_pb2.StartAttempt) -> tuple[tuple[JobStep, ...], tuple[JobStep, ...]]:
    """What runs before and after the job on each of its hosts."""

    def of(steps: Iterable[agent_pb2.SiteStep], code: str) -> tuple[JobStep, ...]:
        return tuple(JobStep(command=each.command, what=coded(code, each.level), is_site=True) for each in steps)

    return of(message.host_pre_exec, "step.host_pre_exec"), of(message.host_post_exec, "step.host_post_exec")


def done_codes(spec: JobSpec, success_exit_values: str) -> tuple[int, ...]:
    """Exit codes with which the job is DONE: those of SUCCESS_EXIT_VALUES with which it does not wait again."""
    requeued = requeue_values(spec.requeue_exit_values)
    again = requeued.codes | requeued.elsewhere | ({EXIT_SAVED} if spec.saves_itself else frozenset())
    return tuple(sorted(success_codes(success_exit_values) - again))


def _warning_target(spec: JobSpec) -> str:
    """Whom -wa and --signal warn. A job of srun has but tasks."""
    if spec.front_end != SLURM:
        return MAIN if spec.warns_main else ""
    if spec.interactive and spec.script_words:
        return ""
    return MAIN if spec.warns_main else STEPS


def _group_name(gid: int) -> str:
    """The number where there is no name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _tell(environment: dict[str, str], variables: Mapping[str, str | None]) -> None:
    """Put the variables into the environment; None: there is to be none of that name."""
    for name, value in variables.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value


Variables = Callable[[JobSpec, HostAllocation], Mapping[str, str | None]]
"""What a job has in its environment beside all else; None: it is to have nothing of that name."""


def no_variables(spec: JobSpec, part: HostAllocation) -> Mapping[str, str | None]:
    """There is nothing to be added."""
    del spec, part
    return {}


def _as_part(order: Order, message: agent_pb2.StartAttempt) -> Order:
    """The order of a host that is not the job's first: what is done once for the whole job is not done here."""
    first, last = host_steps(message)
    return msgspec.structs.replace(
        order,
        is_part=True,
        controls=order.controls.of_part,
        script=None,
        input=None,
        folders=(),
        first=first,
        last=last,
        interactive="",
        warning_signal=0,
        run_limit_s=None,
        terminate_at=None,
        mail=None,
        report=None,
        report_room=0,
    )


def _as_specified(order: Order, spec: JobSpec, host: str, terminate_interval_s: float) -> Order:
    """The order with what the specification alone says: its files, its limits, and how the job is warned and ended.
    `host`: the job's first.
    """
    job_id, attempt = order.job_id, spec.attempt_in_names(order.attempt)
    return msgspec.structs.replace(
        order,
        script_words=spec.script_words,
        cwd=spec.run_dir,
        umask=spec.umask,
        input_file=expand_job_id(spec.input_file, job_id, host=host, attempt=attempt),
        interactive=("pipe" if spec.interactive == "I" else "pty") if spec.interactive else "",
        login_shell=spec.login_shell,
        output_file=output_path(spec.output_file, job_id, spec.run_dir, "out", host=host, attempt=attempt),
        output_overwrite=spec.output_overwrite,
        error_file=output_path(spec.error_file, job_id, spec.run_dir, "err", host=host, attempt=attempt),
        error_overwrite=spec.error_overwrite,
        output_required=spec.front_end == SLURM,
        warning_signal=getattr(signal, f"SIG{spec.warning_signal}") if spec.warning_signal else 0,
        warning_s=spec.warning_s or 0,
        warning_target=_warning_target(spec),
        ends_by_term=bool(spec.front_end),
        terminate_at=spec.terminate_at,
        run_limit_s=spec.run_limit_s,
        terminate_interval_s=KILL_WAIT_S if spec.front_end else terminate_interval_s,
        limits=spec.limits,
    )


def _as_configured(order: Order, spec: JobSpec, message: agent_pb2.StartAttempt) -> Order:
    """The order with what the job's queue and profile say of how it runs and ends."""
    return msgspec.structs.replace(
        order,
        nice=message.nice,
        job_starter=message.job_starter,
        controls=from_proto(message.controls, JobControls),
        first_timeout_s=message.pre_timeout_s,
        last_timeout_s=message.post_timeout_s,
        done_codes=done_codes(spec, message.success_exit_values),
    )


def _is_direct(environment: Mapping[str, str], message: agent_pb2.StartAttempt) -> bool:
    """LSB_STDOUT_DIRECT, the job's own or else the cluster's: the report stands below the output."""
    own = environment.get("LSB_STDOUT_DIRECT", "").strip().upper()
    return own == "Y" if own in ("Y", "N") else message.report_below


def _files_for(spec: JobSpec, allocation: Allocation) -> dict[str, str]:
    """Files that jobs of its front end find, and those that save their state."""
    found = {attempt_files.DEADLINE: ""} if spec.saves_itself else {}
    if spec.front_end != PBS:
        return found
    gpus = gpu_lines(allocation)
    found[attempt_files.NODEFILE] = node_lines(spec, allocation)
    return {**found, **({attempt_files.GPUFILE: gpus} if gpus else {})}


def _with_mount(spec: JobSpec, path: str) -> JobSpec:
    """The spec whose container sees this folder of the host; an empty one: there is none."""
    return msgspec.structs.replace(spec, container_mounts=(*spec.container_mounts, path)) if path else spec


def _has_file(spec: JobSpec) -> bool:
    """Whether there is a file that a report can be read in."""
    return spec.output_file not in ("", os.devnull) and not spec.front_end


def _with_report_room(order: Order) -> Order:
    """The order with room for a report above the output, where there is to be one."""
    if order.report is None or (order.mail is not None and order.mail.end):
        return order
    room = room_for(order.report, home=order.home, cwd=order.cwd, script=order.script)
    return msgspec.structs.replace(order, report_room=room)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of one attempt here: what the master says of it, and as whom it runs on this host."""

    message: agent_pb2.StartAttempt
    spec: JobSpec
    """As `message` has it; the order has paths of this host in it."""
    allocation: Allocation
    part: HostAllocation
    """This host's part of the allocation."""
    login: Login


@dataclass(frozen=True, slots=True)
class HostContext:
    """What is so for all jobs of a host."""

    locks_gpus: Callable[[], bool]
    """Tells whether its GPUs are real ones, which other clusters may want too."""
    places: Mapping[str, str]
    """The variables that tell jobs where the cluster lies."""
    variables: Variables = no_variables
    cuda_numbers: Callable[[], Mapping[str, int]] = dict
    """UUID -> CUDA's number of each GPU of the host; empty while that cannot be told."""
    socket: str = ""
    """Path of the one that jobs ask for tasks at; empty where there is none."""
    interface: tuple[str, ...] = ()
    """INTERFACE of lsb.hosts."""
    container_runtimes: Callable[[], Mapping[str, str]] = dict
    """Name -> path of the programs that run containers."""
    gpu_minors: Callable[[], Mapping[str, int]] = dict
    """UUID -> number of the device of each real GPU of the host."""
    tmpdir: JobTmpdir = NO_TMPDIR
    """The temporary directory of each job."""


class OrderBuilder:
    """Makes the orders that supervisors of one host carry out. `user`: whose agent it is, for jobs that need no account
    of their own.
    """

    def __init__(
        self,
        host: str,
        user: str,
        executor: ProcessExecutor,
        clock: Clock,
        host_context: HostContext,
    ) -> None:
        self._host = host
        self._user = user
        self._executor = executor
        self._clock = clock
        self._host_context = host_context
        self._unix_group = _group_name(os.getgid())

    def of(
        self, start: Start, fence: Fence | None, terminate_interval_s: float, taken_ports: Collection[int] = ()
    ) -> Order:
        """The order of this host's part of the attempt; `taken_ports`: of services here. Raises GschedError."""
        message, allocation, part, login = start.message, start.allocation, start.part, start.login
        job_id = message.job_id
        spec, folders = settled(start.spec, job_id, self._user_of(login), self._group_of(login))
        if spec.front_end == PBS:
            spec = in_folders(spec, {path: os.path.isdir(path) for path in (spec.output_file, spec.error_file)})
        if spec is not start.spec:
            start = replace(start, spec=spec)
        first, last = steps_around(spec, message)
        command = with_launcher(spec.command)
        script = message.script or _too_long(command)
        container_host = self._container_host() if spec.container else None
        has_own_devices = container_host is not None and self._sees_own_gpus(spec, container_host)
        environment = self._environment(start, message.environment, fenced=fence is not None or has_own_devices)
        is_first = self._host == allocation.first_host
        _tell(environment, service_variables(spec.service if is_first else "", taken_ports))
        cpus, memory_nodes = bound_to(part)
        locked = part.gpus if self._host_context.locks_gpus() else ()
        order = Order(
            job_id=job_id,
            attempt=message.attempt,
            cluster_id=message.store.cluster_id,
            generation=message.store.generation,
            command=command,
            script=script.decode("utf8", "surrogateescape") if script else None,
            environment=environment,
            home=environment.get("HOME", ""),
            input=message.input.decode("utf8", "surrogateescape") if message.HasField("input") else None,
            folders=folders,
            first=first,
            last=last,
            hostfile=host_lines(allocation),
            host_gpus={each.host: len(each.gpus) for each in allocation.hosts if each.gpus},
            cpus=cpus,
            memory_nodes=memory_nodes if memory_nodes and has_several_nodes() else (),
            affinity_hostfile=affinity_lines(allocation),
            job_files=_files_for(spec, allocation),
            attempt_line=self._attempt_line(message, spec),
            gpu_lock_uuids=tuple(dict.fromkeys(gpu.board for gpu in locked)),
            mail=self._mail(start) if message.mail_to else None,
            report=self._report_facts(start) if message.report and _has_file(spec) else None,
            holding=part,
            account=login.account,
            granted=login.granted,
            site_account=login.site,
            site_environment=self._site_environment(start, fenced=fence is not None),
            fence=fence,
            any_gpu=not part.gpus and message.gpu_unrequested == GpuUnrequested.ALLOW,
        )
        order = _as_configured(order, spec, message)
        order = _as_specified(order, spec, allocation.first_host, terminate_interval_s)
        if not _is_direct(environment, message):
            order = _with_report_room(order)
        order = order if is_first else _as_part(order, message)
        path = self._tmpdir_of(order, allocation.first_host)
        order = with_tmpdir(order, path, self._host_context.tmpdir.variable, self._host)
        return self._in_container(order, _with_mount(spec, path), container_host, locked)

    def _tmpdir_of(self, order: Order, first_host: str) -> str:
        mark = secrets.token_hex(_MARK_BYTES)
        return self._host_context.tmpdir.path(order.job_id, order.attempt, first_host, mark)

    def _in_container(
        self, order: Order, spec: JobSpec, container_host: ContainerHost | None, gpus: tuple[HeldGpu, ...]
    ) -> Order:
        """The order with its command inside the job's container, if it has one, with those GPUs. Raises
        ResourceExhausted.
        """
        if container_host is None:
            return order
        folder = os.path.dirname(self._executor.hostfile(order.job_id, order.attempt))
        return with_container(order, spec, container_host, gpus, folder)

    def _container_host(self) -> ContainerHost:
        return ContainerHost(self._host, self._host_context.container_runtimes(), self._host_context.gpu_minors())

    def _sees_own_gpus(self, spec: JobSpec, host: ContainerHost) -> bool:
        """Whether nothing but the job's own GPUs is there in its container, also where nothing fences it."""
        return runtime_for(spec, host.runtimes) == PODMAN and self._host_context.locks_gpus()

    def _user_of(self, login: Login) -> str:
        return login.account.name if login.account is not None else self._user

    def _group_of(self, login: Login) -> str:
        return login.account.group if login.account is not None else self._unix_group

    def _site_environment(self, start: Start, *, fenced: bool) -> dict[str, str]:
        """Of the site's steps where these run as a user of their own: nothing of what was submitted is in it."""
        site = start.login.site
        message = start.message
        runs_any = message.pre_exec or message.post_exec or message.host_pre_exec or message.host_post_exec
        if site is None or not runs_any:
            return {}
        environment = self._environment(start, b"", fenced=fenced)
        return {**environment, **login_variables(site), "PWD": SITE_FOLDER}

    def _environment(self, start: Start, block: bytes, *, fenced: bool) -> dict[str, str]:
        """`block`: what was submitted."""
        environment = self._own_environment(start, block, fenced=fenced)
        environment["GSCHED_BINDIR"] = commands_folder()
        if start.spec.front_end == SLURM:
            environment |= slurm_variables(self._slurm_facts(start, environment))
            environment["GSCHED_GLAUNCH"] = launcher()
        elif start.spec.front_end == PBS:
            environment |= pbs_variables(self._pbs_facts(start, environment))
        if start.spec.saves_itself:
            key = (start.message.job_id, start.message.attempt)
            environment["GSCHED_DEADLINE"] = self._executor.job_file(*key, attempt_files.DEADLINE)
        hostfile = environment.get("LSB_DJOB_HOSTFILE", "")
        socket = self._host_context.socket
        launching = launch_variables(environment, socket, hostfile, start.allocation.slots)
        _tell(environment, network_variables(environment, self._host_context.interface))
        _tell(environment, {**self._host_context.variables(start.spec, start.part), **launching})
        return environment

    def _own_environment(self, start: Start, block: bytes, *, fenced: bool) -> dict[str, str]:
        message, account = start.message, start.login.account
        job_id, attempt = message.job_id, message.attempt
        return job_environment(
            block,
            EnvironmentFacts(
                job_id=job_id,
                attempt=attempt,
                spec=start.spec,
                allocation=start.allocation,
                host=self._host,
                cluster=message.cluster,
                effective_req=message.effective_req,
                gpu_unrequested=message.gpu_unrequested,
                user=self._user_of(start.login),
                login=login_variables(account) if account is not None else {},
                hostfile=self._executor.hostfile(job_id, attempt),
                earlier_runs=message.earlier_runs,
                affinity_hostfile=self._executor.affinity_hostfile(job_id, attempt),
                script_file=self._executor.script_file(job_id, attempt) if message.script else "",
                places=self._host_context.places,
                unix_group=self._group_of(start.login),
                fenced=fenced,
                site=message.env_vars,
                cuda_numbers=self._host_context.cuda_numbers(),
            ),
        )

    def _slurm_facts(self, start: Start, environment: Mapping[str, str]) -> SlurmFacts:
        message, account = start.message, start.login.account
        return SlurmFacts(
            job_id=message.job_id,
            spec=start.spec,
            allocation=start.allocation,
            part=start.part,
            cluster=message.cluster,
            user=self._user_of(start.login),
            uid=account.uid if account is not None else os.getuid(),
            restarts=message.earlier_runs,
            now=self._clock.now(),
            submitted=environment,
        )

    def _pbs_facts(self, start: Start, environment: Mapping[str, str]) -> PbsFacts:
        job_id, attempt = start.message.job_id, start.message.attempt
        return PbsFacts(
            job_id=job_id,
            spec=start.spec,
            allocation=start.allocation,
            part=start.part,
            cluster=start.message.cluster,
            nodefile=self._executor.job_file(job_id, attempt, attempt_files.NODEFILE),
            gpufile=self._executor.job_file(job_id, attempt, attempt_files.GPUFILE),
            submitted=environment,
        )

    def _attempt_line(self, message: agent_pb2.StartAttempt, spec: JobSpec) -> str:
        """What tells attempts apart in a file of output: of Slurm's and PBS's jobs nothing, whose files are the job's
        alone and begin anew.
        """
        if spec.front_end:
            return ""
        return attempt_line(message.job_id, message.attempt, self._host, self._clock.now(), message.earlier_runs)

    def _mail(self, start: Start) -> Mail:
        message, spec = start.message, start.spec
        return Mail(
            to=message.mail_to,
            sender=f"LSF System <{self._user}@{self._host}>",
            facts=self._report_facts(start),
            program=message.mail_program,
            server=message.mail_server,
            begin=spec.notify_begin,
            end=spec.notify_end,
            error=spec.notify_error,
        )

    def _report_facts(self, start: Start) -> ReportFacts:
        message, spec, allocation = start.message, start.spec, start.allocation
        job_id, host = message.job_id, allocation.first_host
        attempt = spec.attempt_in_names(message.attempt)
        is_judged = message.HasField("efficiency_min_run_s")
        asked = [part.amounts["mem"] for part in allocation.hosts if "mem" in part.amounts]
        return ReportFacts(
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
            output_file=output_path(spec.output_file, job_id, spec.run_dir, "out", host=host, attempt=attempt),
            error_file=output_path(spec.error_file, job_id, spec.run_dir, "err", host=host, attempt=attempt),
            gpus=sum(len(part.gpus) for part in allocation.hosts),
            # What it uses on its other hosts is not known here.
            asked=asked_of(spec, allocation) if is_judged and len(allocation.hosts) == 1 else None,
            preemption_ends=message.ends_when_preempted,
            min_run_s=message.efficiency_min_run_s,
        )
