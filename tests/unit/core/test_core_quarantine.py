"""Jobs, arrays and elements that are set aside leave nothing behind, and what is refused leaves all as it was."""

from __future__ import annotations

from copy import deepcopy

import msgspec
import pytest
from core_world import World, spec
from test_core_machine import PLACE

from gsched.base.ids import element_id
from gsched.core.audit import audit
from gsched.core.state.apply_events import IllegalEvent
from gsched.core.state.cluster_state import ClusterState, replay
from gsched.model.event import (
    AnyEvent,
    ArrayElementsFinished,
    JobDispatched,
    JobFinished,
    JobForgotten,
    JobReleased,
    JobRequeued,
    JobRequeueRequested,
    JobResumed,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from gsched.model.jobs.job import AttemptResult, JobSpec

ARRAY = JobSpec(command="run", user="ann", queue="normal", name="a", indices="1-3", array_limit=2, group="/g")
FIRST, SECOND, THIRD = (element_id(1, index) for index in (1, 2, 3))
KILLED = AttemptResult(started=False, ended_at=5.0, term_reason="TERM_OWNER")
HISTORY: tuple[AnyEvent, ...] = (
    JobSubmitted(at=1.0, job_id=1, spec=ARRAY, token="t"),
    JobDispatched(at=2.0, job_id=FIRST, attempt=1, allocation=PLACE, effective_req="r"),
    JobStarted(at=2.0, job_id=FIRST, attempt=1, pid=7),
    JobSuspended(at=3.0, job_id=SECOND, by="ann"),
)
REST: tuple[AnyEvent, ...] = (
    JobFinished(at=5.0, job_id=FIRST, attempt=1, result=AttemptResult(exit_code=0, ended_at=5.0)),
    JobFinished(at=5.0, job_id=SECOND, attempt=0, result=KILLED),
    ArrayElementsFinished(at=5.0, job_id=1, indices="3", result=KILLED),
    JobForgotten(at=9.0, job_id=1),
)


@pytest.mark.parametrize("upto", range(1, len(HISTORY) + 1))
@pytest.mark.parametrize("number", [FIRST, SECOND])
def test_an_element_is_set_aside_and_its_array_goes_on_to_its_end(number: int, upto: int) -> None:
    state = replay(HISTORY[:upto])
    state.set_aside(number, "a bad record")
    state.set_aside(number, "another")
    assert audit(state) == [] and state.quarantined == {number: "a bad record"}
    for event in (*HISTORY[upto:], *REST[:3]):
        state.apply(event)
        assert audit(state) == []
    assert state.arrays[1].is_over() and number not in state.jobs
    assert audit(ClusterState.load(state.dump())) == []
    state.apply(REST[3])
    assert not state.jobs and not state.arrays and not state.groups and audit(state) == []


@pytest.mark.parametrize("upto", range(1, len(HISTORY) + 1))
def test_an_array_is_set_aside_with_all_its_elements(upto: int) -> None:
    state = replay(HISTORY[:upto])
    state.set_aside(1, "a bad record")
    assert not state.jobs and not state.arrays and not state.groups and not state.pending
    tally = state.tally
    assert tally.pending_jobs == tally.array_jobs == tally.group_jobs == tally.queue_slots == {}
    for event in (*HISTORY, *REST):
        state.apply(event)
    assert audit(state) == [] and state.quarantined == {1: "a bad record"}


def test_a_job_set_aside_uses_no_share_any_more() -> None:
    state = replay(HISTORY)
    assert state.accounts.shares("normal", 3.0)
    state.set_aside(FIRST, "a bad record")
    assert all(use.slots == 0 and use.run_s == 0.0 for use in state.accounts.shares("normal", 50.0).values())


def test_whoever_depends_on_a_job_set_aside_waits() -> None:
    world = World()
    (first,) = world.run(spec())
    (second,) = world.submit(spec(dependency=f"ended({first})"))
    world.engine.state.set_aside(first, "a bad record")
    world.engine.state.changed_parents.add((first, first))
    world.wait(10)
    assert world.state(second) == "PEND"
    assert world.reasons(second) == ("Job dependency condition not satisfied (ended(1): job 1 is set aside)",)
    assert world.control("kill", first) == ["the job is set aside: a bad record"]


def contents(state: ClusterState) -> object:
    return deepcopy((state.jobs, state.arrays, state.groups, state.next_job_id))


ILLEGAL: tuple[AnyEvent, ...] = (
    JobDispatched(at=9.0, job_id=THIRD, attempt=2, allocation=PLACE, effective_req="r"),
    JobStarted(at=9.0, job_id=THIRD, attempt=0, pid=7),
    JobFinished(at=9.0, job_id=THIRD, attempt=1, result=KILLED),
    JobRequeued(at=9.0, job_id=THIRD, attempt=0, reason="x"),
    JobRequeueRequested(at=9.0, job_id=THIRD, by="ann"),
    JobResumed(at=9.0, job_id=THIRD, by="ann"),
    JobForgotten(at=9.0, job_id=THIRD),
    JobForgotten(at=9.0, job_id=1),
    JobReleased(at=9.0, job_id=FIRST),
    ArrayElementsFinished(at=9.0, job_id=1, indices="1,3", result=KILLED),
    JobSubmitted(at=9.0, job_id=1, spec=ARRAY),
)


@pytest.mark.parametrize("event", ILLEGAL, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("upto", range(1, len(HISTORY) + 1))
def test_an_event_of_an_element_that_is_refused_changes_nothing(event: AnyEvent, upto: int) -> None:
    state = replay(HISTORY[:upto])
    if upto == 1 and (event.job_id == FIRST or isinstance(event, ArrayElementsFinished)):  # type: ignore[union-attr]
        pytest.skip("it waits then")
    before = contents(state)
    with pytest.raises(IllegalEvent):
        state.apply(event)
    assert contents(state) == before and audit(state) == []


def test_an_element_may_be_taken_back_from_wherever_it_left() -> None:
    base = JobSubmitted(at=1.0, job_id=1, spec=msgspec.structs.replace(ARRAY, indices="2-8:2"))
    for order in ((2, 4, 6, 8), (8, 6, 4, 2), (4, 8, 2, 6)):
        state = replay([base])
        for index in order:
            before = contents(state)
            with pytest.raises(IllegalEvent):
                state.apply(JobStarted(at=9.0, job_id=element_id(1, index), attempt=1, pid=7))
            assert contents(state) == before and audit(state) == []
            state.apply(JobSuspended(at=9.0, job_id=element_id(1, index), by="ann"))
        assert state.arrays[1].count == 0 and audit(state) == []


def test_a_kill_reaches_the_fragments_of_a_large_array() -> None:
    world = World()
    (array,) = world.submit(spec(name="a", indices="1-13000"))
    odd = [element_id(array, index) for index in range(1, 13000) if index % 3 == 0 or index % 7 == 0]
    state = world.engine.state
    for member in odd:
        state.apply(JobSuspended(at=9.0, job_id=member, by="ann"))
    assert world.control("kill", array) == [""]
    assert state.arrays[array].count == 0 and audit(state) == []


@pytest.mark.parametrize("indices", ["", "1-2"])
def test_what_a_job_was_given_to_read_goes_with_it_unless_one_that_is_set_aside_reads_the_same(indices: str) -> None:
    world = World()
    world.submit(spec(spooled_input="same"), spec(spooled_input="same", indices=indices), spec(spooled_input="other"))
    world.engine.state.set_aside(2, "a bad record")
    world.control("kill", 1, 3)
    world.wait(3601)
    assert world.dropped == ["other"]
    inputs = ClusterState.load(world.engine.state.dump()).inputs
    assert inputs.is_read("same", {}) and not inputs.is_read("other", {})


def test_after_a_checkpoint_of_before_it_was_noted_what_jobs_set_aside_read_all_of_it_stays() -> None:
    world = World()
    world.submit(spec(spooled_input="other"), spec(spooled_input="same"))
    world.engine.state.set_aside(2, "a bad record")
    state = ClusterState.load(without_inputs_aside(world.engine.state))
    later = ClusterState.load(state.dump())
    assert state.inputs.is_read("same", {}) and later.inputs.is_read("same", {})
    later.set_aside(1, "a bad record")
    assert ClusterState.load(later.dump()).inputs.is_read("same", {})


def test_after_such_a_checkpoint_all_goes_as_ever_when_no_job_was_set_aside() -> None:
    state = ClusterState.load(without_inputs_aside(ClusterState()))
    assert not state.inputs.is_read("same", {}) and state.inputs.aside == set()


def without_inputs_aside(state: ClusterState) -> bytes:
    stored = msgspec.json.decode(state.dump())
    del stored["inputs_aside"]
    return msgspec.json.encode(stored)
