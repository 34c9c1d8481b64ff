"""How the master takes jobs out of its store that an archive has: in slices, and below a checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gsched.base.clock import SystemClock
from gsched.base.errors import Conflict, GschedError, Internal
from gsched.core.engine import Engine
from gsched.core.state.cluster_state import ClusterState
from gsched.master.engine_thread import EngineLoop
from gsched.master.rpc.engine_calls import remove_archived
from gsched.master.upkeep.archived_removal import ArchivedRemovals, check_store, remove_at_once
from gsched.master.upkeep.slices import FEWEST
from gsched.master.upkeep.store_upkeep import StoreUpkeep
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig, Locations
from gsched.model.event import AnyEvent, HistoryArchived, HostClosed, JobForgotten, JobSubmitted
from gsched.model.jobs.job import JobSpec
from gsched.model.views.archive_question import ArchivedJobs, ArchivedPart, RemovedArchived
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.safeguards.failure import StoreBroken, StoreFull
from gsched.store.tables.schema import JobRow
from tests.support.manual_clock import ManualClock

BEGIN = 1_700_000_000.0
JOBS = 40
EVENTS = 2
STATE = ClusterState().dump()
SPEC = JobSpec(command="x", user="ann", queue="normal")


class Archived:
    """A store with jobs that an archive has, and no checkpoint yet."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(BEGIN)
        self.log = EventLog(folder / "store.db", clock=self.clock)
        self.notes: list[tuple[str, str]] = []
        self.removals = ArchivedRemovals(self.log, self.note)
        self.answers: list[Any] = []
        events: list[AnyEvent] = []
        for number in range(1, JOBS + 1):
            events += [JobSubmitted(at=BEGIN, job_id=number, spec=SPEC), JobForgotten(at=BEGIN, job_id=number)]
        words: dict[str, Any] = {"user": "ann", "queue": "normal", "state": "DONE"}
        rows = [JobRow(job_id=number, submitted_at=BEGIN, finished_at=BEGIN, **words) for number in range(1, JOBS + 1)]
        self.log.append(events, rows)
        last = self.log.last_seq
        self.part = ArchivedPart(self.log.cluster_id, self.log.generation, "2023-11", "a", "b", BEGIN + 1.0, last, last)

    def move_on(self) -> None:
        """Something happens that is of no job."""
        self.log.append([HostClosed(at=BEGIN, host="a", by="root")])

    def note(self, by: str, part: str) -> None:
        self.notes.append((by, part))
        self.log.append([HistoryArchived(at=BEGIN, by=by, part=part)])

    def checkpoint(self) -> None:
        self.log.save_checkpoint(self.log.last_seq, STATE)

    def ask(self, *numbers: int, by: str = "root") -> None:
        self.removals.put(ArchivedJobs(self.part, dict.fromkeys(numbers, EVENTS)), by, self._reply)

    def _reply(self, removed: RemovedArchived | None, error: GschedError | None) -> None:
        self.answers.append(error or removed)

    def run(self, checkpoints: int = 0) -> int:
        """Until there is nothing to do, writing so many checkpoints as they are wanted; says how many steps."""
        for steps in range(1000):
            due = self.removals.due_at(self.clock.now())
            if due == float("inf"):
                return steps
            self.clock.advance(max(0.0, due - self.clock.now()))
            self.removals.step(self.clock.now())
            if self.removals.wants_checkpoint and checkpoints:
                self.removals.wants_checkpoint = False
                checkpoints -= 1
                self.checkpoint()
        raise AssertionError("it never ends")

    def left(self) -> list[int]:
        history = History(self.log.place)
        try:
            return sorted(history.numbers())
        finally:
            history.close()


@pytest.fixture
def archived(tmp_path: Path) -> Iterator[Archived]:
    made = Archived(tmp_path)
    yield made
    made.log.close()


def with_floor(archived: Archived) -> None:
    for _ in range(2):
        archived.move_on()
        archived.checkpoint()


def test_jobs_go_in_slices_and_who_asked_is_told(archived: Archived) -> None:
    with_floor(archived)
    archived.ask(*range(1, 31))
    archived.ask(*range(31, JOBS))
    assert archived.run() > 30 // (4 * FEWEST)
    assert archived.answers == [RemovedArchived(30, True), RemovedArchived(JOBS - 31, True)]
    assert archived.left() == [JOBS]
    archived.ask(1, 2, JOBS)
    archived.run()
    assert archived.answers[-1] == RemovedArchived(3, True) and archived.left() == []


