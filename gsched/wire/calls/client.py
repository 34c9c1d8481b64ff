"""The typed client of the master: what commands, tests and programs use. Synchronous; safe to share between threads.

It waits for a master that is restarting, and repeats a submission only under its token, so that no retry makes a
second job. It never says who the caller is: the other side finds that out for itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import grpc

from gsched.base.errors import Conflict, GschedError, NotFound
from gsched.base.ids import array_of, new_token, show_job
from gsched.model.jobs.job import FINISHED, JobSpec
from gsched.model.views.archive_question import ArchivedJobs, RemovedArchived
from gsched.model.views.drained_job import DrainedJob
from gsched.model.views.explanation import JobDryRun, JobExplanation
from gsched.model.views.guarantee_view import PoolView, ServiceClassView
from gsched.model.views.job_comparison import JobComparison
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.room_view import (
    FragmentView,
    LimitSection,
    LimitView,
    PendingSummary,
    ReservationPolicyView,
    ReservationView,
)
from gsched.model.views.view import (
    Answer,
    ArrayView,
    ClusterView,
    ConditionView,
    Control,
    EventRecord,
    HostView,
    JobFilter,
    JobGroupView,
    JobHistory,
    JobTexts,
    JobView,
    OutputChunk,
    QueueView,
    ReconfigResult,
    SharedView,
    StartForecast,
    Submission,
    Submitted,
)
from gsched.wire.calls.bulk_calls import FEW, BulkCalls, JobTableCalls
from gsched.wire.calls.catalogue_calls import Catalogue
from gsched.wire.calls.completion_watch import EndsCall
from gsched.wire.calls.fleet_calls import FleetCalls
from gsched.wire.calls.past_calls import PastCalls
from gsched.wire.calls.retried_calls import BrokenOff, Calls, Cancellable
from gsched.wire.calls.retry_policy import DEFAULT_WAIT_S
from gsched.wire.calls.service_calls import ServiceCalls
from gsched.wire.calls.terminal_calls import TerminalCalls
from gsched.wire.channel import CHANNEL_OPTIONS
from gsched.wire.messages.batch_codec import add_submissions, job_views, read_submitted
from gsched.wire.messages.control_action import ControlAction
from gsched.wire.messages.convert import fill, from_proto, to_proto
from gsched.wire.v1 import model_pb2, scheduler_pb2, scheduler_pb2_grpc

IDS_PER_QUERY = 10_000


def _set_filter(request: Any, wanted: JobFilter | None) -> None:
    """Put the filter into the request's field `filter`; its absence is told apart from one that admits all."""
    if wanted is not None:
        fill(request.filter, wanted)
        request.filter.SetInParent()


