"""Jobs over several hosts start, are signalled and end as one, whatever is lost or restarted on the way."""

from __future__ import annotations

from typing import Any

import pytest
from core_parts_world import HOSTS, ends, holding, orders, running, three
from core_world import World, gpu_spec, make_config, spec

from gsched.base.coded_text import coded, sentence
from gsched.core.command import AttemptEnded
from gsched.core.instruction import (
    ResumeAttempt,
    SignalAttempt,
    StartJob,
    SuspendAttempt,
    TerminateAttempt,
)
from gsched.core.state.transitions import IllegalEvent
from gsched.model.event import (
    JobDispatched,
    JobFinished,
    JobPartEnded,
    JobPartStarted,
    JobRequeued,
    StaleResultRecorded,
)
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import SLURM, AttemptResult, Usage

BUSY = coded("gpu.device_busy", "GPU 0 (GPU-c0), in mode exclusive_process, is held by pid 7 of eve (74 MiB)")


@pytest.mark.parametrize("how", ["ended", "requeued"])
def test_hosts_of_a_job_that_has_failed_are_asked_who_is_on_its_gpus(how: str) -> None:
    """An exit code of the first host may come from what a task met on another one."""
    world, job_id = running(requeue_exit_values="46" if how == "requeued" else "")
    since = len(world.instructions)
    world.ended(job_id, exit_code=46)
    assert {each for each in orders(world, since) if isinstance(each, TerminateAttempt)} == {
        TerminateAttempt(host, job_id, 1, given_up=True, failed=True) for host in "bc"
    }
    for _ in "12":  # a report may come twice
        world.part_ended(job_id, "c", problem=BUSY)
    told = [sentence(note) for note in world.job(job_id).notes]
    assert told == [f"Run 1 on host c: {sentence(BUSY)}"]
    world.check_replay()


@pytest.mark.parametrize("result", [{"exit_code": 0}, {"exit_code": None, "signal": 9, "term_reason": "TERM_OWNER"}])
def test_hosts_of_a_job_that_has_not_failed_by_itself_are_not(result: dict[str, Any]) -> None:
    world, job_id = running()
    since = len(world.instructions)
    world.ended(job_id, **result)
    assert not [each for each in orders(world, since) if isinstance(each, TerminateAttempt) and each.failed]


# -- the start --------------------------------------------------------------------------------------------------------


def test_the_first_host_starts_when_all_parts_are_open() -> None:
    world, job_id = three()
    assert world.orders() == [StartJob("b", job_id, 1), StartJob("c", job_id, 1)]
    world.part_started(job_id, "c")
    world.part_started(job_id, "c")
    assert len(world.orders()) == 2
    world.part_started(job_id, "b")
    assert world.orders()[2:] == [StartJob("a", job_id, 1)]
    world.started(job_id)
    assert len(world.orders()) == 3
    world.check_replay()


def test_a_job_that_has_not_begun_says_which_hosts_it_waits_for() -> None:
    world, job_id = three()
    assert world.job(job_id).view().awaited == ("b", "c")
    world.part_started(job_id, "c")
    assert world.job(job_id).view().awaited == ("b",)
    world.part_started(job_id, "b")
    assert world.job(job_id).view().awaited == ("a",), "its files are opened on the first host, last of all"
    world.started(job_id)
    assert world.job(job_id).view().awaited == ()
    world.ended(job_id)
    assert world.job(job_id).view().awaited == ()


def test_a_job_of_one_host_starts_as_ever() -> None:
    world = World(make_config(HOSTS))
    (job_id,) = world.submit(spec(slots=3, res_req="span[hosts=1]"))
    world.settle()
    assert world.orders() == [StartJob(world.job(job_id).allocation.first_host, job_id, 1)]  # type: ignore[union-attr]
    world.started(job_id)
    world.ended(job_id)
    assert not {"JobPartStarted", "JobPartEnded"} & {*world.kinds(job_id)}
    assert world.kinds(job_id)[-1] == "JobFinished" and world.job(job_id).post_processed
    assert not world.orders()[1:]


def test_a_part_that_cannot_be_opened_puts_the_job_back_and_ends_the_others() -> None:
    world, job_id = three()
    world.part_started(job_id, "c")
    since = len(world.instructions)
    world.part_ended(job_id, "b", exit_code=None, started=False, problem="GPU 0 is not clean")
    job = world.job(job_id)
    assert job.state == "PEND" and job.avoid_host == "b" and sentence(job.start_problem) == "host b: GPU 0 is not clean"
    assert orders(world, since) == ends(job_id, "c")  # a was never told to start
    assert holding(world) == "c"
    world.part_ended(job_id, "c")
    assert holding(world) == ""
    assert not [event for event in world.events if isinstance(event, StaleResultRecorded)]
    world.check_replay()


