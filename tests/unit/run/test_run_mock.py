"""The scripted executor: ends come on its clock, in order, and every rule of the real one that can be had is kept."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.clock import ManualClock, SystemClock
from gsched.base.errors import Conflict
from gsched.model.job import AttemptResult, Usage
from gsched.run.mock import MockExecutor, MockRun, behaviour_of
from gsched.run.order import Executor, Order


class World:
    def __init__(self, script=None, clock=None) -> None:
        self.clock = clock or ManualClock(1000.0)
        self.started: list[int] = []
        self.ended: dict[int, AttemptResult] = {}
        self.order_of_ends: list[int] = []
        self.executor = MockExecutor(
            self.clock, on_started=lambda job, _, info: self.started.append(job), on_ended=self._end, script=script
        )

    def _end(self, job: int, _: int, result: AttemptResult) -> None:
        self.ended[job] = result
        self.order_of_ends.append(job)

    def start(self, job: int, command: str, **fields) -> None:
        asyncio.run(self.executor.start(Order(job_id=job, attempt=1, command=command, **fields)))

    def do(self, what: str, *arguments) -> None:
        asyncio.run(getattr(self.executor, what)(*arguments))


def test_it_is_an_executor():
    executor: Executor = World().executor
    assert executor.running() == []


def test_ends_come_in_order_of_time_at_their_own_time():
    world = World()
    for job, command in ((1, "sleep 9"), (2, "sleep 5; exit 3"), (3, "/bin/true")):
        world.start(job, command)
    assert world.started == [1, 2, 3]
    assert world.order_of_ends == [3]
    assert world.executor.next_due() == 1005.0
    world.executor.advance(100)
    assert world.order_of_ends == [3, 2, 1]
    assert (world.ended[2].exit_code, world.ended[2].ended_at, world.ended[2].run_s) == (3, 1005.0, 5.0)
    assert world.ended[1].ended_at == 1009.0
    assert world.executor.next_due() is None
    assert world.clock.now() == 1100.0


@pytest.mark.parametrize(
    ("command", "duration_s", "code"),
    [
        ("sleep 5", 5.0, 0),
        ("/bin/sleep 0.5", 0.5, 0),
        ("sleep 2; exit 7", 2.0, 7),
        ("exit 3", 0.0, 3),
        ("false", 0.0, 1),
        ("python train.py --sleep", 0.0, 0),
        ("nosleep 5", 0.0, 0),
    ],
)
def test_commands_say_how_they_behave(command, duration_s, code):
    run = behaviour_of(command)
    assert (run.duration_s, run.exit_code) == (duration_s, code)


def test_terminate_escalates_until_it_ends():
    script = {"deaf": MockRun(duration_s=None, ignores=frozenset({signal.SIGINT, signal.SIGTERM}))}
    world = World(script)
    world.start(1, "deaf")
    world.start(2, "sleep 100")
    world.do("terminate", 1, 1, 10)
    world.do("terminate", 2, 1, 10)
    assert world.ended[2].signal == signal.SIGINT
    world.executor.advance(19.9)
    assert 1 not in world.ended
    world.executor.advance(0.2)
    assert (world.ended[1].signal, world.ended[1].ended_at) == (signal.SIGKILL, 1020.0)
    assert [signum for job, _, signum in world.executor.signals if job == 1] == [2, 15, 9]


def test_the_run_limit_and_suspension():
    world = World()
    world.start(1, "sleep 100", run_limit_s=60)
    world.start(2, "sleep 50", run_limit_s=60)
    world.executor.advance(10)
    world.do("suspend", 1, 1)
    world.executor.advance(1000)
    assert list(world.ended) == [2]
    world.do("resume", 1, 1)
    world.executor.advance(49)
    assert 1 not in world.ended
    world.executor.advance(1)
    assert (world.ended[1].signal, world.ended[1].term_reason) == (signal.SIGUSR2, "TERM_RUNLIMIT")


def test_repeats_refusals_and_forgetting():
    world = World(lambda order: MockRun(refusal="no") if order.job_id == 2 else MockRun(duration_s=5, output=b"abc"))
    world.start(1, "x")
    world.start(1, "x")
    world.start(2, "x")
    assert world.started == [1]
    assert (world.ended[2].started, world.ended[2].problem) == (False, "no")
    assert world.executor.read_output(1, 1, "stdout", 1, 1) == b"b"
    with pytest.raises(Conflict):
        world.executor.forget(1, 1)
    assert world.executor.usage(1, 1) == Usage(pgid=1000, pids=(1000,), sampled_at=1000.0)
    world.executor.advance(5)
    world.executor.forget(1, 1)
    assert world.executor.usage(1, 1) is None
    world.do("adopt")
    assert world.order_of_ends == [2, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=30), st.integers(1, 7))
def test_however_time_is_cut_each_ends_once_at_its_time(jobs, step):
    world = World()
    due: dict[int, float] = {}
    for number, (pause, duration) in enumerate(jobs, 1):
        world.executor.advance(pause)
        world.start(number, f"sleep {duration}")
        due[number] = world.clock.now() + duration
    while world.executor.running():
        world.executor.advance(step)
    assert {job: result.ended_at for job, result in world.ended.items()} == due
    assert len(world.order_of_ends) == len(jobs)


def test_on_a_clock_that_ticks_ends_come_by_themselves():
    async def scenario() -> None:
        ended = asyncio.Event()
        executor = MockExecutor(SystemClock(), on_started=lambda *_: None, on_ended=lambda *_: ended.set())
        began = time.monotonic()
        await executor.start(Order(job_id=1, attempt=1, command="sleep 0.02"))
        await asyncio.wait_for(ended.wait(), 60)
        assert time.monotonic() - began >= 0.02
        executor.close()

    asyncio.run(scenario())
