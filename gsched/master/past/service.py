"""The Past service of the master: questions go to the reading process, its answers to whoever asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from gsched.master.past.reader import PastReader
from gsched.model.config import ClusterConfig
from gsched.model.views.catalogue import AccountFilter
from gsched.model.views.gpu_sums import GpuSumsQuery
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.server import streams
from gsched.wire.v1 import past_pb2, past_pb2_grpc


class PastServicer(past_pb2_grpc.PastServicer):
    """One per master; all methods run in the gRPC loop. `config`: that which counts now."""

    def __init__(self, reader: PastReader, config: Callable[[], ClusterConfig]) -> None:
        self._reader = reader
        self._config = config

    @streams
    async def Histories(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for reply in self._reader.histories(request):
            yield reply

    @streams
    async def GpuUseSums(self, request: Any, context: Any) -> AsyncIterator[Any]:
        asked = from_proto(request, GpuSumsQuery)
        asked = msgspec.structs.replace(asked, jobs=with_members(asked.jobs, self._config()))
        async for reply in self._reader.gpu_sums(to_proto(asked, past_pb2.GpuSumsQuery)):
            yield reply

    @streams
    async def At(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for reply in self._reader.at(request):
            yield reply


def with_members(wanted: AccountFilter, config: ClusterConfig) -> AccountFilter:
    """With the members of user and host groups in their place; a group of everybody restricts nothing."""
    groups = config.user_groups
    users = [user for name in wanted.users for user in (groups[name].users if name in groups else (name,))]
    hosts = [host for name in wanted.hosts for host in config.host_groups.get(name, (name,))]
    return msgspec.structs.replace(wanted, users=() if "all" in users else tuple(users), hosts=tuple(hosts))
