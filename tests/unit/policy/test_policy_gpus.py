"""What is said of GPUs that a job does not get."""

from __future__ import annotations

from gsched.base.coded_text import coded, sentence
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, GpuReport
from gsched.model.ledgers.allocation import PROCESS_CLAIM
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.policy.devices.gpu_choice import choose
from gsched.policy.requirement.demand import DeviceKind, Devices
from gsched.policy.requirement.reasons import Shortage


def said(*problems: str, wanted: int = 2) -> str:
    ledger = HostLedger("a")
    gpus = (
        Gpu(uuid=f"G{index}", index=index, mode=ComputeMode.DEFAULT, problem=problem)
        for index, problem in enumerate(problems)
    )
    ledger.observe_gpus(GpuReport(gpus=tuple(gpus)))
    found = choose(ledger, (Devices(DeviceKind("ngpus"), wanted),))
    assert isinstance(found, Shortage)
    return sentence(found.reason("a").detail)


def test_what_closes_a_free_gpu_is_named() -> None:
    assert said("", "foreign(bob,17,700)") == "2 wanted, 1 of 2 free on a, GPU 1 not offered: foreign(bob,17,700)"
    text = "2 wanted, 0 of 3 free on a, GPU 0 and 1 more not offered: lost, GPU 1 not offered: foreign(bob,17,700)"
    assert said("lost", "foreign(bob,17,700)", "lost") == text
    several = said(*(f"foreign(bob,{pid},74)" for pid in range(7)))
    assert several.endswith("GPU 3 not offered: foreign(bob,3,74), 3 more GPUs not offered")
    assert said("") == "2 wanted, 1 of 1 free on a"


def test_who_keeps_a_gpu_in_another_mode_is_named() -> None:
    """No agent changes a mode below a process: a job that wants the other mode waits for that process."""
    ann = GpuProcess(pid=4711, user="ann", used_mib=74)
    used = Gpu(uuid="G0", index=0, mode=ComputeMode.DEFAULT, processes=(ann, ann), process_count=2)
    ledger = HostLedger("a")
    ledger.observe_gpus(GpuReport(gpus=(used, Gpu(uuid="G1", index=1, mode=ComputeMode.PROHIBITED))))
    found = choose(ledger, (Devices(DeviceKind(PROCESS_CLAIM), 1),))
    assert isinstance(found, Shortage)
    why = "GPU 0 not offered: in mode default, used by pid 4711 of ann (74 MiB) and 1 more"
    assert sentence(found.reason("a").detail) == f"1 of mode=exclusive_process wanted, a has no such GPU, {why}"
    users = (coded("gpu.pid_of_with", 4711, "ann", 74), coded("gpu.and_more", 1))
    assert found.closed == coded("gpu.not_offered", 0, "", coded("gpu.kept_in_mode", "default", *users))
    found = choose(ledger, (Devices(DeviceKind("ngpus_excl_p"), 1),))
    assert isinstance(found, Shortage) and not found.closed
