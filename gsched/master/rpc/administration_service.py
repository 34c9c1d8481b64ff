"""The Administration service: changes to jobs' specs, queues, job groups, reservations; what is counted over many jobs.

Like the Scheduler service: reads come from the board, changes go through the engine. Reconfigure is in
scheduler_service.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from gsched.base.errors import BadRequest, NotFound
from gsched.core.command import (
    CompareJobs,
    ControlGpus,
    ControlGroups,
    ControlQueues,
    ControlReservations,
    DryRunJob,
    EndOrphans,
    EvaluateCondition,
    ExplainJob,
    ForecastStart,
    ModifyJobs,
)
from gsched.master.metrics.page import Form, Page
from gsched.master.rpc.control_requests import filter_of
from gsched.master.rpc.listings import check_filter
from gsched.master.rpc.replies import filled, part_reply
from gsched.master.rpc.scheduler_service import ServiceContext, cleared, targets_of
from gsched.master.upkeep.archived_removal import check_store
from gsched.master.views.application_views import service_class_views
from gsched.master.views.overview import fragments, group_views, pending_summary, reservation_views
from gsched.master.views.slot_sums import slot_sums
from gsched.master.views.withheld_slots import free_slots, withheld
from gsched.model.jobs.job import JobSpec
from gsched.model.views.archive_question import ArchivedJobs, ArchivedPart
from gsched.model.views.room_view import LimitSection, ReservationPolicyView, ReservationView
from gsched.model.views.view import JobFilter, JobGroupView
from gsched.wire.messages.convert import from_proto, to_proto
from gsched.wire.server import answers, streams
from gsched.wire.v1 import model_pb2, scheduler_pb2, scheduler_pb2_grpc

PART_BYTES = 1 << 20
"""Of the page of metrics in one message."""
_LONGEST_PART = 64
MOST_PRINTING = 2
"""Callers that wait for the page at a time: others' queries are answered by the same threads."""


