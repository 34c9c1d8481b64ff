"""What running attempts make of their GPUs: sampling, shares, files, ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from gpu_use_host import KEY, OTHER, Host, busy, part

from gsched.agent.gpu_use import use_files
from gsched.agent.gpu_use.job_share import HiddenProcesses, share_of
from gsched.agent.gpu_use.use_sample import UseSample
from gsched.model.gpus.gpu_curve import MOST_PACKED, MOST_POINTS, GpuCurve, unpack
from gsched.model.gpus.gpu_idle import IdleLimits
from gsched.model.gpus.gpu_use import DeviceUse, GpuUsage, ProcessUse


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_job_with_a_gpu_of_its_own(host: Host) -> None:
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": busy(0.0, energy_j=1000.0)}
    host.start(KEY, part("GPU-a"))
    assert host.recorder.summary(KEY) == ()
    for percent, energy_j in ((100.0, 1100.0), (100.0, 1300.0), (0.0, 1400.0)):
        host.sample(busy(percent, ProcessUse(pid=11, used_mib=300.0), energy_j=energy_j), after_s=10.0)
    host.uses = {"GPU-a": busy(0.0, energy_j=1450.0)}
    (use,) = host.end(KEY)
    assert (use.host, use.uuid, use.samples, use.covered_s) == ("h", "GPU-a", 3, 30.0)
    assert use.sm_mean == pytest.approx(200 / 3) and use.idle_s == 10.0 and use.no_process_s == 0.0
    assert (use.mem_mean_mib, use.mem_max_mib, use.traffic_mean, use.power_mean_w) == (300.0, 300.0, 5.0, 100.0)
    assert (use.energy_j, use.energy_counted) == (450.0, True)
    assert (use.throttled_s, use.ecc_errors, use.pcie_tx_mib, use.tensor_mean) == (30.0, 0.0, 45.0, 4.0)


def test_soon_after_the_start_it_is_looked_at_often(host: Host) -> None:
    """At 1, 3, 7, 15 and then every 10 seconds; in between nobody asks the driver."""
    host.uses = {"GPU-a": busy(10.0, ProcessUse(pid=11))}
    host.start(KEY, part("GPU-a"))
    times = []
    for second in range(1, 60):
        before = len(host.looks)
        host.sample(None, after_s=1.0)
        if len(host.looks) > before:
            times.append(second)
    assert times == [1, 3, 7, 15, 25, 35, 45, 55]


def test_what_the_next_agent_finds(host: Host) -> None:
    """kill -9 of the agent: what was sampled before counts, and so does what the counter tells of the time between."""
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": busy(0.0, energy_j=0.0)}
    host.start(KEY, part("GPU-a"))
    host.sample(busy(50.0, ProcessUse(pid=11, used_mib=9.0), energy_j=500.0), after_s=10.0)
    host.recorder = host.agent()
    host.sample(busy(100.0, ProcessUse(pid=11, used_mib=3.0), energy_j=20_000.0), after_s=300.0)
    (use,) = host.recorder.summary(KEY)
    assert (use.samples, use.covered_s, use.sm_mean, use.mem_max_mib) == (2, 20.0, 75.0, 9.0)
    assert use.energy_j == 20_000.0


def test_one_that_ended_while_no_agent_was_there(host: Host) -> None:
    host.uses = {"GPU-a": busy(0.0, energy_j=0.0)}
    host.start(KEY, part("GPU-a"))
    host.sample(busy(50.0, energy_j=500.0), after_s=10.0)
    host.recorder = host.agent()
    host.uses = {"GPU-a": busy(0.0, energy_j=9e6)}  # others have used it since
    (use,) = host.end(KEY)
    assert (use.samples, use.energy_j) == (1, 500.0)


@pytest.mark.parametrize("junk", [b"", b"{", b"[{}]", b"\xff\xfe", b'[{"uuid": 7}]'])
def test_a_file_that_cannot_be_read_is_a_hole(host: Host, junk: bytes) -> None:
    host.running[KEY] = part("GPU-a")
    folder = host.spool / "7.1"
    folder.mkdir()
    (folder / use_files.NAME).write_bytes(junk)
    host.uses = {"GPU-a": busy(10.0)}
    host.sample(None)
    host.sample(None, after_s=10.0)
    assert host.recorder.summary(KEY)[0].samples == 1


@pytest.mark.parametrize("change", [{"step_s": 0.0}, {"step_s": -1.0}, {"points": [[slot, {}] for slot in range(361)]}])
def test_a_file_that_nobody_can_have_written_is_a_hole(host: Host, change: dict[str, object]) -> None:
    host.running[KEY] = part("GPU-a")
    folder = host.spool / "7.1"
    folder.mkdir()
    curve = {"since": 1.0, "step_s": 10.0, "points": [], **change}
    kept = [{"uuid": "GPU-a", "index": 0, "last_at": 1.0, "curve": curve}]
    (folder / use_files.NAME).write_text(json.dumps(kept))
    host.uses = {"GPU-a": busy(10.0)}
    host.sample(None)
    host.sample(None, after_s=10.0)
    assert host.recorder.summary(KEY)[0].samples == 1


def test_an_end_gives_the_gpus_back_whatever_goes_wrong(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.uses = {"GPU-a": busy(0.0)}
    host.start(KEY, part("GPU-a"))

    def fail(folder: Path) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(use_files, "read", fail)
    host.recorder = host.agent()
    assert host.end(KEY) == ()


@pytest.mark.slow
def test_the_file_does_not_grow_with_time(host: Host) -> None:
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": busy(10.0, ProcessUse(pid=11, used_mib=3.25))}
    host.start(KEY, part("GPU-a"))
    file = host.spool / "7.1" / use_files.NAME
    sizes = []
    for number in range(1_000):
        host.sample(busy(number % 101, ProcessUse(pid=11, used_mib=number % 7), energy_j=number), after_s=10.0)
        sizes.append(file.stat().st_size)
    assert max(sizes) < 200_000 and max(sizes[500:]) < 1.5 * max(sizes[:500])
    (totals,) = use_files.read(file.parent)
    assert MOST_POINTS / 2 <= len(totals.curve.points) <= MOST_POINTS


def curves(host: Host, most: int = MOST_PACKED) -> tuple[GpuCurve, ...]:
    packed = use_files.packed_curves(host.spool / "7.1", most)
    assert len(packed) <= most
    return unpack(packed) if packed else ()


def test_the_curve_of_an_attempt_that_is_over(host: Host) -> None:
    """Two steps, a hole of half a minute, and what the agent that was killed had seen."""
    begin = host.clock.now()
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": busy(0.0)}
    host.start(KEY, part("GPU-a"))
    for percent in (20.0, 40.0):
        host.sample(busy(percent, ProcessUse(pid=11, used_mib=5.0)), after_s=10.0)
    host.recorder = host.agent()  # kill -9 of the one before
    host.sample(busy(90.0, ProcessUse(pid=11, used_mib=7.0)), after_s=40.0)
    host.end(KEY)
    (curve,) = curves(host)
    assert (curve.uuid, curve.index, curve.since, curve.step_s) == ("GPU-a", 0, begin, 10.0)
    assert [(point.slot, point.values["sm"], point.values["mem"]) for point in curve.points] == [
        (1, (20.0, 20.0, 20.0), (5.0, 5.0, 5.0)),
        (2, (40.0, 40.0, 40.0), (5.0, 5.0, 5.0)),
        (6, (90.0, 90.0, 90.0), (7.0, 7.0, 7.0)),
    ]
    host.recorder = host.agent()  # the end is told again by the next one, which makes nothing anew
    (host.spool / "7.1" / use_files.NAME).unlink()
    assert curves(host) == (curve,)


def test_curves_that_are_too_long_for_what_room_there_is_become_coarser(host: Host) -> None:
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": busy(0.0)}
    host.start(KEY, part("GPU-a"))
    for number in range(300):
        host.sample(busy(number % 97, ProcessUse(pid=11, used_mib=number**3 % 9973)), after_s=10.0)
    host.end(KEY)
    (fine,), (coarse,) = curves(host), curves(host, 1000)
    assert coarse.step_s >= 2 * fine.step_s and len(coarse.points) >= 10
    for curve in (fine, coarse):
        assert min(point.values["sm"][0] for point in curve.points) == 0.0
        assert max(point.values["sm"][2] for point in curve.points) == 96.0
    assert curves(host, 10) == ()
    (host.spool / "7.1" / use_files.CURVES).unlink()
    assert curves(host) == (fine,)


def test_of_attempts_without_gpus_or_samples_there_is_no_curve(host: Host) -> None:
    assert curves(host) == ()
    host.start(KEY, part("GPU-a"))
    host.end(KEY)
    assert curves(host) == ()


def test_a_spool_that_cannot_be_written_ends_nothing(host: Host) -> None:
    host.running[KEY] = part("GPU-a")  # without a folder
    host.uses = {"GPU-a": busy(10.0)}
    host.sample(None)
    host.sample(None, after_s=10.0)
    assert host.recorder.summary(KEY)[0].sm_mean == 10.0


def test_a_gpu_that_does_not_answer_leaves_a_hole(host: Host) -> None:
    host.uses = {"GPU-a": busy(50.0, ProcessUse(pid=11))}
    host.owner = {11: "7.1"}
    host.start(KEY, part("GPU-a", "GPU-b"))
    host.sample(busy(50.0, ProcessUse(pid=11)), after_s=10.0)
    host.uses = {}
    for _ in range(9):
        host.sample(None, after_s=10.0)
    host.sample(busy(50.0, ProcessUse(pid=11)), after_s=10.0)
    one, never = host.end(KEY)
    assert (one.samples, one.covered_s) == (2, 20.0)
    assert never == GpuUsage(host="h", index=1, uuid="GPU-b")


def test_two_jobs_on_one_gpu_are_told_apart_by_their_processes(host: Host) -> None:
    host.owner = {11: "7.1", 12: "8.1"}
    shared = busy(
        90.0,
        ProcessUse(pid=11, sm_percent=60.0, used_mib=300.0),
        ProcessUse(pid=12, sm_percent=30.0, used_mib=200.0),
        energy_j=5.0,
    )
    host.uses = {"GPU-a": shared}
    host.start(KEY, part("GPU-a"))
    host.start(OTHER, part("GPU-a"))
    host.sample(shared, after_s=10.0)
    one, other = host.recorder.summary(KEY)[0], host.recorder.summary(OTHER)[0]
    assert (one.sm_mean, one.mem_max_mib, other.sm_mean, other.mem_max_mib) == (60.0, 300.0, 30.0, 200.0)
    # What the device is told as a whole is neither's.
    assert (one.energy_j, one.power_mean_w, one.traffic_mean) == (None, None, None)
    assert (one.throttled_s, one.ecc_errors, one.pcie_tx_mib, one.tensor_mean) == (None, None, None, None)


def test_what_is_told_of_a_process_now_and_then_is_not_the_whole(host: Host) -> None:
    """As of a client of MPS for which its server computes: half of its time is unknown, the other half was idle."""
    host.owner = {11: "7.1"}
    host.start(KEY, part("GPU-a"))
    host.start(OTHER, part("GPU-a"))
    for percent in (0.0, None, 0.0, None):
        host.sample(busy(90.0, ProcessUse(pid=11, sm_percent=percent, used_mib=300.0)), after_s=10.0)
    (use,) = host.recorder.summary(KEY)
    assert (use.sm_mean, use.sm_max, use.idle_s, use.mem_max_mib) == (None, None, None, 300.0)


def test_parts_by_mig(host: Host) -> None:
    host.owner = {11: "7.1"}
    inner = DeviceUse(uuid="MIG-1", used_mib=80.0, processes=(ProcessUse(pid=11, used_mib=70.0),))
    host.uses = {"MIG-1": inner}
    host.start(KEY, part("MIG-1", parent="GPU-a"))
    host.sample(inner, after_s=10.0)
    assert host.looks[-1] == {"GPU-a"}
    (use,) = host.recorder.summary(KEY)
    assert (use.mem_mean_mib, use.sm_mean, use.power_mean_w, use.no_process_s) == (70.0, None, None, 0.0)


def test_jobs_without_gpus_cost_nothing(host: Host) -> None:
    host.start(KEY, part())
    host.sample(None, after_s=100.0)
    assert host.looks == [] and list((host.spool / "7.1").iterdir()) == []


def test_an_end_does_not_wait_for_a_driver_that_hangs(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.agent.gpu_use.gpu_use_recorder.END_PATIENCE_S", 0.01)
    host.uses = {"GPU-a": busy(0.0, energy_j=0.0)}
    host.start(KEY, part("GPU-a"))
    host.sample(busy(10.0, energy_j=7.0), after_s=10.0)

    async def hang(uuids: Collection[str]) -> Mapping[str, DeviceUse]:
        await asyncio.Event().wait()
        return {}

    host.recorder._read = hang
    (use,) = host.end(KEY)
    assert use.energy_j == 7.0


def test_a_job_that_ends_during_a_look_is_not_counted_twice(host: Host) -> None:
    host.uses = {"GPU-a": busy(0.0)}
    host.start(KEY, part("GPU-a"))

    async def end_meanwhile(uuids: Collection[str]) -> Mapping[str, DeviceUse]:
        del host.running[KEY]
        return {"GPU-a": busy(100.0)}

    host.recorder._read = end_meanwhile
    host.sample(None, after_s=10.0)
    assert host.recorder.summary(KEY) == ()


# -- the share of one attempt


ALONE = {"is_alone": True, "are_hidden": False}


def test_a_stranger_on_the_gpu_makes_it_shared() -> None:
    use = busy(90.0, ProcessUse(pid=11, used_mib=1.0), ProcessUse(pid=66, used_mib=2.0), energy_j=1.0)
    assert share_of(use, {11}, **ALONE) == UseSample(mem_mib=1.0, own=use.processes[:1])  # type: ignore[index]


def test_no_process_of_the_job() -> None:
    assert share_of(busy(0.0), {11}, **ALONE).own == ()
    assert share_of(busy(0.0), {11}, **ALONE).mem_mib == 0.0
    stranger = share_of(busy(90.0, ProcessUse(pid=66, sm_percent=90.0, used_mib=5.0)), {11}, **ALONE)
    assert stranger == UseSample(sm_percent=0.0, mem_mib=0.0, own=())


def test_hidden_processes_are_not_taken_for_none() -> None:
    seen = share_of(busy(90.0), {11}, is_alone=True, are_hidden=True)
    assert (seen.own, seen.mem_mib, seen.sm_percent) == (None, 1000.0, 90.0)
    assert share_of(busy(90.0), {11}, is_alone=False, are_hidden=True) == UseSample()


def test_processes_are_hidden_where_a_gpu_computes_without_any() -> None:
    hidden = HiddenProcesses()
    assert [hidden.are_on(busy(percent)) for percent in (0.0, 50.0, 0.0, 50.0, 50.0, 0.0)] == [
        *(False, True, False),  # the one that computed may just have gone
        *(True, True, True),
    ]
    assert not hidden.are_on(busy(0.0, ProcessUse(pid=1))) and not hidden.are_on(busy(0.0))


def held_idle(**values: float) -> DeviceUse:
    process = ProcessUse(pid=11, used_mib=300.0, sm_peak=values.get("peak"))
    return DeviceUse(uuid="GPU-a", sm_percent=0.0, traffic_percent=0.0, power_w=60.0, processes=(process,))


def test_how_idle_the_gpus_of_an_attempt_are(host: Host) -> None:
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": held_idle()}
    host.start(KEY, part("GPU-a"))
    assert host.recorder.idleness(KEY) == ()  # nobody has looked for any time yet
    for _ in range(6):
        host.sample(held_idle(), after_s=10.0)
    (idle,) = host.recorder.idleness(KEY)
    assert (idle.host, idle.index, idle.uuid, idle.kind, idle.idle_s) == ("h", 0, "GPU-a", "held", 60.0)
    # kill -9 of the agent: the next one goes on, and loses no more than the time in which nobody looked.
    host.recorder = host.agent()
    assert host.recorder.idleness(KEY) == ()
    host.sample(held_idle(), after_s=500.0)
    (idle,) = host.recorder.idleness(KEY)
    assert (idle.kind, idle.idle_s, idle.since) == ("held", 70.0, idle.since)
    # One process that worked for a moment between two looks.
    host.sample(held_idle(peak=60.0), after_s=10.0)
    assert host.recorder.idleness(KEY)[0].idle_s == 0.0


def test_an_attempt_that_is_suspended_is_not_idle(host: Host) -> None:
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": held_idle()}
    host.start(KEY, part("GPU-a"))
    for number in range(10):
        if number in (2, 7):
            host.suspended ^= {KEY}
        host.sample(held_idle(), after_s=10.0)
    assert host.recorder.idleness(KEY)[0].idle_s == 50.0


def test_a_gpu_that_does_not_answer_is_not_judged(host: Host) -> None:
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": held_idle()}
    host.start(KEY, part("GPU-a"))
    host.sample(held_idle(), after_s=10.0)
    assert host.recorder.idleness(KEY)[0].is_known
    host.uses = {}
    host.sample(None, after_s=10.0)
    assert not host.recorder.idleness(KEY)[0].is_known


def test_limits_that_an_attempt_is_judged_by(host: Host) -> None:
    host.owner = {11: "7.1"}
    host.uses = {"GPU-a": held_idle()}
    host.running[KEY] = part("GPU-a")
    (host.spool / "7.1").mkdir()
    told = IdleLimits(util=20.0)
    host.recorder.judge_by(OTHER, told)  # of no attempt here
    host.recorder.judge_by(KEY, told)
    assert (host.recorder.limits(KEY), host.recorder.limits(OTHER)) == (told, IdleLimits())
    for _ in range(3):
        host.sample(busy(15.0, ProcessUse(pid=11)), after_s=10.0)
    assert host.recorder.idleness(KEY)[0].kind == ""  # there is traffic
    for _ in range(3):
        host.sample(held_idle(), after_s=10.0)
    host.recorder = host.agent()
    host.sample(held_idle(), after_s=10.0)
    assert host.recorder.limits(KEY) == told
    host.recorder.judge_by(KEY, IdleLimits(util=7.0))
    assert host.recorder.limits(KEY) == IdleLimits(util=7.0)
    host.end(KEY)
    assert host.recorder.limits(KEY) == IdleLimits()
