"""Attempts on hosts that the store has no record of: set aside and shown, ended only when an administrator says so."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import World, gpu_spec, gpus, load, make_config

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.core.attempts.unrecorded_attempts import MOST_NUMBER
from gsched.core.command import AttemptEnded, EndOrphans, HeldAttempt, HostHello, RaiseNumbers, RenewStore
from gsched.core.dispatch.host_queue_views import host_view
from gsched.core.instruction import ForgetAttempts, Instruction, StartJob, TerminateAttempt
from gsched.model.event import NumbersRaised
from gsched.model.jobs.job import AttemptResult
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.model.views.view import OrphanView

RESULT = AttemptResult(exit_code=7, ended_at=1_000_000.0)


def part(*indices: int, host: str = "a") -> HostAllocation:
    held = tuple(HeldGpu(uuid=f"GPU-{host}{i}", index=i, claim="ngpus_excl_p") for i in indices)
    return HostAllocation(host=host, slots=1, gpus=held)


def hello(
    world: World, *held: tuple[int, int, HostAllocation], foreign: bool = False, **what: Any
) -> list[Instruction]:
    """The agent of host a connects; what it is ordered in answer."""
    since = len(world.instructions)
    world.session += 1
    items = tuple(HeldAttempt(*each, foreign=foreign) for each in held)
    world.do(HostHello("a", world.session, "boot1", "1", items, **what))
    world.report(load=load(), gpus=gpus(4))
    return world.orders(since)


def shown(world: World) -> tuple[OrphanView, ...]:
    engine = world.engine
    return host_view(engine.config.hosts["a"], engine.config, engine.state, engine.observations.of("a")).orphans


def notes(world: World) -> tuple[str, ...]:
    engine = world.engine
    view = host_view(engine.config.hosts["a"], engine.config, engine.state, engine.observations.of("a"))
    return tuple(map(sentence, view.notes))


def test_what_the_store_has_no_record_of_runs_on_and_holds_what_it_has() -> None:
    world = World(connect=False)
    assert hello(world, (50, 2, part(0, 1))) == []
    assert shown(world) == (OrphanView(name="50.2", slots=1, gpus=(0, 1)),)
    assert notes(world)[0] == (
        "run 50.2, of which the store has no record, goes on here and holds 1 slot, GPU 0 1 (gadmin orphans)"
    )
    first, second = world.submit(gpu_spec(2), gpu_spec(2))
    world.settle()
    assert (world.held(first), world.state(second)) == ([2, 3], "PEND")
    assert StartJob("a", first, 1) in hello(world, (50, 2, part(0, 1)))  # and again: that is all
    assert [type(order).__name__ for order in world.orders()] == ["StartJob", "StartJob"]
    assert world.state(second) == "PEND"
    world.check_replay()


def test_its_number_is_not_given_out_again() -> None:
    world = World(connect=False)
    hello(world, (50, 2, part(0)))
    assert world.submit(gpu_spec()) == [51]
    assert [event for event in world.events if isinstance(event, NumbersRaised)] == [
        NumbersRaised(at=world.now, next_job_id=51, why="host a knows of such jobs")
    ]
    assert world.engine.state.lost_store.had(50) and not world.engine.state.lost_store.had(51)
    world.check_replay()


def test_no_host_is_believed_whatever_number_it_names() -> None:
    world = World(connect=False)
    hello(world, (MOST_NUMBER + 5, 1, part(0)), numbers_from=1 << 31)
    assert world.submit(gpu_spec()) == [1]
    assert len(shown(world)) == 1


def test_when_it_ends_it_holds_nothing_and_its_result_stays_with_the_agent() -> None:
    world = World(connect=False)
    hello(world, (50, 2, part(0, 1, 2)))
    (waiting,) = world.submit(gpu_spec(4))
    world.settle()
    assert world.state(waiting) == "PEND"
    before = len(world.events)
    assert over(world, 50, 2) == [] and len(world.events) == before
    assert shown(world) == (OrphanView(name="50.2", over=True),)
    assert "is over (gadmin orphans)" in notes(world)[0]
    world.settle()
    assert world.state(waiting) == "RUN"
    hello(world, (waiting, 1, world.part(waiting, "a")), ended=(AttemptEnded(50, 2, "a", RESULT),))
    assert shown(world) == (OrphanView(name="50.2", over=True),)


def end(world: World, *names: str, is_admin: bool = True) -> tuple[list[Instruction], list[str]]:
    since = len(world.instructions)
    reply = world.do(EndOrphans("root", is_admin, names))
    return world.instructions[since:], [answer.text for answer in reply]


def over(world: World, job_id: int, attempt: int) -> list[Instruction]:
    """The attempt ends; what its agent is ordered in answer."""
    since = len(world.instructions)
    world.do(AttemptEnded(job_id, attempt, "a", RESULT))
    return world.instructions[since:]


@pytest.mark.parametrize("name", ["all", "a", "50.2"])
def test_an_administrator_ends_it(name: str) -> None:
    world = World(connect=False)
    hello(world, (50, 2, part(0)), ended=(AttemptEnded(51, 1, "a", RESULT),))
    orders, answers = end(world, name)
    assert orders[0] == TerminateAttempt("a", 50, 2, given_up=True)
    assert answers[0] == "Attempt <50.2 on a> is being ended"
    if name != "50.2":
        assert orders[1:] == [ForgetAttempts("a", ((51, 1),))]
        assert answers[1:] == ["Attempt <51.1 on a> is forgotten"]
    # The order may be lost with the connection.
    assert TerminateAttempt("a", 50, 2, given_up=True) in hello(world, (50, 2, part(0)))
    assert over(world, 50, 2) == [ForgetAttempts("a", ((50, 2),))]
    assert "50.2" not in [each.name for each in shown(world)]
    assert world.engine.state.ledger.host("a").held == {}


def test_who_may_not_or_names_nothing_is_refused() -> None:
    world = World(connect=False)
    hello(world, (50, 2, part(0)))
    with pytest.raises(PermissionDenied, match=r"^User permission denied: for administrators of the cluster \("):
        end(world, "all", is_admin=False)
    with pytest.raises(BadRequest, match=r"^51.1: no attempt that is not in the store has this number"):
        end(world, "50.2", "51.1")
    assert end(World(), "all") == ([], [])


def test_what_the_state_has_given_up_is_ended_as_ever() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec())
    world.ended(job_id)
    assert hello(world, (job_id, 1, part(0))) == [TerminateAttempt("a", job_id, 1, given_up=True)]
    assert shown(world) == ()


def test_a_job_that_waits_in_an_old_copy_of_the_store_is_not_started_a_second_time() -> None:
    world = World(connect=False)
    job_id, array = world.submit(gpu_spec(), gpu_spec(indices="1-3"))
    element = 2 << 32 | array
    assert hello(world, (job_id, 1, part(0)), (element, 1, part(1))) == []
    world.settle()
    assert (world.state(job_id), world.state(element)) == ("PSUSP", "PSUSP")
    text = "Run 1 of the job is on host a, but is not recorded: it is not started again by itself"
    assert [tuple(map(sentence, world.job(number).notes)) for number in (job_id, element)] == [(text,), (text,)]
    assert [each.name for each in shown(world)] == [f"{job_id}.1", f"{element}.1"]
    # Its end is not kept: that number belongs to a job of the store.
    assert over(world, job_id, 1) == [ForgetAttempts("a", ((job_id, 1),))]
    world.control("resume", job_id)
    assert world.state(job_id) == "PSUSP"  # not for its owner to say
    world.control("resume", job_id, user="root")
    world.settle()
    assert world.state(job_id) == "RUN"
    world.check_replay()


def test_an_attempt_of_another_store_is_no_attempt_of_a_job_with_its_number() -> None:
    world = World()
    (job_id,) = world.run(gpu_spec())
    world.ended(job_id)
    assert hello(world, (job_id, 1, part(0)), foreign=True) == []
    assert [each.name for each in shown(world)] == [f"{job_id}.1"]
    hello(world, ended=(AttemptEnded(77, 1, "a", RESULT, foreign=True),))
    assert [each.name for each in shown(world)] == ["77.1"]


def test_numbers_of_a_lost_store_are_left_out() -> None:
    world = World()
    assert world.submit(gpu_spec()) == [1]
    world.do(RaiseNumbers(1001, "the store was lost"))
    world.do(RaiseNumbers(500, "the store was lost"))
    assert world.submit(gpu_spec()) == [1001]
    assert hello(world, (700, 1, part(0))) == []
    assert [each.name for each in shown(world)] == ["700.1"]
    world.check_replay()
    world.restart()
    assert world.engine.state.lost_store.numbers == [(2, 1000)]


def renewed(*hosts: str) -> tuple[World, int]:
    """A store of generation 2 that has a job which waits, as far as it knows."""
    world = World(make_config(hosts), connect=False)
    (job_id,) = world.submit(gpu_spec())
    world.do(RenewStore(2))
    return world, job_id


def host_says(world: World, host: str, *held: HeldAttempt) -> None:
    world.session += 1
    world.do(HostHello(host, world.session, "boot1", "1", held))
    world.report(host, load=load(), gpus=gpus(4, host=host))
    world.settle()


def test_nothing_of_an_older_copy_is_started_before_every_host_was_heard() -> None:
    world, job_id = renewed("a", "b")
    host_says(world, "a")
    assert world.state(job_id) == "PEND" and "the agents of b are expected back" in world.engine.cycles.summary
    assert world.engine.next_deadline(world.now) <= world.now + world.config.params.host_lost_after_s
    host_says(world, "b", HeldAttempt(job_id, 1, part(0, host="b"), generation=1))
    assert world.state(job_id) == "PSUSP"
    (other,) = world.submit(gpu_spec())
    world.settle()
    assert world.state(other) == "RUN"
    world.check_replay()


def test_a_host_that_is_heard_too_late_has_its_run_set_aside_and_the_job_is_told() -> None:
    world, job_id = renewed("a", "b")
    host_says(world, "a")
    world.wait(world.config.params.host_lost_after_s + 1)
    world.settle()
    world.started(job_id)
    lost = HeldAttempt(job_id, 1, part(0, host="b"), generation=1)
    for _ in range(2):
        since = len(world.instructions)
        host_says(world, "b", lost)
        assert TerminateAttempt("b", job_id, 1, given_up=True) not in world.instructions[since:]
        assert world.engine.observations.of("b").unrecorded.keys() == {(job_id, 1)}
        text = "Run 1 of an earlier generation of the store, which is not recorded, is on host b as well"
        assert tuple(map(sentence, world.job(job_id).notes)) == (text,)
        assert world.state(job_id) == "RUN" and world.held(job_id) == [0]
    # Its end is not the job's.
    world.do(AttemptEnded(job_id, 1, "b", RESULT))
    assert world.state(job_id) == "RUN"
    world.ended(job_id)
    assert world.state(job_id) == "DONE"
    world.check_replay()


def test_what_the_older_copy_knows_of_is_what_it_was() -> None:
    world = World(make_config(("a", "b")))
    (job_id,) = world.run(gpu_spec())
    allocation = world.job(job_id).allocation
    assert allocation is not None
    host = allocation.first_host
    world.do(RenewStore(2))
    world.restart()
    host_says(world, host, HeldAttempt(job_id, 1, world.part(job_id, host), generation=1))
    assert world.state(job_id) == "RUN" and not world.engine.observations.of(host).unrecorded
    world.ended(job_id)
    since = len(world.instructions)
    host_says(world, host, HeldAttempt(job_id, 1, world.part(job_id, host), generation=1))
    assert TerminateAttempt(host, job_id, 1, given_up=True) in world.instructions[since:]


@pytest.mark.parametrize("generation", [0, 1])
def test_a_job_that_is_let_go_on_beside_its_lost_run_gets_another_number_for_its_own(generation: int) -> None:
    world, job_id = renewed("a")
    lost = HeldAttempt(job_id, 1, part(0), generation=generation)
    host_says(world, "a", lost)
    world.control("resume", job_id, user="root")
    world.settle()
    assert (world.state(job_id), world.job(job_id).attempt, world.held(job_id)) == ("RUN", 2, [1])
    world.started(job_id)
    since = len(world.instructions)
    host_says(world, "a", lost, HeldAttempt(job_id, 2, world.part(job_id, "a"), generation=2))
    assert not [each for each in world.instructions[since:] if isinstance(each, TerminateAttempt)]
    assert world.state(job_id) == "RUN" and [each.name for each in shown(world)] == [f"{job_id}.1"]
    world.check_replay()
    world.restart()
    assert world.job(job_id).unrecorded == (1,)


def test_a_job_that_its_owner_holds_is_held_for_its_lost_run_too() -> None:
    world, job_id = renewed("a")
    world.control("stop", job_id)
    host_says(world, "a", HeldAttempt(job_id, 1, part(0), generation=1))
    world.control("resume", job_id)
    assert world.state(job_id) == "PSUSP"


def test_a_new_generation_that_begins_empty_waits_for_nobody() -> None:
    world = World(make_config(("a", "b")), connect=False)
    world.do(RenewStore(2))
    (job_id,) = world.submit(gpu_spec())
    host_says(world, "a")
    assert world.state(job_id) == "RUN"
