"""What would start a job now: each suggestion does, no part of one is too much, and asking changes nothing.

Clusters are made at random from a seed, and the suggestion is applied to a second one of the same seed by gmod's own
reading of the command that is told.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Generator
from contextlib import suppress
from datetime import UTC
from itertools import product
from typing import Any

import pytest
from core_world import EXCLUSIVE, SHARED, World, gpus, job_command, make_config, spec

from gsched.base.errors import Conflict, GschedError
from gsched.core.command import ExplainJob, ModifyJobs
from gsched.core.explaining.change_search import ChangeSearch, FoundChange
from gsched.core.explaining.job_changes import ChangeStep, ChangeWay, lower_amounts, thinned, with_gpu_option
from gsched.dialect.bmod import read_modification
from gsched.dialect.spec_values import ValueContext
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.queue import Queue
from gsched.model.views.explanation import JobExplanation, StartSuggestion

BUSY = 2
"""Seed of a cluster on which jobs wait."""


def asked(world: World, job_id: int) -> JobExplanation:
    found = world.do(ExplainJob("ann", False, job_id))
    assert isinstance(found, JobExplanation)
    return found


def told(world: World, job_id: int) -> list[str]:
    return [each.options for each in asked(world, job_id).suggestions]


def applied(world: World, job_id: int, command: str) -> None:
    """gmod, as a user types it; it must be taken."""
    words = shlex.split(command)
    assert words[0] == "gmod"
    wanted = read_modification(words[1:], ValueContext(cwd="/", now=world.now, zone=UTC))
    done = world.do(ModifyJobs("ann", False, (job_id,), wanted.spec, tuple(wanted.values)))
    assert [each.error for each in done] == [""], command
    world.settle()


def is_started(world: World, job_id: int) -> bool:
    return world.job(job_id).allocation is not None


# -- single ways ------------------------------------------------------------------------------------------------------


def test_as_many_gpus_as_are_free() -> None:
    world = World()
    world.run(spec(gpu_req="num=2:mode=exclusive_process"))
    (waiting,) = world.submit(spec(gpu_req="num=4:mode=exclusive_process"))
    world.settle()
    assert told(world, waiting) == ['-gpu "mode=exclusive_process:num=2"']
    applied(world, waiting, asked(world, waiting).suggestions[0].command)
    assert world.state(waiting) == "RUN"


def test_another_queue_another_host_and_what_is_cheapest_first() -> None:
    queues = (Queue(name="normal", priority=30, hosts=("a",)), Queue(name="short", priority=20))
    world = World(make_config(hosts=("a", "b"), queues=queues))
    world.run(spec(gpu_req="num=4:mode=exclusive_process"))
    (waiting,) = world.submit(spec(gpu_req="num=1:mode=exclusive_process", hosts=("a",)))
    world.settle()
    assert told(world, waiting) == ["-q short -mn"]
    (named,) = world.submit(spec(gpu_req="num=1:mode=exclusive_process", hosts=("a",), queue="short"))
    world.settle()
    assert told(world, named) == ["-mn"]


def test_a_run_limit_with_which_it_backfills() -> None:
    queue = Queue(name="normal", priority=30, backfill=True)
    world = World(make_config(queues=(queue,)))
    world.run(spec(gpu_req="num=3:mode=exclusive_process", run_limit_s=3600))
    world.submit(spec(gpu_req="num=4:mode=exclusive_process", run_limit_s=60))
    (waiting,) = world.submit(spec(gpu_req="num=1:mode=exclusive_process", run_limit_s=7200))
    world.settle()
    (found,) = asked(world, waiting).suggestions
    assert (found.options, found.hosts) == ("-W 1:00", ("a",))
    applied(world, waiting, found.command)
    assert world.state(waiting) == "RUN"


def test_less_memory_and_fewer_slots() -> None:
    world = World(make_config())
    world.run(spec(res_req="rusage[mem=60000]"))
    (waiting,) = world.submit(spec(res_req="rusage[mem=50000]"))
    world.settle()
    (found,) = asked(world, waiting).suggestions
    assert found.options == '-R "rusage[mem=39G]"'
    assert [(each.what, each.value) for each in found.changes] == [("rusage[mem]", "39G")]


def test_none_for_one_that_starts_or_does_not_wait_for_a_place() -> None:
    world = World()
    (held,) = world.submit(spec(hold=True))
    assert told(world, held) == []
    (new,) = world.submit(spec())
    assert asked(world, new).starts_now and told(world, new) == []


# -- random clusters --------------------------------------------------------------------------------------------------


FOUND = (1768,)
"""Seeds that were answered wrongly once: a job would start now if more of those that wait had a place reserved."""


def random_spec(rng: random.Random, hosts: tuple[str, ...]) -> JobSpec:
    values: dict[str, Any] = {}
    kind = rng.random()
    if kind < 0.5:
        mode = rng.choice(["", ":mode=exclusive_process", ":j_exclusive=yes"])
        gmem = rng.choice(["", "", ":gmem=20G", ":gmem=60G"])
        values["gpu_req"] = f"num={rng.randint(1, 4)}{mode}{gmem}"
    elif kind < 0.75:
        values["res_req"] = f"rusage[ngpus_physical={rng.randint(1, 3)},mem={rng.choice([9000, 40000, 70000])}]"
    else:
        values["res_req"] = f"select[mem>{rng.choice([1, 90000])}] rusage[mem={rng.choice([500, 50000, 90000])}]"
    values["slots"] = rng.choice([1, 1, 1, 2, 4, 8])
    if rng.random() < 0.3:
        values["hosts"] = (rng.choice(hosts),)
    values["exclusive"] = rng.random() < 0.1
    values["run_limit_s"] = rng.choice([None, None, 600, 3600, 7200])
    values["queue"] = rng.choice(["normal", "normal", "short", "night"])
    return spec(**values)


def random_world(seed: int) -> tuple[World, list[int]]:
    """A cluster on which jobs run and wait, the same for the same seed; and those that wait."""
    rng = random.Random(seed)
    hosts = ("a", "b", "c")[: rng.randint(1, 3)]
    queues = (
        Queue(
            name="normal",
            priority=30,
            exclusive=True,
            backfill=rng.random() < 0.7,
            job_limit=rng.choice([None, None, 6]),
        ),
        Queue(name="short", priority=40, exclusive=True, user_limit=rng.choice([None, 3])),
        Queue(name="night", priority=20, hosts=hosts[:1]),
    )
    world = World(make_config(hosts=hosts, queues=queues))
    for host in hosts:
        mode = rng.choice([EXCLUSIVE, SHARED])
        world.report(host, gpus=gpus(rng.randint(0, 4), mode, host, memory_mib=80_000, used_mib=0))
    for _ in range(rng.randint(5, 16)):
        with suppress(GschedError):  # what no host could ever give is refused
            world.submit(random_spec(rng, hosts))
        if rng.random() < 0.5:
            world.settle()
    world.settle()
    waiting = [job.job_id for job in world.engine.state.jobs.values() if job.state == "PEND" and not job.allocation]
    return world, waiting


def check_suggestions(seed: int) -> int:
    world, waiting = random_world(seed)
    count = 0
    for job_id in waiting:
        before = world.engine.state.dump()
        found = asked(world, job_id)
        assert world.engine.state.dump() == before
        assert not found.starts_now
        assert [each for each in found.suggestions if not each.changes] == []
        for each in found.suggestions:
            other, _ = random_world(seed)
            assert other.engine.state.dump() == before
            applied(other, job_id, each.command)
            assert is_started(other, job_id), (seed, each.command)
            hosts = tuple(part.host for part in other.job(job_id).allocation.parts)  # type: ignore[union-attr]
            assert hosts == each.hosts, (seed, each.command)
            check_no_option_is_too_much(seed, job_id, each)
            count += 1
    return count


def check_no_option_is_too_much(seed: int, job_id: int, found: StartSuggestion) -> None:
    words = shlex.split(found.command)[1:-1]
    starts = [place for place, word in enumerate(words) if word.startswith("-") and word[1:2].isalpha()]
    options = [words[start:end] for start, end in zip(starts, [*starts[1:], len(words)], strict=True)]
    for left_out in options if len(options) > 1 else ():
        other, _ = random_world(seed)
        rest = [word for option in options if option is not left_out for word in option]
        try:
            applied(other, job_id, shlex.join(["gmod", *rest, str(job_id)]))
        except AssertionError:
            continue  # it is refused without this part
        assert not is_started(other, job_id), (seed, found.command, left_out)


@pytest.mark.slow
def test_every_suggestion_starts_the_job_and_no_part_of_it_is_too_much() -> None:
    assert sum(map(check_suggestions, (*FOUND, *range(4)))) > 10


@pytest.mark.nightly
def test_the_same_on_thousands_of_clusters() -> None:
    assert sum(map(check_suggestions, range(4, 3_000))) > 3_000


@pytest.mark.slow
def test_in_turns_the_same_is_found_and_others_come_between() -> None:
    world, waiting = random_world(BUSY)
    assert waiting
    for job_id in waiting:
        at_one_go = asked(world, job_id)
        decision, between = world.take(world.engine.handle(ExplainJob("ann", False, job_id), world.now, 100)), 0
        while decision.rest is not None:
            between += not world.engine.cycles.is_planning
            decision = world.take(world.engine.go_on(decision.rest, world.now, 100))
        assert decision.reply == at_one_go
        assert between > 2


# -- the search alone -------------------------------------------------------------------------------------------------


def ways(*sizes: int) -> list[ChangeWay]:
    def step(way: int, number: int) -> ChangeStep:
        return ChangeStep(f"w{way}", str(number + 1), way + number / 10, lambda spec: {})

    return [ChangeWay(f"w{way}", tuple(step(way, number) for number in range(size))) for way, size in enumerate(sizes)]


def run(search: ChangeSearch) -> list[FoundChange]:
    work: Generator[None, None, list[FoundChange]] = search.run()
    try:
        while True:
            next(work)
    except StopIteration as done:
        found: list[FoundChange] = done.value
        return found


def amounts(steps: tuple[ChangeStep, ...]) -> dict[str, int]:
    return {step.what: int(step.value) for step in steps}


@pytest.mark.parametrize("seed", range(40))
def test_what_is_found_is_least_by_brute_force(seed: int) -> None:
    """The job starts where a weighted sum of changes is large enough: of each pair and single all least ones count."""
    rng = random.Random(seed)
    sizes = [rng.randint(1, 5) for _ in range(4)]
    weights = {f"w{way}": rng.randint(0, 4) for way in range(4)}
    wanted = rng.randint(3, 14)

    def enough(changes: dict[str, int]) -> bool:
        return sum(weights[what] * amount for what, amount in changes.items()) >= wanted

    def attempt(steps: tuple[ChangeStep, ...]) -> Generator[None, None, tuple[str, ...] | None]:
        yield
        return ("a",) if enough(amounts(steps)) else None

    found = [amounts(each.steps) for each in run(ChangeSearch(ways(*sizes), attempt, 10_000))]
    everything = [
        {f"w{way}": amount for way, amount in enumerate(chosen) if amount}
        for chosen in product(*(range(size + 1) for size in sizes))
    ]
    starting = [each for each in everything if enough(each)]
    assert bool(found) == bool(starting)
    for each in found:
        assert enough(each)
        for what, amount in each.items():
            assert not enough({**each, what: amount - 1}), "a step less would do"
    singles = {what: amount for each in found if len(each) == 1 for what, amount in each.items()}
    assert singles == {
        what: min(each[what] for each in starting if each.keys() == {what})
        for each in starting
        if len(each) == 1
        for what in each
    }


def test_the_number_of_tries_is_bounded() -> None:
    tries = 0

    def attempt(steps: tuple[ChangeStep, ...]) -> Generator[None, None, tuple[str, ...] | None]:
        nonlocal tries
        tries += 1
        yield
        return None

    assert run(ChangeSearch(ways(*[9] * 30), attempt, 50)) == []
    assert tries == 50


def test_values_of_gpu_options_are_exchanged_in_their_text() -> None:
    assert with_gpu_option("num=4:gmem=10G", {"num": "2"}) == "gmem=10G:num=2"
    assert with_gpu_option("num=4:gmodel=H100", {"gmodel": None}) == "num=4"
    assert with_gpu_option("gmodel=H100", {"gmodel": None}) == "num=1"


def test_amounts_get_round_and_few() -> None:
    assert lower_amounts(3) == [2, 1]
    assert lower_amounts(40_000)[:2] == [39 * 1024, 38 * 1024]
    assert lower_amounts(0.5)[-1] == 0.5 / 16
    assert len(thinned(range(1000))) == 64 and thinned(range(1000))[-1] == 999


def test_one_that_leaves_meanwhile_is_told() -> None:
    world, waiting = random_world(BUSY)
    command = ExplainJob("ann", False, waiting[0])
    decision = world.take(world.engine.handle(command, world.now, 100))
    while world.engine.cycles.is_planning:
        decision = world.take(world.engine.go_on(decision.rest, world.now, 100))
    world.do(job_command("kill", "ann", waiting[0]))
    with pytest.raises(Conflict, match="does not wait"):
        while decision.rest is not None:
            decision = world.take(world.engine.go_on(decision.rest, world.now, 100))
    assert not world.engine.cycles.is_planning
    world.settle()
