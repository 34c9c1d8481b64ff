"""MPS for jobs that ask for it (-gpu mps=): one control daemon for the GPUs of a job, shared by the jobs that hold the
same ones, started before the first of them and ended after the last.

Who uses a daemon stands on disk, in the daemon's folder, so that neither a restart nor a crash of the agent leaves one
behind or takes it from a job. A daemon that ends by itself is told (`Gpu.mps_lost`) and not started again below a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import RequirementError, ResourceExhausted
from gsched.base.ids import attempt_name, parse_attempt_name, show_job
from gsched.base.machine.atomic_write import replace_file
from gsched.model.hosts.host import GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.cuda_order import in_cuda_order
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.resreq.parsing.gpu import GpuRequirement, parse_gpu
from gsched.run.account import UnixAccount
from gsched.run.fence.cgroup_root import CgroupRoot
from gsched.run.fence.group import make_fenced
from gsched.run.mps_daemon import MOST_FOLDER_BYTES, MpsDaemon, pipes_of
from gsched.run.order import Fence
from gsched.run.program import RunsPrograms
from gsched.run.spool import PASSABLE

log = logging.getLogger(__name__)

_STATE = "jobs"


class _State(msgspec.Struct):
    """What stands on disk."""

    uuids: tuple[str, ...]
    holders: set[str]
    """Attempts, `17.1`."""
    account: dict[str, Any] | None = None
    """Fields of the account whose it is (see gsched.run.account); None: the agent's own."""


class _Service:
    """A daemon and its jobs."""

    def __init__(self, folder: Path, state: _State, *, is_up: bool) -> None:
        self.daemon = MpsDaemon(folder, UnixAccount.of(state.account) if state.account is not None else None)
        self.state = state
        self.is_up = is_up
        """Whether it has been started and nobody has noticed its end."""
        self.lost: set[str] = set()
        """The holders below which it has ended."""
        self.last = ""
        """Whose it is while it is being ended."""

    def notice(self) -> None:
        """Notice its end, if it has ended."""
        if self.is_up and self.daemon.pid() is None:
            self.is_up = False
            self.lost |= self.state.holders
            uuids, said = ", ".join(self.state.uuids), self.daemon.last_words() or "nothing"
            log.warning("the MPS control daemon of %s has ended by itself; its last words: %s", uuids, said)

    def save(self) -> None:
        """Raises OSError."""
        folder = self.daemon.folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.daemon.account is not None:
            for passed in (folder, folder.parent, folder.parent.parent):
                passed.chmod(PASSABLE)
        replace_file(str(folder / _STATE), msgspec.json.encode(self.state))


FenceOf = Callable[[str, HostAllocation], Awaitable[Fence | None]]


async def _unfenced(name: str, part: HostAllocation) -> Fence | None:
    """On a host without fences."""
    del name, part
    return None


async def _own(user: str) -> UnixAccount | None:
    """Everybody is served by the agent's own user."""
    del user
    return None


