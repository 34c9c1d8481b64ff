"""Work that may hang, because a file server or a directory of users does: beside the event loop, user by user.

Each piece has a thread of its own that nobody waits for when it takes too long, not even the end of the agent. A user
has so many at a time: where all of them hang that user's next pieces wait in vain, and nobody else's. Never cancels
what has begun: it cannot.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from gsched.base.errors import ResourceExhausted
from gsched.run.account import UnixAccount, acting_as

T = TypeVar("T")

MOST_EACH = 8
PATH_PATIENCE_S = 10.0
"""How long a file system may take to say what lies on it."""


class BlockingPool:
    """The pieces that are under way."""

    def __init__(self, most: int = MOST_EACH) -> None:
        self._most = most
        self._slots: dict[str, asyncio.Semaphore] = {}
        """By user; there are not so many users that these few bytes matter."""

    async def run(self, whose: str, work: Callable[[], T], patience_s: float) -> T:
        """The result of `work`, or what it raises. Raises TimeoutError when that takes longer, waiting included."""
        async with asyncio.timeout(patience_s):
            await self._slots.setdefault(whose, asyncio.Semaphore(self._most)).acquire()
            return await self._begun(whose, work)

    async def as_user(self, account: UnixAccount | None, work: Callable[[], T]) -> T:
        """The result of `work`, done with that user's rights over files; of None it is done at once, as the agent.

        Raises ResourceExhausted where a file system does not answer.
        """
        if account is None:
            return work()

        def acting() -> T:
            with acting_as(account):
                return work()

        try:
            return await self.run(account.name, acting, PATH_PATIENCE_S)
        except TimeoutError:
            raise ResourceExhausted(f"a file system of user {account.name} does not answer") from None

    def _begun(self, whose: str, work: Callable[[], T]) -> asyncio.Future[T]:
        loop, slots = asyncio.get_running_loop(), self._slots[whose]
        done: asyncio.Future[T] = loop.create_future()

        def tell(result: T | None, error: BaseException | None) -> None:
            slots.release()
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def labour() -> None:
            result: T | None = None
            failure: BaseException | None = None
            try:
                result = work()
            except BaseException as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(tell, result, failure)

        threading.Thread(target=labour, name=f"aside {whose}", daemon=True).start()
        return done
