"""Lent GPUs: jobs with a range (num=2..8) get what is idle, and give it back to jobs that wait for it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from core_lent_world import GROWS_S, SAVE_S, asked_to_end, elastic, plain, saves, world_of
from core_world import World, gpus

from gsched.base.coded_text import CodedText, coded, sentence
from gsched.base.errors import BadRequest
from gsched.base.ids import show_job
from gsched.core.instruction import SaveRequest, TerminateAttempt
from gsched.model.event import JobNoted, JobRequeued, JobRequeueRequested, JobResizeWithdrawn
from gsched.model.jobs.job import FINISHED, JobState
from gsched.model.queues.limit import Amount, Limit


def test_it_starts_with_all_that_is_free_of_its_range() -> None:
    world = world_of()
    world.run(plain(3))
    (job,) = world.run(elastic())
    assert world.held(job) == [3, 4, 5, 6, 7]
    world.check_replay()


def test_it_waits_for_its_least() -> None:
    world = world_of(4)
    world.run(plain(3))
    (job,) = world.run(elastic())
    assert world.state(job) == "PEND"
    world.ended(1)
    world.settle()
    assert world.held(job) == [0, 1, 2, 3]


def test_it_takes_no_more_than_its_least_where_others_wait_for_gpus() -> None:
    world = world_of(4)
    first, second, third = world.submit(elastic(2, 4), plain(1), plain(4))
    world.settle()
    assert (world.held(first), world.held(second), world.state(third)) == ([0, 1], [2], "PEND")


def test_jobs_that_can_never_use_the_gpus_are_in_nobodys_way() -> None:
    world = world_of(4, ("a", "b"))
    world.submit(plain(4, hosts=("b",)), plain(4, hosts=("b",)))
    (job,) = world.run(elastic(1, 4, hosts=("a",)))
    assert world.held(job) == [0, 1, 2, 3]


def test_it_gives_back_what_a_job_needs_that_waits_and_goes_on_at_once_with_the_rest() -> None:
    world = world_of()
    (lender,) = world.run(elastic())
    world.wait(10)
    (owner,) = world.submit(plain(3))
    world.settle()
    (request,) = asked_to_end(world, lender)
    assert sentence(request.reason) == f"it goes on with 5 of its 8 GPUs: job {show_job(owner)} needs lent ones"
    assert request.save_by == world.now + SAVE_S
    order = world.orders()[-1]
    assert order == TerminateAttempt("a", lender, 1, "TERM_RESIZE", save=SaveRequest(15, SAVE_S, ""))
    told = [each.text for each in world.events if isinstance(each, JobNoted) and each.job_id == owner]
    assert told == [coded("note.waits_for_lent", show_job(lender), 3, SAVE_S)]
    plan = world.engine.cycles.planned[owner]
    assert plan.at == world.now + SAVE_S
    world.check_replay()
    world.wait(5)
    saves(world, lender)
    assert (world.held(lender), world.held(owner)) == ([0, 1, 2, 3, 4], [5, 6, 7])
    assert (world.job(lender).attempt, world.job(lender).resizes, world.job(lender).restarts) == (2, 1, 0)
    requeued = next(each for each in world.events if isinstance(each, JobRequeued))
    assert requeued.resized and not requeued.restart
    world.check_replay()


def test_it_never_gives_back_its_least() -> None:
    world = world_of()
    (lender,) = world.run(elastic(4, 8))
    (owner,) = world.submit(plain(5))
    world.settle()
    assert not asked_to_end(world, lender) and world.state(owner) == "PEND"


def test_idle_gpus_are_used_before_lent_ones() -> None:
    world = world_of()
    world.run(plain(2))
    (lender,) = world.run(elastic())
    world.ended(1)
    (owner,) = world.submit(plain(3))
    world.settle()
    assert world.held(lender) == [2, 3, 4, 5, 6, 7]
    saves(world, lender)
    assert (world.held(lender), world.held(owner)) == ([2, 3, 4, 5, 6], [0, 1, 7])


def test_it_ends_once_for_all_of_a_kind_that_wait() -> None:
    world = world_of()
    (lender,) = world.run(elastic(2, 8))
    owners = world.submit(plain(1), plain(1), plain(1), plain(1))
    world.settle()
    saves(world, lender)
    assert [world.state(owner) for owner in owners] == ["RUN"] * 4
    assert len(asked_to_end(world, lender)) == 1 and len(world.held(lender)) == 4


def test_while_it_saves_it_gives_back_for_others_as_well() -> None:
    world = world_of()
    (lender,) = world.run(elastic())
    (first,) = world.submit(plain(1))
    world.settle()
    until, since = world.now + SAVE_S, len(world.instructions)
    world.wait(5)
    late = world.submit(plain(2), plain(1), plain(1))
    world.settle()
    assert [each.save_by for each in asked_to_end(world, lender)] == [until] * len(asked_to_end(world, lender))
    assert not [each for each in world.instructions[since:] if isinstance(each, TerminateAttempt)]
    world.check_replay()
    saves(world, lender)
    assert [world.state(each) for each in (first, *late)] == ["RUN"] * 4
    assert (len(world.held(lender)), world.job(lender).attempt) == (3, 2)


def test_it_is_not_asked_again_before_it_has_begun() -> None:
    world = world_of()
    (lender,) = world.submit(elastic())
    world.settle()
    world.submit(plain(1))
    world.settle()
    assert not asked_to_end(world, lender)
    world.started(lender)
    world.settle()
    assert asked_to_end(world, lender)


@pytest.mark.parametrize(("queue", "takes"), [("low", False), ("normal", True), ("high", True)])
def test_jobs_of_lower_queues_take_nothing_back(queue: str, takes: bool) -> None:
    world = world_of()
    (lender,) = world.run(elastic(queue="normal"))
    world.submit(plain(1, queue=queue))
    world.settle()
    assert bool(asked_to_end(world, lender)) is takes


def test_of_two_lenders_the_one_of_the_lower_queue_gives_back() -> None:
    world = world_of()
    (first,) = world.run(elastic(1, 4, queue="low"))
    (second,) = world.run(elastic(1, 4))
    world.submit(plain(2))
    world.settle()
    assert asked_to_end(world, first) and not asked_to_end(world, second)


def test_a_job_with_a_range_gets_its_least_from_another() -> None:
    world = world_of()
    (first,) = world.run(elastic())
    (second,) = world.submit(elastic())
    world.settle()
    saves(world, first)
    assert (len(world.held(first)), len(world.held(second))) == (6, 2)


def test_it_grows_when_gpus_are_idle_and_it_has_run_for_a_while() -> None:
    world = world_of(4)
    world.run(plain(2))
    (job,) = world.run(elastic(1, 4))
    world.ended(1)
    world.settle()
    assert not asked_to_end(world, job)
    assert world.engine.next_deadline(world.now) <= world.now + GROWS_S
    world.wait(GROWS_S)
    world.settle()
    (request,) = asked_to_end(world, job)
    assert sentence(request.reason) == "it goes on with 4 GPUs instead of 2: so many are idle"
    saves(world, job)
    assert world.held(job) == [0, 1, 2, 3]
    world.wait(GROWS_S)
    world.settle()
    assert len(asked_to_end(world, job)) == 1
    world.check_replay()


def test_what_somebody_else_has_got_meanwhile_it_does_without() -> None:
    world = world_of(4)
    world.run(plain(2))
    (job,) = world.run(elastic(1, 4))
    world.ended(1)
    world.wait(GROWS_S)
    world.settle()
    (other,) = world.run(plain(1))
    saves(world, job)
    assert (world.held(other), world.held(job)) == ([0], [1, 2, 3])


def test_it_does_not_grow_while_somebody_waits_for_the_gpus() -> None:
    world = world_of(4)
    world.run(plain(2))
    (job,) = world.run(elastic(2, 4))
    (wide,) = world.submit(plain(4))
    world.ended(1)
    world.wait(GROWS_S)
    world.settle()
    assert not asked_to_end(world, job) and world.state(wide) == "PEND"


def test_a_job_that_is_done_meanwhile_does_not_run_again() -> None:
    world = world_of()
    (lender,) = world.run(elastic())
    (owner,) = world.submit(plain(2))
    world.settle()
    saves(world, lender, exit_code=0)
    assert (world.state(lender), world.state(owner)) == ("DONE", "RUN")
    world.check_replay()


def test_one_that_does_not_answer_and_is_killed_goes_on_all_the_same() -> None:
    world = world_of()
    (lender,) = world.run(elastic())
    world.submit(plain(1))
    world.settle()
    saves(world, lender, exit_code=None, signal=9)
    assert (world.state(lender), len(world.held(lender))) == ("RUN", 7)


def test_a_killed_job_ends() -> None:
    world = world_of()
    (lender,) = world.run(elastic())
    world.submit(plain(1))
    world.settle()
    world.control("kill", lender)
    saves(world, lender)
    assert world.state(lender) == "EXIT"
    result = world.job(lender).result
    assert result is not None and result.term_reason == "TERM_OWNER"
    world.check_replay()


def test_a_restarted_master_goes_on_with_what_was_decided() -> None:
    world = world_of()
    (lender,) = world.run(elastic())
    (owner,) = world.submit(plain(2))
    world.settle()
    world.restart()
    world.connect("a", gpus(8), held=[(lender, 1)])
    saves(world, lender)
    assert (len(world.held(lender)), world.state(owner)) == (6, "RUN")


def test_limits_of_gpus_bound_what_is_lent() -> None:
    limit = Limit(name="few", amounts={"ngpus": (Amount(5),)})
    world = world_of(limits=(limit,))
    (job,) = world.run(elastic())
    assert len(world.held(job)) == 5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"saves_on_signal": False, "warning_signal": "", "warning_s": None}, "give --signal"),
        ({"slots": 2}, "span[hosts=1]"),
        ({"res_req": "{span[hosts=1]} || {rusage[mem=1]}"}, "alternatives"),
        ({"res_req": "rusage[ngpus_excl_p=1]"}, "further GPUs"),
    ],
)
def test_who_could_not_change_its_number_of_gpus_is_told_so(changes: dict[str, Any], said: str) -> None:
    world = world_of()
    with pytest.raises(BadRequest) as refused:
        world.submit(elastic(**changes))
    assert said in refused.value.text and "\n" not in refused.value.text


def play(seed: int) -> tuple[int, int, int]:
    """Random jobs come, end and are asked to save; returns how often jobs were to shrink and grow, and kept GPUs.
    World audits each step: no exclusive GPU has two owners.
    """
    chance, world = random.Random(seed), world_of(chance_hosts(seed), ("a", "b")[: 1 + seed % 2])
    for _ in range(60):
        step = chance.random()
        running = [each for each in world.engine.state.running if world.job(each).started_at is not None]
        ending = [each for each in running if world.job(each).requeue_by]
        if step < 0.35:
            queue, least = chance.choice(("low", "normal", "high")), chance.randint(1, 3)
            wanted = elastic(least, least + chance.randint(1, 5), queue=queue)
            world.submit(wanted if chance.random() < 0.5 else plain(chance.randint(1, 3), queue=queue))
        elif step < 0.6 and ending:
            job_id = chance.choice(ending)
            job, had = world.job(job_id), len(world.held(job_id))
            keeps = len(job.resize.hosts[0].gpus) if job.resize is not None else 0
            was_stopped = job.state is JobState.USUSP
            saves(world, job_id)
            assert world.state(job_id) == ("PSUSP" if was_stopped else "RUN"), seed
            if was_stopped:
                continue
            assert min(had, keeps) <= len(world.held(job_id)) <= keeps, seed  # of idle ones others may have got some
        elif step < 0.75 and running:
            job_id = chance.choice(running)
            if not world.job(job_id).requeue_by:
                job = world.job(job_id)
                world.ended(job_id, job.attempt, job.allocation.first_host)  # type: ignore[union-attr]
        elif step < 0.9:
            meddle(world, chance)
        else:
            world.wait(chance.choice((1.0, GROWS_S)))
        world.settle()
        for job_id in world.engine.state.running:
            if world.job(job_id).started_at is None:
                world.started(job_id)
    world.check_replay()
    withdrawn = [each for each in world.events if isinstance(each, JobResizeWithdrawn)]
    requests = [each for each in world.events if isinstance(each, JobRequeueRequested)]
    assert all(map(is_true, requests)), seed
    shrunk = sum("lent" in str(sentence(each.reason)) for each in requests)
    return shrunk, len(requests) - shrunk, len(withdrawn)


def is_true(request: JobRequeueRequested) -> bool:
    """Whether "5 of 8 GPUs" and "8 instead of 5" are what it says."""
    assert isinstance(request.reason, CodedText) and request.resize is not None
    has, gets = request.reason.values[:2]
    is_less = {"requeue.shrinks": int(gets) < int(has), "requeue.grows_less": int(gets) >= int(has)}
    return int(gets) == len(request.resize.hosts[0].gpus) and is_less.get(request.reason.code, int(gets) > int(has))


def meddle(world: World, chance: random.Random) -> None:
    """Somebody kills a waiting job, stops a job, lets it go on, or switches it to another queue."""
    jobs = [job for job in world.engine.state.jobs.values() if job.state not in FINISHED]
    if not jobs:
        return
    job = chance.choice(jobs)
    action = chance.choice(("stop", "resume", "switch", "kill" if job.state is JobState.PEND else "resume"))
    if action == "switch":
        world.modify(job.job_id, queue=chance.choice(("low", "normal", "high")))
    else:
        world.control(action, job.job_id)


def chance_hosts(seed: int) -> int:
    return 4 + seed % 5


def test_no_gpu_has_two_owners_and_all_go_on_with_what_they_were_told() -> None:
    found = [play(seed) for seed in range(8)]
    assert all(map(sum, zip(*found, strict=True)))


@pytest.mark.nightly
@pytest.mark.slow
def test_neither_in_many_histories() -> None:
    found = [play(seed) for seed in range(8, 40)]
    assert min(map(sum, zip(*found, strict=True))) > 1


def test_it_starts_where_it_can_have_most() -> None:
    world = world_of(4, ("a", "b"))
    world.run(plain(2, hosts=("a",)))
    (job,) = world.run(elastic(2, 4))
    assert [part.host for part in world.job(job).allocation.hosts] == ["b"]  # type: ignore[union-attr]
    assert world.held(job) == [0, 1, 2, 3]
