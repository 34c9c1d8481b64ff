"""What an attempt's fence leaves it, as the agent decides it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from gsched.agent.attempts import attempt_fences
from gsched.agent.attempts.attempt_fences import AttemptFences, standing_note
from gsched.base.coded_text import sentence
from gsched.base.errors import ResourceExhausted
from gsched.model.config import GpuFence
from gsched.model.hosts.host import Gpu, GpuReport, MigDevice
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.run.fence.cgroup_root import CgroupRoot
from gsched.run.order import Fence

CGROUP_ROOT = CgroupRoot("v2", ("/cg/gsched/ab",))
REVERSED = GpuReport(gpus=tuple(Gpu(uuid=f"GPU-{index}", index=index, minor=3 - index) for index in range(4)))


def part(*indexes: int) -> HostAllocation:
    gpus = tuple(HeldGpu(uuid=f"GPU-{index}", index=index, claim="ngpus_shared") for index in indexes)
    return HostAllocation(host="a", slots=1, gpus=gpus)


def fence(
    held: HostAllocation,
    cgroup_root: CgroupRoot | str = CGROUP_ROOT,
    report: GpuReport | None = REVERSED,
    *,
    wanted: GpuFence = GpuFence.ON,
    gpu_unrequested: str = "hide",
    later: GpuReport | None = None,
) -> Fence | None:
    async def first_gpus() -> GpuReport:
        if later is None:
            await asyncio.Event().wait()
            raise AssertionError
        return later

    watch: Any = SimpleNamespace(gpus=report, first_gpus=first_gpus)
    return asyncio.run(AttemptFences(wanted, cgroup_root, watch).fence_of("7.1", held, gpu_unrequested))


def test_minors_count_and_not_indexes():
    """pains 2."""
    found = fence(part(0, 2))
    assert found == Fence(kind="v2", folders=("/cg/gsched/ab/7.1",), minors=(3, 1), denied=((195, 2), (195, 0)))


def test_a_job_without_gpus_may_open_none_unless_that_is_allowed():
    nothing, everything = fence(part()), fence(part(), gpu_unrequested="allow")
    assert nothing is not None
    assert nothing.minors == ()
    assert everything is not None
    assert everything.minors is None


def test_the_first_look_is_waited_for(monkeypatch):
    found = fence(part(1), report=None, later=REVERSED)
    assert found is not None
    assert found.minors == (2,)
    without = fence(part(), report=None)
    assert without is not None
    assert without.minors == ()
    monkeypatch.setattr(attempt_fences, "_PATIENCE_S", 0.01)
    with pytest.raises(ResourceExhausted, match="not been probed yet"):
        fence(part(1), report=None)


def test_before_the_first_look_nothing_of_any_gpu_is_open_to_a_job_without(monkeypatch):
    monkeypatch.setattr(attempt_fences, "nodes_of_vendor", lambda: [(226, 128), (226, 129)])
    without = fence(part(), report=None)
    assert without is not None
    assert (without.minors, without.denied) == ((), ((226, 128), (226, 129)))
    allowed = fence(part(), report=None, gpu_unrequested="allow")
    assert allowed is not None
    assert (allowed.minors, allowed.denied) == (None, ())


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (GpuReport(), "no such GPU any more"),
        (GpuReport(gpus=(Gpu(uuid="GPU-1", index=1),)), "the driver does not tell its device"),
    ],
)
def test_a_device_that_is_not_known_is_an_error_and_no_open_door(report, said):
    with pytest.raises(ResourceExhausted, match=said):
        fence(part(1), report=report)


def test_a_host_that_cannot():
    assert fence(part(1), "no root") is None
    assert fence(part(), "no root", wanted=GpuFence.REQUIRED) is None
    with pytest.raises(ResourceExhausted, match="required, but cannot be had: no root"):
        fence(part(1), "no root", wanted=GpuFence.REQUIRED)
    assert standing_note(GpuFence.ON, "no root") == "no root"
    assert sentence(standing_note(GpuFence.OFF, "it is turned off")) == "GSCHED_GPU_FENCE=N"
    assert standing_note(GpuFence.ON, CGROUP_ROOT) == ""


def test_render_nodes_of_foreign_gpus_are_denied_too(monkeypatch):
    monkeypatch.setattr(attempt_fences, "render_nodes", lambda pci: [(226, int(pci))])
    gpus = tuple(Gpu(uuid=f"GPU-{index}", index=index, minor=index, pci_bus_id=f"{128 + index}") for index in range(2))
    real = fence(part(0), report=GpuReport(gpus=gpus, provider="nvml"))
    assert real is not None
    assert real.denied == ((195, 1), (226, 129))
    simulated = fence(part(0), report=GpuReport(gpus=gpus, provider="simulated"))
    assert simulated is not None
    assert simulated.denied == ((195, 1),)


def split_gpus(provider: str = "nvml") -> GpuReport:
    """GPU 0 (minor 3) in two instances, GPU 1 whole."""
    parts = tuple(
        MigDevice(uuid=f"MIG-{place}", profile="3g.40gb", gpu_instance=place, compute_instance=0) for place in (1, 2)
    )
    first, *others = REVERSED.gpus[:2]
    return GpuReport(gpus=(msgspec.structs.replace(first, mig=True, mig_devices=parts), *others), provider=provider)


def mig_part(*uuids: str) -> HostAllocation:
    gpus = tuple(HeldGpu(uuid=uuid, index=0, claim="mig_shared", parent="GPU-0") for uuid in uuids)
    return HostAllocation(host="a", slots=1, gpus=gpus)


def test_a_job_opens_its_own_parts_of_a_gpu_and_no_others(monkeypatch):
    caps = {(place, compute): (236, 10 * place + (compute or 0)) for place in (1, 2, 9) for compute in (None, 0, 1)}
    caps = {key: (236, node + (key[1] is not None)) for key, (_, node) in caps.items()}
    monkeypatch.setattr(attempt_fences, "capabilities", lambda minor: caps if minor == 3 else None)
    found = fence(mig_part("MIG-1"), report=split_gpus())
    assert found is not None
    assert found.minors == (3,)
    assert found.denied == ((195, 2), *((236, node) for node in (12, 20, 21, 22, 90, 91, 92))), "also what may come"
    both = fence(mig_part("MIG-1", "MIG-2"), report=split_gpus())
    assert both is not None
    assert both.minors == (3,)
    assert both.denied == ((195, 2), *((236, node) for node in (12, 22, 90, 91, 92)))
    with pytest.raises(ResourceExhausted, match="MIG-5: GPU 0 has no such part"):
        fence(mig_part("MIG-5"), report=split_gpus())
    simulated = fence(mig_part("MIG-1"), report=split_gpus("simulated"))
    assert simulated is not None
    assert simulated.denied == ((195, 2),)
