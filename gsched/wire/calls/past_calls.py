"""The part of the client that asks the Past service; it waits for a master as the Client it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import grpc

from gsched.base.ids import job_order
from gsched.model.views.gpu_sums import GpuSums, GpuSumsQuery
from gsched.model.views.past_query import HistoryQuery, JobTimes
from gsched.model.views.view import ClusterView, HostView, JobFilter, JobHistory, JobView, QueueView, SharedView
from gsched.wire.messages.batch_codec import job_views
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.v1 import model_pb2, past_pb2, past_pb2_grpc, scheduler_pb2


class KeptSince(NamedTuple):
    """Of finished jobs that ended before these times, UTC seconds; None: all is kept."""

    jobs: float | None = None
    """They are no longer kept."""
    events: float | None = None
    """What happened to them is no longer kept."""


class PastAnswer:
    """An answer, read while it arrives: by ascending number, elements of an array behind its record."""

    def __init__(self, replies: Iterator[Any]) -> None:
        self._replies = replies
        self.cut_at: float | None = None
        """Set with the first job when there are more than were looked at: those submitted before that time."""
        self.kept = KeptSince()
        """Set once all has been read."""
        self._begun: list[Any] = []

    def are_more(self) -> bool:
        """Whether there are more than were asked for at most; to be asked before the jobs are."""
        self._begun = list(islice(self._replies, 1))
        return any(reply.HasField("cut_at") for reply in self._begun)

    def close(self) -> None:
        """Read no further."""
        close: Callable[[], object] = getattr(self._replies, "close", lambda: None)
        close()

    def __iter__(self) -> Iterator[JobHistory | JobTimes]:
        for reply in chain(self._begun, self._replies):
            if reply.HasField("cut_at"):
                self.cut_at = reply.cut_at
            if reply.HasField("kept_from"):
                self.kept = self.kept._replace(jobs=reply.kept_from)
            if reply.HasField("events_kept_from"):
                self.kept = self.kept._replace(events=reply.events_kept_from)
            times = _times(reply.times)
            if not reply.histories:
                yield from times
                continue
            told: list[JobHistory | JobTimes] = [*times, *(from_proto(each, JobHistory) for each in reply.histories)]
            yield from sorted(told, key=_order)


class PastCalls:
    """`stream` sends one request by a method of the channel, as the Client that owns it does."""

    def __init__(self, channel: grpc.Channel, stream: Callable[[Any, Any], Iterator[Any]]) -> None:
        self._channel = channel
        self._stub = past_pb2_grpc.PastStub(channel)
        self._stream = stream

    def at(self, at: float) -> PastLook:
        """What was to be seen at that time, UTC seconds."""
        return PastLook(self._channel, self._stream, at)

    def histories(self, wanted: HistoryQuery) -> PastAnswer:
        """Histories of the jobs that are wanted, however long ago they finished."""
        return PastAnswer(self._stream(self._stub.Histories, to_proto(wanted, past_pb2.HistoryQuery)))

    def kept(self) -> KeptSince:
        """Since when history is kept."""
        told = self.histories(HistoryQuery(jobs=JobFilter(ids=(0,), user="all", finished=True), brief=True))
        for _ in told:
            pass
        return told.kept

    def gpu_sums(self, wanted: GpuSumsQuery) -> Iterator[GpuSums]:
        """What jobs made of their GPUs in sums, week by week, names in order."""
        for reply in self._stream(self._stub.GpuUseSums, to_proto(wanted, past_pb2.GpuSumsQuery)):
            yield from (from_proto(each, GpuSums) for each in reply.sums)


class PastLook:
    """What the master answered at a time, `at` (UTC seconds): with the names of Client. Raises BadRequest for a time
    before history begins, or in the future.
    """

    def __init__(self, channel: grpc.Channel, stream: Callable[[Any, Any], Iterator[Any]], at: float) -> None:
        self._stub = past_pb2_grpc.PastStub(channel)
        self._stream = stream
        self._at = at

    def jobs(self, wanted: JobFilter | None = None) -> Iterator[JobView]:
        """As Client.jobs."""
        replies = self._ask(jobs=to_proto(wanted or JobFilter(), model_pb2.JobFilter))
        return job_views(job for reply in replies for job in reply.jobs.jobs)

    def hosts(self, names: Iterable[str] = (), *, topology: bool = False, requirement: str = "") -> list[HostView]:
        """As Client.hosts."""
        hosts = scheduler_pb2.HostsRequest(names=list(names), topology=topology, requirement=requirement)
        return [from_proto(host, HostView) for reply in self._ask(hosts=hosts) for host in reply.hosts.hosts]

    def sharing(self) -> tuple[list[HostView], list[SharedView]]:
        """As Client.sharing."""
        (reply,) = self._ask(hosts=scheduler_pb2.HostsRequest())
        shared = [from_proto(each, SharedView) for each in reply.hosts.shared]
        return [from_proto(host, HostView) for host in reply.hosts.hosts], shared

    def queues(self, names: Iterable[str] = ()) -> list[QueueView]:
        """As Client.queues."""
        queues = scheduler_pb2.QueuesRequest(names=list(names))
        return [from_proto(queue, QueueView) for reply in self._ask(queues=queues) for queue in reply.queues.queues]

    def cluster(self) -> ClusterView:
        """Name, master and defaults of the cluster."""
        (reply,) = self._ask(cluster=scheduler_pb2.ClusterRequest())
        return from_proto(reply.cluster, ClusterView)

    def _ask(self, **question: Any) -> Iterator[Any]:
        return self._stream(self._stub.At, past_pb2.AtRequest(at=self._at, **question))


def _order(told: JobHistory | JobTimes) -> int:
    return job_order(told.job_id)


def _times(columns: past_pb2.JobTimes) -> Iterator[JobTimes]:
    rows = zip(
        columns.job_ids,
        columns.users,
        columns.names,
        columns.submitted_at,
        columns.dispatched_at,
        columns.finished_at,
        strict=True,
    )
    for job_id, user, name, submitted_at, dispatched_at, finished_at in rows:
        yield JobTimes(job_id, user, name, submitted_at, dispatched_at or None, finished_at or None)
