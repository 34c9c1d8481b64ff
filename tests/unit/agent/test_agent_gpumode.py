"""GPU_MODE of lsb.hosts: set at the agent's start, also where the driver answers later than that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gsched.agent.gpu import gpu_watch
from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport


class Driver:
    """One GPU in mode Default; `known`: whether it can be read."""

    def __init__(self) -> None:
        self.known = True
        self.mode = ComputeMode.DEFAULT
        self.set: list[ComputeMode] = []

    async def sample(self) -> GpuReport:
        return GpuReport(known=self.known, gpus=(Gpu(uuid="GPU-a", index=0, mode=self.mode),) if self.known else ())

    async def set_mode(self, indexes: Sequence[int], mode: ComputeMode) -> None:
        assert list(indexes) == [0]
        self.mode = mode
        self.set.append(mode)

    async def close(self) -> None: ...


@pytest.mark.parametrize("wanted_later", ["exclusive_process", "prohibited", ""])
def test_a_driver_that_answers_late_is_told_the_mode_then(monkeypatch: pytest.MonkeyPatch, wanted_later: str) -> None:
    driver = Driver()
    driver.known = False
    monkeypatch.setattr(gpu_watch, "probe_for", lambda provider, host, on_news: driver)

    async def story() -> None:
        heard: asyncio.Queue[GpuReport] = asyncio.Queue()
        watch = GpuWatch("h", "c", GpuOwners(lambda pids: {}), on_look=heard.put_nowait)
        await watch.use("nvml", "exclusive_process")
        assert not (await watch.look()).known and not (await heard.get()).known
        await watch.use("nvml", wanted_later)
        driver.known = True
        await watch.look()
        assert (await heard.get()).gpus[0].mode is ComputeMode.DEFAULT
        if wanted_later:
            told = await asyncio.wait_for(heard.get(), 60)
            assert told.gpus[0].mode == wanted_later
        await watch.look()
        await watch.close()

    asyncio.run(story())
    assert driver.set == ([ComputeMode(wanted_later)] if wanted_later else []), "and once only"
