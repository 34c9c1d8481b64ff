"""Connections from the network, which have little time for a request. Uvicorn waits for ever for the head of one."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 15.0
"""In which the head of a request must have come, whole."""
HANG_UP = "hang_up"
"""In the state of a request's scope: a function that ends the connection at once, in the middle of an answer."""


class CarefulProtocol(H11Protocol):
    """One connection."""

    _late: asyncio.TimerHandle | None = None
    _is_handed_over = False

    def connection_made(self, transport: Any) -> None:
        """Somebody is there."""
        self.app_state = {**self.app_state, HANG_UP: self._hang_up}
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """And is gone."""
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A piece of a request, or more."""
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on it is a websocket's."""
        self._is_handed_over = True
        super().handle_websocket_upgrade(event)

    def _watch(self) -> None:
        """A clock runs while a request has begun to come, or the first one is waited for."""
        if self._is_handed_over or self._is_answering or self.timeout_keep_alive_task is not None:
            self._rest()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_S, self._give_up)

    def _rest(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if not self._is_answering and not self.transport.is_closing():
            self.transport.abort()

    def _hang_up(self) -> None:
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete
