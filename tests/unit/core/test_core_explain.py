"""Why a job waits, host by host and until when; asking changes nothing."""

from __future__ import annotations

import pytest
from core_world import START, World, gpu_spec, gpus, make_config, spec

from gsched.base.coded_text import CodedText, sentence
from gsched.base.errors import Conflict, NotFound
from gsched.core.command import DryRunJob, ExplainJob
from gsched.model.queues.queue import Queue
from gsched.model.views.explanation import JobExplanation


def asked(world: World, job_id: int) -> JobExplanation:
    found = world.do(ExplainJob("ann", False, job_id))
    assert isinstance(found, JobExplanation)
    return found


def code(text: object) -> str:
    return text.code if isinstance(text, CodedText) else str(text)


def test_who_holds_the_gpus_and_when_the_last_of_them_ends() -> None:
    world = World()
    (first,) = world.run(gpu_spec(3, run_limit_s=600))
    (waiting,) = world.submit(gpu_spec(2, run_limit_s=60))
    world.cycle()
    found = asked(world, waiting)
    assert (found.user, found.queue, found.state) == ("ann", "normal", "PEND")
    assert found.reasons and not found.waits_for and not found.starts_now
    (group,) = found.hosts
    assert (code(group.text), group.count, group.candidate) == ("pending.reserving", 1, True)
    (host,) = group.hosts
    (holder,) = host.holders
    assert (host.host, holder.job_id, holder.user, holder.gpus, holder.state) == ("a", first, "ann", 3, "RUN")
    assert (holder.ends_at, holder.is_limit) == (START + 600, True)
    assert found.planned is not None and (found.planned.at, found.planned.hosts) == (START + 600, ("a",))
    assert found.is_reserved and not found.is_alone
    (awaited,) = found.awaits
    assert (awaited.job_id, awaited.user, awaited.at, awaited.is_limit) == (first, "ann", START + 600, True)


def test_a_job_without_a_run_limit_makes_the_start_unknown() -> None:
    world = World()
    (first,) = world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(1))
    world.cycle()
    found = asked(world, waiting)
    assert found.planned is not None and found.planned.at is None and not found.awaits
    assert isinstance(found.planned.text, CodedText) and found.planned.text.code == "planned.unknown"
    assert str(first) in str(found.planned.text)


def test_a_planned_job_without_a_run_limit_is_named_by_those_behind_it() -> None:
    world = World()
    world.run(gpu_spec(4, run_limit_s=600))
    second, third, fourth = world.submit(gpu_spec(4, run_limit_s=60), gpu_spec(4), gpu_spec(4, run_limit_s=60))
    world.cycle()
    before, found = asked(world, third), asked(world, fourth)
    assert before.planned is not None and before.planned.at == START + 660
    assert found.planned is not None and found.planned.at is None
    assert code(found.planned.text) == "planned.unknown"
    assert f"no run limit on job {third}, which comes before it" in sentence(found.planned.text), second


def test_behind_others_the_start_is_planned_for_the_answer() -> None:
    world = World()
    (first,) = world.run(gpu_spec(4, run_limit_s=600))
    second, third = world.submit(gpu_spec(4, run_limit_s=300), gpu_spec(4, run_limit_s=60))
    world.cycle()
    found = asked(world, third)
    assert not found.is_reserved and not found.is_alone
    assert found.planned is not None and found.planned.at == pytest.approx(START + 900, abs=1)
    (awaited,) = found.awaits
    assert (awaited.job_id, awaited.is_started) == (second, False)
    assert {job.job_id for job in world.engine.state.running.values()} == {first}


