"""A job that is to give lent GPUs back keeps them when nobody waits for them any more; a stopped one stays stopped."""

from __future__ import annotations

from typing import Any

import pytest
from core_lent_world import GROWS_S, SAVE_S, SAVES, asked_to_end, elastic, plain, saves, world_of
from core_world import SHARED, World, gpus, make_config, spec

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.core.attempts.preemption_withdrawal import shares_of
from gsched.core.command import ExplainJob
from gsched.core.instruction import SpareAttempt, TerminateAttempt
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import Params
from gsched.model.event import JobRequeued, JobResizeWithdrawn
from gsched.model.jobs.job import EXIT_SAVED, RESIZING


def giving(*owners: Any, **changes: Any) -> World:
    """Job 1 has 8 GPUs and saves its state, to give some back to the others."""
    world = world_of()
    world.run(elastic(**changes))
    world.submit(*(owners or (plain(3),)))
    world.settle()
    assert world.job(1).is_resizing
    return world


def spared(world: World) -> list[SpareAttempt]:
    return [order for order in world.instructions if isinstance(order, SpareAttempt)]


def last(world: World, kind: type) -> Any:
    return next(event for event in reversed(world.events) if isinstance(event, kind))


@pytest.mark.parametrize("goes", ["kill", "stop"])
def test_it_keeps_its_gpus_and_is_told_so_when_nobody_waits_for_them(goes: str) -> None:
    world = giving()
    world.wait(5.0)
    world.control(goes, 2)
    assert spared(world) == [SpareAttempt("a", 1, 1)]
    assert last(world, JobResizeWithdrawn).gives_to == (2,)
    job = world.job(1)
    assert job.is_spared and not job.is_resizing and not job.running(world.now).is_ending
    world.settle()
    world.wait(3600.0)
    world.settle()
    assert (world.state(1), len(world.held(1)), world.job(1).attempt) == ("RUN", 8, 1)
    world.check_replay()
    world.ended(1, exit_code=0)
    assert world.state(1) == "DONE"
    world.check_replay()


def test_it_keeps_them_when_the_other_has_got_gpus_elsewhere() -> None:
    world = world_of(4, ("a", "b"))
    world.run(plain(4, hosts=("b",)), elastic(2, 4, hosts=("a",)))
    (owner,) = world.submit(plain(2))
    world.settle()
    assert asked_to_end(world, 2)
    world.ended(1, host="b")
    world.settle()
    assert world.state(owner) == "RUN" and spared(world) == [SpareAttempt("a", 2, 1)]
    assert len(world.held(2)) == 4


def test_it_gives_back_as_long_as_one_of_those_waits_that_it_gives_to() -> None:
    world = giving(plain(1), plain(1), plain(1))
    assert world.job(1).gives_to == (2, 3, 4)
    world.control("kill", 2, 3)
    assert not spared(world)
    world.control("kill", 4)
    assert spared(world)


@pytest.mark.parametrize("goes", ["kill", "stop", "switch", "need less", "depend", "begin later"])
def test_what_one_of_them_needs_no_more_it_keeps_and_gives_the_others_theirs(goes: str) -> None:
    world = giving(plain(2), plain(1))
    assert (world.job(1).gives_to, world.job(1).gives) == ((2, 3), (2, 1))
    until, since = world.job(1).save_by, len(world.instructions)
    world.wait(5.0)
    if goes in ("kill", "stop"):
        world.control(goes, 2)
    else:
        changes: dict[str, Any] = {
            "switch": {"queue": "low"},
            "need less": {"gpu_req": ""},
            "depend": {"dependency": "ended(3)"},
            "begin later": {"begin_at": world.now + 3600.0},
        }[goes]
        assert world.modify(2, **changes) == [""]
    job = world.job(1)
    assert (job.gives_to, job.gives, job.save_by) == ((3,), (1,), until)
    assert job.resize is not None and len(job.resize.hosts[0].gpus) == 7
    assert not spared(world) and not world.orders(since)
    world.check_replay()
    saves(world, 1)
    assert (len(world.held(1)), world.state(3)) == (7, "RUN")
    world.check_replay()


