"""The way to a service when connections fail: it is asked for anew, and what is under way goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from starlette.types import Message, Scope

from gsched.base.errors import Unavailable
from gsched.web.services import service_pool
from gsched.web.services.service_pool import ServicePool
from gsched.web.services.service_requests import ServiceRequest
from gsched.web.services.service_sockets import carry_socket
from gsched.wire.calls.service_calls import FoundService

ORIGIN = b"http://job-7.localhost:8080"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


class Connection:
    """To a service that answers what `says` is given; with `error` it is refused."""

    def __init__(self, error: str = "") -> None:
        self._error = error
        self.says: SimpleQueue[bytes | None] = SimpleQueue()
        self.is_closed = False
        self.asked = b""

    def send(self, data: bytes, on_taken: Callable[[], object], *, unasked: bool = False) -> None:
        self.asked += data
        on_taken()

    def close(self) -> None:
        self.is_closed = True
        self.says.put(None)

    def __iter__(self) -> Iterator[bytes]:
        if self._error:
            raise Unavailable(self._error)
        yield b""
        while (data := self.says.get()) is not None:
            yield data


class Service:
    """A client of the master whose service takes these connections, one after another."""

    def __init__(self, *connections: Connection) -> None:
        self.connections = list(connections)
        self.finds = 0
        self.services = self
        self.pool = ServicePool()

    def find(self, job_id: int) -> FoundService:
        self.finds += 1
        return FoundService(1, "gpu1", 20_001, "secret")

    def connect(self, job_id: int, attempt: int) -> Any:
        return self.connections.pop(0)

    async def request(self, *headers: tuple[bytes, bytes], job_id: int = 7) -> bytes:
        """The body of an answer."""
        told: list[Message] = []
        scope: Scope = {"method": "GET", "raw_path": b"/", "query_string": b"", "headers": headers}

        async def send(message: Message) -> None:
            told.append(message)

        client: Any = self
        await ServiceRequest(self.pool, client, job_id, ORIGIN).answer(scope, _never, send, _never)
        return b"".join(message.get("body", b"") for message in told)


async def _never() -> Any:
    await asyncio.Event().wait()


async def _until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.001)


def test_a_refused_connection_breaks_no_other_request_off() -> None:
    async def main() -> None:
        slow = Connection()
        service = Service(slow, Connection("no more are made"), Connection("no more are made"))
        first = asyncio.create_task(service.request())
        slow.says.put(HEAD + b"ab")
        await _until(lambda: slow.asked)
        with pytest.raises(Unavailable, match=r"^no more are made$"):
            await service.request()
        assert service.finds == 2, "it was looked up again"
        assert not slow.is_closed
        slow.says.put(b"cd")
        assert await first == b"abcd"
        assert slow.is_closed, "nobody would use it again"

    asyncio.run(main())


def test_a_connection_is_used_again_and_one_that_failed_is_made_again() -> None:
    async def main() -> None:
        kept = Connection()
        service = Service(kept)
        for _ in range(2):
            kept.says.put(HEAD + b"abcd")
            assert await service.request() == b"abcd"
        assert service.finds == 1 and not kept.is_closed
        again = Connection()
        kept.says.put(b"HTTP/1.1 ")
        kept.close()
        again.says.put(HEAD + b"efgh")
        service.connections = [again]
        assert await service.request() == b"efgh"

    asyncio.run(main())


def test_a_service_that_is_looked_at_less_is_not_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_pool, "MOST_SERVICES", 1)

    async def main() -> None:
        slow, other = Connection(), Connection()
        service = Service(slow, other)
        first = asyncio.create_task(service.request())
        slow.says.put(HEAD + b"ab")
        await _until(lambda: slow.asked)
        other.says.put(HEAD + b"abcd")
        assert await service.request(job_id=8) == b"abcd"
        slow.says.put(b"cd")
        assert await first == b"abcd"

    asyncio.run(main())


def test_a_websocket_that_cannot_be_connected_has_the_way_looked_up_again() -> None:
    async def main() -> None:
        service = Service(Connection("it has begun anew"), Connection("it has begun anew"))
        client: Any = service
        for finds in (1, 2):
            with pytest.raises(Unavailable, match="begun anew"):
                await carry_socket(service.pool, client, 7, ORIGIN, ({}, _never, _never), _never)  # type: ignore[arg-type]
            assert service.finds == finds

    asyncio.run(main())