@pytest.mark.parametrize("ends", [True, False])
def test_what_fails_before_the_job_on_another_host_is_counted_too(ends: bool) -> None:
    world, job_id = three()
    world.reconfigure(world.with_params(max_preexec_retry=2, preexec_exit=ends))

    def fails(attempt: int) -> None:
        failed = {"exit_code": None, "started": False, "pre_failed": True}
        world.part_ended(job_id, "b", attempt, problem="the command failed", **failed)
        world.part_ended(job_id, "c", attempt)

    fails(1)
    assert world.state(job_id) == "PEND"
    world.wait(100.0)
    world.settle()
    fails(2)
    assert world.state(job_id) == ("EXIT" if ends else "PSUSP")
    assert holding(world) == ""
    if ends:
        assert world.kinds(job_id)[-1] == "JobPostProcessed"
    world.check_replay()


def test_exit_code_99_on_another_host_ends_the_job() -> None:
    world, job_id = three()
    world.part_started(job_id, "c")
    since = len(world.instructions)
    world.part_ended(job_id, "b", exit_code=99, started=False, problem="the command failed")
    result = world.job(job_id).result
    assert world.state(job_id) == "EXIT" and result is not None and result.exit_code == 99
    assert orders(world, since) == ends(job_id, "c") and holding(world) == "c"
    world.part_ended(job_id, "c")
    assert holding(world) == "" and world.kinds(job_id)[-1] == "JobPostProcessed"
    world.check_replay()


def test_a_part_that_opens_after_its_job_was_put_back_is_ended() -> None:
    world, job_id = three()
    world.part_ended(job_id, "b", exit_code=None, started=False, problem="fork failed")
    world.part_started(job_id, "c")
    assert world.state(job_id) == "PEND" and holding(world) == "c"
    world.wait(100.0)
    world.settle()  # the next attempt may share the host with what is left of the last one, but no GPU
    used = [gpu.uuid for part in world.job(job_id).allocation.hosts for gpu in part.gpus]  # type: ignore[union-attr]
    assert world.job(job_id).attempt == 2 and "GPU-c0" not in used
    world.part_ended(job_id, "c")
    assert (job_id, 1) not in world.engine.state.ledger.host("c").held
    world.check_replay()


def test_a_main_process_that_cannot_start_ends_the_parts() -> None:
    world, job_id = three()
    for host in "bc":
        world.part_started(job_id, host)
    since = len(world.instructions)
    world.ended(job_id, leaves_parts=True, exit_code=None, started=False, problem="fork failed")
    assert world.state(job_id) == "PEND" and orders(world, since) == ends(job_id, "b", "c")
    assert holding(world) == "bc"


def test_a_job_that_is_killed_before_its_parts_are_open_ends_at_once() -> None:
    world, job_id = three()
    world.part_started(job_id, "b")
    since = len(world.instructions)
    assert world.control("kill", job_id) == [""]
    assert world.state(job_id) == "EXIT" and ends(job_id, "b", "c") <= orders(world, since)
    result = world.job(job_id).result
    assert result is not None and not result.started and result.term_reason == "TERM_OWNER"
    assert holding(world) == "bc"
    world.part_ended(job_id, "b")
    world.do(AttemptEnded(job_id, 1, "c", AttemptResult(started=False), given_up=True))  # it had never arrived there
    assert holding(world) == "" and world.kinds(job_id)[-1] == "JobPostProcessed"
    world.check_replay()


@pytest.mark.parametrize(("number", "state"), [(15, "EXIT"), (10, "RUN")])
def test_signals_before_the_start_are_as_for_a_waiting_job(number: int, state: str) -> None:
    world, job_id = three()
    answer = world.control("signal", job_id, signal=number)
    assert world.state(job_id) == state and answer == ["" if state == "EXIT" else "Job has not started yet"]


def test_a_job_that_is_stopped_before_its_start_starts_stopped() -> None:
    world, job_id = three()
    world.control("stop", job_id)
    assert {SuspendAttempt(host, job_id, 1) for host in "bc"} <= orders(world)
    since = len(world.instructions)
    for host in "bc":
        world.part_started(job_id, host)
    assert world.orders(since) == [StartJob("a", job_id, 1), SuspendAttempt("a", job_id, 1)]


# -- signals ----------------------------------------------------------------------------------------------------------


def test_what_is_done_to_the_job_is_done_on_each_host() -> None:
    world, job_id = running()
    since = len(world.instructions)
    world.control("stop", job_id)
    world.control("resume", job_id)
    world.control("signal", job_id, signal=10)
    world.control("kill", job_id)
    assert world.orders(since) == [
        *(SuspendAttempt(host, job_id, 1) for host in HOSTS),
        *(ResumeAttempt(host, job_id, 1) for host in HOSTS),
        *(SignalAttempt(host, job_id, 1, 10, "TERM_OWNER") for host in HOSTS),
        *(TerminateAttempt(host, job_id, 1, "TERM_OWNER") for host in HOSTS),
    ]
    world.part_ended(job_id, "b")  # nothing ran there
    assert world.state(job_id) == "RUN" and holding(world) == "abc"
    world.ended(job_id, leaves_parts=True, exit_code=None, signal=2)
    assert world.state(job_id) == "EXIT" and holding(world) == "c"
    world.part_ended(job_id, "c")
    assert holding(world) == ""
    world.check_replay()


