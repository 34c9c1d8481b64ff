"""The agent's look at its GPUs: the probe, whose processes are on them, and what follows from that.

A look never raises: what fails is unknown. Nothing is told to the master here, and nobody is signalled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import msgspec

from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.errors import GschedError, Unavailable
from gsched.base.machine.gpu_lock import GpuLockError, GpuLockFolders, lock_gpus, places, release
from gsched.model.gpus.gpu_use import DeviceUse
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.probe.gpu import GpuProbe, probe_for

log = logging.getLogger(__name__)

STIRRED_PAUSE_S = 1.0
"""Shortest time between two looks that the driver asks for: a program may raise errors all the time."""

JudgeReport = Callable[[GpuReport], GpuReport]
"""Completes a report by what follows from it: why a GPU must not be offered (`Gpu.problem`), whom it is closed for."""


MayBeSet = Callable[[GpuReport, ComputeMode], Awaitable[Sequence[int]]]
"""Indexes of the GPUs that may be put into a mode."""


async def _all_others(report: GpuReport, mode: ComputeMode) -> Sequence[int]:
    return [gpu.index for gpu in report.gpus if gpu.mode is not mode]


class GpuWatch:
    """The GPUs of one host. `on_look` hears of every look; `judges` complete each report, one after the other."""

    def __init__(
        self,
        host: str,
        cluster: str,
        owners: GpuOwners,
        *,
        on_look: Callable[[GpuReport], None] = lambda report: None,
        judges: Sequence[JudgeReport] = (),
        locks: GpuLockFolders | None = None,
    ) -> None:
        self._host = host
        self._cluster = cluster
        self._owners = owners
        self._locks = locks or places(is_shared=False)
        self._on_look = on_look
        self.judges: list[JudgeReport] = list(judges)
        self.may_be_set: MayBeSet = _all_others
        """Whom GPU_MODE of lsb.hosts may be set on now."""
        self._probe: GpuProbe | None = None
        self._provider = ""
        self._mode_set = ""
        self._mode_due = ""
        """GPU_MODE, as long as it has not been set."""
        self._setting: asyncio.Task[None] | None = None
        self._last: GpuReport | None = None
        self._chosen = asyncio.Event()
        self._looked = asyncio.Event()
        self._now: asyncio.Task[GpuReport] | None = None
        self._next: asyncio.Task[GpuReport] | None = None
        self._has_news = False
        self._looking_for_news: asyncio.Task[None] | None = None
        self.unfenced: AnyText = ""
        """Why jobs of this host are not fenced off from foreign GPUs; goes into every report."""
        self.notes: tuple[AnyText, ...] = ()
        """What is wrong with the probe and with GPU_MODE."""
        self.remarks: list[Callable[[], Sequence[AnyText]]] = []
        """What else is to be said in `ghosts -l`."""

    @property
    def all_notes(self) -> tuple[AnyText, ...]:
        """Lines for `ghosts -l`."""
        return (*self.notes, *(line for remarks in self.remarks for line in remarks()))

    @property
    def gpus(self) -> GpuReport | None:
        """What was seen last; None before the first look."""
        return self._last

    async def first_gpus(self) -> GpuReport:
        """What was seen last, as soon as anything was."""
        await self._looked.wait()
        assert self._last is not None
        return self._last

    async def chosen(self) -> None:
        """Wait until the master has said how to probe: before that nothing is known, and nobody can be told."""
        await self._chosen.wait()

    @property
    def has_real_gpus(self) -> bool:
        """Whether GPUs are shared with whatever else runs on the machine."""
        return self._last is not None and self._last.provider == "nvml"

    async def use(self, provider: str, mode: str) -> None:
        """Probe as GSCHED_GPU_PROVIDER says. GPU_MODE of lsb.hosts is set when the agent starts (a reboot loses it)
        and when it changes.
        """
        if provider != self._provider:
            await self._change_probe(provider)
        self._chosen.set()
        self._mode_due = mode if mode != self._mode_set else ""
        await self._set_due_mode()

    async def _change_probe(self, provider: str) -> None:
        if self._probe is not None:
            await self._probe.close()
        self._provider = provider
        try:
            self._probe = probe_for(provider, self._host, self._notify)
            self.notes = ()
        except GschedError as error:
            self._probe, self.notes = None, (error.said,)

    async def _set_due_mode(self) -> None:
        """Once; where the GPUs are unknown, after the first look that sees them."""
        mode = self._mode_due
        if not mode or self._probe is None:
            return
        report = await self._probe.sample()
        if not report.known or mode != self._mode_due:
            return
        self._mode_set, self._mode_due = mode, ""
        try:
            wrong = await self.may_be_set(report, ComputeMode(mode))
            await self._probe.set_mode(wrong, ComputeMode(mode))
        except (GschedError, ValueError) as error:
            why = error.said if isinstance(error, GschedError) else str(error)
            self.notes = (*self.notes, coded("remark.gpu_mode", mode, why))

    async def read_use(self, uuids: Collection[str]) -> Mapping[str, DeviceUse]:
        """What is made of these GPUs, and of their parts, now; those that do not tell are missing."""
        if self._probe is None or self._last is None:
            return {}
        indexes = sorted(gpu.index for gpu in self._last.gpus if gpu.uuid in uuids)
        found = await self._probe.use(indexes)
        return {each.uuid: each for use in found for each in (use, *use.parts)}

    def xids_of(self, name: str) -> Sequence[int]:
        """The driver's errors of GPUs that the attempt held when they were seen, as far as they are remembered."""
        gpus = self._last.gpus if self._last is not None else ()
        return [xid.number for gpu in gpus for xid in gpu.xids if name in xid.jobs]

    async def set_mode(self, indexes: Sequence[int], mode: ComputeMode) -> None:
        """Put the GPUs with these indexes into a compute mode. Raises GschedError with one line saying why not."""
        if self._probe is None:
            raise Unavailable(coded("probe.not_yet"))
        await self._probe.set_mode(indexes, mode)

    @property
    def why_no_modes(self) -> AnyText:
        """Why no compute mode can be set; empty when one may be."""
        return self._probe.why_no_modes() if self._probe is not None else coded("probe.no_look")

    async def look(self) -> GpuReport:
        """What is seen by a look that begins from now on: all who ask while one is under way share the next."""
        if self._next is None:
            self._next = asyncio.create_task(self._look_after(self._now))
        return await asyncio.shield(self._next)

    async def _look_after(self, before: asyncio.Task[GpuReport] | None) -> GpuReport:
        if before is not None:
            await asyncio.wait([before])
        self._now, self._next = self._next, None
        if not self._chosen.is_set():  # that is no look: whoever waits for the first one waits on
            return GpuReport(known=False, reason=coded("probe.not_chosen"))
        try:
            report = await self._report()
        except Exception as error:  # unknown, not zero and not the end of reporting
            log.exception("the GPUs cannot be probed")
            report = GpuReport(known=False, reason=coded("probe.failed", str(error)))
        self._last = report = msgspec.structs.replace(report, unfenced=self.unfenced)
        self._looked.set()
        self._on_look(report)
        if report.known and self._mode_due and (self._setting is None or self._setting.done()):
            self._setting = asyncio.create_task(self._set_mode_late())
        return report

    async def _set_mode_late(self) -> None:
        await self._set_due_mode()
        await self.look()

    async def _report(self) -> GpuReport:
        if self._probe is None:
            return GpuReport(known=False, reason=listed(self.notes, "list.semicolon") or coded("probe.none"))
        report = await self._probe.sample()
        if report.provider == "nvml" and report.known:
            report = msgspec.structs.replace(report, gpus=tuple(self._unlocked(gpu) for gpu in report.gpus))
        report = await self._owners.told(report)
        for judge in self.judges:
            report = judge(report)
        return report

    def _notify(self) -> None:
        """The driver has told of something: look at once, but not again and again."""
        self._has_news = True
        if self._looking_for_news is None or self._looking_for_news.done():
            self._looking_for_news = asyncio.create_task(self._look_for_news())

    async def _look_for_news(self) -> None:
        while self._has_news:
            self._has_news = False
            await self.look()
            await asyncio.sleep(STIRRED_PAUSE_S)

    def _unlocked(self, gpu: Gpu) -> Gpu:
        """The GPU, marked when another cluster on this machine uses it."""
        why = self._why_locked(gpu.uuid)
        return msgspec.structs.replace(gpu, problem=gpu.problem or why) if why else gpu

    def _why_locked(self, uuid: str) -> AnyText:
        try:
            release(lock_gpus([uuid], self._cluster, self._locks, patience_s=0.0))
        except GpuLockError as error:
            return error.said
        return ""

    def why_locked(self, uuid: str) -> AnyText:
        """Why another cluster on this machine keeps the GPU; empty when none does. Simulated ones are nobody else's."""
        return self._why_locked(uuid) if self.has_real_gpus else ""

    async def close(self) -> None:
        """End what probes."""
        if self._looking_for_news is not None:
            self._looking_for_news.cancel()
        if self._setting is not None:
            self._setting.cancel()
        if self._probe is not None:
            await self._probe.close()