def test_one_of_them_that_starts_elsewhere_takes_nothing_and_the_others_get_theirs() -> None:
    world = world_of(8, ("a", "b"))
    world.run(plain(8, hosts=("b",)), elastic(hosts=("a",)))
    world.submit(plain(2), plain(1, hosts=("a",)))
    world.settle()
    assert world.job(2).gives_to == (3, 4)
    world.ended(1, host="b")
    world.settle()
    assert world.state(3) == "RUN" and world.job(2).gives_to == (4,) and not spared(world)
    saves(world, 2)
    assert (len(world.held(2)), world.state(4)) == (7, "RUN")


def test_who_wants_more_by_now_is_given_that_at_the_same_deadline() -> None:
    world = giving(plain(1), plain(1))
    until = world.job(1).save_by
    world.wait(5.0)
    assert world.modify(2, gpu_req="num=3") == [""]
    world.settle()
    job = world.job(1)
    assert shares_of(job) == {2: 3, 3: 1} and job.save_by == until
    assert not spared(world)
    saves(world, 1)
    assert (len(world.held(1)), world.state(2), world.state(3)) == (4, "RUN", "RUN")
    world.check_replay()


@pytest.mark.parametrize("changes", [{"name": "other"}, {"run_limit_s": 600.0}])
def test_who_is_changed_otherwise_needs_them_as_before(changes: dict[str, Any]) -> None:
    world = giving()
    assert world.modify(2, **changes) == [""]
    assert world.job(1).gives_to == (2,) and not spared(world)


def test_who_needs_another_kind_of_gpus_by_now_leaves_them_all() -> None:
    world = giving()
    assert world.modify(2, gpu_req="") == [""]
    assert spared(world) == [SpareAttempt("a", 1, 1)]
    world.check_replay()


def test_elements_that_are_changed_and_need_them_still_do_not_ask_again_and_again() -> None:
    world = giving(plain(1, indices="1-2", name="many"))
    assert world.modify(2, gpu_req="num=2") == [""]
    world.settle()
    asked = len(asked_to_end(world, 1))
    assert shares_of(world.job(1)) == {element_id(2, 1): 2, element_id(2, 2): 2}
    world.wait(1.0)
    world.settle()
    assert len(asked_to_end(world, 1)) == asked
    world.check_replay()


def test_one_that_came_while_it_saves_counts_as_well() -> None:
    world = giving(plain(1))
    (late,) = world.submit(plain(2))
    world.settle()
    assert world.job(1).gives_to == (2, late)
    world.control("kill", 2)
    assert not spared(world)


def test_a_job_that_comes_meanwhile_gets_them_at_the_same_deadline() -> None:
    world = giving()
    until = world.job(1).save_by
    world.control("kill", 2)
    world.wait(10.0)
    (owner,) = world.submit(plain(2))
    world.settle()
    assert world.job(1).is_resizing and world.job(1).save_by == until and world.job(1).gives_to == (owner,)
    saves(world, 1)
    assert (len(world.held(1)), world.state(owner)) == (6, "RUN")
    world.check_replay()


@pytest.mark.parametrize("how", [{}, {"exit_code": None, "signal": 9, "term_reason": RESIZING}])
def test_one_that_ends_all_the_same_goes_on_at_once_with_all_that_it_had(how: dict[str, Any]) -> None:
    world = giving()
    world.control("kill", 2)
    world.settle()
    world.wait(20.0)
    saves(world, 1, **({"exit_code": EXIT_SAVED, "term_reason": ""} | how))
    assert (world.state(1), len(world.held(1)), world.job(1).attempt) == ("RUN", 8, 2)
    assert last(world, JobRequeued).reason == coded("requeue.asked_to_give_back")
    assert (world.job(1).resizes, world.job(1).restarts) == (0, 0)
    world.check_replay()


def test_one_that_has_asked_for_another_run_from_inside_goes_on_though_it_ends_with_0() -> None:
    world = giving()
    saves(world, 1, exit_code=0, wants_requeue=True)
    assert (world.state(1), len(world.held(1)), world.job(1).restarts) == ("RUN", 5, 0)
    world.check_replay()


