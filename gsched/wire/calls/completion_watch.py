"""The client's side of waiting: numbers of jobs go in, their ends come out, on one stream for all of them.

It does not come back by itself when the master goes away: who asks knows what is still open, and asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from queue import SimpleQueue

import grpc

from gsched.model.views.view import JobEnd
from gsched.wire.calls.call_failure import error_from_rpc
from gsched.wire.messages.convert import from_proto
from gsched.wire.v1 import waiting_pb2, waiting_pb2_grpc

IDS_PER_MESSAGE = 10_000


class EndsCall:
    """One running call. `ask` and `cancel` may be called by any thread; one thread iterates."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._outgoing: SimpleQueue[waiting_pb2.EndsRequest | None] = SimpleQueue()
        self._call = waiting_pb2_grpc.WaitingStub(channel).Ends(iter(self._outgoing.get, None))

    def ask(self, job_ids: Iterable[int]) -> None:
        """Ask for the ends of these jobs too; never blocks."""
        numbers = iter(job_ids)
        while part := list(islice(numbers, IDS_PER_MESSAGE)):
            self._outgoing.put(waiting_pb2.EndsRequest(job_ids=part))

    def cancel(self) -> None:
        """Break the call off: who iterates gets an error."""
        self._outgoing.put(None)
        self._call.cancel()

    def __iter__(self) -> Iterator[JobEnd]:
        """Ends in the order they come. Raises GschedError when the call breaks off."""
        try:
            for reply in self._call:
                for end in reply.ends:
                    yield from_proto(end, JobEnd)
        except grpc.RpcError as error:
            raise error_from_rpc(error) from None
        finally:
            self._outgoing.put(None)  # the thread that sends ends too
