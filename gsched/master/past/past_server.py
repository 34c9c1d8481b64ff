"""The server of the process that reads for the master: histories, accounts, and what was to be seen at a time. It knows
nobody: the master lets in.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from gsched.base.errors import BadRequest
from gsched.master.past.answering import AccountsServicer, HistoriesServicer, with_statuses
from gsched.master.past.past_boards import PastBoard, PastBoards
from gsched.master.rpc.listings import check_filter, cluster_view, hosts_reply, queues_reply
from gsched.master.rpc.replies import job_replies
from gsched.model.views.view import JobFilter
from gsched.store.history_queries import History
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.server import SERVER_OPTIONS, listen
from gsched.wire.v1 import catalogue_pb2_grpc, model_pb2, past_pb2, past_pb2_grpc


def open_server(store: str, socket: str, readers: int) -> grpc.Server:
    """A server of the store's past on that unix socket, not yet started. Raises GschedError."""
    history = History(store)
    server = grpc.server(ThreadPoolExecutor(readers), options=SERVER_OPTIONS)
    past_pb2_grpc.add_PastServicer_to_server(_Past(history), server)
    catalogue_pb2_grpc.add_CatalogueServicer_to_server(AccountsServicer(history), server)  # type: ignore[abstract]
    listen(server, socket)
    return server


class _Past(HistoriesServicer):
    """With what Scheduler answered at a time."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._boards = PastBoards(history)

    @with_statuses
    def At(self, request: Any, context: Any) -> Iterator[Any]:
        with self._boards.at(request.at) as past:
            replies = at_replies(past, request)
        yield from replies


def at_replies(past: PastBoard, request: Any) -> Iterator[Any]:
    """Answers to an AtRequest; of jobs they are made while they are read. Raises GschedError."""
    question = request.WhichOneof("question")
    if question == "jobs":
        wanted = from_proto(request.jobs, JobFilter)
        check_filter(wanted, past.board)
        jobs = list(past.board.jobs(wanted))
        return (past_pb2.AtReply(jobs=each) for each in job_replies(jobs))
    if question == "hosts":
        return iter([past_pb2.AtReply(hosts=hosts_reply(past.board, request.hosts, lambda view: view))])
    if question == "queues":
        return iter([past_pb2.AtReply(queues=queues_reply(past.board, request.queues.names, past.shares, past.at))])
    if question != "cluster":
        raise BadRequest("no question about the past")
    return iter([past_pb2.AtReply(cluster=to_proto(cluster_view(past.board.config), model_pb2.ClusterView))])
