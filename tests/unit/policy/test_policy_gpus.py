"""What is said of GPUs that a job does not get."""

from __future__ import annotations

from gsched.model.host import ComputeMode, Gpu, GpuReport
from gsched.model.host_ledger import HostLedger
from gsched.policy.demand import DeviceKind, Devices
from gsched.policy.explain import Shortage
from gsched.policy.gpus import choose


def said(*problems: str, wanted: int = 2) -> str:
    ledger = HostLedger("a")
    gpus = (
        Gpu(uuid=f"G{index}", index=index, mode=ComputeMode.DEFAULT, problem=problem)
        for index, problem in enumerate(problems)
    )
    ledger.observe_gpus(GpuReport(gpus=tuple(gpus)))
    found = choose(ledger, (Devices(DeviceKind("ngpus"), wanted),))
    assert isinstance(found, Shortage)
    return found.reason("a").detail


def test_what_closes_a_free_gpu_is_named() -> None:
    assert said("", "foreign(bob,17,700)") == "2 wanted, 1 of 2 free on a, GPU 1 not offered: foreign(bob,17,700)"
    text = "2 wanted, 0 of 3 free on a, GPU 0 and 1 more not offered: lost, GPU 1 not offered: foreign(bob,17,700)"
    assert said("lost", "foreign(bob,17,700)", "lost") == text
    several = said(*(f"foreign(bob,{pid},74)" for pid in range(7)))
    assert several.endswith("GPU 3 not offered: foreign(bob,3,74), 3 more GPUs not offered")
    assert said("") == "2 wanted, 1 of 1 free on a"