class Client:
    """A connection to one master at `address` (`unix:/path`).

    `wait_s`: how long a call waits for a master that does not answer, in seconds; `on_wait` is called once per call
    when the waiting begins, with who is waited for.
    """

    def __init__(
        self,
        address: str,
        *,
        wait_s: float = DEFAULT_WAIT_S,
        on_wait: Callable[[str], None] | None = None,
        channel: grpc.Channel | None = None,
    ) -> None:
        self.address = address
        self._owns_channel = channel is None
        self._channel = channel or grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        calls = Calls(self._channel, address, wait_s, on_wait)
        self._call, self._stream = calls.call, calls.stream
        self._bulk = BulkCalls(self._channel, calls)
        self._stub = scheduler_pb2_grpc.SchedulerStub(self._channel)
        self._administration = scheduler_pb2_grpc.AdministrationStub(self._channel)
        self.catalogue = Catalogue(self._channel, self._call, self._stream)
        """Users, groups, resources and accounts."""
        self.past = PastCalls(self._channel, self._stream)
        """What happened to jobs, also to those long finished."""
        self.fleet = FleetCalls(self._channel, self._call)
        """Daemons of all hosts."""
        self.tables = JobTableCalls(self._channel, self._stream, self.jobs)
        """Jobs in columns."""
        self.terminal = TerminalCalls(self._channel, self._call, self._stream)
        """Of interactive jobs."""
        self.services = ServiceCalls(self._channel, self._call)
        """Of jobs that have a page of their own."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, unless it was given from outside."""
        if self._owns_channel:
            self._channel.close()

    def submit(self, submission: Submission, *, token: str = "") -> Submitted:
        """Submit one job; returns once it is durable."""
        return self.submit_many([submission], token=token)[0]

    def submit_many(self, submissions: Sequence[Submission], *, token: str = "") -> list[Submitted]:
        """Submit all or none of the jobs, in one durable step. The same token never makes a second set."""
        request = scheduler_pb2.SubmitRequest(token=token or new_token())
        add_submissions(request, submissions)
        if len(submissions) <= FEW:
            return read_submitted(self._call(self._stub.Submit, request))
        return self._bulk.submit(request)

    def jobs(self, wanted: JobFilter | None = None) -> Iterator[JobView]:
        """Jobs that the filter admits, in the order gjobs shows them."""
        replies = self._stream(self._stub.Jobs, to_proto(wanted or JobFilter(), model_pb2.JobFilter))
        return job_views(job for reply in replies for job in reply.jobs)

    def hosts(self, names: Iterable[str] = (), *, topology: bool = False, requirement: str = "") -> list[HostView]:
        """All hosts, or the named ones; with `topology` their processors. Raises NotFound for a name that is none.

        `requirement`: only those that its select[] admits, in the order of its order[]. Raises BadRequest.
        """
        request = scheduler_pb2.HostsRequest(names=list(names), topology=topology, requirement=requirement)
        reply = self._call(self._stub.Hosts, request)
        return [from_proto(host, HostView) for host in reply.hosts]

    def sharing(self) -> tuple[list[HostView], list[SharedView]]:
        """All hosts, and what they share."""
        reply = self._call(self._stub.Hosts, scheduler_pb2.HostsRequest())
        shared = [from_proto(each, SharedView) for each in reply.shared]
        return [from_proto(host, HostView) for host in reply.hosts], shared

    def queues(self, names: Iterable[str] = ()) -> list[QueueView]:
        """All queues by descending priority, or the named ones. Raises NotFound."""
        reply = self._call(self._stub.Queues, scheduler_pb2.QueuesRequest(names=list(names)))
        return [from_proto(queue, QueueView) for queue in reply.queues]

    def cluster(self, *, parameters: bool = False) -> ClusterView:
        """The cluster's name, master, defaults and health; with `parameters` lsb.params as it counts."""
        request = scheduler_pb2.ClusterRequest(parameters=parameters)
        return from_proto(self._call(self._stub.Cluster, request), ClusterView)

    def control(
        self,
        what: str | ControlAction,
        job_ids: Sequence[int] = (),
        *,
        wanted: JobFilter | None = None,
        done: list[Control] | None = None,
    ) -> list[Control]:
        """Do it to jobs: the given ids, or those of the caller that the filter admits. An array's number stands for all
        its elements. What needs no more than its word may be given as that, such as `kill`.

        However long it takes: what is done stands in `done` at any time. Raises GschedError.
        """
        request = (ControlAction(action=what) if isinstance(what, str) else what).request(job_ids)
        _set_filter(request, wanted)
        if 0 < len(job_ids) <= FEW:
            return [from_proto(item, Control) for item in self._call(self._stub.Control, request).results]
        return self._bulk.control(request, done if done is not None else [])

    def modify(
        self,
        job_ids: Sequence[int],
        spec: JobSpec,
        fields: Sequence[str],
        wanted: JobFilter | None = None,
        *,
        notice_targets: bytes = b"",
        done: list[Control] | None = None,
    ) -> list[Control]:
        """Give jobs the values that `spec` has for the named fields; `queue` alone switches them to that queue.

        With no ids: the caller's jobs that `wanted` admits. `notice_targets` goes with the field `notices`. `done` as
        of `control`.
        """
        request = scheduler_pb2.ModifyRequest(job_ids=job_ids, fields=fields, notice_targets=notice_targets)
        fill(request.spec, spec)
        _set_filter(request, wanted)
        if 0 < len(job_ids) <= FEW:
            return [from_proto(item, Control) for item in self._call(self._administration.Modify, request).results]
        return self._bulk.modify(request, done if done is not None else [])

    def host_control(self, action: str, hosts: Sequence[str], comment: str = "") -> list[str]:
        """`open` or `close` hosts for new jobs; returns the hosts that were named."""
        request = scheduler_pb2.HostControlRequest(action=action, hosts=hosts, comment=comment)
        return list(self._call(self._stub.HostControl, request).hosts)

    def drain_hosts(self, hosts: Sequence[str], comment: str = "", grace_s: int | None = None) -> list[DrainedJob]:
        """Close hosts, and have their jobs run again elsewhere; `grace_s`: seconds for saving their state, in the place
        of what each says. Returns what becomes of each job.
        """
        request = scheduler_pb2.HostControlRequest(action="drain", hosts=hosts, comment=comment, grace_s=grace_s)
        return [from_proto(job, DrainedJob) for job in self._call(self._stub.HostControl, request).jobs]

    def gpu_control(
        self, action: str, gpus: Sequence[str], comment: str = "", until: float | None = None
    ) -> list[Answer]:
        """`open` or `close` single GPUs, `HOST:INDEX` or UUIDs; the texts say why opened ones take no jobs all the
        same."""
        request = scheduler_pb2.GpuControlRequest(action=action, gpus=gpus, comment=comment, until=until)
        return [from_proto(item, Answer) for item in self._call(self._administration.GpuControl, request).answers]

    def queue_control(self, action: str, queues: Sequence[str] = (), comment: str = "") -> list[Answer]:
        """`open`, `close`, `activate` or `inactivate` queues; none named means all."""
        request = scheduler_pb2.QueueControlRequest(action=action, queues=queues, comment=comment)
        return [from_proto(item, Answer) for item in self._call(self._administration.QueueControl, request).answers]

    def metrics(self, *, older: bool = False) -> bytes:
        """The page of metrics in OpenMetrics, or in Prometheus' older text format."""
        request = scheduler_pb2.MetricsRequest(older=older)
        return b"".join(part.text for part in self._stream(self._administration.Metrics, request))

    def end_orphans(self, names: Sequence[str]) -> list[Answer]:
        """End attempts that the store has no record of: `all`, those of hosts, or by their names `JOB.ATTEMPT`."""
        request = scheduler_pb2.EndOrphansRequest(names=names)
        return [from_proto(item, Answer) for item in self._call(self._administration.EndOrphans, request).answers]

    def remove_archived(self, wanted: ArchivedJobs) -> RemovedArchived:
        """Have jobs that an archive has taken out of the store, those that have not changed since. To be repeated at
        will. Raises Conflict where it is another store.
        """
        request = scheduler_pb2.RemoveArchivedRequest(
            **wanted.part._asdict(), job_ids=list(wanted.events), events=list(wanted.events.values())
        )
        reply = self._call(self._administration.RemoveArchived, request)
        return RemovedArchived(reply.gone, reply.is_floor_above)

    def groups(self, names: Iterable[str] = ()) -> list[JobGroupView]:
        """All job groups by name, or the named ones. Raises NotFound."""
        reply = self._call(self._administration.Groups, scheduler_pb2.GroupsRequest(names=list(names)))
        return [from_proto(item, JobGroupView) for item in reply.groups]

    def group_control(self, action: str, groups: Sequence[str], job_limit: int = -1) -> list[Answer]:
        """`add`, `modify` or `remove` job groups; `job_limit` -1 means none."""
        request = scheduler_pb2.GroupControlRequest(action=action, groups=groups, job_limit=job_limit)
        return [from_proto(item, Answer) for item in self._call(self._administration.GroupControl, request).answers]

    def reservations(self, names: Iterable[str] = ()) -> list[ReservationView]:
        """All advance reservations by their start, or the named ones. Raises NotFound."""
        reply = self._call(self._administration.Reservations, scheduler_pb2.ReservationsRequest(names=list(names)))
        return [from_proto(item, ReservationView) for item in reply.reservations]

    def reservation_policies(self) -> list[ReservationPolicyView]:
        """The sections ResourceReservation of lsb.resources, in their order; none from a master that is older."""
        reply = self._call(self._administration.Reservations, scheduler_pb2.ReservationsRequest())
        return [from_proto(item, ReservationPolicyView) for item in reply.policies]

    def reservation_control(
        self,
        action: str,
        reservation: ReservationView,
        *,
        slots: int = 0,
        gpus: int = 0,
        hosts: Sequence[str] = (),
        requirement: str = "",
    ) -> Answer:
        """`add`, `modify` or `remove` an advance reservation. The answer names it (the master finds a name for one
        without). `slots` and `gpus` are to be found on `hosts` (none: any) that meet `requirement`.
        """
        request = scheduler_pb2.ReservationControlRequest(
            action=action, slots=slots, gpus=gpus, hosts=hosts, requirement=requirement
        )
        fill(request.reservation, reservation)
        return from_proto(self._call(self._administration.ReservationControl, request), Answer)

    def limits(self) -> list[LimitView]:
        """Limits in the order of their configuration, a line for each member that uses something."""
        reply = self._call(self._administration.Limits, scheduler_pb2.LimitsRequest())
        return [from_proto(item, LimitView) for item in reply.limits]

    def limit_sections(self) -> list[LimitSection]:
        """The limits as they were written."""
        reply = self._call(self._administration.Limits, scheduler_pb2.LimitsRequest())
        return [from_proto(item, LimitSection) for item in reply.sections]

    def pools(self) -> list[PoolView]:
        """Guaranteed pools in the order of their configuration."""
        reply = self._call(self._administration.Guarantees, scheduler_pb2.GuaranteesRequest())
        return [from_proto(item, PoolView) for item in reply.pools]

    def service_classes(self) -> tuple[list[ServiceClassView], list[PoolView]]:
        """Service classes in the order of their configuration, and the pools that guarantee something to them."""
        reply = self._call(self._administration.Guarantees, scheduler_pb2.GuaranteesRequest())
        classes = [from_proto(item, ServiceClassView) for item in reply.classes]
        return classes, [from_proto(item, PoolView) for item in reply.pools]

    def arrays(self, job_ids: Sequence[int] = (), wanted: JobFilter | None = None) -> list[ArrayView]:
        """Job arrays with the counts of their elements: those of the given numbers, or those that `wanted` admits."""
        request = to_proto(wanted or JobFilter(), model_pb2.JobFilter)
        request.ids.extend(job_ids)
        return [from_proto(item, ArrayView) for item in self._call(self._administration.Arrays, request).arrays]

    def pending_summary(self) -> PendingSummary:
        """What all pending jobs wait for, counted by reason."""
        return from_proto(self._call(self._administration.Pending, scheduler_pb2.PendingRequest()), PendingSummary)

    def slot_sums(self, wanted: JobFilter) -> dict[str, int]:
        """The slots of the unfinished jobs that the filter admits, by state."""
        request = to_proto(wanted, model_pb2.JobFilter)
        return dict(self._call(self._administration.SlotSums, request).slots)

    def condition(self, text: str) -> ConditionView:
        """Whether a condition on jobs holds, as -w of gsub has them. Raises BadRequest."""
        request = scheduler_pb2.ConditionRequest(text=text)
        return from_proto(self._call(self._administration.Condition, request), ConditionView)

    def forecast(self, spec: JobSpec) -> StartForecast:
        """When a job like this could start if it were submitted now. Raises GschedError where it would be refused."""
        request = scheduler_pb2.ForecastRequest(spec=to_proto(spec, model_pb2.JobSpec))
        return from_proto(self._call(self._administration.Forecast, request), StartForecast)

    def explain(self, job_id: int) -> JobExplanation:
        """Why a pending job waits, and until when. Raises NotFound, and Conflict for a job that does not wait."""
        request = scheduler_pb2.ExplainRequest(job_id=job_id)
        return from_proto(self._call(self._administration.Explain, request), JobExplanation)

    def why_not(self, job_id: int, other_id: int) -> JobComparison:
        """Why a job waits, and another one runs or stands before it. Raises NotFound, Conflict, BadRequest."""
        request = scheduler_pb2.WhyNotRequest(job_id=job_id, other_id=other_id)
        return from_proto(self._call(self._administration.WhyNot, request), JobComparison)

    def dry_run(self, spec: JobSpec) -> JobDryRun:
        """What would become of a job like this. Raises GschedError where it would be refused."""
        request = scheduler_pb2.ForecastRequest(spec=to_proto(spec, model_pb2.JobSpec))
        return from_proto(self._call(self._administration.DryRun, request), JobDryRun)

    def fragmentation(self) -> list[FragmentView]:
        """Per host: the GPUs that one more job could get there now, and what holds the others back."""
        reply = self._call(self._administration.Fragmentation, scheduler_pb2.FragmentationRequest())
        return [from_proto(item, FragmentView) for item in reply.hosts]

    def history(self, wanted: JobFilter, *, limit: int = 0) -> Iterator[JobHistory]:
        """Stored events of the jobs that the filter admits, also of those long finished; see `past` for more."""
        for told in self.past.histories(HistoryQuery(jobs=wanted, limit=limit)):
            if isinstance(told, JobHistory):
                yield told

    def following(self) -> Cancellable:
        """Something to be given to `events`: another thread can end them by it; they raise GschedError then."""
        return Cancellable(self._stub.Events)

    def events(
        self,
        after_seq: int = -1,
        *,
        follow: bool = True,
        job_ids: Sequence[int] = (),
        ended_by: Cancellable | None = None,
        pause_s: float = 0.0,
    ) -> Iterator[EventRecord]:
        """Committed events in order; with `follow` the iterator waits for more (it survives a master restart).

        `pause_s`: of those that come within so many seconds after one, the newest alone, when they are over.
        """
        while True:
            request = scheduler_pb2.EventsRequest(after_seq=after_seq, follow=follow, job_ids=job_ids, pause_s=pause_s)
            try:
                for item in self._stream(ended_by or self._stub.Events, request):
                    after_seq = item.seq
                    if item.kind:
                        yield from_proto(item, EventRecord)
                return
            except BrokenOff:
                if not follow:
                    raise

    def last_event(self) -> int:
        """Number of the newest committed event."""
        request = scheduler_pb2.EventsRequest(after_seq=-1)
        return max((int(item.seq) for item in self._stream(self._stub.Events, request)), default=0)

    def wait(self, job_ids: Sequence[int], *, timeout_s: float | None = None) -> dict[int, JobView]:
        """Wait until all the jobs have finished; returns them by id. An array's number means all its elements, which
        are returned by their own. Raises TimeoutError, NotFound (unknown id).
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        stream = Cancellable(self._stub.Events)
        timer = None
        if deadline is not None:
            timer = threading.Timer(max(0.0, deadline - time.monotonic()), stream.cancel)
            timer.daemon = True
            timer.start()
        open_ids = set(job_ids)
        try:
            while open_ids and not stream.is_stopped:
                self._wait_once(stream, job_ids, open_ids)
            if not open_ids:
                return self._by_id(job_ids)
        except GschedError:
            if deadline is None or time.monotonic() < deadline:
                raise
        finally:
            if timer is not None:
                timer.cancel()
            stream.cancel()
        still = ", ".join(show_job(job_id) for job_id in sorted(open_ids)[:20])
        raise TimeoutError(f"jobs {still} have not finished within {timeout_s} s")

    def _wait_once(self, stream: Cancellable, job_ids: Sequence[int], open_ids: set[int]) -> None:
        """Follow events until no job is left or the stream ends; `open_ids` become the jobs that have not finished."""
        request = scheduler_pb2.EventsRequest(after_seq=-1, follow=True, job_ids=list(job_ids))
        try:
            for item in self._stream(stream, request):
                if item.kind == "job_finished":
                    open_ids.discard(item.job_id)
                elif not item.kind or item.kind == "array_elements_finished":
                    # The first record only says "subscribed": what ends later is seen, what ended before is asked for.
                    left = {job_id for job_id, job in self._by_id(job_ids).items() if job.state not in FINISHED}
                    open_ids.clear()
                    open_ids.update(left)
                if not open_ids:
                    break
        except (BrokenOff, Conflict):
            pass  # the master restarts, or we were too slow: subscribe anew

    def _by_id(self, job_ids: Sequence[int]) -> dict[int, JobView]:
        found: dict[int, JobView] = {}
        for start in range(0, len(job_ids), IDS_PER_QUERY):
            part = tuple(job_ids[start : start + IDS_PER_QUERY])
            found.update((job.job_id, job) for job in self.jobs(JobFilter(ids=part, user="all", finished=True)))
        arrays = {array_of(job_id) for job_id in found}
        for job_id in job_ids:
            if job_id not in found and job_id not in arrays:
                raise NotFound(f"Job <{show_job(job_id)}> is not found")
        return found

    def ends(self) -> EndsCall:
        """An open question after the ends of jobs."""
        return EndsCall(self._channel)

    def output(
        self,
        job_id: int,
        *,
        stdout_from: int = 0,
        stderr_from: int = 0,
        follow: bool = False,
        terminal: bool = False,
        until: float | None = None,
    ) -> Iterator[OutputChunk]:
        """What the job has written so far, from those bytes on; with `follow` until its attempt is over. `terminal`:
        for the terminal of an interactive job, of whose output nothing is kept that has been asked for.

        Raises Conflict if it has not started, or has finished and its output is in a file of its own; Unavailable where
        it is not all there at `until`, seconds of the monotonic clock.
        """

        def asked(request: scheduler_pb2.OutputRequest) -> Any:
            left_s = None if until is None else max(0.001, until - time.monotonic())
            return self._stub.Output(request, timeout=left_s)

        request = scheduler_pb2.OutputRequest(
            job_id=job_id, stdout_from=stdout_from, stderr_from=stderr_from, follow=follow, terminal=terminal
        )
        for item in self._stream(asked, request):
            yield from_proto(item, OutputChunk)

    def texts(self, job_id: int) -> JobTexts:
        """What the job was submitted with. Raises NotFound, PermissionDenied for somebody else's."""
        return from_proto(self._call(self._stub.Texts, scheduler_pb2.TextsRequest(job_id=job_id)), JobTexts)

    def attachment(self, job_id: int, box: int) -> bytes:
        """What was posted with the message in that box. Raises NotFound, PermissionDenied."""
        request = scheduler_pb2.AttachmentRequest(job_id=job_id, box=box)
        return bytes(self._call(self._stub.Attachment, request).data)

    def reconfigure(self, *, apply: bool) -> ReconfigResult:
        """Check the configuration files; with `apply` switch to them if they are good."""
        request = scheduler_pb2.ReconfigRequest(apply=apply)
        return from_proto(self._call(self._stub.Reconfigure, request), ReconfigResult)
