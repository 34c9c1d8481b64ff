"""A master that answers what a test put into it, over real gRPC; and a Call that remembers its output."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import msgspec

from gsched.base.ids import array_of
from gsched.cli.session.call import Call, run_main
from gsched.master.views.job_table import AlikeViews
from gsched.model import event as events
from gsched.model.jobs.job import FINISHED, JobSpec
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.views.catalogue import (
    Account,
    AccountFilter,
    ApplicationView,
    Definitions,
    Grouping,
    TimeSpan,
    UserLimitView,
)
from gsched.model.views.explanation import JobDryRun, JobExplanation
from gsched.model.views.gpu_sums import GpuSums, GpuSumsQuery
from gsched.model.views.job_comparison import JobComparison
from gsched.model.views.past_query import HistoryQuery, JobTimes
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
    JobEnd,
    JobFilter,
    JobGroupView,
    JobHistory,
    JobView,
    OutputChunk,
    QueueView,
    StartForecast,
    Submission,
    Submitted,
)
from gsched.wire.address import MASTER_FILE, write_address
from gsched.wire.messages.column_codec import table_replies
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.v1 import (
    catalogue_pb2,
    catalogue_pb2_grpc,
    job_table_pb2_grpc,
    model_pb2,
    past_pb2,
    past_pb2_grpc,
    scheduler_pb2,
    scheduler_pb2_grpc,
    waiting_pb2,
    waiting_pb2_grpc,
)

LOOK_AGAIN_S = 0.1
"""How soon a stream of events notices that nobody follows it any more."""


def was_in_spans(wanted: HistoryQuery, told: tuple[EventRecord, ...]) -> bool:
    """Whether a job with these events was submitted, dispatched and ended when it is wanted to have been."""
    kinds = {"job_submitted": wanted.submitted, "job_dispatched": wanted.dispatched, "job_finished": wanted.completed}
    for kind, span in kinds.items():
        ats = [each.at for each in told if each.kind == kind]
        if span and not (ats and (span.since or 0.0) <= ats[-1] < (span.until or ats[-1]) + 1):
            return False
    return True


class FakeMaster(
    scheduler_pb2_grpc.SchedulerServicer,
    scheduler_pb2_grpc.AdministrationServicer,
    catalogue_pb2_grpc.CatalogueServicer,
    waiting_pb2_grpc.WaitingServicer,
    job_table_pb2_grpc.JobTablesServicer,
    past_pb2_grpc.PastServicer,
):
    """Canned answers; `refusal` makes every submission fail with its text."""

    def __init__(self) -> None:
        self.views: list[JobView] = []
        self.host_views: list[HostView] = []
        self.queue_views: list[QueueView] = []
        self.cluster_view = ClusterView(
            cluster="firestone",
            master_host="ubuntu02",
            version="0.1.0",
            default_queue="normal",
            external_resources=("ngpus", "ngpus_shared", "ngpus_excl_t", "ngpuprohibited", "ngpus_excl_p"),
        )
        self.histories: dict[int, tuple[EventRecord, ...]] = {}
        self.times: list[JobTimes] = []
        self.cut_at: float | None = None
        self.kept_from: float | None = None
        self.events_kept_from: float | None = None
        self.queries: list[HistoryQuery] = []
        self.live: queue.SimpleQueue[EventRecord | None] = queue.SimpleQueue()
        self.ends: queue.SimpleQueue[JobEnd | None] = queue.SimpleQueue()
        self.waited_for: list[int] = []
        self.outputs: list[list[OutputChunk]] = []
        self.denied_output = ""
        """Why nobody is shown an output."""
        self.followed: list[bool] = []
        self.last_views: list[JobView] | None = None
        """What the jobs become once only the last output is left."""
        self.control_errors: dict[int, str] = {}
        self.refused: Control | None = None
        """What all changes of jobs are answered with, but for the number."""
        self.refusal = ""
        self.warnings: tuple[str, ...] = ()
        self.keeps_warnings = True
        self.next_id = 220
        self.filters: list[JobFilter] = []
        self.submissions: list[Submission] = []
        self.no_queues: tuple[str, ...] = ()
        self.controls: list[tuple[str, tuple[int, ...], JobFilter | None, int]] = []
        self.requests: list[object] = []
        """Requests of the Administration service, and of Control, as they came."""
        self.array_views: list[ArrayView] = []
        self.group_views: list[JobGroupView] = []
        self.reservation_views: list[ReservationView] = []
        self.reservation_policies: list[ReservationPolicyView] = []
        self.limit_views: list[LimitView] = []
        self.limit_sections: list[LimitSection] = []
        self.fragment_views: list[FragmentView] = []
        self.pending = PendingSummary()
        self.slot_sums: dict[str, int] = {}
        self.has_tables = True
        self.forecast = StartForecast()
        self.forecast_spec: JobSpec | None = None
        self.dry_run = JobDryRun(explanation=JobExplanation(job_id=0))
        self.explanations: dict[int, JobExplanation] = {}
        self.comparisons: dict[tuple[int, int], JobComparison] = {}
        self.conditions: list[ConditionView] = []
        self.answer_errors: dict[str, str] = {}
        self.user_views: list[UserLimitView] = []
        self.groupings: dict[str, list[Grouping]] = {}
        self.definitions = Definitions()
        self.applications: list[ApplicationView] = []
        self.accounts: list[Account] = []
        self.account_filters: list[AccountFilter] = []
        self.gpu_sums: list[GpuSums] = []
        self.sum_queries: list[GpuSumsQuery] = []
        self.notices: list[EventRecord] = []
        self.spans: list[TimeSpan] = []

    def Submit(self, request, context):
        asked = [from_proto(item, Submission) for item in request.submissions]
        for item in asked:
            if item.spec.queue in self.no_queues:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{item.spec.queue}: No such queue")
        self.submissions += asked
        if self.refusal:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refusal)
        reply = scheduler_pb2.SubmitReply()
        for job_id, item in enumerate(asked, start=self.next_id):
            spec = item.spec
            job = Submitted(
                job_id=job_id,
                queue=spec.queue or "normal",
                default_queue=not spec.queue_named,
                warnings=(*(spec.warnings if self.keeps_warnings else ()), *self.warnings),
            )
            reply.jobs.append(to_proto(job, model_pb2.Submitted))
            told = record(1, events.JobSubmitted(at=1499222051.0, job_id=job_id, spec=spec))
            self.histories.setdefault(job_id, (told,))
        return reply

    def Jobs(self, request, context):
        wanted = from_proto(request, JobFilter)
        self.filters.append(wanted)
        found = [to_proto(view, model_pb2.JobView) for view in self.views if admits(wanted, view)]
        if found:
            yield scheduler_pb2.JobsReply(jobs=found)

    def Hosts(self, request, context):
        known = {host.name: host for host in self.host_views}
        self.requests.append(request)
        for name in request.names:
            if name not in known:
                context.abort(grpc.StatusCode.NOT_FOUND, f"{name}: Bad host name, host group name or cluster name")
        chosen = [known[name] for name in request.names] or self.host_views
        return scheduler_pb2.HostsReply(hosts=[to_proto(host, model_pb2.HostView) for host in chosen])

    def Users(self, request, context):
        self.requests.append(request)
        for name in request.names:
            if name not in ("all", *(user.name for user in self.user_views)):
                context.abort(grpc.StatusCode.NOT_FOUND, f"{name}: Unknown user")
        users = [user for user in self.user_views if "all" in request.names or user.name in request.names]
        return catalogue_pb2.UsersReply(users=[to_proto(user, catalogue_pb2.UserLimitView) for user in users])

    def Groupings(self, request, context):
        groups = self.groupings.get(request.kind, [])
        return catalogue_pb2.GroupingsReply(groups=[to_proto(each, catalogue_pb2.Grouping) for each in groups])

    def Applications(self, request, context):
        views = [to_proto(each, catalogue_pb2.ApplicationView) for each in self.applications]
        return catalogue_pb2.ApplicationsReply(applications=views)

    def Resources(self, request, context):
        return to_proto(self.definitions, catalogue_pb2.ResourcesReply)

    def Accounts(self, request, context):
        self.account_filters.append(from_proto(request.filter, AccountFilter))
        if 0 < request.most < len(self.accounts):
            yield catalogue_pb2.AccountsReply(are_more=True)
            return
        for account in self.accounts:
            shown = account if request.jobs else msgspec.structs.replace(account, job=None)
            yield catalogue_pb2.AccountsReply(accounts=[to_proto(shown, catalogue_pb2.Account)])

    def Notices(self, request, context):
        self.spans.append(from_proto(request.at, TimeSpan))
        return catalogue_pb2.NoticesReply(events=[to_proto(each, model_pb2.EventRecord) for each in self.notices])

    def Queues(self, request, context):
        known = {each.name: each for each in self.queue_views}
        for name in request.names:
            if name not in known:
                context.abort(grpc.StatusCode.NOT_FOUND, f"{name}: No such queue")
        chosen = [known[name] for name in request.names] or self.queue_views
        return scheduler_pb2.QueuesReply(queues=[to_proto(each, model_pb2.QueueView) for each in chosen])

    def Cluster(self, request, context):
        return to_proto(self.cluster_view, model_pb2.ClusterView)

    def Control(self, request, context):
        wanted = from_proto(request.filter, JobFilter) if request.HasField("filter") else None
        self.controls.append((request.action, tuple(request.job_ids), wanted, request.signal))
        self.requests.append(request)
        return self._controlled(request)

    def _controlled(self, request):
        ids = list(request.job_ids) or [view.job_id for view in self.views if view.state not in FINISHED]
        results = [self._control_of(each) for each in ids]
        return scheduler_pb2.ControlReply(results=[to_proto(each, model_pb2.Control) for each in results])

    def _control_of(self, job_id: int) -> Control:
        if self.refused is not None:
            return msgspec.structs.replace(self.refused, job_id=job_id)
        return Control(job_id=job_id, error=self.control_errors.get(job_id, ""))

    def Attachment(self, request, context):
        self.requests.append(request)
        return scheduler_pb2.AttachmentReply(data=f"{request.job_id}/{request.box}".encode())

    def Modify(self, request, context):
        self.requests.append(request)
        return self._controlled(request)

    def HostControl(self, request, context):
        self.requests.append(request)
        return scheduler_pb2.HostControlReply(hosts=request.hosts)

    def QueueControl(self, request, context):
        self.requests.append(request)
        return self._answered(request.queues, f"Queue <{{}}> is {request.action}")

    def GroupControl(self, request, context):
        self.requests.append(request)
        return self._answered(request.groups, f"Job group {{}} is {request.action}.")

    def ReservationControl(self, request, context):
        self.requests.append(request)
        name = request.reservation.name or "test#0"
        if name in self.answer_errors:
            context.abort(grpc.StatusCode.NOT_FOUND, self.answer_errors[name])
        return model_pb2.Answer(name=name, text=f"Reservation {name} is {request.action}")

    def _answered(self, names, text):
        answers = [Answer(name=each, text=text.format(each), error=self.answer_errors.get(each, "")) for each in names]
        return scheduler_pb2.AnswersReply(answers=[to_proto(each, model_pb2.Answer) for each in answers])

    def Arrays(self, request, context):
        wanted = from_proto(request, JobFilter)
        self.filters.append(wanted)
        found = [each for each in self.array_views if not wanted.ids or each.job_id in wanted.ids]
        return scheduler_pb2.ArraysReply(arrays=[to_proto(each, model_pb2.ArrayView) for each in found])

    def Groups(self, request, context):
        known = {each.name: each for each in self.group_views}
        for name in request.names:
            if name not in known:
                context.abort(grpc.StatusCode.NOT_FOUND, f"No job group {name} found")
        chosen = [known[name] for name in request.names] or self.group_views
        return scheduler_pb2.GroupsReply(groups=[to_proto(each, model_pb2.JobGroupView) for each in chosen])

    def Reservations(self, request, context):
        views = [to_proto(each, model_pb2.ReservationView) for each in self.reservation_views]
        policies = [to_proto(each, model_pb2.ReservationPolicyView) for each in self.reservation_policies]
        return scheduler_pb2.ReservationsReply(reservations=views, policies=policies)

    def Limits(self, request, context):
        return scheduler_pb2.LimitsReply(
            limits=[to_proto(each, model_pb2.LimitView) for each in self.limit_views],
            sections=[to_proto(each, model_pb2.LimitSection) for each in self.limit_sections],
        )

    def Condition(self, request, context):
        self.requests.append(request)
        answer = self.conditions.pop(0) if len(self.conditions) > 1 else self.conditions[0]
        return to_proto(answer, model_pb2.ConditionView)

    def Forecast(self, request, context):
        if self.refusal:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refusal)
        self.forecast_spec = from_proto(request.spec, JobSpec)
        return to_proto(self.forecast, model_pb2.StartForecast)

    def Explain(self, request, context):
        found = self.explanations.get(request.job_id)
        if found is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Job <{request.job_id}>: No matching job found")
        return to_proto(found, model_pb2.JobExplanation)

    def WhyNot(self, request, context):
        found = self.comparisons.get((request.job_id, request.other_id))
        if found is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"Job <{request.job_id}> does not wait: it is in RUN")
        return to_proto(found, model_pb2.JobComparison)

    def DryRun(self, request, context):
        if self.refusal:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refusal)
        self.forecast_spec = from_proto(request.spec, JobSpec)
        return to_proto(self.dry_run, model_pb2.JobDryRun)

    def Read(self, request, context):
        if not self.has_tables:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        wanted = from_proto(request.filter, JobFilter)
        self.filters.append(wanted)
        alike = AlikeViews(with_reasons=request.reasons)
        found = (view for view in self.views if admits(wanted, view))
        yield from table_replies(
            (
                view.job_id,
                view.spec.listed_name(view.job_id),
                view.submitted_at,
                alike.of(view, (view.pending_reasons, view.pending_reasons_at) if request.reasons else ((), None)),
            )
            for view in found
        )

    def SlotSums(self, request, context):
        self.filters.append(from_proto(request, JobFilter))
        return scheduler_pb2.SlotSumsReply(slots=self.slot_sums)

    def Pending(self, request, context):
        return to_proto(self.pending, model_pb2.PendingSummary)

    def Fragmentation(self, request, context):
        views = [to_proto(each, model_pb2.FragmentView) for each in self.fragment_views]
        return scheduler_pb2.FragmentationReply(hosts=views)

    def Histories(self, request, context):
        wanted = from_proto(request, HistoryQuery)
        self.filters.append(wanted.jobs)
        self.queries.append(wanted)
        since = {"kept_from": self.kept_from, "events_kept_from": self.events_kept_from}
        reply = past_pb2.HistoriesReply(cut_at=self.cut_at, **since)
        for job_id in sorted(self.histories, key=lambda number: (array_of(number), number)):
            told = self.histories[job_id]
            if (not wanted.jobs.ids or job_id in wanted.jobs.ids) and was_in_spans(wanted, told):
                reply.histories.append(to_proto(JobHistory(job_id=job_id, events=told), model_pb2.JobHistory))
        for job in self.times:
            reply.times.job_ids.append(job.job_id)
            reply.times.users.append(job.user)
            reply.times.names.append(job.name)
            reply.times.submitted_at.append(job.submitted_at)
            reply.times.dispatched_at.append(job.dispatched_at or 0.0)
            reply.times.finished_at.append(job.finished_at or 0.0)
        yield reply

    def GpuUseSums(self, request, context):
        self.sum_queries.append(from_proto(request, GpuSumsQuery))
        for each in self.gpu_sums:
            yield past_pb2.GpuSumsReply(sums=[to_proto(each, past_pb2.GpuSums)])

    def Events(self, request, context):
        yield model_pb2.EventRecord(seq=request.after_seq)
        if not request.follow:
            return
        while context.is_active():
            try:
                item = self.live.get(timeout=LOOK_AGAIN_S)
            except queue.Empty:
                continue
            if item is None:
                return
            if not context.is_active():
                self.live.put(item)  # for who follows now
                return
            yield to_proto(item, model_pb2.EventRecord)

    def Ends(self, requests, context):
        for request in requests:
            self.waited_for += request.job_ids
            for _ in request.job_ids:
                if (end := self.ends.get()) is not None:
                    yield waiting_pb2.EndsReply(ends=[to_proto(end, model_pb2.JobEnd)])

    def Output(self, request, context):
        if self.denied_output:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, self.denied_output)
        if not self.outputs and all(view.job_id != request.job_id for view in self.views):
            context.abort(grpc.StatusCode.NOT_FOUND, f"Job <{request.job_id}> is not found")
        if not self.outputs:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"Job <{request.job_id}> : Not yet started.")
        chunks = self.outputs.pop(0) if len(self.outputs) > 1 else self.outputs[0]
        self.followed.append(request.follow)
        if len(self.outputs) == 1 and self.last_views is not None:
            self.views = self.last_views
        known = {"stdout": request.stdout_from, "stderr": request.stderr_from}
        for chunk in chunks:
            rest = chunk.data[known[chunk.stream] :]
            known[chunk.stream] = max(0, known[chunk.stream] - len(chunk.data))
            yield to_proto(OutputChunk(stream=chunk.stream, data=rest), model_pb2.OutputChunk)


def admits(wanted: JobFilter, view: JobView) -> bool:
    """What the real filter does, as far as the commands' tests need it."""
    spec = view.spec
    return (
        (not wanted.ids or view.job_id in wanted.ids or array_of(view.job_id) in wanted.ids)
        and wanted.user in ("", "all", spec.user)
        and wanted.queue in ("", spec.queue)
        and (not wanted.states or view.state in wanted.states)
        and (wanted.finished or view.state not in FINISHED)
    )


