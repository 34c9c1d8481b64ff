"""One scheduling cycle: `schedule(snapshot, now, budget) -> Plan`, or in turns between which others come.

Jobs are served in order; each finds the best place, or makes room by preemption, or is planned for; a class that finds
no place is not tried again job by job, and one that fits on no host is come to only until a start is planned for it.
Pure: no I/O, no clock, no randomness; bounded by `budget` steps (a step is a job served, or a class looked at on all
hosts at once), but one job is always served, so that passes that are cut short come to an end.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from itertools import islice

from gsched.base.coded_text import coded, sentence
from gsched.base.counts import counted
from gsched.base.errors import RequirementError
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Bucket, Placement, Plan, Preempted, RequirementClass, Snapshot, queues_of
from gsched.policy.backfill.reservation_table import coming_first
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.backfill.trial_fit import TrialFit
from gsched.policy.cycle_turns import AT_ONE_GO, EXPLAINING, FAST_AT_ONCE, FAST_SERVING, SERVING, SORTING, CycleTurns
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.limits.limit_sections import BUCKET, CLASS, QUEUE
from gsched.policy.match.columns_cycle import CycleColumns
from gsched.policy.match.host_now import FitRules
from gsched.policy.order.serving_order import ReasonKey, ServingOrder
from gsched.policy.place.lending_turn import LendingTurn
from gsched.policy.place.placement import FoundPlace, Placer, RefusedPlace
from gsched.policy.place.placement_guard import PlaceGuard
from gsched.policy.place.shared_resources import SharedLeft
from gsched.policy.preempt.gpu_growth import GpuGrowth
from gsched.policy.preempt.lent_gpus import MOST_ALIKE, LentGpus
from gsched.policy.preempt.preemption import Preemptor
from gsched.policy.preempt.slot_growth import SlotGrowth
from gsched.policy.requirement.demand_cache import Demands
from gsched.resreq.parsing.gpu import RANGE

DEFAULT_BUDGET = 100_000
"""A few seconds of a very busy cluster; a pass that is cut short goes on in the next cycle."""
_Reasons = dict[ReasonKey, tuple[PendingReason, ...]]
Planning = Generator[int, bool | None, Plan]
"""Yields the work of a turn when it is over; returns the plan. Until then the snapshot must stay as it is. It is sent
whether it is to come to its end, because somebody waits for it: then reasons of before stand where they may, and it
ends early if it may and nothing has been found yet that starts.
"""


def schedule(snapshot: Snapshot, now: float, budget: int = DEFAULT_BUDGET) -> Plan:
    """Which pending jobs can start now and where, and why the others cannot."""
    planning = schedule_in_turns(snapshot, now, budget, AT_ONE_GO)
    try:
        next(planning)
    except StopIteration as done:
        plan: Plan = done.value
        return plan
    raise AssertionError("a turn without end has ended")


def schedule_in_turns(snapshot: Snapshot, now: float, budget: int, turn: int) -> Planning:
    """The same plan, made in turns of so much work each (gsched.policy.cycle_turns), or one that ends early where
    the snapshot lets it. One that is not wanted any more is closed.
    """
    cycle = _Cycle(snapshot, now, budget, turn)
    try:
        return (yield from cycle.plan())
    finally:
        cycle.dissolve()


class _Cycle:
    """The parts of a cycle put together. None of them holds on to who uses it, so that all of it is gone with the plan:
    a ring of objects would stay until the collector finds it, and it would go through each job that was placed."""

    def __init__(self, snapshot: Snapshot, now: float, budget: int, turn: int) -> None:
        self._snapshot = snapshot
        self._now = now
        self._budget = budget
        self._served = 0
        self._placements: list[Placement] = []
        rules = FitRules.of(snapshot, now)
        self._field = CycleColumns(snapshot, rules)
        self._demands = Demands(snapshot.local_type)
        self._limits = LimitUse(snapshot, self._demands.least)
        trial = self._trial = TrialFit(snapshot, rules, self._field)
        self._reservations = Reservations(snapshot, now, trial, self._limits)
        self._guard = PlaceGuard(snapshot, now, self._limits, self._reservations)
        self._preemptor = Preemptor(snapshot, now, trial, self._reservations)
        self._lent = LentGpus(snapshot, now, trial, self._reservations, self._preemptor.gone)
        self._growth = GpuGrowth(snapshot, now, trial, self._limits, self._reservations, self._demands)
        self._slot_growth = SlotGrowth(snapshot, now, self._limits, self._reservations, self._demands)
        self._turns = CycleTurns(snapshot, turn, self._field, trial)
        self._lending = LendingTurn(
            snapshot, self._limits, self._guard, self._placements, self._reservations, self._demands
        )
        self._shared = SharedLeft(snapshot, self._field.columns, self._limits)
        self._placer = Placer(snapshot, rules, self._field, self._demands, self._limits, self._guard)
        self._elastic: list[tuple[int, Bucket]] = []
        """Of these those of jobs that may have more GPUs: place in the list, bucket."""
        self._preempted: list[Preempted] = []
        self._reasons: _Reasons = {}
        self._only_planned: set[ReasonKey] = set()
        """Classes of a queue, or buckets, that find no place and are served all the same: they may be planned for."""
        self._too_long: dict[tuple[str, RequirementClass], tuple[float, tuple[PendingReason, ...]]] = {}
        """Class of a queue -> an expected end with which a job of it finds no place beside what is planned, and why; it
        depends on the user.
        """
        self._full: dict[str, Bucket] = {}
        """Queue that a limit on all of it has stopped -> the bucket that ran into it."""

    def plan(self) -> Planning:
        is_planned_before = self._reservations.is_planned_before
        closed = [name for name in self._limits.closed_queues() if not is_planned_before(name)]
        live = yield from self._live()
        order = ServingOrder(self._snapshot, live, closed, reserved=coming_first(self._snapshot))
        try:
            truncated = not (yield from self._place(order))
            owed, refused = order.passed_over(), _Reasons()
            if not truncated and self._lending.are_due() and not self._turns.has_ended_early:
                again = self._lending.order(order, closed)
                refused = {each: self._reasons.pop(each, ()) for each in self._lending.borrowers}
                truncated = not (yield from self._place(again))
                owed = [*(key for key in owed if key not in self._lending.borrowers), *again.passed_over()]
            passed_over = () if self._turns.has_ended_early else (*owed, *self._only_planned)
            deferred = self._lending.unserved(self._reasons) if truncated else frozenset()
            self._reasons |= {each: refused[each] for each in deferred if refused.get(each)}
            unexplained = yield from self._explain(passed_over, truncated)
        finally:
            self._field.close()
            order.close()
            self._lending.close()
        is_partial = truncated or self._turns.has_ended_early
        resumed = () if is_partial else tuple(self._preemptor.resumable())
        placements, grown = self._growth.lend(self._placements, self._elastic, self._preemptor.gone)
        return Plan(
            tuple(placements),
            self._reasons,
            self._sentence(len(self._reasons) + len(unexplained)),
            truncated,
            self._reservations.planned(truncated=is_partial),
            tuple(self._preempted),
            resumed,
            unexplained,
            self._turns.has_ended_early,
            (*self._lent.resized.values(), *grown),
            () if is_partial else tuple(self._slot_growth.grow(self._preemptor.gone)),
            deferred,
        )

    def _is_turn_over(self, work: int) -> bool:
        """Whether others come now that so much more has been done."""
        return self._turns.are_over(work, has_placed=bool(self._placements))

    def _gives_up(self, is_awaited: bool | None) -> bool:
        return self._turns.give_up(is_awaited=is_awaited, has_placed=bool(self._placements))

    def _explain(
        self, passed_over: Iterable[ReasonKey], truncated: bool
    ) -> Generator[int, bool | None, frozenset[ReasonKey]]:
        """Find the reasons of those that had no turn of their own; returns those whose reasons of before stand.

        To look at all kinds takes as long as all the rest of a cycle, and those that start would wait for it.
        """
        explained = () if truncated else self._snapshot.explained
        may_stand = bool(self._placements)
        self._turns.shorten()
        unexplained = set()
        for key in passed_over:
            if key in self._reasons:
                continue
            if may_stand and key in explained:
                unexplained.add(key)
                continue
            self._reasons[key] = self._reason_of(key)
            if self._is_turn_over(EXPLAINING):
                may_stand = bool((yield self._turns.work)) or may_stand
        return frozenset(unexplained)

    def _place(self, order: ServingOrder) -> Generator[int, bool | None, bool]:
        """Serve all jobs; false if the budget did not suffice."""
        fast_paths, fair, future = self._placer.fast_paths, order.trees, self._reservations.future
        note, turns = future.placements.append, future.turns
        field, budget, fast = self._field, self._budget, 0
        for job_id, bucket in order:
            if self._lending.is_placed(job_id):
                continue
            if self._served and self._served + field.steps >= budget:
                return False
            self._served += 1
            if bucket.array or bucket.job_group or bucket.application:
                fast_path = None
            else:
                fast_path = fast_paths.get((bucket.queue, id(bucket.requirement))) or self._placer.fast_path(bucket)
            part = None if fast_path is None else fast_path.take(job_id)
            if fast_path is None or part is None:
                if self._placements and self._turns.leave_plans(bucket, self._only_planned, order):
                    return True
                self._serve(job_id, bucket, order)
                if self._is_turn_over(SERVING) and self._gives_up((yield self._turns.work)):
                    return True
                continue
            note((part, self._guard.ends_at(bucket) if fast_path.is_by_user else fast_path.ends_at, bucket))
            turns[job_id] = len(turns)
            allocation = Allocation(hosts=(part,))
            if fair:
                order.placed(bucket, allocation)
            self._placements.append(Placement(job_id, allocation, fast_path.effective))
            fast += 1
            if not fast % FAST_AT_ONCE and self._is_turn_over(FAST_SERVING * FAST_AT_ONCE):
                yield self._turns.work
        return True

    # -- one job --------------------------------------------------------------------------------------------------

    def _serve(self, job_id: int, bucket: Bucket, order: ServingOrder) -> None:
        denial = self._limits.reason(bucket)
        if denial is not None:
            is_kept = self._reservations.is_kept(job_id, bucket) and self._plan_start(job_id, bucket)
            is_for_all = denial.scope == QUEUE and not self._reservations.is_planned_before(bucket.queue)
            scope = QUEUE if is_for_all else CLASS if denial.scope == CLASS else BUCKET
            self._refuse(bucket, (denial.reason,), scope, order, is_planned=is_kept)
            return
        inactive = self._reservations.guard.refusal(bucket) if bucket.requirement.reservation else None
        if inactive is not None:
            self._refuse(bucket, (inactive.pending(),), BUCKET, order)
            return
        if self._only_planned and self._is_only_planned(job_id, bucket, order):
            return
        kept = self._guard.left(bucket, bucket.requirement.slots)
        if kept is not None:
            self._refuse(bucket, (kept.pending(),), BUCKET, order, is_planned=self._plan_start(job_id, bucket))
            return
        found = self._too_long_for(bucket) or self._placer.place(bucket)
        if isinstance(found, RefusedPlace):
            if self._guard.is_refused_for_time(bucket):
                self._too_long[bucket.queue, bucket.requirement] = (self._guard.ends_at(bucket), found.reasons)
            displaced = self._make_way(bucket) or self._make_room(job_id, bucket)
            if displaced is None:
                scope = CLASS if found.whole_class else BUCKET
                is_planned = not self._lending.awaits(bucket) and self._plan_start(job_id, bucket)
                self._refuse(bucket, found.reasons, scope, order, is_planned=is_planned)
                return
            found = displaced
        self._start(job_id, bucket, found, order)

    def _too_long_for(self, bucket: Bucket) -> RefusedPlace | None:
        """What was said of another user's job of the class, that ends no later."""
        if not self._too_long:
            return None
        end, reasons = self._too_long.get((bucket.queue, bucket.requirement), (math.inf, ()))
        return RefusedPlace(reasons, whole_class=False) if reasons and self._guard.ends_at(bucket) >= end else None

    def _is_only_planned(self, job_id: int, bucket: Bucket, order: ServingOrder) -> bool:
        """Whether a start of the job was to be planned and no more: others like it found no place. It is no step: there
        are only so many, and each pass has to come to them again.
        """
        kind = (bucket.queue, bucket.requirement)
        if kind in self._only_planned:
            self._served -= 1
            if not self._plan_start(job_id, bucket):
                self._drop_planned(job_id, bucket, order)
            return True
        if bucket not in self._only_planned:
            return False
        if not self._plan_start(job_id, bucket):
            order.drop(bucket)
        return True

    def _drop_planned(self, job_id: int, bucket: Bucket, order: ServingOrder) -> None:
        """No more starts of the class are planned; its reason is asked for when all has been placed. Where none was, it
        is said at least why the hosts can never take the job.
        """
        demand = self._demands.of(bucket.requirement)
        if not isinstance(demand, RequirementError):
            self._reservations.look(job_id, bucket, demand)
        order.drop_class(bucket.queue, bucket.requirement)
        if self._reservations.may_look() or self._reservations.is_room(bucket.queue):
            return
        for each in self._only_planned:
            if not isinstance(each, Bucket) and each[0] == bucket.queue and not self._reservations.was_looked_at(*each):
                order.drop_class(*each)

    def _start(self, job_id: int, bucket: Bucket, found: FoundPlace, order: ServingOrder) -> None:
        allocation, effective, is_promised = found.allocation, found.effective, found.is_promised
        # A fork: the attempt's number does not matter here.
        self._snapshot.ledger.take((job_id, -1), allocation, self._now)
        self._field.started(allocation)
        ends_at = self._guard.ends_at(bucket)
        for part in allocation.parts:
            self._reservations.took(part, ends_at, bucket)
        self._reservations.started(job_id)
        if is_promised:
            self._reservations.fulfilled(job_id, bucket)
            self._placer.fulfilled(bucket)
        self._limits.count(bucket, allocation)
        self._shared.took(allocation)
        self._reservations.ahead.placed(job_id, bucket, allocation, ends_at)
        order.placed(bucket, allocation)
        if RANGE in bucket.requirement.gpu:
            self._elastic.append((len(self._placements), bucket))
        self._placements.append(Placement(job_id, allocation, effective))

    def _refuse(
        self,
        bucket: Bucket,
        reasons: tuple[PendingReason, ...],
        scope: str,
        order: ServingOrder,
        *,
        is_planned: bool = False,
    ) -> None:
        """The bucket's next job does not start, nor do those like it. `is_planned`: theirs may be planned as well."""
        if is_planned:
            key = (bucket.queue, bucket.requirement) if scope == CLASS else bucket
            self._only_planned.add(key)
            self._reasons[key] = reasons
            self._placer.close_fast_path(self._snapshot.queues[bucket.queue], bucket.requirement)
            return
        if scope == QUEUE:
            order.drop_queue(bucket.queue)
            self._full[bucket.queue] = bucket
            return  # the reason of each of its classes is asked for in the end
        if scope == CLASS:
            order.drop_class(bucket.queue, bucket.requirement)
            self._reasons[bucket.queue, bucket.requirement] = reasons
        else:
            order.drop(bucket)
            self._reasons[bucket] = reasons

    def _make_way(self, bucket: Bucket) -> FoundPlace | None:
        """A place on several hosts, as planned jobs could be planned on others; None if there is none."""
        if bucket.requirement.slots < 2 or not self._reservations.future.bookings:
            return None
        self._guard.beside_planned = False
        found = self._placer.place_on_several(bucket)
        self._guard.beside_planned = True
        if found is None:
            return None
        is_free = self._reservations.make_way(found.allocation, self._guard.ends_at(bucket), bucket)
        self._guard.renew()
        return found if is_free else None

    def _make_room(self, job_id: int, bucket: Bucket) -> FoundPlace | None:
        """A place that preemption makes free at once; None if there is none, or not yet."""
        demand = self._demands.of(bucket.requirement)
        if isinstance(demand, RequirementError):
            return None
        if self._lent.are_there() and self._lent.take_back(bucket, demand, self._alike(job_id, bucket)):
            self._guard.renew()
            return None
        displaced = self._preemptor.find(job_id, bucket, demand)
        if displaced is None:
            return None
        self._preempted.extend(displaced.preempted)
        self._field.follow()
        self._guard.renew()
        found = displaced.allocation
        return None if found is None else FoundPlace(found, self._placer.effective(demand, found))

    def _alike(self, job_id: int, bucket: Bucket) -> list[int]:
        """The job, and others of its class that wait in its queue and this cycle has not placed: MOST_ALIKE at most."""
        seen = {each.job_id for each in self._placements} | {job_id}
        lines = self._snapshot.pending.get(bucket.requirement, {})
        waiting = (number for other, line in lines.items() if other.queue == bucket.queue for _, number in line)
        return [job_id, *islice((number for number in waiting if number not in seen), MOST_ALIKE - 1)]

    def _plan_start(self, job_id: int, bucket: Bucket) -> bool:
        """Whether a start of the next job like it may be planned as well."""
        if not self._reservations.is_room(bucket.queue):
            return False
        demand = self._demands.of(bucket.requirement)
        if isinstance(demand, RequirementError):
            return False
        may_go_on = self._reservations.reserve(job_id, bucket, demand)
        self._guard.renew()
        return may_go_on

    # -- classes --------------------------------------------------------------------------------------------------

    def _live(self) -> Generator[int, bool | None, set[RequirementClass]]:
        """The classes worth serving: those that fit somewhere, may make room for themselves, or may be planned for."""
        if not self._snapshot.hosts:
            return set()
        queues = self._snapshot.queues
        may_preempt = any(
            queue.preemption.preemptive is not None or queue.preemption.preemptable_by is not None
            for queue in queues.values()
        )
        live: set[RequirementClass] = set()
        for requirement in self._snapshot.pending:
            if self._is_turn_over(SORTING) and self._gives_up((yield self._turns.work)):
                return set()
            for name in queues_of(self._snapshot.pending, requirement):
                queue = queues.get(name)
                if queue is None:
                    continue
                if may_preempt or self._lent.are_there() or self._placer.could_start(queue, requirement):
                    live.add(requirement)
                elif queue.reserved_jobs:
                    live.add(requirement)
                    self._only_planned.add((name, requirement))
                    self._placer.close_fast_path(queue, requirement)
        return live

    def _reason_of(self, key: ReasonKey) -> tuple[PendingReason, ...]:
        """Why the jobs wait of a bucket or class that was dropped before it had its turn."""
        name, requirement = (key.queue, key.requirement) if isinstance(key, Bucket) else key
        denial = self._limits.queue_reason(name, requirement.slots)
        if denial is None and name in self._full:  # whom such a limit concerns does not depend on user or project
            denial = self._limits.section_reason(self._full[name]._replace(requirement=requirement))
        if denial is not None:
            return (denial.reason,)
        queue = self._snapshot.queues.get(name)
        if queue is None:
            return (PendingReason(coded("queue.gone", name)),)
        return self._placer.reasons(queue, requirement)

    def dissolve(self) -> None:
        """Let go of all parts. They know each other: left to themselves they would stay, thousands of objects, until
        Python looks for rings, and that stops the whole process for tens of milliseconds.
        """
        self._field.dissolve()
        vars(self).clear()

    def _sentence(self, waiting: int) -> str:
        hosts, usable = len(self._snapshot.hosts), self._field.usable_hosts()
        text = f"started {len(self._placements)} of the pending jobs on {usable} usable of {counted(hosts, 'hosts')}"
        if count := len(self._preempted):
            text += f"; {counted(count, 'jobs')} {'makes' if count == 1 else 'make'} room"
        if self._reasons:
            first = next(iter(self._reasons.values()))[0]
            detail = f" ({sentence(first.detail)})" if first.detail else ""
            who = "one kind of job waits" if waiting == 1 else f"{waiting} kinds of jobs wait, the first"
            text += f"; {who} because: {sentence(first.text)}{detail}"
        return text
