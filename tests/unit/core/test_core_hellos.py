"""Hosts that come, go and come back: what agents say at a hello, attempts that nobody counts on, silence."""

from __future__ import annotations

import msgspec
import pytest
from core_world import World, gpu_spec, gpus, load, make_config, spec, total

from gsched.base.coded_text import sentence
from gsched.base.errors import NotFound
from gsched.core.command import AttemptEnded, AttemptStarted, HeldAttempt, HostDisconnected, HostHello, HostReported
from gsched.core.instruction import (
    ConfigureAgent,
    ForgetAttempts,
    Instruction,
    ResumeAttempt,
    SignalAttempt,
    StartJob,
    SuspendAttempt,
    TerminateAttempt,
)
from gsched.model.event import JobFinished, JobRequeued, StaleResultRecorded
from gsched.model.jobs.job import AttemptResult
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation


def stray_part(*indices: int, host: str = "a") -> HostAllocation:
    held = tuple(HeldGpu(uuid=f"GPU-{host}{i}", index=i, claim="ngpus_excl_p") for i in indices)
    return HostAllocation(host=host, slots=1, gpus=held)


# -- hello ------------------------------------------------------------------------------------------------------------


def test_nothing_starts_before_hello_and_load() -> None:
    world = World(connect=False)
    (job_id,) = world.submit()
    world.settle()
    assert world.reasons(job_id) == ("Unable to reach slave batch server: 1 host",)
    world.hello()
    world.settle()
    assert world.reasons(job_id) == ("Load information unavailable: 1 host",)
    world.report(load=load())
    world.settle()
    assert world.state(job_id) == "RUN"


def test_a_host_that_is_not_configured_is_refused() -> None:
    world = World()
    with pytest.raises(NotFound, match=r"host z is not in the Host section of lsf\.cluster\.test"):
        world.hello("z")


def test_jobs_on_a_host_that_was_taken_out_stay_its_own_over_a_restart() -> None:
    world = World(make_config("ab"))
    (job_id,) = world.run(spec(hosts=("b",), rerunnable=True))
    world.reconfigure(make_config("a", digest="d2"))
    world.restart()
    world.connect("a")
    world.hello("b", held=[(job_id, 1)])
    world.wait(3600.0)
    assert world.state(job_id) == "RUN" and world.job(job_id).attempt == 1
    world.ended(job_id, host="b")
    assert world.state(job_id) == "DONE"
    world.disconnect("b")
    with pytest.raises(NotFound, match="host b is not in the Host section"):
        world.hello("b")


def test_what_an_earlier_session_said_is_unknown_after_hello() -> None:
    world = World()
    world.disconnect()
    assert world.engine.state.ledger.host("a").counter("ngpus") is None
    world.hello()
    seen = world.engine.observations.of("a")
    assert (seen.load, seen.gpus) == (None, None)
    world.report(load=load())
    assert world.engine.state.ledger.host("a").counter("ngpus") is None
    world.report(gpus=gpus(2))
    assert total(world) == (2.0, 0.0)


def test_reports_and_partings_of_an_older_session_are_passed_over() -> None:
    world = World()
    old = world.session
    world.connect(devices=gpus(2))
    world.do(HostReported("a", old, gpus=gpus(4)))
    world.do(HostDisconnected("a", old))
    assert world.engine.observations.of("a").connected and total(world) == (2.0, 0.0)
    world.do(HostReported("nowhere", 0, load=load()))


def orders_after_reconnect(world: World, job_id: int, *, held: bool) -> list[Instruction]:
    world.disconnect()
    since = len(world.instructions)
    world.connect(held=[(job_id, world.job(job_id).attempt)] if held else [])
    assert ConfigureAgent("a") in world.instructions[since:]
    return world.orders(since)


def test_an_order_that_never_arrived_is_sent_again_as_the_same_attempt() -> None:
    world = World()
    (job_id,) = world.submit(gpu_spec())
    world.settle()
    assert orders_after_reconnect(world, job_id, held=False) == [StartJob("a", job_id, 1)]
    assert (world.state(job_id), world.job(job_id).attempt) == ("RUN", 1)
    assert world.kinds(job_id) == ["JobSubmitted", "JobDispatched"]


