"""The ledger: who may claim which device, and counters that are nothing but projections of devices."""

from __future__ import annotations

import pytest
from msgspec import structs

from gsched.base.coded_text import sentence
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.devices import offer_of
from gsched.model.ledgers.host_devices import DeviceCounter
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.ledgers.ledger import Ledger, double_owners, miscounts
from gsched.policy.match.host_fit import misfit
from gsched.policy.match.room_conditions import refusal_of

SHARED = ComputeMode.DEFAULT
THREAD = ComputeMode.EXCLUSIVE_THREAD
PROHIBITED = ComputeMode.PROHIBITED
PROCESS = ComputeMode.EXCLUSIVE_PROCESS


def report(*modes: ComputeMode | None) -> GpuReport:
    return GpuReport(gpus=tuple(Gpu(uuid=f"G{i}", index=i, mode=mode) for i, mode in enumerate(modes)))


def host_ledger(*modes: ComputeMode | None, slots: int | None = 8, shared_jobs: int = 1) -> HostLedger:
    ledger = HostLedger("a")
    ledger.max_slots, ledger.shared_jobs = slots, shared_jobs
    ledger.observe_gpus(report(*modes))
    return ledger


def part(*indices: int, claim: str = "ngpus_excl_p", slots: int = 1, **amounts: float) -> HostAllocation:
    held = tuple(HeldGpu(uuid=f"G{i}", index=i, claim=claim) for i in indices)
    return HostAllocation(host="a", slots=slots, gpus=held, amounts=amounts)


def claimable(ledger: HostLedger, claim: str) -> list[int]:
    return [gpu.index for gpu in ledger.claimable(claim)]


def why(part: HostAllocation, ledger: HostLedger) -> str:
    """What keeps the part from the host."""
    reason = refusal_of(part, ledger)
    return "" if reason is None else sentence(reason.detail or reason.text)


def test_counters_follow_lsf_while_jobs_start_and_end() -> None:
    ledger = host_ledger(PROCESS, PROCESS, PROCESS, PROCESS)
    assert ledger.counter("ngpus_excl_p") == DeviceCounter(4.0, 0.0)
    ledger.take((1153, 1), part(2))
    assert ledger.counter("ngpus_excl_p") == DeviceCounter(3.0, 1.0)
    ledger.take((1154, 1), part(3))
    assert ledger.counter("ngpus_excl_p") == DeviceCounter(2.0, 2.0)
    # ngpus does not shrink: select[ngpus>0] goes on holding, the reservation is what keeps the next job waiting.
    assert ledger.counter("ngpus") == DeviceCounter(4.0, 0.0)
    assert ledger.counter("ngpus_shared") == ledger.counter("ngpuprohibited") == DeviceCounter(0.0, 0.0)
    ledger.give((1153, 1))
    ledger.give((1154, 1))
    assert ledger.counter("ngpus_excl_p") == DeviceCounter(4.0, 0.0)
    assert ledger.holders == {} and ledger.slots_used == 0


@pytest.mark.parametrize(
    ("claim", "mode"), [("ngpus_shared", SHARED), ("ngpus_excl_t", THREAD), ("ngpus_excl_p", PROCESS)]
)
def test_a_claim_by_mode_takes_only_devices_in_that_mode(claim: str, mode: ComputeMode) -> None:
    ledger = host_ledger(SHARED, THREAD, PROHIBITED, PROCESS)
    index = [SHARED, THREAD, PROHIBITED, PROCESS].index(mode)
    assert claimable(ledger, claim) == [index]
    assert ledger.counter(claim) == DeviceCounter(1.0, 0.0)
    assert claimable(ledger, "ngpus") == [0, 1, 3]  # whatever is not prohibited
    assert claimable(ledger, "ngpuprohibited") == []
    assert ledger.counter("ngpuprohibited") == DeviceCounter(1.0, 0.0)
    assert [ledger.devices_in_mode(name) for name in ("ngpus", claim, "ngpuprohibited")] == [4, 1, 1]


@pytest.mark.parametrize("switched", [*ComputeMode, None])
@pytest.mark.parametrize("claim", ["ngpus", "ngpus_shared", "ngpus_excl_t", "ngpus_excl_p"])
def test_a_held_device_is_never_free_whoever_switches_its_mode(switched: ComputeMode | None, claim: str) -> None:
    ledger = host_ledger(PROCESS)
    ledger.take((1, 1), part(0))
    ledger.observe_gpus(report(switched))
    assert claimable(ledger, claim) == []
    assert ledger.counter("ngpus_excl_p") == DeviceCounter(0.0, 1.0)
    other = part(0, claim=claim)
    assert "cannot be claimed" in why(other, ledger)


