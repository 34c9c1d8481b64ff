"""How long a GPU has been idle and in which way: kinds, what the driver cannot tell, holes, other limits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.agent.gpu_use.idle_clock import IdleClock
from gsched.agent.gpu_use.use_sample import UseSample
from gsched.agent.gpu_use.use_totals import DeviceTotals, begun
from gsched.model.gpus.gpu_idle import GpuIdleness, IdleLimits, JobIdleness, of_job
from gsched.model.gpus.gpu_use import ProcessUse

START = 1_000_000.0
ONE = (ProcessUse(pid=11),)
NONE = UseSample(sm_percent=0.0, traffic_percent=0.0, own=(), mem_mib=0.0, power_w=50.0)
HELD = UseSample(sm_percent=1.0, traffic_percent=0.0, own=ONE, mem_mib=9000.0, power_w=60.0, power_limit_w=300.0)
WORK = UseSample(sm_percent=90.0, traffic_percent=40.0, own=ONE, mem_mib=9000.0, power_w=250.0, power_limit_w=300.0)
SPIN = UseSample(sm_percent=100.0, traffic_percent=0.0, own=ONE, mem_mib=9000.0, power_w=66.0, power_limit_w=300.0)


def changed(sample: UseSample, **values: Any) -> UseSample:
    return msgspec.structs.replace(sample, **values)


def watched(*samples: tuple[int, UseSample], limits: IdleLimits | None = None) -> GpuIdleness:
    """So many of each, 10 s apart."""
    clock, now = IdleClock(limits=limits or IdleLimits()), START
    for count, sample in samples:
        for _ in range(count):
            now += 10.0
            clock.add(sample, now, 10.0)
    return clock.told("h", 0, "GPU-a")


def test_the_four_kinds() -> None:
    never = watched((30, NONE))
    assert (never.kind, never.idle_s, never.since, never.is_known) == ("no_process", 300.0, START, True)
    held = watched((30, HELD))
    assert (held.kind, held.idle_s, held.util_max, held.traffic_max, held.mem_mib) == ("held", 300.0, 1.0, 0.0, 9000.0)
    stopped = watched((6, WORK), (30, HELD))
    assert (stopped.kind, stopped.idle_s, stopped.since) == ("stopped", 300.0, START + 60.0)
    faked = watched((6, WORK), (30, SPIN))
    assert (faked.kind, faked.idle_s, faked.util_max, faked.power_max_w) == ("faked", 300.0, 100.0, 66.0)


def test_a_process_that_has_gone_counts_from_its_end() -> None:
    found = watched((6, WORK), (30, NONE))
    assert (found.kind, found.idle_s) == ("no_process", 300.0)
    assert watched((6, WORK), (6, HELD), (30, NONE)).kind == "stopped"


def test_one_look_that_shows_work_ends_it() -> None:
    for end in (WORK, changed(HELD, sm_percent=5.0), changed(HELD, traffic_percent=1.0), changed(HELD, sm_peak=7.0)):
        found = watched((100, HELD), (1, end))
        assert (found.kind, found.idle_s, found.is_known) == ("", 0.0, True)
        assert watched((100, HELD), (1, end), (3, HELD)).idle_s == 30.0


@pytest.mark.parametrize(
    "sample",
    [
        UseSample(),
        UseSample(mem_mib=9000.0, own=ONE),  # a part by MIG
        UseSample(sm_percent=0.0, mem_mib=9000.0, own=ONE),  # beside others: no traffic is told
        UseSample(traffic_percent=0.0, own=ONE),
    ],
)
def test_what_the_driver_cannot_tell_does_not_convict(sample: UseSample) -> None:
    found = watched((1000, sample))
    assert (found.kind, found.idle_s, found.is_known) == ("", 0.0, False)
    # Neither does it acquit: the clock stands still meanwhile.
    later = watched((10, HELD), (1000, sample), (5, HELD))
    assert (later.kind, later.idle_s) == ("held", 150.0)


def test_on_a_shared_gpu_a_job_without_a_process_is_idle() -> None:
    assert watched((30, UseSample(sm_percent=0.0, own=(), mem_mib=0.0))).kind == "no_process"
    assert watched((30, UseSample(sm_percent=40.0, own=ONE))).is_known


def test_memory_without_a_process_is_somebodys() -> None:
    """In a container the driver may list nobody: that nobody is there cannot be said."""
    hidden = changed(NONE, device_mib=20_000.0, mem_mib=20_000.0)
    assert watched((30, hidden)).kind == "held"
    assert not watched((30, changed(hidden, sm_percent=None, traffic_percent=None))).is_known


def test_use_without_traffic_is_work_where_power_says_so_or_says_nothing() -> None:
    for work in (
        changed(SPIN, power_w=140.0),
        changed(SPIN, power_w=None),
        changed(SPIN, power_limit_w=None),
        changed(SPIN, traffic_percent=None),
        changed(SPIN, sm_percent=30.0),
    ):
        assert watched((400, work)).kind == ""


def test_who_only_keeps_a_gpu_busy_may_pause() -> None:
    clock, now = IdleClock(), START
    for number in range(200):
        now += 10.0
        clock.add(HELD if number % 3 == 0 else SPIN, now, 10.0)
    assert (clock.told("h", 0, "u").kind, clock.told("h", 0, "u").idle_s) == ("faked", 2000.0)
    # Seldom use without traffic is somebody's small work: it convicts nobody, and ends a time without use.
    clock = IdleClock()
    for number in range(400):
        now += 10.0
        clock.add(SPIN if number % 20 == 0 else HELD, now, 10.0)
        assert clock.told("h", 0, "u").idle_s <= 200.0


def test_other_limits() -> None:
    calm = changed(HELD, sm_percent=3.0)
    assert watched((30, calm), limits=IdleLimits(util=2.0)).kind == ""
    assert watched((30, changed(HELD, sm_percent=15.0)), limits=IdleLimits(util=20.0)).idle_s == 300.0
    assert watched((30, SPIN), limits=IdleLimits(power=0.0)).kind == ""
    clock = IdleClock()
    for number in range(30):
        clock.add(calm, START + 10 * number, 10.0)
    clock.judge_by(IdleLimits(util=10.0))
    assert clock.told("h", 0, "u").idle_s == 300.0
    clock.judge_by(IdleLimits(util=3.0))
    assert clock.told("h", 0, "u").idle_s == 0.0


def totals() -> DeviceTotals:
    return begun("GPU-a", 0, START, 10.0, UseSample(energy_j=0.0))


def test_a_hole_is_no_idleness() -> None:
    found, now, energy_j = totals(), START, 0.0
    for passed_s in (*[10.0] * 10, 7200.0, *[10.0] * 5):
        now, energy_j = now + passed_s, energy_j + 60.0 * passed_s
        found.add(changed(HELD, energy_j=energy_j), now, 10.0)
    idle = found.idle.told("h", 0, "GPU-a")
    assert (idle.kind, idle.idle_s, idle.since) == ("held", 160.0, START)


def test_work_that_nobody_saw_is_told_by_the_counter_of_energy() -> None:
    found, now, energy_j = totals(), START, 0.0
    for passed_s, watts in (*[(10.0, 60.0)] * 10, (7200.0, 240.0), *[(10.0, 60.0)] * 5):
        now, energy_j = now + passed_s, energy_j + watts * passed_s
        found.add(changed(HELD, energy_j=energy_j), now, 10.0)
    idle = found.idle.told("h", 0, "GPU-a")
    assert (idle.kind, idle.idle_s) == ("stopped", 60.0)


def test_suspended_it_is_not_to_blame() -> None:
    found = totals()
    for number in range(1, 101):
        found.add(HELD, START + 10 * number, 10.0, is_suspended=20 < number <= 80)
    assert found.idle.told("h", 0, "GPU-a").idle_s == 400.0


def test_it_goes_on_from_what_was_written_down() -> None:
    found = totals()
    for number in range(1, 11):
        found.add(HELD, START + 10 * number, 10.0)
    again = msgspec.json.decode(msgspec.json.encode(found), type=DeviceTotals)
    again.add(HELD, START + 120.0, 10.0)
    idle = again.idle.told("h", 0, "GPU-a")
    assert (idle.kind, idle.idle_s, idle.since) == ("held", 120.0, START)


def test_what_an_earlier_version_wrote_down_has_no_clock_yet() -> None:
    fields = msgspec.to_builtins(totals())
    del fields["idle"]
    assert msgspec.convert(fields, DeviceTotals).idle == IdleClock()


LOOKS = st.sampled_from([NONE, HELD, WORK, SPIN, UseSample(), changed(HELD, traffic_percent=None)])


@given(st.lists(st.tuples(LOOKS, st.sampled_from([10.0, 10.0, 40.0, -5.0]), st.booleans()), max_size=60))
def test_never_more_than_was_seen(looks: list[tuple[UseSample, float, bool]]) -> None:
    """Whatever comes: no time counts twice, and none that was not seen idle."""
    found, now, most_s = totals(), START, 0.0
    for sample, passed_s, is_suspended in looks:
        now += passed_s
        found.add(sample, now, 10.0, is_suspended=is_suspended)
        is_idle = not is_suspended and sample in (NONE, HELD, SPIN)
        most_s = 0.0 if sample is WORK and not is_suspended else most_s + 10.0 * is_idle
        idle = found.idle.told("h", 0, "GPU-a")
        assert 0.0 <= idle.idle_s <= most_s and bool(idle.kind) == (idle.idle_s > 0)
        assert len(msgspec.json.encode(found.idle)) < 1000


def idle(kind: str, idle_s: float, **values: Any) -> GpuIdleness:
    return GpuIdleness(kind=kind, idle_s=idle_s, since=START - idle_s, is_known=True, **values)


def test_a_job_is_idle_for_as_long_as_all_its_gpus_are() -> None:
    assert of_job([idle("held", 500.0), idle("no_process", 900.0)], 2) == JobIdleness(
        kind="held", idle_s=500.0, since=START - 500.0
    )
    assert of_job([idle("faked", 500.0), idle("stopped", 900.0)], 2) == JobIdleness(
        kind="faked", idle_s=500.0, since=START - 500.0
    )
    assert of_job([idle("held", 500.0), GpuIdleness(is_known=True)], 2) == JobIdleness(kind="", idle_s=0.0, since=None)
    assert of_job([idle("held", 500.0), GpuIdleness()], 2) is None
    assert of_job([idle("held", 500.0)], 2) is None
    assert of_job([], 0) is None
