"""The one writer: `handle(command, now)`, `tick(now)` and `cycle(now)` turn requests and time into decisions.

Events of a decision are applied to the state when it is made; whoever drives the engine commits them before anything
leaves the process. The engine checks every placement of a plan against the ledger before it becomes an event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from gsched.base.errors import GschedError, Internal
from gsched.core.attempts import attempt_reports, job_part_reports, unrecorded_attempts
from gsched.core.attempts.end_warnings import attempt_warned
from gsched.core.attempts.gpu_moves import attempt_moved
from gsched.core.attempts.job_services import service_answers
from gsched.core.attempts.preemption_withdrawal import withdraw_preemptions
from gsched.core.attempts.signal_delivery import signals_sent
from gsched.core.attempts.unkillable_processes import note_unkillable
from gsched.core.audit import audit
from gsched.core.command import (
    AttemptEnded,
    AttemptMoved,
    AttemptStarted,
    AttemptUnkillable,
    AttemptWarned,
    Command,
    CompareJobs,
    ControlGpus,
    ControlGroups,
    ControlHosts,
    ControlQueues,
    ControlReservations,
    DrainHosts,
    DryRunJob,
    EndOrphans,
    EvaluateCondition,
    ExplainJob,
    ForecastStart,
    HostDisconnected,
    HostHello,
    HostReported,
    NoteArchiving,
    NoticeSettled,
    OutputsRemoved,
    RaiseNumbers,
    Reconfigure,
    RenewStore,
    ServiceAnswers,
    SignalsSent,
    Submit,
)
from gsched.core.command_turns import UNLIMITED, Turn, Unfinished
from gsched.core.control import administration, advance_reservations, gpu_closing
from gsched.core.control.configuration_facts import note_configuration, reconfigured
from gsched.core.control.host_drain import drain_hosts
from gsched.core.decision import Decision
from gsched.core.dispatch.gpu_resizing import may_grow
from gsched.core.dispatch.start_estimates import AT_ONCE, StartEstimates
from gsched.core.gpu_events.gpu_hosts import forget_gpu_hosts
from gsched.core.hosts.host_reports import HostReports
from gsched.core.hosts.removed_outputs import outputs_removed
from gsched.core.hosts.timeouts import Timeouts
from gsched.core.instruction import ConfigureAgent
from gsched.core.job_requests import JobRequests
from gsched.core.notices import notice_ends
from gsched.core.notices.near_limits import NearLimits
from gsched.core.notices.notice_making import make_notices
from gsched.core.pending import pending_reasons
from gsched.core.pending.dependent_jobs import Dependents
from gsched.core.pending.reason_times import WaitingClass
from gsched.core.resources.kept_observations import KeptObservation, restore
from gsched.core.resources.observed_hosts import Observations
from gsched.core.scheduling_cycles import Schedule, SchedulingCycles
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission.job_making import MakingProgress, SubmissionMaking
from gsched.core.submission.known_resources import check_requirement
from gsched.core.submission.requirement_updates import RequirementUpdates
from gsched.model.config import ClusterConfig
from gsched.model.event import AnyEvent, GpuClosed, GpuOpened, HostClosed, JobResumed, JobStarted
from gsched.model.jobs.reason import PendingReason
from gsched.model.scheduling.snapshot import Snapshot
from gsched.policy.cycle import DEFAULT_BUDGET, schedule_in_turns

Handler = Callable[[Any, Decision], None]
"""Carries a command out: records in the decision what comes of it. Raises GschedError when it is refused."""

IDLE_TICK_S = 60.0
"""Longest time between two ticks."""
STEP_PAUSE_S = 1.0
"""Shortest time between two ticks for the sake of amounts that are given back: those of many jobs go together."""
BUSY_TICK_S = 10.0
"""The same while jobs wait, or are to have more slots: load that changes little by little wakes nobody."""


BETWEEN_TURNS = frozenset({Submit, EvaluateCondition})
"""Commands that change nothing a cycle looks at: they may be handled between two turns of one."""
CHANGE_NOTHING_ELSE = frozenset({Submit, ForecastStart, ExplainJob, CompareJobs, DryRunJob})
"""Commands that let no pending job start unless there are events of theirs."""


class HalfDone(Exception):
    """A command failed after some of its events, or part of one, had been applied: memory and store have parted."""


class Engine:
    """Owns the state. Not thread-safe: one thread drives it."""

    def __init__(
        self, state: ClusterState, config: ClusterConfig, now: float, *, schedule: Schedule = schedule_in_turns
    ):
        self.state = state
        self.config = config
        self.observations = Observations(now)
        self._requirement_updates = RequirementUpdates(state)
        self.cycles = SchedulingCycles(state, self.observations, self._requirement_updates, schedule)
        self._making = SubmissionMaking(state)
        self._dependents = Dependents(state)
        self.estimates = StartEstimates(state, config)
        """What is said of starts; `say_estimates` says more."""
        self._requests = JobRequests(
            state, config, self.observations, self._making, self.cycles, self._dependents, self.estimates
        )
        # The configuration may have changed while no master was there.
        self._requirement_updates.begin(self._requests.check_requirement)
        self._settled = 0
        """Turns in which jobs of accepted submissions were made, since a cycle was asked for on their behalf."""
        self._timeouts = Timeouts(state, self.observations)
        forget = self.cycles.snapshots.forget
        self._host_reports = HostReports(state, self.observations, forget, self._timeouts)
        self._near_limits = NearLimits(state)
        self._ticked_at = now
        self._handlers = self._handled_at_once()
        self._host_reports.observe_all(self.config)
        state.give_back(now)
        state.given_up.clear()  # by the records that made the state: every host's hello says what is still there

    # -- commands -------------------------------------------------------------------------------------------------

    def _handled_at_once(self) -> dict[type, Handler]:
        """How each command is carried out that is no more than one turn's work."""
        return {
            EvaluateCondition: self._requests.judge_condition,
            ControlHosts: self._control_hosts,
            DrainHosts: self._waking(self._drain_hosts),
            ControlGpus: self._control_gpus,
            ControlQueues: self._waking(administration.control_queues),
            ControlGroups: self._waking(administration.control_groups),
            ControlReservations: self._waking(self._control_reservations),
            EndOrphans: partial(unrecorded_attempts.end_unrecorded, self.observations),
            NoteArchiving: administration.note_archiving,
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
            AttemptWarned: attempt_warned,
            SignalsSent: signals_sent,
            AttemptMoved: self._waking(attempt_moved),
            NoticeSettled: notice_ends.settled,
            OutputsRemoved: outputs_removed,
        }

    def _waking(self, handler: Handler) -> Handler:
        """The handler, after which pending jobs may start."""

        def handle(command: Any, decision: Decision) -> None:
            handler(command, decision)
            self.cycles.wake()

        return handle

    def _waking_if(self, handler: Callable[[Any, Decision], bool]) -> Handler:
        """The handler, after which pending jobs may start where it says so: load moves all the time, and only what can
        make a job fit wakes the scheduler at once (`tick` does the rest).
        """

        def handle(command: Any, decision: Decision) -> None:
            if handler(command, decision):
                self.cycles.wake()

        return handle

    def handle(self, command: Command, now: float, steps: int = UNLIMITED) -> Decision:
        """Decide one command. Raises GschedError when it is refused; nothing has changed then.

        A command that looks at many jobs is carried out in turns of so many steps: as long as its decision has a `rest`
        `go_on` does more of it, and the last decision has the reply.

        A fault is a refusal too (Internal) as long as nothing of any event was applied; after that it is raised as it
        is, for only a replay can say what the state is.

        While a cycle is under way only commands are handled that `takes` names.
        """
        if not self.takes(command):
            raise RuntimeError(f"{type(command).__name__} comes between the turns of a cycle")
        start = self._requests.in_turns.get(type(command))
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
                    self.cycles.wake()
            else:
                decision.rest = unfinished
                is_plan = self.cycles.is_asked_by(unfinished.command)
                if unfinished.turn.count % self.cycles.turns_unseen == 0 and not is_plan:
                    self.cycles.wake()

        so_far = "some of it may have been done" if unfinished.turn.count else "nothing was changed"
        return self._decided(unfinished.command, now, steps, decide, so_far)

    def _decided(
        self, command: Command, now: float, steps: int, decide: Callable[[Decision], None], so_far: str
    ) -> Decision:
        decision = Decision(self.state, self.config, now, self.observations.of)
        if not self.cycles.is_planning:
            self._give_back(now)
        try:
            decide(decision)
            self._settle(decision, steps - decision.steps)
        except Exception as error:
            if decision.events or decision.is_torn:
                raise HalfDone(f"{type(command).__name__} failed after {len(decision.events)} events") from error
            if isinstance(error, GschedError):
                raise
            raise Internal(f"{type(command).__name__} failed; {so_far}, the master's log says why") from error
        return decision

    @property
    def unsettled(self) -> bool:
        """Whether jobs of accepted submissions are still to be made, or such that depend on others to be looked at:
        `settle` goes on.
        """
        return self._making.has_more or (self._dependents.has_more and not self.cycles.is_planning)

    def takes(self, command: Command) -> bool:
        """Whether the command may be handled, or gone on with, now: while a plan is under way only its own and those of
        BETWEEN_TURNS.
        """
        return not self.cycles.is_planning or type(command) in BETWEEN_TURNS or self.cycles.is_asked_by(command)

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
            self._requirement_updates.begin(self._requests.check_requirement)
        self._settled = self._settled + 1 if progress is MakingProgress.MORE else 0
        if self._settled % self.cycles.turns_unseen == 0:
            self.cycles.wake()

    def _settle(self, decision: Decision, steps: int = UNLIMITED) -> None:
        """What follows from what has just happened, in the same decision: the ends of what attempts had on several
        hosts; jobs that depend on others go on, or end; what users want to hear of it.
        """
        job_part_reports.settle(decision)
        self._requirement_updates.note(decision.events)
        if not self.cycles.is_planning:
            before = len(decision.events)
            self._dependents.settle(decision, self.config.orphan_grace_s, steps)
            withdraw_preemptions(decision)
            if len(decision.events) > before:
                self.cycles.wake()
        if self.state.growing and any(self._may_grow_now(event) for event in decision.events):
            self.cycles.wake()
        for event in decision.events:
            if isinstance(event, HostClosed):  # as too many jobs have failed there
                self.cycles.snapshots.forget(event.host)
        make_notices(decision)
        self._near_limits.note(decision.events)
        self.estimates.note(decision.events)

    def _may_grow_now(self, event: AnyEvent) -> bool:
        """Whether a job that is to have more slots runs since the event: no cycle gave it any before."""
        return isinstance(event, JobStarted | JobResumed) and event.job_id in self.state.growing

    def _control_hosts(self, command: ControlHosts, decision: Decision) -> None:
        administration.control_hosts(command, decision)
        for host in decision.reply:
            self.cycles.snapshots.forget(host)
        self.cycles.wake()

    def _drain_hosts(self, command: DrainHosts, decision: Decision) -> None:
        for host in drain_hosts(command, decision):
            self.cycles.snapshots.forget(host)

    def _control_gpus(self, command: ControlGpus, decision: Decision) -> None:
        gpu_closing.control_gpus(command, decision)
        self._gpus_changed({each.host for each in decision.events if isinstance(each, GpuClosed | GpuOpened)})

    def _gpus_changed(self, hosts: Iterable[str]) -> None:
        """Which GPUs of these hosts are offered."""
        for host in hosts:
            self._host_reports.observe(self.config, host)
            self.cycles.wake()

    def _control_reservations(self, command: ControlReservations, decision: Decision) -> None:
        advance_reservations.control_reservations(command, self.observations.of, decision, check_requirement)

    def _reconfigure(self, command: Reconfigure, decision: Decision) -> None:
        fact = reconfigured(command.config, decision.now, command.user, started=command.started, files=command.files)
        decision.record(fact)
        self.config = decision.config = command.config
        forget_gpu_hosts(decision)
        self._requests.configure(command.config)
        self.estimates.configure(command.config)
        self._requirement_updates.begin(self._requests.check_requirement)
        self.cycles.configuration_changed()
        self._dependents.configuration_changed()
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
            if self.state.pending and job.job_id in self.state.elastic:  # it may give GPUs back from now on
                self.cycles.wake()

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
        # A job that is to have more slots gets them when an advance reservation ends, say, though nobody waits.
        is_awaited = self.state.pending or self.state.waits.forced or self.state.growing
        if is_awaited or may_grow(self.state, self.config, now):
            self.cycles.wake()
        return decision

    def _give_back(self, now: float) -> None:
        """Amounts that time alone makes free, before anything is decided at `now`."""
        if self.state.give_back(now) and (self.state.pending or self.state.waits.forced):
            self.cycles.wake()

    def next_deadline(self, now: float) -> float:
        """When `tick` has something to do at the latest, in UTC seconds."""
        self._ticked_at = min(self._ticked_at, now)  # the clock may have been set back
        due = [self._ticked_at + (BUSY_TICK_S if self.state.pending or self.state.growing else IDLE_TICK_S)]
        due.extend(self._timeouts.due(self.config, now))
        notices = (self._near_limits.next_time(), notice_ends.next_expiry(self.state.notices))
        due.extend(at for at in notices if at is not None)
        due.append(self._dependents.next_end)
        shrinks = self.state.ledger.next_change()
        if shrinks is not None:
            due.append(max(shrinks, self._ticked_at + STEP_PAUSE_S))
        due.extend(self._starts_due(now))
        return max(now, min(due))

    def next_change(self, now: float) -> float | None:
        """When the time alone changes what may start, UTC seconds; None: never. No look for the sake of looking, unlike
        `next_deadline`.
        """
        due = [*self._timeouts.changes(self.config, now), *self._starts_due(now), self._dependents.next_end]
        shrinks = self.state.ledger.next_change()
        due.extend(() if shrinks is None else (shrinks,))
        return min((at for at in due if now < at < math.inf), default=None)

    def _starts_due(self, now: float) -> Iterator[float]:
        yield from self.cycles.due(self.config, now)
        interval = self.config.params.job_accept_interval_s
        if interval and self.state.pending:
            last = self.observations.first_dispatch(self._ticked_at - interval)
            yield from () if last is None else (last + interval,)

    def cycle(
        self, now: float, budget: int = DEFAULT_BUDGET, steps: int = UNLIMITED, *, is_awaited: bool = False
    ) -> Decision:
        """One scheduling cycle: plan on a snapshot, check each placement on the truth, record what comes of it.

        One that is more work than `steps` goes on with the next call, see `SchedulingCycles.is_planning`; `is_awaited`
        says then that something waits for its end. None begins while a question when a job could start is planned for.
        A pass over all pending jobs may take several cycles: one that the budget cuts short is gone on with by the
        next, which leaves out the kinds of jobs that found no place before.
        """
        decision = Decision(self.state, self.config, now, self.observations.of)
        if not self.cycles.is_planning:
            self._give_back(now)
        if self.cycles.advance(decision, budget, steps, is_awaited=is_awaited):
            self._settle(decision, steps)
        if not self.cycles.is_planning:
            self.estimates.has_cycled()
        return decision

    def say_estimates(self, now: float, most: int = AT_ONCE) -> None:
        """Note what is said of the starts of jobs that wait; nothing of the state changes by it."""
        self.estimates.look(now, self.cycles.planned, most)

    # -- looks at the past ----------------------------------------------------------------------------------------

    def look_back(self, seen: Mapping[str, KeptObservation], now: float) -> None:
        """Be as at `now`, when hosts were seen so: only for an engine that nobody else asks anything."""
        for host, kept in seen.items():
            restore(kept, self.observations.of(host), now)
        self._host_reports.observe_all(self.config)
        self._give_back(now)
        decision = Decision(self.state, self.config, now, self.observations.of)
        self._dependents.settle(decision, lambda queue: None)
        self.cycles.look(decision)

    # -- what others look at --------------------------------------------------------------------------------------

    def snapshot(self, now: float, leave_out: Container[WaitingClass] = ()) -> Snapshot:
        """What a cycle sees now, without the kinds of jobs to be left out."""
        return self.cycles.snapshot(self.config, now, leave_out)

    def own_reasons(self, number: int) -> tuple[PendingReason, ...]:
        """Why this very job (or array) waits, if it is not for a place: held, another job, a time, or those that save
        their state before it gets theirs; else empty.
        """
        own = pending_reasons.own_reasons(self.state, self._dependents, number)
        return own or (pending_reasons.those_that_save(self.state, number) if self.state.saving else ())

    def never_going_on(self, array_id: int) -> frozenset[int]:
        """Indices of the array's waiting elements whose own dependency conditions never can hold."""
        return frozenset(self._dependents.never(array_id))

    def pending_reasons(self, job_id: int) -> tuple[PendingReason, ...]:
        """Why the job waits; never empty for a pending job."""
        return pending_reasons.pending_reasons(self.state, self._dependents, self.cycles.reasons, job_id)

    def audit(self) -> list[str]:
        """Broken invariants, one line each."""
        return audit(self.state, self.observations.unaccounted())
