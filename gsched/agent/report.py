"""What the host is like, upward: GPUs when they change, load at its interval, elims' values as they come.

Each source is guarded on its own: one that fails is unknown, the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec

from gsched.agent.gpuowners import Given, GpuOwners, Owners
from gsched.base.clock import Clock
from gsched.base.errors import GschedError
from gsched.base.gpulock import GpuLockError, lock_gpus, release
from gsched.model.devices import offer_of
from gsched.model.host import ComputeMode, Gpu, GpuReport, LoadReport
from gsched.probe.elim import ElimResource, ElimRunner
from gsched.probe.gpu import GpuProbe, probe_for
from gsched.probe.load import LoadSampler
from gsched.wire.convert import fill
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)


def no_owners(pids: Iterable[int]) -> Mapping[int, str]:
    """Of no process it is known whose it is."""
    return {}


def shown_of(report: GpuReport | None) -> tuple[GpuReport | None, object]:
    """What is told as soon as it changes: what can be claimed, and who is on the GPUs."""
    gpus = () if report is None else report.gpus
    return offer_of(report), [([(each.pid, each.job) for each in gpu.processes], gpu.over_gmem) for gpu in gpus]


class HostReporter:
    """Samples and sends. `send` puts a message into the stream to the master (or drops it when there is none)."""

    def __init__(
        self,
        host: str,
        conf_dir: str,
        cluster: str,
        clock: Clock,
        *,
        send: Callable[[agent_pb2.AgentMessage], None],
        owners: Owners = no_owners,
        given: Given = dict,
    ) -> None:
        self._host = host
        self._conf_dir = conf_dir
        self._cluster = cluster
        self._send = send
        self._clock = clock
        self._sampler = LoadSampler(clock)
        self._settings: agent_pb2.Settings | None = None
        self._probe: GpuProbe | None = None
        self._provider = ""
        self._elims: ElimRunner | None = None
        self._gpus: GpuReport | None = None
        self._sent: tuple[float, GpuReport | None] = (0.0, None)
        """When (monotonic) and what the master was told of the GPUs last."""
        self._owners = GpuOwners(owners, given)
        self._looked = asyncio.Event()
        self.unfenced = ""
        """Why jobs of this host are not fenced off from foreign GPUs; goes into every report."""
        self._notes: tuple[str, ...] = ()
        self._mode_set = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._configuring = asyncio.Lock()
        self._load_due = asyncio.Event()

    @property
    def gpus(self) -> GpuReport | None:
        """What was seen last; None before the first look."""
        return self._gpus

    async def first_gpus(self) -> GpuReport:
        """What was seen last, as soon as anything was."""
        await self._looked.wait()
        assert self._gpus is not None
        return self._gpus

    @property
    def has_real_gpus(self) -> bool:
        """Whether GPUs are shared with whatever else runs on the machine."""
        return self._gpus is not None and self._gpus.provider == "nvml"

    async def configure(self, settings: agent_pb2.Settings) -> None:
        """Take over the master's settings; begins to report with the first ones."""
        self._settings = settings
        async with self._configuring:  # a second one may come while slow probes still answer the first
            try:
                await self._apply(self._settings)
            finally:
                if not self._tasks:
                    self._tasks = [self._spawn(self._watch_gpus()), self._spawn(self._watch_load())]

    async def _apply(self, settings: agent_pb2.Settings) -> None:
        if self._provider != settings.gpu_provider:
            await self._change_probe(settings.gpu_provider)
        await self._set_mode_once(settings.compute_mode)
        if self._elims is None:
            self._elims = ElimRunner(
                settings.server_dir,
                conf_dir=self._conf_dir,
                restart_s=settings.elim_restart_s,
                clock=self._clock,
                on_change=self._load_due.set,
            )
        wanted = {
            resource.name: ElimResource(interval_s=resource.interval_s, is_string=resource.is_string)
            for resource in settings.resources
        }
        await self._elims.reconfigure(wanted, is_master=settings.is_master_host)
        await self._sample_gpus()
        self.announce()

    def announce(self) -> None:
        """Tell everything now, to a master that has just heard hello."""
        if self._gpus is not None:
            self._send_gpus(self._gpus)
        self._load_due.set()

    async def close(self) -> None:
        """End what samples."""
        for task in self._tasks:
            task.cancel()
        if self._elims is not None:
            await self._elims.close()
        if self._probe is not None:
            await self._probe.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(work)

    # -- GPUs -----------------------------------------------------------------------------------------------------

    async def _change_probe(self, provider: str) -> None:
        if self._probe is not None:
            await self._probe.close()
        self._provider = provider
        try:
            self._probe = probe_for(provider, self._host)
            self._notes = ()
        except GschedError as error:
            self._probe, self._notes = None, (error.text,)

    async def _set_mode_once(self, mode: str) -> None:
        """GPU_MODE of lsb.hosts is re-applied when the agent starts (a reboot loses it) and when it changes."""
        if not mode or mode == self._mode_set or self._probe is None:
            return
        self._mode_set = mode
        report = await self._probe.sample()
        wrong = [gpu.index for gpu in report.gpus if gpu.mode != mode]
        try:
            await self._probe.set_mode(wrong, ComputeMode(mode))
        except (GschedError, ValueError) as error:
            self._notes = (*self._notes, f"GPU_MODE {mode} could not be set: {error}")

    async def _watch_gpus(self) -> None:
        while True:
            assert self._settings is not None
            await asyncio.sleep(self._settings.gpu_probe_s)  # the driver has no event for all that can change
            await self._sample_gpus()

    async def _sample_gpus(self) -> None:
        try:
            report = await self._gpu_report()
        except Exception as error:  # unknown, not zero and not the end of reporting
            log.exception("the GPUs cannot be probed")
            report = GpuReport(known=False, reason=f"the probe failed: {error}")
        report = msgspec.structs.replace(report, unfenced=self.unfenced)
        self._gpus = report
        self._looked.set()
        if self._is_news(report):
            self._send_gpus(report)

    def _is_news(self, report: GpuReport) -> bool:
        """Readings move all the time and go at the load's pace; what else changes is told at once."""
        at, before = self._sent
        if report == before:
            return False
        is_due = self._settings is None or self._clock.monotonic() - at >= self._settings.exchange_s
        return is_due or shown_of(report) != shown_of(before)

    async def _gpu_report(self) -> GpuReport:
        if self._probe is None:
            return GpuReport(known=False, reason="; ".join(self._notes) or "no probe")
        report = await self._probe.sample()
        if report.provider == "nvml" and report.known:
            report = msgspec.structs.replace(report, gpus=tuple(self._unlocked(gpu) for gpu in report.gpus))
        return await self._owners.told(report)

    def _unlocked(self, gpu: Gpu) -> Gpu:
        """The GPU, marked when another cluster on this machine uses it."""
        try:
            release(lock_gpus([gpu.uuid], self._cluster, patience_s=0.0))
        except GpuLockError as error:
            return msgspec.structs.replace(gpu, problem=gpu.problem or str(error))
        return gpu

    def _send_gpus(self, report: GpuReport) -> None:
        self._sent = (self._clock.monotonic(), report)
        message = agent_pb2.AgentMessage()
        fill(message.gpus, report)
        message.gpus.SetInParent()
        self._send(message)

    # -- load -----------------------------------------------------------------------------------------------------

    async def _watch_load(self) -> None:
        while True:
            assert self._settings is not None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._load_due.wait(), self._settings.exchange_s)
            self._load_due.clear()
            try:
                report = self._load()
            except Exception:  # the next look may succeed; meanwhile the last values grow old
                log.exception("the load cannot be sampled")
                continue
            message = agent_pb2.AgentMessage()
            fill(message.load, report)
            message.load.SetInParent()
            self._send(message)

    def _load(self) -> LoadReport:
        report = self._sampler.sample()
        if self._elims is None:
            return report
        return msgspec.structs.replace(
            report,
            indices={**report.indices, **self._elims.overrides()},
            external=self._elims.values(),
            notes=(*report.notes, *self._notes, *self._elims.notes()),
        )
