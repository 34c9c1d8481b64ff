"""What NVML tells of the use of GPUs, in its child process, against a fake driver library that plays curves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import pytest
from bounded_loop import run_async

from gsched.agent.gpu_use.use_sample import UseSample
from gsched.agent.gpu_use.use_totals import DeviceTotals, begun
from gsched.model.gpus.gpu_use import DeviceUse, ProcessAccount, ProcessUse
from gsched.probe.gpu import NullProbe
from gsched.probe.nvidia.nvml_child import NvmlProbe

pytestmark = pytest.mark.needs_gcc

MIB = 1024 * 1024
UUID = "GPU-fa4e0000-0000-4000-8000-00000000000{}".format


class Machine(Protocol):
    def say(self, *lines: str) -> None: ...


def with_probe(story: Callable[[NvmlProbe], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    async def run() -> Any:
        probe = NvmlProbe(**{"time_limit_s": 60.0, **options})
        try:
            return await story(probe)
        finally:
            await probe.close()

    return run_async(run())


def use(*indexes: int) -> tuple[DeviceUse, ...]:
    return with_probe(lambda probe: probe.use(indexes))  # type: ignore[no-any-return]


def test_all_that_nvml_tells_of_the_use_of_a_gpu(machine: Machine) -> None:
    machine.say("gpu.1.util=42", "gpu.1.mem_util=7", "gpu.1.used_mib=500", "gpu.1.power_mw=250500")
    machine.say("gpu.1.power_limit_mw=400000")
    machine.say("gpu.1.energy_mj=123456789", f"gpu.1.procs=11:{400 * MIB},12:{100 * MIB},13")
    machine.say("gpu.1.proc_util=11:40:5,12:2:1,14:255:0", "clock=100")
    machine.say(f"gpu.1.throttle={0x44}", "gpu.1.ecc=2", "gpu.1.ecc_corrected=9")
    machine.say("gpu.1.nvlink_tx_kib=3072", "gpu.1.nvlink_rx_kib=5120")
    machine.say(f"gpu.1.pcie_tx_bytes={7 * MIB}", f"gpu.1.pcie_rx_bytes={MIB // 2}")
    assert use(1) == (
        DeviceUse(
            uuid=UUID(1),
            sm_percent=42.0,
            traffic_percent=7.0,
            used_mib=500.0,
            power_w=250.5,
            power_limit_w=400.0,
            energy_j=123456.789,
            throttle=0x44,
            counters={
                "nvlink_tx_mib": 3.0,
                "nvlink_rx_mib": 5.0,
                "pcie_tx_mib": 7.0,
                "pcie_rx_mib": 0.5,
                "ecc_errors": 2.0,
                "ecc_corrected": 9.0,
            },
            processes=(
                ProcessUse(pid=11, sm_percent=40.0, sm_peak=40.0, used_mib=400.0),
                ProcessUse(pid=12, sm_percent=2.0, sm_peak=2.0, used_mib=100.0),
                ProcessUse(pid=13, sm_percent=0.0, sm_peak=0.0),
            ),
        ),
    )


def test_what_a_driver_cannot_tell_is_unknown(machine: Machine) -> None:
    machine.say(*(f"err.nvmlDeviceGet{what}=3" for what in ("UtilizationRates", "PowerUsage", "MemoryInfo")))
    machine.say("err.nvmlDeviceGetTotalEccErrors=3")
    machine.say(*(f"err.nvmlDeviceGet{kind}RunningProcesses_v3=3" for kind in ("Compute", "Graphics", "MPSCompute")))
    assert use(0) == (DeviceUse(uuid=UUID(0)),)


def test_processes_without_utilisation_have_an_unknown_share(machine: Machine) -> None:
    machine.say(f"gpu.0.procs=11:{MIB}")
    assert use(0)[0].processes == (ProcessUse(pid=11, used_mib=1.0),)


def test_values_that_no_device_can_have_are_unknown(machine: Machine) -> None:
    """Negative ones come as very large ones: NVML's are unsigned."""
    machine.say("gpu.0.energy_mj=-5", "gpu.0.power_mw=-1", "gpu.0.util=250", "gpu.0.mem_mib=10", "gpu.0.used_mib=11")
    (seen,) = use(0)
    assert (seen.energy_j, seen.power_w, seen.sm_percent, seen.used_mib) == (None, None, None, None)


