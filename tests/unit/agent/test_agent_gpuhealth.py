"""Sick GPUs (pains 6): when a GPU is closed, for whom, and when it is offered again."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gsched.agent.gpu.gpu_condition import HealthRules
from gsched.agent.gpu.gpu_health import GONE, LATE_NEWS_S, GpuHealth
from gsched.base.coded_text import sentence
from gsched.base.errors import ResourceExhausted
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, GpuXid
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from tests.support.manual_clock import ManualClock

LOST = "NVML: GPU is lost"
PROBE_S = 5.0


def part_of(*uuids: str) -> HostAllocation:
    return HostAllocation(host="h", slots=1, gpus=tuple(HeldGpu(uuid=uuid, index=0, claim="ngpus") for uuid in uuids))


class Host:
    """Two GPUs of the driver's, with a job on the first, and what the judge makes of them."""

    def __init__(self, folder: Path, **rules: Any) -> None:
        self.clock = ManualClock()
        self.path = folder / "gpu-health.json"
        self.gpus = {index: self.sound(index) for index in (0, 1)}
        self.held = {(17, 1): part_of("GPU-0")}
        self.looks = 0
        self.rules = HealthRules(probe_s=PROBE_S, **rules)
        self.restart()

    @staticmethod
    def sound(index: int, **changes: Any) -> Gpu:
        return Gpu(
            **({"uuid": f"GPU-{index}", "index": index, "mode": ComputeMode.DEFAULT, "temperature_c": 30} | changes)
        )

    def restart(self, boot_id: str = "boot") -> None:
        """Another agent."""
        self.health = GpuHealth(self.path, boot_id, self.clock, holdings=lambda: self.held, look=self._look)
        self.health.rules = self.rules

    async def _look(self) -> GpuReport:
        self.looks += 1
        return self.see()

    def see(self, index: int = 0, *, once: bool = False, **changes: Any) -> GpuReport:
        """A look after a probe's interval; what is changed stays, except with `once`."""
        before = self.gpus[index]
        self.gpus[index] = msgspec.structs.replace(before, **changes)
        self.clock.advance(PROBE_S)
        report = self.look()
        if once:
            self.gpus[index] = before
        return report

    def look(self, **changes: Any) -> GpuReport:
        return self.health.judge(GpuReport(gpus=tuple(self.gpus.values()), provider="nvml", **changes))

    def xid(self, *numbers: int, **changes: Any) -> Gpu:
        return self.see(once=True, xids=tuple(GpuXid(number=number) for number in numbers), **changes).gpus[0]

    def at_once(self, number: int) -> Gpu:
        """A look that news of the first GPU asked for."""
        before = self.gpus[0]
        self.gpus[0] = msgspec.structs.replace(before, xids=(GpuXid(number=number),))
        gpu = self.look().gpus[0]
        self.gpus[0] = before
        return gpu


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path)
    made.see()
    return made


def test_a_gpu_that_is_lost_is_a_fault_of_that_gpu_alone(host: Host) -> None:
    """pains 6: one of several is lost, the others stay as they are."""
    first, second = host.see(mode=None, problem=LOST, fault=LOST).gpus
    assert (sentence(first.fault), first.hit, sentence(first.problem)) == (LOST, ("17.1",), LOST)
    assert (second.fault, second.hit, sentence(second.problem)) == ("", (), "")


@pytest.mark.parametrize("number", [48, 79, 95, 109, 155, 156, 158])
def test_a_fatal_error_closes_it(host: Host, number: int) -> None:
    """pains 6: the table of fatal errors."""
    gpu = host.xid(number)
    assert sentence(gpu.fault).startswith(f"XID {number} (") and gpu.hit == ("17.1",)
    assert sentence(gpu.problem).startswith(sentence(gpu.fault))
    assert ("until it is reset" in sentence(gpu.problem)) == (number != 48)
    host.held = {(18, 1): part_of("GPU-0")}
    assert host.look().gpus[0].hit == ("17.1",)  # whoever comes later was not hit


@pytest.mark.parametrize("number", [13, 31, 43, 45, 94, 12345])
def test_errors_of_programs_close_nothing(host: Host, number: int) -> None:
    """pains 6: XID 94 and the like must not fence."""
    gpu = host.xid(number)
    assert (gpu.fault, sentence(gpu.problem), gpu.xids) == ("", "", (GpuXid(number=number, jobs=("17.1",)),))
    for _ in range(20):  # a storm is one piece of news
        gpu = host.xid(number)
    assert len(gpu.xids) == 1
    assert host.look().gpus[0].xids == gpu.xids


