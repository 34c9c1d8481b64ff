"""Tests of the real NVML bindings, in their child process, against a fake driver library."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest
from bounded_loop import run_async

from gsched.base.coded_text import coded, sentence
from gsched.base.errors import Conflict, PermissionDenied, Unavailable
from gsched.model.hosts.host import MOST_PROCESSES, ComputeMode, Gpu, GpuProcess, GpuReport, MigDevice, ProcessKind
from gsched.probe.gpu import count_gpus
from gsched.probe.nvidia.nvml_child import NvmlProbe
from gsched.probe.nvidia.nvml_facts import numa_node
from tests.fakenvml.build import build
from tests.support.manual_clock import ManualClock


class Machine(Protocol):
    path: Path

    def say(self, *lines: str) -> None: ...


needs_gcc = pytest.mark.needs_gcc


def with_probe(story: Callable[[NvmlProbe], Coroutine[Any, Any, GpuReport]], **options: Any) -> GpuReport:
    async def run() -> GpuReport:
        probe = NvmlProbe(**{"time_limit_s": 60.0, **options})  # it starts an interpreter, which may take long
        try:
            return await story(probe)
        finally:
            await probe.close()
            await probe.close()

    return run_async(run())


def sample(**options: Any) -> GpuReport:
    return with_probe(lambda probe: probe.sample(), **options)


@needs_gcc
def test_everything_that_nvml_tells(machine: Machine) -> None:
    machine.say("count=2", "gpu.1.name=NVIDIA H100", "gpu.1.mode=3", "gpu.1.mem_mib=81559", "gpu.1.used_mib=500")
    machine.say("gpu.1.util=42", "gpu.1.temp=55", "gpu.1.minor=7", "gpu.1.uuid=GPU-abc")
    machine.say("gpu.1.reserved_mib=600", "gpu.1.mem_util=31", "gpu.1.power_mw=312400", "gpu.1.ecc=2", "gpu.1.pstate=5")
    machine.say("gpu.1.ecc_corrected=9", f"gpu.1.throttle={0x24}")
    report = sample()
    assert (report.known, sentence(report.reason), report.provider, report.driver) == (True, "", "nvml", "535.1")
    assert len(report.gpus) == 2
    assert report.gpus[1] == Gpu(
        uuid="GPU-abc",
        index=1,
        model="NVIDIA H100",
        mode=ComputeMode.EXCLUSIVE_PROCESS,
        memory_mib=81559,
        used_mib=500,
        utilization_percent=42,
        temperature_c=55,
        pci_bus_id="00000000:05:00.0",
        minor=7,
        numa=report.gpus[1].numa,  # this machine's: it may have a device there
        reserved_mib=600,
        memory_utilization_percent=31,
        power_w=312,
        ecc_errors=2,
        ecc_corrected=9,
        throttle=0x24,
        pstate=5,
        process_count=0,
    )


@needs_gcc
def test_counts_of_the_seed(machine: Machine) -> None:
    machine.say(*(f"gpu.{index}.mode=3" for index in range(4)))
    counts = count_gpus(sample())
    assert (counts["ngpus"], counts["ngpus_excl_p"], counts["ngpus_shared"], counts["ngpus_excl_t"]) == (4, 4, 0, 0)


@needs_gcc
@pytest.mark.skipif(os.geteuid() != 0, reason="a compute mode is set by root")
def test_mode_that_another_process_sets_shows_at_the_next_sample(machine: Machine) -> None:
    async def story(probe: NvmlProbe) -> GpuReport:
        assert {gpu.mode for gpu in (await probe.sample()).gpus} == {ComputeMode.DEFAULT}
        code = "import pynvml as n; n.nvmlInit(); n.nvmlDeviceSetComputeMode(n.nvmlDeviceGetHandleByIndex(2), 3)"
        subprocess.run([sys.executable, "-c", code], check=True)
        return await probe.sample()

    assert [gpu.index for gpu in with_probe(story).gpus if gpu.mode is ComputeMode.EXCLUSIVE_PROCESS] == [2]


@needs_gcc
@pytest.mark.skipif(os.geteuid() != 0, reason="a compute mode is set by root")
def test_setting_modes(machine: Machine) -> None:
    async def story(probe: NvmlProbe) -> GpuReport:
        await probe.set_mode([0, 3], ComputeMode.PROHIBITED)
        with pytest.raises(Conflict, match=r"GPU 9: there is no such GPU"):
            await probe.set_mode([1, 9], ComputeMode.EXCLUSIVE_PROCESS)
        with pytest.raises(Conflict, match=r"does not support compute mode exclusive_thread"):
            await probe.set_mode([2], ComputeMode.EXCLUSIVE_THREAD)
        await probe.set_mode([], ComputeMode.DEFAULT)
        return await probe.sample()

    modes = [gpu.mode.value for gpu in with_probe(story).gpus if gpu.mode]
    assert modes == ["prohibited", "exclusive_process", "default", "prohibited"]


@needs_gcc
def test_setting_a_mode_without_the_right_to(machine: Machine) -> None:
    machine.say("err.nvmlDeviceSetComputeMode=4")

    async def story(probe: NvmlProbe) -> GpuReport:
        with pytest.raises(PermissionDenied) as caught:
            await probe.set_mode([0, 1], ComputeMode.PROHIBITED)
        assert caught.value.text == "compute mode prohibited is not set: GPU 0, 1: setting a compute mode needs root"
        return await probe.sample()

    assert {gpu.mode for gpu in with_probe(story).gpus} == {ComputeMode.DEFAULT}


@needs_gcc
@pytest.mark.parametrize("lost", ["gpu.1.err=15", "gpu.1.handle_err=15"])
def test_lost_gpu_keeps_its_slot_and_identity(machine: Machine, lost: str) -> None:
    async def story(probe: NvmlProbe) -> GpuReport:
        before = await probe.sample()
        machine.say(lost)
        after = await probe.sample()
        assert [gpu.uuid for gpu in after.gpus] == [gpu.uuid for gpu in before.gpus]
        return after

    report = with_probe(story)
    assert report.known
    assert [sentence(gpu.problem) for gpu in report.gpus] == ["", "NVML: GPU is lost", "", ""]
    assert (report.gpus[1].mode, report.gpus[1].used_mib, report.gpus[1].minor) == (None, None, 1)


@needs_gcc
def test_gpu_lost_before_the_first_sample_keeps_its_slot(machine: Machine) -> None:
    machine.say("gpu.3.handle_err=15")
    assert [(gpu.index, sentence(gpu.problem)) for gpu in sample().gpus[2:]] == [(2, ""), (3, "NVML: GPU is lost")]


@needs_gcc
def test_what_a_gpu_does_not_support_is_unknown_and_no_problem(machine: Machine) -> None:
    for function in ("UtilizationRates", "MemoryInfo", "TemperatureV", "Temperature", "MinorNumber", "Name"):
        machine.say(f"err.nvmlDeviceGet{function}=3")
    gpu = sample().gpus[0]
    assert (gpu.utilization_percent, gpu.memory_mib, gpu.used_mib, gpu.temperature_c) == (None, None, None, None)
    assert (gpu.minor, gpu.model, gpu.problem) == (None, "", "")
    assert gpu.mode is ComputeMode.DEFAULT


@needs_gcc
def test_gpu_whose_mode_cannot_be_read_says_so(machine: Machine) -> None:
    machine.say("err.nvmlDeviceGetComputeMode=999")
    gpu = sample().gpus[0]
    assert (gpu.mode, sentence(gpu.problem)) == (None, "NVML: compute mode cannot be read: Unknown Error")


@needs_gcc
def test_driver_older_than_the_bindings(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetPciInfo_v3", "nvmlSystemGetDriverVersion")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build(tmp_path / "old", without=missing).parent))
    report = sample()
    assert (report.known, report.driver, len(report.gpus)) == (True, "", 4)
    assert (report.gpus[0].pci_bus_id, report.gpus[0].temperature_c) == ("", 30)


def test_no_library_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A folder named like the library hides any real one, and cannot be opened as a file.
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(_bindings_without_library(tmp_path)), prepend=os.pathsep)
    report = sample()
    assert (report.known, report.gpus) == (True, ())
    assert sentence(report.reason).startswith(
        "no NVIDIA driver library: libnvidia-ml.so.1: cannot open shared object file"
    )


def _bindings_without_library(folder: Path) -> Path:
    """A start-up file that makes the loader look for a library that no machine has."""
    (folder / "sitecustomize.py").write_text(
        "import ctypes\n"
        "real = ctypes.CDLL\n"
        "def load(name, *rest, **more):\n"
        "    if name == 'libnvidia-ml.so.1':\n"
        "        raise OSError(f'{name}: cannot open shared object file: No such file or directory')\n"
        "    return real(name, *rest, **more)\n"
        "ctypes.CDLL = load\n"
    )
    return folder


def test_library_that_is_no_library_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    report = sample()
    assert (report.known, report.gpus) == (False, ())
    assert "libnvidia-ml.so.1: file too short" in sentence(report.reason) or "invalid ELF header" in sentence(
        report.reason
    )


@needs_gcc
def test_driver_not_loaded_is_no_gpu_until_it_is_loaded(machine: Machine) -> None:
    machine.say("init_err=9")

    async def story(probe: NvmlProbe) -> GpuReport:
        before = await probe.sample()
        assert (before.known, before.gpus, sentence(before.reason)) == (True, (), "the NVIDIA driver is not loaded")
        machine.say("init_err=0")
        return await probe.sample()

    assert len(with_probe(story).gpus) == 4


@needs_gcc
def test_any_other_failure_is_unknown_and_tried_again_after_a_pause(machine: Machine) -> None:
    machine.say("init_err=18")
    clock = ManualClock()

    async def story(probe: NvmlProbe) -> GpuReport:
        failed = await probe.sample()
        assert (failed.known, failed.gpus) == (False, ())
        assert sentence(failed.reason) == "NVML failed: RM has detected an NVML/RM version mismatch."
        machine.say("init_err=0")
        assert await probe.sample() == failed  # at once, without asking
        clock.advance(1.0)
        while not (report := await probe.sample()).known:
            clock.advance(60.0)  # the process before was not quite gone yet
            await asyncio.sleep(0.01)
        return report

    assert len(with_probe(story, clock=clock).gpus) == 4


@needs_gcc
def test_count_that_fails_is_unknown(machine: Machine) -> None:
    machine.say("err.nvmlDeviceGetCount_v2=999")
    report = sample()
    assert (report.known, sentence(report.reason)) == (False, "NVML failed: Unknown Error")


@needs_gcc
def test_hanging_driver_is_unknown_within_the_limit(machine: Machine) -> None:
    clock = ManualClock()

    async def story(probe: NvmlProbe) -> GpuReport:
        assert (await probe.sample()).known
        machine.say("delay_ms.nvmlDeviceGetMemoryInfo=600000")
        probe._time_limit_s = 1.5  # from now on: the first sample began with the start of an interpreter
        report = await probe.sample()
        assert (report.known, sentence(report.reason)) == (False, "NVML did not answer within 1.5 s")
        with pytest.raises(Unavailable, match=r"did not answer|still hangs"):
            machine.say("delay_ms.nvmlDeviceSetComputeMode=600000")
            await probe.set_mode([0], ComputeMode.DEFAULT)
        machine.say("delay_ms.nvmlDeviceGetMemoryInfo=0")
        probe._time_limit_s = 60.0
        clock.advance(60.0)
        while not (report := await probe.sample()).known:
            clock.advance(60.0)
            await asyncio.sleep(0.01)
        return report

    assert len(with_probe(story, clock=clock).gpus) == 4


@needs_gcc
def test_child_that_is_killed_is_replaced(machine: Machine) -> None:
    clock = ManualClock()

    async def story(probe: NvmlProbe) -> GpuReport:
        await probe.sample()
        assert probe.pid is not None
        os.kill(probe.pid, signal.SIGKILL)
        report = await probe.sample()
        if not report.known:  # it was asked before its end was noticed
            assert "ended without an answer" in sentence(report.reason)
            clock.advance(1.0)
            report = await probe.sample()
        return report

    assert len(with_probe(story, clock=clock).gpus) == 4


@needs_gcc
def test_sample_called_off_does_not_leave_its_answer_to_the_next(machine: Machine) -> None:
    async def story(probe: NvmlProbe) -> GpuReport:
        await probe.sample()
        machine.say("delay_ms.nvmlDeviceGetComputeMode=3000")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await probe.sample()
        machine.say("delay_ms.nvmlDeviceGetComputeMode=0", "count=1")
        return await probe.sample()

    report = with_probe(story)
    assert len(report.gpus) == 1 or report.reason == coded("nvml.probe_hangs")


@needs_gcc
def test_child_ends_with_its_parent_even_while_it_hangs(machine: Machine) -> None:
    machine.say("delay_ms.nvmlDeviceGetName=600000")
    code = (
        "import asyncio\n"
        "from gsched.probe.nvidia.nvml_child import NvmlProbe\n"
        "async def main():\n"
        "    probe = NvmlProbe(time_limit_s=600)\n"
        "    task = asyncio.ensure_future(probe.sample())\n"
        "    while probe.pid is None: await asyncio.sleep(0.01)\n"
        "    print(probe.pid, flush=True)\n"
        "    await task\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        assert _ended(child, 60.0)
    finally:
        os.close(child)


def _ended(pidfd: int, limit_s: float) -> bool:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(limit_s * 1000))


@needs_gcc
def test_index_and_device_minor_are_two_things(machine: Machine) -> None:
    machine.say(*(f"gpu.{index}.minor={3 - index}" for index in range(4)))
    assert [(gpu.index, gpu.minor) for gpu in sample().gpus] == [(0, 3), (1, 2), (2, 1), (3, 0)]


@needs_gcc
def test_processes_with_their_users_and_memory(machine: Machine) -> None:
    me = os.getpid()
    mib = 1 << 20
    machine.say(f"gpu.1.procs={me}:{500 * mib},999999999:{7 * mib}", f"gpu.1.graphics={me}:{500 * mib}")
    machine.say(f"gpu.1.mps={me}")
    gpu = sample().gpus[1]
    assert gpu.process_count == 2
    called = Path("/proc/self/cmdline").read_text().partition("\0")[0]  # without its arguments
    assert gpu.processes == (
        GpuProcess(pid=me, user=str(os.getuid()), used_mib=500, kind=ProcessKind.MPS_CLIENT, name=called),
        GpuProcess(pid=999999999, user="", used_mib=7, kind=ProcessKind.COMPUTE),
    )
    machine.say(f"gpu.1.mps=999999999:{7 * mib}", f"gpu.2.graphics={me}:{mib}")
    kinds = [{each.pid: each.kind for each in gpu.processes} for gpu in sample().gpus[1:3]]
    both, client = ProcessKind.COMPUTE_AND_GRAPHICS, ProcessKind.MPS_CLIENT
    assert kinds == [{me: both, 999999999: client}, {me: ProcessKind.GRAPHICS}]


@needs_gcc
def test_the_largest_processes_are_listed_and_all_are_counted(machine: Machine) -> None:
    machine.say("gpu.0.procs=" + ",".join(f"{pid}:{pid << 20}" for pid in range(1, 71)))
    gpu = sample().gpus[0]
    assert (gpu.process_count, len(gpu.processes)) == (70, MOST_PROCESSES)
    assert (gpu.processes[0].used_mib, gpu.processes[-1].used_mib) == (70, 7)


@needs_gcc
def test_without_a_list_of_processes_nobody_knows(tmp_path: Path, machine: Machine, monkeypatch: Any) -> None:
    lists = ("Compute", "Graphics", "MPSCompute")
    missing = [f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in lists] + ["nvmlDeviceGetMemoryInfo_v2"]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build(tmp_path / "old", without=missing).parent))
    machine.say("gpu.0.used_mib=70", "gpu.0.reserved_mib=600")
    gpu = sample().gpus[0]
    assert (gpu.process_count, gpu.processes) == (None, ())
    assert (gpu.memory_mib, gpu.used_mib, gpu.reserved_mib, gpu.usable_mib) == (11441, 70, None, 11441)


@needs_gcc
def test_peers_and_parts(machine: Machine) -> None:
    machine.say("gpu.0.peers=1,2", "gpu.1.peers=2", "gpu.3.mig_mode=1", "gpu.2.mig_mode=0")
    machine.say("gpu.3.mig.1.uuid=MIG-b", "gpu.3.mig.1.name=NVIDIA A100 MIG 1g.10gb", "gpu.3.mig.1.gi=7")
    machine.say("gpu.3.mig.1.ci=0", "gpu.3.mig.1.mem_mib=9856")
    gpus = sample().gpus
    uuids = [gpu.uuid for gpu in gpus]
    assert [[uuids.index(peer) for peer in gpu.links] for gpu in gpus] == [[1, 2], [0, 2], [0, 1], []]
    assert [gpu.mig for gpu in gpus] == [None, None, False, True]
    part = MigDevice(uuid="MIG-b", profile="1g.10gb", gpu_instance=7, compute_instance=0, memory_mib=9856)
    assert gpus[3].mig_devices == (part,)


@needs_gcc
def test_what_cannot_change_is_asked_for_once(machine: Machine) -> None:
    async def story(probe: NvmlProbe) -> GpuReport:
        await probe.sample()
        machine.say("err.nvmlDeviceGetName=999", "err.nvmlDeviceGetPciInfo_v3=999", "err.nvmlDeviceGetP2PStatus=999")
        return await probe.sample()

    machine.say("gpu.0.peers=1")
    gpu = with_probe(story).gpus[0]
    assert (gpu.model, gpu.pci_bus_id, len(gpu.links), gpu.problem) == ("Tesla K80", "00000000:04:00.0", 1, "")


def test_numa_node_is_the_kernels(tmp_path: Path) -> None:
    for place, node in (("0000:04:00.0", "1"), ("0000:05:00.0", "-1"), ("0001:06:00.0", "rubbish")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "numa_node").write_text(node + "\n")
    names = ("00000000:04:00.0", "00000000:05:00.0", "00000001:06:00.0", "00000000:07:00.0", "")
    assert [numa_node(name, tmp_path) for name in names] == [1, None, None, None, None]


@needs_gcc
def test_reasons_for_low_clocks_by_their_older_name_and_where_nobody_tells_them(machine: Machine) -> None:
    machine.say("gpu.0.throttle=8", "gpu.1.throttle=-5", "err.nvmlDeviceGetCurrentClocksEventReasons=13")
    found = sample().gpus
    assert [gpu.throttle for gpu in found[:3]] == [8, None, None]