def test_a_shared_device_takes_as_many_jobs_as_configured() -> None:
    ledger = host_ledger(SHARED, SHARED, shared_jobs=2)
    ledger.take((1, 1), part(0, claim="ngpus_shared"))
    assert claimable(ledger, "ngpus_shared") == [1, 0]  # the least shared first
    assert claimable(ledger, "ngpus") == [1]  # a plain claim is for a device of its own
    ledger.take((2, 1), part(0, claim="ngpus_shared"))
    assert claimable(ledger, "ngpus_shared") == [1]
    assert ledger.counter("ngpus_shared") == DeviceCounter(1.0, 2.0)
    ledger.take((3, 1), part(1, claim="ngpus"))
    assert claimable(ledger, "ngpus_shared") == []
    assert ledger.counter("ngpus") == DeviceCounter(1.0, 1.0)
    ledger.shared_jobs = 1  # a reconfig: nobody is thrown off
    assert ledger.counter("ngpus_shared") == DeviceCounter(0.0, 2.0)
    ledger.give((1, 1))
    assert claimable(ledger, "ngpus_shared") == []


def test_counters_are_never_below_zero_and_never_count_a_vanished_device() -> None:
    ledger = host_ledger(PROCESS, PROCESS)
    ledger.take((1, 1), part(0, claim="ngpus"))
    ledger.take((2, 1), part(1, claim="ngpus"))
    ledger.observe_gpus(report(PROCESS))
    assert ledger.counter("ngpus") == DeviceCounter(0.0, 2.0)
    ledger.give((1, 1))
    assert ledger.counter("ngpus") == DeviceCounter(1.0, 1.0)  # the one left is free, the vanished one still held
    ledger.observe_gpus(report())
    assert ledger.counter("ngpus") == DeviceCounter(0.0, 1.0)


def test_unknown_devices_are_none_and_offer_nothing() -> None:
    ledger = host_ledger(PROCESS)
    ledger.take((1, 1), part(0))
    for unknown in (None, GpuReport(known=False, reason="the probe hangs")):
        ledger.observe_gpus(unknown)
        assert ledger.counter("ngpus") is None and ledger.counter("ngpus_excl_p") is None
        assert ledger.claimable("ngpus") == []
        assert why(part(0), ledger) == "GPU G0 is not on a"
    ledger.observe_gpus(GpuReport(reason="no driver"))
    assert ledger.counter("ngpus") == DeviceCounter(0.0, 0.0)


def test_a_device_with_a_problem_or_an_unreadable_mode_is_not_offered() -> None:
    ledger = host_ledger()
    ledger.observe_gpus(
        GpuReport(gpus=(Gpu(uuid="G0", index=0, mode=PROCESS, problem="lost"), Gpu(uuid="G1", index=1, mode=None)))
    )
    assert claimable(ledger, "ngpus") == [] == claimable(ledger, "ngpus_excl_p")
    assert ledger.counter("ngpus") == DeviceCounter(1.0, 0.0)
    assert ledger.counter("ngpus_excl_p") == DeviceCounter(0.0, 0.0)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (part(0, 1), ""),
        (part(slots=8), ""),
        (part(slots=9), "9 wanted, 8 of 8 free on a"),
        (part(7), "GPU G7 is not on a"),
        (part(0, 0), "a GPU of a is named twice"),
        (part(0, claim="ngpus_shared"), "GPU G0 of a cannot be claimed as ngpus_shared now"),
        (part(0, claim="ngpuprohibited"), "GPU G0 of a cannot be claimed as ngpuprohibited now"),
        (part(0, claim="licence"), "GPU G0 of a cannot be claimed as licence now"),
    ],
)
def test_a_misfit_says_why(wanted: HostAllocation, said: str) -> None:
    assert why(wanted, host_ledger(PROCESS, PROCESS)) == said


def test_slots_are_never_negative_and_may_be_without_limit() -> None:
    ledger = host_ledger(slots=2)
    ledger.take((1, 1), part(slots=5))  # a fact from a replay, before MXJ was lowered
    assert ledger.free_slots == 0
    ledger.max_slots = None
    assert ledger.free_slots is None and refusal_of(part(slots=999), ledger) is None


def test_amounts_leave_no_crumbs() -> None:
    ledger = host_ledger()
    for number, amount in enumerate((0.1, 0.2, 0.3), 1):
        ledger.take((number, 1), part(mem=amount, licence=1.0))
    ledger.give((2, 1))
    assert ledger.reserved == {"mem": 0.1 + 0.3, "licence": 2.0}
    ledger.give((1, 1))
    ledger.give((3, 1))
    assert ledger.reserved == {} and list(miscounts(ledger)) == []


def test_a_holding_is_entered_once_and_ended_once() -> None:
    ledger = host_ledger(PROCESS)
    ledger.take((1, 1), part(0))
    with pytest.raises(ValueError, match="already holds"):
        ledger.take((1, 1), part(0))
    ledger.give((1, 1))
    with pytest.raises(KeyError):
        ledger.give((1, 1))


