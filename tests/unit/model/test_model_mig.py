"""Parts of GPUs by MIG in the ledger: devices of their own, and never beside what a changed layout has taken away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, MigDevice
from gsched.model.ledgers.allocation import MIG_ALONE_CLAIM, MIG_CLAIM, Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.devices import devices_of, held_of, islands_of
from gsched.model.ledgers.host_devices import DeviceCounter
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.ledgers.ledger import double_owners
from gsched.policy.match.room_conditions import refusal_of

WHOLE_CLAIMS = ("ngpus", "ngpus_shared", "gpu_shared", "gpu_jexcl")
GIB = 1024


def split(index: int, *profiles: str, mode: ComputeMode | None = ComputeMode.DEFAULT, problem: str = "") -> Gpu:
    """Without profiles it is whole. A part's UUID tells where it is."""
    parts = tuple(
        MigDevice(uuid=f"MIG-{index}-{place}", profile=profile, gpu_instance=place, compute_instance=0)
        for place, profile in enumerate(profiles)
    )
    name = f"G{index}"
    return Gpu(uuid=name, index=index, mode=mode, mig=bool(profiles), mig_devices=parts, problem=problem)


def host_ledger(*gpus: Gpu, shared_jobs: int = 1) -> HostLedger:
    ledger = HostLedger("a")
    ledger.shared_jobs = shared_jobs
    ledger.observe_gpus(GpuReport(gpus=gpus))
    return ledger


def uuids(ledger: HostLedger, claim: str) -> list[str]:
    return [gpu.uuid for gpu in ledger.claimable(claim)]


def holding(ledger: HostLedger, *names: str, claim: str = MIG_CLAIM) -> HostAllocation:
    return HostAllocation(host="a", slots=1, gpus=tuple(held_of(ledger.gpus[name], claim) for name in names))


@pytest.mark.parametrize(
    ("profile", "sizes"),
    [
        ("1g.10gb", (1, 1)),
        ("3g.40gb", (3, 3)),
        ("1c.3g.40gb", (3, 1)),
        ("1g.10gb+me", (1, 1)),
        ("7g", (7, 7)),
        ("", None),
        ("MIG", None),
        ("c.3g.40gb", None),
    ],
)
def test_a_profile_tells_the_sizes(profile: str, sizes: tuple[int, int] | None) -> None:
    assert MigDevice(uuid="MIG-a", profile=profile).sizes == sizes


def test_a_split_gpu_is_had_in_parts_alone() -> None:
    ledger = host_ledger(split(0), split(1, "3g.40gb", "1g.10gb"))
    for claim in WHOLE_CLAIMS:
        assert uuids(ledger, claim) == ["G0"]
        assert refusal_of(HostAllocation(host="a", slots=1, gpus=(HeldGpu(uuid="G1", index=1, claim=claim),)), ledger)
        part = HeldGpu(uuid="MIG-1-0", index=1, claim=claim, parent="G1")
        assert refusal_of(HostAllocation(host="a", slots=1, gpus=(part,)), ledger)
    assert uuids(ledger, MIG_CLAIM) == uuids(ledger, MIG_ALONE_CLAIM) == ["MIG-1-1", "MIG-1-0"], "the smallest first"
    assert refusal_of(holding(ledger, "G0"), ledger)
    part = holding(ledger, "MIG-1-0")
    assert part.gpus[0].board == "G1" and part.gpus[0].profile == "3g.40gb" and not refusal_of(part, ledger)
    ledger.take((1, 1), part)
    assert uuids(ledger, MIG_CLAIM) == ["MIG-1-1"]


def test_counters_know_no_parts() -> None:
    ledger = host_ledger(split(0), split(1, "1g.10gb", "1g.10gb"))
    ledger.take((1, 1), holding(ledger, "MIG-1-0"))
    assert ledger.counter("ngpus") == DeviceCounter(2.0, 0.0), "LSF counts GPUs"
    assert ledger.counter("ngpus_shared") == DeviceCounter(1.0, 0.0), "what can be had as a whole"
    assert [ledger.devices_in_mode(name) for name in ("ngpus", "ngpus_shared")] == [2, 2]
    assert ledger.idle() == 1


def test_jobs_share_a_part_only_where_they_share_gpus() -> None:
    ledger = host_ledger(split(0, "1g.10gb"), shared_jobs=2)
    ledger.take((1, 1), holding(ledger, "MIG-0-0"))
    assert uuids(ledger, MIG_CLAIM) == ["MIG-0-0"] and uuids(ledger, MIG_ALONE_CLAIM) == []
    ledger.take((2, 1), holding(ledger, "MIG-0-0"))
    assert uuids(ledger, MIG_CLAIM) == [] and double_owners([ledger]) == []


@pytest.mark.parametrize("gpu", [split(0, "1g.10gb", problem="lost"), split(0, "1g.10gb", mode=None)])
def test_what_is_wrong_with_a_gpu_is_wrong_with_its_parts(gpu: Gpu) -> None:
    assert uuids(host_ledger(gpu), MIG_CLAIM) == uuids(host_ledger(gpu), MIG_ALONE_CLAIM) == []