def test_an_order_that_never_arrived_is_sent_again_after_the_host_was_lost() -> None:
    world = World()
    (job_id,) = world.submit()
    world.settle()
    world.disconnect()
    world.wait(30)
    assert world.state(job_id) == "UNKWN"
    since = len(world.instructions)
    world.connect()
    assert world.orders(since) == [StartJob("a", job_id, 1)]
    assert world.state(job_id) == "RUN"
    world.started(job_id)
    world.ended(job_id)
    assert world.state(job_id) == "DONE"


def test_an_order_that_never_arrived_of_a_suspended_job_starts_suspended() -> None:
    world = World()
    (job_id,) = world.submit()
    world.settle()
    world.control("stop", job_id)
    expected = [StartJob("a", job_id, 1), SuspendAttempt("a", job_id, 1)]
    assert orders_after_reconnect(world, job_id, held=False) == expected
    assert orders_after_reconnect(world, job_id, held=True) == expected


def test_a_kill_before_the_order_arrived_ends_the_job() -> None:
    world = World()
    (job_id,) = world.submit(gpu_spec())
    world.settle()
    world.disconnect()
    world.control("kill", job_id)
    assert world.state(job_id) == "RUN"
    assert orders_after_reconnect(world, job_id, held=False) == []
    job = world.job(job_id)
    assert job.result == AttemptResult(ended_at=world.now, started=False, term_reason="TERM_OWNER")
    assert not tuple(map(sentence, job.notes)) and total(world) == (4.0, 0.0)


def test_orders_that_may_have_been_missed_are_repeated() -> None:
    world = World()
    (job_id,) = world.run()
    assert orders_after_reconnect(world, job_id, held=True) == [ResumeAttempt("a", job_id, 1)]
    world.control("stop", job_id)
    assert orders_after_reconnect(world, job_id, held=True) == [SuspendAttempt("a", job_id, 1)]
    world.control("kill", job_id)
    assert orders_after_reconnect(world, job_id, held=True) == [TerminateAttempt("a", job_id, 1, "TERM_OWNER")]
    assert world.state(job_id) == "USUSP"


def test_hello_tells_of_starts_and_ends_that_were_missed() -> None:
    world = World()
    first, second = world.submit(gpu_spec(2), gpu_spec(2))
    world.settle()
    world.disconnect()
    world.connect(
        held=[(second, 1)],
        started=(AttemptStarted(second, 1, "a", 7, world.now, boot_id="boot1"),),
        ended=(AttemptEnded(first, 1, "a", AttemptResult(exit_code=3, ended_at=world.now)),),
    )
    assert (world.state(first), world.state(second), world.job(second).pid) == ("EXIT", "RUN", 7)
    assert ForgetAttempts("a", ((first, 1),)) in world.instructions
    assert total(world) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("boot_id", "problem"),
    [("boot1", "the agent's journal no longer has the attempt"), ("boot2", "the host restarted while the job ran")],
)
def test_an_attempt_that_is_gone_ends_with_the_reason(boot_id: str, problem: str) -> None:
    world = World()
    (job_id,) = world.run(gpu_spec())
    world.disconnect()
    world.connect(boot_id=boot_id)
    job = world.job(job_id)
    assert job.result is not None and sentence(job.result.problem) == problem
    assert (job.state, job.result.exit_code) == ("EXIT", None)
    assert [*tuple(map(sentence, job.notes))] == [problem] and total(world) == (4.0, 0.0)


@pytest.mark.parametrize(("rerunnable", "state"), [(True, "PEND"), (False, "EXIT")])
def test_a_job_that_its_host_took_along_runs_again_if_it_may(rerunnable: bool, state: str) -> None:
    world = World()
    (job_id,) = world.run(msgspec.structs.replace(gpu_spec(), rerunnable=rerunnable))
    world.disconnect()
    world.connect(boot_id="boot2", held=[(job_id, 1)])
    world.ended(job_id, exit_code=None, host_down=True, problem="the host was shut down while the job ran")
    assert world.state(job_id) == state and total(world) == (4.0, 0.0)
    again = [sentence(event.reason) for event in world.events if isinstance(event, JobRequeued)]
    assert again == (["it is rerunnable, and the host was shut down while the job ran"] if rerunnable else [])
    world.check_replay()