def test_counters_of_32_bits_are_none(machine: Machine) -> None:
    """They run over several times between two looks."""
    machine.say("gpu.0.pcie_tx_bytes=77", "gpu.0.nvlink_tx_kib=77", "gpu.0.narrow=1", "gpu.1.nvlink_rx_kib=-9")
    assert [each.counters.keys() for each in use(0, 1)] == [{"ecc_errors", "ecc_corrected"}] * 2


def test_gpm_tells_of_the_time_between_two_looks(machine: Machine) -> None:
    machine.say("gpu.0.gpm=1", "gpu.0.gpm.2=60", "gpu.0.gpm.5=25", "gpu.0.gpm.10=101", "gpu.0.gpm.61=200")

    async def story(probe: NvmlProbe) -> list[DeviceUse]:
        found = []
        for at in (10, 20, 20, 30):
            machine.say(f"clock={at}")
            found += await probe.use([0, 1])
        return found

    seen = with_probe(story)
    assert [(each.profile, each.rates) for each in seen[::2]] == [
        ({}, {}),
        ({"sm_active": 60.0, "tensor": 25.0}, {"nvlink_tx_mib": 200.0}),
        ({}, {}),  # no time has passed: the driver refuses to say
        ({"sm_active": 60.0, "tensor": 25.0}, {"nvlink_tx_mib": 200.0}),
    ]
    assert all((each.profile, each.rates) == ({}, {}) for each in seen[1::2]), "it has no GPM"


def test_a_gpu_that_vanishes_is_missing(machine: Machine) -> None:
    machine.say("gpu.1.handle_err=15")
    assert [each.uuid for each in use(0, 1, 2, 9)] == [UUID(0), UUID(2)]


def test_a_gpu_that_vanishes_during_a_look_leaves_a_hole(machine: Machine) -> None:
    """Its handle can still be got, and every call about it fails: nothing is known, and nothing is taken for 0."""
    machine.say("gpu.0.util=50", "gpu.0.energy_mj=7000", f"gpu.0.procs=11:{MIB}", "gpu.1.util=60")

    async def story(probe: NvmlProbe) -> list[DeviceUse]:
        before = await probe.use([0, 1])
        machine.say("gpu.0.err=15")
        gone = await probe.use([0, 1])
        machine.say("gpu.0.err=0")
        return [*before, *gone, *(await probe.use([0, 1]))]

    seen = with_probe(story)
    of_first = [each for each in seen if each.uuid == UUID(0)]
    assert [each.sm_percent for each in seen if each.uuid == UUID(1)] == [60.0] * 3
    assert (of_first[0].sm_percent, of_first[0].energy_j) == (50.0, 7.0) and of_first[-1] == of_first[0]
    assert all(each == DeviceUse(uuid=UUID(0)) for each in of_first[1:-1])


def test_a_clock_of_the_driver_that_goes_back_tells_again(machine: Machine) -> None:
    """What its processes did since a time that lies ahead is unknown, not nothing; then its own time counts again."""
    machine.say(f"gpu.0.procs=11:{MIB}", "gpu.0.proc_util=11:40:5")

    async def story(probe: NvmlProbe) -> list[float | None]:
        found = []
        for at in (1000, 500, 510, 520):
            machine.say(f"clock={at}")
            (seen,) = await probe.use([0])
            found.append(seen.processes[0].sm_percent if seen.processes else None)
        return found

    assert with_probe(story) == [40.0, None, 40.0, 40.0]


def test_processes_that_do_nothing_have_a_share_of_0(machine: Machine) -> None:
    """A driver that has nothing newer to tell, by a clock that goes forward, says that."""
    machine.say(f"gpu.0.procs=11:{MIB}", "gpu.0.proc_util=11:40:5", "clock=1000")

    async def story(probe: NvmlProbe) -> list[DeviceUse]:
        return [*(await probe.use([0])), *(await probe.use([0]))]

    assert [each.processes[0].sm_percent for each in with_probe(story)] == [40.0, 0.0]


