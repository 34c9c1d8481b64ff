"""A private cluster on a host whose GPUs are the system's sees them, and offers none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gsched.agent.gpu import gpu_watch
from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.base.coded_text import sentence
from gsched.base.machine.gpu_lock import CLAIMED, GpuLockFolders
from gsched.model.hosts.host import Gpu, GpuReport


class Probe:
    """Sees two GPUs."""

    async def sample(self) -> GpuReport:
        gpus = tuple(Gpu(uuid=f"GPU-{index}", index=index) for index in range(2))
        return GpuReport(known=True, provider="nvml", gpus=gpus)

    async def close(self) -> None: ...


def test_gpus_of_the_system_are_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_watch, "probe_for", lambda *_: Probe())
    common, roots = str(tmp_path / "common"), str(tmp_path / "roots")

    async def problems(cluster: str, *, is_root: bool) -> list[str]:
        watch = GpuWatch("h", cluster, GpuOwners(lambda pids: {}), locks=GpuLockFolders(common, roots, is_root))
        await watch.use("nvml", "")
        report = await watch.look()
        await watch.close()
        return [sentence(gpu.problem) for gpu in report.gpus]

    assert asyncio.run(problems("private", is_root=False)) == ["", ""]
    assert asyncio.run(problems("system", is_root=True)) == ["", ""]
    assert asyncio.run(problems("private", is_root=False)) == [sentence(CLAIMED)] * 2
