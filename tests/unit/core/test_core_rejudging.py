"""Waiting jobs follow the queue's and the cluster's requirement when the configuration changes."""

from __future__ import annotations

import msgspec
from core_world import World, make_config, spec

from gsched.base.coded_text import has_code, sentence
from gsched.base.ids import element_id
from gsched.core.submission import requirement_updates
from gsched.model.config import GpuUnrequested
from gsched.model.event import JobModified
from gsched.model.queues.queue import Queue

MEM = "rusage[mem=100.00]"


def full() -> World:
    """A cluster whose one host has no slot left."""
    world = World(make_config("a", (Queue(name="normal", priority=3), Queue(name="other", priority=3))))
    world.run(spec(slots=16))
    return world


def combined(world: World, number: int) -> str:
    return world.engine.state.item(number).spec.combined_req


def test_a_waiting_job_follows_its_queue_and_no_other_does() -> None:
    world = full()
    started = 1
    mine, theirs, own = world.submit(spec(), spec(queue="other"), spec(res_req="rusage[mem=7]"))
    before = combined(world, theirs), combined(world, started)
    world.reconfigure(world.with_queue(res_req="rusage[mem=100]"))
    world.settle()
    assert MEM in combined(world, mine)
    assert "mem=7" in combined(world, own), "the job's own reservation of a resource counts before the queue's"
    assert (combined(world, theirs), combined(world, started)) == before
    (event,) = [event for event in world.events if isinstance(event, JobModified) and event.job_id == mine]
    assert event.by == "" and "mem=100" in sentence(event.changes[0])
    world.check_replay()


def test_gpus_of_queue_and_cluster_are_followed_too() -> None:
    world = full()
    world.reconfigure(world.with_params(gpu_req="num=1:mode=exclusive_process"))
    plain, asks = world.submit(spec(), spec(gpu_req="-"))
    world.reconfigure(world.with_params(gpu_req="num=2:mode=exclusive_process"))
    world.settle()
    assert world.job(asks).spec.combined_gpu_req.startswith("num=2")
    assert world.job(plain).spec.combined_gpu_req == ""
    world.reconfigure(world.with_queue(gpu_req="num=1"))
    world.settle()
    assert world.job(plain).spec.combined_gpu_req.startswith("num=1")
    world.reconfigure(world.with_queue(gpu_req=""))
    world.settle()
    assert world.job(plain).spec.combined_gpu_req == ""
    world.reconfigure(world.with_params(gpu_unrequested=GpuUnrequested.AUTO))
    world.settle()
    assert world.job(plain).spec.auto_gpu and not world.job(asks).spec.auto_gpu
    world.check_replay()


def test_an_array_follows_as_one_record_and_its_elements_by_themselves() -> None:
    world = full()
    (array_id,) = world.submit(spec(name="many", indices="1-1000"))
    alone = element_id(array_id, 7)
    world.control("stop", alone)
    told = len(world.events)
    world.reconfigure(world.with_queue(res_req="rusage[mem=100]"))
    world.settle()
    assert [event.job_id for event in world.events[told:] if isinstance(event, JobModified)] == [alone, array_id]
    assert MEM in combined(world, array_id) and MEM in world.job(alone).spec.combined_req
    assert world.state(alone) == "PSUSP"
    world.check_replay()


def test_what_cannot_be_combined_any_more_keeps_its_requirement_and_says_so() -> None:
    world = full()
    wanted = spec(res_req="rusage[seats=1]", name="x")
    config = world.config
    job_id, array_id = world.submit(wanted, msgspec.structs.replace(wanted, indices="1-3"))
    before = combined(world, job_id)
    resources = {name: each for name, each in config.resources.items() if name != "seats"}
    world.reconfigure(msgspec.structs.replace(world.with_queue(res_req="rusage[mem=1]"), resources=resources))
    world.settle()
    for number in (job_id, array_id):
        item = world.engine.state.item(number).spec
        assert item.combined_req == before
        assert any(has_code(text, "warning.requirement_kept") for text in item.warnings), item.warnings
    world.reconfigure(config)
    world.settle()
    assert world.job(job_id).spec.warnings == ()
    world.check_replay()


def test_a_warning_goes_with_what_it_was_about() -> None:
    world = full()
    alternatives = world.with_queue(res_req="{rusage[mem=1]} || {rusage[mem=2]}")
    (job_id,) = world.submit(spec(res_req="2*{select[mem>1]} + 1*{select[mem>2]}"))
    world.reconfigure(alternatives)
    world.settle()
    assert len(world.job(job_id).spec.warnings) == 1
    world.reconfigure(world.with_queue(res_req=""))
    world.settle()
    assert world.job(job_id).spec.warnings == ()


def test_a_configuration_that_was_changed_while_the_master_was_away_counts_as_well() -> None:
    world = full()
    (job_id,) = world.submit(spec())
    world.config = world.with_queue(res_req="rusage[mem=100]")
    world.engine.config = world.config
    world.restart()
    world.settle()
    assert MEM in combined(world, job_id)


def test_a_job_that_is_requeued_is_combined_anew() -> None:
    world = World()
    (job_id,) = world.run(spec())
    world.reconfigure(world.with_queue(res_req="rusage[mem=100]"))
    world.settle()
    assert MEM not in combined(world, job_id)
    world.order("requeue", job_id)
    world.ended(job_id, exit_code=None, signal=15)
    world.settle()
    assert MEM in combined(world, job_id) and world.state(job_id) == "RUN"
    world.check_replay()


def test_many_jobs_are_done_in_pieces_and_nothing_starts_meanwhile() -> None:
    world = full()
    ids = world.submit(*(spec() for _ in range(requirement_updates.MOST_CHANGED * 2 + 1)))
    world.reconfigure(world.with_queue(res_req="rusage[mem=100]"))
    world.ended(1)
    for _ in range(3):
        assert world.engine.cycles.needs_cycle
        events = world.cycle().events
        changed = [event for event in events if isinstance(event, JobModified)]
        assert 0 < len(changed) <= requirement_updates.MOST_CHANGED
        assert not any("mem=100" not in combined(world, each) and world.state(each) == "RUN" for each in ids)
    world.settle()
    assert all(MEM in combined(world, each) for each in ids)
    assert len({id(world.job(each).spec) for each in ids}) == 1, "equal specs stay one object"
