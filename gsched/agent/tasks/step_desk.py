"""Steps of jobs (srun): which may begin, what each has of its job's CPUs and GPUs, and its number.

Kept by the agent of a job's first host. Each step is on record in the attempt's folder from before its first task on,
so an agent that restarts knows it again by its key, and `recorded_steps` can tell of it as long as the folder is there.
The room of a step is held while its command is served; an agent that restarts takes it up when the command comes back.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from gsched.base.errors import Unavailable
from gsched.base.machine.atomic_write import replace_file
from gsched.model.jobs.step_layout import StepPlan, StepRoom, StepShape, plan_step
from gsched.model.ledgers.host_ledger import AttemptKey

STEPS = "steps"
"""Folder of an attempt's steps, in the attempt's folder."""
MOST_RECORDS = 1000
"""Steps of one attempt that are kept on record: the last."""
_BUSY = "Requested nodes are busy"


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an attempt. Times are UTC seconds."""

    number: int
    """SLURM_STEP_ID."""
    key: str
    """Of the launch."""
    name: str
    """Of the program."""
    plan: StepPlan
    began_at: float
    ended_at: float | None = None
    """None: it runs, or its agent was away when it ended."""
    code: int = 0
    """The highest exit code of its tasks, 128 + N for signal N."""


class StepDesk:
    """`folder` of an attempt, and `rooms`: host -> (slots, GPUs) of its job, in the job's order."""

    def __init__(
        self, folder: Callable[[AttemptKey], Path], rooms: Callable[[AttemptKey], Mapping[str, tuple[int, int]]]
    ) -> None:
        self._folder = folder
        self._rooms = rooms
        self._held: dict[AttemptKey, dict[str, StepPlan]] = {}
        self._freed = asyncio.Condition()

    async def begin(
        self, key: AttemptKey, launch: str, name: str, shape: StepShape, on_busy: Callable[[], object] | None
    ) -> StepRecord:
        """The step of this launch, when there is room for it. `on_busy` is called once where it has to wait; None: it
        does not wait. Raises BadRequest where there can never be room, Unavailable, OSError.
        """
        known = next((each for each in recorded_steps(self._folder(key)) if each.key == launch), None)
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
            return self._record(key, launch, name, plan)
        except OSError:
            await self.end(key, launch, 0)
            raise

    async def end(self, key: AttemptKey, launch: str, code: int) -> None:
        """The step is over: others may have its room."""
        held = self._held.get(key, {})
        held.pop(launch, None)
        if not held:
            self._held.pop(key, None)
        folder = self._folder(key)
        known = next((each for each in recorded_steps(folder) if each.key == launch), None)
        if known is not None:
            with suppress(OSError):  # the attempt is over, and its folder gone
                plan = msgspec.structs.replace(known.plan, places=())
                _write(folder, msgspec.structs.replace(known, plan=plan, ended_at=time.time(), code=code))
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

    def _record(self, key: AttemptKey, launch: str, name: str, plan: StepPlan) -> StepRecord:
        """Raises OSError."""
        folder = self._folder(key)
        (folder / STEPS).mkdir(mode=0o700, exist_ok=True)
        before = recorded_steps(folder)
        number = before[-1].number + 1 if before else 0
        record = StepRecord(number=number, key=launch, name=name[:100], plan=plan, began_at=time.time())
        _write(folder, record)
        ended = [each for each in before if each.key not in self._held.get(key, {})]
        for old in ended[: max(0, len(before) + 1 - MOST_RECORDS)]:
            (folder / STEPS / str(old.number)).unlink(missing_ok=True)
        return record


def recorded_steps(attempt_folder: Path) -> list[StepRecord]:
    """Steps of the attempt whose folder this is, by number: the last MOST_RECORDS. None where none can be read."""
    found = []
    try:
        names = os.listdir(attempt_folder / STEPS)
    except OSError:
        return []
    for name in filter(str.isdigit, names):
        with suppress(OSError, msgspec.MsgspecError, ValueError):
            found.append(msgspec.json.decode((attempt_folder / STEPS / name).read_bytes(), type=StepRecord))
    return sorted(found, key=lambda each: each.number)


def _write(folder: Path, record: StepRecord) -> None:
    replace_file(str(folder / STEPS / str(record.number)), msgspec.json.encode(record))
