"""Attempts that failed while somebody else was on their GPU: who is named, and until when the GPU is closed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gsched.agent.gpu import gpu_watch
from gsched.agent.gpu.device_busy import DeviceBusy
from gsched.agent.gpu.foreign_processes import ForeignRules
from gsched.agent.gpu.gpu_cleanup import GpuCleanup
from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.base.coded_text import sentence
from gsched.model.config import GpuForeign
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, GpuReport, ProcessKind
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.run import mps_daemon
from tests.support.manual_clock import ManualClock

KEY = (17, 1)
PART = HostAllocation(host="h", slots=1, gpus=(HeldGpu(uuid="GPU-0", index=0, claim="ngpus_excl_p"),))
STRANGER = GpuProcess(pid=999_999_999, user="ann", used_mib=74)
OWN = GpuProcess(pid=999_999_998, used_mib=500)
STRANGER_UID = 54321
"""Of nobody on the machine."""
BLAME = "device busy: GPU 0 (GPU-0), in mode exclusive_process, is held by pid 999999999 of ann (74 MiB)"


def gpu(*processes: GpuProcess, **fields: Any) -> Gpu:
    used = sum(each.used_mib or 0 for each in processes)
    values: dict[str, Any] = {"used_mib": used, "reserved_mib": 0, "mode": ComputeMode.EXCLUSIVE_PROCESS}
    values |= {"process_count": len(processes), "processes": processes}
    return Gpu(uuid="GPU-0", index=0, **(values | fields))


class Machine:
    """A host with one GPU, looked at by an agent's watch."""

    def __init__(self, seen: Gpu, provider: str) -> None:
        self.seen = seen
        self.provider = provider
        self.known = True
        self.running = {"17.1": frozenset({"GPU-0"})}
        self.watch = GpuWatch("h", "c", GpuOwners(lambda pids: {pid: "17.1" for pid in pids if pid == OWN.pid}))
        self.busy = DeviceBusy(self.watch)
        self.care = GpuCleanup(self.watch, ManualClock(), running=lambda: self.running, returning=dict)
        self.watch.judges[:] = [self.care.judge, self.busy.judge]

    async def sample(self) -> GpuReport:
        return GpuReport(gpus=(self.seen,), provider=self.provider, known=self.known)

    async def close(self) -> None:
        return None

    async def looked(self) -> str:
        (found,) = (await self.watch.look()).gpus
        return sentence(found.problem)


def play(
    monkeypatch: pytest.MonkeyPatch, seen: Gpu, story: Callable[[Machine], Awaitable[None]], provider: str = "simulated"
) -> None:
    async def main() -> None:
        machine = Machine(seen, provider)
        monkeypatch.setattr(gpu_watch, "probe_for", lambda provider, host, on_news: machine)
        await machine.watch.use("fake", "")
        await machine.watch.look()
        await story(machine)

    asyncio.run(main())


def test_the_holder_is_named_and_the_gpu_closed_until_it_is_seen_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """pains 29: a job that fails because somebody else has its exclusive GPU says so."""

    async def story(machine: Machine) -> None:
        assert await machine.busy.blame(KEY, PART) == ""
        machine.seen = gpu(STRANGER, OWN)
        assert sentence(await machine.busy.blame(KEY, PART)) == BLAME
        machine.running, machine.seen = {}, gpu(STRANGER)
        assert await machine.looked() == "foreign(ann,999999999,74)"
        machine.seen = gpu(process_count=None)
        assert await machine.looked() == "busy(ann,999999999,74)", "nobody can see whether it is free"
        machine.seen, machine.known = gpu(), False
        assert await machine.looked() == "", "GPUs that are unknown are not offered anyway"
        machine.known = True
        machine.seen = gpu(process_count=None)
        assert await machine.looked() == "busy(ann,999999999,74)"
        machine.seen = gpu()
        assert await machine.looked() == ""
        machine.seen = gpu(process_count=None)
        assert await machine.looked() == "", "it has been seen free"

    play(monkeypatch, gpu(OWN), story)


