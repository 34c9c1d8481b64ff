"""When the master hears of GPUs: what can be claimed and who is on them at once, readings at the load's pace."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import msgspec

from gsched.agent.host_report import HostReporter
from gsched.agent.report_schedule import rest_s
from gsched.model.hosts.host import ComputeMode
from gsched.probe.simulated.inventory import write_inventory
from gsched.probe.simulated.inventory_entry import simulated_gpu
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock


def test_readings_are_told_at_the_pace_of_the_load_and_news_at_once(tmp_path: Path) -> None:
    clock, heard = ManualClock(), []
    file = tmp_path / "h.json"
    gpu = simulated_gpu("h", 0)

    def tell(message: agent_pb2.AgentMessage) -> None:
        heard.extend([message.gpus] if message.HasField("gpus") else [])

    async def story() -> None:
        reporter = HostReporter("h", str(tmp_path), "c", clock, send=tell)
        settings = agent_pb2.Settings(gpu_provider=f"sim:{tmp_path}", exchange_s=15, gpu_probe_s=1000)

        async def sampled(**facts: object) -> int:
            write_inventory(file, [msgspec.structs.replace(gpu, **facts)])
            before = len(heard)
            await reporter.gpus.look()
            return len(heard) - before

        write_inventory(file, [gpu])
        try:
            clock.advance(rest_s("h", "readings", 15, clock.now()))
            await reporter.configure(settings)
            assert await sampled() == 0
            assert await sampled(temperature_c=50) == 0
            assert await sampled(temperature_c=50, mode=ComputeMode.PROHIBITED) == 1
            clock.advance(14.0)
            assert await sampled(temperature_c=51, mode=ComputeMode.PROHIBITED) == 0
            clock.advance(1.5)
            assert await sampled(temperature_c=52, mode=ComputeMode.PROHIBITED) == 1
            assert heard[-1].gpus[0].temperature_c == 52
            clock.advance(60.0)
            assert await sampled(temperature_c=52, mode=ComputeMode.PROHIBITED) == 0
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


def test_each_host_of_a_fleet_tells_its_readings_at_a_moment_of_its_own(tmp_path: Path) -> None:
    """They all say hello when their master begins: what comes after that must not come from all at once, too."""
    told: dict[str, list[int]] = {}
    hosts = [f"n{number}" for number in range(8)]

    async def story(host: str) -> None:
        clock, file = ManualClock(), tmp_path / f"{host}.json"
        clock.advance(rest_s("fleet", "start", 15, clock.now()))
        gpu = simulated_gpu(host, 0)
        write_inventory(file, [gpu])
        heard = told[host] = []

        def tell(message: agent_pb2.AgentMessage) -> None:
            heard.extend([second] if message.HasField("gpus") else [])

        reporter = HostReporter(host, str(tmp_path), "c", clock, send=tell)
        second = 0
        try:
            await reporter.configure(
                agent_pb2.Settings(gpu_provider=f"sim:{tmp_path}", exchange_s=15, gpu_probe_s=1000)
            )
            for second in range(1, 45):
                clock.advance(1.0)
                write_inventory(file, [msgspec.structs.replace(gpu, temperature_c=second)])
                await reporter.gpus.look()
        finally:
            await reporter.close()

    for host in hosts:
        asyncio.run(story(host))
    for seconds in told.values():
        later = [each for each in seconds if each]
        assert seconds[0] == 0 and 2 <= len(later) <= 3
        assert all(after - before == 15 for before, after in itertools.pairwise(later))
    assert len({seconds[-1] for seconds in told.values()}) > 4
