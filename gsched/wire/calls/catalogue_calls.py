"""The part of the client that asks the Catalogue service; it waits for a master as the Client it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from gsched.model.views.catalogue import (
    Account,
    AccountFilter,
    ApplicationView,
    Definitions,
    Grouping,
    TimeSpan,
    UserLimitView,
)
from gsched.model.views.view import EventRecord
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.v1 import catalogue_pb2, catalogue_pb2_grpc


class Catalogue:
    """`call` and `stream` send one request by a method of the channel, as the Client that owns it does."""

    def __init__(
        self, channel: grpc.Channel, call: Callable[[Any, Any], Any], stream: Callable[[Any, Any], Iterator[Any]]
    ) -> None:
        self._stub = catalogue_pb2_grpc.CatalogueStub(channel)
        self._call = call
        self._stream = stream

    def users(self, names: Iterable[str]) -> list[UserLimitView]:
        """The named users and user groups; `all` means everybody who is known. Raises NotFound."""
        reply = self._call(self._stub.Users, catalogue_pb2.UsersRequest(names=list(names)))
        return [from_proto(user, UserLimitView) for user in reply.users]

    def groupings(self, kind: str) -> list[Grouping]:
        """All groups of one kind: "host", "unit" (compute units) or "user"."""
        reply = self._call(self._stub.Groupings, catalogue_pb2.GroupingsRequest(kind=kind))
        return [from_proto(group, Grouping) for group in reply.groups]

    def applications(self) -> list[ApplicationView]:
        """All application profiles."""
        reply = self._call(self._stub.Applications, catalogue_pb2.ApplicationsRequest())
        return [from_proto(each, ApplicationView) for each in reply.applications]

    def definitions(self) -> Definitions:
        """Resources, host types and host models that the cluster knows."""
        return from_proto(self._call(self._stub.Resources, catalogue_pb2.ResourcesRequest()), Definitions)

    def accounts(self, wanted: AccountFilter, *, jobs: bool = False) -> Iterator[Account]:
        """Finished jobs by ascending number, however long ago they finished; with `jobs` all that is known of each,
        without no more than a summary takes: their times, and what they used.
        """
        request = catalogue_pb2.AccountsRequest(jobs=jobs, brief=not jobs)
        fill(request.filter, wanted)
        for reply in self._stream(self._stub.Accounts, request):
            yield from _accounts(reply)

    def told_accounts(self, wanted: AccountFilter) -> Iterator[Account]:
        """Finished jobs by ascending number with their times, and what was said of their starts while they waited."""
        request = catalogue_pb2.AccountsRequest(told=True)
        fill(request.filter, wanted)
        for reply in self._stream(self._stub.Accounts, request):
            yield from _accounts(reply)

    def few_accounts(self, wanted: AccountFilter, most: int, *, jobs: bool = False) -> list[Account] | None:
        """As `accounts`, unless there are more jobs than `most`: None, which costs no more than so many."""
        request = catalogue_pb2.AccountsRequest(jobs=jobs, brief=not jobs, most=most)
        fill(request.filter, wanted)
        replies = list(self._stream(self._stub.Accounts, request))
        if any(reply.are_more for reply in replies):
            return None
        return [account for reply in replies for account in _accounts(reply)]

    def notices(self, at: TimeSpan) -> list[EventRecord]:
        """What happened to hosts, queues and the cluster itself in that time, oldest first."""
        request = catalogue_pb2.NoticesRequest()
        fill(request.at, at)
        reply = self._call(self._stub.Notices, request)
        return [from_proto(event, EventRecord) for event in reply.events]


def _accounts(reply: catalogue_pb2.AccountsReply) -> Iterator[Account]:
    yield from _of_columns(reply.columns)
    yield from (from_proto(account, Account) for account in reply.accounts)


def _of_columns(columns: catalogue_pb2.AccountColumns) -> Iterator[Account]:
    rows = zip(
        columns.job_ids,
        columns.done,
        columns.submitted_at,
        columns.dispatched_at,
        columns.finished_at,
        columns.cpu_s,
        columns.gpu_s,
        strict=True,
    )
    for job_id, done, submitted_at, dispatched_at, finished_at, cpu_s, gpu_s in rows:
        yield Account(
            job_id=job_id,
            user="",
            queue="",
            state="DONE" if done else "EXIT",
            submitted_at=submitted_at,
            dispatched_at=dispatched_at or None,
            finished_at=finished_at,
            cpu_s=cpu_s,
            gpu_s=gpu_s,
        )