def test_one_that_is_done_by_then_is_done() -> None:
    world = giving()
    world.control("kill", 2)
    world.ended(1, exit_code=0, term_reason=RESIZING)
    assert world.state(1) == "DONE"


def test_growing_is_not_called_off() -> None:
    world = world_of(4)
    world.run(plain(2), elastic(1, 4))
    world.ended(1)
    world.wait(GROWS_S)
    world.settle()
    assert world.job(2).is_resizing
    world.wait(1.0)
    world.settle()
    assert world.job(2).is_resizing and not spared(world)


def test_an_agent_and_a_master_that_come_back_spare_it() -> None:
    world = giving()
    world.control("kill", 2)
    world.restart()
    world.hello("a", held=((1, 1),))
    assert spared(world)[1:] == [SpareAttempt("a", 1, 1)]
    assert sum(isinstance(order, TerminateAttempt) for order in world.instructions) == 1
    assert world.job(1).save_by == pytest.approx(world.now + SAVE_S, abs=1.0)


def test_who_waits_in_a_lower_queue_by_now_takes_nothing_back() -> None:
    world = giving()
    assert world.modify(2, queue="low") == [""]
    assert spared(world) == [SpareAttempt("a", 1, 1)]
    world.settle()
    assert not world.job(1).is_resizing


def test_whoever_gets_them_is_told_which_job_gives_them_back_and_until_when() -> None:
    world = giving(plain(1), plain(1))
    for owner in (2, 3):
        first, *others = world.engine.pending_reasons(owner)
        assert first.text == coded("pending.waits_for_lent", "1") and first.until == world.job(1).save_by
        assert others
    explained = world.do(ExplainJob("ann", False, 2))
    (awaited,), ((holder,),) = explained.awaits, [host.holders for group in explained.hosts for host in group.hosts]
    assert [(each.job_id, each.is_ending, each.gives_gpus) for each in (awaited, holder)] == [(1, True, 2)] * 2
    assert explained.planned.at == awaited.at == holder.ends_at == world.job(1).save_by
    saves(world, 1)
    assert not world.engine.state.saving


def test_one_that_is_stopped_while_it_saves_saves_and_waits_until_it_is_resumed() -> None:
    world = giving()
    since = len(world.instructions)
    world.control("stop", 1)
    assert world.state(1) == "USUSP" and not world.orders(since)
    world.ended(1, exit_code=EXIT_SAVED, term_reason=RESIZING)
    world.settle()
    assert (world.state(1), world.job(1).stopped_by, world.job(1).resizes) == ("PSUSP", "ann", 0)
    assert last(world, JobRequeued).reason == coded("requeue.stopped")
    assert world.state(2) == "RUN"
    world.check_replay()
    world.control("resume", 1)
    world.settle()
    assert (world.state(1), len(world.held(1))) == ("RUN", 5)
    world.check_replay()


def test_one_that_is_stopped_is_not_spared_and_others_count_on_all_that_it_has() -> None:
    world = giving()
    world.control("stop", 1)
    world.control("kill", 2)
    assert not spared(world)
    running = world.job(1).running(world.now)
    assert running.is_ending and running.keeps is None
    world.control("resume", 1)
    assert spared(world) == [SpareAttempt("a", 1, 1)]
    world.check_replay()


def test_one_that_was_stopped_before_neither_grows_nor_gives_back() -> None:
    world = world_of(4)
    world.run(plain(1), elastic(1, 4))
    world.control("stop", 2)
    world.ended(1)
    world.wait(GROWS_S)
    world.settle()
    world.submit(plain(2))
    world.settle()
    assert not asked_to_end(world, 2)


@pytest.mark.parametrize(("action", "state"), [("stop", "PSUSP"), ("requeue", "PEND")])
def test_a_stopped_job_stays_stopped_unless_somebody_has_it_requeued(action: str, state: str) -> None:
    world = giving()
    world.control("stop", 1)
    if action == "requeue":
        world.control("requeue", 1)
    world.ended(1, exit_code=None, signal=15)
    assert world.state(1) == state
    world.check_replay()


