"""The engine's thread: takes commands from an inbox, commits what they bring about, and only then lets anything out.

A full disk keeps the batch and tries it again, refusing new commands meanwhile; an unknown outcome of a commit ends the
process, and the next start replays. Nothing here decides what a command means.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gsched.base.clock import Clock
from gsched.base.errors import GschedError, Internal, ResourceExhausted
from gsched.core.command import (
    Command,
    ControlGpus,
    ControlGroups,
    ControlHosts,
    ControlQueues,
    ControlReservations,
    DrainHosts,
    EndOrphans,
    JobCommand,
    ModifyJobs,
    NoteArchiving,
    Reconfigure,
    Submit,
)
from gsched.core.command_turns import EVENT, Unfinished
from gsched.core.decision import Decision
from gsched.core.engine import Engine
from gsched.core.instruction import Instruction
from gsched.core.state.checkpoint import Writing
from gsched.master.checkpoint_writer import CheckpointWriter
from gsched.master.garbage_collection import tidy_up
from gsched.master.host_recorder import HostRecorder
from gsched.master.metrics.measurements import Measurements
from gsched.master.past.history_rows import array_row, irregular_jobs, job_row
from gsched.master.upkeep.store_upkeep import StoreUpkeep, held_blobs
from gsched.master.views.board import Board
from gsched.master.views.gauges import Gauges
from gsched.model.event import AnyEvent
from gsched.model.views.archive_question import ArchivedJobs
from gsched.store.eventlog import EventLog
from gsched.store.safeguards.failure import StoreBroken, StoreFull
from gsched.store.tables.schema import ARRAY, IRREGULAR, HostRecordRow, JobRow

log = logging.getLogger(__name__)

BATCH = 500
"""Most commands that share one commit."""
TURN_STEPS = 8_000
"""How much is done before others have their turn, see gsched.core.command_turns: some 20 ms with what is stored."""
GROUPED = 3
"""Turns of one command that may share a commit: to wait for the disk each time takes longer than they do."""
COMMAND_STEPS = 20
"""Of these, what any command costs."""
GATHER_S = 0.003
"""How long reports of agents may wait for others while many come and the engine is busy anyway, in seconds."""
RETRY_FULL_S = 0.5
CHECKPOINT_EVENTS = 20_000
"""A checkpoint is written after so many events at the earliest, and after half as many as there are jobs in memory: it
takes time for each of them, 4 s for a million.
"""

CHECKPOINT_TURNS = 4
"""Turns of commands between two steps of a checkpoint."""

SHORT_CYCLE_S = 0.010
"""Cycles whose first turn takes less may come before a batch is stored: that takes about as long."""
RENEW_REASONS_S = 1.0
"""How long pending reasons may stand that do not count what their own cycle started."""
PLAN_S = 0.03
"""How soon plans are made that a cycle has left to another: when those have started that were not to wait for them."""
LONGEST_WAIT_S = 60.0
_FROM_PEOPLE = (
    *(Submit, JobCommand, ModifyJobs, ControlHosts, ControlQueues, ControlGroups, ControlReservations, Reconfigure),
    *(ControlGpus, DrainHosts, EndOrphans),
)

Reply = Callable[[Any, GschedError | None], None]
ReportProgress = Callable[[list[tuple[int, Any]]], None]
"""Given (place, answer) of the jobs that have been done since, perhaps none; all of it is durable."""


@dataclass(slots=True)
class InboxItem:
    """A command in the inbox. `reply` is called once, from the engine's thread: (answer, None) or (None, error).
    Before, `progress` is called after every turn of the engine in which the command was under way.
    """

    command: Command
    reply: Reply | None = None
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    progress: ReportProgress | None = None


@dataclass(slots=True)
class _Batch:
    events: list[AnyEvent] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    replies: list[tuple[Reply, Any]] = field(default_factory=list)
    parts: list[tuple[ReportProgress, list[tuple[int, Any]]]] = field(default_factory=list)

    dropped: set[str] = field(default_factory=set)
    """Blobs that the store is to drop before it adds those above."""

    def add(self, decision: Decision) -> None:
        self.events.extend(decision.events)
        self.instructions.extend(decision.instructions)
        for name in decision.dropped:
            self.blobs.pop(name, None)
            self.dropped.add(name)


class _GaveUp(Exception):
    """The process is asked to end while a batch cannot be stored."""


class EngineLoop:
    """Runs the engine in a thread of its own.

    `deliver(last_seq, events, instructions)` is called after each commit; `fatal(text)` when the process must end.
    """

    def __init__(
        self,
        engine: Engine,
        store: EventLog,
        board: Board,
        clock: Clock,
        *,
        deliver: Callable[[int, list[AnyEvent], list[Instruction]], None],
        fatal: Callable[[str], None],
        measurements: Measurements | None = None,
    ) -> None:
        self._measurements = measurements or Measurements()
        self._engine = engine
        self._store = store
        self._board = board
        self._clock = clock
        self._deliver = deliver
        self._fatal = fatal
        self._inbox: queue.SimpleQueue[InboxItem | None] = queue.SimpleQueue()
        self._kept: deque[InboxItem] = deque()
        """What came while a batch could not be stored, or when a turn was over; it comes before the inbox."""
        self._unfinished: deque[tuple[InboxItem, Unfinished]] = deque()
        """Commands that are carried out in turns, and whose turn it is next."""
        self._put_off: list[InboxItem] = []
        """What came during a plan that takes several turns, and has to wait for its end."""
        self._stopping = threading.Event()
        self._since_checkpoint = 0
        self._checkpoints = CheckpointWriter(store, lambda: Writing(engine.state))
        self._host_records = HostRecorder(store.last_seq, clock.now())
        self._upkeep = StoreUpkeep(store, self._note_archiving, lambda: held_blobs(engine.state))
        self._said = ""
        self._worked_at = float("-inf")
        self._is_wave = False
        """Whether what was taken last had come together with others."""
        self._planning_s = 0.0
        """What the cycle that is under way has taken so far."""
        self._last_begin_s = 0.0
        """What the first turn of the last one took that came because something had happened."""
        self._turns = 0
        self._turns_seen = -1
        self._turned_at = time.monotonic()
        self.gauges = Gauges()
        """Limits and shares, for readers."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self.problem = ""
        """Why new commands are refused for now; empty when all is well. Read by any thread."""

    def start(self) -> None:
        """Publish the replayed state and begin to work."""
        self._engine.state.touched.update(self._engine.state.jobs, self._engine.state.arrays)
        self._engine.state.touched_hosts.update(self._engine.config.hosts)
        self._board.publish(self._engine)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Finish what is in the inbox, write a checkpoint, end the thread."""
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join(timeout_s)

    def has_turned(self) -> bool:
        """Whether the engine's thread has gone round since this was asked last; has it go round once more.

        Never blocks: a watchdog asks from another thread.
        """
        turns = self._turns
        has_turned = turns != self._turns_seen
        if has_turned:
            self._turns_seen = turns
            self._inbox.put(None)
        return has_turned

    def is_turning(self, within_s: float) -> bool:
        """Whether the engine's thread has gone round within so many seconds; has it go round when it rests. Never
        blocks: another thread asks, more often than that.
        """
        since_s = time.monotonic() - self._turned_at
        if since_s > within_s / 4:
            self._inbox.put(None)
        return since_s < within_s

    def _begin_turn(self) -> None:
        self._turns += 1
        self._turned_at = time.monotonic()

    def put(self, item: InboxItem) -> None:
        """Hand over a command; never blocks."""
        self._inbox.put(item)

    def remove_archived(self, wanted: ArchivedJobs, by: str, reply: Reply) -> None:
        """Take jobs that an archive has out of the store, a slice at a time; never blocks. `reply` as of InboxItem."""
        self._upkeep.archived.put(wanted, by, reply)
        self._inbox.put(None)

    def _note_archiving(self, by: str, part: str) -> None:
        self._inbox.put(InboxItem(NoteArchiving(by, part)))

    def _run(self) -> None:
        try:
            self._work()
        except _GaveUp:
            log.warning("the master ends while its last batch cannot be stored; nothing of it was acknowledged")
        except StoreBroken as error:  # its words say what has happened: another master leads by now, or the disk fails
            self._fatal(error.text)
        except Exception as error:  # the last line of defence: whatever it is, replay is the way out
            log.exception("the engine stopped")
            self._fatal(f"the engine stopped: {error}")

    def _work(self) -> None:
        tick_at = wake_at = cycled_at = 0.0
        while True:
            self._begin_turn()
            items = self._take(wake_at)
            now = self._clock.now()
            batch = _Batch()
            left = self._handle_all(items, now, batch)
            self._go_on(now, batch, left)
            for _ in range(GROUPED - 1):
                if self._is_alone(batch, tick_at):
                    self._go_on(self._clock.now(), batch, TURN_STEPS)
            if now >= tick_at and not self._engine.cycles.is_planning:
                batch.add(self._engine.tick(now, TURN_STEPS))
            if self._shares_commit(batch):
                # What the cycle decides rests on it: in the record it stands before that.
                self._note_hosts()
                cycled_at = self._cycle(batch, follows=True)
                self._commit(batch)
            else:
                self._commit(batch)
                if self._engine.cycles.needs_cycle:
                    of_cycle = _Batch()
                    cycled_at = self._cycle(of_cycle, follows=bool(batch.events))
                    self._commit(of_cycle)
            if self._engine.cycles.is_planning:
                self._worked_at = time.monotonic()
                continue
            self._kept.extendleft(reversed(self._put_off))
            self._put_off.clear()
            tick_at = self._engine.next_deadline(self._clock.now())
            if self._engine.cycles.misses_own_starts:
                tick_at = min(tick_at, cycled_at + (PLAN_S if self._engine.cycles.misses_plans else RENEW_REASONS_S))
            wake_at = min(tick_at, self.gauges.follow(self._engine, self._clock.now()))
            wake_at = min(wake_at, self._upkeep.due_at(self._clock.now()))
            self._worked_at = time.monotonic()
            self._engine.say_estimates(self._clock.now())
            self._upkeep.archived.step(self._clock.now())  # somebody waits for it
            self._store_hosts()
            if self._stopping.is_set() and self._inbox.empty() and not self._kept:
                self._store_hosts(ends=True)
                self._last_checkpoint()
                return
            many = max(CHECKPOINT_EVENTS, len(self._engine.state.jobs) // 2)
            if self._upkeep.takes_checkpoint_wish() or self._since_checkpoint >= many:
                self._checkpoints.start(self._checkpoint_closed)
            if not self._unfinished or self._turns % CHECKPOINT_TURNS == 0:
                self._checkpoints.step()
            tidy_up()

    def _shares_commit(self, batch: _Batch) -> bool:
        """Whether a cycle may come before the batch is stored, so that what starts in the place of what has ended need
        not wait for the disk twice: nobody waits for an answer, and cycles are short.
        """
        is_awaited = bool(batch.replies or batch.parts or self._unfinished)
        is_short = self._last_begin_s < SHORT_CYCLE_S and not self._engine.cycles.is_planning
        return self._engine.cycles.needs_cycle and bool(batch.events) and is_short and not is_awaited

    def _cycle(self, batch: _Batch, *, follows: bool) -> float:
        """A scheduling cycle, or the next turns of it; returns when that was, UTC seconds.

        `follows`: it comes because something has happened.
        """
        began, at, taken_s = time.monotonic(), self._clock.now(), 0.0
        begins = follows and not self._engine.cycles.is_planning
        # Turns are short as long as nothing is found that starts.
        while not taken_s or (taken_s < SHORT_CYCLE_S and self._engine.cycles.is_planning and self._inbox.empty()):
            batch.add(self._engine.cycle(at, steps=TURN_STEPS, is_awaited=bool(self._put_off)))
            taken_s = time.monotonic() - began
            if begins:
                self._last_begin_s, begins = taken_s, False
        self._planning_s += taken_s
        if not self._engine.cycles.is_planning:
            self._measurements.cycles.add(self._planning_s)
            self._planning_s = 0.0
        self._note_failure()
        return at

    def _is_alone(self, batch: _Batch, tick_at: float) -> bool:
        """Whether a command over many jobs may have another turn before the commit: it has brought little about, and
        nobody else wants anything.
        """
        if not self._unfinished or self._kept or not 0 < EVENT * len(batch.events) < TURN_STEPS // 3 or batch.replies:
            return False
        return self._inbox.empty() and not self._engine.unsettled and self._clock.now() < tick_at

    def _note_failure(self) -> None:
        """Say once why scheduling cycles fail."""
        failure = self._engine.cycles.failure
        if failure is not None and repr(failure) != self._said:
            log.error("%s", self._engine.cycles.summary, exc_info=failure)
        self._said = repr(failure)

    def _take(self, tick_at: float) -> list[InboxItem]:
        """Wait for the next command or deadline; then all that is there, up to a batch."""
        if self._kept:
            return [self._kept.popleft() for _ in range(min(BATCH, len(self._kept)))]
        # The wall clock may be set back: never sleep longer than a tick is long.
        is_busy = self._engine.cycles.needs_cycle or self._engine.unsettled or bool(self._unfinished)
        is_busy = is_busy or self._checkpoints.is_busy or self._engine.estimates.has_more
        timeout = 0.0 if is_busy else min(LONGEST_WAIT_S, max(0.0, tick_at - self._clock.now()))
        try:
            first = self._inbox.get(timeout=timeout) if timeout else self._inbox.get_nowait()
        except queue.Empty:
            return []
        items = [first] if first is not None else []
        # A wave of reports shares a commit; who waits for an answer, or comes to an idle master, is not delayed.
        arrived = time.monotonic()
        is_near = self._is_wave and arrived - self._worked_at < GATHER_S
        until = arrived + GATHER_S if is_near and not is_busy else 0.0
        while len(items) < BATCH:
            patience = until - time.monotonic() if items and items[-1].reply is None else 0.0
            try:
                item = self._inbox.get(timeout=patience) if patience > 0 else self._inbox.get_nowait()
            except queue.Empty:
                break
            if item is not None:
                items.append(item)
        self._is_wave = len(items) > 1
        return items

    def _handle_all(self, items: list[InboxItem], now: float, batch: _Batch) -> int:
        """Each command, or the first turn of it; what is too much for this turn comes first in the next.

        Returns the steps that are left.
        """
        kept = TURN_STEPS // 2 if self._unfinished or self._engine.unsettled else 0
        left = TURN_STEPS - kept
        for place, item in enumerate(items):
            if left <= 0:
                self._kept.extendleft(reversed(items[place:]))
                break
            if not self._engine.takes(item.command):
                self._put_off.append(item)
                continue
            left -= self._handle(item, batch, partial(self._engine.handle, item.command, now, left))
        return max(0, left) + kept

    def _go_on(self, now: float, batch: _Batch, steps: int) -> None:
        """The next turn of what follows from others, or else of one of the commands that are carried out in turns."""
        if self._engine.unsettled:
            batch.add(self._engine.settle(now, steps))
        elif steps and (found := self._next_unfinished()) is not None:
            item, rest = found
            self._handle(item, batch, partial(self._engine.go_on, rest, now, steps))

    def _next_unfinished(self) -> tuple[InboxItem, Unfinished] | None:
        """The command whose turn it is; None if there is none, or all have to wait for the end of a cycle."""
        for place, (item, _) in enumerate(self._unfinished):
            if self._engine.takes(item.command):
                found = self._unfinished[place]
                del self._unfinished[place]
                return found
        return None

    def _handle(self, item: InboxItem, batch: _Batch, decide: Callable[[], Decision]) -> int:
        """Says how many steps it took."""
        try:
            decision = decide()
        except GschedError as error:
            if isinstance(error, Internal):
                log.error("%s", error.text, exc_info=error.__cause__ or error)
            if item.reply is not None:
                item.reply(None, error)
            return COMMAND_STEPS
        batch.add(decision)
        if decision.events:  # what was not accepted leaves nothing behind
            batch.blobs.update(item.blobs)
        if item.progress is not None and decision.parts:
            batch.parts.append((item.progress, decision.parts))
        if decision.rest is not None:
            self._unfinished.append((item, decision.rest))
        elif item.reply is not None:
            batch.replies.append((item.reply, decision.reply))
        return COMMAND_STEPS + decision.steps + EVENT * len(decision.events)

    def _commit(self, batch: _Batch) -> None:
        """Make the batch durable, publish, and only then answer and instruct."""
        if batch.events or batch.blobs:
            with self._measurements.timed(self._measurements.commits):
                self._append(batch, list(self._rows(irregular_jobs(batch.events))), self._host_records.take())
            self._since_checkpoint += len(batch.events)
            self.gauges.note_change()
        self._checkpoints.note(self._engine.state.touched)
        touched_hosts = self._engine.state.touched_hosts  # the board leaves another set behind
        self._board.publish(self._engine)
        for progress, parts in batch.parts:
            progress(parts)
        for item, _ in self._unfinished:
            if item.progress is not None:
                item.progress([])
        for reply, answer in batch.replies:
            reply(answer, None)
        if batch.events or batch.instructions:
            self._deliver(self._store.last_seq, batch.events, batch.instructions)
        self._note_hosts(touched_hosts)

    def _note_hosts(self, touched: Iterable[str] | None = None) -> None:
        """Note what is seen of the hosts that have been touched (None: since the last commit)."""
        hosts = self._engine.state.touched_hosts if touched is None else touched
        self._host_records.note(self._engine, hosts, self._store.last_seq, self._clock.now())

    def _store_hosts(self, *, ends: bool = False) -> None:
        """Store what was seen of hosts, and said of starts, while there is nothing else to do; otherwise it goes with
        the next commit.
        `ends`: this is the last time.
        """
        is_idle = self._inbox.empty() and not (self._kept or self._unfinished or self._engine.cycles.needs_cycle)
        now = self._clock.now()
        if is_idle and not ends:
            self._upkeep.step(self._engine.config.params, now)
        is_due = self._host_records.is_due(now) or self._engine.estimates.is_due(now)
        if not ends and not (is_idle and is_due):
            return
        rows, said = self._host_records.take(), self._engine.estimates.take()
        try:
            self._store.add_hosts(rows, said)
        except StoreFull as error:
            log.warning("what was seen of hosts is stored later: %s", error.text)
            self._host_records.put_back(rows, now)
            self._engine.estimates.put_back(said, now)

    def _rows(self, irregular: Container[int]) -> Iterator[JobRow]:
        """Rows of the jobs and arrays that have changed."""
        state = self._engine.state
        for number in state.touched:
            job, array = state.jobs.get(number), state.arrays.get(number)
            traits = IRREGULAR if number in irregular else 0
            if job is not None:
                yield job_row(job, traits)
            elif array is not None:
                yield array_row(array, traits | ARRAY)

    def _append(self, batch: _Batch, rows: list[JobRow], hosts: list[HostRecordRow]) -> None:
        said = self._engine.estimates.take()
        while True:
            try:
                next_id = self._engine.state.next_job_id
                self._store.append(batch.events, rows, batch.blobs, next_id, hosts, said, batch.dropped)
            except StoreFull as error:
                if not self.problem:
                    log.error("%s; new commands are refused until that has changed", error.text)
                self.problem = error.text
                self._begin_turn()
                self._refuse_waiting()
                if self._stopping.wait(RETRY_FULL_S):  # room on a disk is no event that could be awaited
                    raise _GaveUp from None
                continue
            if self.problem:
                log.warning("the store can be written again")
                self.problem = ""
            return

    def _refuse_waiting(self) -> None:
        """Commands of people that wait behind the stuck batch are refused now; agents' reports are kept."""
        waiting, self._put_off = self._put_off, []
        for item in waiting:
            if not self._turn_away(item):
                self._put_off.append(item)
        while True:
            try:
                came = self._inbox.get_nowait()
            except queue.Empty:
                return
            if came is not None and not self._turn_away(came):
                self._kept.append(came)

    def _turn_away(self, item: InboxItem) -> bool:
        """Answer a command of people that nothing can be stored; false: it was none, and nothing was done."""
        if item.reply is None or not isinstance(item.command, _FROM_PEOPLE):
            return False
        item.reply(None, refusal(self.problem))
        return True

    def _checkpoint_closed(self) -> None:
        self._since_checkpoint = 0

    def _last_checkpoint(self) -> None:
        """At one go: nobody waits any more. But whoever takes over has followed, or replays some thousand events."""
        if self._store.is_promised or (not self._since_checkpoint and not self._checkpoints.is_busy):
            return
        try:
            names = self._store.put_parts(Writing(self._engine.state).close())
            self._store.save_checkpoint_of(self._store.last_seq, names)
        except GschedError as error:
            log.warning("no checkpoint was written: %s", error.text)


def refusal(problem: str) -> ResourceExhausted:
    """What a new command is told while nothing can be stored."""
    return ResourceExhausted(f"the master cannot store anything now ({problem}); nothing was changed, try again later")
