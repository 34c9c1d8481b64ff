"""Sessions of ssh in the control groups of their users' jobs: joining, leaving for another job, ending with the job.

A session is a process of root's that opened it (sshd's, for this one user) with all below it. That process is moved, so
all that the session starts is in the job's group from the first instruction. What a job's group holds when the job is
over is ended by its supervisor; here is ended what came in at that very moment.

Must never move a process that a job has started, nor one that is neither root's nor the session's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Collection, Mapping

from gsched.agent.attempts.attempt_fences import AttemptFences
from gsched.agent.logins.login_rules import LoginAnswer, LoginJob, LoginVerdict, judge_login
from gsched.base.coded_text import AnyText, sentence
from gsched.base.errors import GschedError
from gsched.base.ids import attempt_name
from gsched.model.config import SshAccess
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.executor import ProcessExecutor
from gsched.run.fence import cgroup_files
from gsched.run.fence.cgroup_root import CgroupRoot
from gsched.run.fence.group import FenceGroup, group_of, make_fenced
from gsched.run.order import Order
from gsched.run.processes import process_tree
from gsched.run.supervisor.run_limits import limit_cpu, limit_process

log = logging.getLogger(__name__)

TOLD = (
    *("LSB_", "LSF_", "LS_JOBPID", "LS_SUBCWD", "LSFUSER", "SLURM_", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
    *("CUDA_MPS_", "GSCHED_JOB_ID", "GSCHED_ATTEMPT", "GSCHED_CLUSTER", "GSCHED_GPU_", "GSCHED_HOST_GPUS"),
    "GSCHED_AGENT_SOCKET",
)
"""How names of variables begin that a session gets of its job. Nothing else of it: what a user submits with is private
to the job, and so are the secrets of its services."""
_PREFIX = "login-"
_ROUNDS = 20
_SWEEPS, _SWEEP_S = 100, 0.05


class HostLogins:
    """The sessions of one host. `running()`: its attempts that have begun and are not over."""

    def __init__(
        self,
        host: str,
        executor: ProcessExecutor,
        running: Callable[[], Mapping[AttemptKey, HostAllocation]],
    ) -> None:
        self._host = host
        self._executor = executor
        self._running = running
        self._access = SshAccess.REFUSE
        self._administrators: Collection[str] = ()
        self._cgroup_root: CgroupRoot | None = None
        self._no_groups: AnyText = ""
        self._fencing: AttemptFences | None = None
        self._lock = asyncio.Lock()
        self._joined: set[AttemptKey] = set()
        self._sweeps: set[asyncio.Task[None]] = set()

    def configure(
        self,
        access: SshAccess,
        administrators: Collection[str],
        cgroup_root: CgroupRoot | AnyText,
        fencing: AttemptFences,
    ) -> None:
        """What the host's configuration says, and where groups can be made or why they cannot."""
        self._access, self._administrators, self._fencing = access, administrators, fencing
        self._cgroup_root = cgroup_root if isinstance(cgroup_root, CgroupRoot) else None
        self._no_groups = "" if isinstance(cgroup_root, CgroupRoot) else cgroup_root

    @property
    def groups(self) -> list[str]:
        """Names of the groups of sessions without a job that hold processes."""
        bases = self._cgroup_root.bases if self._cgroup_root is not None else ()
        found = [name for base in bases if os.path.isdir(base) for name in os.listdir(base)]
        return [name for name in dict.fromkeys(found) if name.startswith(_PREFIX) and self._group(name).pids()]

    # -- a login --------------------------------------------------------------------------------------------------

    async def admit(self, user: str, uid: int, wanted: str, pid: int | None) -> LoginVerdict:
        """Decide on a login, and put the session that the process `pid` opens where it belongs; None: decide only."""
        is_inside = pid is not None and any(map(self._is_own, cgroup_files.places_of(pid)))
        if is_inside:  # su in a session or a job: it stays where it is
            return LoginVerdict(LoginAnswer.FREE)
        for _ in range(_ROUNDS):
            verdict = judge_login(
                user,
                self._host,
                self._jobs(uid),
                wanted=wanted,
                is_admin=user in self._administrators,
                access=self._access,
            )
            if verdict.answer not in (LoginAnswer.JOIN, LoginAnswer.NO_GPU):
                return verdict
            if self._cgroup_root is None and self._access is SshAccess.OPEN and not wanted:
                return LoginVerdict(LoginAnswer.FREE)
            if self._cgroup_root is None:
                return _refusal(f"sessions cannot be fenced on {self._host}: {sentence(self._no_groups)}")
            try:
                if pid is None or await self._enter(verdict.key, uid, pid):
                    return verdict
            except GschedError as error:
                return _refusal(f"sessions cannot be fenced on {self._host}: {error.text}")
            except OSError as error:
                if verdict.key is None or verdict.key in self._running():
                    why = error.strerror or str(error)
                    return _refusal(f"the session cannot be put into its control group on {self._host}: {why}")
        return _refusal(f"jobs of {user} end faster on {self._host} than the session can join one")

    async def _enter(self, key: AttemptKey | None, uid: int, pid: int) -> bool:
        """Move the process; False when its job has ended meanwhile. Raises GschedError, OSError."""
        if key is None:
            await self._enter_no_gpu(uid, pid)
            return True
        order = self._executor.order(*key)
        if order is None or order.fence is None:
            return False
        _limit(pid, order)
        group_of(order.fence.kind, order.fence.folders).add(pid)
        self._joined.add(key)
        return key in self._running()

    async def _enter_no_gpu(self, uid: int, pid: int) -> None:
        assert self._fencing is not None
        name = f"{_PREFIX}{uid}"
        async with self._lock:
            group = self._group(name)
            if not group.pids():
                fence = await self._fencing.fence_of_gpus(name, HostAllocation(host=self._host, slots=0))
                if fence is not None:
                    make_fenced(group, fence.minors, fence.denied)
            group.add(pid)

    def _jobs(self, uid: int) -> list[LoginJob]:
        found = []
        for key in self._running():
            started = self._executor.started(*key)
            if started is not None and self._executor.uid_of(attempt_name(*key)) == uid:
                found.append(LoginJob(key, started.started_at, self._executor.is_suspended(*key)))
        return found

    def _group(self, name: str) -> FenceGroup:
        assert self._cgroup_root is not None
        return self._cgroup_root.group(name)

    def _is_own(self, place: str) -> bool:
        """Whether the place is a group of this host's."""
        bases = self._cgroup_root.bases if self._cgroup_root is not None else ()
        return any(cgroup_files.place_of(f"{base}/x").rpartition("/")[0] == place.rpartition("/")[0] for base in bases)

    # -- in a session ---------------------------------------------------------------------------------------------

    def describe(self, pid: int, uid: int, wanted: str) -> tuple[dict[str, str], str]:
        """The variables that tell the session of this process of its job, and a line on what is wrong.

        `wanted`: the job of GSCHED_JOB, which the session goes over to.
        """
        if self._cgroup_root is None:
            return {}, ""
        key = self._executor.tasking.proven(pid, uid)
        places = cgroup_files.places_of(pid)
        if key is None and not any(place in self._group(f"{_PREFIX}{uid}").places for place in places):
            return {}, ""
        line = ""
        if wanted:
            key, line = self._changed(pid, uid, wanted, key)
        order = self._executor.order(*key) if key is not None else None
        if order is None:
            return {"CUDA_VISIBLE_DEVICES": ""}, line
        return {name: value for name, value in order.environment.items() if name.startswith(TOLD)}, line

    def _changed(self, pid: int, uid: int, wanted: str, key: AttemptKey | None) -> tuple[AttemptKey | None, str]:
        """Take the session of the process over to another job; where it is then."""
        user = process_tree.owner_of(pid)
        verdict = judge_login(str(user), self._host, self._jobs(uid), wanted=wanted, access=self._access)
        if verdict.key is None or verdict.key == key:
            name = wanted[:40]
            return (
                key,
                "" if verdict.key is not None else f"GSCHED_JOB={name}: no job of yours runs here by that number",
            )
        order = self._executor.order(*verdict.key)
        root = self._session_root(pid, key, uid)
        if root is None or order is None or order.fence is None:
            return key, "" if root is None else f"job {verdict.key[0]} has no control group"
        group = group_of(order.fence.kind, order.fence.folders)
        try:
            _move(root, group, order)
        except OSError as error:
            return key, f"the session cannot join job {wanted[:40]}: {error.strerror or error}"
        self._joined.add(verdict.key)
        return verdict.key, ""

    def _session_root(self, pid: int, key: AttemptKey | None, uid: int) -> process_tree.Process | None:
        """The topmost process of the session that this one belongs to; None for a process that a job has started."""
        order = self._executor.order(*key) if key is not None else None
        if order is not None and order.fence is not None:
            group = group_of(order.fence.kind, order.fence.folders)
        else:
            group = self._group(f"{_PREFIX}{uid}")
        inside, chain = set(group.pids()), list(process_tree.ancestors(pid))
        started = self._executor.started(*key) if key is not None else None
        of_job = {started.pid, started.supervisor.pid} if started is not None else set()
        if any(each.pid in of_job for each in chain):
            return None
        of_session = [each for each in chain if each.pid in inside]
        return of_session[-1] if of_session else None

    # -- the end of a job -----------------------------------------------------------------------------------------

    def job_ended(self, key: AttemptKey) -> None:
        """End what has come in while its supervisor ended all that was there."""
        if key not in self._joined:
            return
        self._joined.discard(key)
        order = self._executor.order(*key)
        if order is not None and order.fence is not None:
            group = group_of(order.fence.kind, order.fence.folders)
            task = asyncio.get_running_loop().create_task(_sweep(group))
            self._sweeps.add(task)
            task.add_done_callback(self._sweeps.discard)


