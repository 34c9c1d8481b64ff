"""What Scheduler answered at a time in the past: questions about jobs, hosts, queues and the cluster as they were then.

It knows nobody: the master lets in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gsched.base.errors import BadRequest
from gsched.master.past.past_boards import PastBoard, PastBoards
from gsched.master.rpc.listings import check_filter, cluster_view, hosts_reply, queues_reply
from gsched.master.rpc.replies import job_replies
from gsched.model.views.view import JobFilter
from gsched.store.history_queries import History
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.v1 import model_pb2, past_pb2


class PastAnswers:
    """Of one store."""

    def __init__(self, history: History) -> None:
        self._boards = PastBoards(history)

    def answer(self, request: Any) -> Iterator[Any]:
        """Replies to an AtRequest. Raises GschedError."""
        with self._boards.at(request.at) as past:
            replies = _replies(past, request)
        yield from replies


def _replies(past: PastBoard, request: Any) -> Iterator[Any]:
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