def test_a_checkpoint_is_written_where_there_is_none_to_begin_with(archived: Archived) -> None:
    archived.move_on()
    archived.ask(1, 2)
    archived.run(checkpoints=2)
    assert archived.answers == [RemovedArchived(2, True)]
    assert archived.left() == list(range(3, JOBS + 1))


def test_what_happens_in_an_idle_cluster_is_that_somebody_asks(archived: Archived) -> None:
    archived.checkpoint()
    archived.ask(1, 2)
    archived.run(checkpoints=2)
    assert archived.answers == [RemovedArchived(2, True)]
    assert archived.notes == [("root", "2023-11")] * 2, "each checkpoint needs an event"


def test_it_is_noted_once_for_each_part(archived: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    with_floor(archived)
    for numbers in ((1, 2), (3, 4)):
        archived.ask(*numbers)
        archived.run()
    archived.part = archived.part._replace(name="2023-11.2")
    archived.ask(5)
    archived.run()
    assert archived.notes == [("root", "2023-11"), ("root", "2023-11.2")]
    archived.ask(6, by="ann")
    archived.run()
    assert archived.notes[2:] == [("ann", "2023-11.2")]
    monkeypatch.setattr("gsched.master.upkeep.archived_removal.NOTED_S", -1.0)
    archived.ask(7, by="ann")
    archived.run()
    assert archived.notes[3:] == [("ann", "2023-11.2")], "another day"


def test_no_checkpoint_is_waited_for_without_end(archived: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.master.upkeep.archived_removal.WAIT_S", 0.0)
    archived.ask(1, 2)
    archived.run()
    assert archived.answers == [RemovedArchived(0, False)]


def fail(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("error", [StoreFull("the disk is full"), KeyError("what nobody expects")])
def test_what_the_store_does_not_take_is_told_and_the_engine_goes_on(
    archived: Archived, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with_floor(archived)
    with monkeypatch.context() as patched:
        patched.setattr(archived.log.removal, "remove_archived_jobs", lambda *_: fail(error))
        archived.ask(1)
        archived.run()
    assert archived.answers == [error] or isinstance(archived.answers[0], Internal)
    archived.ask(1)
    archived.run()
    assert archived.answers[1] == RemovedArchived(1, True)


def test_a_broken_store_ends_the_process(archived: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archived.log.removal, "floor", lambda: fail(StoreBroken("gone")))
    archived.ask(1)
    with pytest.raises(StoreBroken):
        archived.run()
    assert isinstance(archived.answers[0], StoreBroken)


def test_it_is_due_at_once_though_the_clock_was_set_back(archived: Archived) -> None:
    with_floor(archived)
    archived.ask(1)
    archived.run()
    archived.ask(2)
    earlier = archived.clock.now() - 3600.0
    assert archived.removals.due_at(earlier) == earlier


def test_the_wish_for_a_checkpoint_is_told_once(archived: Archived) -> None:
    upkeep = StoreUpkeep(archived.log, archived.note)
    upkeep.archived.put(ArchivedJobs(archived.part, {1: EVENTS}), "root", lambda *_: None)
    assert upkeep.due_at(BEGIN) == BEGIN
    upkeep.archived.step(BEGIN)
    assert upkeep.takes_checkpoint_wish() and not upkeep.takes_checkpoint_wish()


def test_without_a_master_all_goes_at_once(archived: Archived) -> None:
    with_floor(archived)
    wanted = ArchivedJobs(archived.part, dict.fromkeys(range(1, JOBS + 1), EVENTS))
    assert remove_at_once(archived.log, wanted) == RemovedArchived(JOBS, True)
    assert archived.left() == []


def test_another_store_is_left_alone(archived: Archived) -> None:
    check_store(archived.log, archived.part)
    for other in (archived.part._replace(cluster_id="other"), archived.part._replace(generation=2)):
        with pytest.raises(Conflict, match="nothing was removed"):
            check_store(archived.log, other)


def test_the_engine_writes_the_checkpoint_and_answers(archived: Archived) -> None:
    places = Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir="")
    config = ClusterConfig(cluster="c", master_host="a", hosts={}, queues={}, locations=places)
    engine, board = Engine(ClusterState(), config, SystemClock().now()), Board(config)
    faults: list[str] = []
    loop = EngineLoop(engine, archived.log, board, SystemClock(), deliver=lambda *_: None, fatal=faults.append)
    wanted = ArchivedJobs(archived.part, {1: EVENTS, 2: EVENTS})
    archived.move_on()
    loop.start()
    try:
        assert asyncio.run(remove_archived(loop, wanted, "root")) == RemovedArchived(2, True)
    finally:
        loop.stop(60.0)
    assert not faults and archived.left() == list(range(3, JOBS + 1))