def test_an_error_heard_right_after_the_end_belongs_to_who_held_it_last(host: Host) -> None:
    """The driver tells of an error while its program ends: the news must not come too late by a few milliseconds."""
    asyncio.run(host.health.after((17, 1), part_of("GPU-0")))
    host.held = {}
    host.look()
    assert host.at_once(31).xids == (GpuXid(number=31, jobs=("17.1",)),)
    host.clock.advance(LATE_NEWS_S)
    assert host.at_once(43).xids[-1] == GpuXid(number=43)


def test_an_error_heard_late_belongs_to_who_holds_the_gpu_now(host: Host) -> None:
    """Nobody can tell them apart; a fatal one has to end what runs there."""
    asyncio.run(host.health.after((17, 1), part_of("GPU-0")))
    host.held = {(18, 1): part_of("GPU-0")}
    assert host.at_once(31).xids == (GpuXid(number=31, jobs=("18.1",)),)


def test_what_comes_on_top_of_a_fault_is_told_too(host: Host) -> None:
    """A fatal error is told as the fault that it is; one that follows on a fault, apart from it."""
    assert host.xid(79).xids == ()
    host.held = {}
    assert host.xid(48).xids == (GpuXid(number=48, jobs=("17.1",)),)
    assert sentence(host.look().gpus[0].fault).startswith("XID 79")


def test_which_errors_are_fatal_is_configured(tmp_path: Path) -> None:
    host = Host(tmp_path, fatal_xids=frozenset({13}))
    assert host.xid(79).fault == ""
    assert host.xid(13).fault


def test_it_is_offered_again_after_clean_probes(host: Host) -> None:
    """pains 6: recovery re-admits after N clean probes."""
    host.xid(48)
    for _ in range(2):
        assert host.see().gpus[0].fault
        host.look()  # a look between two probes proves nothing
    gpu = host.see().gpus[0]
    assert (gpu.fault, gpu.hit, sentence(gpu.problem)) == ("", (), "")


def test_one_that_needs_a_reset_does_not_become_well_by_itself(host: Host) -> None:
    """Nor by another agent: only a restart of the machine, a reset, or an administrator."""
    host.xid(119)
    host.restart()
    for _ in range(50):
        assert host.see().gpus[0].fault
    assert "closed until it is reset" in sentence(host.see().gpus[0].problem)
    host.restart(boot_id="another")
    assert host.see().gpus[0].fault == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"recovery": 1}, {"recovery": 0}, id="the driver wants no reset any more"),
        pytest.param({"ecc_errors": 3}, {"ecc_errors": 0}, id="its errors are counted anew"),
        pytest.param(
            {"mode": None, "problem": LOST, "fault": LOST},
            {"mode": ComputeMode.DEFAULT, "problem": "", "fault": ""},
            id="it was lost and answers again",
        ),
    ],
)
def test_one_that_was_reset_is_offered_after_clean_probes(
    host: Host, before: dict[str, Any], after: dict[str, Any]
) -> None:
    host.see(ecc_errors=before.get("ecc_errors"))
    host.xid(79)
    for _ in range(5):
        assert host.see(**before).gpus[0].fault
    assert [bool(host.see(**after).gpus[0].fault) for _ in range(3)] == [True, True, False]


def test_a_driver_that_never_wanted_a_reset_has_not_told_of_one(host: Host) -> None:
    host.see(recovery=0)
    host.xid(79)
    assert all(host.see(recovery=0).gpus[0].fault for _ in range(10))


@pytest.mark.parametrize("action", [1, 2, 6, 7])
def test_what_the_driver_says_must_be_reset_has_failed(host: Host, action: int) -> None:
    gpu = host.see(recovery=action).gpus[0]
    assert sentence(gpu.fault) == "the driver says that it must be reset" and gpu.hit == ("17.1",)
    assert [bool(host.see(recovery=0).gpus[0].fault) for _ in range(3)] == [True, True, False]


def test_what_is_to_be_drained_first_is_not_offered_and_ends_no_job(host: Host) -> None:
    gpu = host.see(recovery=4).gpus[0]
    assert gpu.fault == "" and "is to be reset" in sentence(gpu.problem)
    assert all(host.see(recovery=action).gpus[0].problem == "" for action in (3, 5, 0, None))


def test_an_administrator_opens_it_and_a_new_error_closes_it_again(host: Host) -> None:
    host.xid(79)
    assert host.health.open("GPU-0") and not host.health.open("GPU-0") and not host.health.open("GPU-none")
    host.restart()
    assert host.see().gpus[0].fault == ""
    assert host.xid(79).fault