def test_a_killed_job_that_its_host_took_along_stays_killed() -> None:
    world = World()
    (job_id,) = world.run(msgspec.structs.replace(gpu_spec(), rerunnable=True))
    world.control("kill", job_id)
    world.ended(job_id, exit_code=None, host_down=True, problem="the host was shut down while the job ran")
    assert world.state(job_id) == "EXIT"


# -- strays -----------------------------------------------------------------------------------------------------------


def test_a_stray_keeps_its_gpus_and_is_terminated() -> None:
    world = World()
    (old,) = world.run(gpu_spec(2))
    world.ended(old)
    world.disconnect()
    since = len(world.instructions)
    world.session += 1
    held = (HeldAttempt(old, 1, stray_part(0, 1)),)
    world.do(HostHello("a", world.session, "boot1", "1", held))
    world.report(load=load(), gpus=gpus(4))
    assert world.orders(since) == [TerminateAttempt("a", old, 1, given_up=True)]
    assert total(world) == (2.0, 2.0)
    first, second = world.submit(gpu_spec(2), gpu_spec(2))
    world.settle()
    assert world.held(first) == [2, 3] and world.state(second) == "PEND"
    world.ended(old, signal=15, exit_code=None)
    world.settle()
    assert world.held(second) == [0, 1]
    world.check_replay()


def test_a_stray_that_the_next_hello_does_not_name_is_gone() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec())
    world.ended(job_id)
    world.disconnect()
    world.connect(held=[(job_id, 1)])
    assert total(world) == (3.0, 1.0)
    world.disconnect()
    world.connect()
    assert total(world) == (4.0, 0.0)


def test_an_attempt_with_a_strays_number_waits_until_the_stray_is_over() -> None:
    world = World(connect=False)
    world.session += 1
    (job_id,) = world.submit(gpu_spec())
    # Of another store, so that the number says nothing.
    world.do(HostHello("a", world.session, "boot1", "1", (HeldAttempt(1, 1, stray_part(0), foreign=True),)))
    world.report(load=load(), gpus=gpus(4))
    world.settle()
    assert world.state(job_id) == "PEND"
    assert world.reasons(job_id) == ("The place found for it was gone (attempt 1 of job 1 is still on a)",)
    assert "1 placements did not fit" in world.engine.cycles.summary
    world.ended(1, attempt=1, signal=15, exit_code=None)
    world.settle()
    assert world.state(job_id) == "RUN"


def test_what_a_quarantined_job_still_runs_is_reserved_and_not_terminated() -> None:
    world = World()
    kept, gone = world.run(gpu_spec(), gpu_spec())
    world.restart()
    for job_id in (kept, gone):
        world.engine.state.set_aside(job_id, "a bad record")
    assert world.control("kill", kept) == ["the job is set aside: a bad record"]
    (waiting,) = world.submit(gpu_spec(4))
    world.settle()
    since = len(world.instructions)
    world.connect(held=[(kept, 1)])
    world.settle()
    assert world.orders(since) == [] and world.state(waiting) == "PEND"
    assert total(world) == (3.0, 1.0)  # its agent no longer knows the other one
    before = len(world.events)
    world.ended(kept)
    assert world.instructions[-1] == ForgetAttempts("a", ((kept, 1),)) and len(world.events) == before
    world.settle()
    assert world.state(waiting) == "RUN"


# -- silence ----------------------------------------------------------------------------------------------------------


def test_a_lost_hosts_jobs_are_unknown_until_it_is_back() -> None:
    world = World(make_config(("a", "b")))
    running, stopped = world.run(gpu_spec(hosts=("a",)), gpu_spec(hosts=("a",)))
    (elsewhere,) = world.run(gpu_spec(hosts=("b",)))
    world.control("stop", stopped)
    world.disconnect("a")
    deadline = world.engine.next_deadline(world.now)
    assert deadline <= world.now + 30
    world.wait(29.9)
    assert world.state(running) == "RUN"
    world.wait(0.1)
    assert [world.state(each) for each in (running, stopped, elsewhere)] == ["UNKWN", "UNKWN", "RUN"]
    assert world.wait(100).events == []  # once
    assert len(world.engine.state.ledger.host("a").held) == 2  # nothing is given away
    world.connect("a", held=[(running, 1), (stopped, 1)])
    assert [world.state(each) for each in (running, stopped)] == ["RUN", "USUSP"]
    world.check_replay()


