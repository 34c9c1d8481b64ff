"""The Catalogue service: users, groups, resources, accounts of finished jobs, what administrators did.

Everything is read from published views, the configuration or the store; the engine is never asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from gsched.base.errors import BadRequest
from gsched.master.past.reader import PastReader
from gsched.master.past.service import with_members
from gsched.master.rpc.replies import filled
from gsched.master.rpc.scheduler_service import ServiceContext
from gsched.master.views.application_views import application_views
from gsched.master.views.user_views import user_views
from gsched.master.views.withheld_slots import free_slots, withheld
from gsched.model.config import ClusterConfig
from gsched.model.hosts.resource import BUILTIN, LOAD_INDICES, Resource, ResourceType
from gsched.model.views.catalogue import AccountFilter, Definitions, Grouping, ModelView, ResourceView, TimeSpan
from gsched.store.history_queries import History
from gsched.wire.messages.convert import fill, from_proto, to_proto
from gsched.wire.server import answers, streams
from gsched.wire.v1 import catalogue_pb2, catalogue_pb2_grpc


class CatalogueServicer(catalogue_pb2_grpc.CatalogueServicer):
    """One per master; all methods run in the gRPC loop, what reads much in a thread."""

    def __init__(self, services: ServiceContext, history: History, reader: PastReader) -> None:
        self._board = services.board
        self._history = history
        self._reader = reader

    @answers
    async def Users(self, request: Any, context: Any) -> Any:
        kept = withheld(self._board.shared.planned, free_slots(self._board.hosts()))
        arrays, jobs = self._board.open_jobs()
        found = await asyncio.to_thread(user_views, self._board.config, arrays, jobs, kept, list(request.names))
        return filled(catalogue_pb2.UsersReply(), "users", found)

    @answers
    async def Groupings(self, request: Any, context: Any) -> Any:
        readers = {"host": host_groups, "unit": compute_units, "user": user_groups}
        if request.kind not in readers:
            raise BadRequest(f"'{request.kind}' is no kind of group")
        return filled(catalogue_pb2.GroupingsReply(), "groups", readers[request.kind](self._board.config))

    @answers
    async def Applications(self, request: Any, context: Any) -> Any:
        found = await asyncio.to_thread(application_views, self._board.config, *self._board.open_jobs())
        return filled(catalogue_pb2.ApplicationsReply(), "applications", found)

    @answers
    async def Resources(self, request: Any, context: Any) -> Any:
        return to_proto(definitions(self._board.config), catalogue_pb2.ResourcesReply)

    @streams
    async def Accounts(self, request: Any, context: Any) -> AsyncIterator[Any]:
        wanted = with_members(from_proto(request.filter, AccountFilter), self._board.config)
        question = catalogue_pb2.AccountsRequest(
            jobs=request.jobs, brief=request.brief, most=request.most, told=request.told
        )
        fill(question.filter, wanted)
        async for reply in self._reader.accounts(question):
            yield reply

    @answers
    async def Notices(self, request: Any, context: Any) -> Any:
        at = from_proto(request.at, TimeSpan)
        found = await asyncio.to_thread(self._history.events_of_no_job, at)
        return filled(catalogue_pb2.NoticesReply(), "events", found)


def host_groups(config: ClusterConfig) -> Iterator[Grouping]:
    """HostGroup sections."""
    for name, hosts in config.host_groups.items():
        yield Grouping(name=name, members=config.host_members.get(name, hosts), resolved=hosts)


def compute_units(config: ClusterConfig) -> Iterator[Grouping]:
    """ComputeUnit sections."""
    for unit_type, units in config.compute_units.items():
        for name, hosts in units.items():
            members = config.host_members.get(name, hosts)
            yield Grouping(name=name, members=members, resolved=hosts, unit_type=unit_type)


def user_groups(config: ClusterConfig) -> Iterator[Grouping]:
    """UserGroup sections."""
    for group in config.user_groups.values():
        yield Grouping(
            name=group.name,
            members=group.members,
            resolved=group.users,
            shares=tuple(f"[{share.name}, {share.shares}]" for share in group.shares),
            admins=group.admins,
        )


_DYNAMIC = frozenset(index.name for index in LOAD_INDICES)


def definitions(config: ClusterConfig) -> Definitions:
    """lsf.shared, with what is built in before it."""
    resources = {**BUILTIN, **config.resources}
    return Definitions(
        resources=tuple(_resource(each) for each in resources.values()),
        types=config.host_types,
        models=tuple(ModelView(name, config.model_factors.get(name, 1.0)) for name in config.host_models),
    )


def _resource(resource: Resource) -> ResourceView:
    order = "N/A"
    if resource.type is ResourceType.NUMERIC:
        order = "Inc" if resource.increasing else "Dec"
    return ResourceView(
        name=resource.name,
        type=resource.type.value,
        order=order,
        interval_s=resource.interval_s or 0,
        builtin=resource.builtin,
        dynamic=resource.name in _DYNAMIC or resource.interval_s is not None,
        release=resource.release,
        consumable=resource.consumable,
        description=resource.description,
    )
