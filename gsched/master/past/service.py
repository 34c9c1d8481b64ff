"""The Past service of the master: questions go to the reading process, its answers to whoever asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from gsched.master.past.reader import PastReader
from gsched.wire.server import streams
from gsched.wire.v1 import past_pb2_grpc


class PastServicer(past_pb2_grpc.PastServicer):
    """One per master; all methods run in the gRPC loop."""

    def __init__(self, reader: PastReader) -> None:
        self._reader = reader

    @streams
    async def Histories(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for reply in self._reader.histories(request):
            yield reply
