"""Commands over many jobs go in turns: others come between, what is done is whole at the end, and a break in the middle
is mended by the same command again.
"""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, job_command, make_config, spec

from gsched.base.errors import BadRequest, GschedError, ResourceExhausted
from gsched.base.ids import element_id
from gsched.core.command import Command, ControlQueues, JobCommand, KillJobs, ModifyJobs, Reconfigure, StopJobs, Submit
from gsched.core.command_turns import EVENT
from gsched.core.decision import Decision
from gsched.core.engine import Engine
from gsched.core.hosts.forgetting import forget
from gsched.core.state.cluster_state import ClusterState, replay
from gsched.model.config import Params
from gsched.model.event import SubmissionAccepted
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.views.view import JobFilter

ALL = JobFilter()
STEPS = 200
QUEUES = (Queue(name="normal", priority=30), Queue(name="night"))


def crowd() -> World:
    """Jobs of every kind: some run, some wait, some are held, some wait for others, and arrays."""
    world = World(make_config(queues=QUEUES))
    world.submit(*[spec(name=f"job{number}") for number in range(30)], spec(indices="1-20", name="array"))
    world.settle()
    world.submit(*[spec(hold=True, name="held")] * 20, spec(indices="1-30"))
    world.submit(spec(dependency="ended(held)"))
    world.submit(*[spec()] * 5, user="bob")
    return world


def act(action: str, **changes: Any) -> JobCommand:
    return job_command(action, "ann", wanted=ALL, **changes)


def outcome(world: World) -> list[tuple[int, str, str, Any]]:
    state = world.engine.state
    jobs = [(job.job_id, job.state.value, job.spec.queue, job.spec.run_limit_s) for job in state.jobs.values()]
    arrays = [
        (a.array_id, f"{a.count} {a.stopped_by}", a.spec.queue, a.spec.run_limit_s) for a in state.arrays.values()
    ]
    return sorted([*jobs, *arrays])


def turns_of(world: World, command: Command, steps: int = STEPS) -> list[Decision]:
    """All turns of a command."""
    decisions = [world.take(world.engine.handle(command, world.now, steps))]
    rest = decisions[-1].rest
    while rest is not None:
        while world.engine.unsettled:
            decisions.append(world.take(world.engine.settle(world.now, steps)))
        assert decisions[-1].reply is None
        decisions.append(world.take(world.engine.go_on(rest, world.now, steps)))
        rest = decisions[-1].rest
    while world.engine.unsettled:
        decisions.append(world.take(world.engine.settle(world.now, steps)))
    return decisions


@pytest.mark.parametrize(
    "command",
    [
        act("kill"),
        act("stop"),
        act("resume"),
        act("requeue"),
        act("signal", signal=9),
        act("bottom"),
        act("post", text="a note"),
        KillJobs("ann", False, job_ids=tuple(range(1, 57))),
        ModifyJobs("ann", False, (), spec(run_limit_s=60), ("run_limit_s",), ALL),
        ModifyJobs("ann", False, (), spec(queue="night"), ("queue",), ALL),
        ModifyJobs("ann", False, tuple(range(20, 57)), spec(queue="night"), ("queue",)),
    ],
    ids=lambda command: type(command).__name__,
)
def test_turns_come_to_what_one_go_comes_to(command: JobCommand | ModifyJobs) -> None:
    at_once, bit_by_bit = crowd(), crowd()
    reply = at_once.do(command)
    decisions = turns_of(bit_by_bit, command)
    assert len(decisions) >= 3
    assert [each for each in (one.reply for one in decisions) if each is not None] == [reply]
    assert outcome(bit_by_bit) == outcome(at_once)
    most = max(len(decision.events) for decision in decisions)
    assert most * EVENT <= STEPS + 10 * EVENT, "a turn is over when its steps are done"
    bit_by_bit.check_replay()


def many(count: int = 40, **changes: Any) -> Submit:
    """A submission that is too large for one turn."""
    return Submit("ann", "token", tuple(spec(command=f"run {number}", **changes) for number in range(count)))


def accepted_but_not_made(command: Submit, world: World | None = None) -> tuple[World, Decision]:
    """The turn after which the submission is certain, though not one of its jobs is there."""
    world = world or World()
    decision = world.take(world.engine.handle(command, world.now, STEPS))
    while not decision.events:
        decision = world.take(world.engine.go_on(decision.rest, world.now, STEPS))
    assert [event.__class__.__name__ for event in decision.events] == ["SubmissionAccepted"]
    assert decision.rest is not None
    return world, decision


