"""Compute modes for jobs: set just before a job by -gpu gets its GPUs, set back after the last one that had them.

A mode is changed only on a GPU that no process is on, never on one that an administrator has prohibited, and only after
what to set back is on disk. Whoever changes a mode meanwhile is obeyed: that GPU is not set back. Nothing is signalled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from gsched.agent.gpu.compute_mode_records import ModeRecords, ModeSetting
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.errors import Conflict, GschedError, ResourceExhausted
from gsched.base.ids import attempt_name
from gsched.model.hosts.host import EXCLUSIVE_MODES, ComputeMode, Gpu, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.devices import MODE_BY_OPTION, MODE_OF_CLAIM, SETTABLE_MODES
from gsched.model.ledgers.host_ledger import AttemptKey

log = logging.getLogger(__name__)

STUCK_S = 600.0
"""A GPU whose mode the driver would not set is left in its mode for so long."""


class ComputeModes:
    """A hook of gsched.agent.gpu.gpu_prolog_epilog and a judge of GpuWatch."""

    def __init__(self, watch: GpuWatch, records: ModeRecords, clock: Clock) -> None:
        self._watch = watch
        self._records = records
        self._clock = clock
        self._holders: dict[str, set[AttemptKey]] = {}
        """UUID -> the attempts that have the GPU, ready for them."""
        self._given: dict[str, ComputeMode] = {}
        """UUID -> the mode in which they got it."""
        self._stuck: dict[str, float] = {}
        """UUID -> until when (monotonic) its mode is not tried to be set."""
        self._failed: dict[str, AnyText] = {}
        """UUID -> why its mode could not be set back."""
        self._returning: set[str] = set()
        """GPUs whose attempt has ended, and is not told to have."""
        self._lock = asyncio.Lock()
        self._tidying: asyncio.Task[None] | None = None

    def recover(self, parts: Mapping[AttemptKey, HostAllocation], known: Collection[AttemptKey]) -> None:
        """`parts`: what attempts have that an earlier agent started; `known`: these, and those that are to be told to
        have ended.
        """
        self._records.keep({attempt_name(*key) for key in known})
        for key, part in parts.items():
            for held in part.gpus:
                self._holders.setdefault(held.uuid, set()).add(key)
                setting = self._records.gpus.get(held.uuid)
                mode = setting.given if setting is not None else MODE_OF_CLAIM.get(held.claim)
                if mode is not None:
                    self._given[held.uuid] = mode

    # -- the judge ------------------------------------------------------------------------------------------------

    def judge(self, report: GpuReport) -> GpuReport:
        """The report with what is done about modes, and with the GPUs closed that are not set back yet."""
        if not report.known:
            return report
        fixed = self._watch.why_no_modes
        gpus = tuple(self._judged(gpu, fixed, report.provider) for gpu in report.gpus)
        if (self._records.due() or not self._records.is_stored) and self._tidying is None and not self._lock.locked():
            self._tidying = asyncio.create_task(self._tidy())
        return msgspec.structs.replace(
            report, gpus=gpus, sets_modes=bool(report.gpus) and not fixed, modes_note=fixed if report.gpus else ""
        )

    def _judged(self, gpu: Gpu, fixed: AnyText, provider: str) -> Gpu:
        if gpu.mode is None:
            return gpu
        found: dict[str, Any] = {}
        holders = self._holders.get(gpu.uuid, ())
        given = self._given.setdefault(gpu.uuid, gpu.mode) if holders else gpu.mode
        if gpu.mode is not given:
            found["mode_given"] = given
            if gpu.uuid in self._records.gpus:
                log.warning("GPU %d (%s): somebody set mode %s under its jobs; it stays", gpu.index, gpu.uuid, gpu.mode)
                self._records.forget(gpu.uuid)
        setting = self._records.gpus.get(gpu.uuid)
        standing = gpu.mode
        if setting is not None and setting.given is gpu.mode is not setting.standing:
            standing = found["standing_mode"] = setting.standing
            if not (setting.attempts or gpu.problem or gpu.uuid in self._returning):
                modes, why = (str(gpu.mode), str(standing)), self._failed.get(gpu.uuid, "")
                left = coded("gpu.mode_not_restored", *modes, why) if why else coded("gpu.mode_to_restore", *modes)
                found["problem"] = left
        is_free = bool(holders or setting) or not _why_used(gpu, provider)
        is_stuck = self._clock.monotonic() < self._stuck.get(gpu.uuid, 0.0)
        if standing in SETTABLE_MODES and not (_why_never(gpu) or fixed or is_stuck) and is_free:
            found["mode_settable"] = True
        return msgspec.structs.replace(gpu, **found) if found else gpu

    async def _tidy(self) -> None:
        """Set back what no attempt has any more: an agent before this one, or an earlier try, left it."""
        try:
            async with self._lock:
                await self._set_back()
        except Exception:
            log.exception("compute modes are not set back")
        finally:
            self._tidying = None

    # -- the hook -------------------------------------------------------------------------------------------------

    async def before(self, key: AttemptKey, part: HostAllocation, spec: JobSpec) -> None:
        """Put the attempt's GPUs into its mode. Raises GschedError when one cannot be."""
        async with self._lock:
            others = [held.uuid for held in part.gpus if held.claim not in MODE_BY_OPTION]
            if set(others) & set(self._records.due()):
                await self._set_back()
                if left := sorted(set(others) & set(self._records.due())):
                    raise ResourceExhausted(coded("mode.not_back", left[0]))
            wanted = [held for held in part.gpus if held.claim in MODE_BY_OPTION]
            if wanted:
                await self._set_for(attempt_name(*key), wanted)
            seen = _by_uuid(self._watch.gpus)
            for held in part.gpus:
                self._records.join(attempt_name(*key), held.uuid)
                gpu = seen.get(held.uuid)
                mode = MODE_OF_CLAIM.get(held.claim) or (gpu.mode if gpu is not None else None)
                self._holders.setdefault(held.uuid, set()).add(key)
                if mode is not None:
                    self._given.setdefault(held.uuid, mode)
            await self._store()

    async def after(self, key: AttemptKey, part: HostAllocation) -> None:
        """Set back what nobody else has."""
        own = {held.uuid for held in part.gpus}
        async with self._lock:
            for uuid in own:
                holders = self._holders.get(uuid, set())
                holders.discard(key)
                if not holders:
                    self._holders.pop(uuid, None)
                    self._given.pop(uuid, None)
            self._records.release(attempt_name(*key))
            self._returning |= own
            try:
                await self._set_back()
            finally:
                self._returning -= own

    async def _set_for(self, name: str, wanted: Iterable[HeldGpu]) -> None:
        seen = _by_uuid(self._watch.gpus)
        if any(held.uuid not in seen or _needs(seen[held.uuid], held) for held in wanted):
            report = await self._watch.look()
            if not report.known:
                raise ResourceExhausted(coded("gpus.unknown", report.reason))
            seen = _by_uuid(report)
        changes: dict[ComputeMode, list[Gpu]] = {}
        for held in wanted:
            gpu = seen.get(held.uuid)
            if gpu is None:
                raise ResourceExhausted(coded("gpu.gone", held.index, held.uuid))
            if self._enter(name, gpu, MODE_OF_CLAIM[held.claim]):
                changes.setdefault(MODE_OF_CLAIM[held.claim], []).append(gpu)
        await self._store()
        for mode, gpus in changes.items():
            await self._set(gpus, mode)

    def _enter(self, name: str, gpu: Gpu, mode: ComputeMode) -> bool:
        """Note that the attempt has the GPU in that mode; whether it must be set. Raises ResourceExhausted."""
        setting = self._records.gpus.get(gpu.uuid)
        if setting is not None and setting.given is not gpu.mode:
            self._records.forget(gpu.uuid)  # it was set by somebody else since
            setting = None
        if gpu.mode is mode:
            return False
        if why := self._why_not(gpu):
            raise ResourceExhausted(coded("mode.other", gpu.index, gpu.uuid, str(gpu.mode), str(mode), why))
        assert gpu.mode is not None
        standing = gpu.mode if setting is None else setting.standing
        self._records.gpus[gpu.uuid] = ModeSetting(standing=standing, given=mode, attempts=[name])
        self._records.touch()
        return True

    def _why_not(self, gpu: Gpu) -> AnyText:
        """Why its mode must not be changed now; empty when it may be."""
        setting = self._records.gpus.get(gpu.uuid)
        if self._holders.get(gpu.uuid) or (setting is not None and setting.attempts):
            return coded("mode.other_job")
        if self._clock.monotonic() < self._stuck.get(gpu.uuid, 0.0):
            return coded("mode.failed_lately")
        provider = self._watch.gpus.provider if self._watch.gpus is not None else ""
        why_kept = self._watch.why_no_modes or self._watch.why_locked(gpu.uuid)
        return _why_never(gpu) or why_kept or _why_used(gpu, provider)

    async def _set(self, gpus: list[Gpu], mode: ComputeMode) -> None:
        try:
            await self._watch.set_mode([gpu.index for gpu in gpus], mode)
        except Conflict as error:
            self._stuck.update((gpu.uuid, self._clock.monotonic() + STUCK_S) for gpu in gpus)
            raise ResourceExhausted(error.said) from None
        except GschedError as error:
            raise ResourceExhausted(error.said) from None
        seen = _by_uuid(await self._watch.look())
        for gpu in gpus:
            now = seen.get(gpu.uuid)
            if now is None or now.mode is not mode:
                shown = coded("mode.unknown") if now is None or now.mode is None else str(now.mode)
                raise ResourceExhausted(coded("mode.put_in_vain", gpu.index, gpu.uuid, str(mode), shown))

    async def _set_back(self) -> None:
        """All GPUs that no attempt has, as far as it can be done now; then the records are on disk."""
        changed = False
        due = self._records.due()
        report = await self._watch.look() if due else None
        seen = _by_uuid(report if report is not None and report.known else None)
        for uuid in due:
            if uuid in seen:
                changed = await self._set_one_back(seen[uuid], self._records.gpus[uuid]) or changed
        if not self._records.is_stored:
            try:
                await self._store()
            except ResourceExhausted as error:
                log.error("%s", error.text)
        if changed:
            await self._watch.look()  # the master hears of it before it hears that the attempt has ended

    async def _set_one_back(self, gpu: Gpu, setting: ModeSetting) -> bool:
        """Whether its mode was set."""
        why: AnyText = ""
        if gpu.mode is setting.given is not setting.standing:
            users = _users(gpu)
            if users and setting.standing in EXCLUSIVE_MODES:
                why = coded("gpu.used_by", users)
            elif locked := self._watch.why_locked(gpu.uuid):
                why = locked
            else:
                try:
                    await self._watch.set_mode([gpu.index], setting.standing)
                except GschedError as error:
                    why = error.said
        elif gpu.mode is None:
            why = coded("gpu.mode_unknown")
        if why:
            if why != self._failed.get(gpu.uuid):
                mode = setting.standing
                log.warning("GPU %d (%s) is not set back to compute mode %s: %s", gpu.index, gpu.uuid, mode, why)
            self._failed[gpu.uuid] = why
            return False
        self._failed.pop(gpu.uuid, None)
        self._records.forget(gpu.uuid)
        return gpu.mode is not setting.standing

    async def _store(self) -> None:
        if self._records.is_stored:
            return
        try:
            await asyncio.to_thread(self._records.store)
        except OSError as error:
            raise ResourceExhausted(coded("mode.not_stored", str(error))) from None

    # -- GPU_MODE, and what is told -------------------------------------------------------------------------------

    async def may_be_set(self, report: GpuReport, mode: ComputeMode) -> list[int]:
        """Indexes of the GPUs that GPU_MODE of lsb.hosts can be set on now; those that jobs have get it afterwards."""
        async with self._lock:
            found = []
            for gpu in report.gpus:
                setting = self._records.gpus.get(gpu.uuid)
                holders = self._holders.get(gpu.uuid)
                if setting is not None:
                    setting.standing = mode
                    self._records.touch()
                elif gpu.mode is mode or gpu.mode is None:
                    continue
                elif holders:
                    names = [attempt_name(*key) for key in sorted(holders)]
                    self._records.gpus[gpu.uuid] = ModeSetting(standing=mode, given=gpu.mode, attempts=names)
                    self._records.touch()
                else:
                    found.append(gpu.index)
            await self._store()
            return found


