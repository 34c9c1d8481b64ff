"""A growing job that is asked to give GPUs back counts on those alone that it can get, and is told the truth."""

from __future__ import annotations

from core_lent_world import GROWS_S, SAVE_S, asked_to_end, elastic, plain, saves, world_of
from core_world import World, spec

from gsched.base.coded_text import coded, sentence
from gsched.base.ids import show_job
from gsched.model.event import JobNoted

LENDER = 3


def growing(least: int, has: int, devices: int, *, other: int = 0) -> World:
    """The lender has the last GPUs of the host and saves its state, to get those before them; `other`: so many of these
    job 1 has still.
    """
    world, idle = world_of(devices), devices - has - other
    world.run(plain(other) if other else spec(), plain(idle), elastic(least, devices))
    world.ended(2)
    world.wait(GROWS_S)
    world.settle()
    assert world.job(LENDER).is_resizing and len(gpus_to_get(world)) == has + idle
    return world


def gpus_to_get(world: World) -> list[int]:
    resize = world.job(LENDER).resize
    assert resize is not None
    return [gpu.index for gpu in resize.hosts[0].gpus]


def why(world: World) -> str:
    return sentence(asked_to_end(world, LENDER)[-1].reason)


def told(world: World, job_id: int) -> list[object]:
    return [each.text for each in world.events if isinstance(each, JobNoted) and each.job_id == job_id]


def test_one_that_others_have_taken_the_idle_gpus_from_counts_on_its_own_alone() -> None:
    world = growing(least=1, has=2, devices=4)
    world.run(plain(1), plain(1))
    (owner,) = world.submit(plain(1))
    world.settle()
    assert why(world) == f"it goes on with 1 of its 2 GPUs: job {show_job(owner)} needs lent ones"
    assert told(world, owner) == [coded("note.waits_for_lent", show_job(LENDER), 1, SAVE_S)]
    saves(world, LENDER)
    assert (world.held(LENDER), world.held(owner)) == ([2], [3])
    world.check_replay()


def test_it_never_gives_back_its_least_for_gpus_that_others_have_taken() -> None:
    world = growing(least=2, has=3, devices=5)
    world.run(plain(1), plain(1))
    (owner,) = world.submit(plain(2))
    world.settle()
    assert world.state(owner) == "PEND" and len(asked_to_end(world, LENDER)) == 1
    saves(world, LENDER)
    assert (world.state(LENDER), world.held(LENDER)) == ("RUN", [2, 3, 4])


def test_it_gives_up_what_is_idle_before_what_it_has() -> None:
    world = growing(least=2, has=4, devices=6)
    (owner,) = world.submit(plain(3))
    world.settle()
    assert why(world) == f"it goes on with 3 of its 4 GPUs: job {show_job(owner)} needs lent ones"
    assert gpus_to_get(world) == [2, 3, 4]
    saves(world, LENDER)
    assert (world.held(LENDER), world.held(owner)) == ([2, 3, 4], [0, 1, 5])
    world.check_replay()


def test_one_that_gets_no_more_because_another_needs_the_idle_ones_is_told_so() -> None:
    world = growing(least=2, has=2, devices=6, other=2)
    world.control("requeue", 1)
    (owner,) = world.submit(plain(4, queue="high"))
    world.settle()
    assert gpus_to_get(world) == [4, 5]
    assert why(world) == f"it goes on with 2 GPUs and has 2: job {show_job(owner)} needs others that it was to get"
    assert not told(world, owner) and not world.job(LENDER).gives_to
    world.wait(1.0)
    world.settle()
    assert len(asked_to_end(world, LENDER)) == 2
    world.ended(1)
    world.settle()
    assert world.held(owner) == [0, 1, 2, 3]
    saves(world, LENDER)
    assert world.held(LENDER) == [4, 5]
    world.check_replay()


def test_what_each_gets_is_told_and_no_time_that_is_over() -> None:
    world = world_of()
    (lender,) = world.run(elastic())
    first, second = world.submit(plain(2), plain(2))
    world.settle()
    assert told(world, first) == [coded("note.waits_for_lent", show_job(lender), 2, SAVE_S)]
    world.wait(SAVE_S + 5.0)
    (late,) = world.submit(plain(1))
    world.settle()
    assert told(world, late) == [coded("note.waits_for_lent", show_job(lender), 1, 0)]
    assert not told(world, second)