def test_elements_of_an_array_count_each_and_are_told_like_others() -> None:
    world = giving(plain(1, indices="1-3", name="many"))
    elements = tuple(element_id(2, index) for index in (1, 2, 3))
    assert world.job(1).gives_to == elements
    assert {world.engine.pending_reasons(number)[0].text for number in (2, *elements)} == {
        coded("pending.waits_for_lent", "1")
    }
    world.control("kill", *elements[:2])
    assert not spared(world)
    world.control("stop", elements[2])
    assert spared(world)
    world.check_replay()


@pytest.mark.parametrize("killed", [2, 3])
def test_a_gpu_that_two_of_them_share_is_given_back_until_neither_needs_it(killed: int) -> None:
    config = make_config(["a"], params=Params(gpu_shared_jobs=2, gpu_grow_interval_s=GROWS_S, gpu_req_merge=True))
    world = World(config, connect=False)
    world.connect("a", gpus(4, mode=SHARED))
    world.run(spec(gpu_req="num=2..4:j_exclusive=yes", **SAVES))
    world.submit(*(spec(gpu_req="num=1:j_exclusive=no:gpack=yes") for _ in range(2)))
    world.settle()
    assert shares_of(world.job(1)) == {2: 1, 3: 1} and gpus_to_keep(world) == 3
    world.control("kill", killed)
    assert shares_of(world.job(1)) == {5 - killed: 1} and gpus_to_keep(world) == 3
    assert all(each.reason.values[0] != each.reason.values[1] for each in asked_to_end(world, 1))
    world.control("kill", 5 - killed)
    assert spared(world) == [SpareAttempt("a", 1, 1)]
    world.check_replay()


def gpus_to_keep(world: World) -> int:
    resize = world.job(1).resize
    assert resize is not None
    return len(resize.hosts[0].gpus)


def test_one_of_a_higher_queue_that_takes_what_was_to_come_is_known_to_need_it() -> None:
    world = giving(plain(2))
    until = world.job(1).save_by
    (urgent,) = world.submit(plain(2, queue="high"))
    world.settle()
    assert shares_of(world.job(1)) == {2: 2, urgent: 2} and gpus_to_keep(world) == 4
    world.control("kill", 2)
    assert shares_of(world.job(1)) == {urgent: 2} and not spared(world)
    assert (gpus_to_keep(world), world.job(1).save_by) == (6, until)
    saves(world, 1)
    assert (len(world.held(1)), world.state(urgent)) == (6, "RUN")
    world.check_replay()


def test_so_is_one_that_takes_all_that_can_come() -> None:
    world = giving(plain(6))
    (urgent,) = world.submit(plain(3, queue="high"))
    world.settle()
    assert shares_of(world.job(1)) == {2: 6, urgent: 3}
    asked = len(asked_to_end(world, 1))
    world.wait(1.0)
    world.settle()
    assert len(asked_to_end(world, 1)) == asked
    world.control("kill", 2)
    assert shares_of(world.job(1)) == {urgent: 3} and gpus_to_keep(world) == 5 and not spared(world)
    world.check_replay()


def test_one_of_a_lower_queue_may_have_what_comes_and_nobody_gives_it_back_for_that() -> None:
    world = giving(plain(2))
    world.submit(plain(1, queue="low"))
    world.settle()
    assert shares_of(world.job(1)) == {2: 2}


def test_whose_needs_have_changed_needs_no_more_what_was_to_come_after_a_restart_either() -> None:
    world = giving(plain(3), plain(2))
    world.control("stop", 1)
    assert world.modify(2, gpu_req="") == [""]
    state = world.engine.state
    assert state.waits.needs_changed == {2}
    assert ClusterState.load(state.dump()).waits.needs_changed == {2}
    world.check_replay()
    world.control("resume", 1)
    assert not state.waits.needs_changed & set(world.job(1).gives_to)


def test_nobody_waits_for_a_job_that_is_set_aside_while_it_saves_its_state() -> None:
    world = giving()
    world.engine.state.set_aside(1, "a bad record")
    assert not world.engine.state.saving and not world.engine.state.elastic
    world.control("kill", 2)
    assert world.state(2) == "EXIT"