def test_a_large_submission_is_judged_accepted_and_made_in_turns() -> None:
    world = World()
    decisions = turns_of(world, many())
    kinds = [[event.__class__.__name__ for event in decision.events] for decision in decisions]
    first = kinds.index(["SubmissionAccepted"])
    assert first > 2 and not any(kinds[:first]), "nothing of it is there before it is certain"
    assert [kind for turn in kinds[first + 1 :] for kind in turn] == ["JobSubmitted"] * 40
    assert max(map(len, kinds)) * EVENT <= STEPS
    assert [each.job_id for each in decisions[-1].reply] == list(range(1, 41))
    assert [world.job(number).spec.command for number in range(1, 41)] == [f"run {each}" for each in range(40)]
    again = turns_of(world, many())
    assert not any(decision.events for decision in again)
    assert [each.job_id for each in again[-1].reply] == list(range(1, 41))
    world.check_replay()


def test_equal_jobs_of_a_large_submission_stand_in_it_once() -> None:
    world, decision = accepted_but_not_made(Submit("ann", "token", (spec(), *[spec(name="other")] * 30, spec())))
    (event,) = decision.events
    assert isinstance(event, SubmissionAccepted)
    assert (len(event.specs), event.places) == (2, (0, *[1] * 30, 0))
    while world.engine.unsettled:
        world.take(world.engine.settle(world.now, STEPS))
    assert [world.job(number).spec.name for number in (1, 2, 31, 32)] == ["", "other", "other", ""]


@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_a_master_that_comes_back_makes_the_rest_of_what_was_accepted(turns: int, from_checkpoint: bool) -> None:
    whole = World()
    turns_of(whole, many(indices="1-3"))
    world, _ = accepted_but_not_made(many(indices="1-3"))
    for _ in range(turns):
        world.take(world.engine.settle(world.now, STEPS))
    if from_checkpoint:
        world.engine = Engine(ClusterState.load(world.engine.state.dump()), world.config, world.now)
    else:
        world.restart()
    assert world.engine.unsettled and len(world.engine.state.arrays) == turns * STEPS // EVENT
    again = turns_of(world, many(indices="1-3"))  # nobody was answered, so the command asks again
    assert [each.job_id for each in again[-1].reply] == list(range(1, 41))
    assert outcome(world) == outcome(whole)
    assert not world.engine.unsettled and not world.engine.state.accepted


def test_what_a_job_was_given_to_read_goes_with_it_unless_jobs_still_to_be_made_read_the_same() -> None:
    world = World()
    world.run(spec(spooled_input="same"), spec(spooled_input="other"))
    for job_id in (1, 2):
        world.ended(job_id)
    accepted_but_not_made(many(spooled_input="same"), world)
    decision = Decision(world.engine.state, world.config, world.now, world.engine.observations.of)
    forget(1, decision)
    forget(2, decision)
    assert decision.dropped == ["other"]
    state = world.engine.state
    assert state.inputs.is_read("same", state.accepted)
    while world.engine.unsettled:
        world.take(world.engine.settle(world.now, STEPS))
    world.control("kill", *range(3, 43))
    world.wait(3601)
    assert world.dropped == ["same"] and not state.inputs.is_read("same", state.accepted)


def test_jobs_that_are_accepted_count_as_waiting() -> None:
    world, _ = accepted_but_not_made(many(slots=2), World(make_config(params=Params(max_pending=45))))
    world.take(world.engine.settle(world.now, STEPS))
    for command in (Submit("ann", "", (spec(),) * 6), Submit("bob", "", (spec(indices="1-6"),))):
        with pytest.raises(ResourceExhausted, match="40 jobs wait, 6 more would exceed 45"):
            world.engine.handle(command, world.now)
    (later,) = world.submit()
    assert later == 41, "its numbers are its own"


def test_a_configuration_that_comes_while_jobs_are_made_holds_for_them() -> None:
    queues = (Queue(name="normal", priority=30), Queue(name="night", res_req="rusage[mem=7]"))
    world, _ = accepted_but_not_made(many(queue="night"), World(make_config(queues=QUEUES)))
    world.do(Reconfigure("root", make_config(queues=queues, digest="d2")))
    world.cycle()
    while world.engine.unsettled:
        world.take(world.engine.settle(world.now, STEPS))
    world.settle()
    assert {job.spec.combined_req.count("mem=7") for job in world.engine.state.jobs.values()} == {1}


def test_jobs_of_one_large_submission_may_depend_on_each_other() -> None:
    world = World()
    turns_of(world, many(29))
    chain = tuple(spec(command=f"run {number}", dependency="done(29)") for number in range(40))
    turns_of(world, Submit("ann", "chain", chain))
    assert len(world.engine.state.waits.blocked) == 40
    world.check_replay()


def test_a_submission_that_comes_twice_at_a_time_is_made_once() -> None:
    world = World()
    command = Submit("ann", "token", tuple(spec(command=f"run {number}") for number in range(40)))
    first = world.take(world.engine.handle(command, world.now, STEPS))
    second, _ = accepted_but_not_made(command, world)
    assert second is world
    while first.rest is not None:
        if world.engine.unsettled:
            world.take(world.engine.settle(world.now, STEPS))
        first = world.take(world.engine.go_on(first.rest, world.now, STEPS))
    assert [each.job_id for each in first.reply] == list(range(1, 41))
    assert len(world.engine.state.jobs) == 40


