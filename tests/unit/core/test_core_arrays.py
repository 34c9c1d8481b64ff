"""Job arrays: one record until elements start; addressed as a whole, element by element, in ranges."""

from __future__ import annotations

import time

import pytest
from core_world import World, job_command, spec
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.core.command import KillJobs, StopJobs
from gsched.core.records.array import JobArray, indices_of
from gsched.model.event import JobEvent
from gsched.model.jobs.job import JobState
from gsched.model.views.view import JobFilter


def states(world: World, array: int) -> dict[str, int]:
    from gsched.core.pending.dependency_check import counts_of

    return counts_of(world.engine.state.arrays[array])


def test_elements_become_jobs_when_they_start() -> None:
    world = World()  # one host with 16 slots
    (array,) = world.submit(spec(name="sweep", indices="1-20:2,100", slots=4))
    assert world.engine.state.jobs == {} and states(world, array) == {"PEND": 11}
    world.settle()
    started = sorted(world.engine.state.jobs)
    assert started == [element_id(array, index) for index in (1, 3, 5, 7)]
    assert states(world, array) == {"RUN": 4, "PEND": 7}
    assert world.reasons(element_id(array, 9)) and world.reasons(array)
    world.check_replay()


def test_a_hundred_thousand_elements_are_one_record() -> None:
    world = World()
    (array,) = world.submit(spec(name="many", indices="1-100000", array_limit=50))
    assert sum(isinstance(event, JobEvent) for event in world.events) == 1 and not world.engine.state.jobs
    assert len(world.engine.state.dump()) < 20_000
    world.control("kill", array)
    assert states(world, array) == {"EXIT": 100_000}


def test_the_slot_limit_of_an_array_holds() -> None:
    world = World()
    (array,) = world.submit(spec(name="sweep", indices="1-9", array_limit=2))
    world.settle()
    assert states(world, array) == {"RUN": 2, "PEND": 7}
    assert world.reasons(element_id(array, 3))[0].startswith("The job array has reached its job slot limit")
    world.started(element_id(array, 1))
    world.ended(element_id(array, 1))
    world.settle()
    assert states(world, array) == {"DONE": 1, "RUN": 2, "PEND": 6}


def test_elements_and_arrays_are_killed_stopped_and_resumed() -> None:
    world = World()
    (array,) = world.submit(spec(name="sweep", indices="1-20", slots=8))
    world.settle()
    assert world.control("stop", element_id(array, 10)) == [""]
    assert world.state(element_id(array, 10)) == "PSUSP"
    assert world.control("kill", element_id(array, 11), element_id(array, 1)) == ["", ""]
    assert states(world, array) == {"RUN": 2, "PEND": 16, "PSUSP": 1, "EXIT": 1}
    assert world.control("stop", array) == [""]
    assert states(world, array) == {"USUSP": 2, "PSUSP": 17, "EXIT": 1}
    assert world.control("resume", element_id(array, 12)) == [""]
    assert states(world, array) == {"USUSP": 2, "PSUSP": 16, "PEND": 1, "EXIT": 1}
    assert world.control("resume", array) == [""]
    assert states(world, array) == {"RUN": 2, "PEND": 17, "EXIT": 1}
    assert world.control("kill", element_id(array, 99)) == ["No matching job found"]
    assert world.control("kill", array) == [""]
    assert states(world, array) == {"RUN": 2, "EXIT": 18}
    assert world.control("kill", element_id(array, 15)) == ["Job has already finished"]
    world.check_replay()


def test_an_array_is_forgotten_as_a_whole() -> None:
    world = World()
    (array,) = world.submit(spec(name="sweep", indices="1-2"))
    world.settle()
    for index in (1, 2):
        world.started(element_id(array, index))
    world.ended(element_id(array, 1))
    world.wait(10_000)
    assert element_id(array, 1) in world.engine.state.jobs
    world.ended(element_id(array, 2))
    world.wait(10_000)
    assert world.engine.state.jobs == {} and world.engine.state.arrays == {}
    world.check_replay()