class AdministrationServicer(scheduler_pb2_grpc.AdministrationServicer):
    """One per master; all methods run in the gRPC loop."""

    def __init__(self, services: ServiceContext, page: Page | None = None) -> None:
        self._services = services
        self._page = page
        self._printing = asyncio.Semaphore(MOST_PRINTING)
        self._board = services.board

    @answers
    async def Modify(self, request: Any, context: Any) -> Any:
        results = await self._services.ask(*self._modification(request, context))
        return await asyncio.to_thread(filled, scheduler_pb2.ControlReply(), "results", results)

    @streams
    async def ModifyInParts(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for told in self._services.ask_in_parts(*self._modification(request, context)):
            if told.answer is None:
                yield await asyncio.to_thread(part_reply, told.parts)

    def _modification(self, request: Any, context: Any) -> tuple[ModifyJobs, dict[str, bytes]]:
        """The command, and what goes with it by its id. Raises BadRequest."""
        caller = self._services.auth.caller(context)
        spec, fields = cleared(from_proto(request.spec, JobSpec)), tuple(request.fields)
        job_ids, targets = tuple(request.job_ids), {}
        if "notices" in fields:  # where they go changes with them
            targets = targets_of(spec, request.notice_targets)
            spec = msgspec.structs.replace(spec, notice_targets="".join(targets))
            fields = (*fields, "notice_targets")
        command = ModifyJobs(caller.user, caller.is_admin, job_ids, spec, fields, wanted=filter_of(request))
        return command, targets

    @answers
    async def Condition(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        seq = self._services.store.last_seq
        answer = await self._services.ask(EvaluateCondition(caller.user, caller.is_admin, request.text))
        return to_proto(msgspec.structs.replace(answer, seq=seq), model_pb2.ConditionView)

    @answers
    async def Forecast(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        spec = cleared(from_proto(request.spec, JobSpec))
        found = await self._services.ask(ForecastStart(caller.user, caller.is_admin, spec))
        return to_proto(found, model_pb2.StartForecast)

    @answers
    async def Explain(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        found = await self._services.ask(ExplainJob(caller.user, caller.is_admin, request.job_id))
        return to_proto(found, model_pb2.JobExplanation)

    @answers
    async def WhyNot(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        command = CompareJobs(caller.user, caller.is_admin, request.job_id, request.other_id)
        return to_proto(await self._services.ask(command), model_pb2.JobComparison)

    @answers
    async def DryRun(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        spec = cleared(from_proto(request.spec, JobSpec))
        found = await self._services.ask(DryRunJob(caller.user, caller.is_admin, spec))
        return to_proto(found, model_pb2.JobDryRun)

    @answers
    async def QueueControl(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        queues = tuple(request.queues) or ("all",)
        command = ControlQueues(caller.user, caller.is_admin, request.action, queues, request.comment)
        return filled(scheduler_pb2.AnswersReply(), "answers", await self._services.ask(command))

    @answers
    async def GpuControl(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        until = request.until if request.HasField("until") else None
        command = ControlGpus(caller.user, caller.is_admin, request.action, tuple(request.gpus), request.comment, until)
        return filled(scheduler_pb2.AnswersReply(), "answers", await self._services.ask(command))

    @answers
    async def GroupControl(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        groups = tuple(request.groups)
        command = ControlGroups(caller.user, caller.is_admin, request.action, groups, request.job_limit)
        return filled(scheduler_pb2.AnswersReply(), "answers", await self._services.ask(command))

    @answers
    async def EndOrphans(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        command = EndOrphans(caller.user, caller.is_admin, tuple(request.names))
        return filled(scheduler_pb2.AnswersReply(), "answers", await self._services.ask(command))

    @answers
    async def RemoveArchived(self, request: Any, context: Any) -> Any:
        if len(request.job_ids) != len(request.events):
            raise BadRequest("Bad argument: each job needs the number of its events")
        if len(request.name) > _LONGEST_PART:
            raise BadRequest(f"Bad argument: the name of a part has no more than {_LONGEST_PART} characters")
        part = ArchivedPart(**{name: getattr(request, name) for name in ArchivedPart._fields})
        check_store(self._services.store, part)
        wanted = ArchivedJobs(part, dict(zip(request.job_ids, request.events, strict=True)))
        removed = await self._services.remove_archived(wanted, self._services.auth.caller(context).user)
        return scheduler_pb2.RemoveArchivedReply(**removed._asdict())

    @answers
    async def ReservationControl(self, request: Any, context: Any) -> Any:
        caller = self._services.auth.caller(context)
        command = ControlReservations(
            caller.user,
            caller.is_admin,
            request.action,
            from_proto(request.reservation, ReservationView),
            slots=request.slots,
            gpus=request.gpus,
            hosts=tuple(request.hosts),
            requirement=request.requirement,
        )
        (answer,) = await self._services.ask(command)
        return to_proto(answer, model_pb2.Answer)

    @answers
    async def Groups(self, request: Any, context: Any) -> Any:
        groups = await asyncio.to_thread(self._groups, list(request.names))
        return filled(scheduler_pb2.GroupsReply(), "groups", groups)

    def _groups(self, names: list[str]) -> list[JobGroupView]:
        shared = self._board.shared
        kept = withheld(shared.planned, free_slots(self._board.hosts()))
        return group_views(shared.groups, *self._board.open_jobs(), names, kept)

    @answers
    async def Reservations(self, request: Any, context: Any) -> Any:
        _, jobs = self._board.open_jobs()
        shared = self._board.shared.reservations
        found = await asyncio.to_thread(reservation_views, shared, jobs, list(request.names), time.time())
        policies = [
            ReservationPolicyView(
                name=each.name, users=each.users_text, hosts=each.hosts_text, time_window=each.times_text
            )
            for each in self._board.config.reservation_policies
        ]
        return filled(filled(scheduler_pb2.ReservationsReply(), "reservations", found), "policies", policies)

    @answers
    async def Limits(self, request: Any, context: Any) -> Any:
        reply = filled(scheduler_pb2.LimitsReply(), "limits", self._services.loop.gauges.readings.limits)
        settings = self._board.config.limit_settings
        sections = [LimitSection(name=name, settings=lines) for name, lines in settings.items()]
        return filled(reply, "sections", sections)

    @answers
    async def Guarantees(self, request: Any, context: Any) -> Any:
        reply = filled(scheduler_pb2.GuaranteesReply(), "pools", self._services.loop.gauges.readings.pools)
        found = await asyncio.to_thread(service_class_views, self._board.config, *self._board.open_jobs())
        return filled(reply, "classes", found)

    @answers
    async def Arrays(self, request: Any, context: Any) -> Any:
        wanted = from_proto(request, JobFilter)
        check_filter(wanted, self._board)
        arrays = await asyncio.to_thread(self._board.arrays, wanted)
        return await asyncio.to_thread(filled, scheduler_pb2.ArraysReply(), "arrays", arrays)

    @answers
    async def Pending(self, request: Any, context: Any) -> Any:
        # A hundred thousand jobs take a moment: not in the loop that serves everybody.
        summary = await asyncio.to_thread(pending_summary, self._board, time.time())
        return to_proto(summary, model_pb2.PendingSummary)

    @answers
    async def SlotSums(self, request: Any, context: Any) -> Any:
        wanted = from_proto(request, JobFilter)
        check_filter(wanted, self._board)
        return scheduler_pb2.SlotSumsReply(slots=await asyncio.to_thread(slot_sums, self._board, wanted))

    @answers
    async def Fragmentation(self, request: Any, context: Any) -> Any:
        _, jobs = self._board.open_jobs()
        found = await asyncio.to_thread(fragments, self._board.hosts(), jobs, self._board.config)
        return filled(scheduler_pb2.FragmentationReply(), "hosts", found)

    @streams
    async def Metrics(self, request: Any, context: Any) -> AsyncIterator[Any]:
        if self._page is None:
            raise NotFound("this master has no metrics")
        async with self._printing:
            text = await asyncio.to_thread(self._page.text, Form.TEXT if request.older else Form.OPENMETRICS)
        for start in range(0, len(text), PART_BYTES):
            yield scheduler_pb2.MetricsPart(text=text[start : start + PART_BYTES])
