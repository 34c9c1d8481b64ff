"""Requeueing: by people, by exit codes, because a host is lost; what becomes of the old attempt."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, first_words, gpu_spec, load, make_config, spec

from gsched.base.coded_text import sentence
from gsched.base.ids import element_id
from gsched.core.instruction import TerminateAttempt
from gsched.model.event import JobNoted, JobRequeued, StaleResultRecorded
from gsched.model.queues.queue import Queue

# -- by people --------------------------------------------------------------------------------------------------------


def test_a_running_job_ends_and_waits_again() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec(2))
    assert world.order("requeue", job_id) == [""]
    assert world.orders()[-1] == TerminateAttempt("a", job_id, 1, "TERM_REQUEUE_OWNER")
    assert world.state(job_id) == "RUN"  # until its agent says that it is over
    world.order("requeue", job_id)  # once is enough
    assert world.kinds(job_id).count("JobRequeueRequested") == 1
    world.ended(job_id, exit_code=None, signal=15)
    job = world.job(job_id)
    assert (job.state, job.allocation, job.requeues, job.result) == ("PEND", None, 1, None)
    assert world.engine.state.ledger.host("a").held == {}
    world.settle()
    assert (world.state(job_id), world.job(job_id).attempt) == ("RUN", 2)
    world.started(job_id)
    world.ended(job_id, 2)
    assert world.state(job_id) == "DONE"
    world.check_replay()


def test_an_interactive_job_does_not_run_again_without_its_terminal() -> None:
    world = World()
    (job_id,) = world.run(spec(interactive="Is"))
    world.ended(job_id, exit_code=3)
    assert world.order("requeue", job_id, states=("EXIT",)) == ["Interactive job cannot be rerunnable"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_finished_job_runs_again(code: int) -> None:
    world = World()
    (job_id,) = world.run(spec())
    world.ended(job_id, exit_code=code)
    assert world.order("requeue", job_id) == ["Job has already finished"]  # only running ones, unless it is said
    wrong = "EXIT" if code == 0 else "DONE"
    assert world.order("requeue", job_id, states=(wrong,)) == ["Job is not in a state that was asked for"]
    assert world.order("requeue", job_id, states=("DONE", "EXIT")) == [""]
    assert world.state(job_id) == "PEND"
    world.wait(5000)  # its old end does not count any more
    world.settle()
    assert (world.state(job_id), world.job(job_id).attempt) == ("RUN", 2)
    world.check_replay()


@pytest.mark.parametrize("running", [True, False])
def test_a_requeued_job_may_be_held(running: bool) -> None:
    world = World()
    (job_id,) = world.run(spec())
    if running:
        world.order("requeue", job_id, hold=True)
        world.ended(job_id, exit_code=None, signal=15)
    else:
        world.ended(job_id)
        world.order("requeue", job_id, hold=True, states=("DONE",))
    world.settle()
    assert world.state(job_id) == "PSUSP"
    assert world.reasons(job_id) == ("The job was suspended by the user while pending",)
    world.control("resume", job_id)
    world.settle()
    assert world.state(job_id) == "RUN"
    world.check_replay()


def test_what_has_not_started_is_not_requeued() -> None:
    world = World()
    world.run(spec(slots=16))
    (job_id,), (array,) = world.submit(spec()), world.submit(spec(name="a", indices="1-3"))
    text = "Job has not started yet"
    assert world.order("requeue", job_id, array, element_id(array, 2)) == [text, text, text]
    assert first_words(world.order("requeue", 1, user="bob")) == ["User permission denied"]


def test_of_an_array_the_elements_in_the_state_asked_for_run_again() -> None:
    world = World()
    (array,) = world.submit(spec(name="a", indices="1-3"))
    world.settle()
    for index, code in ((1, 0), (2, 5), (3, None)):
        world.started(element_id(array, index))
        if code is not None:
            world.ended(element_id(array, index), exit_code=code)
    assert world.order("requeue", array, states=("EXIT",)) == [""]
    states = [world.state(element_id(array, index)) for index in (1, 2, 3)]
    assert states == ["DONE", "PEND", "RUN"]
    world.settle()
    world.ended(element_id(array, 2), 2)
    world.ended(element_id(array, 3))
    assert world.engine.state.arrays[array].is_over()
    assert world.order("requeue", array, states=("DONE",)) == [""]
    assert world.engine.state.arrays[array].left == 3
    world.check_replay()


def test_a_job_that_is_killed_is_not_requeued() -> None:
    world = World()
    (job_id,) = world.run(spec())
    world.order("requeue", job_id)
    world.control("kill", job_id)
    world.ended(job_id, exit_code=None, signal=15)
    assert world.state(job_id) == "EXIT"


# -- by exit codes ----------------------------------------------------------------------------------------------------

VALUES = Queue(name="normal", requeue_exit_values="30 31 EXCLUDE(20)", max_requeue=2)


def coded(codes: str = "", queue: Queue = VALUES, **result: Any) -> tuple[World, str]:
    """A world of two hosts whose job 1 has ended so, and its state."""
    world = World(make_config("ab", (queue,)))
    world.run(spec(requeue_exit_values=codes))
    host = world.job(1).allocation.first_host  # type: ignore[union-attr]
    world.ended(1, 1, host, **result)
    return world, world.state(1)


@pytest.mark.parametrize(
    ("codes", "result", "after"),
    [
        ("", {"exit_code": 30}, "PEND"),
        ("", {"exit_code": 20}, "PEND"),
        ("", {"exit_code": 3}, "EXIT"),
        ("", {"exit_code": 0}, "DONE"),
        ("", {"exit_code": None, "signal": 15}, "EXIT"),
        ("", {"exit_code": 30, "term_reason": "TERM_RUNLIMIT"}, "EXIT"),
        ("4", {"exit_code": 30}, "EXIT"),
        ("4", {"exit_code": 4}, "PEND"),
        ("all ~0", {"exit_code": 99}, "PEND"),
        ("all ~0", {"exit_code": 0}, "DONE"),
        ("all ~0 ~9", {"exit_code": 9}, "EXIT"),
        ("all", {"exit_code": 0}, "PEND"),
        ("all", {"exit_code": None, "signal": 9}, "EXIT"),
    ],
)
def test_exit_codes_that_requeue(codes: str, result: dict[str, Any], after: str) -> None:
    world, state = coded(codes, **result)
    assert state == after
    world.check_replay()


def test_a_code_may_forbid_the_host() -> None:
    world, _ = coded(exit_code=20)
    first = next(event for event in world.events if isinstance(event, JobRequeued)).exclude_host
    world.settle()
    assert world.job(1).allocation.first_host != first  # type: ignore[union-attr]
    world.hosts("close", *({"a", "b"} - {first}))
    world.started(1)
    world.ended(1, 2, ({"a", "b"} - {first}).pop(), exit_code=20)
    world.settle()
    assert world.state(1) == "PEND" and set(world.job(1).excluded_hosts) == {"a", "b"}
    assert world.reasons(1)


def test_a_requeued_job_is_served_before_its_equals() -> None:
    world = World(make_config(queues=(Queue(name="normal", requeue_exit_values="30"),)))
    ids = world.run(spec(slots=16), spec(slots=16), spec(slots=16))
    second = ids[1]
    world.ended(ids[0])
    world.settle()
    world.started(second)
    world.order("top", ids[2])
    world.ended(second, exit_code=30)
    world.settle()
    assert world.state(second) == "RUN" and world.state(ids[2]) == "PEND"


def test_requeues_by_exit_code_come_to_an_end() -> None:
    world, _ = coded(exit_code=30)
    world.order("requeue", 1)
    for attempt in (2, 3):
        world.settle()
        world.started(1)
        world.ended(1, attempt, world.job(1).allocation.first_host, exit_code=30)  # type: ignore[union-attr]
    assert world.state(1) == "EXIT"
    notes = [sentence(event.text) for event in world.events if isinstance(event, JobNoted)]
    assert notes[-1] == "It exited with 30 and is not requeued again: MAX_JOB_REQUEUE allows 2"


def test_requeues_by_people_do_not_count_as_such() -> None:
    world, _ = coded(exit_code=30)
    world.settle()
    world.started(1)
    world.order("requeue", 1)
    world.ended(1, 2, world.job(1).allocation.first_host, exit_code=None, signal=15)  # type: ignore[union-attr]
    world.settle()
    world.started(1)
    world.ended(1, 3, world.job(1).allocation.first_host, exit_code=30)  # type: ignore[union-attr]
    assert world.state(1) == "PEND" and world.job(1).requeues == 3


# -- lost hosts -------------------------------------------------------------------------------------------------------


def test_a_rerunnable_job_of_a_lost_host_runs_elsewhere_and_its_old_attempt_is_ended() -> None:
    world = World(make_config("ab"))
    (job_id,) = world.run(gpu_spec(4, rerunnable=True))
    first = world.job(job_id).allocation.first_host  # type: ignore[union-attr]
    other = "b" if first == "a" else "a"
    world.disconnect(first)
    world.wait(30)
    world.settle()
    assert (world.state(job_id), world.job(job_id).attempt) == ("RUN", 2)
    assert world.job(job_id).allocation.first_host == other  # type: ignore[union-attr]
    assert (job_id, 1) in world.engine.state.ledger.host(first).held  # it may still run there
    since = len(world.instructions)
    world.connect(first, held=[(job_id, 1)])
    assert TerminateAttempt(first, job_id, 1, given_up=True) in world.orders(since)
    (waiting,) = world.submit(gpu_spec(4))
    world.settle()
    assert world.state(waiting) == "PEND"  # the GPUs are reserved until the old attempt is over
    world.ended(job_id, 1, first, exit_code=0)
    assert isinstance(world.events[-1], StaleResultRecorded)
    assert world.state(job_id) == "RUN"
    world.settle()
    assert world.state(waiting) == "RUN"
    world.check_replay()


def test_a_lost_host_that_has_forgotten_the_attempt_frees_it() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec(4, rerunnable=True))
    world.disconnect()
    world.wait(30)
    assert world.state(job_id) == "PEND"
    world.connect(boot_id="boot2")
    world.settle()
    assert (world.state(job_id), world.job(job_id).attempt) == ("RUN", 2)


def test_a_job_that_was_to_be_held_is_held_though_its_host_is_lost() -> None:
    world = World()
    (job_id,) = world.run(spec(rerunnable=True))
    world.order("requeue", job_id, hold=True)
    world.disconnect()
    world.wait(30)
    assert world.state(job_id) == "PSUSP"


def test_a_job_that_the_system_had_suspended_goes_back_to_pending_when_it_cannot_be_started() -> None:
    world = World(make_config(queues=(Queue(name="normal", stop_cond="r1m>5"),)))
    (job_id,) = world.submit(spec())
    world.settle()
    world.report(load=load(r1m=9.0))
    assert world.state(job_id) == "SSUSP"
    world.not_started(job_id)
    assert world.state(job_id) == "PEND"
    world.check_replay()


def array_that_was_killed(count: int = 6) -> tuple[World, int]:
    """One host is full; the elements were killed while they waited."""
    world = World()
    world.run(spec(slots=16))
    (array_id,) = world.submit(spec(name="a", indices=f"1-{count}"))
    world.settle()
    return world, array_id


def test_elements_killed_before_they_started_can_be_requeued() -> None:
    world, array_id = array_that_was_killed()
    assert world.control("kill", array_id) == [""]
    assert world.order("requeue", array_id) == ["Job has already finished"]
    assert world.order("requeue", element_id(array_id, 2), states=("DONE",)) == ["Job has already finished"]
    assert first_words(world.order("requeue", element_id(array_id, 2), user="eve", states=("EXIT",))) == [
        "User permission denied"
    ]
    assert world.order("requeue", element_id(array_id, 2), states=("EXIT",)) == [""]
    array = world.engine.state.arrays[array_id]
    assert list(array.waiting()) == [2] and [end.indices for end in array.unstarted] == ["1,3,4-6"]
    told = len(world.events)
    assert world.order("requeue", array_id, states=("EXIT",)) == [""]
    assert len(world.events) == told + 1, "one record, however many elements there are"
    assert list(array.waiting()) == [1, 2, 3, 4, 5, 6] and array.left == 6 and not array.unstarted
    world.check_replay()
    world.ended(1)
    world.settle()
    assert [world.state(element_id(array_id, index)) for index in range(1, 7)] == ["RUN"] * 6
    world.check_replay()


def test_requeued_elements_are_held_when_that_is_asked_for_and_others_are_not() -> None:
    world, array_id = array_that_was_killed()
    array = world.engine.state.arrays[array_id]
    world.control("kill", array_id)
    assert world.order("requeue", element_id(array_id, 5), states=("EXIT",), hold=True) == [""]
    assert array.stopped_by == "ann"
    assert world.order("requeue", element_id(array_id, 3), states=("EXIT",)) == [""]
    assert world.state(element_id(array_id, 3)) == "PEND" and list(array.waiting()) == [5]
    assert world.control("resume", array_id) == [""]
    assert world.order("requeue", array_id, states=("EXIT",), hold=True) == [""]
    assert [world.state(element_id(array_id, index)) for index in (1, 2, 4, 6)] == ["PSUSP"] * 4
    world.check_replay()


# -- SUCCESS_EXIT_VALUES ----------------------------------------------------------------------------------------------


def test_an_agent_does_not_decide_that_a_job_is_done_by_its_exit_code() -> None:
    """What it counted for its report may be out of date; whoever was killed is not done in any case."""
    world = World(make_config(queues=(Queue(name="normal", success_exit_values="7"),)))
    (killed,) = world.run(spec())
    world.order("kill", killed)
    world.ended(killed, exit_code=7, counts_as_done=True)
    (other,) = world.run(spec())
    world.ended(other, exit_code=8, counts_as_done=True)
    (done,) = world.run(spec())
    world.ended(done, exit_code=7)
    assert [world.state(job_id) for job_id in (killed, other, done)] == ["EXIT", "EXIT", "DONE"]
    world.check_replay()
