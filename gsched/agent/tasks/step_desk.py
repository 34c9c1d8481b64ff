"""Steps of jobs (srun): which may begin, and what each has of its job's CPUs and GPUs.

Kept by the agent of a job's first host. The room of a step is held while its command is served; an agent that restarts
takes it up, by what is on record (step_records), when the command comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from gsched.agent.tasks.step_records import StepEnd, StepRecord, StepRecords
from gsched.base.errors import Unavailable
from gsched.model.jobs.step_layout import StepPlan, StepRoom, StepShape, plan_step
from gsched.model.ledgers.host_ledger import AttemptKey

_BUSY = "Requested nodes are busy"


class StepDesk:
    """`rooms`: host -> (slots, GPUs) of an attempt's job, in the job's order; `first_number`: of an attempt's steps."""

    def __init__(
        self,
        records: StepRecords,
        rooms: Callable[[AttemptKey], Mapping[str, tuple[int, int]]],
        first_number: Callable[[AttemptKey], int] = lambda key: 0,
    ) -> None:
        self._records = records
        self._rooms = rooms
        self._first_number = first_number
        self._held: dict[AttemptKey, dict[str, StepPlan]] = {}
        self._freed = asyncio.Condition()

    async def begin(
        self, key: AttemptKey, launch: str, name: str, shape: StepShape, on_busy: Callable[[], object] | None
    ) -> StepRecord:
        """The step of this launch, when there is room for it. `on_busy` is called once where it has to wait; None: it
        does not wait. Raises BadRequest where there can never be room, Unavailable, OSError.
        """
        known = self._records.find(key, launch)
        if known is not None:
            self._held.setdefault(key, {})[launch] = known.plan
            return known
        while (plan := self._plan(key, shape)) is None:
            if on_busy is None:
                raise Unavailable(_BUSY)
            on_busy()
            async with self._freed:
                await self._freed.wait()
        self._held.setdefault(key, {})[launch] = plan
        try:
            return self._records.add(key, launch, name, plan, self._first_number(key))
        except OSError:
            await self.end(key, launch, StepEnd())
            raise

    def note_end(self, key: AttemptKey, launch: str, end: StepEnd) -> None:
        """Its tasks are over. On record before its command hears of it: the job may end with that."""
        self._records.note_end(key, launch, end)

    def note_use(self, key: AttemptKey, launch: str, so_far: StepEnd) -> None:
        """Its tasks run, and have used so much so far."""
        self._records.note_use(key, launch, so_far)

    async def end(self, key: AttemptKey, launch: str, end: StepEnd) -> None:
        """The step is over: others may have its room."""
        held = self._held.get(key, {})
        held.pop(launch, None)
        if not held:
            self._held.pop(key, None)
        self._records.note_end(key, launch, end)
        self._records.let_go(key, launch)
        async with self._freed:
            self._freed.notify_all()

    def _plan(self, key: AttemptKey, shape: StepShape) -> StepPlan | None:
        plans = self._held.get(key, {}).values()
        rooms = []
        for host, (slots, gpus) in self._rooms(key).items():
            used = sum(plan.slots.get(host, 0) for plan in plans)
            taken = {place for plan in plans for place in plan.gpus.get(host, ())}
            rooms.append(StepRoom(host, slots, gpus, min(used, slots), tuple(sorted(taken))))
        return plan_step(shape, rooms)
