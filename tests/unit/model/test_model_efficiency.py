"""How well a job used what it asked for: what is said, what is not, in sums and in money."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gsched.base.coded_text import sentence
from gsched.base.sentences import SENTENCES
from gsched.model.efficiency.cost import Cost, Prices, cost_of
from gsched.model.efficiency.gpu_seconds import GpuSeconds, gpu_seconds, together
from gsched.model.efficiency.job_use import AskedGpu, AskedOf, JobUse, asked_of, ended_use, running_use
from gsched.model.efficiency.verdicts import Weight, verdicts
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation, AmountSchedule, AmountStep, HeldGpu, HostAllocation

RUN_S = 1000.0


def used(index: int, mean: float | None, high: float | None = None, **changes: object) -> GpuUsage:
    """A GPU that was looked at all the time."""
    values: dict[str, object] = {
        "host": "h",
        "index": index,
        "uuid": f"G{index}",
        "samples": 100,
        "covered_s": RUN_S,
        "sm_mean": mean,
        "sm_max": mean if high is None else high,
        "mem_max_mib": 0.0 if not mean else 4096.0,
        "no_process_s": 0.0 if mean else RUN_S,
    }
    return GpuUsage(**(values | changes))  # type: ignore[arg-type]


def job(
    *uses: GpuUsage, gpus: tuple[AskedGpu, ...] = (), usage: Usage | None = None, done: bool = True, **asked: object
) -> JobUse:
    held = gpus or tuple(AskedGpu(host="h", index=n, uuid=f"G{n}") for n in range(len(uses)))
    values: dict[str, object] = {"slots": 1, "gpus": held}
    whole = Usage(cpu_s=RUN_S, gpus=uses) if usage is None else usage
    return JobUse(asked=AskedOf(**(values | asked)), usage=whole, run_s=RUN_S, is_done=done)  # type: ignore[arg-type]


def said(use: JobUse, min_run_s: float = 300.0) -> list[str]:
    return [f"{each.weight.value}: {sentence(each.text)}" for each in verdicts(use, min_run_s)]


@pytest.mark.parametrize(
    ("means", "text"),
    [
        ((90.0, 80.0, 0.0, 0.0), "grave: 2 of 4 GPUs were never used"),
        ((90.0, 0.0), "grave: 1 of 2 GPUs was never used"),
        ((0.0, 0.0), "grave: none of its GPUs was ever used"),
        ((14.9,), "grave: its GPUs computed at most 15 % of the time"),
        ((15.1, 24.0), "note: its GPUs computed at most 20 % of the time"),
        ((25.0,), "good: what it asked for was used well, as far as it is known"),
    ],
)
def test_what_is_said_of_gpus(means: tuple[float, ...], text: str) -> None:
    assert said(job(*(used(index, mean) for index, mean in enumerate(means)))) == [text]


def test_gpus_of_which_only_some_were_used_are_judged_apart() -> None:
    assert said(job(used(0, 0.0), used(1, 10.0))) == [
        "grave: 1 of 2 GPUs was never used",
        "grave: the GPUs that it used computed at most 10 % of the time",
    ]


def test_a_gpu_that_held_memory_was_used_for_something() -> None:
    held = used(1, 0.0, mem_max_mib=500.0, no_process_s=0.0)
    assert said(job(used(0, 90.0), held)) == ["grave: 1 of 2 GPUs never computed"]
    assert not job(used(0, 90.0), held).gpus[1].is_unused
    hidden = used(1, 0.0, mem_max_mib=None)
    assert not job(hidden).gpus[0].is_unused and not job(used(0, 0.0, no_process_s=10.0)).gpus[0].is_unused


def test_one_that_computed_for_a_moment_was_used() -> None:
    assert said(job(used(0, 90.0), used(1, 0.5, 60.0))) == [
        "good: what it asked for was used well, as far as it is known"
    ]


@pytest.mark.parametrize(
    "unknown",
    [
        GpuUsage(),
        used(0, None),
        used(0, 0.0, covered_s=700.0),  # it may have computed in the rest
        used(0, 10.0, covered_s=800.0),  # at most 28 %
    ],
)
def test_of_what_was_not_measured_nothing_is_said(unknown: GpuUsage) -> None:
    found = said(job(unknown, gpus=(AskedGpu(host="h", index=0, uuid="G0"),)))
    assert not any(text.startswith(("grave", "note")) for text in found)
    if unknown.sm_mean is None:
        assert found == ["unknown: how its GPUs were used is not known"]


def test_what_is_known_is_said_beside_what_is_not() -> None:
    assert said(job(used(0, 0.0), GpuUsage())) == [
        "grave: 1 of 2 GPUs was never used",
        "unknown: how its GPUs were used is not known",
    ]


def test_a_hole_counts_as_used() -> None:
    """Ten percent in two thirds of the time, all of the rest: 40 percent at most."""
    part = job(used(0, 10.0, covered_s=2 * RUN_S / 3)).gpus[0]
    assert part.percent == 10.0 and part.most_percent == pytest.approx(40.0)
    assert job(used(0, 10.0)).gpus[0].most_percent == 10.0
    hole = job(used(0, 0.0, covered_s=900.0))
    assert not hole.gpus[0].is_unused and said(hole) == ["grave: its GPUs computed at most 10 % of the time"]


def test_a_part_of_a_gpu_is_judged_by_that_part() -> None:
    quarter = AskedGpu(host="h", index=0, uuid="G0", share=0.25)
    assert said(job(used(0, 20.0), gpus=(quarter,))) == ["good: what it asked for was used well, as far as it is known"]
    assert said(job(used(0, 2.0), gpus=(quarter,))) == ["grave: its GPUs computed at most 8 % of the time"]


@pytest.mark.parametrize(
    ("cpu_s", "peak", "texts"),
    [
        (8 * RUN_S * 0.64, 5.0, ["grave: of 8 slots it kept 5.1 busy"]),
        (8 * RUN_S * 0.7, None, ["note: of 8 slots it kept 5.6 busy"]),
        (
            8 * RUN_S * 0.3,
            7.5,
            ["good: what it asked for was used well, as far as it is known"],
        ),  # it needs them at times
        (8 * RUN_S * 0.9, 8.0, ["good: what it asked for was used well, as far as it is known"]),
    ],
)
def test_processors(cpu_s: float, peak: float | None, texts: list[str]) -> None:
    assert said(job(usage=Usage(cpu_s=cpu_s, cpu_peak=peak), slots=8)) == texts


def test_one_slot_is_never_too_many() -> None:
    assert said(job(usage=Usage(cpu_s=1.0))) == ["unknown: nothing that it asked for can be compared with what it used"]


def test_memory() -> None:
    frugal = Usage(cpu_s=RUN_S, max_mem_mib=1024.0)
    assert said(job(usage=frugal, mem_mib=8192.0)) == ["note: of 8.0 GiB of memory that it reserved it used 1.0"]
    assert said(job(usage=frugal, mem_mib=1400.0))[0].startswith("good")  # less than a GiB is not worth a word
    assert said(job(usage=Usage(cpu_s=RUN_S), mem_mib=8192.0))[0].startswith("unknown: nothing")


def test_memory_of_gpus() -> None:
    def held(gmem_mib: float, *most: float | None) -> list[str]:
        gpus = tuple(AskedGpu(host="h", index=n, uuid=f"G{n}", gmem_mib=gmem_mib) for n in range(len(most)))
        return said(job(*(used(n, 90.0, mem_max_mib=mib) for n, mib in enumerate(most)), gpus=gpus))

    good = ["good: what it asked for was used well, as far as it is known"]
    assert held(40960.0, 2048.0, 8192.0) == ["note: of 40.0 GiB of GPU memory that it asked for it used 8.0"]
    assert held(40960.0, 2048.0, None) == good and held(0.0, 2048.0) == good and held(10240.0, 7400.0) == good


def test_run_limits_are_judged_by_jobs_that_are_done() -> None:
    assert said(job(run_limit_s=11_000)) == ["grave: it took 9 % of its run limit"]
    assert said(job(run_limit_s=2_000)) == ["note: it took 50 % of its run limit"]
    assert said(job(run_limit_s=11_000, done=False))[0].startswith("unknown: nothing")
    assert said(job(run_limit_s=1_500))[0].startswith("good")


def test_the_gravest_comes_first_and_nothing_is_said_of_a_short_run() -> None:
    use = job(used(0, 20.0), slots=8, usage=Usage(cpu_s=10.0, gpus=(used(0, 20.0),)), run_limit_s=2_000)
    assert [text.partition(":")[0] for text in said(use)] == ["grave", "note", "note"]
    assert said(use, min_run_s=1000.1) == ["unknown: it ran for 1000 s: runs of less than 1000 s are not judged"]


def test_time_in_which_it_was_suspended_does_not_count() -> None:
    asked = AskedOf(slots=2)
    result = AttemptResult(exit_code=0, run_s=1500.0, suspended_s=500.0, usage=Usage(cpu_s=1900.0))
    use = ended_use(asked, result)
    assert (use.run_s, use.cpu_percent, use.is_done) == (1000.0, pytest.approx(95.0), True)
    # It was looked at while it was suspended, too, and then it could not compute: 20 percent of 1500 seconds.
    gpus = (AskedGpu(host="h", index=0, uuid="G0"),)
    usage = Usage(gpus=(used(0, 20.0, covered_s=1500.0),))
    (gpu,) = ended_use(AskedOf(slots=1, gpus=gpus), replace(result, usage=usage)).gpus
    assert (gpu.unseen_s, gpu.most_percent) == (0.0, pytest.approx(30.0))
    hole = Usage(gpus=(used(0, 20.0, covered_s=1000.0),))
    (gpu,) = ended_use(AskedOf(slots=1, gpus=gpus), replace(result, usage=hole)).gpus
    assert (gpu.unseen_s, gpu.most_percent) == (500.0, pytest.approx(70.0))


def test_one_that_was_ended_for_idle_gpus_was_not_used_well() -> None:
    """However busy they had been before."""
    asked = AskedOf(slots=1, gpus=(AskedGpu(host="h", index=0, uuid="G0"),))
    result = AttemptResult(signal=2, term_reason="TERM_GPU_IDLE", run_s=1000.0, usage=Usage(gpus=(used(0, 80.0),)))
    assert said(ended_use(asked, result)) == ["grave: it was ended because its GPUs were idle (GPU_IDLE)"]


def test_cpu_time_that_nobody_knows() -> None:
    asked = AskedOf(slots=8)
    assert ended_use(asked, AttemptResult(run_s=1000.0)).cores is None  # it ended unseen
    assert running_use(asked, Usage(), 1000.0).cores is None and running_use(asked, None, 1000.0).cores is None
    assert running_use(asked, Usage(cpu_s=500.0, sampled_at=1.0), 1000.0).cores == 0.5


def test_what_a_job_asked_for() -> None:
    gpus = (HeldGpu(uuid="G0", index=3, claim="gpu_shared", share=0.5, gmem_mib=4096.0),)
    parts = (
        HostAllocation(host="a", slots=2, gpus=gpus, amounts={"mem": 1000.0}),
        HostAllocation(host="b", slots=1, amounts={"mem": 500.0}),
    )
    spec = JobSpec(command="x", user="u", queue="q", run_limit_s=60)
    found = asked_of(spec, Allocation(hosts=parts))
    assert (found.slots, found.hosts, found.mem_mib, found.run_limit_s) == (3, 2, 1500.0, 60)
    assert found.gpus == (AskedGpu(host="a", index=3, uuid="G0", share=0.5, gmem_mib=4096.0),)
    of_queue = JobSpec(command="x", user="u", queue="q", run_limit_s=60, defaulted=("run_limit_s",))
    falling = HostAllocation(
        host="a",
        slots=1,
        amounts={"mem": 9.0},
        courses=(AmountSchedule(resource="mem", steps=(AmountStep(after_s=0.0, amount=9.0),)),),
    )
    found = asked_of(of_queue, Allocation(hosts=(falling,)))
    assert (found.mem_mib, found.run_limit_s) == (None, None)


def test_gpu_seconds() -> None:
    shares = (1.0, 0.5)
    gpus = tuple(HeldGpu(uuid=f"G{n}", index=n, claim="", share=share) for n, share in enumerate(shares))
    held = Allocation(hosts=(HostAllocation(host="h", slots=1, gpus=gpus),))
    uses = (used(0, 25.0, energy_j=10.0), used(1, 80.0, energy_j=5.0))
    first = gpu_seconds(held, uses)
    assert first == GpuSeconds(seen_s=1500.0, busy_s=250.0 + 500.0, energy_j=15.0)  # no more than the half that it held
    unknown = gpu_seconds(held, (used(0, None), used(7, 90.0)))
    assert unknown == GpuSeconds() == gpu_seconds(None, uses)
    assert together([first, first]) == GpuSeconds(seen_s=3000.0, busy_s=1500.0, energy_j=30.0)
    assert together([first, unknown]).energy_j is None and together([]) == GpuSeconds()


def test_costs() -> None:
    both = Prices(gpu_hour=2.0, kwh=0.5, currency="EUR")
    assert cost_of(both, 5400.0, 7.2e6) == Cost(gpu_time=3.0, energy=1.0, total=4.0)
    assert cost_of(both, 5400.0, None) == Cost(gpu_time=3.0)
    assert cost_of(Prices(gpu_hour=2.0, currency="EUR"), 5400.0, None).total == 3.0
    assert cost_of(Prices(kwh=0.5, currency="EUR"), 5400.0, 3.6e6).total == 0.5
    assert cost_of(Prices(), 5400.0, 7.2e6) == Cost() and not Prices().are_known


def test_every_verdict_has_words() -> None:
    weights = {each.value for each in Weight}
    assert weights == {"grave", "note", "good", "unknown"}
    for code in SENTENCES:
        if code.startswith("efficiency."):
            assert SENTENCES[code].format(*(1,) * 4)