def test_accounts_of_processes_also_after_their_end(machine: Machine) -> None:
    """Each end is told once. What was kept before the first look is old."""
    machine.say("gpu.0.accounting=1", "gpu.0.capability=90", f"gpu.0.procs=11:{MIB},12:{MIB},15:{MIB}")
    old, running = "9:5:5:1:1000:1000000", f"11:40:3:{300 * MIB}:0:5000000"
    machine.say(f"gpu.0.accounts={old},{running},12:-:-:{1 << 60}:0:6000000,15:1:1:-:0:7000000")

    async def story(probe: NvmlProbe) -> list[DeviceUse]:
        found = [*(await probe.use([0]))]
        machine.say("gpu.0.procs=")
        ended = f"11:60:3:{400 * MIB}:2500:5000000", f"12:-:-:{MIB}:-:6000000", f"13:80:9:{MIB}:70:9000000"
        machine.say(f"gpu.0.accounts={old},{','.join(ended)}")
        return [*found, *(await probe.use([0])), *(await probe.use([0]))]

    first, second, third = with_probe(story)
    assert [each.account for each in first.processes or ()] == [
        ProcessAccount(began_at=5.0, sm_percent=40.0, peak_mib=300.0),
        ProcessAccount(began_at=6.0),
        None,
    ]
    assert second.ended == (
        ProcessUse(pid=11, account=ProcessAccount(began_at=5.0, sm_percent=60.0, peak_mib=400.0, life_s=2.5)),
        ProcessUse(pid=13, account=ProcessAccount(began_at=9.0, sm_percent=80.0, peak_mib=1.0, life_s=0.07)),
    )
    assert first.ended == third.ended == ()


@pytest.mark.parametrize("said", ["gpu.0.accounting=0", "gpu.1.accounting=1", "err.nvmlDeviceGetAccountingPids=999"])
def test_where_no_accounts_are_kept_nothing_is_told_of_them(machine: Machine, said: str) -> None:
    machine.say(f"gpu.0.procs=11:{MIB}", f"gpu.0.accounts=11:40:3:{MIB}:0:5000000", "gpu.0.capability=90")
    machine.say("gpu.0.accounting=1" if said.startswith("err") else "gpu.2.accounting=1", said)
    assert use(0)[0].processes == (ProcessUse(pid=11, used_mib=1.0),)


def test_a_gpu_that_cannot_tell_processes_apart_keeps_no_use_of_them(machine: Machine) -> None:
    """As Kepler: what it says of a process's use is that of all."""
    machine.say(f"gpu.0.procs=11:{MIB}", "gpu.0.accounting=1", f"gpu.0.accounts=11:40:3:{2 * MIB}:0:5000000")
    for capability in ("37", "0"):
        machine.say(f"gpu.0.capability={capability}")
        (seen,) = use(0)[0].processes or ()
        assert seen.account == ProcessAccount(began_at=5.0, peak_mib=2.0)


def test_a_gpu_whose_calls_hang_is_missing(machine: Machine) -> None:
    """The others are read all the same, with the child that there is."""
    machine.say("gpu.1.delay_ms=3600000")
    seen = with_probe(lambda probe: probe.use((0, 1, 2)), time_limit_s=20.0)
    assert [each.uuid for each in seen] == [UUID(0), UUID(2)]


def test_parts_by_mig(machine: Machine) -> None:
    machine.say("gpu.0.mig_mode=1", "gpu.0.mig.3.gi=1", "gpu.0.mig.3.uuid=MIG-x", "gpu.0.mig.3.used_mib=77")
    machine.say("gpu.0.mig.3.mem_mib=100", f"gpu.0.mig.3.procs=11:{70 * MIB}")
    assert use(0)[0].parts == (DeviceUse(uuid="MIG-x", used_mib=77.0, processes=(ProcessUse(pid=11, used_mib=70.0),)),)


