"""Compute modes that are set for jobs: whom a GPU may be claimed for, and in which counter it stands meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.model.ledgers.allocation import ALONE_CLAIM, PROCESS_CLAIM, SHARED_CLAIM, HeldGpu, HostAllocation
from gsched.model.ledgers.host_devices import DeviceCounter
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.ledgers.ledger import double_owners, miscounts
from gsched.policy.match.room_conditions import refusal_of

SHARED, THREAD = ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_THREAD
PROHIBITED, PROCESS = ComputeMode.PROHIBITED, ComputeMode.EXCLUSIVE_PROCESS
BY_OPTION = (SHARED_CLAIM, ALONE_CLAIM, PROCESS_CLAIM)
CLAIMS = (*BY_OPTION, "ngpus", "ngpus_shared", "ngpus_excl_p")


def gpu(index: int, mode: ComputeMode, standing: ComputeMode | None = None, *, settable: bool = True) -> Gpu:
    counted = standing or mode
    return Gpu(
        uuid=f"G{index}",
        index=index,
        mode=mode,
        standing_mode=standing,
        mode_settable=settable and counted in (SHARED, PROCESS),
    )


def host_ledger(*gpus: Gpu, shared_jobs: int = 1) -> HostLedger:
    ledger = HostLedger("a")
    ledger.shared_jobs = shared_jobs
    ledger.observe_gpus(GpuReport(gpus=gpus, sets_modes=True))
    return ledger


def part(index: int, claim: str) -> HostAllocation:
    return HostAllocation(host="a", slots=1, gpus=(HeldGpu(uuid=f"G{index}", index=index, claim=claim),))


def claimable(ledger: HostLedger, claim: str) -> list[int]:
    return [gpu.index for gpu in ledger.claimable(claim)]


def test_by_option_any_gpu_will_do_whose_mode_is_set_for_jobs_and_the_right_ones_come_first() -> None:
    ledger = host_ledger(gpu(0, SHARED), gpu(1, PROCESS), gpu(2, PROHIBITED), gpu(3, THREAD), gpu(4, PROCESS))
    assert claimable(ledger, PROCESS_CLAIM) == [1, 4, 0]
    assert claimable(ledger, SHARED_CLAIM) == claimable(ledger, ALONE_CLAIM) == [0, 1, 4]
    assert [ledger.devices_for(claim) for claim in BY_OPTION] == [3, 3, 3]
    # A counter takes what counts as its own, today and for ever.
    assert claimable(ledger, "ngpus_excl_p") == [1, 4]
    assert claimable(ledger, "ngpus_shared") == [0]
    assert refusal_of(part(0, PROCESS_CLAIM), ledger) is refusal_of(part(1, SHARED_CLAIM), ledger) is None
    assert refusal_of(part(2, PROCESS_CLAIM), ledger) and refusal_of(part(3, SHARED_CLAIM), ledger)


def test_where_modes_are_not_set_a_gpu_must_be_in_the_right_one() -> None:
    ledger = host_ledger(gpu(0, SHARED, settable=False), gpu(1, PROCESS, settable=False))
    assert [claimable(ledger, claim) for claim in BY_OPTION] == [[0], [0], [1]]
    assert refusal_of(part(0, PROCESS_CLAIM), ledger)


@pytest.mark.parametrize(
    ("claim", "set_to", "standing"), [(PROCESS_CLAIM, PROCESS, SHARED), (ALONE_CLAIM, SHARED, PROCESS)]
)
def test_counters_mean_the_administrators_modes_whatever_a_job_needs(
    claim: str, set_to: ComputeMode, standing: ComputeMode
) -> None:
    own = "ngpus_shared" if standing is SHARED else "ngpus_excl_p"
    other = "ngpus_excl_p" if standing is SHARED else "ngpus_shared"
    ledger = host_ledger(gpu(0, standing))
    assert (ledger.counter(own), ledger.counter(other)) == (DeviceCounter(1.0, 0.0), DeviceCounter(0.0, 0.0))
    ledger.take((1, 1), part(0, claim))
    for seen in (gpu(0, standing), gpu(0, set_to, standing)):  # before its agent has set the mode, and after
        ledger.observe_gpus(GpuReport(gpus=(seen,), sets_modes=True))
        assert (ledger.counter(own), ledger.counter(other)) == (DeviceCounter(0.0, 1.0), DeviceCounter(0.0, 0.0))
        assert (ledger.devices_in_mode(own), ledger.devices_in_mode(other)) == (1, 0)
        assert [claimable(ledger, each) for each in CLAIMS] == [[]] * len(CLAIMS)
    ledger.give((1, 1))  # the agent has set it back, but its report is still under way
    assert (ledger.counter(own), ledger.counter(other)) == (DeviceCounter(1.0, 0.0), DeviceCounter(0.0, 0.0))


def test_a_gpu_is_shared_unless_somebody_has_taken_it_out_of_default_mode() -> None:
    ledger = host_ledger(gpu(0, PROCESS), shared_jobs=3)
    ledger.take((1, 1), part(0, SHARED_CLAIM))
    assert claimable(ledger, SHARED_CLAIM) == [0]  # its mode is being set
    ledger.observe_gpus(GpuReport(gpus=(gpu(0, SHARED, PROCESS),), sets_modes=True))
    assert claimable(ledger, SHARED_CLAIM) == [0]
    ledger.take((2, 1), part(0, SHARED_CLAIM))
    assert claimable(ledger, "ngpus_shared") == []
    changed = structs.replace(gpu(0, PROCESS), mode_given=SHARED)  # by somebody, under both
    ledger.observe_gpus(GpuReport(gpus=(changed,), sets_modes=True))
    assert [claimable(ledger, each) for each in CLAIMS] == [[]] * len(CLAIMS)
    assert refusal_of(part(0, SHARED_CLAIM), ledger)


@st.composite
def _seen(draw: st.DrawFn) -> Gpu:
    mode = draw(st.sampled_from(list(ComputeMode)))
    standing = draw(st.sampled_from([None, SHARED, PROCESS])) if mode in (SHARED, PROCESS) else None
    seen = gpu(0, mode, standing, settable=draw(st.booleans()))
    return structs.replace(seen, mode_given=draw(st.sampled_from([None, SHARED, PROCESS])))


_steps = st.one_of(
    _seen(),
    st.tuples(st.just("take"), st.integers(1, 5), st.sampled_from(CLAIMS)),
    st.tuples(st.just("give"), st.integers(1, 5)),
)


@given(steps=st.lists(_steps, max_size=30), shared_jobs=st.integers(1, 3))
def test_whatever_modes_change_nothing_has_two_exclusive_owners(steps: list[object], shared_jobs: int) -> None:
    """pains 12: whoever sets modes, and whenever: what one job has for itself no other is given."""
    ledger = host_ledger(gpu(0, SHARED), shared_jobs=shared_jobs)
    for step in steps:
        match step:
            case Gpu():
                ledger.observe_gpus(GpuReport(gpus=(step,), sets_modes=True))
            case ("take", int(job), str(claim)) if (job, 1) not in ledger.held:
                fits = not refusal_of(part(0, claim), ledger)
                assert fits == (claimable(ledger, claim) == [0])
                if fits:
                    ledger.take((job, 1), part(0, claim))
            case ("give", int(job)) if (job, 1) in ledger.held:
                ledger.give((job, 1))
        assert double_owners([ledger]) == []
        assert len(ledger.held) <= shared_jobs or len(ledger.held) == 1
        assert list(miscounts(ledger)) == []
        free = [name for name in ("ngpus_shared", "ngpus_excl_t", "ngpus_excl_p") if (ledger.left(name) or 0) > 0]
        assert len(free) <= 1, "a GPU is free in two counters at once"
