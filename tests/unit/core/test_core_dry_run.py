"""What is said of a job that is not submitted is what happens when it is; asking changes nothing."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable
from datetime import UTC
from typing import Any

import msgspec
import pytest
from core_world import START, World, gpu_spec, make_config, spec
from test_core_limit_measures import limited_world
from test_core_start_changes import random_spec, random_world

from gsched.base.errors import BadRequest, GschedError, ResourceExhausted
from gsched.core.command import DryRunJob
from gsched.core.records.job import JobRecord
from gsched.dialect.bmod import read_modification
from gsched.dialect.spec_values import ValueContext
from gsched.model.config import Params
from gsched.model.jobs.job import JobSpec
from gsched.model.queues.limit import Amount, Consumers, Limit
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share
from gsched.model.views.explanation import JobDryRun, StartSuggestion

LEFT_OUT: dict[str, dict[str, Any]] = {
    "hosts": {"hosts": (), "host_levels": (), "other_hosts": False, "first_hosts": ()},
    "exclusive": {"exclusive": False},
}


def asked(world: World, wanted: JobSpec) -> JobDryRun:
    found = world.do(DryRunJob("ann", False, wanted))
    assert isinstance(found, JobDryRun)
    return found


def places(job: JobRecord) -> list[tuple[str, int, tuple[int, ...]]]:
    parts = job.allocation.parts if job.allocation is not None else ()
    return [(part.host, part.slots, tuple(gpu.index for gpu in part.gpus)) for part in parts]


def test_where_it_starts_with_which_gpus_and_that_nothing_is_left_of_it() -> None:
    world = World()
    world.run(gpu_spec(1))
    before, events = world.engine.state.dump(), len(world.events)
    found = asked(world, gpu_spec(2))
    assert found.explanation.starts_now and not found.explanation.suggestions
    assert (world.engine.state.dump(), len(world.events)) == (before, events)
    (job_id,) = world.run(gpu_spec(2))
    assert job_id == 2, "no number was used up"
    assert [(each.host, each.slots, each.gpus) for each in found.parts] == places(world.job(job_id))


def test_when_it_starts_and_what_would_start_it_now() -> None:
    world = World()
    world.run(gpu_spec(3, run_limit_s=600))
    found = asked(world, spec(res_req="rusage[ngpus_excl_p=2]"))
    told = found.explanation
    assert not told.starts_now and not found.parts and told.reasons
    assert told.planned is not None and told.planned.at == START + 600
    assert [each.options for each in told.suggestions] == ['-R "rusage[ngpus_excl_p=1]"']
    assert told.suggestions[0].command == "" and told.hosts


def test_what_it_takes_of_a_budget_of_gpu_hours() -> None:
    budget = Limit(name="month", gpu_hours=10.0, budget_window_s=86_400.0, users=Consumers(per=True))
    others = Limit(name="others", gpu_hours=1.0, budget_window_s=86_400.0, users=Consumers(names=("bob",)))
    world = World(make_config(limits=(budget, others)))
    world.run(gpu_spec(1))
    world.wait(3600.0)

    def takes(wanted: JobSpec) -> list[tuple[str, float | None, float, float | None]]:
        return [(each.limit, each.takes, each.used, each.allowed) for each in asked(world, wanted).limits]

    assert takes(gpu_spec(3, run_limit_s=7200)) == [("month", 6.0, 1.0, 10.0)]
    assert takes(gpu_spec(3)) == [("month", None, 1.0, 10.0)], "how long it runs is not known"
    assert takes(spec()) == [], "it wants no GPU"


def test_what_it_takes_of_limits() -> None:
    own = Limit(name="few", users=Consumers(names=("ann",)), amounts={"slots": (Amount(amount=4.0),)})
    queue = Queue(name="normal", priority=30, job_limit=6)
    world = World(make_config(queues=(queue,), limits=(own,)))
    world.run(spec(slots=1))
    found = asked(world, spec(slots=2))
    takes = {(each.limit, each.kind): (each.takes, each.used, each.allowed) for each in found.limits}
    assert takes[("few", "section")] == (2, 1, 4)
    assert takes[("", "queue")] == (2, 1, 6)


def test_what_would_be_refused_is_refused() -> None:
    world = World(make_config(params=Params(max_pending=0)))
    with pytest.raises(ResourceExhausted):
        asked(world, spec())
    world = World()
    with pytest.raises(BadRequest):
        asked(world, gpu_spec(99))
    with pytest.raises(BadRequest, match="No such queue"):
        asked(world, spec(queue="none", queue_named=True))


def test_what_comes_first_is_told_and_the_rest_is_as_if_it_had_come() -> None:
    world = World()
    assert asked(world, spec(hold=True)).explanation.waits_for == "hold"
    held = asked(world, spec(hold=True)).explanation
    assert held.starts_now


def changed(wanted: JobSpec, found: StartSuggestion) -> JobSpec:
    """The submission with the suggestion's options instead of its own."""
    values: dict[str, Any] = {}
    for change in found.changes:
        values |= LEFT_OUT.get(change.what, {})
    if "select" in {change.what for change in found.changes} and "-R" not in found.options:
        values["res_req"] = ""
    if found.options:
        words = [*shlex.split(found.options), "1"]
        values |= read_modification(words, ValueContext(cwd="/", now=START, zone=UTC)).values
    return msgspec.structs.replace(wanted, **values)