# -- the end ----------------------------------------------------------------------------------------------------------


def test_parts_end_with_the_job_and_give_back_what_they_hold_when_they_have_ended() -> None:
    world, job_id = running()
    since = len(world.instructions)
    world.ended(job_id, leaves_parts=True)
    assert world.state(job_id) == "DONE" and orders(world, since) == ends(job_id, "b", "c")
    assert holding(world) == "bc"
    assert world.job(job_id).view().leaving == ("b", "c")
    assert "JobPostProcessed" not in world.kinds(job_id)
    world.part_ended(job_id, "b")
    world.part_ended(job_id, "b")  # told twice
    assert holding(world) == "c" and "JobPostProcessed" not in world.kinds(job_id)
    world.part_ended(job_id, "c")
    assert holding(world) == "" and world.kinds(job_id)[-1] == "JobPostProcessed"
    assert world.job(job_id).view().leaving == ()
    world.check_replay()


@pytest.mark.parametrize("is_over", [False, True])
def test_the_end_of_a_part_is_one_also_where_its_host_has_forgotten_that_it_is(is_over: bool) -> None:
    """Its spool folder was removed and its supervisor killed: a task alone was left to follow."""
    world, job_id = running()
    if is_over:
        world.ended(job_id, leaves_parts=True)
    world.do(AttemptEnded(job_id, 1, "b", AttemptResult(ended_at=world.now)))
    job = world.job(job_id)
    assert job.ended_parts == ("b",) and "b" not in job.view().leaving
    assert not [event for event in world.events if isinstance(event, StaleResultRecorded)]
    world.part_ended(job_id, "c")
    if not is_over:
        assert any("Run 1 lost its part on host b" in each for each in tuple(map(sentence, job.notes)))
        world.ended(job_id, exit_code=None)
    assert world.kinds(job_id)[-1] == ("JobPostProcessed" if is_over else "JobFinished")
    assert world.job(job_id).post_processed and holding(world) == ""


def test_no_gpu_is_given_out_twice_while_a_part_ends() -> None:
    world, job_id = running()
    world.ended(job_id, leaves_parts=True)
    (greedy,) = world.submit(gpu_spec(4, hosts=("b",)))
    world.settle()
    assert world.state(greedy) == "PEND"
    world.part_ended(job_id, "b")
    world.settle()
    assert world.state(greedy) == "RUN"


def test_a_job_that_is_requeued_leaves_its_parts_until_they_have_ended() -> None:
    world, job_id = running()
    world.order("requeue", job_id)
    world.ended(job_id, leaves_parts=True, exit_code=None, signal=15)
    assert world.state(job_id) == "PEND" and holding(world) == "bc"
    world.settle()
    assert world.job(job_id).attempt == 2
    world.part_ended(job_id, "b", attempt=1)
    world.part_ended(job_id, "c", attempt=1)
    assert world.state(job_id) == "RUN" and not world.job(job_id).ended_parts
    world.started(job_id)
    world.check_replay()


def test_a_finished_job_that_is_requeued_or_forgotten_is_awaited_nowhere() -> None:
    world, job_id = running()
    world.ended(job_id, leaves_parts=True)
    assert world.engine.state.leaving.pairs() == {("b", job_id), ("c", job_id)}
    world.order("requeue", job_id, states=("DONE",))
    assert not world.engine.state.leaving.pairs()
    world, job_id = running()
    world.ended(job_id, leaves_parts=True)
    world.wait(10_000.0)
    assert job_id not in world.engine.state.jobs and not world.engine.state.leaving.pairs()
    assert holding(world) == "bc"
    world.part_ended(job_id, "b")
    assert holding(world) == "c"
    assert not [event for event in world.events if isinstance(event, StaleResultRecorded)]
    world.check_replay()


# -- use --------------------------------------------------------------------------------------------------------------


