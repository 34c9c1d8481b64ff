"""What each pending job waits for: to be resumed, other jobs, a host (grun), a time, or a place; exactly one of these.

Arrays stand here under their own number for all elements that are not jobs yet. What time brings about happens in
`let_go_on` only; nothing here is stored but `needs_changed`, all else follows from jobs, arrays and the time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from gsched.core.records.array import JobArray
from gsched.core.records.dependency_condition import parents_of
from gsched.core.records.job import JobRecord
from gsched.core.state.pending_jobs import PendingJobs
from gsched.model.jobs.job import JobState
from gsched.resreq.judging.delays import next_delay

WaitingItem = JobRecord | JobArray
GO_ON_MOST = 1_000
"""Most of those whose time has come that go on together; the others follow at once."""


def item_id(item: WaitingItem) -> int:
    """Number of the job or the array."""
    return item.array_id if isinstance(item, JobArray) else item.job_id


def is_held(item: WaitingItem) -> bool:
    """Whether it is suspended while it waits (PSUSP)."""
    return bool(item.stopped_by) if isinstance(item, JobArray) else item.state is JobState.PSUSP


class WaitIndex:
    """What pending jobs and arrays wait for. `on_free(parent)` is called when nobody depends on a job any more."""

    def __init__(self, on_free: Callable[[int], None]) -> None:
        self.pending = PendingJobs()
        """Those that wait for nothing but a place."""
        self.delayed: dict[int, float] = {}
        """Those that must not start before a time -> that time."""
        self.held: set[int] = set()
        """Those that are suspended (PSUSP)."""
        self.blocked: set[int] = set()
        """Those whose dependency condition does not hold yet; held ones are not among them."""
        self.dependents: dict[int, set[int]] = {}
        """Job -> the blocked and held ones whose conditions, which do not hold yet, name it."""
        self.unjudged: set[int] = set()
        """Those that have come to depend on others since whoever judges conditions emptied it."""
        self.changing: dict[int, float] = {}
        """Pending jobs that may use another alternative of their requirement from a time on."""
        self.forced: set[int] = set()
        """Those that grun wants started; the policies do not see them."""
        self.resized: set[int] = set()
        """Jobs that are to go on at once with another number of GPUs, and wait for a place like others beside."""
        self.needs_changed: set[int] = set()
        """Those that want other places by now than others are to make for them (ClusterState.saving)."""
        self._on_free = on_free
        self._times: list[tuple[float, int]] = []
        """Heap of all times in `delayed` and `changing`; what no longer counts is skipped when it comes up."""

    def enter(self, item: WaitingItem) -> None:
        """The item is pending from now on."""
        number = item_id(item)
        depends = bool(item.spec.conditions) and not item.released
        if depends:
            self.unjudged.add(number)
            for parent in parents_of(item.spec.conditions):
                self.dependents.setdefault(parent, set()).add(number)
        if is_held(item):
            self.held.add(number)
            return
        if isinstance(item, JobRecord) and not item.is_untouched() and item.resize is not None:
            self.resized.add(number)
        if depends:
            self.blocked.add(number)
        elif isinstance(item, JobRecord) and item.forced_hosts:
            self.forced.add(number)
        elif begin := max(item.not_before, item.spec.begin_at or 0.0):
            self.delayed[number] = begin
            heapq.heappush(self._times, (begin, number))
        else:
            self._admit(item)

    def leave(self, item: WaitingItem) -> None:
        """The item, unchanged since it entered, no longer waits. Raises KeyError if it did not."""
        number = item_id(item)
        if item.spec.conditions and not item.released:
            self.unjudged.discard(number)
            for parent in parents_of(item.spec.conditions):
                self._unlink(parent, number)
        self.changing.pop(number, None)
        self.resized.discard(number)
        place = next((place for place in (self.held, self.blocked, self.forced) if number in place), None)
        if place is not None:
            place.discard(number)
        elif self.delayed.pop(number, None) is None:
            self.pending.remove(item.template() if isinstance(item, JobArray) else item)
        item.waited_s = 0.0  # found out anew from the time when it comes back

    def let_go_on(self, now: float, find: Callable[[int], WaitingItem]) -> bool:
        """Whatever waited for a time that has come goes on; says whether there was anything."""
        changed = False
        for _ in range(GO_ON_MOST):
            at = self.next_time()
            if at is None or at > now:
                break
            _, number = heapq.heappop(self._times)
            changed = True
            if self.delayed.pop(number, None) is not None:
                self._admit(find(number))
            else:
                self._change_alternative(find(number), now)
        return changed

    def next_time(self) -> float | None:
        """When `let_go_on` has something to do next; None when nothing waits for a time."""
        while self._times:
            at, number = self._times[0]
            if at in (self.delayed.get(number), self.changing.get(number)):
                return at
            heapq.heappop(self._times)
        return None

    @property
    def aside(self) -> int:
        """How many wait for something else than a place, and not to be resumed."""
        return len(self.delayed) + len(self.blocked) + len(self.forced)

    def _admit(self, item: WaitingItem) -> None:
        if isinstance(item, JobArray):
            self.pending.add(item.template(), item)
        else:
            self.pending.add(item)
        delay = next_delay(item.spec.combined_req, item.waited_s)
        if delay is not None:
            self.changing[item_id(item)] = item.submitted_at + delay
            heapq.heappush(self._times, (item.submitted_at + delay, item_id(item)))

    def _change_alternative(self, item: WaitingItem, now: float) -> None:
        """It has waited long enough for the next alternative of its requirement."""
        waited = item.waited_s
        self.leave(item)
        delay = next_delay(item.spec.combined_req, waited)
        while delay is not None and item.submitted_at + delay <= now:
            waited = delay
            delay = next_delay(item.spec.combined_req, delay)
        item.waited_s = waited
        self._admit(item)

    def _unlink(self, parent: int, child: int) -> None:
        children = self.dependents.get(parent)
        if children is None:
            return
        children.discard(child)
        if not children:
            del self.dependents[parent]
            self._on_free(parent)
