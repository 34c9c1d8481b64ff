"""What is answered of histories, in pages, and of accounts, in columns. It knows nobody: who asks was let in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from itertools import islice
from typing import Any, TypeVar

import grpc

from gsched.base.errors import BadRequest, GschedError
from gsched.master.past.finished_accounts import are_more, read_accounts, read_costs, read_told
from gsched.master.past.gpu_sums import read_gpu_sums
from gsched.master.past.job_histories import Histories, StoredTimes
from gsched.model.views.catalogue import Account, AccountFilter
from gsched.model.views.gpu_sums import GpuSumsQuery
from gsched.model.views.past_query import HistoryQuery, JobTimes
from gsched.store.history_queries import History
from gsched.wire.messages.convert import fill, from_proto
from gsched.wire.messages.protocol import HISTORY_LIMIT
from gsched.wire.server import status_of
from gsched.wire.v1 import catalogue_pb2, catalogue_pb2_grpc, past_pb2, past_pb2_grpc

log = logging.getLogger(__name__)
R = TypeVar("R")
ACCOUNTS_PER_MESSAGE = 500
MESSAGE_CHARACTERS = 8 << 20
"""Of the events of one message, unless a single job has more: far below what gRPC takes, however they are encoded."""


def with_statuses(method: Callable[..., Iterator[R]]) -> Callable[..., Iterator[R]]:
    """The method, whose GschedErrors become statuses; of any other exception the master gets one line."""

    @wraps(method)
    def call(self: Any, request: Any, context: Any) -> Iterator[R]:
        try:
            yield from method(self, request, context)
        except GschedError as error:
            context.abort(status_of(error), error.text)
        except Exception:
            log.exception("%s failed", method.__name__)
            context.abort(grpc.StatusCode.INTERNAL, f"{method.__name__} failed; the master's log says why")

    return call


_told = with_statuses


class HistoriesServicer(past_pb2_grpc.PastServicer):
    """Of one store."""

    def __init__(self, history: History) -> None:
        self._history = history

    @_told
    def Histories(self, request: Any, context: Any) -> Iterator[Any]:
        wanted = from_proto(request, HistoryQuery)
        if wanted.limit < 0:
            raise BadRequest(f"Bad argument: limit {wanted.limit} is less than 0")
        histories = Histories(self._history, min(wanted.limit or HISTORY_LIMIT, HISTORY_LIMIT))
        for page in histories.read(wanted):
            for part in messages_of(page):
                yield history_reply(part, histories.cut_at)
        floor = self._history.floor()
        if floor.events_from:  # at the least as late as that of jobs
            yield past_pb2.HistoriesReply(kept_from=floor.jobs_from or None, events_kept_from=floor.events_from)

    @_told
    def GpuUseSums(self, request: Any, context: Any) -> Iterator[Any]:
        for sums in read_gpu_sums(self._history, from_proto(request, GpuSumsQuery)):
            reply = past_pb2.GpuSumsReply()
            for each in sums:
                fill(reply.sums.add(), each)
            yield reply


class AccountsServicer(catalogue_pb2_grpc.CatalogueServicer):
    """Of one store."""

    def __init__(self, history: History) -> None:
        self._history = history

    @_told
    def Accounts(self, request: Any, context: Any) -> Iterator[Any]:
        wanted = from_proto(request.filter, AccountFilter)
        if request.most and are_more(self._history, wanted, request.most):
            yield catalogue_pb2.AccountsReply(are_more=True)
            return
        if request.told:
            for page in read_told(self._history, wanted):
                reply = catalogue_pb2.AccountsReply()
                for account in page:
                    fill(reply.accounts.add(), account)
                yield reply
            return
        if request.brief:
            for page in read_costs(self._history, wanted):
                yield catalogue_pb2.AccountsReply(columns=_columns(page))
            return
        found = read_accounts(self._history, wanted, jobs=request.jobs)
        while part := list(islice(found, ACCOUNTS_PER_MESSAGE)):
            reply = catalogue_pb2.AccountsReply()
            for account in part:
                fill(reply.accounts.add(), account)
            yield reply


def messages_of(page: Iterable[StoredTimes]) -> Iterator[list[StoredTimes]]:
    """The page in parts that fit into a message each: jobs may have been submitted with a megabyte of command line."""
    part: list[StoredTimes] = []
    size = 0
    for each in page:
        more = 0 if isinstance(each, JobTimes) else sum(len(record.payload) for record in each.events)
        if part and size + more > MESSAGE_CHARACTERS:
            yield part
            part, size = [], 0
        part.append(each)
        size += more
    yield part


def history_reply(page: Iterable[StoredTimes], cut_at: float | None) -> past_pb2.HistoriesReply:
    """A page of histories as a message."""
    reply = past_pb2.HistoriesReply(cut_at=cut_at)
    brief: list[JobTimes] = []
    for each in page:
        if isinstance(each, JobTimes):
            brief.append(each)
            continue
        told = reply.histories.add(job_id=each.job_id)
        for record in each.events:
            told.events.add(
                seq=record.seq, at=record.at, kind=record.kind, job_id=record.job_id, payload=record.payload
            )
    times = reply.times
    times.job_ids.extend(each.job_id for each in brief)
    times.users.extend(each.user for each in brief)
    times.names.extend(each.name for each in brief)
    times.submitted_at.extend(each.submitted_at for each in brief)
    times.dispatched_at.extend(each.dispatched_at or 0.0 for each in brief)
    times.finished_at.extend(each.finished_at or 0.0 for each in brief)
    return reply


def _columns(page: Sequence[Account]) -> catalogue_pb2.AccountColumns:
    return catalogue_pb2.AccountColumns(
        job_ids=[each.job_id for each in page],
        done=[each.state == "DONE" for each in page],
        submitted_at=[each.submitted_at for each in page],
        dispatched_at=[each.dispatched_at or 0.0 for each in page],
        finished_at=[each.finished_at for each in page],
        cpu_s=[each.cpu_s for each in page],
        gpu_s=[each.gpu_s for each in page],
    )
