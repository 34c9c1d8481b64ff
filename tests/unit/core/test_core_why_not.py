"""Why one job waits and another runs or stands before it: what is said is true of the two, and in the serving order."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from itertools import combinations
from typing import Any

import pytest
from core_world import START, World, gpu_spec, job_command, make_config, spec

from gsched.base.coded_text import CodedText, sentence
from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound
from gsched.base.ids import array_of, element_id, index_of
from gsched.core.command import CompareJobs
from gsched.model.config import Params
from gsched.model.jobs.job import JobState
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.queues.user import Share
from gsched.model.views.job_comparison import ComparedJob, JobComparison
from gsched.policy.backfill.reservation_table import coming_first
from gsched.policy.match.host_refusals import host_refusals
from gsched.policy.order.serving_order import ServingOrder
from gsched.policy.requirement.reasons import Reason

FULL = 4
"""GPUs of the host of a world."""


def why_not(world: World, job_id: int, other_id: int) -> JobComparison:
    found = world.do(CompareJobs("ann", False, job_id, other_id))
    assert isinstance(found, JobComparison)
    assert isinstance(found.text, CodedText) and found.text.code not in sentence(found.text), "a text without words"
    return found


def filled(*queues: Queue, hosts: tuple[str, ...] = ("a",), **changes: Any) -> World:
    """All GPUs are held by a job of its own queue."""
    world = World(make_config(hosts=hosts, queues=(*queues, Queue(name="filler", priority=99)), **changes))
    for _ in hosts:
        world.run(gpu_spec(FULL, queue="filler", run_limit_s=600), user="fay")
    return world


NORMAL = Queue(name="normal", priority=30)


# -- both wait --------------------------------------------------------------------------------------------------------


def test_another_queue_has_the_higher_priority() -> None:
    world = filled(NORMAL, Queue(name="short", priority=40))
    (first,) = world.submit(gpu_spec(1, queue="normal"))
    (second,) = world.submit(gpu_spec(1, queue="short"))
    world.settle()
    found = why_not(world, first, second)
    assert (found.rule, found.first, found.order_rule) == ("queue_priority", second, "queue_priority")
    assert (found.job.queue_priority, found.other.queue_priority) == (30, 40)
    assert found.text == CodedText("why_not.queue_priority", (str(second), str(first), "short", 40, "normal", 30))
    assert found.reasons
    turned = why_not(world, second, first)
    assert (turned.rule, turned.first) == ("queue_priority", second)


def test_the_order_of_submission_and_what_moves_jobs() -> None:
    world = filled(NORMAL)
    first, second = world.submit(gpu_spec(1, queue="normal"), gpu_spec(1, queue="normal"))
    world.settle()
    assert (why_not(world, second, first).rule, why_not(world, second, first).first) == ("submission", first)
    assert world.order("top", second) == [""]
    assert (why_not(world, first, second).rule, why_not(world, first, second).first) == ("moved", second)


def test_priorities_of_jobs_and_elements_of_an_array() -> None:
    world = filled(NORMAL)
    world.reconfigure(world.with_params(max_user_priority=100))
    (first,) = world.submit(gpu_spec(1, queue="normal"))
    (second,) = world.submit(gpu_spec(1, queue="normal", priority=80))
    (array,) = world.submit(gpu_spec(1, queue="normal", name="x", indices="1-3"))
    world.settle()
    found = why_not(world, first, second)
    assert (found.rule, found.first, found.other.priority) == ("job_priority", second, 80.0)
    one, other = (element_id(array, index) for index in (1, 2))
    told = why_not(world, other, one)
    assert (told.rule, told.first) == ("element", one)


def fair_queue(**changes: Any) -> Queue:
    return Queue(name="fair", priority=30, fairshare=(Share("ann", 1), Share("bob", 1)), **changes)


def test_fairshare_with_what_each_has_used() -> None:
    world = World(make_config(queues=(fair_queue(), Queue(name="filler", priority=99))))
    world.run(gpu_spec(3, queue="fair", run_limit_s=600), user="ann")
    world.run(gpu_spec(1, queue="filler", run_limit_s=600), user="fay")
    world.wait(50)
    (ann,) = world.submit(gpu_spec(1, queue="fair"), user="ann")
    (bob,) = world.submit(gpu_spec(1, queue="fair"), user="bob")
    world.settle()
    found = why_not(world, ann, bob)
    assert (found.rule, found.first) == ("fairshare", bob)
    assert found.job.share is not None and found.other.share is not None
    assert found.job.share.priority < found.other.share.priority
    assert (found.job.share.name, found.other.share.name) == ("ann", "bob")
    assert found.job.share.started == 1 and found.job.share.gpu_s > 0 == found.other.share.gpu_s
    assert isinstance(found.text, CodedText) and found.text.values[2:6:2] == ("/bob", "/ann")


def test_a_reservation_keeps_its_place_when_another_users_turn_comes() -> None:
    world = World(make_config(queues=(fair_queue(), Queue(name="filler", priority=99))))
    world.run(gpu_spec(2, queue="filler", run_limit_s=600), user="fay")
    world.run(gpu_spec(1, queue="fair", run_limit_s=600), user="ann")
    (ann,) = world.submit(gpu_spec(4, queue="fair"), user="ann")
    world.settle()
    (bob,) = world.submit(gpu_spec(1, queue="fair"), user="bob")
    (later,) = world.submit(gpu_spec(1, queue="fair"), user="ann")
    world.settle()
    found = why_not(world, bob, ann)
    assert (found.rule, found.first, found.text) == (
        "reserved",
        ann,
        CodedText("why_not.reserved", (str(ann), str(bob))),
    )
    assert (why_not(world, later, bob).rule, why_not(world, later, bob).first) == ("fairshare", bob)


def test_one_that_does_not_wait_for_a_place() -> None:
    world = filled(NORMAL)
    held, other, later = world.submit(
        gpu_spec(1, queue="normal", hold=True),
        gpu_spec(1, queue="normal"),
        gpu_spec(1, queue="normal", begin_at=START + 600),
    )
    world.settle()
    found = why_not(world, held, other)
    assert (found.rule, found.first, found.order_rule) == ("hold", 0, "")
    assert why_not(world, later, other).rule == "time"
    assert why_not(world, other, held).rule == "other_not_ready"
    assert why_not(world, held, later).rule == "hold"


def test_a_closed_queue_and_a_limit_that_counts_only_one_of_them() -> None:
    world = World(make_config(queues=(NORMAL, Queue(name="short", priority=20, user_limit=1))))
    world.run(gpu_spec(4, queue="short"), user="ann")
    (ann,) = world.submit(gpu_spec(1, queue="short"), user="ann")
    (bob,) = world.submit(gpu_spec(1, queue="short"), user="bob")
    (third,) = world.submit(gpu_spec(1, queue="normal"), user="bob")
    world.settle()
    found = why_not(world, ann, bob)
    assert (found.rule, found.first, found.order_rule) == ("limit", ann, "submission")
    assert "1 used" in sentence(found.text) or "limit" in sentence(found.text)
    world.queues("inactivate", "normal")
    world.settle()
    assert why_not(world, third, bob).rule == "queue"


# -- the other runs ---------------------------------------------------------------------------------------------------


def test_it_had_started_before() -> None:
    world = World()
    (first,) = world.run(gpu_spec(4, run_limit_s=600))
    world.wait(10)
    (second,) = world.submit(gpu_spec(1))
    world.settle()
    found = why_not(world, second, first)
    assert (found.rule, found.other.hosts, found.other.gpus, found.job.gpus) == ("started_before", ("a",), 4, 1)
    assert (found.other.ends_at, found.other.is_limit) == (START + 600, True)


def test_it_came_first_in_the_order_when_both_waited() -> None:
    world = filled(NORMAL, Queue(name="short", priority=40))
    (low,) = world.submit(gpu_spec(3, queue="normal"))
    (high,) = world.submit(gpu_spec(3, queue="short"))
    world.settle()
    world.wait(100)
    world.ended(1)
    world.settle()
    assert (world.state(high), world.state(low)) == ("RUN", "PEND")
    assert why_not(world, low, high).rule == "queue_priority"


def test_what_it_holds_itself_does_not_count_against_it() -> None:
    world = World(make_config(queues=(fair_queue(), Queue(name="filler", priority=99))))
    world.run(gpu_spec(4, queue="filler", run_limit_s=600), user="fay")
    (ann,) = world.submit(gpu_spec(3, queue="fair"), user="ann")
    (bob,) = world.submit(gpu_spec(3, queue="fair"), user="bob")
    world.settle()
    world.ended(1)
    world.settle()
    world.started(ann)
    world.wait(3000)
    assert (world.state(ann), world.state(bob)) == ("RUN", "PEND")
    found = why_not(world, bob, ann)
    assert (found.rule, found.first) == ("submission", ann)
    assert found.other.share is not None and found.other.share.started == 0 == found.other.share.gpu_s


def test_hosts_that_it_cannot_use() -> None:
    world = filled(NORMAL, hosts=("a", "b"))
    (bound,) = world.submit(gpu_spec(1, queue="normal", hosts=("a",)))
    (free,) = world.submit(gpu_spec(1, queue="normal"))
    world.settle()
    world.ended(2, host="b")
    world.settle()
    assert world.state(free) == "RUN" and world.state(bound) == "PEND"
    found = why_not(world, bound, free)
    assert (found.rule, found.first) == ("hosts", bound)
    assert isinstance(found.text, CodedText) and found.text.values[2] == "b"


def test_backfill_names_the_plan() -> None:
    world = World(make_config(queues=(Queue(name="normal", priority=30, backfill=True),)))
    world.run(gpu_spec(3, run_limit_s=3600))
    (large,) = world.submit(gpu_spec(4, run_limit_s=60))
    (small,) = world.submit(gpu_spec(1, run_limit_s=600))
    world.settle()
    assert world.state(small) == "RUN"
    found = why_not(world, large, small)
    assert found.rule == "backfill" and found.planned is not None and found.planned.at == START + 3600
    assert found.other.ends_at is not None and found.other.ends_at <= found.planned.at
    assert (found.first, found.order_rule) == (large, "submission")


def test_it_needs_less() -> None:
    world = World(make_config(queues=(Queue(name="normal", priority=30, reserved_jobs=0),)))
    world.run(gpu_spec(3))
    large, small = world.submit(gpu_spec(4), gpu_spec(1))
    world.settle()
    assert world.state(small) == "RUN"
    found = why_not(world, large, small)
    assert (found.rule, found.first) == ("needs_less", large)
    assert (found.job.gpus, found.other.gpus) == (4, 1)


def test_preemption_names_the_job_that_made_room() -> None:
    queues = (
        Queue(name="high", priority=20, preemption=Preemption(preemptive=(("low", 0),))),
        Queue(name="top", priority=30, reserved_jobs=0),
        Queue(name="low", priority=10),
    )
    world = World(make_config(queues=queues, params=Params(min_run_before_preempt_s=0.0)))
    (victim,) = world.run(spec(queue="low", slots=16))
    world.wait(60)
    waiting, other = world.submit(spec(queue="top", slots=16), spec(queue="high", slots=16))
    world.settle()
    assert (world.job(victim).preempted_by, world.state(other), world.state(waiting)) == (other, "RUN", "PEND")
    found = why_not(world, waiting, other)
    assert (found.rule, found.first) == ("preemption", waiting)
    assert isinstance(found.text, CodedText) and found.text.values[2] == str(victim)


def test_bad_questions() -> None:
    world = World()
    (running,) = world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(1))
    world.settle()
    with pytest.raises(Conflict, match="does not wait"):
        why_not(world, running, waiting)
    with pytest.raises(NotFound, match="Job <99>"):
        why_not(world, waiting, 99)
    with pytest.raises(NotFound, match="Job <99>"):
        why_not(world, 99, waiting)
    with pytest.raises(BadRequest, match="itself"):
        why_not(world, waiting, waiting)
    world.ended(running)
    with pytest.raises(Conflict, match="neither waits nor runs: it is in DONE"):
        why_not(world, *world.submit(spec(hold=True)), running)


# -- random clusters --------------------------------------------------------------------------------------------------


FOUND = (1017, 1244)
"""Seeds of worlds in which the night found something."""


def random_world(seed: int) -> World:
    rng = random.Random(seed)
    shares = (Share("ann", rng.randint(1, 3)), Share("lab", rng.randint(1, 3)), Share("default", 1))
    queues = (
        Queue(name="normal", priority=30, backfill=rng.random() < 0.6, user_limit=rng.choice([None, None, 2])),
        Queue(name="short", priority=rng.choice([30, 40]), job_limit=rng.choice([None, None, 3])),
        Queue(name="fair", priority=rng.choice([20, 30]), fairshare=shares, hosts=rng.choice([None, ("a",)])),
        Queue(name="other", priority=30, fairshare=(Share("default", 1),)),
    )
    hosts = ("a", "b")[: rng.randint(1, 2)]
    world = World(make_config(hosts=hosts, queues=queues))
    world.reconfigure(world.with_params(max_user_priority=100))
    for _ in range(rng.randint(6, 20)):
        values: dict[str, Any] = {
            "queue": rng.choice(["normal", "short", "fair", "fair", "other"]),
            "run_limit_s": rng.choice([None, 600, 3600]),
            "slots": rng.choice([1, 1, 2, 8]),
            "hosts": rng.choice([(), (), ("a",)]),
            "priority": rng.choice([None, None, 70]),
            "hold": rng.random() < 0.1,
        }
        if rng.random() < 0.2:
            values |= {"name": "x", "indices": "1-3"}
        with suppress(GschedError):
            world.submit(gpu_spec(rng.randint(1, 4), **values), user=rng.choice(["ann", "bob", "cat"]))
        if rng.random() < 0.5:
            world.wait(rng.choice([1, 300]))
            world.settle()
            started(world)
        if rng.random() < 0.2:
            end_one(world, rng)
    world.settle()
    return world


def started(world: World) -> None:
    for job in list(world.engine.state.jobs.values()):
        if job.state is JobState.RUN and job.started_at is None:
            world.started(job.job_id)


def end_one(world: World, rng: random.Random) -> None:
    started(world)
    running = sorted(world.engine.state.running)
    if running:
        job = world.job(rng.choice(running))
        assert job.allocation is not None
        world.ended(job.job_id, host=job.allocation.first_host)


def is_own(world: World, job_id: int) -> bool:
    return bool(world.engine.own_reasons(job_id))


def is_true(world: World, found: JobComparison) -> bool:
    """Whether the rule holds for the two."""
    job, other, rule = found.job, found.other, found.rule
    ahead, behind = (job, other) if found.first == job.job_id else (other, job)
    planned = found.planned.at if found.planned is not None else None
    checks: dict[str, Callable[[], bool]] = {
        "hold": lambda: is_own(world, job.job_id),
        "time": lambda: is_own(world, job.job_id),
        "other_not_ready": lambda: is_own(world, other.job_id),
        "started_before": lambda: other.started_at is not None and other.started_at < job.submitted_at,
        "limit": lambda: is_stopped_by_limit(world, job),
        "queue_priority": lambda: ahead.queue_priority > behind.queue_priority,
        "job_priority": lambda: ahead.priority > behind.priority and ahead.queue_priority == behind.queue_priority,
        "fairshare": lambda: ahead.queue == behind.queue and ahead.share.priority > behind.share.priority,  # type: ignore[union-attr]
        "reserved": lambda: ahead.queue == "fair" or ahead.queue == "other",
        "submission": lambda: array_of(ahead.job_id) < array_of(behind.job_id),
        "element": lambda: index_of(ahead.job_id) < index_of(behind.job_id),
        "hosts": lambda: all(reason is not None and not reason.candidate for reason in refusals(world, found)),
        "needs_less": lambda: all(reason is not None for reason in refusals(world, found)),
        "backfill": lambda: planned is not None and (is_beside(found) or (other.ends_at or START * 9) <= planned),
        "turn": lambda: True,
        "place": lambda: bool(found.reasons),
    }
    return checks[rule]()


def is_stopped_by_limit(world: World, job: ComparedJob) -> bool:
    """Counted anew: one whose start is planned waits for a limit as well, and its reasons do not name that."""
    queue, state = world.engine.config.queues[job.queue], world.engine.state
    holders = [each for each in map(world.job, state.running) if each.spec.queue == job.queue]
    held = [(each.spec.user, sum(part.slots for part in each.allocation.hosts)) for each in holders if each.allocation]
    of_user = sum(slots for user, slots in held if user == job.user)
    limits = ((queue.job_limit, sum(slots for _, slots in held)), (queue.user_limit, of_user))
    return any(limit is not None and used + job.slots > limit for limit, used in limits)


def refusals(world: World, found: JobComparison) -> list[Reason | None]:
    snapshot, job_id = world.engine.snapshot(world.now), found.job.job_id
    array = world.engine.state.arrays.get(array_of(job_id))
    job = world.engine.state.jobs.get(job_id) or (array.element(index_of(job_id)) if array else None)
    assert job is not None
    return [reason for _, reason in host_refusals(snapshot, world.now, job.bucket(), found.other.hosts)]


def is_beside(found: JobComparison) -> bool:
    return found.planned is not None and not set(found.other.hosts) & set(found.planned.hosts)


def check_rule(world: World, job_id: int, other_id: int) -> str:
    """What was said is true of the two."""
    found = why_not(world, job_id, other_id)
    assert is_true(world, found), found
    if found.other.hosts and found.rule == found.order_rule:
        assert found.first == found.other.job_id
    return found.rule


def check_world(seed: int) -> set[str]:
    world = random_world(seed)
    engine = world.engine
    before = engine.state.dump()
    snapshot = engine.snapshot(world.now)
    served = [job_id for job_id, _ in ServingOrder(snapshot, reserved=coming_first(snapshot))]
    rules = set()
    pairs = list(combinations(served, 2))
    for one, other in random.Random(seed).sample(pairs, min(len(pairs), 12)):
        found, turned = why_not(world, other, one), why_not(world, one, other)
        assert found.first == turned.first == one, (seed, other, one, found.order_rule)
        rules |= {check_rule(world, one, other), check_rule(world, other, one)}
    held = [job.job_id for job in engine.state.jobs.values() if job.state is JobState.PSUSP]
    for job_id in [*served[:4], *held[:1]]:
        for other_id in sorted(engine.state.running)[-4:]:
            rules.add(check_rule(world, job_id, other_id))
    assert engine.state.dump() == before
    return rules


def test_what_is_said_is_true_and_in_the_serving_order() -> None:
    found = set().union(*map(check_world, (*FOUND, *range(5))))
    assert found >= {"queue_priority", "fairshare", "submission", "job_priority", "backfill", "started_before", "hold"}


@pytest.mark.nightly
def test_the_same_on_a_thousand_clusters() -> None:
    found = set().union(*map(check_world, range(5, 1_000)))
    assert found >= {"turn", "element", "needs_less", "limit", "hosts", "place"}


def test_others_may_come_between_and_a_job_may_leave() -> None:
    world = filled(NORMAL)
    first, second = world.submit(gpu_spec(1, queue="normal"), gpu_spec(1, queue="normal"))
    world.settle()
    decision = world.take(world.engine.handle(CompareJobs("ann", False, second, first), world.now, 100))
    assert decision.rest is not None
    world.do(job_command("kill", "ann", second))
    with pytest.raises(Conflict, match="does not wait"):
        while decision.rest is not None:
            decision = world.take(world.engine.go_on(decision.rest, world.now, 100))
    assert not world.engine.cycles.is_planning
