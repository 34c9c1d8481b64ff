"""What the host is like, upward: GPUs when they change, readings and load in an interval, elims' values as they come.

Each source is guarded on its own: one that fails is unknown, the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec

from gsched.agent.gpu.gpu_owners import Given, GpuOwners, Held, Owners, any_gpu
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.agent.load_changes import is_news
from gsched.agent.report_schedule import rest_s
from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText
from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.model.hosts.host import GpuReport, LoadReport
from gsched.model.ledgers.devices import offer_of
from gsched.probe.elims.elim import ElimResource, ElimRules, ElimRunner
from gsched.probe.load import LoadSampler
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)


def no_owners(pids: Iterable[int]) -> Mapping[int, str]:
    """An `Owners` that knows the attempt of no process."""
    return {}


def shown_of(report: GpuReport | None) -> tuple[GpuReport | None, object]:
    """What is told as soon as it changes: what can be claimed, and who is on the GPUs."""
    gpus = () if report is None else report.gpus
    users = [[(each.pid, each.job, each.escaped) for each in gpu.processes] for gpu in gpus]
    seen = [(gpu.over_gmem, gpu.foreign_pids, gpu.left_behind, gpu.fault, gpu.hit, gpu.xids) for gpu in gpus]
    return offer_of(report), (users, seen)


class HostReporter:
    """Samples and sends. `send` puts a message into the stream to the master (or drops it when there is none)."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        host: str,
        conf_dir: str,
        cluster: str,
        clock: Clock,
        *,
        send: Callable[[agent_pb2.AgentMessage], None],
        owners: Owners = no_owners,
        given: Given = dict,
        held: Held = any_gpu,
        locks: GpuLockFolders | None = None,
        may_run: Callable[[str], AnyText] | None = None,
    ) -> None:
        """`may_run` says why an elim must not be run; empty when it may."""
        self._host = host
        self._conf_dir = conf_dir
        self._send = send
        self._clock = clock
        self._sampler = LoadSampler(clock)
        self._settings: agent_pb2.Settings | None = None
        self._may_run = may_run
        self._elims: ElimRunner | None = None
        self._gpus_sent: GpuReport | None = None
        """What the master was told of the GPUs last."""
        self._load_sent: tuple[float, LoadReport | None] = (0.0, None)
        """When (monotonic), and what it was told of the load last."""
        self.gpus = GpuWatch(host, cluster, GpuOwners(owners, given, held), on_look=self._tell_gpus, locks=locks)
        self.remarks: list[Callable[[], tuple[AnyText, ...]]] = []
        """What else is to be said of the host, asked at each report of the load."""
        self._tasks: list[asyncio.Task[None]] = []
        self._configuring = asyncio.Lock()
        self._load_due = asyncio.Event()
        self._interval_due = asyncio.Event()

    async def configure(self, settings: agent_pb2.Settings) -> None:
        """Take over the master's settings; begins to report with the first ones."""
        self._settings = settings
        self._interval_due.set()
        async with self._configuring:  # a second one may come while slow probes still answer the first
            try:
                await self._apply(self._settings)
            finally:
                if not self._tasks:
                    self._tasks = [self._spawn(self._watch_gpus()), self._spawn(self._watch_load())]

    async def _apply(self, settings: agent_pb2.Settings) -> None:
        await self.gpus.use(settings.gpu_provider, settings.compute_mode)
        if self._elims is None:
            self._elims = ElimRunner(
                settings.server_dir,
                conf_dir=self._conf_dir,
                clock=self._clock,
                on_change=self._load_due.set,
                may_run=self._may_run,
            )
        wanted = {
            resource.name: ElimResource(interval_s=resource.interval_s, is_string=resource.is_string)
            for resource in settings.resources
        }
        rules = ElimRules(
            restart_s=settings.elim_restart_s,
            block_s=settings.elim_block_s if settings.HasField("elim_block_s") else None,
            restarts=settings.elim_restarts if settings.HasField("elim_restarts") else None,
            debug=settings.elim_debug,
            arguments=tuple(settings.elim_arguments),
        )
        await self._elims.reconfigure(wanted, is_master=settings.is_master_host, rules=rules)
        await self.gpus.look()
        self.announce()

    def announce(self) -> None:
        """Tell everything now, to a master that has just heard hello."""
        if self.gpus.gpus is not None:
            self._send_gpus(self.gpus.gpus)
        self._load_due.set()

    def tell_soon(self) -> None:
        """What is said of the host has changed: the next report of the load is due now."""
        self._load_due.set()

    async def close(self) -> None:
        """End what samples."""
        for task in self._tasks:
            task.cancel()
        if self._elims is not None:
            await self._elims.close()
        await self.gpus.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(work)

    # -- GPUs -----------------------------------------------------------------------------------------------------

    async def _watch_gpus(self) -> None:
        while True:
            assert self._settings is not None
            try:  # the driver has no event for all that can change
                async with asyncio.timeout(self._rest_s(self._settings.gpu_probe_s)):
                    await self._interval_due.wait()
            except TimeoutError:
                await self.gpus.look()
            else:  # another interval holds from now on
                self._interval_due.clear()

    def _rest_s(self, interval_s: float) -> float:
        return rest_s(self._host, interval_s, self._clock.now())

    def _tell_gpus(self, report: GpuReport) -> None:
        """What else than readings has changed is told at once. Readings move all the time, and go with the load."""
        if shown_of(report) != shown_of(self._gpus_sent):
            self._send_gpus(report)

    def _tell_readings(self) -> None:
        report = self.gpus.gpus
        if report is not None and report != self._gpus_sent:
            self._send_gpus(report, can_wait=True)

    def _send_gpus(self, report: GpuReport, *, can_wait: bool = False) -> None:
        self._gpus_sent = report
        message = agent_pb2.AgentMessage(can_wait=can_wait)
        fill(message.gpus, report)
        message.gpus.SetInParent()
        self._send(message)

    # -- load -----------------------------------------------------------------------------------------------------

    async def _watch_load(self) -> None:
        while True:
            assert self._settings is not None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s(self._settings.exchange_s)):
                    await self._load_due.wait()
            is_asked = self._load_due.is_set()
            self._load_due.clear()
            self.tell_interval(is_asked=is_asked)

    def tell_interval(self, *, is_asked: bool = False) -> None:
        """Load, and readings as the last look saw them, if they say anything new; `is_asked`: the load, and at once."""
        if not is_asked:
            self._tell_readings()
        try:
            report = self._load()
        except Exception:  # the next look may succeed; meanwhile the last values grow old
            log.exception("the load cannot be sampled")
            return
        if is_asked or self._is_load_news(report):
            self._send_load(report, can_wait=not is_asked)

    def _is_load_news(self, report: LoadReport) -> bool:
        """A host at rest tells its load as often as it has to show that it lives."""
        at, before = self._load_sent
        assert self._settings is not None
        if before is None or self._clock.monotonic() - at + self._settings.exchange_s / 2 >= self._settings.quiet_s:
            return True
        return is_news(report, before)

    def _send_load(self, report: LoadReport, *, can_wait: bool) -> None:
        self._load_sent = (self._clock.monotonic(), report)
        message = agent_pb2.AgentMessage(can_wait=can_wait)
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
            notes=(
                *report.notes,
                *self.gpus.all_notes,
                *self._elims.notes(),
                *(line for remarks in self.remarks for line in remarks()),
            ),
        )