def test_a_refusal_in_a_later_turn_leaves_nothing_behind() -> None:
    world = World()
    specs = (*[spec(command=f"run {number}") for number in range(40)], spec(res_req="rusage["))
    with pytest.raises(GschedError):
        turns_of(world, Submit("ann", "", specs))
    assert not world.engine.state.jobs


def test_a_submission_is_judged_anew_when_the_configuration_has_changed_meanwhile() -> None:
    world = World(make_config(queues=QUEUES))
    specs = tuple(spec(command=f"run {number}", queue="night") for number in range(40))
    first = world.take(world.engine.handle(Submit("ann", "", specs), world.now, STEPS))
    world.do(Reconfigure("root", make_config(queues=QUEUES[:1], digest="d2")))
    with pytest.raises(BadRequest, match="night"):
        while first.rest is not None:
            first = world.take(world.engine.go_on(first.rest, world.now, STEPS))


def test_others_come_between_turns() -> None:
    world = crowd()
    decision = world.take(world.engine.handle(act("kill"), world.now, STEPS))
    (his,) = world.submit(spec(), user="bob")
    (hers,) = world.submit(spec())
    world.do(ControlQueues("root", True, "close", ("night",)))
    while decision.rest is not None:
        decision = world.take(world.engine.go_on(decision.rest, world.now, STEPS))
    assert world.state(his) != "EXIT"
    assert world.state(hers) != "EXIT", "it came after the command"
    world.check_replay()


def test_what_was_broken_off_is_done_by_the_same_command_again() -> None:
    for turns in (0, 1, 2):
        world = crowd()
        decision = world.take(world.engine.handle(act("stop"), world.now, STEPS))
        for _ in range(turns):
            assert decision.rest is not None
            decision = world.take(world.engine.go_on(decision.rest, world.now, STEPS))
        world.engine = Engine(replay(world.events), world.config, world.now)  # kill -9: the rest is forgotten
        assert world.engine.audit() == []
        whole = crowd()
        whole.do(act("stop"))
        world.do(act("stop"))
        assert outcome(world) == outcome(whole)


def test_jobs_that_wait_are_ended_before_others_make_room_for_them() -> None:
    world = crowd()
    started = set(world.engine.state.running)
    order: list[int] = []
    for decision in turns_of(world, act("kill")):
        order += [event.job_id for event in decision.events if event.__class__.__name__ == "JobSignalRequested"]
    last = order[-len([number for number in started if number in order]) :]
    assert set(last) <= started


def test_elements_that_start_between_turns_are_meant_too() -> None:
    world = World(make_config(queues=QUEUES))
    world.submit(*[spec(hold=True)] * 30, spec(indices="1-50", name="array"))
    array = 31
    decision = world.take(world.engine.handle(act("kill"), world.now, 20))
    assert decision.rest is not None and not decision.events, "it is still looking"
    world.settle()
    assert world.state(element_id(array, 1)) == "RUN"
    while decision.rest is not None:
        decision = world.take(world.engine.go_on(decision.rest, world.now, STEPS))
    left = [job.job_id for job in world.engine.state.jobs.values() if job.state.value == "RUN" and not job.kill_by]
    assert left == []
    assert world.engine.state.arrays[array].count == 0


def test_jobs_that_hang_on_one_go_on_in_turns() -> None:
    world = World()
    (root,) = world.submit(spec(hold=True))
    world.submit(*[spec(dependency=f"ended({root})")] * 300)
    decision = world.take(world.engine.handle(KillJobs("ann", False, (root,)), world.now, STEPS))
    assert len(decision.events) * EVENT <= STEPS + 10 * EVENT
    turns = 0
    while world.engine.unsettled:
        decision = world.take(world.engine.settle(world.now, STEPS))
        assert len(decision.events) * EVENT <= STEPS + 10 * EVENT
        turns += 1
    assert turns > 20
    assert len(world.engine.state.waits.blocked) == 0
    world.check_replay()


def test_elements_of_one_array_are_judged_once() -> None:
    world = World(make_config(queues=QUEUES))
    world.submit(spec(indices="1-60"))
    world.settle()
    for element in range(17, 50):
        world.do(StopJobs("ann", False, (element_id(1, element),)))
    decisions = turns_of(world, ModifyJobs("ann", False, (1,), spec(run_limit_s=60), ("run_limit_s",)), 100_000)
    specs = {id(job.spec) for job in world.engine.state.jobs.values()}
    assert len(specs) == 1 and len(decisions) == 1
    assert all(job.spec.run_limit_s == 60 for job in world.engine.state.jobs.values())
    assert isinstance(world.engine.state.arrays[1].spec, JobSpec)