@contextlib.contextmanager
def serve(master: FakeMaster, folder: Path) -> Iterator[FakeMaster]:
    """The master on a socket in `folder`, published there."""
    server = grpc.server(futures.ThreadPoolExecutor(8))
    scheduler_pb2_grpc.add_SchedulerServicer_to_server(master, server)
    scheduler_pb2_grpc.add_AdministrationServicer_to_server(master, server)
    waiting_pb2_grpc.add_WaitingServicer_to_server(master, server)
    job_table_pb2_grpc.add_JobTablesServicer_to_server(master, server)
    past_pb2_grpc.add_PastServicer_to_server(master, server)
    catalogue_pb2_grpc.add_CatalogueServicer_to_server(master, server)
    address = f"unix:{folder}/m.sock"
    assert server.add_insecure_port(address)
    server.start()
    write_address(str(folder), MASTER_FILE, address)
    try:
        yield master
    finally:
        stopped = server.stop(0)
        master.live.put(None)
        master.ends.put(None)
        stopped.wait()


class FakeCall(Call):
    """A call of user `test` on ubuntu02, whose output is in `out` and `err`. `files` are the caller's files."""

    def __init__(self, argv: list[str], folder: Path, **env: str) -> None:
        surroundings = {"GSCHED_ENVDIR": str(folder), "HOME": "/home/test", "TZ": "UTC", "GSCHED_COMMAND_WAIT": "10"}
        super().__init__(argv, cwd="/opt/DL/caffe-nv", env=surroundings | env, uid=os.geteuid(), gid=os.getegid())
        self.__dict__["user"] = "test"
        self.hostname = "ubuntu02"
        self.stdin = b""
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        """Permissions of these files; of others nobody knows."""
        self._pieces: dict[int, list[bytes]] = {1: [], 2: []}

    def _put(self, stream: int, data: bytes) -> None:
        self._pieces[stream].append(data)

    def _fetch(self, path: str | None) -> tuple[bytes, int | None]:
        if path is None:
            return self.stdin, None
        if path not in self.files:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.files[path], self.modes.get(path)

    @property
    def out(self) -> str:
        return b"".join(self._pieces[1]).decode()

    @property
    def err(self) -> str:
        return b"".join(self._pieces[2]).decode()

    def run(self) -> int:
        """Run the command to its end, as the door does."""
        return run_main(self.argv[0], self)


