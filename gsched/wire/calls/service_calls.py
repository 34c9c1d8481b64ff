"""The client's side of jobs' services: where one is, and connections to it.

It does not repeat a connection that breaks: who has asked knows what was said on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, NamedTuple

import grpc

from gsched.base.errors import Unavailable
from gsched.wire.calls.call_failure import error_from_rpc
from gsched.wire.v1 import job_service_pb2, job_service_pb2_grpc


class FoundService(NamedTuple):
    """Where the service of an attempt is, and what proves there that one may use it."""

    attempt: int
    host: str
    port: int
    secret: str


class ServiceCalls:
    """`call` sends one request by a method of the channel, as the Client that owns it does."""

    def __init__(self, channel: grpc.Channel, call: Callable[[Any, Any], Any]) -> None:
        self._stub = job_service_pb2_grpc.JobServicesStub(channel)
        self._call = call

    def find(self, job_id: int) -> FoundService:
        """Where it is. Raises NotFound, PermissionDenied, Conflict; Unavailable while nothing listens there."""
        found = self._call(self._stub.Find, job_service_pb2.FindServiceRequest(job_id=job_id))
        if found.problem:
            raise Unavailable(found.problem)
        return FoundService(found.attempt, found.host, found.port, found.secret)

    def connect(self, job_id: int, attempt: int) -> ServiceConnection:
        """A connection to the service of that attempt; it is there when the iteration has begun."""
        return ServiceConnection(self._stub, job_service_pb2.ServiceBytes(job_id=job_id, attempt=attempt))

    def connect_steps(self, job_id: int) -> ServiceConnection:
        """A connection to where steps of a job of one's own are asked for (launch_protocol, step_messages)."""
        return ServiceConnection(self._stub, job_service_pb2.ServiceBytes(job_id=job_id, steps=True))


class ServiceConnection:
    """One connection. Any thread may send and close; one iterates."""

    def __init__(self, stub: job_service_pb2_grpc.JobServicesStub, first: job_service_pb2.ServiceBytes) -> None:
        self._outgoing: SimpleQueue[tuple[job_service_pb2.ServiceBytes, Callable[[], object]] | None] = SimpleQueue()
        self._call = stub.Connect(self._requests(first))

    def send(self, data: bytes, on_taken: Callable[[], object], *, unasked: bool = False) -> None:
        """Send bytes; never blocks. `on_taken` is called by another thread when more should be sent. `unasked`: they
        keep the connection open, nobody has asked for anything.
        """
        self._outgoing.put((job_service_pb2.ServiceBytes(data=data, unasked=unasked), on_taken))

    def close(self) -> None:
        """End it: who iterates gets no more."""
        self._outgoing.put(None)
        self._call.cancel()

    def __iter__(self) -> Iterator[bytes]:
        """Empty when the connection is there, then what the service says. Raises GschedError."""
        try:
            for reply in self._call:
                yield reply.data
        except grpc.RpcError as error:
            raise error_from_rpc(error) from None
        finally:
            self._outgoing.put(None)  # the thread that sends ends too

    def _requests(self, first: job_service_pb2.ServiceBytes) -> Iterator[job_service_pb2.ServiceBytes]:
        yield first
        while (item := self._outgoing.get()) is not None:
            yield item[0]
            item[1]()  # gRPC asks for the next one when it has taken this one