def test_parts_are_linked_with_nothing() -> None:
    linked = [Gpu(uuid=f"G{index}", index=index, links=(f"G{1 - index}",)) for index in range(2)]
    report = GpuReport(gpus=(*linked, split(2, "1g.10gb")))
    assert islands_of(devices_of(report)) == {"G0": 0, "G1": 0, "G2": 1}


def test_a_part_that_is_gone_keeps_its_gpu_closed_and_no_other() -> None:
    """pains 23."""
    ledger = host_ledger(split(0, "3g.40gb", "3g.40gb"), split(1, "1g.10gb"))
    ledger.take((1, 1), holding(ledger, "MIG-0-1"))
    ledger.observe_gpus(GpuReport(gpus=(split(0, "1g.10gb"), split(1, "1g.10gb"))))
    assert ledger.inconsistent == {"G0"} and uuids(ledger, MIG_CLAIM) == ["MIG-1-0"]
    assert refusal_of(holding(ledger, "MIG-0-0"), ledger)
    ledger.observe_gpus(GpuReport(gpus=(split(0), split(1, "1g.10gb"))))
    assert uuids(ledger, "gpu_shared") == [] and ledger.idle() == 0 and not ledger.is_idle(ledger.gpus["G0"])
    assert uuids(ledger.copy(), "gpu_shared") == []
    ledger.give((1, 1))
    assert ledger.inconsistent == frozenset() and uuids(ledger, "gpu_shared") == ["G0"] and ledger.idle() == 1


def test_a_gpu_that_is_split_below_a_job_is_not_given_in_parts() -> None:
    ledger = host_ledger(split(0))
    ledger.take((1, 1), holding(ledger, "G0", claim="gpu_jexcl"))
    ledger.observe_gpus(GpuReport(gpus=(split(0, "1g.10gb"),)))
    assert uuids(ledger, MIG_CLAIM) == []
    ledger.give((1, 1))
    assert uuids(ledger, MIG_CLAIM) == ["MIG-0-0"]


def test_the_audit_sees_a_gpu_held_as_a_whole_and_in_parts() -> None:
    ledger = host_ledger(split(0, "1g.10gb"))
    ledger.take((1, 1), holding(ledger, "MIG-0-0"))
    ledger.take((2, 1), HostAllocation(host="a", slots=1, gpus=(HeldGpu(uuid="G0", index=0, claim="ngpus"),)))
    assert double_owners([ledger]) == ["GPU G0 of a is held as a whole and in parts"]


def test_the_message_names_a_gpu_once() -> None:
    ledger = host_ledger(split(3, "1g.10gb", "1g.10gb"))
    assert Allocation(hosts=(holding(ledger, "MIG-3-0", "MIG-3-1"),)).gpu_message() == "a:gpus=3;"


def _layouts() -> st.SearchStrategy[list[tuple[int, int]]]:
    """Parts as (first slice, number of slices) of seven, side by side; none: the GPU is whole."""

    def lay(sizes: list[int]) -> list[tuple[int, int]]:
        parts, at = [], 0
        for size in sizes:
            if at + size <= 7:
                parts.append((at, size))
                at += size
        return parts

    return st.lists(st.sampled_from([1, 2, 3, 4, 7]), max_size=7).map(lay)


def _laid(layout: list[tuple[int, int]]) -> GpuReport:
    parts = tuple(MigDevice(uuid=f"MIG-{at}-{size}", profile=f"{size}g.5gb") for at, size in layout)
    gpu = Gpu(uuid="G0", index=0, mode=ComputeMode.DEFAULT, mig=bool(parts), mig_devices=parts)
    return GpuReport(gpus=(gpu,))


def _slices(uuid: str) -> set[int]:
    if uuid == "G0":
        return set(range(7))
    _, at, size = uuid.split("-")
    return set(range(int(at), int(at) + int(size)))


@given(
    st.lists(st.one_of(_layouts(), st.integers(0, 20), st.sampled_from(["gpu_jexcl", MIG_ALONE_CLAIM])), max_size=40)
)
def test_whatever_is_relaid_no_slice_is_held_twice(steps: list[list[tuple[int, int]] | int | str]) -> None:
    """Layouts change, jobs end (a number) and take the first device that they can have (a claim), in any order."""
    ledger = host_ledger()
    for number, step in enumerate(steps):
        if isinstance(step, list):
            ledger.observe_gpus(_laid(step))
        elif isinstance(step, int):
            if ledger.held:
                ledger.give(sorted(ledger.held)[step % len(ledger.held)])
        elif found := ledger.claimable(step):
            ledger.take((number, 1), HostAllocation(host="a", slots=1, gpus=(held_of(found[0], step),)))
        held = [each for part in ledger.held.values() for gpu in part.gpus for each in _slices(gpu.uuid)]
        assert len(held) == len(set(held)), ledger.held
        assert double_owners([ledger]) == []