class Mps:
    """A hook (see PrologEpilog) and a judge of reports (see GpuWatch). `program`: the control program; `cgroup_root`:
    where daemons get control groups of their own, so that they do not end with the service that the agent is.
    """

    def __init__(
        self,
        program: str,
        cluster: str,
        spool: Path,
        cgroup_root: CgroupRoot | None = None,
        account: Callable[[str], Awaitable[UnixAccount | None]] = _own,
        *,
        run: RunsPrograms,
        fence: FenceOf = _unfenced,
        may_run: Callable[[str], AnyText] | None = None,
    ) -> None:
        """Reads what an earlier agent left in `spool`; `cluster` tells this host's agent from all others.

        `account(user)`: whom the daemon for that user's jobs runs as, see job_accounts. `run` runs its
        program. `fence(name, part)`: what a group of that name leaves the processes of a job with this part open.
        `may_run` says why a program must not be run, empty when it may.
        """
        self._run = run
        self._fence = fence
        self._may_run = may_run
        self._account = account
        self._program = program
        self._cgroup_root = cgroup_root
        self._root = _root(spool, cluster)
        self._changing = asyncio.Lock()
        self._services = {service.state.uuids: service for service in _found(self._root)}

    # -- before and after an attempt ------------------------------------------------------------------------------

    async def before(self, key: AttemptKey, part: HostAllocation, spec: JobSpec) -> None:
        """Have a daemon for its GPUs. Raises ResourceExhausted when there is none to be had."""
        if wish_of(spec) is None:
            return
        uuids, account = _uuids(part), await self._account(spec.user)
        async with self._changing:
            self._check_overlap(uuids)
            service = self._services.get(uuids)
            if service is not None and service.daemon.account != account:
                served, owner = (", ".join(uuids), _jobs(service)), service.daemon.account
                if owner is None:
                    raise ResourceExhausted(coded("mps.other_user", *served))
                raise ResourceExhausted(coded("mps.of_other_user", *served, owner.name))
            if service is None:
                state = _State(uuids=uuids, holders=set(), account=account.fields() if account is not None else None)
                service = self._services[uuids] = _Service(self._folder(uuids), state, is_up=False)
            service.notice()
            service.state.holders.add(attempt_name(*key))
            try:
                _make_private(self._root)
                service.save()
                if not service.is_up:
                    self._check_program()
                    fence = await self._make_group(service, part)
                    await service.daemon.start(self._program, uuids, self._run, fence)
                    service.is_up = True
                    log.info("MPS control daemon %s of %s", service.daemon.pid(), ", ".join(uuids))
            except OSError as error:
                why: AnyText = str(error.strerror or error)
                if error.filename:
                    why = coded("attempt.of_path", str(error.filename), why)
                raise ResourceExhausted(coded("mps.failed", why)) from error

    async def after(self, key: AttemptKey, part: HostAllocation) -> None:
        """The attempt has ended: its MPS daemon is ended with the last attempt that uses it."""
        del part
        async with self._changing:
            await self._keep_for(lambda name: name != attempt_name(*key))

    async def adopt(self, known: Collection[AttemptKey]) -> None:
        """The agent has started: end the daemons of attempts that are not `known`, those that there still are."""
        names = {attempt_name(*key) for key in known}
        async with self._changing:
            await self._keep_for(lambda name: name in names)

    async def _keep_for(self, stays: Callable[[str], bool]) -> None:
        for uuids, service in list(self._services.items()):
            left = set(filter(stays, service.state.holders))
            if left and left == service.state.holders:
                continue
            service.last = min(service.state.holders, default="")
            service.state.holders, service.lost = left, service.lost & left
            if left:
                service.save()
                continue
            service.is_up = False
            await service.daemon.stop(self._program, self._run)
            if self._cgroup_root is not None:
                group = self._cgroup_root.group(_group_name(service))
                group.kill()
                group.remove()
            del self._services[uuids]
            log.info("no job uses the MPS control daemon of %s any more", ", ".join(uuids))
            with contextlib.suppress(OSError):  # others lie there, or the agent's other things
                self._root.rmdir()
                self._root.parent.rmdir()

    def _check_program(self) -> None:
        """Raises ResourceExhausted where others than root can change what root's agent would run, for any user."""
        path = shutil.which(self._program)
        problem = self._may_run(os.path.abspath(path)) if path is not None and self._may_run is not None else ""
        if problem:
            raise ResourceExhausted(coded("mps.not_run", str(path), problem))

    async def _make_group(self, service: _Service, part: HostAllocation) -> Fence | None:
        """Its group, made and fenced to the GPUs of its jobs: clients have their work done by it, behind whatever
        keeps them from other GPUs. Raises OSError and ResourceExhausted.
        """
        if self._cgroup_root is None:
            return None
        name = _group_name(service)
        fence = await self._fence(name, part)
        group = self._cgroup_root.group(name)
        if not group.pids():  # a server may have outlived its daemon: whom it serves is not disturbed
            make_fenced(group, fence.minors if fence is not None else None, fence.denied if fence is not None else ())
        return fence or Fence(kind=self._cgroup_root.kind, folders=self._cgroup_root.folders(name))

    @property
    def groups(self) -> list[str]:
        """Names of the control groups of daemons."""
        return [_group_name(service) for service in self._services.values()]

    def _check_overlap(self, uuids: tuple[str, ...]) -> None:
        """Two daemons of one user on a GPU would take turns on it, or fail where its compute mode is exclusive."""
        for others, service in self._services.items():
            if others != uuids and not set(others).isdisjoint(uuids):
                raise ResourceExhausted(coded("mps.other_gpus", ", ".join(others), _jobs(service)))

    def _folder(self, uuids: tuple[str, ...]) -> Path:
        return self._root / hashlib.sha256(",".join(uuids).encode()).hexdigest()[:12]

    # -- what jobs and the master are told ------------------------------------------------------------------------

    def variables(self, spec: JobSpec, part: HostAllocation) -> Mapping[str, str | None]:
        """What a job that uses MPS has in its environment; None: nothing of that name.

        To its clients a daemon's GPUs are 0, 1 …; parts of GPUs keep their names. gmem= and share= become limits of
        each of the job's processes.
        """
        asked = wish_of(spec)
        if asked is None or not part.gpus:
            return {}
        found: dict[str, str | None] = dict(MpsDaemon(self._folder(_uuids(part))).environment)
        if "nocvd" in asked.mps.split(","):
            found["CUDA_VISIBLE_DEVICES"] = None
        elif not any(gpu.parent for gpu in part.gpus):
            found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(len(part.gpus))))
        if all(gpu.gmem_mib for gpu in part.gpus):
            limits = (f"{place}={math.ceil(gpu.gmem_mib)}M" for place, gpu in enumerate(part.gpus))
            found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
        if (share := min(gpu.share for gpu in part.gpus)) < 1:
            found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, math.ceil(100 * share)))
        return found

    def owners(self, pids: Iterable[int]) -> dict[int, str]:
        """Process -> an attempt that uses the daemon, of those that are a daemon of ours or its server."""
        services = {str(each.daemon.pipes): each for each in self._services.values()}
        found = ((pid, services.get(pipes_of(pid))) for pid in pids) if services else ()
        users = {pid: each for pid, each in found if each is not None and each.daemon.has(pid)}
        named = ((pid, min(each.state.holders, default=each.last)) for pid, each in users.items())
        return {pid: name for pid, name in named if name}

    def __call__(self, report: GpuReport) -> GpuReport:
        """The report; it says which attempts have lost their daemon."""
        lost: dict[str, set[str]] = {}
        for service in self._services.values():
            service.notice()
            for uuid in service.state.uuids if service.lost else ():
                lost.setdefault(uuid, set()).update(service.lost)
        if not lost:
            return report
        gpus = []
        for gpu in report.gpus:
            names = {
                name for uuid in (gpu.uuid, *(each.uuid for each in gpu.mig_devices)) for name in lost.get(uuid, ())
            }
            gpus.append(msgspec.structs.replace(gpu, mps_lost=tuple(sorted(names))))
        return msgspec.structs.replace(report, gpus=tuple(gpus))