def test_after_a_restart_holdings_stay_until_hello() -> None:
    world = World()
    ids = world.run(gpu_spec(3), gpu_spec(1))
    world.restart()
    assert world.engine.audit() == []
    (waiting,) = world.submit(gpu_spec())
    world.settle()
    assert world.state(waiting) == "PEND"
    world.connect(held=[(job_id, 1) for job_id in ids])
    world.settle()
    assert total(world) == (0.0, 4.0) and world.state(waiting) == "PEND"
    world.wait(0)
    world.ended(ids[0])
    world.settle()
    assert world.state(waiting) == "RUN"


def test_after_a_restart_a_host_that_never_comes_is_lost() -> None:
    world = World()
    (job_id,) = world.run()
    world.restart()
    world.wait(30)
    assert world.state(job_id) == "UNKWN"


def test_after_a_restart_a_host_has_time_while_others_still_come_back() -> None:
    """A fleet of thousands takes longer than GSCHED_HOST_LOST to say hello."""
    hosts = ("a", "b", *(f"c{number}" for number in range(20)))
    world = World(make_config(hosts))
    (job_id,) = world.run(gpu_spec(hosts=("a",)))
    world.restart()
    world.wait(25)
    world.connect("b")
    world.wait(29)
    assert world.state(job_id) == "RUN", "b has come 29 s ago"
    world.disconnect("b")
    world.connect("b")
    assert world.engine.next_deadline(world.now) <= world.now + 1
    world.wait(1)
    assert world.state(job_id) == "UNKWN", "that b has come again says nothing of others"


def test_after_a_restart_a_host_is_not_waited_for_for_ever() -> None:
    hosts = ("a", *(f"c{number}" for number in range(40)))
    world = World(make_config(hosts))
    (job_id,) = world.run(gpu_spec(hosts=("a",)))
    world.restart()
    for number in range(10):
        assert world.state(job_id) == "RUN"
        world.wait(29.9)
        world.connect(f"c{number}")
    world.wait(1.1)
    assert world.state(job_id) == "UNKWN"


def test_a_result_may_come_while_the_job_is_unknown() -> None:
    world = World()
    (job_id,) = world.run()
    world.disconnect()
    world.wait(30)
    world.hello(ended=(AttemptEnded(job_id, 1, "a", AttemptResult(exit_code=0, ended_at=world.now - 20)),))
    assert (world.state(job_id), world.job(job_id).finished_at) == ("DONE", world.now - 20)
    assert any(isinstance(event, JobFinished) for event in world.events)


def test_killing_an_unknown_job_makes_a_zombie_that_ends_when_the_host_is_back() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec())
    world.disconnect()
    world.wait(30)
    assert world.control("kill", job_id) == [""]
    assert world.state(job_id) == "ZOMBI"
    world.restart()
    world.wait(30)
    assert world.state(job_id) == "ZOMBI"
    since = len(world.instructions)
    world.connect(held=[(job_id, 1)])
    assert world.orders(since) == [TerminateAttempt("a", job_id, 1, "TERM_OWNER")]
    assert world.state(job_id) == "ZOMBI"
    world.ended(job_id, exit_code=None, signal=15)
    job = world.job(job_id)
    assert job.state == "EXIT" and job.result is not None and job.result.term_reason == "TERM_OWNER"


def test_killing_by_force_removes_a_job_whose_host_does_not_answer() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec(4))
    world.disconnect()
    world.wait(30)
    assert world.control("signal", job_id, signal=9) == [""]
    job = world.job(job_id)
    assert job.state == "EXIT" and job.result is not None
    assert job.result.term_reason == "TERM_FORCE_OWNER"
    assert "removed while a did not answer" in sentence(job.result.problem)
    assert isinstance(world.orders()[-1], SignalAttempt)
    assert len(world.engine.state.ledger.host("a").held) == 1  # it may still run there
    (waiting,) = world.submit(gpu_spec())
    world.connect(held=[(job_id, 1)])
    world.settle()
    assert world.orders()[-1] == TerminateAttempt("a", job_id, 1, given_up=True)
    assert world.state(waiting) == "PEND" and total(world) == (0.0, 4.0)
    world.ended(job_id, exit_code=None, signal=9)
    world.settle()
    assert world.state(waiting) == "RUN"
    assert sum(isinstance(event, StaleResultRecorded) for event in world.events) == 1
    world.check_replay()
