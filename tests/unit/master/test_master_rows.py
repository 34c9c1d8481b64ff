"""What rows tell of jobs is what their events tell: random courses of jobs and arrays, through engine and store."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gsched.base.ids import show_job
from gsched.cli.answers.history_view import history_record
from gsched.cli.render.jobs.history import summary_row
from gsched.core.command import (
    AttemptEnded,
    AttemptStarted,
    JobCommand,
    KillJobs,
    RequeueJobs,
    ResumeJobs,
    StopJobs,
    Submit,
)
from gsched.core.decision import Decision
from gsched.core.instruction import Instruction, StartJob, TerminateAttempt
from gsched.master.past.finished_accounts import read_accounts, read_costs
from gsched.master.past.history_rows import array_row, irregular_jobs, job_row
from gsched.master.past.job_histories import Histories
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.views.catalogue import AccountFilter
from gsched.model.views.past_query import HistoryQuery, JobTimes
from gsched.model.views.view import JobFilter, JobHistory
from gsched.sim.world import World, simulated_config
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables.schema import ARRAY, IRREGULAR

STEPS = 120
DAY, NIGHTS = 2, 200


class Stored(World):
    """A world whose events and rows are stored, as the master's loop does it. Attempts end when the test says so."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.started: dict[int, StartJob] = {}
        super().__init__(simulated_config(2, 3, gpus=4), gpus=4)

    def _take(self, decision: Decision) -> Decision:
        assert not self.engine.audit()
        state, irregular = self.engine.state, irregular_jobs(decision.events)
        rows = []
        for number in state.touched:
            traits = IRREGULAR if number in irregular else 0
            if number in state.jobs:
                rows.append(job_row(state.jobs[number], traits))
            elif number in state.arrays:
                rows.append(array_row(state.arrays[number], traits | ARRAY))
        state.touched.clear()
        self.log.append(decision.events, rows)
        for instruction in decision.instructions:
            self._obey(instruction)
        return decision

    def _obey(self, instruction: Instruction) -> None:
        if isinstance(instruction, StartJob):
            self.started[instruction.job_id] = instruction
            self._take(self.engine.handle(AttemptStarted(*_key(instruction), 7, self.now), self.now))
        elif isinstance(instruction, TerminateAttempt):
            order = self.started.pop(instruction.job_id, None)
            if order is not None:
                self._end(order, AttemptResult(signal=9, usage=Usage(cpu_s=0.25), term_reason="TERM_OWNER"))

    def _end(self, order: Any, result: Any) -> None:
        self._take(self.engine.handle(AttemptEnded(*_key(order), result), self.now))

    def end_one(self, chance: random.Random) -> None:
        if self.started:
            order = self.started.pop(chance.choice(sorted(self.started)))
            usage = Usage(cpu_s=chance.choice((0.0, 1.5, 1000.25)))
            self._end(order, AttemptResult(exit_code=chance.choice((0, 0, 3)), usage=usage))

    def go_on(self, seconds: float) -> None:
        self.now += seconds
        self._take(self.engine.tick(self.now))
        self._settle()


def _key(order: StartJob) -> tuple[int, int, str]:
    return order.job_id, order.attempt, order.host


def play(world: Stored, chance: random.Random) -> None:
    spec = JobSpec(command="run", user="ann", queue="normal")
    for step in range(STEPS):
        what = chance.random()
        if what < 0.35:
            changes: dict[str, Any] = {"name": f"job{step}", "hold": chance.random() < 0.1}
            if chance.random() < 0.3:
                changes["indices"] = "1-4"
            if chance.random() < 0.5:
                changes["res_req"] = "rusage[ngpus_excl_p=1]"
            world._take(world.engine.handle(Submit("ann", "", (msgspec.structs.replace(spec, **changes),)), world.now))
        elif what < 0.65:
            world.end_one(chance)
        elif what < 0.8 and (known := sorted({*world.engine.state.jobs, *world.engine.state.arrays})):
            kind = chance.choice((StopJobs, ResumeJobs, KillJobs, RequeueJobs))
            command: JobCommand = kind("ann", False, (chance.choice(known),))
            if isinstance(command, RequeueJobs):
                command = msgspec.structs.replace(command, states=("RUN", "DONE", "EXIT"))
            world._take(world.engine.handle(command, world.now))
        world.go_on(chance.choice((0.0, 0.4, 1.0, 37.3)))


@pytest.fixture(
    scope="module",
    params=[*range(DAY), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(DAY, NIGHTS))],
)
def store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[tuple[History, float]]:
    """It is only read."""
    log = EventLog(tmp_path_factory.mktemp("store") / "store.db")
    world = Stored(log)
    play(world, random.Random(request.param))
    history = History(log.place)
    yield history, world.now + 5.0
    history.close()
    log.close()


def test_times_tell_what_events_tell(store: tuple[History, float]) -> None:
    history, now = store
    everything = HistoryQuery(jobs=JobFilter(user="ann", finished=True))
    at_length = [each for page in Histories(history, 10_000).read(everything) for each in page]
    query = msgspec.structs.replace(everything, brief=True)
    brief = [each for page in Histories(history, 10_000).read(query) for each in page]
    assert [each.job_id for each in brief] == [each.job_id for each in at_length]
    kinds = {type(each) for each in brief}
    assert kinds == {JobTimes, JobHistory}, "both occur"
    for short, long in zip(brief, at_length, strict=True):
        assert isinstance(long, JobHistory)
        for wide in (False, True):
            told = summary_row(history_record(long), now, wide=wide)
            shown = summary_row(short if isinstance(short, JobTimes) else history_record(short), now, wide=wide)
            assert shown == told, show_job(short.job_id)


def test_rows_cost_what_events_tell(store: tuple[History, float]) -> None:
    history, _ = store
    everything = AccountFilter(users=("ann",))
    at_length = {each.job_id: each for each in read_accounts(history, everything, jobs=False)}
    brief = {each.job_id: each for page in read_costs(history, everything) for each in page}
    assert brief.keys() == at_length.keys() and brief
    assert any(not each.user for each in brief.values()) and any(each.user for each in brief.values()), "both occur"
    for job_id, each in brief.items():
        told = at_length[job_id]
        names = {"user": "ann", "queue": "normal", "project": told.project, "name": told.name}
        assert msgspec.structs.replace(each, **names) == told, show_job(job_id)
