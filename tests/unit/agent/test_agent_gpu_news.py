"""The driver tells of errors as they come: the agent looks at once, and not for each of a thousand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from gsched.agent.gpu import gpu_watch
from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.model.hosts.host import GpuReport


class Probe:
    """Counts its samples; whoever waits for one is woken."""

    def __init__(self) -> None:
        self.samples = 0
        self.sampled = asyncio.Event()
        self.on_news: Callable[[], None] = lambda: None

    async def sample(self) -> GpuReport:
        self.samples += 1
        self.sampled.set()
        return GpuReport(provider="nvml")

    async def close(self) -> None: ...


def test_a_storm_of_errors_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_watch, "STIRRED_PAUSE_S", 0.5)

    async def story() -> None:
        probe = Probe()

        def probe_for(provider: str, host: str, on_news: Callable[[], None]) -> Probe:
            probe.on_news = on_news
            return probe

        monkeypatch.setattr(gpu_watch, "probe_for", probe_for)
        watch = GpuWatch("h", "c", GpuOwners(lambda pids: {}))
        await watch.use("nvml", "")
        probe.on_news()
        await asyncio.wait_for(probe.sampled.wait(), 60)
        assert probe.samples == 1
        probe.sampled.clear()
        began = time.monotonic()
        for _ in range(1000):
            probe.on_news()
            await asyncio.sleep(0)
        await asyncio.wait_for(probe.sampled.wait(), 60)  # what came meanwhile is not forgotten
        assert 2 <= probe.samples <= 2 + (time.monotonic() - began) / 0.5
        await watch.close()

    asyncio.run(story())
