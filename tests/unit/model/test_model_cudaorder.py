"""CUDA's numbers of GPUs, where NVML counts otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.model.ledgers.allocation import HeldGpu
from gsched.model.ledgers.cuda_order import cuda_numbers, in_cuda_order, pci_address

BUSES = ("00000001:0A:00.0", "00000000:C1:00.0", "00000000:0a:00.0", "00000000:09:1F.0")
REVERSED = {"G0": 3, "G1": 2, "G2": 1, "G3": 0}


def report(**changed: Any) -> GpuReport:
    """Four GPUs against the order of their addresses; G2 is changed."""
    gpus = [
        Gpu(
            uuid=f"G{index}",
            index=index,
            **({"mode": ComputeMode.DEFAULT, "pci_bus_id": bus} | (changed if index == 2 else {})),
        )
        for index, bus in enumerate(BUSES)
    ]
    return GpuReport(gpus=tuple(gpus))


def test_addresses_are_numbers() -> None:
    assert pci_address("00000000:0A:00.0") == pci_address("0000:0a:00.0") == (0, 10, 0, 0)
    assert [pci_address(text) for text in ("", "0A:00.0", "0000:0A:00", "0000:XX:00.0", " 0000:0A:00.0")] == [None] * 5


def test_numbers_go_by_address() -> None:
    assert cuda_numbers(report()) == REVERSED
    assert cuda_numbers(report(problem="foreign(ann,4711,700)", mode=ComputeMode.PROHIBITED)) == REVERSED


@pytest.mark.parametrize(
    "changed", [{"fault": "lost"}, {"mode": None}, {"mig": True}, {"pci_bus_id": ""}, {"pci_bus_id": "0:C1:0.0"}]
)
def test_what_cuda_may_pass_over_leaves_no_number_certain(changed: dict[str, Any]) -> None:
    assert cuda_numbers(report(**changed)) == {}


def test_unknown_gpus_have_no_numbers() -> None:
    assert cuda_numbers(None) == cuda_numbers(GpuReport(known=False)) == cuda_numbers(GpuReport()) == {}


def test_held_gpus_in_order() -> None:
    held = [HeldGpu(uuid=f"G{index}", index=index, claim="ngpus", pci_bus_id=bus) for index, bus in enumerate(BUSES)]
    assert in_cuda_order(held) == tuple(reversed(held))
    part = HeldGpu(uuid="MIG-1", index=0, claim="mig_shared", pci_bus_id=BUSES[0], parent="G0")
    nowhere = HeldGpu(uuid="G9", index=9, claim="ngpus")
    assert in_cuda_order([*held, nowhere]) == (*held, nowhere) and in_cuda_order([part, held[1]]) == (part, held[1])
