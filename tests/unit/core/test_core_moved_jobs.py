"""The defragmentation advisor: the jobs that it names are the cheapest set there is, and the waiting job starts."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from contextlib import suppress
from itertools import combinations

import pytest
from core_measures import applied
from core_world import EXCLUSIVE, World, gpu_spec, gpus, make_config
from msgspec.structs import replace
from test_core_start_changes import asked, random_spec

from gsched.base.errors import GschedError
from gsched.core.command import ExplainJob
from gsched.core.explaining.cheapest_moves import CheapestMoves, Chosen, MoveCost, cost_of, sets_by_cost
from gsched.model.queues.queue import Queue
from gsched.model.views.explanation import AdminMeasure, MovedJob

QUEUES = (Queue(name="normal", priority=30), Queue(name="urgent", priority=60))


def moves(world: World, job_id: int) -> list[AdminMeasure]:
    return [each for each in asked(world, job_id).measures if each.jobs]


def test_the_job_that_has_lost_least_is_moved_where_it_goes_on() -> None:
    world = World(make_config(hosts=("a", "b"), queues=QUEUES))
    (old,) = world.run(gpu_spec(2, rerunnable=True, hosts=("a",)))
    world.wait(600)
    (new,) = world.run(gpu_spec(2, rerunnable=True, hosts=("b",)))
    world.wait(60)
    (waiting,) = world.submit(gpu_spec(4, queue="urgent"))
    world.settle()
    (found,) = moves(world, waiting)
    assert (found.commands, found.hosts) == ((f"grequeue {new}",), ("b",))
    assert found.jobs == (MovedJob(job_id=new, user="ann", gpus=2, lost_gpu_s=120, lost_s=60),)
    applied(world, found)
    assert world.state(waiting) == "RUN" and world.state(old) == "RUN"


def test_one_that_starts_again_elsewhere_is_told_so() -> None:
    world = World(make_config(hosts=("a", "b")))
    (moved,) = world.run(gpu_spec(2, rerunnable=True))
    (host,) = [part.host for part in world.job(moved).allocation.hosts]  # type: ignore[union-attr]
    other = {"a": "b", "b": "a"}[host]
    world.run(gpu_spec(2, hosts=(other,)))
    (waiting,) = world.submit(gpu_spec(4))
    world.settle()
    (found,) = moves(world, waiting)
    assert found.hosts == (host,) and [each.hosts for each in found.jobs] == [(other,)]
    applied(world, found)
    assert world.state(waiting) == "RUN" and world.state(moved) == "RUN"


def test_jobs_that_are_not_rerunnable_stay_where_they_are() -> None:
    world = World()
    world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(1))
    world.settle()
    assert moves(world, waiting) == []


def test_one_that_would_take_its_place_again_is_not_moved() -> None:
    world = World()
    world.run(gpu_spec(4, rerunnable=True))
    (waiting,) = world.submit(gpu_spec(4))
    world.settle()
    assert moves(world, waiting) == [], "the requeued job comes before it"


def test_what_costs_nothing_comes_first() -> None:
    world = World(make_config(hosts=("a", "b", "c"), queues=QUEUES))
    world.hosts("close", "c")
    world.run(gpu_spec(2, rerunnable=True, hosts=("a",)), gpu_spec(2, hosts=("b",)))
    (waiting,) = world.submit(gpu_spec(4, queue="urgent"))
    world.settle()
    assert asked(world, waiting).measures[0].commands == ("gadmin hopen c",)
    assert len(moves(world, waiting)) == 1


# -- against brute force ----------------------------------------------------------------------------------------------


def full_world(seed: int) -> tuple[World, list[int]]:
    """A small cluster on which rerunnable jobs run, the same for the same seed; and the jobs that wait."""
    rng = random.Random(seed)
    hosts = ("a", "b", "c", "d")[: rng.randint(2, 4)]
    queues = (
        Queue(name="normal", priority=30, exclusive=True, job_limit=rng.choice([None, None, 8])),
        Queue(name="short", priority=40, exclusive=True),
        Queue(name="night", priority=20, hosts=hosts[:1]),
    )
    world = World(make_config(hosts=hosts, queues=queues))
    for host in hosts:
        world.report(host, gpus=gpus(rng.randint(2, 4), EXCLUSIVE, host, memory_mib=80_000, used_mib=0))
    for _ in range(rng.randint(4, 8)):
        wanted = random_spec(rng, hosts) if rng.random() < 0.5 else gpu_spec(rng.randint(1, 3))
        with suppress(GschedError):  # what no host could ever give is refused
            world.run(replace(wanted, rerunnable=rng.random() < 0.7))
        world.wait(rng.randint(1, 900))
    for _ in range(rng.randint(1, 3)):
        with suppress(GschedError):
            world.submit(replace(gpu_spec(rng.randint(2, 4)), queue=rng.choice(["short", "short", "short", "normal"])))
    world.settle()
    jobs = world.engine.state.jobs.values()
    return world, [job.job_id for job in jobs if job.state == "PEND" and not job.allocation]


def check_against_brute_force(seed: int) -> int:
    """Move each set of rerunnable jobs by commands on a cluster of its own; compare the cost of the cheapest."""
    world, waiting = full_world(seed)
    count = 0
    for job_id in waiting[:1]:
        answer = asked(world, job_id)
        if answer.starts_now or answer.waits_for:
            continue
        assert not answer.measures_cut
        movable = [job.job_id for job in world.engine.state.jobs.values() if job.state == "RUN" and job.spec.rerunnable]
        cheapest = min((lost(world, each) for each in sets(movable) if starts(seed, each, job_id)), default=None)
        told = [lost(world, [job.job_id for job in each.jobs]) for each in answer.measures if each.jobs]
        assert told == ([] if cheapest is None else [cheapest]), (seed, job_id)
        count += bool(told)
    return count


def sets(ids: list[int]) -> list[tuple[int, ...]]:
    return [each for size in range(1, len(ids) + 1) for each in combinations(ids, size)]


def lost(world: World, ids: Sequence[int]) -> tuple[float, float, int]:
    jobs = [world.job(each) for each in ids]
    ran = [world.now - (job.started_at or world.now) for job in jobs]
    held = [sum(len(part.gpus) for part in job.allocation.hosts) for job in jobs if job.allocation]
    return (sum(s * n for s, n in zip(ran, held, strict=True)), sum(ran), len(jobs))


def starts(seed: int, ids: tuple[int, ...], job_id: int) -> bool:
    other, _ = full_world(seed)
    applied(other, AdminMeasure(changes=(), commands=()), (f"grequeue {' '.join(map(str, ids))}",))
    return other.job(job_id).allocation is not None


@pytest.mark.slow
def test_no_set_of_jobs_is_cheaper() -> None:
    assert sum(map(check_against_brute_force, range(1, 12))) > 4


@pytest.mark.nightly
def test_the_same_on_thousands_of_clusters() -> None:
    assert sum(map(check_against_brute_force, range(2_000))) > 200


# -- the search alone -------------------------------------------------------------------------------------------------


def found_by(costs: list[MoveCost], needs: list[Chosen], most: int) -> tuple[Chosen | None, bool]:
    """The job has room where one of each of `needs` is gone."""

    def room(chosen: Chosen) -> Generator[None, None, bool]:
        yield
        return all(chosen & each for each in needs)

    def plan(chosen: Chosen) -> Generator[None, None, str | None]:
        yield
        return "plan" if all(chosen & each for each in needs) else None

    search = CheapestMoves(costs, room, plan, most)
    work = search.run()
    try:
        while True:
            next(work)
    except StopIteration as done:
        return (done.value[0] if done.value else None), search.is_cut


@pytest.mark.parametrize("seed", range(50))
def test_the_search_finds_the_cheapest(seed: int) -> None:
    rng = random.Random(seed)
    costs = [(float(rng.randint(0, 9)), float(rng.randint(0, 9))) for _ in range(9)]
    needs = [frozenset(rng.sample(range(9), rng.randint(1, 4))) for _ in range(rng.randint(1, 4))]
    found, is_cut = found_by(costs, needs, 10_000)
    best = min(cost_of(costs, each) for each in sets_by_cost(costs) if all(each & need for need in needs))
    assert not is_cut and found is not None and cost_of(costs, found) == best


def test_all_sets_come_in_the_order_of_their_cost() -> None:
    costs = [(3.0, 1.0), (0.0, 2.0), (0.0, 0.0), (1.0, 7.0)]
    order = [cost_of(costs, each) for each in sets_by_cost(costs)]
    assert order == sorted(order) and len(set(sets_by_cost(costs))) == 15
    assert list(sets_by_cost([])) == []


def test_a_search_that_is_cut_says_so() -> None:
    needs = [frozenset({place}) for place in range(12)]
    assert found_by([(1.0, 1.0)] * 12, needs, 5) == (None, True)


def test_in_turns_a_job_that_ends_meanwhile_costs_nothing() -> None:
    world = World(make_config(hosts=("a", "b")))
    (gone,) = world.run(gpu_spec(2, rerunnable=True, hosts=("a",)))
    world.run(gpu_spec(2, rerunnable=True, hosts=("b",)))
    world.wait(60)
    (waiting,) = world.submit(gpu_spec(4, hosts=("a",)))
    world.settle()
    decision = world.take(world.engine.handle(ExplainJob("ann", False, waiting), world.now, 100))
    while world.engine.cycles.is_planning:
        decision = world.take(world.engine.go_on(decision.rest, world.now, 100))
    world.ended(gone)
    while decision.rest is not None:
        decision = world.take(world.engine.go_on(decision.rest, world.now, 100))
    assert not world.engine.cycles.is_planning
