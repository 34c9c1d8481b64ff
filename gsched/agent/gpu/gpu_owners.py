"""Whose processes are on the GPUs: users by name, attempts of this host, and what memory is nobody's of ours.

Looks at processes, never at what a user wrote; it signals nothing. What cannot be seen stays unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

import msgspec

from gsched.model.hosts.host import OVERUSE_PROBES, Gpu, GpuProcess, GpuReport
from gsched.run.processes import process_tree
from gsched.wire.identity.caller_identity import user_name

log = logging.getLogger(__name__)

Owners = Callable[[Iterable[int]], Mapping[int, str]]
"""Process ids -> the attempt (`17.1`) of each that belongs to one, or to what one has left."""

NAME_PATIENCE_S = 2.0
"""How long a directory of users may take to name one; after that its number serves."""


Given = Callable[[], Mapping[tuple[str, str], float]]
"""(attempt, UUID) -> the gmem= that it was given of that GPU, in MiB; only of those that asked for one."""

Held = Callable[[str], frozenset[str] | None]
"""Name of an attempt (`17.1`) -> UUIDs of the GPUs that it holds; None for one that may use any, or is not known."""


def any_gpu(name: str) -> None:
    """Nothing is known of what attempts hold."""


class GpuOwners:
    """Completes what a probe saw."""

    def __init__(self, owners: Owners, given: Given = dict, held: Held = any_gpu) -> None:
        self._owners = owners
        self._given = given
        self._held = held
        self._over: dict[tuple[str, str], int] = {}
        """(attempt, UUID) -> how many looks running it was beyond its gmem=."""
        self._names: dict[str, str] = {}
        """Number -> login name."""
        self._seen: dict[int, tuple[int, str]] = {}
        """Process id -> its start, and the attempt that it was seen to belong to."""

    async def told(self, report: GpuReport) -> GpuReport:
        """The report with the users and attempts of its processes, and the memory that is nobody's of ours."""
        users = {process.pid: process.user for gpu in report.gpus for process in gpu.processes}
        try:
            attempts = self._remembered(users, self._owners(users) if users else {})
        except OSError as error:
            log.warning("nobody knows whose the processes on the GPUs are: %s", error)
            return report
        for process in (process for gpu in report.gpus for process in gpu.processes):
            await self._learn(process.user)
        gpus = tuple(self._gpu(gpu, attempts) for gpu in report.gpus)
        self._count_overuse(gpus)
        return msgspec.structs.replace(report, gpus=tuple(self._accused(gpu) for gpu in gpus))

    def _remembered(self, users: Mapping[int, str], attempts: Mapping[int, str]) -> Mapping[int, str]:
        """The attempts, and those of processes of which it could be told at an earlier look only.

        One that cleared its environment is known by its parents as long as its job runs, and by nothing after that.
        What the driver lists of one that is gone is nobody else's; if it had a user then, it has just gone.
        """
        seen, self._seen = self._seen, {}
        just_gone = set()
        for pid, user in users.items():
            process = process_tree.read_process(pid)
            before, name = seen.get(pid, (0, ""))
            start = process.start if process is not None else before
            name = attempts.get(pid) or (name if start == before else "")
            if name and start:
                self._seen[pid] = start, name
            if process is None and user:
                just_gone.add(pid)
        return {**{pid: name for pid, (_, name) in self._seen.items() if pid not in just_gone}, **attempts}

    def _count_overuse(self, gpus: Iterable[Gpu]) -> None:
        used: dict[tuple[str, str], int] = {}
        for gpu in gpus:
            for each in gpu.processes:
                used[each.job, gpu.uuid] = used.get((each.job, gpu.uuid), 0) + (each.used_mib or 0)
        beyond = [key for key, given_mib in self._given().items() if used.get(key, 0) > given_mib]
        self._over = {key: self._over.get(key, 0) + 1 for key in beyond}

    def _accused(self, gpu: Gpu) -> Gpu:
        names = sorted(
            name for (name, uuid), looks in self._over.items() if uuid == gpu.uuid and looks >= OVERUSE_PROBES
        )
        return msgspec.structs.replace(gpu, over_gmem=tuple(names)) if names else gpu

    def _gpu(self, gpu: Gpu, attempts: Mapping[int, str]) -> Gpu:
        if gpu.process_count is None:
            return gpu
        processes = tuple(self._process(gpu, each, attempts.get(each.pid, each.job)) for each in gpu.processes)
        return msgspec.structs.replace(gpu, processes=processes, foreign_mib=_foreign_mib(gpu, processes))

    def _process(self, gpu: Gpu, process: GpuProcess, name: str) -> GpuProcess:
        held = self._held(name) if name else None
        escaped = held is not None and held.isdisjoint([gpu.uuid, *(part.uuid for part in gpu.mig_devices)])
        user = self._names.get(process.user, process.user)
        return msgspec.structs.replace(process, user=user, job=name, escaped=escaped)

    async def _learn(self, number: str) -> None:
        if not number.isdigit() or number in self._names:
            return
        self._names[number] = number
        try:
            # Apart: a directory server that hangs must not hold up the agent.
            name = asyncio.to_thread(user_name, int(number))
            async with asyncio.timeout(NAME_PATIENCE_S):
                self._names[number] = await name
        except (OSError, OverflowError, TimeoutError) as error:
            log.warning("user %s has no name: %s", number, error or "the directory of users hangs")


def _foreign_mib(gpu: Gpu, processes: Iterable[GpuProcess]) -> int | None:
    """Memory in use that no process of an attempt which may use it accounts for."""
    own = [each.used_mib for each in processes if each.job and not each.escaped]
    if None in own:  # the driver does not say how much is theirs: what it says of others is all that is known
        return sum(each.used_mib or 0 for each in processes if not each.job or each.escaped)
    return None if gpu.used_mib is None else max(0, gpu.used_mib - sum(each or 0 for each in own))