def test_what_is_used_on_all_hosts_counts() -> None:
    world, job_id = running()
    for host, cpu_s in (("b", 5.0), ("c", 7.0)):
        world.report(host, usage={(job_id, 1): Usage(cpu_s=cpu_s, max_mem_mib=100.0)})
    world.ended(job_id, leaves_parts=True, usage=Usage(cpu_s=1.0, max_mem_mib=10.0, pgid=9))
    (finished,) = [event for event in world.events if isinstance(event, JobFinished)]
    assert finished.result.usage == Usage(cpu_s=13.0, max_mem_mib=210.0, pgid=9)
    assert finished.parts_cpu_s == {"b": 5.0, "c": 7.0}
    world.part_ended(job_id, "b", usage=Usage(cpu_s=6.5))
    world.part_ended(job_id, "c", usage=Usage(cpu_s=6.9))  # less than it has told before
    result = world.job(job_id).result
    assert result is not None and result.usage.cpu_s == 14.5
    assert [use.cpu_s for use in world.engine.state.accounts.shares("normal", world.now).values()] == [14.5]
    world.check_replay()


def used_on(host: str, percent: float) -> GpuUsage:
    return GpuUsage(host=host, uuid=f"GPU-{host}", samples=1, sm_mean=percent)


def test_what_was_made_of_the_gpus_of_all_hosts() -> None:
    """A part that ends after the job has the last word about its own GPUs."""
    world, job_id = running()
    for host in ("b", "c"):
        world.report(host, usage={(job_id, 1): Usage(gpus=(used_on(host, 10.0),))})
    world.ended(job_id, leaves_parts=True, usage=Usage(gpus=(used_on("a", 50.0),)))
    world.part_ended(job_id, "b", usage=Usage(gpus=(used_on("b", 20.0),)))
    world.part_ended(job_id, "c", usage=Usage())  # it has forgotten what it has told before
    result = world.job(job_id).result
    assert result is not None
    assert set(result.usage.gpus) == {used_on("a", 50.0), used_on("b", 20.0), used_on("c", 10.0)}
    world.check_replay()


def test_what_a_part_has_used_that_ended_first_counts() -> None:
    world, job_id = running()
    world.control("kill", job_id)
    world.part_ended(job_id, "b", usage=Usage(cpu_s=3.0))
    world.restart()
    world.connect("a", held=[(job_id, 1)])
    world.ended(job_id, exit_code=None, signal=2, usage=Usage(cpu_s=1.0))
    result = world.job(job_id).result
    assert result is not None and result.usage.cpu_s == 4.0
    world.check_replay()


def test_attempts_have_parts_of_their_own() -> None:
    world, job_id = running()
    world.order("requeue", job_id)
    world.ended(job_id, exit_code=None, signal=15)
    assert [type(event) for event in world.events].count(JobRequeued) == 1
    world.settle()
    assert [type(event) for event in world.events].count(JobDispatched) == 2
    assert not world.job(job_id).open_parts
    world.part_ended(job_id, "b", attempt=1)  # late news of the first
    assert world.state(job_id) == "RUN" and not world.job(job_id).ended_parts


# -- events that do not fit -------------------------------------------------------------------------------------------


def opened(host: str = "b", attempt: int = 1) -> JobPartStarted:
    return JobPartStarted(at=1.0, job_id=1, attempt=attempt, host=host)


def over(host: str = "b", attempt: int = 1) -> JobPartEnded:
    return JobPartEnded(at=1.0, job_id=1, attempt=attempt, host=host)


@pytest.mark.parametrize(
    ("event", "fits"),
    [
        (opened("c"), True), (opened("b"), False), (opened("a"), False), (opened("x"), False), (opened("c", 2), False),
        (over("b"), True), (over("c"), True), (over("a"), False), (over("x"), False), (over("b", 2), False),
    ],
)  # fmt: skip
def test_an_event_about_a_part_fits_its_attempt_or_changes_nothing(event: JobPartStarted, fits: bool) -> None:
    world, job_id = three()
    assert job_id == 1
    world.part_started(job_id, "b")
    state = world.engine.state
    before = state.dump()
    if fits:
        state.apply(event)
        before = state.dump()
    with pytest.raises(IllegalEvent):
        state.apply(event)
    assert state.dump() == before


@pytest.mark.parametrize("event", [opened(), over()])
def test_a_pending_job_has_no_parts(event: JobPartStarted) -> None:
    world = World(make_config(HOSTS))
    world.submit(spec(slots=3, hold=True))
    with pytest.raises(IllegalEvent):
        world.engine.state.apply(event)


@pytest.mark.parametrize(("front_end", "expected"), [(SLURM, ["n1", "n2", "n10"]), ("", ["n1", "n10", "n2"])])
def test_slurms_jobs_have_their_hosts_in_order_of_names(front_end: str, expected: list[str]) -> None:
    """The first node of SLURM_JOB_NODELIST is where the script runs. Others keep the order of the choice."""
    world = World(make_config(hosts=("n2", "n10", "n1")))
    world.submit(spec(slots=3, res_req="span[ptile=1]", front_end=front_end, hosts=("n10", "n2", "n1")))
    world.settle()
    allocation = world.job(1).allocation
    assert allocation is not None and [part.host for part in allocation.hosts] == expected
    world.check_replay()
