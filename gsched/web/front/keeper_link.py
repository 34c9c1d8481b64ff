"""The front's side of the talk with the keeper. For one event loop."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable

import msgspec

from gsched.base.errors import PermissionDenied, Unavailable
from gsched.web.front.keeper_messages import MOST_BYTES, KeeperAnswer, KeeperQuestion, KeeperTask, line_of

GONE = "the service is ending"


class KeeperLink:
    """`on_gone` is called when the keeper is not there any more."""

    def __init__(self, on_gone: Callable[[], object]) -> None:
        self._on_gone = on_gone
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[KeeperAnswer]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def open(self, channel: socket.socket) -> None:
        """From here on the keeper can be asked."""
        reader, self._writer = await asyncio.open_unix_connection(sock=channel, limit=MOST_BYTES)
        self._hearing = asyncio.create_task(self._hear(reader))

    async def ask(self, task: KeeperTask, user: str = "", *, password: str = "", address: str = "") -> KeeperAnswer:
        """The answer. Raises PermissionDenied with the keeper's words when it was not done, Unavailable for now."""
        if self._writer is None or self._hearing is None or self._hearing.done():
            raise Unavailable(GONE)
        number = next(self._numbers)
        question = KeeperQuestion(number=number, task=task, user=user, password=password, address=address)
        future: asyncio.Future[KeeperAnswer] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            self._writer.write(line_of(question))
            answer = await future
        finally:
            del self._asked[number]
        if answer.why:
            raise Unavailable(answer.why) if answer.is_for_now else PermissionDenied(answer.why)
        return answer

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            answer = msgspec.json.decode(line, type=KeeperAnswer)
            future = self._asked.get(answer.number)
            if future is not None and not future.done():
                future.set_result(answer)
        self._writer = None
        for future in self._asked.values():
            if not future.done():
                future.set_exception(Unavailable(GONE))
        self._on_gone()
