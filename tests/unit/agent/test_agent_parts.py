"""The part of a job whose first host is another one: how an agent opens and closes it, and what it tells."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gsched.agent.attempts.host_attempts import Attempts
from gsched.agent.attempts.order_builder import HostContext
from gsched.agent.gpu.gpu_prolog_epilog import Blame, PrologEpilog
from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import ResourceExhausted
from gsched.model.jobs.job import AttemptResult, JobSpec
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock

KEY = (7, 1)
GPU = HeldGpu(uuid="GPU-0", index=0, claim="ngpus_shared")


class Told(list[agent_pb2.AgentMessage]):
    """What the master is told; `of(kind)` waits for the first of a kind."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def append(self, message: agent_pb2.AgentMessage) -> None:
        super().append(message)
        self._changed.set()

    async def of(self, kind: str) -> agent_pb2.AgentMessage:
        async with asyncio.timeout(60):
            while True:
                for each in self:
                    if each.WhichOneof("kind") == kind:
                        return each
                self._changed.clear()
                await self._changed.wait()


class Refusing:
    """A keeper that lets no attempt have its GPUs."""

    async def before(self, key: object, part: object, spec: object) -> None:
        raise ResourceExhausted("a stranger is on it")

    async def after(self, key: object, part: object) -> None:
        return None


def message() -> agent_pb2.StartAttempt:
    """A job of two hosts that would fail if it were started here."""
    start = agent_pb2.StartAttempt(job_id=KEY[0], attempt=KEY[1], environment=b"HOME=/h\0")
    spec = JobSpec(
        command="exit 3", user="root", queue="normal", cwd="/nowhere", pre_exec="false", run_limit_s=0, notify_end=True
    )
    fill(start.spec, spec)
    hosts = (HostAllocation(host="first", slots=1), HostAllocation(host="h", slots=2, gpus=(GPU,)))
    fill(start.allocation, Allocation(hosts=hosts))
    return start


def agent(folder: Path, told: Told, *hooks: object, blame: Blame | None = None) -> Attempts:
    prolog_epilog = PrologEpilog(hooks, blame)  # type: ignore[arg-type]
    host_context = HostContext(locks_gpus=lambda: False, places={})
    return Attempts(
        "h", folder, "c", 0, ManualClock(), send=told.append, host_context=host_context, prolog_epilog=prolog_epilog
    )


def test_a_part_is_opened_held_and_closed(tmp_path: Path) -> None:
    async def story() -> None:
        told = Told()
        attempts = agent(tmp_path, told)
        await attempts.start(message())
        await told.of("started")
        hello = agent_pb2.Hello()
        attempts.fill_hello(hello)
        assert [(each.job_id, each.part.slots) for each in hello.held] == [(7, 2)]
        attempts.close()

        told = Told()
        attempts = agent(tmp_path, told)  # the agent comes back
        assert await attempts.adopt() == 1
        await attempts.terminate(KEY, given_up=True)
        ended = (await told.of("ended")).ended
        assert ended.is_part and ended.result.started and ended.result.exit_code == 0 and not ended.given_up
        attempts.forget(KEY)
        assert not list((tmp_path / "attempts").iterdir())
        attempts.close()

    asyncio.run(story())


@pytest.mark.parametrize("has_failed", [True, False])
def test_where_its_job_has_failed_it_says_who_is_on_its_gpus(tmp_path: Path, has_failed: bool) -> None:
    async def blame(key: object, part: HostAllocation) -> AnyText:
        assert (key, [gpu.uuid for gpu in part.gpus]) == (KEY, ["GPU-0"])
        return coded("gpu.device_busy", "GPU 0 is held by pid 7 of eve")

    async def story() -> None:
        told = Told()
        attempts = agent(tmp_path, told, blame=blame)
        await attempts.start(message())
        await told.of("started")
        await attempts.terminate(KEY, given_up=True, failed=has_failed)
        ended = (await told.of("ended")).ended
        result = from_proto(ended.result, AttemptResult)
        expected = coded("gpu.device_busy", "GPU 0 is held by pid 7 of eve") if has_failed else ""
        assert ended.is_part and result.exit_code == 0 and result.problem == expected
        attempts.close()

    asyncio.run(story())


def test_a_part_that_ended_while_no_agent_was_there_is_told_as_one(tmp_path: Path) -> None:
    async def story() -> None:
        told = Told()
        attempts = agent(tmp_path, told)
        await attempts.start(message())
        await told.of("started")
        await attempts.terminate(KEY, "TERM_OWNER")
        await told.of("ended")
        attempts.close()
        told = Told()
        attempts = agent(tmp_path, told)
        await attempts.adopt()
        assert (await told.of("ended")).ended.is_part
        attempts.close()

    asyncio.run(story())


def test_a_part_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    async def story() -> None:
        told = Told()
        attempts = agent(tmp_path, told, Refusing())
        await attempts.start(message())
        ended = (await told.of("ended")).ended
        assert ended.is_part and not ended.result.started and ended.result.problem == "a stranger is on it"
        attempts.close()

    asyncio.run(story())


@pytest.mark.parametrize("given_up", [True, False])
def test_what_was_given_up_and_is_not_here_is_told_to_be_over(tmp_path: Path, given_up: bool) -> None:
    async def story() -> None:
        told = Told()
        attempts = agent(tmp_path, told)
        await attempts.terminate(KEY, given_up=given_up)
        assert [(each.ended.given_up, each.ended.result.started) for each in told] == [(True, False)] * given_up
        attempts.close()

    asyncio.run(story())


def test_it_tells_which_signals_it_has_sent(tmp_path: Path) -> None:
    async def story() -> None:
        told = Told()
        attempts = agent(tmp_path, told)
        await attempts.start(message())
        await told.of("started")
        order = agent_pb2.SignalAttempt(job_id=KEY[0], attempt=KEY[1], signal=10, number=3)
        await attempts.pass_on(KEY, order)
        await attempts.pass_on(KEY, order)
        sent = [each.signalled.number for each in told if each.HasField("signalled")]
        hello = agent_pb2.Hello()
        attempts.fill_hello(hello)
        assert (sent, [each.signalled for each in hello.held], hello.confirms_signals) == ([3], [3], True)
        order.number, order.signal = 0, 12  # of a master of before
        await attempts.pass_on(KEY, order)
        assert sum(each.HasField("signalled") for each in told) == 1
        await attempts.terminate(KEY, given_up=True)
        await told.of("ended")
        attempts.close()

    asyncio.run(story())
