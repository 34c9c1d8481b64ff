"""Connections to PostgreSQL that give up on a server which says nothing any more.

A server whose processes are stopped, or wait for a disk that hangs, keeps its connections: its kernel goes on
answering, so no keepalive notices, and a statement would wait for ever. It needs the driver, so `postgresql` alone
imports it, when an address asks for it. It cancels nothing at the server, and tries nothing twice.
"""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

from psycopg import Connection, OperationalError

_Result = TypeVar("_Result")


class LimitedConnection(Connection[Any]):
    """The driver's connection; it is closed, and OperationalError raised, when the server says nothing for too long."""

    answer_s: float | None = None
    """Seconds that the server may say nothing while it is waited for; None: for ever."""

    def wait(self, gen: Generator[Any, Any, _Result], *limits: Any, **named: Any) -> _Result:
        """As the driver's. Every statement waits here."""
        if self.answer_s is None:
            return super().wait(gen, *limits, **named)
        return super().wait(self._until_silent(gen, self.answer_s), *limits, **named)

    def _until_silent(self, gen: Generator[Any, Any, _Result], answer_s: float) -> Generator[Any, Any, _Result]:
        try:
            wanted, heard_at = next(gen), monotonic()
            while True:
                ready = yield wanted  # several times a second, also when nothing is ready
                if ready:
                    heard_at = monotonic()
                elif monotonic() - heard_at > answer_s:
                    self.close()  # what it had not committed is rolled back when the server goes on
                    raise OperationalError(f"the server has not answered for {answer_s:g} seconds")
                wanted = gen.send(ready)
        except StopIteration as done:
            result: _Result = done.value
            return result
