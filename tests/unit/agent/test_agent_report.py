"""When the master hears of GPUs: what can be claimed and who is on them at once, readings together with the load."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from gsched.agent.host_report import HostReporter
from gsched.model.hosts.host import ComputeMode
from gsched.probe.simulated.inventory import write_inventory
from gsched.probe.simulated.inventory_entry import simulated_gpu
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock


def test_readings_are_told_with_the_load_and_news_at_once(tmp_path: Path) -> None:
    clock, heard = ManualClock(), []
    file = tmp_path / "h.json"
    gpu = simulated_gpu("h", 0)

    async def story() -> None:
        reporter = HostReporter("h", str(tmp_path), "c", clock, send=heard.append)
        settings = agent_pb2.Settings(gpu_provider=f"sim:{tmp_path}", exchange_s=1000, gpu_probe_s=1000)

        async def sampled(**facts: object) -> list[bool]:
            """Of what is told of GPUs: whether it can wait."""
            write_inventory(file, [msgspec.structs.replace(gpu, **facts)])
            heard.clear()
            await reporter.gpus.look()
            return [each.can_wait for each in heard if each.HasField("gpus")]

        def in_its_interval() -> list[tuple[str | None, bool]]:
            heard.clear()
            reporter.tell_interval()
            return [(each.WhichOneof("kind"), each.can_wait) for each in heard]

        write_inventory(file, [gpu])
        try:
            await reporter.configure(settings)
            assert await sampled() == []
            assert await sampled(temperature_c=50) == []
            assert await sampled(temperature_c=51, mode=ComputeMode.PROHIBITED) == [False]
            assert await sampled(temperature_c=52, mode=ComputeMode.PROHIBITED) == []
            assert in_its_interval() == [("gpus", True), ("load", True)]
            assert ("gpus", True) not in in_its_interval()
            assert await sampled(temperature_c=53, mode=ComputeMode.PROHIBITED) == []
            assert ("gpus", True) in in_its_interval()
        finally:
            await reporter.close()

    asyncio.run(story())


def test_another_interval_holds_at_once(tmp_path: Path) -> None:
    """Not only after the rest of the old one, which may be long."""
    file = tmp_path / "h.json"
    gpu = simulated_gpu("h", 0)
    write_inventory(file, [gpu])

    async def story() -> None:
        prohibited = asyncio.Event()

        def tell(message: agent_pb2.AgentMessage) -> None:
            if message.HasField("gpus") and message.gpus.gpus[0].mode == ComputeMode.PROHIBITED:
                prohibited.set()

        reporter = HostReporter("h", str(tmp_path), "c", ManualClock(), send=tell)
        settings = agent_pb2.Settings(gpu_provider=f"sim:{tmp_path}", exchange_s=15, gpu_probe_s=1000)
        try:
            await reporter.configure(settings)
            await asyncio.sleep(0)
            settings.gpu_probe_s = 0.01
            await reporter.configure(settings)
            write_inventory(file, [msgspec.structs.replace(gpu, mode=ComputeMode.PROHIBITED)])
            await asyncio.wait_for(prohibited.wait(), 60)
        finally:
            await reporter.close()

    asyncio.run(story())