def _by_uuid(report: GpuReport | None) -> dict[str, Gpu]:
    return {gpu.uuid: gpu for gpu in report.gpus} if report is not None else {}


def _needs(gpu: Gpu, held: HeldGpu) -> bool:
    return gpu.mode is not MODE_OF_CLAIM[held.claim]


def _why_never(gpu: Gpu) -> AnyText:
    if gpu.mode not in SETTABLE_MODES:
        return coded("mode.of_administrator")
    return coded("gpu.is_split") if gpu.mig else ""


def _why_used(gpu: Gpu, provider: str) -> AnyText:
    """Why another mode would be felt by somebody; empty when nobody is on the GPU."""
    if gpu.process_count is None:
        return "" if provider == "simulated" else coded("gpu.processes_unseen")
    users = _users(gpu)
    return coded("gpu.used_by", users) if users else ""


def _users(gpu: Gpu) -> AnyText:
    """The processes on a GPU; empty when there are none."""
    if not gpu.processes and gpu.process_count:
        return coded("gpu.one_process") if gpu.process_count == 1 else coded("gpu.processes", gpu.process_count)
    return listed(
        [
            coded("gpu.pid_of", each.pid, each.user) if each.user else coded("gpu.pid", each.pid)
            for each in gpu.processes
        ]
    )
