"""The judge of MIG layouts: what has just changed is not offered, and nothing else is touched."""

from __future__ import annotations

import msgspec

from gsched.agent.gpu.gpu_condition import still_of
from gsched.agent.gpu.mig_layout import MigLayouts
from gsched.base.coded_text import sentence
from gsched.model.hosts.host import Gpu, GpuReport, MigDevice
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey


def report(*layouts: str, provider: str = "simulated", problem: str = "", known: bool = True) -> GpuReport:
    """A GPU for each layout, `3g+1g` or empty for a whole one."""
    gpus = []
    for index, layout in enumerate(layouts):
        names = [f"{name}.5gb" for name in layout.split("+") if name]
        parts = tuple(MigDevice(uuid=f"MIG-{index}-{place}-{name}", profile=name) for place, name in enumerate(names))
        gpu = Gpu(uuid=f"G{index}", index=index, minor=index, mig=bool(parts), mig_devices=parts, problem=problem)
        gpus.append(gpu)
    return GpuReport(gpus=tuple(gpus), provider=provider, known=known)


def judge(held: dict[AttemptKey, HostAllocation] | None = None, *, is_told: bool = True) -> MigLayouts:
    return MigLayouts(lambda: held or {}, lambda minor: {(0, None): (1, minor)} if is_told else None)


def problems(found: GpuReport) -> list[str]:
    return [sentence(gpu.problem) for gpu in found.gpus]


def test_a_layout_that_has_changed_is_offered_at_the_next_look() -> None:
    """pains 23."""
    judged = judge()
    assert problems(judged(report("3g+3g", "1g"))) == ["", ""], "how it is at first is how it is"
    changed = "its MIG layout has changed from 3g.5gb+3g.5gb to 1g.5gb"
    assert problems(judged(report("1g", "1g"))) == [changed, ""]
    assert problems(judged(report("1g", "1g"))) == ["", ""]
    assert problems(judged(report("", "1g"))) == ["its MIG layout has changed from 1g.5gb to whole", ""]
    assert problems(judged(report("", ""))) == ["", "its MIG layout has changed from 1g.5gb to whole"]
    assert problems(judged(report("", ""))) == ["", ""]
    assert problems(judged(report("2g", ""))) == ["its MIG layout has changed from whole to 2g.5gb", ""]


def test_a_gpu_stays_closed_while_a_job_holds_what_is_gone() -> None:
    gone = HeldGpu(uuid="MIG-0-1-3g.5gb", index=0, claim="mig_shared", parent="G0", profile="3g.5gb")
    held = {(17, 1): HostAllocation(host="a", slots=1, gpus=(gone,))}
    judged = judge(held)
    assert problems(judged(report("3g+3g", "1g"))) == ["", ""]
    said = "MIG was changed below job 17, which holds its part MIG-0-1-3g.5gb, which is gone"
    for _ in range(3):
        assert problems(judged(report("3g", "1g"))) == [said, ""]
    held.clear()
    assert problems(judged(report("3g", "1g"))) == ["", ""]


def test_a_gpu_that_is_split_below_a_job() -> None:
    whole = HeldGpu(uuid="G0", index=0, claim="gpu_shared")
    judged = judge({(17, 1): HostAllocation(host="a", slots=1, gpus=(whole,))})
    judged(report(""))
    for _ in range(2):
        assert problems(judged(report("1g"))) == [
            "MIG was changed below job 17, which holds all of it, and it is split"
        ]


def test_what_is_worse_is_said_first_and_what_is_unknown_is_no_change() -> None:
    judged = judge()
    judged(report("1g"))
    assert problems(judged(report("2g", problem="lost"))) == ["lost"]
    judged(GpuReport(known=False))
    assert problems(judged(report("2g"))) == [""]


def test_parts_that_cannot_be_fenced_are_named() -> None:
    judged = judge(is_told=False)
    judged(report("1g", "", provider="nvml"))
    assert tuple(map(sentence, judged.notes)) == (
        "GPU 0: jobs could use others' parts of it, for the driver does not name their devices",
    )
    judged(report("", "", provider="nvml"))
    judged(report("", "", provider="nvml"))
    assert judged.notes == ()
    told = judge()
    told(report("1g", provider="nvml"))
    assert told.notes == ()


def test_a_lost_gpu_is_remembered_with_its_parts() -> None:
    (gpu,) = report("3g+1g").gpus
    assert still_of(gpu).mig_devices == gpu.mig_devices
    judged = judge()
    judged(report("3g+1g"))
    lost = msgspec.structs.replace(still_of(gpu), problem="the driver no longer lists it")
    assert problems(judged(GpuReport(gpus=(lost,)))) == ["the driver no longer lists it"]
    assert problems(judged(report("3g+1g"))) == [""], "nothing has changed"
