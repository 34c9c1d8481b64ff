"""Parts of GPUs by MIG: which of them a job gets that asks for mig=."""

from __future__ import annotations

import pytest

from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, MigDevice
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.policy.devices.gpu_choice import choose, choose_any, obtainable
from gsched.policy.future.future_ledgers import Future
from gsched.policy.requirement.demand import Devices
from gsched.policy.requirement.demand_reader import kind_of
from gsched.policy.requirement.reasons import Shortage
from gsched.resreq.parsing.gpu import parse_gpu

PROFILES = ("3g.40gb", "1c.3g.40gb", "2c.3g.40gb", "1g.10gb", "1g.20gb")


def host_ledger() -> HostLedger:
    """A whole GPU, and one in parts."""
    parts = tuple(
        MigDevice(uuid=f"MIG-{profile}", profile=profile, memory_mib=int(profile.rpartition(".")[2][:-2]) * 1024)
        for profile in PROFILES
    )
    gpus = (
        Gpu(uuid="G0", index=0, model="NVIDIA A100-SXM4-80GB", mode=ComputeMode.DEFAULT, memory_mib=81_920),
        Gpu(
            uuid="G1",
            index=1,
            model="NVIDIA A100-SXM4-80GB",
            mode=ComputeMode.DEFAULT,
            memory_mib=81_920,
            mig=True,
            mig_devices=parts,
        ),
    )
    ledger = HostLedger("a")
    ledger.observe_gpus(GpuReport(gpus=gpus))
    return ledger


def asked(text: str) -> Devices:
    gpu = parse_gpu(text)
    assert gpu is not None
    return Devices(kind_of(gpu), gpu.num)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("num=1", ["G0"]),
        ("mode=exclusive_process", None),
        ("mig=1", ["MIG-1g.10gb"]),
        ("mig=1:gmem=15G", ["MIG-1g.20gb"]),
        ("num=2:mig=1", ["MIG-1g.10gb", "MIG-1g.20gb"]),
        ("mig=1:j_exclusive=yes", ["MIG-1g.10gb"]),
        ("mig=3", ["MIG-1c.3g.40gb"]),
        ("mig=3/2", ["MIG-2c.3g.40gb"]),
        ("mig=3/3", ["MIG-3g.40gb"]),
        ("mig=1:gmodel=A100", ["MIG-1g.10gb"]),
        ("mig=1:gmodel=H100", None),
        ("mig=2", None),
        ("mig=3:gmem=64G", None),
        ("num=3:mig=1", None),
    ],
)
def test_the_smallest_part_that_is_of_the_size(text: str, given: list[str] | None) -> None:
    found = choose(host_ledger(), (asked(text),))
    if given is None:
        assert isinstance(found, Shortage)
    else:
        assert not isinstance(found, Shortage)
        assert [held.uuid for held in found] == given


def test_a_shortage_counts_parts_of_the_size() -> None:
    ledger = host_ledger()
    found = choose(ledger, (asked("num=3:mig=1"),))
    assert found == Shortage("ngpus_physical", 3, 2, 2, "mig=1")
    assert obtainable(ledger, asked("mig=3").kind) == 3


def test_a_plan_puts_a_part_in_the_place_of_one_like_it() -> None:
    ledger = host_ledger()
    gone = HeldGpu(uuid="MIG-gone", index=1, claim="mig_shared", parent="G1", profile="1g.20gb")
    found = Future._devices(HostAllocation(host="a", slots=1, gpus=(gone,)), ledger)
    assert found is not None
    assert [held.uuid for held in found] == ["MIG-1g.20gb"]


def test_a_job_that_asks_for_none_gets_no_part() -> None:
    ledger = host_ledger()
    found = choose_any(ledger)
    assert not isinstance(found, Shortage)
    assert [held.uuid for held in found] == ["G0"]
    whole, split = ledger.gpus["G0"], ledger.gpus["G1"]
    ledger.observe_gpus(GpuReport(gpus=(split,)))
    assert choose_any(ledger) == (), "no GPU that is whole is as good as none"
    ledger.observe_gpus(GpuReport(gpus=(whole, split)))
    ledger.take((1, 1), HostAllocation(host="a", slots=1, gpus=found))
    assert choose_any(ledger) == Shortage("ngpus", 1, 0, 2)
