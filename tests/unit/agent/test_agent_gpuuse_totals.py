"""Tests of the sums and the curve that are made of samples of a GPU."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.agent.gpu_use.timed_measure import TimedMeasure
from gsched.agent.gpu_use.use_curve import UseCurve
from gsched.agent.gpu_use.use_sample import UseSample
from gsched.agent.gpu_use.use_totals import DeviceTotals, begun
from gsched.model.gpus.gpu_curve import MOST_POINTS
from gsched.model.gpus.gpu_use import GpuUsage, ProcessUse, of_job

START = 1_000_000.0


def totals(energy_j: float | None = None) -> DeviceTotals:
    return begun("GPU-a", 3, START, 10.0, UseSample(energy_j=energy_j))


def played(samples: list[UseSample], step_s: float = 10.0) -> DeviceTotals:
    found = totals(samples[0].energy_j if samples else None)
    for number, sample in enumerate(samples, 1):
        found.add(sample, START + number * step_s, 10.0)
    return found


def test_steps() -> None:
    use = played([UseSample(sm_percent=float(each)) for each in (0, 0, 0, 50, 50, 50, 50, 100, 100, 100)]).summary("h")
    assert (use.host, use.index, use.uuid, use.samples, use.covered_s) == ("h", 3, "GPU-a", 10, 100.0)
    assert (use.sm_mean, use.sm_median, use.sm_p95, use.sm_min, use.sm_max) == (50.0, 50.0, 100.0, 0.0, 100.0)
    assert use.idle_s == 30.0


def test_sawtooth_and_bursts() -> None:
    tooth = played([UseSample(sm_percent=float(each % 101)) for each in range(202)]).summary("h")
    assert (tooth.sm_mean, tooth.sm_median, tooth.sm_p95, tooth.sm_max) == (pytest.approx(50.0), 50.0, 95.0, 100.0)
    bursts = played([UseSample(sm_percent=90.0 if each % 10 == 0 else 0.0) for each in range(100)]).summary("h")
    assert (bursts.sm_mean, bursts.sm_median, bursts.sm_p95, bursts.sm_max) == (pytest.approx(9.0), 0.0, 90.0, 90.0)
    assert bursts.idle_s == 900.0


def test_memory_power_and_processes() -> None:
    samples = [
        UseSample(mem_mib=100.0, power_w=100.0, traffic_percent=10.0, own=()),
        UseSample(mem_mib=300.0, power_w=200.0, traffic_percent=30.0, own=(ProcessUse(pid=1), ProcessUse(pid=2))),
    ]
    use = played(samples).summary("h")
    assert (use.mem_mean_mib, use.mem_max_mib) == (200.0, 300.0)
    assert (use.traffic_mean, use.traffic_min, use.traffic_max) == (20.0, 10.0, 30.0)
    assert (use.power_mean_w, use.energy_j, use.energy_counted) == (150.0, 3000.0, False)
    assert use.no_process_s == 10.0


def test_what_no_sample_tells_is_unknown() -> None:
    use = played([UseSample(), UseSample()]).summary("h")
    assert use == GpuUsage(host="h", index=3, uuid="GPU-a", samples=2, covered_s=20.0)
    assert totals().summary("h") == GpuUsage(host="h", index=3, uuid="GPU-a")


def test_the_counter_counts_energy() -> None:
    found = totals(5000.0)
    found.add(UseSample(energy_j=6000.0, power_w=1.0), START + 10, 10.0)
    found.add(UseSample(energy_j=6500.0, power_w=1.0), START + 20, 10.0)
    found.end(UseSample(energy_j=6600.0), START + 21, 10.0)
    use = found.summary("h")
    assert (use.energy_j, use.energy_counted) == (1600.0, True)


def test_the_counter_tells_of_a_hole_too() -> None:
    found = totals(0.0)
    found.add(UseSample(energy_j=100.0, sm_percent=10.0), START + 10, 10.0)
    found.add(UseSample(energy_j=90_100.0, sm_percent=10.0), START + 910, 10.0)
    use = found.summary("h")
    assert (use.energy_j, use.covered_s) == (90_100.0, 20.0)


@pytest.mark.parametrize("astray", [-5.0, 400.0, 2.0**63, 1e12])
def test_a_counter_that_goes_astray_is_not_believed(astray: float) -> None:
    """It falls back, or leaps ahead: then power tells, and later the counter goes on from where it is."""
    found = totals(500.0)
    for number, counter in enumerate((1500.0, astray, 2500.0, 3000.0), 1):
        found.add(UseSample(energy_j=counter, power_w=100.0), START + 10.0 * number, 10.0)
    use = found.summary("h")
    by_counter = 1000.0 + 500.0 + (2100.0 if astray == 400.0 else 2505.0 if astray == -5.0 else 0.0)
    by_power = 1000.0 if astray in (400.0, -5.0) else 2000.0
    assert (use.energy_j, use.energy_counted) == (by_counter + by_power, False)


def test_energy_without_counter_for_a_while_is_not_counted_twice() -> None:
    found = totals(0.0)
    for number, counter in enumerate((1000.0, None, 3000.0, 4000.0), 1):
        found.add(UseSample(energy_j=counter, power_w=100.0), START + 10.0 * number, 10.0)
    assert found.summary("h").energy_j == 4000.0


def test_throttling() -> None:
    reasons = (0x1, 0x4, 0x4 | 0x40, 0x8, None, 0x2)
    use = played([UseSample(throttle=each) for each in reasons]).summary("h")
    assert (use.throttled_s, use.throttled_power_s, use.throttled_heat_s) == (30.0, 20.0, 10.0)
    assert played([UseSample()]).summary("h").throttled_s is None


def test_counters_are_told_as_how_far_they_came() -> None:
    """From where they stood at the start; one that falls back has begun anew with the driver."""
    found = begun("GPU-a", 0, START, 10.0, UseSample(counters={"pcie_tx_mib": 1000.0, "ecc_corrected": 5.0}))
    for number, (sent, corrected) in enumerate(((1100.0, 5.0), (1400.0, 7.0), (30.0, 1.0)), 1):
        found.add(UseSample(counters={"pcie_tx_mib": sent, "ecc_corrected": corrected}), START + number * 10, 10.0)
    found.end(UseSample(counters={"pcie_tx_mib": 40.0, "ecc_corrected": 1.0}), START + 31, 10.0)
    use = found.summary("h")
    assert (use.pcie_tx_mib, use.ecc_corrected) == (100.0 + 300.0 + 30.0 + 10.0, 0.0 + 2.0 + 1.0)
    assert (use.ecc_errors, use.pcie_rx_mib, use.nvlink_tx_mib) == (None, None, None)


def test_a_counter_that_leaps_further_than_a_device_can_is_not_believed() -> None:
    found = begun("GPU-a", 0, START, 10.0, UseSample(counters={"nvlink_tx_mib": 0.0}))
    for number, sent in enumerate((100.0, 1e15, 1e15 + 50.0), 1):
        found.add(UseSample(counters={"nvlink_tx_mib": sent}), START + number * 10, 10.0)
    assert found.summary("h").nvlink_tx_mib == 150.0


def test_without_counters_traffic_is_rate_by_time() -> None:
    use = played([UseSample(rates={"pcie_rx_mib": 8.0}), UseSample(rates={"pcie_rx_mib": 4.0}), UseSample()])
    assert use.summary("h").pcie_rx_mib == 120.0


def test_what_gpm_tells_is_a_mean_by_time_and_part_of_the_curve() -> None:
    found = played([UseSample(profile={"tensor": each, "sm_active": 50.0}) for each in (10.0, 30.0)])
    use = found.summary("h")
    assert (use.tensor_mean, use.sm_active_mean, use.occupancy_mean, use.dram_mean) == (20.0, 50.0, None, None)
    assert [point.values["tensor"] for point in found.curve.told("GPU-a", 3).points] == [(10.0,) * 3, (30.0,) * 3]


def test_a_clock_set_back_makes_no_time() -> None:
    found = totals()
    for at, percent in ((10.0, 10.0), (-500.0, 90.0), (-490.0, 50.0)):
        found.add(UseSample(sm_percent=percent), START + at, 10.0)
    use = found.summary("h")
    assert (use.covered_s, use.sm_mean, use.sm_max, use.samples) == (20.0, 30.0, 90.0, 3)


def test_a_long_silence_is_a_hole() -> None:
    found = totals()
    found.add(UseSample(sm_percent=0.0, own=()), START + 10, 10.0)
    found.add(UseSample(sm_percent=0.0, own=()), START + 10_000, 10.0)
    use = found.summary("h")
    assert (use.covered_s, use.idle_s, use.no_process_s) == (20.0, 20.0, 20.0)
    assert [point.slot for point in found.curve.points] == [0, 250]  # of 40 s each


def test_what_was_kept_is_taken_up_again() -> None:
    samples = [UseSample(sm_percent=float(each), mem_mib=each * 2.0, energy_j=each * 10.0) for each in range(50)]
    whole = played(samples)
    found = totals(0.0)
    for number, sample in enumerate(samples, 1):
        found.add(sample, START + number * 10.0, 10.0)
        found = msgspec.json.decode(msgspec.json.encode(found), type=DeviceTotals)
    assert found == whole


MOMENTS = st.lists(
    st.tuples(st.floats(-1e6, 1e9), st.one_of(st.none(), st.floats(0, 100)), st.floats(0, 1e6)), max_size=200
)


@given(MOMENTS)
def test_sums_and_curve_are_bounded_and_consistent(moments: list[tuple[float, float | None, float]]) -> None:
    """Whatever comes, at whatever times."""
    found = totals()
    for at, percent, memory in moments:
        sample = UseSample(
            sm_percent=percent,
            mem_mib=memory,
            power_w=memory / 100,
            energy_j=memory,
            throttle=int(memory),
            counters={"pcie_tx_mib": memory, "ecc_errors": memory},
            own=(),
        )
        found.add(sample, START + at, 10.0)
    use = found.summary("h")
    assert len(found.curve.points) <= MOST_POINTS and len(found.sm_seconds) <= 101
    slots = [point.slot for point in found.curve.points]
    assert slots == sorted(set(slots)) and all(0 <= slot < MOST_POINTS for slot in slots)
    measures = [*found.measures.values(), *(each for point in found.curve.points for each in point.measures.values())]
    for measure in measures:
        assert measure.low is not None and measure.high is not None
        assert measure.mean is None or measure.low <= measure.mean <= measure.high
    for value in (use.sm_mean, use.sm_median, use.sm_p95):
        assert value is None or use.sm_min <= value <= use.sm_max  # type: ignore[operator]
    assert use.covered_s >= 0 and (use.energy_j is None or use.energy_j >= 0)
    assert use.idle_s is None or 0 <= use.idle_s <= use.covered_s
    assert use.throttled_s is None or 0 <= use.throttled_heat_s <= use.throttled_s <= use.covered_s  # type: ignore[operator]
    assert all(value is None or value >= 0 for value in (use.pcie_tx_mib, use.ecc_errors))
    assert use.no_process_s is None or use.no_process_s <= use.covered_s


@given(st.lists(st.tuples(st.floats(0, 5e4), st.floats(0, 100), st.floats(0.1, 60)), min_size=1, max_size=100))
def test_a_curve_that_was_halved_is_that_of_the_coarser_step(moments: list[tuple[float, float, float]]) -> None:
    fine = UseCurve(since=START, step_s=10.0)
    for at, value, seconds in moments:
        fine.add(START + at, seconds, {"sm": value})
    coarse = UseCurve(since=START, step_s=fine.step_s)
    for at, value, seconds in moments:
        coarse.add(START + at, seconds, {"sm": value})
    assert [point.slot for point in fine.points] == [point.slot for point in coarse.points]
    for one, other in zip(fine.points, coarse.points, strict=True):
        mine, whole = one.measures["sm"], other.measures["sm"]
        assert (mine.low, mine.high) == (whole.low, whole.high)
        assert math.isclose(mine.seconds, whole.seconds) and math.isclose(mine.total, whole.total, abs_tol=1e-6)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 60)), min_size=1), st.integers(0, 100))
def test_two_halves_merged_are_the_whole(values: list[tuple[float, float]], cut: int) -> None:
    whole, first, second = TimedMeasure(), TimedMeasure(), TimedMeasure()
    for place, (value, seconds) in enumerate(values):
        whole.add(value, seconds)
        (first if place < cut else second).add(value, seconds)
    first.merge(second)
    assert (first.low, first.high) == (whole.low, whole.high)
    assert math.isclose(first.seconds, whole.seconds) and math.isclose(first.total, whole.total, abs_tol=1e-6)


def test_all_devices_of_a_job() -> None:
    one = GpuUsage(samples=1, sm_mean=10.0, mem_mean_mib=1.0, mem_max_mib=5.0, energy_j=7.0, idle_s=1.0)
    two = GpuUsage(samples=1, sm_mean=30.0, mem_mean_mib=3.0, mem_max_mib=2.0, energy_j=3.0, idle_s=4.0)
    both = of_job([one, two], 2)
    assert (both.util_percent, both.mem_mean_mib, both.mem_max_mib) == (20.0, 2.0, 5.0)
    assert (both.energy_j, both.idle_s) == (10.0, 5.0)
    # What is unknown of one device is unknown of the job: a part would pass for the whole.
    assert of_job([one], 2).energy_j is None and of_job([], 0).util_percent is None
    assert of_job([one, msgspec.structs.replace(two, energy_j=None)], 2).energy_j is None