def test_jobs_of_higher_queues_come_before_a_start_that_is_reserved() -> None:
    """The higher queue reserves for its first job alone; its second comes before the lower queue's job all the same."""
    queues = (
        Queue(name="normal", priority=30),
        Queue(name="short", priority=40),
        Queue(name="closed", priority=50),
        Queue(name="elsewhere", priority=60, hosts=("b",)),
    )
    world = World(make_config(hosts=("a", "b"), queues=queues))
    world.queues("inactivate", "closed")
    world.run(gpu_spec(4, run_limit_s=600, hosts=("a",)))
    world.submit(*(gpu_spec(4, run_limit_s=300, hosts=("a",), queue="short", name=f"n{n}") for n in range(2)))
    (waiting,) = world.submit(gpu_spec(4, run_limit_s=60, hosts=("a",)))
    world.settle()
    assert world.engine.cycles.planned[waiting].at == START + 900, "the cycle knows of one of them"
    found = asked(world, waiting)
    assert found.planned is not None and found.planned.at == pytest.approx(START + 1200, abs=1)
    assert not found.is_reserved and found.higher_queues == ("short",)
    dry = world.do(DryRunJob("ann", False, gpu_spec(4, hosts=("a",)))).explanation
    assert dry.higher_queues == ("short",)
    highest = world.do(DryRunJob("ann", False, gpu_spec(4, hosts=("a",), queue="short"))).explanation
    assert highest.planned is not None and highest.planned.at is not None and highest.higher_queues == ()


def test_hosts_are_told_by_reason_with_numbers_of_their_own() -> None:
    world = World(make_config(hosts=("a", "b", "c")))
    world.report("b", gpus=gpus(2, host="b"))
    world.report("c", gpus=gpus(0, host="c"))
    world.run(gpu_spec(4, hosts=("a",)))
    (waiting,) = world.submit(gpu_spec(3, hosts=("a", "b")))
    world.cycle()
    found = asked(world, waiting)
    told = {host.host: code(group.text) for group in found.hosts for host in group.hosts}
    assert told == {"a": "pending.reserving", "b": "pending.reserving", "c": "pending.not_asked"}
    (near,) = [group for group in found.hosts if group.candidate]
    details = {host.host: str(host.detail) for host in near.hosts}
    assert details["a"] != details["b"]


def test_what_comes_first_is_told() -> None:
    world = World()
    (held,) = world.submit(spec(hold=True))
    (later,) = world.submit(spec(begin_at=START + 60))
    (first,) = world.run(spec())
    (dependent,) = world.submit(spec(dependency=f"ended({first})"))
    world.settle()
    for job_id, what in ((held, "hold"), (later, "time"), (dependent, "condition")):
        found = asked(world, job_id)
        assert (found.waits_for, found.planned, found.hosts) == (what, None, ())
        assert found.reasons and found.waits_until == (START + 60 if what == "time" else None)


def test_the_ends_of_jobs_that_its_condition_names() -> None:
    world = World()
    first, second, third = world.run(spec(run_limit_s=600), spec(run_limit_s=60), spec())
    (dependent,) = world.submit(spec(dependency=f"done({first}) && done({second}) && ended({third})"))
    world.settle()
    found = asked(world, dependent)
    told = [(each.job_id, each.at - world.now, each.is_limit, each.is_started) for each in found.awaits]
    assert told == [(first, 600.0, True, True), (second, 60.0, True, True)], "of the third nobody knows"


def test_only_of_those_that_wait() -> None:
    world = World()
    (running,) = world.run(spec())
    with pytest.raises(Conflict, match="does not wait"):
        asked(world, running)
    with pytest.raises(NotFound, match="Job <99>"):
        asked(world, 99)


def test_asking_leaves_all_as_it_is() -> None:
    world = World()
    world.run(gpu_spec(4, run_limit_s=600))
    waiting = world.submit(*[gpu_spec(count, run_limit_s=60) for count in (4, 3, 2, 1)])
    world.cycle()
    before = (dict(world.engine.cycles.planned), dict(world.engine.cycles.reasons))
    found = [asked(world, job_id) for job_id in waiting]
    assert [asked(world, job_id) for job_id in waiting] == found
    assert (dict(world.engine.cycles.planned), dict(world.engine.cycles.reasons)) == before
    assert not world.engine.cycles.is_planning and not world.engine.audit()


def test_an_array_is_explained_by_those_of_its_elements_that_wait() -> None:
    world = World()
    world.run(gpu_spec(4, run_limit_s=600))
    (array,) = world.submit(gpu_spec(1, name="a", indices="1-3"))
    world.cycle()
    found = asked(world, array)
    assert found.planned is not None and found.hosts
