"""The agent process: one session with the master after another, for as long as it lives. Jobs do not depend on it.

At its start it takes up what the agent before it left, also one that was killed (Agent.serve).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

from gsched import __version__
from gsched.agent import trusted_files
from gsched.agent.agent_spool import SpoolFolder, mark_of, only_one
from gsched.agent.attempts.attempt_fences import AttemptFences, standing_note
from gsched.agent.attempts.dcgm_job_mapping import JobMapping
from gsched.agent.attempts.host_attempts import Attempts
from gsched.agent.attempts.job_accounts import HostAccounts
from gsched.agent.attempts.job_container import device_minors
from gsched.agent.attempts.order_builder import HostContext
from gsched.agent.attempts.pam_limits import PamLimits, session_words
from gsched.agent.background_tasks import BackgroundTasks
from gsched.agent.gpu.gpu_guard import GpuGuard
from gsched.agent.gpu.gpu_moves import MoveTools
from gsched.agent.gpu.mps_for_jobs import Mps
from gsched.agent.host_report import HostReporter
from gsched.agent.logins.login_server import LoginServer
from gsched.agent.master_link import MasterLink
from gsched.agent.message_handler import MessageHandler
from gsched.agent.notices.notice_delivery import NoticeDelivery
from gsched.agent.notices.sender_groups import NoticeGroups
from gsched.agent.outbox import Outbox
from gsched.agent.session import MasterSessions
from gsched.agent.store_memory import StoreMemory
from gsched.agent.tasks.launch_server import LaunchServer
from gsched.agent.tasks.launch_socket import listen, socket_path
from gsched.agent.tasks.step_desk import StepDesk
from gsched.agent.tasks.task_questions import TaskQuestions
from gsched.base.clock import SystemClock
from gsched.base.coded_text import AnyText
from gsched.base.errors import Conflict
from gsched.base.ids import attempt_name
from gsched.base.machine.endless_work import for_ever
from gsched.base.machine.gpu_lock import places
from gsched.base.machine.root_owned import who_may_change
from gsched.base.machine.service import NOBODY, TOLD_TO_RESTART, TOLD_TO_STOP, ServiceManager, keep_fed
from gsched.config.configuration import load
from gsched.model.config import ClusterConfig, GpuFence
from gsched.model.hosts.fleet import RESTART
from gsched.model.ledgers.cuda_order import cuda_numbers
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.probe.container_runtimes import container_runtimes
from gsched.run import pam_session
from gsched.run.attempts import shutdown
from gsched.run.fence.cgroup_root import CgroupRoot, find_cgroup_root
from gsched.run.processes.process_tree import boot_id
from gsched.wire.identity.certificates import files_of
from gsched.wire.identity.identity_assertion import check_certificate
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)
STEPS_S = 0.2
"""Steps that begin or end within that time of each other are told of together."""


def run(conf_dir: str, host: str, manager: ServiceManager = NOBODY) -> int:
    """Serve until SIGTERM or SIGINT, telling `manager` how it stands. Raises GschedError when it cannot start."""
    loaded = load(conf_dir, host)
    config = loaded.required()
    if host not in config.hosts:
        raise Conflict(f"host {host} is not in the Host section of lsf.cluster.{config.cluster}")
    is_roots = config.is_shared and os.geteuid() == 0
    if config.is_shared:
        check_certificate(config, host)  # what is wrong with it is said at once
    if is_roots:
        trusted_files.check(conf_dir, (*loaded.included, *files_of(config.network.tls_dir, host)))
    spool = Path(config.locations.spool_dir) / host
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_roots:
        trusted_files.check_spool(str(spool))
    with only_one(spool, host):
        is_wanted = config.gpu_fence is not GpuFence.OFF
        cgroup_root = find_cgroup_root(_key(config, spool), spool) if is_wanted else "it is turned off"
        return asyncio.run(Agent(config, host, spool, cgroup_root, manager).serve())


def _accounts(config: ClusterConfig, host: str) -> HostAccounts:
    """Whom jobs are started as here."""
    words: tuple[str, ...] = ()
    if os.geteuid() == 0 and config.pam_limits is not False:
        words = session_words()
        if not words:
            told = log.warning if config.pam_limits else log.info
            told("PAM has no service %s on this host: jobs begin with the agent's own limits", pam_session.SERVICE)
    return HostAccounts(
        host,
        root_may_run=config.params.root_may_submit,
        site_user=config.pre_post_exec_user,
        pam=PamLimits(words) if words else None,
        tls_dir=config.network.tls_dir if config.is_shared else "",
        services=(config.folder_of("master"), config.folder_of("door"), config.locations.state_dir),
        system_users=config.system_users,
    )


def _key(config: ClusterConfig, spool: Path) -> str:
    """Tells this cluster's host from all others on the machine."""
    return f"{config.cluster}:{spool}"


