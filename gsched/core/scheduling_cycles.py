"""Scheduling cycles: a plan is made of a snapshot, perhaps in several turns, and carried out; what it found is kept.

A pass over all pending jobs may take several cycles. The engine drives them, and sees to it that between the turns of a
plan nothing changes that it looks at. No job is placed here, and none started that the ledger has no room for:
gsched.policy plans, the dispatcher checks each placement.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from gsched.base.coded_text import AnyText, coded
from gsched.base.ids import show_job
from gsched.core.command import ForecastStart
from gsched.core.command_turns import UNLIMITED, Turn
from gsched.core.decision import Decision
from gsched.core.dispatch.dispatcher import Dispatcher
from gsched.core.dispatch.gpu_resizing import go_on_resized, growth_due, may_grow
from gsched.core.dispatch.run_now import force
from gsched.core.dispatch.snapshot_builder import SnapshotBuilder, local_type_of
from gsched.core.dispatch.start_forecast import PlanCycle, forecast
from gsched.core.hosts.restart_grace import RestartGrace
from gsched.core.pending.reason_times import ReasonTimes, WaitingClass, not_come_to
from gsched.core.pending.unread_requirements import Unread
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission.requirement_updates import RequirementUpdates
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.scheduling.snapshot import Bucket, Plan, Snapshot
from gsched.model.views.view import StartForecast
from gsched.policy.backfill.reserved_start import ReservedStart, looked_at_by_nobody
from gsched.policy.cycle import Planning, schedule

Schedule = Callable[[Snapshot, float, int, int], Planning]
"""(snapshot, UTC seconds, budget of steps, work of a turn); see gsched.policy.cycle."""

T = TypeVar("T")
Asking = Generator[None, None, T]
"""Yields when its turn is over; returns the answer."""
SeeAnew = Callable[[], Snapshot]
"""A new snapshot, which planning may use up."""

LEAST_PLANNED = 1_000
"""Work of a turn of a plan that a question asks for, at the least."""
REASONS_STAND_S = 1.0
"""How long cycles may leave reasons and plans as they are, for the sake of those that start or may, in seconds."""
TURNS_UNSEEN = 20
"""Turns of one command after which a scheduling cycle looks at what it has done so far, where cycles are short."""


class SchedulingCycles:
    """What the last cycle found, and the one that is under way."""

    def __init__(
        self,
        state: ClusterState,
        observations: Observations,
        requirement_updates: RequirementUpdates,
        schedule: Schedule,
    ) -> None:
        self.reasons: Mapping[WaitingClass, tuple[PendingReason, ...]] = {}
        """Why jobs wait for a place, as the last cycle found it; replaced whole."""
        self.reason_times = ReasonTimes()
        """When these reasons were found; replaced whole."""
        self.planned: Mapping[int, PlannedStart] = {}
        """Job -> when it will start, as far as something is known; replaced whole."""
        self.summary = "no scheduling cycle yet"
        self.needs_cycle = True
        self.misses_own_starts = False
        """Whether reasons may not count what the last cycle itself started, or were not looked for anew by it: another
        cycle brings them up to date.
        """
        self.failure: Exception | None = None
        """Why the last scheduling cycle failed; None when it did not."""
        self.snapshots = SnapshotBuilder(state, observations)
        self._state = state
        self._requirement_updates = requirement_updates
        self._schedule = schedule
        self._dispatcher = Dispatcher(state, observations, self.snapshots.forget)
        self._restart_grace = RestartGrace(state, observations)
        self._unread = Unread(state.pending)
        self._planning: Planning | None = None
        """The cycle that is under way."""
        self._turn_steps = 1
        """Work of a whole turn of it; in turns of less work reasons are found."""
        self._planned_steps = 0
        """So much has been done for it."""
        self._cycle_turns = 0
        """Whole turns that the last one has had."""
        self._asking: object | None = None
        """The question that is being planned for."""
        self.misses_plans = False
        """The last cycle left plans for those that wait to another, which is to follow soon."""
        self._gave_up = False
        """The last cycle was given up for the sake of what had come meanwhile: the next one is not."""
        self._stand_since: float | None = None
        """When a cycle first let reasons of before stand that none has looked for since."""
        self._news = True
        """Something has happened since the current pass over the pending jobs began."""
        self._borrowers: set[Bucket] = set()
        """Who may borrow from service classes, of cycles of the pass that did not come to that."""
        self._lends = False
        """The pass has come to all that wait, and its rest is for the borrowers: once in a pass, so that it ends."""
        self._tried: dict[WaitingClass, tuple[PendingReason, ...]] = {}
        """Kinds of jobs that the pass has found no place for, when a cycle's budget cut it short."""

    def wake(self) -> None:
        """What has happened may let a pending job start."""
        self.needs_cycle = self._news = True

    @property
    def is_planning(self) -> bool:
        """Whether a plan is under way: of a cycle, which goes on with the next call of `Engine.cycle`, or of a question
        when a job could start, which goes on with `Engine.go_on`. Until then time stands still for all that it looks
        at: no `tick`, no snapshot for others, no other cycle, and the commands alone that `Engine.takes` names.
        """
        return self._planning is not None or self._asking is not None

    def is_asked_by(self, command: object) -> bool:
        """Whether this command is the question that is being planned for."""
        return command is self._asking

    @property
    def turns_unseen(self) -> int:
        """Turns after which a cycle looks at what they have done: at most half of the time goes into such looks."""
        return max(TURNS_UNSEEN, self._cycle_turns)

    def configuration_changed(self) -> None:
        """Starts that were planned before hold until the next cycle, which looks at all of them anew."""
        self.planned = looked_at_by_nobody(self.planned)

    def due(self, config: ClusterConfig, now: float) -> Iterator[float]:
        """When there is something to do at the latest, in UTC seconds."""
        yield self._restart_grace.due(config, now)
        yield from growth_due(self._state, config, now)
        yield from (plan.at for plan in self.planned.values() if plan.at is not None and plan.at > now)

    def snapshot(self, config: ClusterConfig, now: float, leave_out: Container[WaitingClass] = ()) -> Snapshot:
        """What a cycle sees now, without the kinds of jobs to be left out."""
        return self.snapshots.snapshot(config, now, leave_out, self.planned)

    # -- cycles ---------------------------------------------------------------------------------------------------

    def advance(self, decision: Decision, budget: int, steps: int, *, is_awaited: bool = False) -> bool:
        """Begin a cycle, or go on with the one that is under way, for whose end something waits if `is_awaited`.
        Returns whether its plan was carried out.
        """
        if self._asking is not None:
            return False
        if self._planning is not None:
            return self._plan(self._planning, decision, is_awaited)
        config, now = decision.config, decision.now
        self.needs_cycle, self._turn_steps = False, steps
        self._state.let_go_on(now)
        if not self._has_read_requirements(decision, steps):
            self.needs_cycle = True
            return False
        if not self._tried:
            self._news = False
        if self._state.waits.resized and not self._restart_grace.awaited(config, now):
            go_on_resized(self._dispatcher, self.snapshot(config, now), decision)
        if force(self._dispatcher, partial(self.snapshot, config), decision):
            self.wake()
        if not self._state.pending and not self._state.suspended and not self._may_grow(config, now):
            self.reasons, self.planned = {}, {}
            self._end_pass()
            self.misses_own_starts = self.misses_plans = False
            return False
        awaited = self._restart_grace.awaited(config, now)
        if awaited:
            self.summary = f"nothing is started for a moment: the agents of {', '.join(awaited)} are expected back"
            return False
        # Not in the rest of a pass that was cut short: a kind that was not looked at would be tried again.
        may_stand = not self._tried and not self._have_stood_long(now)
        try:
            seen = self.snapshot(config, now, self._without_plans(self._tried))
            seen = replace(
                seen,
                explained=self.reasons if may_stand else (),
                may_end_early=may_stand,
                may_give_up=may_stand and not self._gave_up,
                shows_all_waiting=not self._tried,
            )
            planning = self._schedule(seen, now, budget, steps)
        except Exception as error:
            self._has_planned(error)
            return False
        return self._plan(planning, decision)

    def _may_grow(self, config: ClusterConfig, now: float) -> bool:
        """Whether a started job may get more slots or GPUs by now."""
        return bool(self._state.growing) or may_grow(self._state, config, now)

    def look(self, decision: Decision) -> None:
        """Find out why jobs wait and what is planned for them, as a cycle does, and start nothing."""
        self._state.let_go_on(decision.now)
        while not self._has_read_requirements(decision, UNLIMITED):
            pass
        plan = schedule(self.snapshot(decision.config, decision.now), decision.now, UNLIMITED)
        found = dict(plan.reasons)
        self.reason_times = self.reason_times.after(decision.now, found, found)
        self.reasons, self.planned, self.summary = found, plan.planned, plan.summary

    def _have_stood_long(self, now: float) -> bool:
        """Whether reasons have to be looked for whoever waits; also where the clock was set back."""
        return self._stand_since is not None and not 0 <= now - self._stand_since < REASONS_STAND_S

    def _has_read_requirements(self, decision: Decision, steps: int) -> bool:
        """Whether each waiting job has the requirement by which it is planned for; else some more have it now."""
        if self._requirement_updates.is_due:
            self._requirement_updates.step(decision)
            self._news = True
            if self._requirement_updates.is_due:
                return False
        return not (self._state.pending and self._unread.step(local_type_of(decision.config), steps))

    def _plan(self, planning: Planning, decision: Decision, is_awaited: bool | None = None) -> bool:
        """Another turn of a cycle (None: the first one); after the last, carry the plan out. Returns whether that was
        done.
        """
        try:
            self._planned_steps += planning.send(is_awaited)
        except StopIteration as done:
            plan: Plan = done.value
            self._has_planned(None)
        except Exception as error:  # planning changes nothing: whoever waits goes on waiting, and all else goes on
            self._has_planned(error)
            return False
        else:
            self._planning, self.needs_cycle = planning, True
            self._state.pending.keep_still()
            return False
        self._carry_out(plan, decision)
        return True

    def _has_planned(self, failure: Exception | None) -> None:
        self.failure, self._planning, self.needs_cycle = failure, None, self._news
        self._cycle_turns, self._planned_steps = self._planned_steps // self._turn_steps, 0
        if failure is not None:
            self._end_pass()
            self.summary = f"the scheduling cycle failed, nothing was placed: {failure!r}"
        self._state.pending.go_on()

    def _without_plans(self, tried: Mapping[WaitingClass, tuple[PendingReason, ...]]) -> set[WaitingClass]:
        """Kinds of jobs that the rest of a pass may leave out: what is planned for must be seen, or it is forgotten."""
        plans = (each for each in self.planned.values() if isinstance(each, ReservedStart))
        planned = {each.bucket for each in plans if each.allocation is not None}
        kept = planned | {(bucket.queue, bucket.requirement) for bucket in planned}
        return {waiter for waiter in tried if waiter not in kept}

    def _carry_out(self, plan: Plan, decision: Decision) -> None:
        params = decision.config.params
        found: dict[WaitingClass, tuple[PendingReason, ...]] = dict(plan.reasons)
        most = params.max_dispatch_per_cycle
        refused = self._dispatcher.carry_out(plan, decision, most)
        is_cut = most is not None and len(plan.placements) > most
        for job, misfit in refused:
            found[job.bucket()] = (PendingReason(coded("pending.place_gone"), detail=misfit),)
        tried = {**self._tried, **found}
        standing = {waiting: self.reasons[waiting] for waiting in plan.unexplained}
        is_partial = plan.truncated or plan.ended_early
        shown = {**not_come_to(self.reasons, tried), **tried} if is_partial else {**standing, **tried}
        stands_since = decision.now if self._stand_since is None else self._stand_since
        self._stand_since = stands_since if standing or plan.ended_early else None
        self.reason_times = self.reason_times.after(decision.now, found, shown)
        self.reasons, self.planned = shown, plan.planned
        self._gave_up = plan.ended_early and not plan.placements
        self.misses_plans = plan.ended_early and not self._gave_up
        self.misses_own_starts = self.misses_plans or bool(standing) or (bool(plan.placements) and bool(shown))
        gone = f"; {len(refused)} placements did not fit: {_told(refused[0])}" if refused else ""
        self.summary = plan.summary + gone
        self._tried = self._left_out(plan, tried)
        # Cores that were kept for GPUs which are taken now may be what a job wants that was served before.
        opens_cores = params.reserve_cores_per_gpu > 0 and plan.takes_gpus
        self.needs_cycle = plan.truncated or self._lends or self._gave_up or self._news or is_cut or opens_cores

    def _end_pass(self) -> None:
        self._tried, self._borrowers, self._lends = {}, set(), False

    def _left_out(
        self, plan: Plan, tried: dict[WaitingClass, tuple[PendingReason, ...]]
    ) -> dict[WaitingClass, tuple[PendingReason, ...]]:
        """What the next cycle of the pass leaves out; nothing where the pass is over.

        Nothing is lent before all have been served. A cycle that the budget cuts short does not come to that: once the
        pass has come to all, those who may borrow are looked at again, beside the jobs of service classes that wait.
        """
        if plan.truncated:
            self._borrowers |= plan.deferred
            return tried
        self._lends = bool(self._borrowers) and not self._lends
        again: set[WaitingClass] = set()
        for bucket in (each for buckets in self._state.pending.values() for each in buckets) if self._lends else ():
            if bucket.service_class or bucket in self._borrowers:
                again |= {bucket, (bucket.queue, bucket.requirement)}
        self._borrowers = set()
        return {kind: why for kind, why in tried.items() if kind not in again} if self._lends else {}

    # -- questions ------------------------------------------------------------------------------------------------

    def ask(
        self, command: object, turn: Turn, requirement: str, work: Callable[[SeeAnew, PlanCycle], Asking[T]]
    ) -> Asking[T]:
        """Plan for a question. `work` is given a snapshot whenever it asks for one, with what the requirement says of
        GPUs, and what plans on it; nothing comes of these plans. Until it has ended no other cycle is planned.
        """
        config, now = turn.decision.config, turn.now

        def seen() -> Snapshot:
            return self.snapshots.with_gpu_names(self.snapshot(config, now), config, requirement)

        def plan(snapshot: Snapshot, budget: int) -> Generator[None, None, Plan]:
            steps = UNLIMITED if turn.left > UNLIMITED // 2 else max(turn.left, LEAST_PLANNED)
            with closing(self._schedule(snapshot, now, budget, steps)) as planning:
                while True:
                    try:
                        next(planning)
                    except StopIteration as done:
                        found: Plan = done.value
                        return found
                    yield

        self._asking = command
        try:
            return (yield from work(seen, plan))
        finally:
            self._asking = None

    def forecast(self, command: ForecastStart, spec: JobSpec, turn: Turn) -> Asking[StartForecast]:
        """When a job of this spec, which was admitted, could start. Nothing comes of the plan."""

        def work(seen: SeeAnew, plan: PlanCycle) -> Asking[StartForecast]:
            return forecast(self._state, spec, turn.now, seen, plan)

        return self.ask(command, turn, spec.combined_req, work)


def _told(refused: tuple[JobRecord, AnyText]) -> str:
    job, misfit = refused
    return f"job {show_job(job.job_id)}: {misfit}"