def test_gpm_tells_of_parts_by_mig_what_they_do(machine: Machine) -> None:
    """Not of two parts in one GPU instance, for nobody knows which of them it was; nor of one without GPM."""
    machine.say("gpu.0.mig_mode=1", "gpu.0.gpm=1", "gpu.1.mig_mode=1", "gpu.1.mig.0.gi=1", "gpu.1.mig.0.uuid=MIG-d")
    for place, (name, instance) in enumerate((("a", 1), ("b", 2), ("c", 2))):
        key = f"gpu.0.mig.{place}"
        machine.say(f"{key}.gi={instance}", f"{key}.uuid=MIG-{name}", f"{key}.gpm.1=35", f"{key}.gpm.5=20")
        machine.say(f"{key}.gpm.61=7")

    async def story(probe: NvmlProbe) -> list[DeviceUse]:
        machine.say("clock=10")
        await probe.use([0, 1])
        machine.say("clock=20")
        return [part for each in await probe.use([0, 1]) for part in each.parts]

    seen = [(each.uuid, each.sm_percent, each.profile, each.rates) for each in with_probe(story)]
    assert seen == [
        ("MIG-a", 35.0, {"tensor": 20.0}, {}),
        ("MIG-b", None, {}, {}),
        ("MIG-c", None, {}, {}),
        ("MIG-d", None, {}, {}),
    ]


def test_clients_of_mps_whose_server_is_told_instead_of_them_are_unknown(machine: Machine) -> None:
    """As long as nobody computes all is known; from when one client is told by name on, all are."""
    machine.say(f"gpu.0.procs=10:{27 * MIB}", f"gpu.0.mps=11:{300 * MIB},12:{200 * MIB}")

    async def story(probe: NvmlProbe) -> list[dict[int, float | None]]:
        found = []
        for at, said in enumerate(("", "10:60:5", "", "11:30:5", "11:40:5")):
            machine.say(f"clock={100 + at}", f"gpu.0.proc_util={said}")
            (seen,) = await probe.use([0])
            found.append({each.pid: each.sm_percent for each in seen.processes or ()})
        return found

    assert with_probe(story) == [
        {10: 0.0, 11: 0.0, 12: 0.0},
        {10: 60.0, 11: None, 12: None},
        {10: 0.0, 11: None, 12: None},
        {10: 0.0, 11: 30.0, 12: 0.0},
        {10: 0.0, 11: 40.0, 12: 0.0},
    ]


def test_a_probe_of_nothing_tells_nothing() -> None:
    assert run_async(NullProbe().use([0])) == ()
    assert with_probe(lambda probe: probe.use([])) == ()


def played(machine: Machine, moments: Sequence[float]) -> DeviceTotals:
    """A device that is read at these seconds of its curve."""

    async def story(probe: NvmlProbe) -> DeviceTotals:
        machine.say(f"clock={moments[0]}")
        (first,) = await probe.use([0])
        found = begun(first.uuid, 0, moments[0], 10.0, UseSample(energy_j=first.energy_j))
        for at in moments[1:]:
            machine.say(f"clock={at}")
            (seen,) = await probe.use([0])
            sample = UseSample(sm_percent=seen.sm_percent, power_w=seen.power_w, energy_j=seen.energy_j)
            found.add(sample, at, 10.0)
        return found

    return with_probe(story)  # type: ignore[no-any-return]


def test_curves_are_played_and_added_up(machine: Machine) -> None:
    machine.say("gpu.0.util=steps:100:0,50,100", "gpu.0.energy_mj=ramp:200000:7", "gpu.0.power_mw=saw:100:0:300000")
    found = played(machine, [*range(5, 305, 10), 305])
    told = found.summary("h")
    assert (told.sm_min, told.sm_max, told.sm_median) == (0.0, 100.0, 50.0)
    assert told.sm_mean == pytest.approx((9 * 0 + 10 * 50 + 10 * 100) / 30, abs=2)
    assert told.idle_s == 100.0  # nine samples at first, and the one after the end: it begins again
    assert (told.energy_j, told.energy_counted) == (pytest.approx(60_000.0), True)
    assert told.power_mean_w == pytest.approx(150.0, abs=10)


def test_bursts(machine: Machine) -> None:
    machine.say("gpu.0.util=bursts:50:10:80")
    told = played(machine, range(0, 500, 10)).summary("h")
    assert (told.sm_mean, told.sm_p95, told.sm_median) == (pytest.approx(80 * 9 / 49), 80.0, 0.0)