class Agent:
    """The pieces of one agent and how they are wired."""

    def __init__(
        self, config: ClusterConfig, host: str, spool: Path, cgroup_root: CgroupRoot | AnyText, manager: ServiceManager
    ) -> None:
        self._config = config
        self._cgroup_root = cgroup_root
        self._host = host
        self._spool = spool
        self._cluster = _key(config, spool)
        self._locks = places(is_shared=config.is_shared)
        self._clock = SystemClock()
        self._stop = asyncio.Event()
        self._exit_code = 0
        self._manager = manager
        self._usage_s = config.timing.usage_sample_s
        self._may_run = who_may_change if config.is_shared and os.geteuid() == 0 else None
        """Says why root's agent must not run a program; None: it may run any."""
        self._mark = mark_of(spool)
        self._memory = StoreMemory(spool)
        self._folder = SpoolFolder(
            spool,
            self._mark,
            self._running_names,
            self._memory.write,
            self._put_back_folders,
        )
        self._outbox = Outbox(config.timing.exchange_s)
        self._stepped: set[AttemptKey] = set()
        self._has_stepped = asyncio.Event()
        self._background = BackgroundTasks()
        self._listening: socket.socket | None = None
        self._attempts: Attempts
        self._reporter: HostReporter
        self._gpu_guard: GpuGuard
        self._notices: NoticeDelivery

    async def serve(self) -> int:
        """Adopt, then keep a session with the master until a signal comes."""
        self._reporter = self._make_reporter()
        self._reporter.gpus.unfenced = standing_note(self._config.gpu_fence, self._cgroup_root)
        self._attempts = self._make_attempts()
        relay = TaskQuestions(self._host, self._attempts.tasks.answer, self._outbox.send)
        tasks = self._attempts.tasks
        self._attempts.steps.changed = self._note_step
        desk = StepDesk(self._attempts.steps, tasks.rooms, tasks.first_step)
        door = LaunchServer(self._host, relay, tasks.prove, tasks.slots, desk)
        door.ask_requeue = tasks.ask_requeue
        self._attempts.signal_steps = door.signal_steps
        self._attempts.services.serve_steps = lambda key, end: door.serve_owner(key, tasks.uid(key), end)
        self._reporter.remarks += [self._attempts.unkillable.remarks, self._folder.remarks]
        if self._config.dcgm_mapping_dir:
            mapping = JobMapping(self._config.dcgm_mapping_dir, lambda: self._attempts.holdings.running)
            self._attempts.holdings.on_change = mapping.write
        self._notices.adopt()
        adopted = await self._attempts.adopt()
        self._attempts.holdings.on_change()
        await self._gpu_guard.adopt()
        log.info("gsched %s: agent of %s, %d attempts adopted", __version__, self._host, adopted)
        self._log_fence()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        if self._listening is not None:
            await door.open(self._listening)
        logins = LoginServer(self._config.folder_of("agent"), self._attempts.logins)
        if self._config.is_shared and os.geteuid() == 0:
            await logins.open()
        self._manager.ready(f"host {self._host}: {adopted} attempts adopted, no session with the master yet")
        works = (
            self._make_sessions(relay).keep,
            self._sample_usage,
            self._tell_steps,
            self._attempts.limit_outputs,
            self._attempts.limit_kept_outputs,
            self._attempts.gpu_use.keep,
            self._attempts.services.keep,
            partial(keep_fed, self._manager, lambda: True),
        )
        workers = [asyncio.create_task(for_ever(work)) for work in works]
        await self._stop.wait()
        self._manager.stopping()
        await asyncio.to_thread(self._note_shutdown)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        door.close()
        logins.close()
        self._gpu_guard.close()
        self._notices.close()
        await self._reporter.close()
        self._attempts.close()
        log.info("agent of %s ends; its jobs go on", self._host)
        return self._exit_code

    def _log_fence(self) -> None:
        if self._reporter.gpus.unfenced:
            log.warning(
                "no GPU fence (%s): jobs are told their GPUs by CUDA_VISIBLE_DEVICES alone",
                self._reporter.gpus.unfenced,
            )
        else:
            log.info("GPU fence: %s", self._cgroup_root)

    def _note_shutdown(self) -> None:
        """Where it is the machine that goes down, its jobs go with it: the next agent is to know."""
        if shutdown.is_going_down():
            log.warning("this host is shut down, and its jobs with it")
            try:
                shutdown.leave_note(self._spool, boot_id(), time.time())
            except OSError as error:
                log.error("%s: %s: how its jobs end will be taken for their own end", self._spool, error.strerror)

    # -- the pieces -----------------------------------------------------------------------------------------------

    def _make_reporter(self) -> HostReporter:
        """It is made first, and asks for what is made after it."""
        return HostReporter(
            self._host,
            self._config.locations.conf_dir,
            self._cluster,
            self._clock,
            send=self._outbox.send,
            owners=self._owners_of,
            given=self._given_gmem,
            held=self._held_gpus,
            locks=self._locks,
            may_run=self._may_run,
        )

    def _make_attempts(self) -> Attempts:
        """With those who keep the GPUs around them."""
        cgroup_root = self._cgroup_root if isinstance(self._cgroup_root, CgroupRoot) else None
        accounts = _accounts(self._config, self._host)
        fencing = AttemptFences(
            self._config.gpu_fence,
            self._cgroup_root,
            self._reporter.gpus,
            lambda: [*mps.groups, *groups.names, *self._attempts.logins.groups],
        )
        groups = NoticeGroups(self._host, self._cgroup_root, fencing)
        self._notices = NoticeDelivery(
            self._host,
            self._spool,
            self._clock,
            run=lambda program, limit_s=None: self._attempts.run_program(program, limit_s),
            account=accounts.account,
            groups=groups,
            send=self._outbox.send,
        )
        mps = Mps(
            self._config.mps_control,
            self._cluster,
            self._spool,
            cgroup_root,
            accounts.account,
            run=lambda program, limit_s=None: self._attempts.run_program(program, limit_s),
            fence=fencing.fence_of_gpus,
            may_run=self._may_run,
        )
        self._gpu_guard = GpuGuard(
            self._reporter.gpus, self._spool, mps, self._clock, self._known_attempts, may_run=self._may_run
        )
        made = Attempts(
            self._host,
            self._spool,
            self._cluster,
            os.getuid(),
            self._clock,
            send=self._outbox.send,
            host_context=self._host_context(mps),
            fencing=fencing,
            prolog_epilog=self._gpu_guard.prolog_epilog,
            accounts=accounts,
            locks=self._locks,
            kept_output=self._config.kept_output,
            read_gpus=self._reporter.gpus.read_use,
            gpu_owners=self._owners_of,
            xids=self._reporter.gpus.xids_of,
            moving=MoveTools(self._config.cuda_checkpoint, self._reporter.gpus.look, self._may_run),
        )
        self._reporter.gpus.judges.append(made.gpu_moves.judge)
        made.logins.configure(self._config.ssh_access, self._config.administrators, self._cgroup_root, fencing)
        return made

    def _host_context(self, mps: Mps) -> HostContext:
        return HostContext(
            locks_gpus=lambda: self._reporter.gpus.has_real_gpus,
            places={
                "LSF_ENVDIR": self._config.locations.conf_dir,
                "LSF_SERVERDIR": self._config.locations.server_dir,
            },
            variables=mps.variables,
            cuda_numbers=lambda: cuda_numbers(self._reporter.gpus.gpus),
            socket=self._listen(),
            interface=self._config.hosts[self._host].interface,
            container_runtimes=container_runtimes,
            gpu_minors=lambda: device_minors(self._reporter.gpus.gpus),
            tmpdir=self._config.job_tmpdir,
        )

    def _make_sessions(self, relay: TaskQuestions) -> MasterSessions:
        link = MasterLink(self._host, self._manager)
        handler = MessageHandler(
            self._attempts,
            relay,
            link=link,
            outbox=self._outbox,
            background=self._background,
            memory=self._memory,
            configure=self._configure,
            end=self._end,
            open_gpu=self._gpu_guard.open,
            notices=self._notices,
        )
        return MasterSessions(
            self._config,
            self._host,
            self._mark,
            self._memory,
            link=link,
            outbox=self._outbox,
            background=self._background,
            attempts=self._attempts,
            notices=self._notices,
            relay=relay,
            handle=handler.handle,
        )

    def _listen(self) -> str:
        """Path of the socket for this host's jobs; empty when there can be none."""
        path = socket_path(self._config.folder_of("agent"), self._host)
        try:
            self._listening = listen(path, others=self._config.is_shared)
        except OSError as error:
            log.warning("jobs of this host cannot launch tasks: %s: %s", path, error.strerror or error)
            return ""
        return str(path)

    def _known_attempts(self) -> Attempts:
        return self._attempts

    def _running_names(self) -> Collection[str]:
        return [attempt_name(*key) for key in self._attempts.holdings.running]

    def _put_back_folders(self) -> Collection[str]:
        return self._attempts.put_back_folders()

    def _look_after_folder(self) -> None:
        before = self._folder.remarks()
        self._folder.look()
        if self._folder.remarks() != before:
            self._reporter.tell_soon()

    def _owners_of(self, pids: Iterable[int]) -> Mapping[int, str]:
        return self._gpu_guard.owners(pids)

    def _given_gmem(self) -> Mapping[tuple[str, str], float]:
        return self._attempts.holdings.given_gmem()

    def _held_gpus(self, name: str) -> frozenset[str] | None:
        return self._attempts.holdings.held_gpus(name)

    # -- what the master says of the agent itself -----------------------------------------------------------------

    async def _configure(self, settings: agent_pb2.Settings) -> None:
        self._attempts.terminate_interval_s = settings.terminate_interval_s
        self._usage_s = settings.usage_sample_s
        self._attempts.find_cpu_peak_over(settings.cpu_peak_s)
        self._attempts.gpu_use.interval_s = settings.gpu_use_s or self._attempts.gpu_use.interval_s
        self._outbox.quiet_s = settings.quiet_s or settings.exchange_s
        self._gpu_guard.configure(settings)
        # Slow probes must not hold up orders.
        self._background.beside(self._reporter.configure(settings))

    def _end(self, action: str) -> None:
        log.warning("an administrator has told this agent to %s; its jobs go on", action)
        self._exit_code = TOLD_TO_RESTART if action == RESTART else TOLD_TO_STOP
        self._stop.set()

    def _note_step(self, key: AttemptKey) -> None:
        """A step of the attempt has begun or ended: that is told soon, of many at once together."""
        self._stepped.add(key)
        self._has_stepped.set()

    async def _tell_steps(self) -> None:
        while True:
            await self._has_stepped.wait()
            self._has_stepped.clear()
            keys, self._stepped = self._stepped, set()
            self._tell_usage(keys)
            await asyncio.sleep(STEPS_S)

    async def _sample_usage(self) -> None:
        while True:
            await asyncio.sleep(self._usage_s)  # memory has no event: it is looked at
            self._look_after_folder()
            self._tell_usage()

    def _tell_usage(self, keys: Iterable[AttemptKey] | None = None) -> None:
        try:
            report = self._attempts.usage.report(keys)
        except Exception:
            log.exception("the use of running jobs cannot be sampled")
            return
        if report is not None:
            self._outbox.send(agent_pb2.AgentMessage(usage=report))
