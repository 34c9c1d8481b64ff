"""Lets jobs go on whose dependency conditions have come true, and ends those whose conditions never can.

Asked after every decision, so that a job and those that depend on it end in one transaction, unless these are many.
Only jobs that name a changed job are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Set

from gsched.base.coded_text import coded
from gsched.base.ids import array_of, element_id, index_of
from gsched.core.command_turns import EVENT, LOOK, UNLIMITED, weight
from gsched.core.control.termination import end_pending, end_waiting
from gsched.core.decision import Decision
from gsched.core.pending.dependency_check import (
    INVALID,
    NOT_SATISFIED,
    ConditionVerdict,
    element_reason,
    is_elementwise,
    judge,
)
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import JobReleased
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.reason import PendingReason

TERM = "TERM_ORPHAN_SYSTEM"
_NONE: frozenset[int] = frozenset()


GraceOf = Callable[[str], float | None]
"""Name of a queue -> how many seconds after it has become an orphan a job of it is ended; None: it is not."""


class Dependents:
    """Keeps, beside the state, why each blocked job is blocked, and since when it is an orphan that is to end."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._reasons: dict[int, PendingReason] = {}
        self._asked: dict[tuple[int, int], None] = {}
        """Whom to judge, in order, with the index of the parent's element that changed, or 0."""
        self._never: dict[int, set[int]] = {}
        """Array -> its waiting elements whose own conditions never can hold."""
        self._orphans: dict[tuple[int, int], tuple[float, str]] = {}
        """Whom to end later, as `_asked` names them -> since when it is an orphan (UTC seconds), and its queue."""
        self.next_end = math.inf
        """When the first of them is to end, UTC seconds; infinite: none is."""

    def settle(self, decision: Decision, grace: GraceOf, steps: int = UNLIMITED) -> None:
        """Judge what hangs on jobs that have changed, until nothing changes any more or so many steps are done: then
        the rest is for the next time.
        """
        self._note_changes()
        self._ask_overdue(decision.now, grace)
        while self._asked:
            if steps <= EVENT * len(decision.events):
                return
            child, index = next(iter(self._asked))
            del self._asked[child, index]
            steps -= self._cost(child)
            self.judge(child, decision, grace, index)
            self._note_changes()

    @property
    def has_more(self) -> bool:
        """Whether there is more to judge."""
        return bool(self._asked or self._state.changed_parents or self._state.waits.unjudged)

    def _note_changes(self) -> None:
        """Whom to judge: once each, however many of those that it names have changed."""
        state, waits = self._state, self._state.waits
        if waits.unjudged:
            new, waits.unjudged = sorted(waits.unjudged), set()
            self._asked.update(((child, 0), None) for child in new)
        if state.changed_parents:
            changes, state.changed_parents = sorted(state.changed_parents), set()
            for parent, changed in changes:
                for child in sorted(waits.dependents.get(parent, ())):
                    self._asked[child, index_of(changed) if self._is_elementwise(child) else 0] = None

    def configuration_changed(self) -> None:
        """Orphans may have another time."""
        self.next_end = -math.inf

    def _ask_overdue(self, now: float, grace: GraceOf) -> None:
        """Judge orphans again whose time is over."""
        if now < self.next_end:
            return
        self._orphans = {key: orphan for key, orphan in self._orphans.items() if self._is_waiting(key[0])}
        due = {key: _ends_at(since, grace(queue)) for key, (since, queue) in self._orphans.items()}
        self._asked.update((key, None) for key, at in due.items() if at <= now)
        self.next_end = min((at for at in due.values() if at > now), default=math.inf)

    def _is_waiting(self, child: int) -> bool:
        """Whether it is there and its conditions have not come true."""
        return child in self._state.waits.blocked or child in self._state.waits.held

    def _is_to_end(self, key: tuple[int, int], spec: JobSpec, since: float, now: float, grace: GraceOf) -> bool:
        """Whether the orphan is to end now; one that is to end later is kept."""
        at = now if spec.end_orphan else _ends_at(since, grace(spec.queue))
        if now < at:  # also where orphans stay: another configuration may end them
            self._orphans[key] = since, spec.queue
            self.next_end = min(self.next_end, at)
        return now >= at

    def _since(self, key: tuple[int, int], now: float) -> float:
        """Since when it is an orphan; it is taken for none from now on."""
        return self._orphans.pop(key, (now, ""))[0]

    def _is_elementwise(self, child: int) -> bool:
        array = self._state.arrays.get(child)
        return array is not None and is_elementwise(array.spec.conditions)

    def _cost(self, child: int) -> int:
        """Steps of judging it, about."""
        if not self._is_waiting(child):
            return LOOK
        return LOOK + weight(self._state.item(child).spec.conditions)

    def judge(self, child: int, decision: Decision, grace: GraceOf, index: int = 0) -> None:
        """One blocked job or array; `index`: the parent's element that changed, 0 for all."""
        key = child, index
        since = self._since(key, decision.now)
        if not self._is_waiting(child):
            return
        item = self._state.item(child)
        if item.released or not item.spec.conditions:
            return
        if isinstance(item, JobArray) and is_elementwise(item.spec.conditions):
            self._judge_elements(item, index, decision, grace, since)
            return
        answer = judge(self._state, item.spec.conditions, index_of(child))
        if answer.holds:
            decision.record(JobReleased(at=decision.now, job_id=child))
            self._reasons.pop(child, None)
        elif answer.is_final and self._is_to_end(key, item.spec, since, decision.now, grace):
            _end(item, answer, decision)
            self._reasons.pop(child, None)
        else:
            self._note(child, answer)

    def _judge_elements(self, array: JobArray, index: int, decision: Decision, grace: GraceOf, since: float) -> None:
        """Element by element; those that can go on leave the array's record. `since`: of the one of that index."""
        never = self._never.setdefault(array.array_id, set())
        waiting: Iterable[int] = [index] if index else list(array.waiting())
        for each in waiting:
            key = array.array_id, each
            orphaned = since if index else self._since(key, decision.now)
            if not array.has_waiting(each):
                continue
            answer = judge(self._state, array.spec.conditions, each)
            member = element_id(array.array_id, each)
            (never.add if answer.is_final and not answer.holds else never.discard)(each)
            if answer.holds:
                decision.record(JobReleased(at=decision.now, job_id=member))
            elif answer.is_final and self._is_to_end(key, array.spec, orphaned, decision.now, grace):
                _end(array.element(each), answer, decision)
        self._state.touched.add(array.array_id)
        if not array.count or not never:
            del self._never[array.array_id]

    def _note(self, number: int, answer: ConditionVerdict) -> None:
        text = INVALID if answer.is_final else NOT_SATISFIED
        self._reasons[number] = PendingReason(text, detail=answer.text)
        self._state.touched.add(number)

    def reason(self, number: int) -> PendingReason:
        """Why the blocked job, array or element of an array waits."""
        array = self._state.arrays.get(array_of(number)) if number not in self._state.jobs else None
        if array is not None and is_elementwise(array.spec.conditions):
            index = index_of(number)
            if index:
                return element_reason(array.spec.conditions, index, is_final=index in self.never(array.array_id))
            return PendingReason(NOT_SATISFIED, detail=coded("dependency.each_element", array.spec.conditions))
        found = self._reasons.get(number) or self._reasons.get(array_of(number))
        return found or PendingReason(NOT_SATISFIED)

    def never(self, array_id: int) -> Set[int]:
        """Indices of the array's waiting elements whose own conditions never can hold; such of others may be there."""
        return self._never.get(array_id, _NONE)


def _ends_at(since: float, seconds: float | None) -> float:
    return math.inf if seconds is None else since + seconds


def _end(item: JobRecord | JobArray, answer: ConditionVerdict, decision: Decision) -> None:
    problem = coded("dependency.ended", answer.text)
    if isinstance(item, JobArray):
        end_waiting(item, TERM, decision, problem)
    else:
        end_pending(item, TERM, decision, problem)
