"""A host with running attempts, whose driver says what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from gsched.agent.gpu_use.gpu_use_recorder import GpuUseRecorder
from gsched.base.ids import attempt_name
from gsched.model.gpus.gpu_use import DeviceUse, GpuUsage, ProcessUse
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from tests.support.manual_clock import ManualClock

KEY, OTHER = (7, 1), (8, 1)


def part(*uuids: str, parent: str = "") -> HostAllocation:
    gpus = tuple(HeldGpu(uuid=uuid, index=place, claim="", parent=parent) for place, uuid in enumerate(uuids))
    return HostAllocation(host="h", slots=1, gpus=gpus)


def busy(percent: float | None, *processes: ProcessUse, energy_j: float | None = None) -> DeviceUse:
    return DeviceUse(
        uuid="GPU-a",
        sm_percent=percent,
        used_mib=1000.0,
        traffic_percent=5.0,
        power_w=100.0,
        energy_j=energy_j,
        throttle=0x8,
        counters={"ecc_errors": 1.0, "pcie_tx_mib": (energy_j or 0.0) / 10},
        profile={"tensor": 4.0},
        processes=processes,
    )


class Host:
    """A host with running attempts, whose driver says what a test wants."""

    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self.clock = ManualClock()
        self.running: dict[AttemptKey, HostAllocation] = {}
        self.suspended: set[AttemptKey] = set()
        self.uses: dict[str, DeviceUse] = {}
        self.owner: dict[int, str] = {}
        self.looks: list[Collection[str]] = []
        self.recorder = self.agent()

    def agent(self) -> GpuUseRecorder:
        return GpuUseRecorder(
            "h",
            self.clock,
            read=self.read,
            running=lambda: self.running,
            holding=lambda: self.running,
            owners=self.owners,
            folder=lambda key: self.spool / attempt_name(*key),
            is_suspended=lambda key: key in self.suspended,
        )

    async def read(self, uuids: Collection[str]) -> Mapping[str, DeviceUse]:
        self.looks.append(uuids)
        return dict(self.uses)

    def owners(self, pids: Iterable[int]) -> Mapping[int, str]:
        return {pid: self.owner[pid] for pid in pids if pid in self.owner}

    def start(self, key: AttemptKey, what: HostAllocation) -> None:
        self.running[key] = what
        (self.spool / attempt_name(*key)).mkdir()
        self.sample(None)

    def sample(self, use: DeviceUse | None, *, after_s: float = 0.0) -> None:
        self.clock.advance(after_s)
        if use is not None:
            self.uses = {use.uuid: use}
        asyncio.run(self.recorder.sample())

    def end(self, key: AttemptKey) -> tuple[GpuUsage, ...]:
        return asyncio.run(self.recorder.end(key, self.running.pop(key)))
