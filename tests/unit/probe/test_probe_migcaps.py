"""The device nodes of MIG's instances, as the kernel lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.probe.nvidia.mig_device_nodes import capabilities

DEVICES = "Character devices:\n  1 mem\n195 nvidia\n236 nvidia-caps\n237 nvidia-caps-imex\n\nBlock devices:\n  9 md\n"
MINORS = (
    "config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\ngpu0/gi7/access 66\ngpu0/gi7/ci1/access 68\n"
    "gpu1/gi0/access 138\nrubbish\ngpu1/gi0/ci0/access x\n"
)


def machine(folder: Path, devices: str | None = DEVICES, minors: str | None = MINORS) -> Path:
    (folder / "driver/nvidia-caps").mkdir(parents=True)
    if devices is not None:
        (folder / "devices").write_text(devices)
    if minors is not None:
        (folder / "driver/nvidia-caps/mig-minors").write_text(minors)
    return folder


def test_instances_of_one_gpu(tmp_path: Path) -> None:
    proc = machine(tmp_path)
    assert capabilities(0, proc) == {(0, None): (236, 3), (0, 0): (236, 4), (7, None): (236, 66), (7, 1): (236, 68)}
    assert capabilities(1, proc) == {(0, None): (236, 138)}
    assert capabilities(2, proc) is None


@pytest.mark.parametrize(
    ("devices", "minors"), [(None, MINORS), (DEVICES, None), (DEVICES.replace("nvidia-caps\n", "x\n"), MINORS)]
)
def test_what_is_not_told_is_unknown(tmp_path: Path, devices: str | None, minors: str | None) -> None:
    assert capabilities(0, machine(tmp_path, devices, minors)) is None
