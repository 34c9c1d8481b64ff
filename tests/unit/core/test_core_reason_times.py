"""Pending reasons are those of the last cycle, and say when a cycle found them."""

from __future__ import annotations

from core_world import World, gpu_spec, load, make_config, spec

from gsched.core.pending.reason_times import ReasonTimes, not_come_to
from gsched.model.hosts.host import HostConfig
from gsched.model.jobs.reason import PendingReason
from gsched.model.queues.queue import Queue, Threshold
from gsched.model.scheduling.snapshot import Bucket, RequirementClass

FIVE = tuple(HostConfig(name=f"h{i}", max_slots=1) for i in range(5))


def found_at(world: World, job_id: int) -> float:
    """When the reason of the job's kind was found."""
    bucket = world.job(job_id).bucket()
    engine = world.engine
    waiting = bucket if bucket in engine.cycles.reasons else (bucket.queue, bucket.requirement)
    assert waiting in engine.cycles.reasons, "the job has no reason"
    return engine.cycles.reason_times.of(waiting)


def test_reasons_are_as_of_the_last_cycle() -> None:
    world = World()
    world.run(gpu_spec(3))
    (waiting,) = world.submit(gpu_spec(4))
    world.now += 5
    world.settle()
    assert found_at(world, waiting) == world.now
    world.now += 7
    world.cycle()
    assert found_at(world, waiting) == world.now


def test_a_cycle_that_is_cut_short_leaves_the_others_their_older_reasons() -> None:
    world = World(make_config(FIVE, (Queue(name="normal", user_limit=1),)))
    world.run(spec())
    blocked = world.submit(*[spec(res_req=f"select[ut<{i}]") for i in range(1, 9)])
    world.settle()
    before, said = world.now, {job_id: world.reasons(job_id) for job_id in blocked}
    world.now += 60
    world.submit(spec("new"))
    world.cycle(budget=2)
    times = {job_id: found_at(world, job_id) for job_id in blocked}
    assert world.engine.cycles.needs_cycle, "the cycle was not cut short"
    assert before in times.values()
    assert set(times.values()) <= {before, world.now}
    assert {job_id: world.reasons(job_id) for job_id in blocked} == said
    world.now += 1
    world.settle()
    assert before not in {found_at(world, job_id) for job_id in blocked}


def test_each_cycle_of_a_pass_has_its_time() -> None:
    world = World(make_config(FIVE))
    blocked = world.submit(*[spec(res_req=f"select[ut<-{i}]") for i in range(1, 9)], *[spec()] * 5)[:8]
    moments = []
    while world.engine.cycles.needs_cycle:
        world.now += 1
        world.cycle(budget=2)
        moments.append(world.now)
        assert len(moments) < 20
    assert {found_at(world, job_id) for job_id in blocked} <= set(moments)
    world.now += 1
    world.cycle()
    assert {found_at(world, job_id) for job_id in blocked} == {world.now}


def test_the_end_of_a_job_renews_the_reasons_of_all_kinds() -> None:
    world = World(devices=4)
    (running, _) = world.run(gpu_spec(1), gpu_spec(3))
    four, two = world.submit(gpu_spec(4), gpu_spec(2))
    world.settle()
    world.now += 9
    world.ended(running)
    world.settle()
    for job_id in (four, two):
        assert found_at(world, job_id) == world.now
        assert "1 of 4 free" in world.reasons(job_id)[0] or "1 free" in world.reasons(job_id)[0]


def test_an_agent_that_goes_away_renews_them() -> None:
    world = World()
    world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(2))
    world.settle()
    before = world.reasons(waiting)
    world.now += 3
    world.disconnect("a")
    assert world.engine.cycles.needs_cycle
    world.settle()
    assert world.reasons(waiting) != before and found_at(world, waiting) == world.now


def test_load_that_crosses_a_threshold_renews_them_and_other_load_does_not() -> None:
    world = World(make_config(queues=(Queue(name="normal", thresholds={"ut": Threshold(sched=0.5)}),)))
    world.report(load=load(ut=0.9))
    (waiting,) = world.submit(spec())
    world.settle()
    assert "0.9" in world.reasons(waiting)[0]
    world.report(load=load(ut=0.8))
    assert not world.engine.cycles.needs_cycle
    world.report(load=load(ut=0.2))
    assert world.engine.cycles.needs_cycle
    world.settle()
    assert world.state(waiting) == "RUN"
    world.report(load=load(ut=0.6))
    assert world.engine.cycles.needs_cycle


def test_a_cycle_that_starts_jobs_says_that_reasons_may_not_count_them() -> None:
    world = World(devices=4)
    assert not world.engine.cycles.misses_own_starts
    (blocked,) = world.submit(spec(res_req="select[ut<-1]"), *[gpu_spec(1)] * 3)[:1]
    world.settle()
    assert world.engine.cycles.misses_own_starts
    world.cycle()
    assert not world.engine.cycles.misses_own_starts and world.reasons(blocked)


def test_a_cycle_that_starts_jobs_lets_others_keep_their_reasons_and_the_next_one_renews_them() -> None:
    """To look for all reasons takes as long as all the rest of a cycle, and who starts would wait for it."""
    world = World()
    (known,) = world.submit(spec(res_req="select[ut<-1]"))
    world.settle()
    before = world.now
    for seconds, is_known_renewed in ((5, False), (6, True), (7, False)):
        world.now += seconds
        starts, fresh = world.submit(spec(), spec(res_req=f"select[ut<-{world.now}]"))
        world.cycle()
        assert world.state(starts) != "PEND" and world.engine.cycles.misses_own_starts
        assert found_at(world, fresh) == world.now, "one without a reason of before has to have one"
        before = world.now if is_known_renewed else before
        assert found_at(world, known) == before and world.reasons(known)
    world.cycle()
    assert found_at(world, known) == world.now, "a cycle that starts nothing looks for all of them"


def test_what_was_found_for_a_whole_class_replaces_what_was_known_of_its_buckets() -> None:
    kind, other = RequirementClass("a"), RequirementClass("b")
    here, there = Bucket("q", "ann", kind, "p"), Bucket("q", "ann", other, "p")
    reason = (PendingReason("old"),)
    assert not_come_to({here: reason, there: reason}, {("q", kind): reason}) == {there: reason}
    times = ReasonTimes(10.0).after(20.0, {("q", kind)}, [("q", kind), there])
    assert (times.of(("q", kind)), times.of(there)) == (20.0, 10.0)
    assert times.after(30.0, (), [there]).of(there) == 10.0