COMMAND = "sudo LD_LIBRARY_PATH=/opt/DL/openblas/lib:/opt/DL/nccl/lib:/opt/DL/caffe-nv/lib time ./examples/cifar10/{}"


def spec(script: str = "train_quick.sh", **changes: object) -> JobSpec:
    """The submission of the transcripts."""
    values: dict[str, object] = {
        "command": COMMAND.format(script),
        "user": "test",
        "queue": "normal",
        "cwd": "/opt/DL/caffe-nv",
        "home": "/home/test",
        "submit_host": "ubuntu02",
    }
    return JobSpec(**(values | changes))  # type: ignore[arg-type]


def allocation(*gpus: int, slots: int = 1, host: str = "ubuntu02") -> Allocation:
    """Slots on one host, with GPUs by index."""
    held = tuple(HeldGpu(uuid=f"GPU-{index}", index=index, claim="ngpus_excl_p") for index in gpus)
    return Allocation(hosts=(HostAllocation(host=host, slots=slots, gpus=held),))


def record(seq: int, event: events.AnyEvent) -> EventRecord:
    """An event as the store gives it."""
    return EventRecord(
        seq=seq,
        at=event.at,
        kind=events.kind_of(event),
        job_id=getattr(event, "job_id", 0),
        payload=events.encode_event(event).decode(),
    )
