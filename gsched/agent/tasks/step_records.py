"""Steps of jobs (srun) on record: in the attempts' folders, from before their first tasks on.

So an agent that restarts knows them again, and tells of them with what their attempts use, until their ends are stored.
Never decides what a step gets.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from gsched.base.machine.atomic_write import replace_file
from gsched.base.node_lists import fold_in_order
from gsched.model.jobs.step_facts import LONGEST_NODES, LONGEST_STEP_NAME, StepFacts, pack_steps
from gsched.model.jobs.step_layout import StepPlan
from gsched.model.ledgers.host_ledger import AttemptKey

STEPS = "steps"
"""Folder of an attempt's steps, in the attempt's folder."""
MOST_RECORDS = 1000
"""Steps of one attempt that are kept on record: the last."""
_FEW_TASKS = 64
"""Of a step that has ended the places of so many tasks stay on record."""


class StepEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the tasks of a step."""

    code: int = 0
    """The highest exit code of those that have exited."""
    signal: int = 0
    """Of those that a signal ended, where 128 + signal is higher than that."""
    max_rss_mib: float | None = None
    """Memory of the largest process; None: not known."""
    cpu_s: float | None = None
    is_cancelled: bool = False


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an attempt."""

    number: int
    """SLURM_STEP_ID."""
    key: str
    """Of the launch."""
    plan: StepPlan
    facts: StepFacts | None = None
    """What others are told of it; None: of an agent of before."""

    @property
    def has_ended(self) -> bool:
        return self.facts is None or self.facts.ended_at is not None

    def facts_with(self, used: StepEnd | None) -> StepFacts | None:
        """What is told of it, while it runs with what it has used so far."""
        if self.facts is None or used is None or self.has_ended:
            return self.facts
        return msgspec.structs.replace(self.facts, max_rss_mib=used.max_rss_mib, cpu_s=used.cpu_s)

    def ended(self, end: StepEnd, at: float) -> StepRecord:
        """The same when it is over."""
        if self.facts is None:
            return self
        facts = msgspec.structs.replace(
            self.facts,
            ended_at=at,
            code=end.code,
            signal=end.signal,
            max_rss_mib=end.max_rss_mib,
            cpu_s=end.cpu_s,
            is_cancelled=end.is_cancelled,
        )
        return msgspec.structs.replace(self, facts=facts)


def new_record(number: int, launch: str, name: str, plan: StepPlan, at: float) -> StepRecord:
    """Of a step that begins."""
    hosts = list(dict.fromkeys(place.host for place in sorted(plan.places, key=lambda place: place.node)))
    facts = StepFacts(
        number=number,
        name=name[:LONGEST_STEP_NAME],
        tasks=len(plan.places),
        nodes=fold_in_order(hosts)[:LONGEST_NODES],
        node_count=len(hosts),
        cpus=sum(plan.slots.values()),
        gpus=sum(map(len, plan.gpus.values())),
        began_at=at,
    )
    return StepRecord(number=number, key=launch, plan=plan, facts=facts)


class StepRecords:
    """Of all attempts of one host; `folder` of an attempt."""

    def __init__(self, folder: Callable[[AttemptKey], Path]) -> None:
        self._folder = folder
        self._known: dict[AttemptKey, dict[int, StepRecord]] = {}
        self._used: dict[AttemptKey, dict[str, StepEnd]] = {}
        """Launch of a step that runs -> what it has used so far."""
        self.changed: Callable[[AttemptKey], object] = lambda key: None
        """Called when there is something new to tell of an attempt's steps."""

    def of(self, key: AttemptKey) -> list[StepRecord]:
        """The attempt's steps by number: the last MOST_RECORDS."""
        known = self._known.get(key)
        if known is None:
            folder = str(self._folder(key))
            known = _read(f"{folder}/{STEPS}")
            if known or os.path.isdir(folder):  # else it is over, and nobody forgets it again
                self._known[key] = known
        return [known[number] for number in sorted(known)]

    def find(self, key: AttemptKey, launch: str) -> StepRecord | None:
        """The step of this launch."""
        return next((each for each in self.of(key) if each.key == launch), None)

    def add(self, key: AttemptKey, launch: str, name: str, plan: StepPlan, least: int = 0) -> StepRecord:
        """A step begins; it gets the next number, from `least` on. Raises OSError."""
        before = self.of(key)
        number = max(before[-1].number + 1 if before else 0, least)
        record = new_record(number, launch, name, plan, time.time())
        (self._folder(key) / STEPS).mkdir(mode=0o700, exist_ok=True)
        self._write(key, record)
        ended = [each for each in before if each.has_ended]
        for old in ended[: max(0, len(before) + 1 - MOST_RECORDS)]:
            (self._folder(key) / STEPS / str(old.number)).unlink(missing_ok=True)
            self._known[key].pop(old.number, None)
        self.changed(key)
        return record

    def note_end(self, key: AttemptKey, launch: str, end: StepEnd) -> None:
        """Its tasks are over; once."""
        record = self.find(key, launch)
        if record is not None and not record.has_ended:
            with suppress(OSError):  # the attempt is over, and its folder gone
                self._write(key, record.ended(end, time.time()))
            self._used.get(key, {}).pop(launch, None)
            self.changed(key)

    def note_use(self, key: AttemptKey, launch: str, so_far: StepEnd) -> None:
        """Its tasks have used so much so far: told with what its attempt uses, and kept nowhere."""
        self._used.setdefault(key, {})[launch] = so_far

    def let_go(self, key: AttemptKey, launch: str) -> None:
        """Nobody asks any more where its tasks are: of many they need not be kept."""
        record = self.find(key, launch)
        if record is not None and len(record.plan.places) > _FEW_TASKS:
            plan = msgspec.structs.replace(record.plan, places=())
            with suppress(OSError):
                self._write(key, msgspec.structs.replace(record, plan=plan))

    def packed(self, key: AttemptKey, most: int) -> bytes:
        """What is told of the attempt's steps, in so many bytes; empty where there are none."""
        used = self._used.get(key, {})
        return pack_steps([facts for each in self.of(key) if (facts := each.facts_with(used.get(each.key)))], most)

    def forget(self, key: AttemptKey) -> None:
        """The attempt's end is stored."""
        self._known.pop(key, None)
        self._used.pop(key, None)

    def _write(self, key: AttemptKey, record: StepRecord) -> None:
        """Raises OSError."""
        replace_file(str(self._folder(key) / STEPS / str(record.number)), msgspec.json.encode(record))
        self._known.setdefault(key, {})[record.number] = record


def _read(folder: str) -> dict[int, StepRecord]:
    found = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    for name in filter(str.isdigit, names):
        with suppress(OSError, msgspec.MsgspecError, ValueError):
            record = msgspec.json.decode(Path(folder, name).read_bytes(), type=StepRecord)
            found[record.number] = record
    return found
