"""What an attempt made of its GPUs over time goes into the history with its end: once, whatever is told twice."""

from __future__ import annotations

from core_world import World, make_config, spec

from gsched.core.command import AttemptEnded
from gsched.model.event import JobFinished, JobGpuCurves, JobRequeued, StaleResultRecorded
from gsched.model.jobs.job import AttemptResult

DONE = AttemptResult(exit_code=0)


def ended(world: World, job_id: int, data: bytes, attempt: int = 1, host: str = "a", *, is_part: bool = False) -> None:
    world.do(AttemptEnded(job_id, attempt, host, DONE, is_part, gpu_curves=data))


def told(world: World) -> list[tuple[int, int, str, bytes]]:
    found = [event for event in world.events if isinstance(event, JobGpuCurves)]
    return [(event.job_id, event.attempt, event.host, event.data) for event in found]


def test_it_comes_with_the_end_and_once() -> None:
    world = World()
    (job_id,) = world.run()
    ended(world, job_id, b"course")
    kinds = [type(event) for event in world.events]
    assert kinds.index(JobGpuCurves) == kinds.index(JobFinished) - 1, "one commit"
    for _ in range(2):  # the agent tells it again until it is told to forget
        ended(world, job_id, b"course")
    assert told(world) == [(job_id, 1, "a", b"course")]
    world.check_replay()
    world.restart()
    world.connect()
    ended(world, job_id, b"course")
    assert told(world) == [(job_id, 1, "a", b"course")]


def test_of_each_attempt_its_own() -> None:
    world = World()
    (job_id,) = world.run()
    world.control("requeue", job_id)
    ended(world, job_id, b"first")
    assert any(isinstance(event, JobRequeued) for event in world.events)
    world.wait(5)
    world.settle()
    world.started(job_id)
    ended(world, job_id, b"second", attempt=2)
    assert told(world) == [(job_id, 1, "a", b"first"), (job_id, 2, "a", b"second")]


def test_of_each_host_its_own_also_after_the_end() -> None:
    world = World(make_config(("a", "b", "c")))
    (job_id,) = world.submit(spec(slots=3, res_req="span[ptile=1]"))
    world.settle()
    for host in ("b", "c"):
        world.part_started(job_id, host)
    world.started(job_id)
    for _ in range(2):
        ended(world, job_id, b"of b", host="b", is_part=True)
    ended(world, job_id, b"of a")
    for _ in range(2):
        ended(world, job_id, b"of c", host="c", is_part=True)
    assert told(world) == [(job_id, 1, "b", b"of b"), (job_id, 1, "a", b"of a"), (job_id, 1, "c", b"of c")]
    world.check_replay()


def test_of_an_attempt_that_was_given_up() -> None:
    world = World()
    (job_id,) = world.run()
    world.disconnect()
    world.connect()  # without the attempt
    for _ in range(2):
        ended(world, job_id, b"late")
    assert sum(isinstance(event, StaleResultRecorded) for event in world.events) == 1
    assert told(world) == [(job_id, 1, "a", b"late")]


def test_without_curves_there_is_no_event() -> None:
    world = World()
    (job_id,) = world.run()
    ended(world, job_id, b"")
    assert told(world) == []
