"""The one writer: `handle(command, now)`, `tick(now)` and `cycle(now)` turn requests and time into decisions.

Events of a decision are applied to the state when it is made; whoever drives the engine commits them before anything
leaves the process. The engine checks every placement of a plan against the ledger before it becomes an event.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import GschedError, Internal
from gsched.base.ids import show_job
from gsched.core.attempts import attempt_reports, job_part_reports, unrecorded_attempts
from gsched.core.attempts.job_services import service_answers
from gsched.core.attempts.unkillable_processes import note_unkillable
from gsched.core.audit import audit
from gsched.core.command import (
    AttemptEnded,
    AttemptStarted,
    AttemptUnkillable,
    Command,
    ControlGpus,
    ControlGroups,
    ControlHosts,
    ControlQueues,
    ControlReservations,
    EndOrphans,
    EvaluateCondition,
    ForecastStart,
    HostDisconnected,
    HostHello,
    HostReported,
    JobCommand,
    ModifyJobs,
    NoticeSettled,
    RaiseNumbers,
    Reconfigure,
    RenewStore,
    ServiceAnswers,
    Submit,
)
from gsched.core.command_turns import UNLIMITED, Turn, Unfinished, Work
from gsched.core.control import administration, advance_reservations, gpu_closing, job_control
from gsched.core.control.configuration_facts import note_configuration, reconfigured
from gsched.core.decision import Decision
from gsched.core.dispatch.dispatcher import Dispatcher
from gsched.core.dispatch.run_now import force
from gsched.core.dispatch.snapshot_builder import SnapshotBuilder, local_type_of
from gsched.core.dispatch.start_forecast import forecast
from gsched.core.gpu_events.gpu_hosts import forget_gpu_hosts
from gsched.core.hosts.host_reports import HostReports
from gsched.core.hosts.restart_grace import RestartGrace
from gsched.core.hosts.timeouts import Timeouts
from gsched.core.instruction import ConfigureAgent
from gsched.core.notices import notice_ends
from gsched.core.notices.near_limits import NearLimits
from gsched.core.notices.notice_making import make_notices
from gsched.core.pending import pending_reasons
from gsched.core.pending.dependency_check import answer, refuse_impossible
from gsched.core.pending.dependent_jobs import Dependents
from gsched.core.pending.reason_times import ReasonTimes, WaitingClass, not_come_to
from gsched.core.pending.unread_requirements import Unread
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission import modify
from gsched.core.submission.admission import AdmissionContext, admit
from gsched.core.submission.job_making import MakingProgress, SubmissionMaking
from gsched.core.submission.known_resources import check_requirement
from gsched.core.submission.requirement_check import judge_for
from gsched.core.submission.requirement_updates import RequirementUpdates
from gsched.core.submission.reserved_amounts import Unreserved, reserved_anew, unreserved
from gsched.core.submission.submit import submit
from gsched.model.config import ClusterConfig
from gsched.model.event import GpuClosed, GpuOpened, JobStarted
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.scheduling.snapshot import Plan, Snapshot
from gsched.policy.backfill.reserved_start import ReservedStart, looked_at_by_nobody
from gsched.policy.cycle import DEFAULT_BUDGET, Planning, schedule_in_turns

Schedule = Callable[[Snapshot, float, int, int], Planning]
"""(snapshot, UTC seconds, budget of steps, work of a turn); see gsched.policy.cycle."""
Handler = Callable[[Any, Decision], None]
"""Carries a command out: records in the decision what comes of it. Raises GschedError when it is refused."""

IDLE_TICK_S = 60.0
"""Longest time between two ticks."""
LEAST_PLANNED = 1_000
"""Work of a turn of a plan that a question asks for, at the least."""
TURNS_UNSEEN = 20
"""Turns of one command after which a scheduling cycle looks at what it has done so far, where cycles are short."""
STEP_PAUSE_S = 1.0
"""Shortest time between two ticks for the sake of amounts that are given back: those of many jobs go together."""
BUSY_TICK_S = 10.0
"""The same while jobs wait: load that changes little by little wakes nobody."""


BETWEEN_TURNS = frozenset({Submit, EvaluateCondition})
"""Commands that change nothing a cycle looks at: they may be handled between two turns of one."""
CHANGE_NOTHING_ELSE = frozenset({Submit, ForecastStart})
"""Commands that let no pending job start unless there are events of theirs."""


class HalfDone(Exception):
    """A command failed after some of its events had been applied: memory and store have parted."""


class Engine:
    """Owns the state. Not thread-safe: one thread drives it."""

    def __init__(
        self, state: ClusterState, config: ClusterConfig, now: float, *, schedule: Schedule = schedule_in_turns
    ):
        self.state = state
        self.config = config
        self.observations = Observations(now)
        self.reasons: Mapping[WaitingClass, tuple[PendingReason, ...]] = {}
        """Why jobs wait for a place, as the last cycle found it; replaced whole."""
        self.reason_times = ReasonTimes()
        """When these reasons were found; replaced whole."""
        self.planned: Mapping[int, PlannedStart] = {}
        """Job -> when it will start, as far as something is known; replaced whole."""
        self.summary = "no scheduling cycle yet"
        self.needs_cycle = True
        self.misses_own_starts = False
        """Whether reasons may not count what the last cycle itself started: another cycle brings them up to date."""
        self.failure: Exception | None = None
        """Why the last scheduling cycle failed; None when it did not."""
        self._judge = judge_for(config)
        self._snapshots = SnapshotBuilder(state, self.observations)
        self._dispatcher = Dispatcher(state, self.observations, self._snapshots.forget)
        self._dependents = Dependents(state)
        self._making = SubmissionMaking(state)
        self._settled = 0
        """Turns in which jobs of accepted submissions were made, since a cycle was asked for on their behalf."""
        self._timeouts = Timeouts(state, self.observations)
        self._host_reports = HostReports(state, self.observations, self._snapshots.forget, self._timeouts)
        self._restart_grace = RestartGrace(state, self.observations)
        self._unread = Unread(state.pending)
        self._requirement_updates = RequirementUpdates(state)
        self._requirement_updates.begin()  # the configuration may have changed while no master was there
        self._near_limits = NearLimits(state)
        self._schedule = schedule
        self._planning: Planning | None = None
        """The cycle that is under way."""
        self._forecasting: ForecastStart | None = None
        """The question that is being planned for."""
        self._planning_turns = 0
        """So many turns it has had."""
        self._cycle_turns = 0
        """The same of the last one that is over."""
        self._ticked_at = now
        self._reasons_stood = False
        """Whether the last cycle let reasons of before stand; the next one has to look for all of them."""
        self._news = True
        """Something has happened since the current pass over the pending jobs began."""
        self._tried: dict[WaitingClass, tuple[PendingReason, ...]] = {}
        """Kinds of jobs that the pass has found no place for, when a cycle's budget cut it short."""
        self._handlers = self._handled_at_once()
        self._in_turns: dict[type, Callable[[Any, Turn], Work]] = {
            Submit: self._submit,
            ModifyJobs: self._modify_jobs,
            ForecastStart: self._forecast,
            **dict.fromkeys(job_control.JOB_COMMANDS, self._control_jobs),
        }
        """Commands that look at many jobs, or plan."""
        self._host_reports.observe_all(self.config)
        state.give_back(now)
        state.given_up.clear()  # by the records that made the state: every host's hello says what is still there

    # -- commands -------------------------------------------------------------------------------------------------

    def _handled_at_once(self) -> dict[type, Handler]:
        """How each command is carried out that is no more than one turn's work."""
        return {
            EvaluateCondition: self._judge_condition,
            ControlHosts: self._control_hosts,
            ControlGpus: self._control_gpus,
            ControlQueues: self._waking(administration.control_queues),
            ControlGroups: self._waking(administration.control_groups),
            ControlReservations: self._waking(self._control_reservations),
            EndOrphans: partial(unrecorded_attempts.end_unrecorded, self.observations),
            RaiseNumbers: unrecorded_attempts.raise_numbers,
            RenewStore: unrecorded_attempts.renew_store,
            Reconfigure: self._waking(self._reconfigure),
            HostHello: self._waking(self._host_reports.hello),
            HostReported: self._waking_if(self._host_reports.reported),
            HostDisconnected: self._waking_if(self._host_reports.disconnected),
            AttemptStarted: self._attempt_started,
            AttemptEnded: self._waking(self._attempt_ended),
            AttemptUnkillable: note_unkillable,
            ServiceAnswers: service_answers,
            NoticeSettled: notice_ends.settled,
        }

    def _waking(self, handler: Handler) -> Handler:
        """The handler, after which pending jobs may start."""

        def handle(command: Any, decision: Decision) -> None:
            handler(command, decision)
            self._wake()

        return handle

    def _waking_if(self, handler: Callable[[Any, Decision], bool]) -> Handler:
        """The handler, after which pending jobs may start where it says so: load moves all the time, and only what can
        make a job fit wakes the scheduler at once (`tick` does the rest).
        """

        def handle(command: Any, decision: Decision) -> None:
            if handler(command, decision):
                self._wake()

        return handle

    def handle(self, command: Command, now: float, steps: int = UNLIMITED) -> Decision:
        """Decide one command. Raises GschedError when it is refused; nothing has changed then.

        A command that looks at many jobs is carried out in turns of so many steps: as long as its decision has a `rest`
        `go_on` does more of it, and the last decision has the reply.

        A fault is a refusal too (Internal) as long as no event was applied; after that it is raised as it is, for only
        a replay can say what the state is.

        While a cycle is under way only commands are handled that `takes` names.
        """
        if not self.takes(command):
            raise RuntimeError(f"{type(command).__name__} comes between the turns of a cycle")
        start = self._in_turns.get(type(command))
        if start is not None:
            turn = Turn()
            return self.go_on(Unfinished(command, turn, start(command, turn)), now, steps)

        def decide(decision: Decision) -> None:
            self._handlers[type(command)](command, decision)

        return self._decided(command, now, steps, decide, "nothing was changed")

    def go_on(self, unfinished: Unfinished, now: float, steps: int = UNLIMITED) -> Decision:
        """Another turn of a command. Raises as `handle`, but what its turns before have brought about remains."""

        def decide(decision: Decision) -> None:
            unfinished.turn.begin(decision, steps)
            try:
                next(unfinished.work)
            except StopIteration as done:
                decision.reply = done.value
                if decision.events or type(unfinished.command) not in CHANGE_NOTHING_ELSE:
                    self._wake()
            else:
                decision.rest = unfinished
                if unfinished.turn.count % self._turns_unseen == 0 and self._forecasting is not unfinished.command:
                    self._wake()

        so_far = "some of it may have been done" if unfinished.turn.count else "nothing was changed"
        return self._decided(unfinished.command, now, steps, decide, so_far)

    def _decided(
        self, command: Command, now: float, steps: int, decide: Callable[[Decision], None], so_far: str
    ) -> Decision:
        decision = Decision(self.state, self.config, now, self.observations.of)
        if not self.is_planning:
            self._give_back(now)
        try:
            decide(decision)
            self._settle(decision, steps - decision.steps)
        except Exception as error:
            if decision.events:
                raise HalfDone(f"{type(command).__name__} failed after {len(decision.events)} events") from error
            if isinstance(error, GschedError):
                raise
            raise Internal(f"{type(command).__name__} failed; {so_far}, the master's log says why") from error
        return decision

    @property
    def _turns_unseen(self) -> int:
        """Turns after which a cycle looks at what they have done: at most half of the time goes into such looks."""
        return max(TURNS_UNSEEN, self._cycle_turns)

    @property
    def unsettled(self) -> bool:
        """Whether jobs of accepted submissions are still to be made, or such that depend on others to be looked at:
        `settle` goes on.
        """
        return self._making.has_more or (self._dependents.has_more and not self.is_planning)

    @property
    def is_planning(self) -> bool:
        """Whether a plan is under way: of a cycle, which goes on with the next call of `cycle`, or of a question when a
        job could start, which goes on with `go_on`. Until then time stands still for all that it looks at: no `tick`,
        no snapshot for others, no other cycle, and the commands alone that `takes` names.
        """
        return self._planning is not None or self._forecasting is not None

    def takes(self, command: Command) -> bool:
        """Whether the command may be handled, or gone on with, now: while a plan is under way only its own and those of
        BETWEEN_TURNS.
        """
        return not self.is_planning or type(command) in BETWEEN_TURNS or command is self._forecasting

    def settle(self, now: float, steps: int = UNLIMITED) -> Decision:
        """More of what follows from what has happened."""
        decision = Decision(self.state, self.config, now, self.observations.of)
        if self._making.has_more:
            self._make(decision, steps)
        self._settle(decision, steps)
        return decision

    def _make(self, decision: Decision, steps: int) -> None:
        """Some more jobs of an accepted submission."""
        progress = self._making.step(self.config, decision.record, steps)
        if progress is MakingProgress.OVER_UNDER_ANOTHER:
            self._requirement_updates.begin()
        self._settled = self._settled + 1 if progress is MakingProgress.MORE else 0
        if self._settled % self._turns_unseen == 0:
            self._wake()

    def _settle(self, decision: Decision, steps: int = UNLIMITED) -> None:
        """What follows from what has just happened, in the same decision: the ends of what attempts had on several
        hosts; jobs that depend on others go on, or end; what users want to hear of it.
        """
        job_part_reports.settle(decision)
        self._requirement_updates.note(decision.events)
        if not self.is_planning:
            before = len(decision.events)
            self._dependents.settle(decision, end_invalid=self.config.params.end_on_invalid_dependency, steps=steps)
            if len(decision.events) > before:
                self._wake()
        make_notices(decision)
        self._near_limits.note(decision.events)

    def _submit(self, command: Submit, turn: Turn) -> Work:
        def admitted(spec: JobSpec) -> JobSpec:
            return self._admitted(spec, command.user, turn.now)

        return submit(self.state, self._configured, command, admitted, self._making.keep, turn)

    def _configured(self) -> ClusterConfig:
        return self.config

    def _admitted(self, spec: JobSpec, user: str, now: float, old: JobSpec | None = None) -> JobSpec:
        """The completed spec of a new job, or of one that was `old` before. Raises GschedError if it is refused."""
        around = AdmissionContext(user, self.config, self.state, self.observations.of, self._judge, now, old)
        spec = admit(spec, around)
        if old is not None:
            pending_reasons.check_growth(self.state, self.config, user, spec, old)
        refuse_impossible(self.state, spec, old, self.config.params)
        return spec

    def _wake(self) -> None:
        """What has happened may let a pending job start."""
        self.needs_cycle = self._news = True

    def _control_jobs(self, command: JobCommand, turn: Turn) -> Work:
        return job_control.control_jobs(self.state, self._configured, command, self.observations.of, turn)

    def _modify_jobs(self, command: ModifyJobs, turn: Turn) -> Work:
        def left(host: str, resource: str) -> Unreserved:
            return unreserved(self.state, self.config, self.observations.of, host, resource)

        return modify.modify_jobs(
            self.state,
            self._configured,
            command,
            lambda spec, old: self._admitted(spec, old.user, turn.now, old),
            lambda job, spec: reserved_anew(job, spec, self._judge, left, turn.now),
            turn,
        )

    def _control_hosts(self, command: ControlHosts, decision: Decision) -> None:
        administration.control_hosts(command, decision)
        for host in decision.reply:
            self._snapshots.forget(host)
        self._wake()

    def _control_gpus(self, command: ControlGpus, decision: Decision) -> None:
        gpu_closing.control_gpus(command, decision)
        self._gpus_changed({each.host for each in decision.events if isinstance(each, GpuClosed | GpuOpened)})

    def _gpus_changed(self, hosts: Iterable[str]) -> None:
        """Which GPUs of these hosts are offered."""
        for host in hosts:
            self._host_reports.observe(self.config, host)
            self._wake()

    def _judge_condition(self, command: EvaluateCondition, decision: Decision) -> None:
        decision.reply = answer(self.state, command.text, command.user, self.config.params, is_admin=command.is_admin)

    def _forecast(self, command: ForecastStart, turn: Turn) -> Work:
        """Raises GschedError where the job would be refused."""
        spec = self._admitted(command.spec, command.user, turn.now)
        waits_for = self._waits_for(spec, command, turn.now)
        if turn.left < UNLIMITED // 2:
            yield  # to read what it asks for was a turn's work: its plan begins with the next
        now = turn.now

        def seen() -> Snapshot:
            plain = self._snapshots.snapshot(self.config, now, (), self.planned)
            return self._snapshots.with_gpu_names(plain, self.config, spec.combined_req)

        def plan(snapshot: Snapshot, budget: int) -> Planning:
            with closing(self._schedule(snapshot, now, budget, max(turn.left, LEAST_PLANNED))) as planning:
                return (yield from planning)

        self._forecasting = command
        try:
            found = yield from forecast(self.state, spec, now, seen, plan)
        finally:
            self._forecasting = None
        return msgspec.structs.replace(found, waits_for=waits_for)

    def _waits_for(self, spec: JobSpec, command: ForecastStart, now: float) -> str:
        """What must come before a job of that spec waits for a place."""
        if spec.hold:
            return "hold"
        if spec.begin_at is not None and spec.begin_at > now:
            return "time"
        if not spec.dependency:
            return ""
        condition = answer(self.state, spec.dependency, command.user, self.config.params, is_admin=command.is_admin)
        return "" if condition.holds else "condition"

    def _control_reservations(self, command: ControlReservations, decision: Decision) -> None:
        advance_reservations.control_reservations(command, self.observations.of, decision, check_requirement)

    def _reconfigure(self, command: Reconfigure, decision: Decision) -> None:
        decision.record(reconfigured(command.config, decision.now, command.user, started=command.started))
        self.config = decision.config = command.config
        forget_gpu_hosts(decision)
        self._judge = judge_for(command.config)
        self._requirement_updates.begin()
        self.planned = looked_at_by_nobody(self.planned)
        self._host_reports.observe_all(self.config)
        for host in command.config.hosts:
            if self.observations.of(host).connected:
                decision.instruct(ConfigureAgent(host, self.observations.roll.reported_by(host)))

    # -- agents ---------------------------------------------------------------------------------------------------

    def _attempt_started(self, command: AttemptStarted, decision: Decision) -> None:
        seen = self.observations.of(command.host)
        attempt_reports.attempt_started(command, seen, decision)
        job = self.state.jobs.get(command.job_id)
        if job is not None and any(isinstance(event, JobStarted) for event in decision.events):
            attempt_reports.note_hidden_gpus(job, seen, max(decision.now, command.at), decision)

    def _attempt_ended(self, command: AttemptEnded, decision: Decision) -> None:
        seen = self.observations.of(command.host)
        attempt_reports.attempt_ended(command, seen, decision)

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: float, steps: int = UNLIMITED) -> Decision:
        """What time alone brings about: lost hosts, forgotten jobs, begin and end times, windows."""
        decision = Decision(self.state, self.config, now, self.observations.of)
        self._ticked_at = now
        self._give_back(now)
        note_configuration(decision)
        self._timeouts.tick(decision)
        self._near_limits.tick(decision)
        notice_ends.expire(decision)
        self._gpus_changed(gpu_closing.open_overdue(decision))
        self._settle(decision, steps)
        if self.state.pending or self.state.waits.forced:
            self._wake()
        return decision

    def _give_back(self, now: float) -> None:
        """Amounts that time alone makes free, before anything is decided at `now`."""
        if self.state.give_back(now) and (self.state.pending or self.state.waits.forced):
            self._wake()

    def next_deadline(self, now: float) -> float:
        """When `tick` has something to do at the latest, in UTC seconds."""
        self._ticked_at = min(self._ticked_at, now)  # the clock may have been set back
        due = [self._ticked_at + (BUSY_TICK_S if self.state.pending else IDLE_TICK_S)]
        due.extend(self._timeouts.due(self.config, now))
        notices = (self._near_limits.next_time(), notice_ends.next_expiry(self.state.notices))
        due.extend(at for at in notices if at is not None)
        shrinks = self.state.ledger.next_change()
        if shrinks is not None:
            due.append(max(shrinks, self._ticked_at + STEP_PAUSE_S))
        due.append(self._restart_grace.due(self.config, now))
        due.extend(plan.at for plan in self.planned.values() if plan.at is not None and plan.at > now)
        interval = self.config.params.job_accept_interval_s
        if interval and self.state.pending:
            last = self.observations.first_dispatch(self._ticked_at - interval)
            due.extend(() if last is None else (last + interval,))
        return max(now, min(due))

    def cycle(self, now: float, budget: int = DEFAULT_BUDGET, steps: int = UNLIMITED) -> Decision:
        """One scheduling cycle: plan on a snapshot, check each placement on the truth, record what comes of it.

        One that is more work than `steps` goes on with the next call, see `is_planning`. None begins while a question
        when a job could start is planned for.
        A pass over all pending jobs may take several cycles: one that the budget cuts short is gone on with by the
        next, which leaves out the kinds of jobs that found no place before.
        """
        decision = Decision(self.state, self.config, now, self.observations.of)
        if self._forecasting is not None:
            return decision
        if self._planning is not None:
            self._plan(self._planning, decision, steps)
            return decision
        self._give_back(now)
        self.needs_cycle = False
        self.state.let_go_on(now)
        if self._requirement_updates.is_due:
            self._requirement_updates.step(self._judge, decision)
            self._news = True
            if self._requirement_updates.is_due:
                self.needs_cycle = True
                return decision
        if self.state.pending and self._unread.step(local_type_of(self.config), steps):
            self.needs_cycle = True
            return decision
        if not self._tried:
            self._news = False
        force(self._dispatcher, self.snapshot, decision)
        if not self.state.pending and not self.state.suspended:
            self.reasons, self.planned, self._tried = {}, {}, {}
            self.misses_own_starts = False
            return decision
        awaited = self._restart_grace.awaited(self.config, now)
        if awaited:
            self.summary = f"nothing is started for a moment: the agents of {', '.join(awaited)} are expected back"
            return decision
        # Not in the rest of a pass that was cut short: a kind that was not looked at would be tried again.
        explained = () if self._reasons_stood or self._tried else self.reasons
        try:
            seen = replace(self.snapshot(now, self._without_plans(self._tried)), explained=explained)
            planning = self._schedule(seen, now, budget, steps)
        except Exception as error:
            self._has_planned(error)
        else:
            self._plan(planning, decision, steps)
        return decision

    def _plan(self, planning: Planning, decision: Decision, steps: int) -> None:
        """Another turn of a cycle; after the last one, carry the plan out."""
        self._planning_turns += 1
        try:
            next(planning)
        except StopIteration as done:
            plan: Plan = done.value
            self._has_planned(None)
        except Exception as error:  # planning changes nothing: whoever waits goes on waiting, and all else goes on
            self._has_planned(error)
            return
        else:
            self._planning, self.needs_cycle = planning, True
            self.state.pending.keep_still()
            return
        self._carry_out(plan, decision)
        self._settle(decision, steps)

    def _has_planned(self, failure: Exception | None) -> None:
        self.failure, self._planning, self.needs_cycle = failure, None, self._news
        self._cycle_turns, self._planning_turns = self._planning_turns, 0
        if failure is not None:
            self._tried = {}
            self.summary = f"the scheduling cycle failed, nothing was placed: {failure!r}"
        self.state.pending.go_on()

    def _without_plans(self, tried: Mapping[WaitingClass, tuple[PendingReason, ...]]) -> set[WaitingClass]:
        """Kinds of jobs that the rest of a pass may leave out: what is planned for must be seen, or it is forgotten."""
        plans = (each for each in self.planned.values() if isinstance(each, ReservedStart))
        planned = {each.bucket for each in plans if each.allocation is not None}
        kept = planned | {(bucket.queue, bucket.requirement) for bucket in planned}
        return {waiter for waiter in tried if waiter not in kept}

    def _carry_out(self, plan: Plan, decision: Decision) -> None:
        found: dict[WaitingClass, tuple[PendingReason, ...]] = dict(plan.reasons)
        most = self.config.params.max_dispatch_per_cycle
        refused = self._dispatcher.carry_out(plan, decision, most)
        is_cut = most is not None and len(plan.placements) > most
        for job, misfit in refused:
            found[job.bucket()] = (PendingReason(coded("pending.place_gone"), detail=misfit),)
        tried = {**self._tried, **found}
        standing = {waiting: self.reasons[waiting] for waiting in plan.unexplained}
        shown = {**not_come_to(self.reasons, tried), **tried} if plan.truncated else {**standing, **tried}
        self._reasons_stood = bool(standing)
        self.reason_times = self.reason_times.after(decision.now, found, shown)
        self.reasons, self.planned = shown, plan.planned
        self.misses_own_starts = bool(plan.placements) and bool(shown)
        gone = f"; {len(refused)} placements did not fit: {_told(refused[0])}" if refused else ""
        self.summary = plan.summary + gone
        self._tried = tried if plan.truncated else {}
        # Cores that were kept for GPUs which are taken now may be what a job wants that was served before.
        opens_cores = self.config.params.reserve_cores_per_gpu > 0 and plan.takes_gpus
        self.needs_cycle = plan.truncated or self._news or is_cut or opens_cores

    # -- what others look at --------------------------------------------------------------------------------------

    def snapshot(self, now: float, leave_out: Container[WaitingClass] = ()) -> Snapshot:
        """What a cycle sees now, without the kinds of jobs to be left out."""
        return self._snapshots.snapshot(self.config, now, leave_out, self.planned)

    def own_reasons(self, number: int) -> tuple[PendingReason, ...]:
        """Why this very job (or array) waits, if it is not for a place: held, another job, a time; else empty."""
        return pending_reasons.own_reasons(self.state, self._dependents, number)

    def never_going_on(self, array_id: int) -> frozenset[int]:
        """Indices of the array's waiting elements whose own dependency conditions never can hold."""
        return frozenset(self._dependents.never(array_id))

    def pending_reasons(self, job_id: int) -> tuple[PendingReason, ...]:
        """Why the job waits; never empty for a pending job."""
        return pending_reasons.pending_reasons(self.state, self._dependents, self.reasons, job_id)

    def audit(self) -> list[str]:
        """Broken invariants, one line each."""
        return audit(self.state, self.observations.unaccounted())


def _told(refused: tuple[JobRecord, AnyText]) -> str:
    job, misfit = refused
    return f"job {show_job(job.job_id)}: {misfit}"