@pytest.mark.parametrize("kind", [ProcessKind.GRAPHICS, ProcessKind.MPS_CLIENT])
def test_who_does_not_keep_others_off_is_not_blamed(monkeypatch: pytest.MonkeyPatch, kind: ProcessKind) -> None:
    async def story(machine: Machine) -> None:
        assert await machine.busy.blame(KEY, PART) == ""
        assert await machine.looked() == ""

    play(monkeypatch, gpu(msgspec.structs.replace(STRANGER, kind=kind)), story)


def test_it_is_closed_also_where_strangers_are_only_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPU_FOREIGN=warn gives such a GPU out; that it failed one job is enough."""

    async def story(machine: Machine) -> None:
        machine.care.rules = ForeignRules(action=GpuForeign.WARN)
        assert await machine.looked() == ""
        assert sentence(await machine.busy.blame(KEY, PART)) == BLAME
        assert await machine.looked() == "busy(ann,999999999,74)"
        machine.seen = gpu()
        assert await machine.looked() == ""

    play(monkeypatch, gpu(STRANGER), story)


def test_where_several_may_be_nobody_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(machine: Machine) -> None:
        assert await machine.busy.blame(KEY, PART) == ""

    play(monkeypatch, gpu(STRANGER, mode=ComputeMode.DEFAULT), story)


@pytest.fixture
def mps_server(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts what the kernel calls as it calls a server of MPS."""
    program = tmp_path / "nvidia-cuda-mps-server"
    program.write_text("#!/bin/sh\necho\nread -r line\n")
    program.chmod(0o755)
    children: list[subprocess.Popen[bytes]] = []

    def start(**variables: str) -> subprocess.Popen[bytes]:
        env = {"PATH": os.environ["PATH"], **variables}
        child = subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None and child.stdout.readline()
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def test_the_mps_server_of_the_host_serves_jobs_and_a_private_one_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mps_server: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A program that is told no folder of pipes becomes a client of the host's server; a user's serves that user."""
    host, folder = tmp_path / "nvidia-mps", tmp_path / "pipes"
    monkeypatch.setattr(mps_daemon, "DEFAULT_PIPES", str(host))
    host.mkdir()

    def server(child: subprocess.Popen[bytes]) -> Gpu:
        return gpu(GpuProcess(pid=child.pid, user="0", used_mib=30, kind=ProcessKind.COMPUTE))

    async def story(machine: Machine) -> None:
        assert await machine.busy.blame(KEY, PART) == "" and await machine.looked() == ""
        machine.seen = server(mps_server(CUDA_MPS_PIPE_DIRECTORY=str(host)))
        assert await machine.looked() == ""
        private = mps_server(CUDA_MPS_PIPE_DIRECTORY=str(folder))
        machine.seen = server(private)
        if os.getuid() == 0:
            folder.mkdir()
            os.chown(folder, 54321, 54321)
        assert await machine.looked() == f"foreign(root,{private.pid},30)"
        assert f"is held by pid {private.pid} of root (30 MiB)" in sentence(await machine.busy.blame(KEY, PART))
        machine.seen = server(private)
        machine.seen = msgspec.structs.replace(machine.seen, mode=ComputeMode.DEFAULT)
        assert await machine.looked() == "", "its clients are seen themselves"

    play(monkeypatch, server(mps_server()), story, "nvml")


@pytest.mark.needs_root
def test_a_users_process_that_calls_itself_the_hosts_mps_server_is_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name and the folder of pipes in its environment are the user's to choose: root's `/` is not its own."""
    name = "nvidia-cuda-mps-server"[:15]
    code = (
        f"import ctypes, os, sys; os.setgid({STRANGER_UID}); os.setuid({STRANGER_UID}); "
        f"ctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0); print(flush=True); sys.stdin.read()"
    )
    env = {"CUDA_MPS_PIPE_DIRECTORY": "/"}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline()
        users = GpuProcess(pid=child.pid, user=str(STRANGER_UID), used_mib=74, kind=ProcessKind.COMPUTE)

        async def story(machine: Machine) -> None:
            assert await machine.looked() == f"foreign({STRANGER_UID},{child.pid},74)"
            blamed = sentence(await machine.busy.blame(KEY, PART))
            assert f"is held by pid {child.pid} of {STRANGER_UID} (74 MiB)" in blamed

        try:
            play(monkeypatch, gpu(users), story, "nvml")
        finally:
            child.kill()
