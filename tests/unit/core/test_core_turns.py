"""Commands over many jobs go in turns: others come between, what is done is whole at the end, and a break in the middle
is mended by the same command again.
"""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, make_config, spec

from gsched.base.errors import BadRequest, GschedError
from gsched.base.ids import element_id
from gsched.core.cluster import replay
from gsched.core.command import Command, ControlJobs, ControlQueues, ModifyJobs, Reconfigure, Submit
from gsched.core.decision import Decision
from gsched.core.engine import Engine
from gsched.core.turns import EVENT
from gsched.model.job import JobSpec
from gsched.model.queue import Queue
from gsched.model.view import JobFilter

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


def act(action: str, **changes: Any) -> ControlJobs:
    return ControlJobs("ann", False, action, wanted=ALL, **changes)


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
    while decisions[-1].rest is not None:
        assert decisions[-1].reply is None
        decisions.append(world.take(world.engine.go_on(decisions[-1].rest, world.now, steps)))
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
        ControlJobs("ann", False, "kill", job_ids=tuple(range(1, 57))),
        ModifyJobs("ann", False, (), spec(run_limit_s=60), ("run_limit_s",), ALL),
        ModifyJobs("ann", False, (), spec(queue="night"), ("queue",), ALL),
        ModifyJobs("ann", False, tuple(range(20, 57)), spec(queue="night"), ("queue",)),
    ],
    ids=lambda command: f"{getattr(command, 'action', 'modify')}",
)
def test_turns_come_to_what_one_go_comes_to(command: ControlJobs | ModifyJobs) -> None:
    at_once, bit_by_bit = crowd(), crowd()
    reply = at_once.do(command)
    decisions = turns_of(bit_by_bit, command)
    assert len(decisions) >= 3
    assert [each for each in (one.reply for one in decisions) if each is not None] == [reply]
    assert outcome(bit_by_bit) == outcome(at_once)
    most = max(len(decision.events) for decision in decisions)
    assert most * EVENT <= STEPS + 10 * EVENT, "a turn is over when its steps are done"
    bit_by_bit.check_replay()


def test_a_large_submission_is_judged_in_turns_and_made_in_one() -> None:
    world = World()
    specs = tuple(spec(command=f"run {number}") for number in range(40))
    decisions = turns_of(world, Submit("ann", "token", specs))
    assert len(decisions) > 10
    assert [len(decision.events) for decision in decisions] == [0] * (len(decisions) - 1) + [40]
    assert [each.job_id for each in decisions[-1].reply] == list(range(1, 41))
    again = turns_of(world, Submit("ann", "token", specs))
    assert [len(decision.events) for decision in again] == [0]


def test_a_submission_that_comes_twice_at_a_time_is_made_once() -> None:
    world = World()
    command = Submit("ann", "token", tuple(spec(command=f"run {number}") for number in range(40)))
    first = world.take(world.engine.handle(command, world.now, STEPS))
    turns_of(world, command)
    while first.rest is not None:
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
    decision = world.take(world.engine.handle(ControlJobs("ann", False, "kill", (root,)), world.now, STEPS))
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
        world.do(ControlJobs("ann", False, "stop", (element_id(1, element),)))
    decisions = turns_of(world, ModifyJobs("ann", False, (1,), spec(run_limit_s=60), ("run_limit_s",)), 100_000)
    specs = {id(job.spec) for job in world.engine.state.jobs.values()}
    assert len(specs) == 1 and len(decisions) == 1
    assert all(job.spec.run_limit_s == 60 for job in world.engine.state.jobs.values())
    assert isinstance(world.engine.state.arrays[1].spec, JobSpec)