@lru_cache(maxsize=256)
def _read(text: str) -> GpuRequirement | None:
    try:
        asked = parse_gpu(text) if text else None
    except RequirementError:  # the master has read it before
        return None
    return asked if asked is not None and asked.mps != "no" else None


def wish_of(spec: JobSpec) -> GpuRequirement | None:
    """What a job that wants MPS asks of its GPUs; None for all others."""
    return _read(spec.combined_gpu_req)


def _jobs(service: _Service) -> str:
    return ", ".join(sorted(show_job(parse_attempt_name(name)[0]) for name in service.state.holders))


def _group_name(service: _Service) -> str:
    return f"mps-{service.daemon.folder.name}"


def _uuids(part: HostAllocation) -> tuple[str, ...]:
    """In the order in which its clients are to count them, which is that of GSCHED_GPU_UUIDS."""
    return tuple(gpu.uuid for gpu in in_cuda_order(part.gpus))


def _root(spool: Path, cluster: str) -> Path:
    """Where daemons' folders lie: with the agent's other things, or in /tmp where that is too long for sockets."""
    near = spool / "mps"
    if len(os.fsencode(near)) + len("/0123456789ab/p") <= MOST_FOLDER_BYTES:
        return near
    return Path(f"/tmp/gsched-mps-{os.getuid()}") / hashlib.sha256(cluster.encode()).hexdigest()[:12]


def _make_private(root: Path) -> None:
    """Nobody else may get between a job and its daemon. Raises OSError, or ResourceExhausted for a folder of others."""
    for folder in (root.parent, root):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise ResourceExhausted(coded("mps.open_folder", str(folder)))


def _found(root: Path) -> Iterator[_Service]:
    """What an earlier agent left behind."""
    for path in sorted(root.glob(f"*/{_STATE}")):
        try:
            state = msgspec.json.decode(path.read_bytes(), type=_State)
        except (OSError, msgspec.DecodeError) as error:
            log.warning("nobody knows who uses the MPS daemon of %s: %s", path.parent, error)
            state = _State(uuids=(str(path.parent),), holders=set())
        yield _Service(path.parent, state, is_up=True)