def test_one_that_is_gone_is_not_opened_as_long_as_it_is_gone(host: Host) -> None:
    gone = host.gpus.pop(0)
    host.gpus[1] = host.sound(1)
    assert host.see(1).gpus[-1].fault == GONE
    assert host.health.open("GPU-0")
    assert host.see(1).gpus[-1].fault == GONE
    host.gpus[0] = gone


def test_as_long_as_it_does_not_answer_it_is_not_clean(host: Host) -> None:
    host.xid(79)
    for _ in range(10):
        assert sentence(host.see(mode=None, problem=LOST, fault=LOST).gpus[0].fault).startswith("XID 79")
    host.see(mode=None, problem="NVML does not answer for this GPU", fault="")
    host.gpus[0] = host.sound(0)
    assert [bool(host.see().gpus[0].fault) for _ in range(3)] == [True, True, False]


def test_a_second_fault_begins_from_the_beginning_and_takes_twice_as_long(host: Host) -> None:
    host.xid(48)
    host.see()
    host.see()
    host.xid(48)
    assert [bool(host.see().gpus[0].fault) for _ in range(3)] == [True, True, False]
    host.xid(48)
    assert [bool(host.see().gpus[0].fault) for _ in range(6)] == [True] * 5 + [False]


def test_memory_errors_that_rise(host: Host) -> None:
    assert host.see(ecc_errors=2).gpus[0].fault == ""  # first heard of: nobody knows since when
    assert host.see(ecc_errors=2).gpus[0].fault == ""
    assert host.see(ecc_errors=5).gpus[0].fault == ""  # an XID may still say that they are contained
    assert sentence(host.look().gpus[0].fault) == "3 memory errors that could not be corrected (ECC)"
    for _ in range(3):
        gpu = host.see().gpus[0]
    assert gpu.fault == "" and gpu.ecc_errors == 5
    assert host.see(ecc_errors=0).gpus[0].fault == ""  # the driver was loaded anew
    host.see(ecc_errors=1)
    assert host.look().gpus[0].fault


@pytest.mark.parametrize("at_once", [True, False])
def test_memory_errors_that_the_gpu_has_contained(host: Host, at_once: bool) -> None:
    """pains 6: XID 94 goes with an error that is counted, and still is the program's affair alone."""
    host.see(ecc_errors=0)
    if at_once:
        host.gpus[0] = host.sound(0, ecc_errors=1)
        host.xid(63, 94)
    else:
        host.see(ecc_errors=1)
        host.xid(94)
    assert [host.see().gpus[0].fault for _ in range(3)] == [""] * 3


@pytest.mark.parametrize("limit", [90, None])
def test_a_hot_one_gets_no_new_jobs(tmp_path: Path, limit: int | None) -> None:
    host = Host(tmp_path, max_temperature_c=limit)
    host.gpus[0] = host.sound(0, slowdown_c=90 if limit is None else 80)

    def problem(temperature: int | None) -> str:
        gpu = host.see(temperature_c=temperature).gpus[0]
        assert not gpu.fault and not gpu.hit  # jobs on it go on
        return sentence(gpu.problem)

    assert problem(89) == ""
    assert problem(90) == problem(95) == problem(86) == problem(None) == "too hot (90 C or more; offered again at 85 C)"
    assert problem(85) == problem(89) == ""


def test_without_a_limit_none_is_too_hot(host: Host) -> None:
    assert sentence(host.see(temperature_c=120).gpus[0].problem) == ""


def test_what_others_found_stays(host: Host) -> None:
    assert sentence(host.see(problem="locked by another cluster").gpus[0].problem) == "locked by another cluster"
    gpu = host.xid(79, problem="locked by another cluster")
    assert sentence(gpu.problem) == "locked by another cluster" and gpu.fault


def test_one_that_the_driver_no_longer_lists(host: Host) -> None:
    """pains 6: loss without any XID."""
    before = host.gpus.pop(0)
    first = next(gpu for gpu in host.look().gpus if gpu.uuid == "GPU-0")
    assert (first.index, first.fault, first.hit, first.mode) == (0, GONE, ("17.1",), None)
    # The driver counts anew: the other one has its index now, and both have one of their own.
    host.gpus[1] = msgspec.structs.replace(host.gpus[1], index=0)
    assert sorted((gpu.uuid, gpu.index) for gpu in host.look().gpus) == [("GPU-0", 1), ("GPU-1", 0)]
    host.gpus = {0: before, 1: host.sound(1)}
    assert [bool(host.see().gpus[0].fault) for _ in range(3)] == [True, True, False]