def test_a_submission_of_arrays_is_not_repeated() -> None:
    world = World()
    first = world.submit(spec(name="a", indices="1-5"), spec(), token="t")
    assert world.submit(spec(name="a", indices="1-5"), spec(), token="t") == first
    assert len(world.engine.state.arrays) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"indices": "0-3"}, "Job array index error"),
        ({"indices": "5-3"}, "Job array index error"),
        ({"indices": "1-1000000000"}, "Job array index too large: 1000000000"),
        ({"indices": "1-3,2"}, "an index is named twice"),
        ({"indices": "1-3", "array_limit": -1}, "a slot limit of -1"),
        ({"array_limit": 3}, "a slot limit without an index list"),
    ],
)
def test_bad_index_lists_are_refused(changes: dict[str, object], said: str) -> None:
    world = World()
    with pytest.raises(BadRequest, match=said):
        world.submit(spec(**changes))
    assert world.engine.state.next_job_id == 1


def test_a_held_array_waits_for_its_release() -> None:
    world = World()
    (array,) = world.submit(spec(name="a", indices="1-3", hold=True))
    world.settle()
    assert states(world, array) == {"PSUSP": 3}
    world.control("resume", array)
    world.settle()
    assert states(world, array) == {"RUN": 3}


def test_a_modified_array_changes_what_has_not_started() -> None:
    world = World()
    (array,) = world.submit(spec(name="a", indices="1-9", slots=8))
    world.settle()
    assert world.modify(array, slots=1) == [""]
    world.settle()
    assert states(world, array) == {"RUN": 2, "PEND": 7}
    world.started(element_id(array, 1))
    world.ended(element_id(array, 1))
    world.settle()
    assert states(world, array) == {"DONE": 1, "RUN": 8}
    assert world.job(element_id(array, 2)).spec.slots == 8
    world.check_replay()


def test_a_requeued_element_keeps_its_place() -> None:
    world = World()
    (array,) = world.submit(spec(name="a", indices="1-9", slots=16))
    world.settle()
    first = element_id(array, 1)
    world.started(first)
    world.control("requeue", first)
    world.ended(first, exit_code=None, signal=15)
    assert world.job(first).state is JobState.PEND
    world.settle()
    assert world.state(first) == "RUN" and world.job(first).attempt == 2
    world.check_replay()


# -- the cost of a million elements -----------------------------------------------------------------------------------


@given(
    st.sampled_from(["1-20", "1-19:2", "2-8,10-20:5", "1,3,7-9", "5"]),
    st.lists(st.integers(1, 20), max_size=12),
)
def test_what_remains_is_what_waits(indices: str, taken: list[int]) -> None:
    array = JobArray(array_id=1, spec=spec(indices=indices), submitted_at=0.0)
    for index in taken:
        if array.has_waiting(index):
            array.take(index)
    assert list(array.remaining()) == list(array.waiting())
    assert array.remaining().count == array.count
    assert array.count == 0 or list(indices_of(str(array.remaining()))) == list(array.waiting())
    array.take_all()
    assert array.count == 0 and list(array.waiting()) == []


def test_whoever_names_a_huge_array_a_hundred_times_does_not_stop_the_engine() -> None:
    """By what is looked at: an array's elements that wait are not gone through, whoever asks for what."""
    world = World()
    (array,) = world.submit(spec(name="x", indices="1-1000000", hold=True))
    world.control("kill", element_id(array, 500_000))
    many = (array,) * 100
    orders = [job_command(action, user, *many) for user in ("bob", "ann") for action in ("stop", "resume", "top")]
    begun = time.process_time()
    for command in (*orders, KillJobs("ann", False, (array,))):
        world.events += world.engine.handle(command, world.now).events
    assert time.process_time() - begun < 20.0  # it was minutes
    assert world.engine.audit() == []
    assert world.engine.state.arrays[array].counts == {"EXIT": 1_000_000}
    world.check_replay()


def test_a_filter_of_very_many_numbers_costs_what_the_jobs_cost() -> None:
    world = World()
    world.submit(*[spec(hold=True)] * 2_000)
    command = StopJobs("bob", False, wanted=JobFilter(ids=tuple(range(10**6, 10**6 + 100_000)), user="all"))
    begun = time.process_time()
    assert world.engine.handle(command, world.now).reply == []
    assert time.process_time() - begun < 15.0  # it was half a minute
