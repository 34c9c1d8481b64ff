"""Tests of probes that need no driver, and of the choice between probes."""

from __future__ import annotations

from pathlib import Path

import pytest
from bounded_loop import run_async

from gsched.base.errors import BadRequest, Conflict
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.probe.gpu import NullProbe, SimulatedProbe, count_gpus, inventory_path, probe_for
from gsched.probe.nvidia.nvml_child import NvmlProbe
from gsched.probe.simulated.inventory import change, parse_sim_spec, write_inventory


def test_null_probe_knows_that_there_are_none() -> None:
    report = run_async(NullProbe().sample())
    assert (report.known, report.gpus, report.provider) == (True, (), "none")
    with pytest.raises(Conflict, match="GSCHED_GPU_PROVIDER is none"):
        run_async(NullProbe().set_mode([0], ComputeMode.DEFAULT))


def test_simulated_probe_reads_the_file_every_time(tmp_path: Path) -> None:
    write_inventory(tmp_path / "h1.json", parse_sim_spec("2", "h1"))
    probe = probe_for(f"sim:{tmp_path}", "h1")

    async def story() -> list[GpuReport]:
        first = await probe.sample()
        change(tmp_path / "h1.json", "h1", [1], {"compute_mode": "prohibited"})
        second = await probe.sample()
        await probe.set_mode([0], ComputeMode.EXCLUSIVE_PROCESS)
        third = await probe.sample()
        await probe.close()
        return [first, second, third]

    reports = run_async(story())
    assert {report.provider for report in reports} == {"simulated"}
    assert [[gpu.mode for gpu in report.gpus] for report in reports] == [
        [ComputeMode.DEFAULT, ComputeMode.DEFAULT],
        [ComputeMode.DEFAULT, ComputeMode.PROHIBITED],
        [ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.PROHIBITED],
    ]


def test_simulated_probe_with_a_bad_file_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "h1.json").write_text('[{"index": "x"}]')
    report = run_async(SimulatedProbe(tmp_path / "h1.json", "h1").sample())
    assert not report.known
    assert f"{tmp_path}/h1.json: entry 1:" in report.reason
    missing = run_async(SimulatedProbe(tmp_path / "h2.json", "h2").sample())
    assert not missing.known
    assert "h2.json: cannot be read: No such file" in missing.reason


def test_simulated_probe_refuses_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    write_inventory(tmp_path / "h1.json", parse_sim_spec("2", "h1"))
    with pytest.raises(BadRequest, match="there is no GPU 2"):
        run_async(SimulatedProbe(tmp_path / "h1.json", "h1").set_mode([2], ComputeMode.DEFAULT))


def test_choice_of_the_probe() -> None:
    assert isinstance(probe_for("none", "h1"), NullProbe)
    assert isinstance(probe_for("nvml", "h1"), NvmlProbe)
    assert isinstance(probe_for("sim:/x", "h1"), SimulatedProbe)
    assert inventory_path("sim:/x", "h1") == Path("/x/h1.json")
    assert inventory_path("nvml", "h1") is None


@pytest.mark.parametrize("provider", ["", "cuda", "sim", "sim:", "NVML"])
def test_unknown_provider_is_refused(provider: str) -> None:
    with pytest.raises(BadRequest, match=f"'{provider}' is not known"):
        probe_for(provider, "h1")


def test_counts_by_mode() -> None:
    modes = [*ComputeMode, ComputeMode.DEFAULT, None]
    report = GpuReport(gpus=tuple(Gpu(uuid=f"GPU-{i}", index=i, mode=mode) for i, mode in enumerate(modes)))
    assert count_gpus(report) == {
        "ngpus": 6,
        "ngpus_shared": 2,
        "ngpus_excl_t": 1,
        "ngpuprohibited": 1,
        "ngpus_excl_p": 1,
    }
