"""The client's side of an interactive job's terminal: being there, and typing. Its output comes by Client.output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc

from gsched.wire.v1 import terminal_pb2, terminal_pb2_grpc


class TerminalCalls:
    """`call` and `stream` send one request by a method of the channel, as the Client that owns it does."""

    def __init__(
        self, channel: grpc.Channel, call: Callable[[Any, Any], Any], stream: Callable[[Any, Any], Iterator[Any]]
    ) -> None:
        self._stub = terminal_pb2_grpc.TerminalStub(channel)
        self._call = call
        self._stream = stream

    def attach(self, job_id: int) -> Iterator[None]:
        """For as long as it is iterated somebody sits at the job's terminal; yields once when that is known."""
        for _ in self._stream(self._stub.Attach, terminal_pb2.AttachRequest(job_id=job_id)):
            yield None

    def type(
        self, job_id: int, attempt: int, first: int, data: bytes, *, end: bool = False, size: tuple[int, int] = (0, 0)
    ) -> int:
        """Type `data`, whose first byte is number `first` since the attempt's start; `end`: nothing follows. `size` of
        the window: rows and columns, 0 as before.

        Returns how many bytes have been taken by now: what was not is to be sent again. Sent twice, it counts once.
        """
        request = terminal_pb2.TypeRequest(
            job_id=job_id, attempt=attempt, first=first, data=data, end=end, rows=size[0], columns=size[1]
        )
        return int(self._call(self._stub.Type, request).taken)
