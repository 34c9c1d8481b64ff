"""Compute modes for jobs: set just before a job by -gpu gets its GPUs, set back after the last one that had them.

A mode is changed only on a GPU that no process is on, never on one that an administrator has prohibited, and only after
what to set back is on disk. Whoever changes a mode meanwhile is obeyed: that GPU is not set back. Nothing is signalled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.agent.gpu_modes.compute_mode_records import ModeRecords, ModeSetting
from gsched.agent.gpu_modes.mode_requests import ModeRequest, ModeRequests, fail_all
from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.errors import Conflict, GschedError, ResourceExhausted
from gsched.base.ids import attempt_name
from gsched.model.hosts.host import EXCLUSIVE_MODES, ComputeMode, Gpu, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.devices import MODE_OF_CLAIM, SETTABLE_MODES
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
        self._requests = ModeRequests(self._serve)

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
        if (self._records.due() or not self._records.is_stored) and not self._requests.is_busy:
            self._requests.ask()  # an agent before this one, or an earlier try, left it
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
        if setting is not None and _is_set(gpu, setting):
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

    # -- the hook -------------------------------------------------------------------------------------------------

    async def before(self, key: AttemptKey, part: HostAllocation, spec: JobSpec) -> None:
        """Put the attempt's GPUs into its mode. Raises GschedError when one cannot be."""
        request = ModeRequest(key, part.gpus)
        self._requests.ask(request)
        await request.done

    async def after(self, key: AttemptKey, part: HostAllocation) -> None:
        """Set back what nobody else has."""
        request = ModeRequest(key, part.gpus, is_end=True)
        self._requests.ask(request)
        await request.done

    async def settled(self) -> None:
        """Until all that has been asked, or is due, is done as far as it can be."""
        await self._requests.settled()

    def close(self) -> None:
        """Set nothing any more."""
        self._requests.close()

    async def _serve(self, requests: Sequence[ModeRequest]) -> None:
        starts = [each for each in requests if not each.is_end]
        ends = [each for each in requests if each.is_end]
        due = self._records.due()
        if ends or not requests or any(held.uuid in due for each in starts for held in each.gpus):
            await self._end(ends)
        await self._begin([each for each in starts if each.is_open])

    # -- ends -----------------------------------------------------------------------------------------------------

    async def _end(self, ends: Sequence[ModeRequest]) -> None:
        """Set back what no attempt has any more."""
        own = {held.uuid for each in ends for held in each.gpus}
        for each in ends:
            self._release(each)
        self._returning |= own
        try:
            await self._set_back()
        finally:
            self._returning -= own
        for each in ends:
            each.succeed()

    def _release(self, request: ModeRequest) -> None:
        for held in request.gpus:
            holders = self._holders.get(held.uuid, set())
            holders.discard(request.key)
            if not holders:
                self._holders.pop(held.uuid, None)
                self._given.pop(held.uuid, None)
        self._records.release(request.name)

    async def _set_back(self) -> None:
        """All GPUs that no attempt has, as far as it can be done now; then the records are on disk."""
        changes: dict[ComputeMode, list[Gpu]] = {}
        due = self._records.due()
        report = await self._watch.look() if due else None
        seen = _by_uuid(report if report is not None and report.known else None)
        for gpu in [seen[uuid] for uuid in due if uuid in seen]:
            setting = self._records.gpus[gpu.uuid]
            why = self._why_not_back(gpu, setting)
            if not why and _is_set(gpu, setting):
                changes.setdefault(setting.standing, []).append(gpu)
            else:
                self._set_back_or_not(gpu, setting, why)
        for mode, gpus in changes.items():
            for gpu, error in await self._each_set(gpus, mode):
                self._set_back_or_not(gpu, self._records.gpus[gpu.uuid], error.said if error is not None else "")
        try:
            await self._store()
        except ResourceExhausted as error:
            log.error("%s", error.text)
        if changes:
            await self._watch.look()  # the master hears of it before it hears that the attempt has ended

    def _why_not_back(self, gpu: Gpu, setting: ModeSetting) -> AnyText:
        """Why its mode cannot be set back now; empty when it can, or need not."""
        if _is_set(gpu, setting):
            users = _users(gpu)
            if users and setting.standing in EXCLUSIVE_MODES:
                return coded("gpu.used_by", users)
            return self._watch.why_locked(gpu.uuid)
        return coded("gpu.mode_unknown") if gpu.mode is None else ""

    def _set_back_or_not(self, gpu: Gpu, setting: ModeSetting, why: AnyText) -> None:
        if not why:
            self._failed.pop(gpu.uuid, None)
            self._records.forget(gpu.uuid)
            return
        if why != self._failed.get(gpu.uuid):
            mode = setting.standing
            log.warning("GPU %d (%s) is not set back to compute mode %s: %s", gpu.index, gpu.uuid, mode, why)
        self._failed[gpu.uuid] = why

    async def _each_set(self, gpus: Sequence[Gpu], mode: ComputeMode) -> list[tuple[Gpu, GschedError | None]]:
        """Put them into the mode; why not, for each. One by one where not all can be."""
        try:
            await self._watch.set_mode([gpu.index for gpu in gpus], mode)
        except GschedError as error:
            if len(gpus) == 1:
                return [(gpus[0], error)]
            return [found for gpu in gpus for found in await self._each_set([gpu], mode)]
        return [(gpu, None) for gpu in gpus]

    # -- starts ---------------------------------------------------------------------------------------------------

    async def _begin(self, starts: Sequence[ModeRequest]) -> None:
        """Have the attempts' GPUs in their modes, or say why not."""
        left = set(self._records.due())
        for each in starts:
            others = {held.uuid for held in each.gpus if held not in each.wanted}
            if kept := sorted(others & left):
                each.fail(ResourceExhausted(coded("mode.not_back", kept[0])))
        await self._join([each for each in starts if not each.wanted])
        choosers = [each for each in starts if each.wanted and each.is_open]
        if choosers:
            await self._set_for(choosers)
            await self._join(choosers)

    async def _join(self, starts: Sequence[ModeRequest]) -> None:
        """The GPUs of those that have not failed are ready for them."""
        seen = _by_uuid(self._watch.gpus)
        ready = [each for each in starts if each.is_open]
        for each in ready:
            for held in each.gpus:
                self._records.join(each.name, held.uuid)
                gpu = seen.get(held.uuid)
                mode = MODE_OF_CLAIM.get(held.claim) or (gpu.mode if gpu is not None else None)
                self._holders.setdefault(held.uuid, set()).add(each.key)
                if mode is not None:
                    self._given.setdefault(held.uuid, mode)
        if await self._stored_for(ready):
            for each in ready:
                each.succeed()

    async def _set_for(self, starts: Sequence[ModeRequest]) -> None:
        seen = _by_uuid(self._watch.gpus)
        if any(held.uuid not in seen or _needs(seen[held.uuid], held) for each in starts for held in each.wanted):
            report = await self._watch.look()
            if not report.known:
                fail_all(starts, ResourceExhausted(coded("gpus.unknown", report.reason)))
                return
            seen = _by_uuid(report)
        changes: dict[ComputeMode, list[Gpu]] = {}
        for each in starts:
            try:
                entered = self._enter_all(each, seen)
            except ResourceExhausted as error:
                each.fail(error)
                continue
            for gpu, mode in entered:
                changes.setdefault(mode, []).append(gpu)
                seen[gpu.uuid] = msgspec.structs.replace(gpu, mode=mode)
        if changes and await self._stored_for(starts):
            await self._set_all(changes, starts)

    def _enter_all(self, start: ModeRequest, seen: Mapping[str, Gpu]) -> list[tuple[Gpu, ComputeMode]]:
        """Note that the attempt has its GPUs in its modes; those that must be set. Raises ResourceExhausted."""
        found = []
        for held in start.wanted:
            gpu, mode = seen.get(held.uuid), MODE_OF_CLAIM[held.claim]
            if gpu is None:
                raise ResourceExhausted(coded("gpu.gone", held.index, held.uuid))
            if self._enter(start.name, gpu, mode):
                found.append((gpu, mode))
        return found

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

    async def _set_all(self, changes: Mapping[ComputeMode, list[Gpu]], starts: Sequence[ModeRequest]) -> None:
        """Set them, and see that they are; those whose GPU is not fail."""
        wrong: dict[str, AnyText] = {}
        for mode, gpus in changes.items():
            for gpu, error in await self._each_set(gpus, mode):
                if isinstance(error, Conflict):
                    self._stuck[gpu.uuid] = self._clock.monotonic() + STUCK_S
                if error is not None:
                    wrong[gpu.uuid] = error.said
        seen = _by_uuid(await self._watch.look())
        for mode, gpus in changes.items():
            for gpu in gpus:
                now = seen.get(gpu.uuid)
                if now is None or now.mode is not mode:
                    shown = coded("mode.unknown") if now is None or now.mode is None else str(now.mode)
                    wrong.setdefault(gpu.uuid, coded("mode.put_in_vain", gpu.index, gpu.uuid, str(mode), shown))
        for each in starts:
            why = next((wrong[held.uuid] for held in each.wanted if held.uuid in wrong), "")
            if why:
                each.fail(ResourceExhausted(why))

    async def _stored_for(self, starts: Sequence[ModeRequest]) -> bool:
        """Whether all that they need is on disk; if not they fail."""
        try:
            await self._store()
        except ResourceExhausted as error:
            fail_all(starts, error)
            return False
        return True

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
        async with self._requests.lock:
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


def _is_set(gpu: Gpu, setting: ModeSetting) -> bool:
    """Whether the GPU is in the mode of its jobs, and that is not the one to which it goes back."""
    return gpu.mode is setting.given is not setting.standing


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
