"""Lets jobs go on whose dependency conditions have come true, and ends those whose conditions never can.

Asked after every decision, so that a job and those that depend on it end in one transaction, unless these are many.
Only jobs that name a changed job are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

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
from gsched.model.jobs.reason import PendingReason

TERM = "TERM_ORPHAN_SYSTEM"
_NONE: frozenset[int] = frozenset()


class Dependents:
    """Keeps, beside the state, why each blocked job is blocked."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._reasons: dict[int, PendingReason] = {}
        self._asked: dict[tuple[int, int], None] = {}
        """Whom to judge, in order, with the index of the parent's element that changed, or 0."""
        self._never: dict[int, set[int]] = {}
        """Array -> its waiting elements whose own conditions never can hold."""

    def settle(self, decision: Decision, *, end_invalid: bool, steps: int = UNLIMITED) -> None:
        """Judge what hangs on jobs that have changed, until nothing changes any more or so many steps are done: then
        the rest is for the next time.
        """
        self._note_changes()
        while self._asked:
            if steps <= EVENT * len(decision.events):
                return
            child, index = next(iter(self._asked))
            del self._asked[child, index]
            steps -= self._cost(child)
            self.judge(child, decision, end_invalid=end_invalid, index=index)
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

    def _is_elementwise(self, child: int) -> bool:
        array = self._state.arrays.get(child)
        return array is not None and is_elementwise(array.spec.conditions)

    def _cost(self, child: int) -> int:
        """Steps of judging it, about."""
        if child not in self._state.waits.blocked and child not in self._state.waits.held:
            return LOOK
        return LOOK + weight(self._state.item(child).spec.conditions)

    def judge(self, child: int, decision: Decision, *, end_invalid: bool, index: int = 0) -> None:
        """One blocked job or array; `index`: the parent's element that changed, 0 for all."""
        if child not in self._state.waits.blocked and child not in self._state.waits.held:
            return
        item = self._state.item(child)
        if item.released or not item.spec.conditions:
            return
        if isinstance(item, JobArray) and is_elementwise(item.spec.conditions):
            self._judge_elements(item, index, decision, end_invalid=end_invalid)
            return
        answer = judge(self._state, item.spec.conditions, index_of(child))
        if answer.holds:
            decision.record(JobReleased(at=decision.now, job_id=child))
            self._reasons.pop(child, None)
        elif answer.is_final and (end_invalid or item.spec.end_orphan):
            _end(item, answer, decision)
            self._reasons.pop(child, None)
        else:
            self._note(child, answer)

    def _judge_elements(self, array: JobArray, index: int, decision: Decision, *, end_invalid: bool) -> None:
        """Element by element; those that can go on leave the array's record."""
        never = self._never.setdefault(array.array_id, set())
        waiting: Iterable[int] = [index] if index else list(array.waiting())
        for each in waiting:
            if not array.has_waiting(each):
                continue
            answer = judge(self._state, array.spec.conditions, each)
            member = element_id(array.array_id, each)
            (never.add if answer.is_final and not answer.holds else never.discard)(each)
            if answer.holds:
                decision.record(JobReleased(at=decision.now, job_id=member))
            elif answer.is_final and (end_invalid or array.spec.end_orphan):
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


def _end(item: JobRecord | JobArray, answer: ConditionVerdict, decision: Decision) -> None:
    problem = coded("dependency.ended", answer.text)
    if isinstance(item, JobArray):
        end_waiting(item, TERM, decision, problem)
    else:
        end_pending(item, TERM, decision, problem)
