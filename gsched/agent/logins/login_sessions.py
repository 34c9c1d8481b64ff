"""Sessions of ssh in the control groups of their users' jobs: joining, leaving for another job, ending with the job.

A session is a process of root's that opened it (sshd's, for this one user) with all below it. That process is moved, so
all that the session starts is in the job's group from the first instruction. What a job's group holds when the job is
over is ended by its supervisor; here is ended what came in at that very moment.

Must never move a process that a job has started, nor one that is neither root's nor the session's own, and never look
at a user's processes on the event loop: there may be thousands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from gsched.agent.attempts.attempt_fences import AttemptFences
from gsched.agent.logins.login_askers import Asker, Opener
from gsched.agent.logins.login_rules import LoginAnswer, LoginJob, LoginVerdict, judge_login
from gsched.agent.logins.session_moves import (
    MOST_PROCESSES,
    MoveTurns,
    SessionTooLargeError,
    move_session,
    put,
    session_chain,
)
from gsched.base.coded_text import AnyText, sentence
from gsched.base.errors import Conflict, GschedError
from gsched.base.ids import attempt_name, show_job
from gsched.model.config import SshAccess
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.executor import ProcessExecutor
from gsched.run.fence import cgroup_files
from gsched.run.fence.cgroup_root import CgroupRoot
from gsched.run.fence.group import FenceGroup, group_of, make_fenced
from gsched.run.processes import process_tree

log = logging.getLogger(__name__)

T = TypeVar("T")

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
_MOVE_EVERY_S, _MOST_WAIT_S = 3.0, 6.0
"""Sessions of one user change jobs so often at most; who would wait for longer is refused, for gsched-pam gives up."""
_MOST_THREADS = 4
USER_MANAGER = "/run/user/{uid}/systemd/private"
"""The socket of a user's service manager. Source: sd_bus_open_user(3), systemd's file-hierarchy(7)."""


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
        self._roots: set[tuple[int, int]] = set()
        """Pid and start of the processes that opened the sessions that are in groups of ours."""
        self._turns = MoveTurns(_MOVE_EVERY_S, _MOST_WAIT_S)
        self._user_locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "logins")  # no user takes those that others wait for
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

    async def admit(self, user: str, uid: int, wanted: str, opener: Opener | None) -> LoginVerdict:
        """Decide on a login, and put the session that `opener` opens where it belongs; None: decide only."""
        if opener is not None and await self._in_thread(uid, self._is_inside, opener):
            return LoginVerdict(LoginAnswer.FREE)  # su in a session or a job: it stays where it is
        verdict = await self._admitted(user, uid, wanted, opener)
        if opener is not None and verdict.answer in (LoginAnswer.JOIN, LoginAnswer.NO_GPU):
            manager = USER_MANAGER.format(uid=uid)
            if await self._in_thread(uid, _is_listening, manager):
                log.warning(
                    "ssh: %s is served by systemd (%s), which starts processes of the user outside of the session's "
                    "control group: take pam_systemd out of what /etc/pam.d/sshd reads, or mask user@.service",
                    *(user, manager),
                )
        return verdict

    async def _admitted(self, user: str, uid: int, wanted: str, opener: Opener | None) -> LoginVerdict:
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
                if opener is None or await self._enter(verdict.key, uid, opener):
                    return verdict
            except GschedError as error:
                return _refusal(f"sessions cannot be fenced on {self._host}: {error.text}")
            except ProcessLookupError:
                return _refusal("gsched-pam, or who started it, waits no longer")
            except OSError as error:
                if verdict.key is None or verdict.key in self._running():
                    why = error.strerror or str(error)
                    return _refusal(f"the session cannot be put into its control group on {self._host}: {why}")
        return _refusal(f"jobs of {user} end faster on {self._host} than the session can join one")

    async def _enter(self, key: AttemptKey | None, uid: int, opener: Opener) -> bool:
        """Move the process; False when its job has ended meanwhile.

        Raises GschedError, OSError; ProcessLookupError for one that does not wait for its asker any more.
        """
        if key is None:
            await self._enter_no_gpu(uid, opener)
            return True
        order = self._executor.order(*key)
        if order is None or order.fence is None:
            return False
        put(opener.process, group_of(order.fence.kind, order.fence.folders), order, opener.is_there)
        self._joined.add(key)
        self._note_root(opener)
        return key in self._running()

    async def _enter_no_gpu(self, uid: int, opener: Opener) -> None:
        assert self._fencing is not None
        name = f"{_PREFIX}{uid}"
        async with self._lock:
            group = self._group(name)
            if not group.pids():
                fence = await self._fencing.fence_of_gpus(name, HostAllocation(host=self._host, slots=0))
                if fence is not None:
                    make_fenced(group, fence.minors, fence.denied)
            put(opener.process, group, None, opener.is_there)
            self._note_root(opener)

    def _note_root(self, opener: Opener) -> None:
        self._roots = {each for each in self._roots if process_tree.is_alive(*each)}
        self._roots.add((opener.process.pid, opener.process.start))

    def _is_inside(self, opener: Opener) -> bool:
        """Whether it is in a group of ours because it belongs to a session that was put there, or to a job.

        Runs in a thread. What got into one otherwise is no session: who logs in by it is asked about.
        """
        if not any(map(self._is_own, cgroup_files.places_of(opener.process.pid))):
            return False
        known = {*self._roots, *(each for key in [*self._running()] for each in self._roots_of(key))}
        return any((each.pid, each.start) in known for each in process_tree.ancestors(opener.process.pid))

    def _roots_of(self, key: AttemptKey) -> list[tuple[int, int]]:
        """Pid and start of a job and its supervisor."""
        started = self._executor.started(*key)
        return [(each.pid, each.start) for each in (started, started.supervisor)] if started is not None else []

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

    async def describe(self, asker: Asker, wanted: str) -> tuple[dict[str, str], str]:
        """The variables that tell the session of this process of its job, and a line on what is wrong.

        `wanted`: the job of GSCHED_JOB, which the session goes over to.
        """
        if self._cgroup_root is None:
            return {}, ""
        key, is_session = await self._in_thread(asker.uid, self._place_of, asker)
        if not is_session:
            return {}, ""
        line = ""
        if wanted:
            key, line = await self._changed(asker, wanted, key)
        order = self._executor.order(*key) if key is not None else None
        if order is None:
            return {"CUDA_VISIBLE_DEVICES": ""}, line
        return {name: value for name, value in order.environment.items() if name.startswith(TOLD)}, line

    def _place_of(self, asker: Asker) -> tuple[AttemptKey | None, bool]:
        """The job that it is in, and whether it is in a session or a job at all. Runs in a thread."""
        if asker.process() is None:
            return None, False
        key = self._executor.tasking.proven(asker.pid, asker.uid)
        of_session = self._group(f"{_PREFIX}{asker.uid}").places
        return key, key is not None or any(place in of_session for place in cgroup_files.places_of(asker.pid))

    async def _changed(self, asker: Asker, wanted: str, key: AttemptKey | None) -> tuple[AttemptKey | None, str]:
        """Take the session of the process over to another job; where it is then."""
        uid, name = asker.uid, wanted[:40]
        verdict = judge_login(str(uid), self._host, self._jobs(uid), wanted=wanted, access=self._access)
        if verdict.key is None:
            return key, f"GSCHED_JOB={name}: no job of yours runs here by that number"
        if verdict.key == key:
            return key, ""
        wait_s = self._turns.take(uid, asyncio.get_running_loop().time())
        if wait_s is None:
            return key, f"GSCHED_JOB={name}: sessions of yours change jobs too often; try again in {_MOST_WAIT_S:g} s"
        await asyncio.sleep(wait_s)
        if verdict.key not in self._running():
            return key, f"GSCHED_JOB={name}: that job has ended"
        self._joined.add(verdict.key)  # before: a job that ends meanwhile ends what has come in
        try:
            return await self._in_thread(uid, self._move, asker, verdict.key), ""
        except SessionTooLargeError:
            why = f"this session has more than {MOST_PROCESSES} processes and cannot change jobs; log in anew with it"
        except GschedError as error:
            why = str(error.text)
        except OSError as error:
            why = f"the session cannot join it: {error.strerror or error}"
        return key, f"GSCHED_JOB={name}: {why}"

    def _move(self, asker: Asker, wanted: AttemptKey) -> AttemptKey | None:
        """Move the session of the process; the job that it is in then. Runs in a thread.

        Raises GschedError, OSError, SessionTooLargeError.
        """
        key, is_session = self._place_of(asker)
        chain = self._chain(asker, key) if is_session else []
        if not chain:
            return key
        order = self._executor.order(*wanted)
        if order is None or order.fence is None:
            raise Conflict(f"job {show_job(wanted[0])} has no control group")
        move_session(chain, group_of(order.fence.kind, order.fence.folders), order)
        return wanted

    def _chain(self, asker: Asker, key: AttemptKey | None) -> list[process_tree.Process]:
        """The processes from this one up to the topmost of its session; none for one that a job has started.

        Raises SessionTooLargeError.
        """
        order = self._executor.order(*key) if key is not None else None
        if order is not None and order.fence is not None:
            group = group_of(order.fence.kind, order.fence.folders)
        else:
            group = self._group(f"{_PREFIX}{asker.uid}")
        of_job = {pid for pid, _ in self._roots_of(key)} if key is not None else set()
        return session_chain(asker.pid, set(group.pids()), of_job)

    async def _in_thread(self, uid: int, work: Callable[..., T], *arguments: object) -> T:
        """Do it in a thread of ours, nothing else for this user meanwhile. Raises what it raises."""
        async with self._user_locks.setdefault(uid, asyncio.Lock()):
            return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

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


def _is_listening(path: str) -> bool:
    """Whether a socket of that name is open, by the kernel's list (proc_net(5)). Runs in a thread.

    Nothing is looked at in the folder, which is a user's: what the user has mounted there may never answer.
    """
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf8", errors="replace") as file:
        return any(line.rstrip("\n").endswith(f" {path}") for line in file)
    return False


def _refusal(line: str) -> LoginVerdict:
    return LoginVerdict(LoginAnswer.REFUSED, line=line)
