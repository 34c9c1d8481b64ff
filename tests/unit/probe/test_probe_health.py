"""What the probe in its own process tells of sick GPUs: errors of the driver, worn memory, and GPUs that hang."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest
from bounded_loop import run_async

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.model.hosts.host import Gpu, GpuReport, GpuXid
from gsched.probe.gpu import SimulatedProbe
from gsched.probe.nvidia import nvml_child
from gsched.probe.nvidia.nvml import SILENT
from gsched.probe.nvidia.nvml_child import NvmlProbe
from gsched.probe.nvidia.nvml_patience import NvmlPatience
from gsched.probe.simulated.inventory import change, read_inventory, write_inventory
from gsched.probe.simulated.inventory_entry import simulated_gpu
from tests.fakenvml.build import build


class Machine(Protocol):
    path: Path

    def say(self, *lines: str) -> None: ...


pytestmark = pytest.mark.needs_gcc


def with_probe(story: Callable[[NvmlProbe], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def run() -> None:
        probe = NvmlProbe(**{"time_limit_s": 60.0, **options})  # it starts an interpreter, which may take long
        try:
            await story(probe)
        finally:
            await probe.close()

    run_async(run())


def xids(report: GpuReport) -> list[list[int]]:
    return [[xid.number for xid in gpu.xids] for gpu in report.gpus]


def test_errors_of_the_driver_are_told_as_they_come(machine: Machine) -> None:
    machine.say("event=0:8:13")  # before anybody listened
    news = asyncio.Event()

    async def story(probe: NvmlProbe) -> None:
        first = await probe.sample()
        assert xids(first) == [[], [], [], []] and first.unheard == ""
        machine.say("event=2:8:79", "event=1:8:31", "event=2:8:79", "event=3:2:0")
        await asyncio.wait_for(news.wait(), 60)
        heard: list[list[int]] = [[], [], [], []]
        while heard != [[], [31], [79], []]:
            for index, numbers in enumerate(xids(await probe.sample())):
                heard[index] = sorted({*heard[index], *numbers})
        assert xids(await probe.sample()) == [[], [], [], []]  # each is told once
        news.clear()
        machine.say("event=0:8:94")
        await asyncio.wait_for(news.wait(), 60)
        assert xids(await probe.sample()) == [[94], [], [], []]

    with_probe(story, on_news=news.set)


def test_gpus_without_events_are_named(machine: Machine) -> None:
    machine.say("gpu.1.no_events=1", "gpu.3.no_events=1")

    async def story(probe: NvmlProbe) -> None:
        report = await probe.sample()
        assert sentence(report.unheard) == "GPU 1, 3: it tells of no XIDs"
        assert [gpu.problem for gpu in report.gpus] == [""] * 4

    with_probe(story)


def test_a_driver_without_events(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "old", without=["nvmlEventSetCreate", "nvmlDeviceGetTemperatureThreshold"])
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "old"))

    async def story(probe: NvmlProbe) -> None:
        report = await probe.sample()
        assert sentence(report.unheard) == "GPU 0, 1, 2, 3: no events: Function Not Found"
        assert [(gpu.problem, gpu.slowdown_c) for gpu in report.gpus] == [("", None)] * 4

    with_probe(story)


def test_a_listener_that_fails_asks_for_a_look(machine: Machine) -> None:
    news = asyncio.Event()

    async def story(probe: NvmlProbe) -> None:
        await probe.sample()
        machine.say("gpu.1.err=15", "err.nvmlEventSetWait_v2=15")
        await asyncio.wait_for(news.wait(), 60)
        assert [sentence(gpu.fault) for gpu in (await probe.sample()).gpus] == ["", "NVML: GPU is lost", "", ""]

    with_probe(story, on_news=news.set)


@pytest.mark.parametrize("lost", ["gpu.1.err=15", "gpu.1.handle_err=15"])
def test_a_lost_gpu_that_comes_back_is_listened_to(machine: Machine, lost: str) -> None:
    async def story(probe: NvmlProbe) -> None:
        await probe.sample()
        machine.say(lost)
        gpu = (await probe.sample()).gpus[1]
        assert sentence(gpu.fault) == sentence(gpu.problem) == "NVML: GPU is lost"
        machine.say(lost.replace("15", "0"))
        assert (await probe.sample()).gpus[1].fault == ""
        machine.say("event=1:8:79")
        while [79] not in xids(await probe.sample()):
            await asyncio.sleep(0.01)

    with_probe(story)


def test_other_errors_are_no_fault(machine: Machine) -> None:
    machine.say("gpu.1.handle_err=999")

    async def story(probe: NvmlProbe) -> None:
        gpu = (await probe.sample()).gpus[1]
        assert sentence(gpu.problem) == "NVML: Unknown Error" and sentence(gpu.fault) == ""

    with_probe(story)


def test_where_it_slows_down_and_what_of_its_memory_has_failed(machine: Machine) -> None:
    machine.say("gpu.0.slowdown=87", "gpu.1.remap_failed=1", "gpu.2.capability=86")

    async def story(probe: NvmlProbe) -> None:
        report = await probe.sample()
        assert [gpu.slowdown_c for gpu in report.gpus] == [87, None, None, None]
        assert [gpu.factor for gpu in report.gpus] == [None, None, 8.6, None]
        assert [sentence(gpu.fault) for gpu in report.gpus] == [
            "",
            "a faulty row of its memory could not be set aside",
            "",
            "",
        ]
        machine.say("gpu.0.remap_failed=1")
        assert (await probe.sample()).gpus[0].fault == ""  # asked for when the number of errors changes
        machine.say("gpu.0.ecc=1")
        assert (await probe.sample()).gpus[0].fault

    with_probe(story)


def test_what_the_driver_wants_to_have_done(machine: Machine) -> None:
    machine.say("gpu.0.recovery=0", "gpu.1.recovery=4")

    async def story(probe: NvmlProbe) -> None:
        assert [gpu.recovery for gpu in (await probe.sample()).gpus] == [0, 4, None, None]

    with_probe(story)


def test_one_gpu_that_hangs_does_not_hide_the_others(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """pains 6: its calls hang; it is unknown, the others are what they were, and soon."""

    async def story(probe: NvmlProbe) -> None:
        before = await probe.sample()
        pid = probe.pid
        machine.say("gpu.2.delay_ms=600000")
        report = await probe.sample()
        assert report.known
        assert [gpu.problem for gpu in report.gpus] == ["", "", SILENT, ""]
        hung = report.gpus[2]
        assert (hung.uuid, hung.mode, hung.fault) == (before.gpus[2].uuid, None, "")
        assert (await probe.sample()).gpus[2].problem == SILENT
        assert probe.pid == pid

    monkeypatch.setattr(nvml_child, "GPU_SHARE", 0.03)
    with_probe(story)


def test_a_gpu_that_hangs_is_not_waited_for_again() -> None:
    looked: list[int] = []
    going_on = threading.Event()

    def look(index: int) -> Gpu:
        looked.append(index)
        if index == 1:
            going_on.wait(60)
        return Gpu(uuid=f"GPU-{index}", index=index)

    patience = NvmlPatience(look, 0.5)
    try:
        assert list(patience.seen(range(3))) == [0, 2]
        assert list(patience.seen(range(3))) == list(patience.seen(range(3))) == [0, 2]
        assert looked.count(1) == 1
    finally:
        going_on.set()
    while len(patience.seen(range(3))) < 3:
        time.sleep(0.001)
    assert looked.count(1) == 2


def test_a_gpu_that_answers_again_is_looked_at_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(probe: NvmlProbe) -> None:
        await probe.sample()
        machine.say("gpu.2.delay_ms=700")
        assert (await probe.sample()).gpus[2].problem == SILENT
        machine.say("gpu.2.delay_ms=0")
        while (report := await probe.sample()).gpus[2].problem:
            await asyncio.sleep(0.02)
        assert [gpu.problem for gpu in report.gpus] == [""] * 4

    monkeypatch.setattr(nvml_child, "GPU_SHARE", 0.02)  # 1.2 s: each of many calls takes 0.7 s
    with_probe(story)


def test_the_process_ends_though_a_thread_of_it_hangs(machine: Machine) -> None:
    machine.say("gpu.0.delay_ms=600000")
    done = subprocess.run(
        [sys.executable, "-m", "gsched.probe.nvidia.nvml", str(os.getpid()), "1.0"],
        input="sample\n",
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert [gpu["problem"] for gpu in json.loads(done.stdout)["report"]["gpus"]] == [{"code": SILENT.code}, "", "", ""]


# Simulated ones


def test_inventories_tell_faults_and_new_errors(tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    write_inventory(path, [simulated_gpu("h", index) for index in (0, 1)])
    change(path, "h", [0], {"xid": "31"})
    probe = SimulatedProbe(path, "h")

    def sampled() -> tuple[Gpu, ...]:
        return asyncio.run(probe.sample()).gpus

    assert sampled()[0].xids == ()  # it was there before anybody looked
    change(path, "h", [0, 1], {"xid": "94"})
    change(path, "h", [0], {"xid": "94"})
    first, second = sampled()
    assert (first.xids, second.xids) == ((GpuXid(number=94),) * 2, (GpuXid(number=94),))
    assert sampled()[0].xids == ()
    change(path, "h", [1], {"fault": "GPU is lost"})
    assert [sentence(gpu.fault) for gpu in sampled()] == ["", "GPU is lost"]
    change(path, "h", [1], {"fault": ""})
    assert sampled()[1].fault == ""


def test_an_inventory_keeps_no_more_errors_than_it_may_list(tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    write_inventory(path, [simulated_gpu("h", 0)])
    probe = SimulatedProbe(path, "h")
    asyncio.run(probe.sample())
    for number in range(70):
        change(path, "h", [0], {"xid": str(number)})
    assert [xid.number for xid in read_inventory(path, "h")[0].xids] == list(range(6, 70))
    assert len(asyncio.run(probe.sample()).gpus[0].xids) == 64


@pytest.mark.parametrize("value", ["", "-", "-1", "79x", "1234567"])
def test_what_is_no_error_is_refused(tmp_path: Path, value: str) -> None:
    path = tmp_path / "h.json"
    write_inventory(path, [simulated_gpu("h", 0)])
    with pytest.raises(BadRequest, match=rf"xid={value}: the number of an XID is wanted"):
        change(path, "h", [0], {"xid": value})
