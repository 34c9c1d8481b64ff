"""Connections to jobs' services at the master: who may have one, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from gsched.master.rpc import service_connections
from gsched.master.rpc.service_connections import JobServicesServicer
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation
from gsched.model.views.view import JobView
from gsched.wire.v1 import job_service_pb2

JOB = JobView(
    job_id=7,
    attempt=1,
    spec=JobSpec(command="serve", user="ann", queue="normal", service="auto", service_users=("bob",)),
    state="RUN",
    submitted_at=1.0,
    dispatched_at=2.0,
    allocation=Allocation(hosts=()),
)


class End:
    """An agent's end whose service says nothing."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()

    async def read(self) -> bytes:
        await self._closed.wait()
        return b""

    async def write(self, data: bytes, *, unasked: bool) -> None: ...

    def close(self) -> None:
        self._closed.set()


class Master:
    """One job, and a user who is connected to its service."""

    def __init__(self, user: str = "bob") -> None:
        self.job: JobView | None = JOB
        self.open = 0
        auth = SimpleNamespace(caller=lambda _: SimpleNamespace(user=user))
        board = SimpleNamespace(job=lambda _: self.job)
        self.services = JobServicesServicer(board, self, auth)  # type: ignore[arg-type]

    @asynccontextmanager
    async def opened(self, job: JobView, *, steps: bool) -> AsyncIterator[End]:
        self.open += 1
        try:
            yield End()
        finally:
            self.open -= 1

    async def requests(self, *, steps: bool = False) -> AsyncIterator[Any]:
        yield job_service_pb2.ServiceBytes(job_id=7, attempt=1, steps=steps)
        await asyncio.Event().wait()

    async def connected(self, then: Callable[[], None]) -> None:
        """Connects, does that, and returns when the connection has ended."""
        answers: Any = self.services.Connect(self.requests(), SimpleNamespace())
        async with asyncio.timeout(20):
            assert (await anext(answers)).data == b"" and self.open == 1
            then()
            assert [each async for each in answers] == []


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_connections, "LOOK_S", 0.01)


def _without_bob() -> JobView:
    return msgspec.structs.replace(JOB, spec=msgspec.structs.replace(JOB.spec, service_users=()))


@pytest.mark.parametrize(
    "becomes",
    [
        _without_bob(),
        msgspec.structs.replace(JOB, attempt=2),
        msgspec.structs.replace(JOB, state="DONE"),
        msgspec.structs.replace(JOB, state="PEND", allocation=None),
        None,
    ],
)
def test_a_connection_ends_when_its_right_does(becomes: JobView | None) -> None:
    async def main() -> None:
        master = Master()
        await master.connected(lambda: setattr(master, "job", becomes))
        assert master.open == 0

    asyncio.run(main())


def test_the_owner_stays_connected() -> None:
    async def main() -> None:
        master = Master("ann")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await master.connected(lambda: setattr(master, "job", _without_bob()))
        assert master.open == 0, "it is tidied up when he goes"

    asyncio.run(main())


class Refused(Exception):
    """What gRPC tells the caller."""


async def _abort(code: Any, text: str) -> None:
    raise Refused(text)


def test_steps_are_started_by_the_owner_alone() -> None:
    """Whom the owner has named may look at the service, and runs nothing in the job."""

    async def main() -> None:
        context = SimpleNamespace(abort=_abort, set_trailing_metadata=lambda _: None)
        bob, ann = Master("bob"), Master("ann")
        with pytest.raises(Refused, match="owner"):
            await anext(bob.services.Connect(bob.requests(steps=True), context))  # type: ignore[arg-type]
        assert bob.open == 0
        answers: Any = ann.services.Connect(ann.requests(steps=True), context)
        async with asyncio.timeout(20):
            assert (await anext(answers)).data == b"" and ann.open == 1
        await answers.aclose()

    asyncio.run(main())