def test_a_fork_can_be_spent_without_touching_the_original() -> None:
    ledger = Ledger()
    for name in ("a", "b"):
        ledger.host(name).observe_gpus(report(PROCESS))
        ledger.host(name).max_slots = 4
    ledger.take((1, 1), Allocation(hosts=(part(0, mem=5.0),)))
    twin = ledger.fork()
    twin.give((1, 1), Allocation(hosts=(part(0, mem=5.0),)))
    twin.take((2, 1), Allocation(hosts=(HostAllocation(host="b", slots=4),)))
    twin.take((3, 1), Allocation(hosts=(HostAllocation(host="new", slots=1),)))
    assert ledger.host("a").held.keys() == {(1, 1)} and ledger.host("a").reserved == {"mem": 5.0}
    assert ledger.host("b").free_slots == 4 and "new" not in ledger.hosts
    assert twin.host("a").counter("ngpus_excl_p") == DeviceCounter(1.0, 0.0) and twin.host("b").free_slots == 0
    assert [ledger.holds("a", (1, 1)), twin.holds("a", (1, 1)), ledger.holds("nowhere", (1, 1))] == [True, False, False]


def test_an_emptied_ledger_is_one_that_has_been_given_all_back() -> None:
    ledger = host_ledger(ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.DEFAULT, ComputeMode.DEFAULT)
    ledger.take((1, 1), part(0, mem=10.0))
    ledger.take((2, 1), part(1, claim="ngpus_shared", lic=1.0))
    ledger.take((3, 1), structs.replace(part(2, claim="ngpus"), exclusive=True))
    ledger.suspend((2, 1))
    twin = ledger.emptied()
    assert len(ledger.held) == 3 and ledger.exclusive == (3, 1)
    for key in list(ledger.held):
        ledger.give(key)
    slots = [name for kind in HostLedger.__mro__ for name in getattr(kind, "__slots__", ()) if name != "_changes"]
    assert not ledger.inconsistent  # worked out when it is asked for
    assert {name: getattr(twin, name) for name in slots} == {name: getattr(ledger, name) for name in slots}


def test_an_attempt_that_still_holds_something_cannot_be_given_more() -> None:
    ledger = Ledger()
    ledger.host("a").max_slots = 4
    both = Allocation(hosts=(HostAllocation(host="a", slots=4), HostAllocation(host="b", slots=1)))
    assert misfit(ledger, (1, 1), both) == ""
    ledger.take((1, 1), Allocation(hosts=(part(),)))
    assert sentence(misfit(ledger, (1, 1), both)) == "attempt 1 of job 1 is still on a"
    assert sentence(misfit(ledger, (1, 2), both)) == "Not enough job slot(s): 4 wanted, 3 of 4 free on a"


def test_double_owners_are_named_and_sharers_are_not() -> None:
    ledger = host_ledger(SHARED)
    ledger.take((1, 1), part(0, claim="ngpus_shared"))
    ledger.take((2, 1), part(0, claim="ngpus_shared"))
    assert double_owners([ledger]) == []
    ledger.take((3, 1), part(0, claim="ngpus"))
    assert double_owners([ledger]) == ["GPU G0 of a is held by [(1, 1), (2, 1), (3, 1)]"]


def gmem_report(**facts: int | None) -> GpuReport:
    return GpuReport(gpus=(Gpu(uuid="G0", index=0, mode=SHARED, memory_mib=80_000, **facts),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "room_mib"),
    [
        ({}, 80_000),
        ({"reserved_mib": 600}, 79_400),  # what the driver keeps
        ({"reserved_mib": 600, "used_mib": 10_000, "foreign_mib": 9_000}, 70_400),
        ({"used_mib": 10_000, "foreign_mib": 0}, 80_000),  # jobs' own
        ({"used_mib": 10_000}, 70_000),  # nobody holds it, and its processes cannot be seen
        ({"reserved_mib": 90_000}, 0),
    ],
)
def test_gmem_is_what_is_really_free(facts: dict[str, int | None], room_mib: int) -> None:
    ledger = host_ledger()
    ledger.observe_gpus(gmem_report(**facts))
    assert [gpu.index for gpu in ledger.claimable("gpu_shared", gmem_mib=room_mib)] == [0]
    assert ledger.claimable("gpu_shared", gmem_mib=room_mib + 1) == []
    wish = HeldGpu(uuid="G0", index=0, claim="gpu_shared", gmem_mib=room_mib + 1.0)
    assert "cannot be claimed" in why(HostAllocation(host="a", slots=1, gpus=(wish,)), ledger)


def test_memory_of_strangers_is_taken_from_what_jobs_share() -> None:
    ledger = host_ledger(shared_jobs=4)
    ledger.observe_gpus(gmem_report(foreign_mib=30_000, used_mib=70_000))
    held = HeldGpu(uuid="G0", index=0, claim="gpu_shared", gmem_mib=40_000.0)
    ledger.take((1, 1), HostAllocation(host="a", slots=1, gpus=(held,)))
    assert ledger.claimable("gpu_shared", gmem_mib=10_000) and not ledger.claimable("gpu_shared", gmem_mib=10_001)


def test_readings_that_move_are_no_other_offer() -> None:
    before, after = (
        gmem_report(used_mib=used, power_w=used, utilization_percent=used, foreign_mib=5 * used) for used in (41, 42)
    )
    assert offer_of(before) == offer_of(after)
    assert offer_of(before) != offer_of(gmem_report(used_mib=41, foreign_mib=6_000))
    assert offer_of(before) != offer_of(gmem_report(used_mib=41, foreign_mib=205, reserved_mib=600))
