"""GPUs into a job's hands and back: what a hello says meanwhile, and when the master hears of an end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gsched.agent.attempts.host_attempts import Attempts
from gsched.agent.attempts.order_builder import HostContext
from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.agent.gpu.gpu_prolog_epilog import PrologEpilog
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.base.errors import ResourceExhausted
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.probe.simulated.inventory import write_inventory
from gsched.probe.simulated.inventory_entry import simulated_gpu
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock

GPU = HeldGpu(uuid="GPU-0", index=0, claim="ngpus_shared")
KEY = (7, 1)


class RequestGate:
    """A keeper that lets through when it is told to."""

    def __init__(self, refusal: str = "") -> None:
        self.opened = {"before": asyncio.Event(), "after": asyncio.Event()}
        self.reached = {"before": asyncio.Event(), "after": asyncio.Event()}
        self.calls: list[str] = []
        self.refusal = refusal

    async def _pass(self, what: str) -> None:
        self.calls.append(what)
        self.reached[what].set()
        await self.opened[what].wait()

    async def before(self, key: Any, part: Any, spec: Any) -> None:
        await self._pass("before")
        if self.refusal:
            raise ResourceExhausted(self.refusal)

    async def after(self, key: Any, part: Any) -> None:
        await self._pass("after")


class Broken(RequestGate):
    async def after(self, key: Any, part: Any) -> None:
        raise RuntimeError("no luck")


def order_of(*gpus: HeldGpu) -> agent_pb2.StartAttempt:
    message = agent_pb2.StartAttempt(job_id=KEY[0], attempt=KEY[1])
    fill(message.spec, JobSpec(command="true", user="root", queue="normal"))
    fill(message.allocation, Allocation(hosts=(HostAllocation(host="h", slots=1, gpus=gpus),)))
    return message


def attempts_of(folder: Path, prolog_epilog: PrologEpilog, told: list[agent_pb2.AgentMessage]) -> Attempts:
    host_context = HostContext(locks_gpus=lambda: False, places={})
    return Attempts(
        "h", folder, "c", 0, ManualClock(), send=told.append, host_context=host_context, prolog_epilog=prolog_epilog
    )


def hello_of(attempts: Attempts) -> tuple[list[int], list[int]]:
    hello = agent_pb2.Hello()
    attempts.fill_hello(hello)
    return [each.job_id for each in hello.held], [each.job_id for each in hello.ended]


def test_what_is_being_given_out_or_back_is_held(tmp_path: Path) -> None:
    told: list[agent_pb2.AgentMessage] = []

    async def story() -> None:
        gate = RequestGate(refusal="a stranger is on it")
        attempts = attempts_of(tmp_path, PrologEpilog([gate]), told)
        start = asyncio.create_task(attempts.start(order_of(GPU)))
        await gate.reached["before"].wait()
        assert hello_of(attempts) == ([7], [])
        gate.opened["before"].set()
        await start
        await gate.reached["after"].wait()
        assert gate.calls == ["before", "after"]
        assert hello_of(attempts) == ([7], []), "its GPUs are not back"
        assert told == []
        gate.opened["after"].set()
        await asyncio.wait(list(attempts._returns))
        assert hello_of(attempts) == ([], [7])
        assert [each.ended.result.problem for each in told] == ["a stranger is on it"]
        assert not told[0].ended.result.started
        attempts.close()

    asyncio.run(story())


def test_a_job_without_gpus_is_nobodys_care_and_a_keeper_that_fails_holds_nothing_up() -> None:
    async def story() -> None:
        first, last = RequestGate(), Broken()
        first.opened["after"].set()
        prolog_epilog = PrologEpilog([first, last])
        part = HostAllocation(host="h", slots=1)
        await prolog_epilog.before(KEY, part, JobSpec(command="true", user="root", queue="normal"))
        await prolog_epilog.after(KEY, part)
        assert first.calls == []
        await prolog_epilog.after(KEY, HostAllocation(host="h", slots=1, gpus=(GPU,)))
        assert first.calls == ["after"]

    asyncio.run(story())


def test_a_look_never_answers_with_what_was_seen_before_it_was_asked_for(tmp_path: Path) -> None:
    reports = []

    async def story() -> None:
        write_inventory(tmp_path / "h.json", [simulated_gpu("h", 0)])
        watch = GpuWatch("h", "c", GpuOwners(lambda pids: {}), on_look=reports.append)
        await watch.use(f"sim:{tmp_path}", "")
        first = asyncio.create_task(watch.look())
        await asyncio.sleep(0)
        second, third = asyncio.create_task(watch.look()), asyncio.create_task(watch.look())
        await asyncio.gather(first, second, third)
        assert first.result() is not second.result()
        assert second.result() is third.result()
        assert len(reports) == 2
        assert watch.gpus is reports[-1]

    asyncio.run(story())