def test_two_that_had_one_index_are_both_told_of_when_they_are_lost(host: Host) -> None:
    """The index of the first went to the second, which was lost later."""
    host.gpus = {0: host.sound(0, uuid="GPU-1")}
    host.look()
    host.gpus = {}
    lost = {gpu.uuid: gpu for gpu in host.look().gpus}
    assert {uuid: gpu.fault for uuid, gpu in lost.items()} == {"GPU-0": GONE, "GPU-1": GONE}
    assert lost["GPU-0"].hit == ("17.1",) and len({gpu.index for gpu in lost.values()}) == 2


@pytest.mark.parametrize("index", [0, 1])
def test_one_that_was_lost_is_back_under_its_uuid_whatever_its_index(host: Host, index: int) -> None:
    host.gpus = {0: host.sound(0, uuid="GPU-1")}
    faults = {gpu.uuid: gpu.fault for gpu in host.look().gpus}
    assert faults == {"GPU-0": GONE, "GPU-1": ""}
    host.gpus = {0: host.sound(index, uuid="GPU-0"), 1: host.sound(1 - index, uuid="GPU-1")}
    for clean in range(1, 4):
        seen = {gpu.uuid: gpu for gpu in host.see().gpus}
        assert bool(seen["GPU-0"].fault) == (clean < 3) and seen["GPU-1"].fault == ""
        assert (seen["GPU-0"].index, seen["GPU-1"].index) == (index, 1 - index)


def test_one_that_no_longer_tells_its_name_keeps_it(host: Host) -> None:
    host.restart()
    host.gpus[0] = Gpu(uuid="GPU-unknown-0", index=0, problem=LOST, fault=LOST)
    assert [(gpu.uuid, sentence(gpu.fault)) for gpu in host.look().gpus] == [("GPU-0", LOST), ("GPU-1", "")]


def test_a_host_that_cannot_be_probed_is_neither_sick_nor_well(host: Host) -> None:
    """A probe that was cut off says nothing of its GPUs: they are unknown, not free and not lost."""
    host.xid(48)
    unknown = GpuReport(known=False, reason="NVML did not answer within 5 s", provider="nvml")
    for _ in range(5):
        host.clock.advance(PROBE_S)
        assert host.health.judge(unknown) is unknown
    assert [bool(host.see().gpus[0].fault) for _ in range(3)] == [True, True, False]


def test_the_next_agent_knows(host: Host) -> None:
    host.xid(48)
    host.restart()
    gpu = host.look().gpus[0]
    assert sentence(gpu.fault).startswith("XID 48") and gpu.hit == ("17.1",)
    host.restart(boot_id="another")
    assert host.look().gpus[0].fault == ""


def test_a_file_that_cannot_be_written_is_said_once(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """Each look said so: on a full disk a line every few seconds, for as long as it is full."""
    said = f"{host.path} cannot be written"
    host.path.unlink()
    host.path.mkdir()  # nothing takes its place, whoever tries
    (host.path / "something").touch()
    for number in (48, 31, 48):
        assert sentence(host.xid(number).fault).startswith("XID 48")
    assert caplog.text.count(said) == 1
    shutil.rmtree(host.path)
    host.see()
    assert host.path.is_file()
    host.path.unlink()
    host.path.mkdir()
    (host.path / "something").touch()
    host.xid(48)
    assert caplog.text.count(said) == 2, "it was written in between"


@pytest.mark.parametrize("rubbish", [b"", b"{", b'{"boot_id": 7}', b"\xff"])
def test_a_file_that_is_of_no_use(host: Host, rubbish: bytes) -> None:
    host.path.write_bytes(rubbish)
    host.restart()
    assert host.look().gpus[0].fault == ""


def test_inventories_say_what_there_is(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for count in (2, 1):
        gpus = tuple(host.gpus[index] for index in range(count))
        assert len(host.health.judge(GpuReport(gpus=gpus, provider="simulated")).gpus) == count


def test_attempts_are_kept_off_it(host: Host) -> None:
    def before(uuid: str) -> None:
        part = part_of(uuid)
        asyncio.run(host.health.before((18, 1), part, JobSpec(command="", user="", queue="")))

    before("GPU-0")
    host.xid(48)
    before("GPU-1")
    with pytest.raises(ResourceExhausted, match=r"GPU 0 \(GPU-0\) has failed: XID 48"):
        before("GPU-0")


def test_at_the_end_of_an_attempt_its_gpus_are_looked_at(host: Host) -> None:
    """A program notices a loss before the next probe does; its end is told after the fault."""
    part = part_of("GPU-0")
    asyncio.run(host.health.after((17, 1), part))
    assert host.looks == 1


def test_one_look_at_an_end_is_enough(host: Host) -> None:
    """Where processes are seen, whoever looks for leftovers of the attempt looks."""
    host.see(process_count=0)
    asyncio.run(host.health.after((17, 1), part_of("GPU-0")))
    assert host.looks == 0
