"""Supervisors whose jobs are over and that wait for another order of the same user.

Where an attempt stands is not known here. Whatever is done to one that waits costs nothing but a fork later: it holds
no attempt. Ends none itself: one that is wanted no longer is told so by the end of its socket, and leaves.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable

from gsched.run.account import UnixAccount
from gsched.run.agent_line import next_line
from gsched.run.fork_server_client import Watch

IN_A_ROW_S = 0.02
"""Orders that are no further apart are told to be in a row."""
IDLE_S = 2.0
"""How long one waits for another order."""
MOST_LINKS = 256
"""Supervisors that may take further orders at a time: each has a descriptor more here than another one."""


class SupervisorLink:
    """A supervisor that lives: process number and start, how its end is seen, and the socket that it gets orders by."""

    __slots__ = ("_on_close", "idle_since", "orders", "pid", "start", "watch")

    def __init__(
        self, pid: int, start: int, watch: Watch, orders: socket.socket, on_close: Callable[[SupervisorLink], object]
    ) -> None:
        self._on_close = on_close
        self.pid = pid
        self.start = start
        self.watch = watch
        self.orders = orders
        self.idle_since = 0.0

    def give(self, name: str, *, is_in_a_row: bool = False) -> bool:
        """Have it run the attempt of this name next; False where it cannot be told, as it is gone."""
        try:
            self.orders.send(next_line(name, is_in_a_row=is_in_a_row))
        except OSError:
            return False
        return True

    def close(self) -> None:
        """It is not watched any more, and leaves when its job is over."""
        self.watch.close()
        self.orders.close()
        self._on_close(self)


class SupervisorPool:
    """Those that wait, by user: the newest serves first, so that the others may leave."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: dict[UnixAccount | None, list[SupervisorLink]] = {}
        self._links: set[SupervisorLink] = set()
        """Those that wait, and those whose jobs run."""
        self._timer: asyncio.TimerHandle | None = None
        self._given_at = -math.inf
        """When the last order came."""

    def __len__(self) -> int:
        return sum(map(len, self._idle.values()))

    def has_room(self, asked: int) -> bool:
        """Whether there may be one more, beside `asked` that are on their way."""
        return len(self._links) + asked < MOST_LINKS

    def link(self, pid: int, start: int, watch: Watch, orders: socket.socket) -> SupervisorLink:
        """To a supervisor that was forked; it waits when it is kept."""
        made = SupervisorLink(pid, start, watch, orders, self._links.discard)
        self._links.add(made)
        return made

    def keep(self, account: UnixAccount | None, link: SupervisorLink) -> None:
        """It waits from now on; `account`: its user, where that is not the agent's."""
        link.idle_since = self._loop.time()
        link.watch.redirect(self._drop(account, link))
        self._idle.setdefault(account, []).append(link)
        if self._timer is None:
            self._timer = self._loop.call_later(IDLE_S, self._thin_out)

    def give(self, account: UnixAccount | None, name: str) -> SupervisorLink | None:
        """Have one that waits run this user's attempt; None: none does."""
        waiting = self._idle.get(account)
        given_before, self._given_at = self._given_at, self._loop.time()
        is_in_a_row = self._given_at - given_before <= IN_A_ROW_S
        while waiting:
            link = waiting.pop()
            if link.give(name, is_in_a_row=is_in_a_row):
                return link
            link.close()
        return None

    def close(self) -> None:
        """All may leave."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiting in self._idle.values():
            for link in waiting:
                link.close()
        self._idle.clear()

    def _drop(self, account: UnixAccount | None, link: SupervisorLink) -> Callable[[], None]:
        """What is done when it has ended."""

        def drop() -> None:
            self._idle[account].remove(link)
            link.close()

        return drop

    def _thin_out(self) -> None:
        """Let those go that have waited for long; they stand first."""
        now = self._loop.time()
        for account, waiting in list(self._idle.items()):
            while waiting and now - waiting[0].idle_since >= IDLE_S:
                waiting.pop(0).close()
            if not waiting:
                del self._idle[account]
        self._timer = None
        if self._idle:
            soonest = min(waiting[0].idle_since for waiting in self._idle.values())
            self._timer = self._loop.call_later(max(soonest + IDLE_S - now, 0.0) + 0.01, self._thin_out)