async def _sweep(group: FenceGroup) -> None:
    """Until it is gone; what hangs in the kernel is left."""
    for _ in range(_SWEEPS):
        if group.remove():
            return
        group.kill()
        await asyncio.sleep(_SWEEP_S)
    log.warning("processes of a session are still there after their job: %s", group.pids())


def _move(root: process_tree.Process, group: FenceGroup, order: Order) -> None:
    """The process and all below it, also those that are forked meanwhile. Raises OSError."""
    for _ in range(_ROUNDS):
        inside = set(group.pids())
        fresh = [each for each in (root, *process_tree.family(root.pid)) if each.pid not in inside]
        if not fresh:
            return
        for each in fresh:
            with contextlib.suppress(ProcessLookupError):
                _limit(each.pid, order)
                group.add(each.pid)


def _limit(pid: int, order: Order) -> None:
    """The limits and CPUs of the job for one process, which hands them on. Raises OSError."""
    process = process_tree.read_process(pid)
    if process is None:
        raise ProcessLookupError(pid)
    limit_process(pid, order.limits)
    limit_cpu([process], order.limits)
    if order.cpus:
        os.sched_setaffinity(pid, order.cpus)


def _refusal(line: str) -> LoginVerdict:
    return LoginVerdict(LoginAnswer.REFUSED, line=line)