def with_shares_and_limits(seed: int) -> tuple[World, list[int]]:
    """Two users whose turns are by fairshare; sections, and limits of queues, users, processors and arrays."""
    return limited_world(seed, (Share("ann", 3), Share("bob", 1)))


Make = Callable[[int], tuple[World, list[int]]]


def check(seed: int, make: Make = random_world) -> int:
    rng = random.Random(-seed)
    world, _ = make(seed)
    wanted = random_spec(rng, tuple(world.config.hosts))
    before = world.engine.state.dump()
    try:
        found = asked(world, wanted)
    except GschedError:
        with pytest.raises(GschedError):
            world.submit(wanted)
        return 0
    assert world.engine.state.dump() == before
    (job_id,) = world.submit(wanted)
    world.settle()
    job = world.job(job_id)
    assert (job.allocation is not None) == found.explanation.starts_now, seed
    assert [(each.host, each.slots, each.gpus) for each in found.parts] == places(job), seed
    assert job.spec.queue == found.explanation.queue
    for each in found.explanation.suggestions:
        other, _ = make(seed)
        (number,) = other.submit(changed(wanted, each))
        other.settle()
        assert other.job(number).allocation is not None, (seed, each)
    return 1


def test_what_it_says_is_what_happens_when_it_is_submitted() -> None:
    assert sum(map(check, range(20))) > 5


@pytest.mark.slow
def test_the_same_with_fairshare_and_limits() -> None:
    assert sum(check(seed, with_shares_and_limits) for seed in range(40)) > 5


@pytest.mark.nightly
def test_the_same_on_thousands_of_clusters() -> None:
    assert sum(map(check, range(20, 3_000))) > 1_000
    assert sum(check(seed, with_shares_and_limits) for seed in range(20, 3_000)) > 1_000


def test_it_is_planned_in_turns_between_which_jobs_are_accepted() -> None:
    world, _ = random_world(2)
    wanted = spec(res_req="rusage[mem=90000]", slots=8)
    at_one_go = asked(world, wanted)
    assert at_one_go.explanation.suggestions
    decision = world.take(world.engine.handle(DryRunJob("ann", False, wanted), world.now, 100))
    turns = 0
    while decision.rest is not None:
        turns += 1
        if not world.engine.cycles.is_planning and turns == 3:
            world.submit(spec(hold=True))
        decision = world.take(world.engine.go_on(decision.rest, world.now, 100))
    assert turns > 3 and isinstance(decision.reply, JobDryRun)
    assert decision.reply.explanation.reasons == at_one_go.explanation.reasons
