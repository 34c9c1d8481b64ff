"""A store of before there were marks, generations and rows with costs is read as if it were today's.

`stores/format2.db.gz` is the database of a private cluster with store format 2, after `gsched down` with five attempts
running: jobs that are done, failed, killed, requeued, running, suspended, held, waiting for a time and for others;
three arrays, a job group, a reservation, messages, a closed queue and a closed host.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gsched.core.state.cluster_state import ClusterState
from gsched.master.past.finished_accounts import read_accounts, read_costs
from gsched.master.past.job_histories import Histories
from gsched.master.recovery import recover
from gsched.model.jobs.job import JobState
from gsched.model.views.catalogue import AccountFilter
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History

KEPT = Path(__file__).parent / "stores" / "format2.db.gz"
EVENTS = 69
ELEMENT = 1 << 32


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    path = tmp_path / "gsched.db"
    path.write_bytes(gzip.decompress(KEPT.read_bytes()))
    return path


def recovered(path: Path) -> ClusterState:
    log = EventLog(path)
    try:
        assert log.last_seq == EVENTS
        return recover(log)
    finally:
        log.close()


def in_state(state: ClusterState, wanted: JobState) -> set[int]:
    return {job.job_id for job in state.jobs.values() if job.state is wanted}


def test_its_checkpoint_holds_every_job(old_store: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = recovered(old_store)
    assert in_state(state, JobState.DONE) == {1, ELEMENT + 10}
    assert in_state(state, JobState.EXIT) == {2, 12, 9 * ELEMENT + 8, 2 * ELEMENT + 10}
    assert in_state(state, JobState.RUN) == {3, 11, ELEMENT + 8, 2 * ELEMENT + 8}
    assert in_state(state, JobState.USUSP) == {5}
    assert in_state(state, JobState.PSUSP) == {6, 7 * ELEMENT + 8}
    assert in_state(state, JobState.PEND) == {4, 7}
    waiting = {array.array_id: list(array.waiting()) for array in state.arrays.values()}
    assert waiting == {8: [3, 4, 5, 6, 8, 10], 9: [1, 3, 5], 10: []}
    assert state.next_job_id == 13
    assert (state.jobs[2].result.exit_code, state.jobs[11].attempt) == (3, 2)  # type: ignore[union-attr]
    allocation = state.jobs[3].allocation
    assert allocation is not None
    assert [len(part.gpus) for part in allocation.hosts] == [2]
    assert state.closed_hosts == {"gpu01": ("ann", "being mended")}
    assert not state.queue_states["night"].is_open
    assert state.groups["/group"].job_limit == 1
    assert list(state.reservations) == ["maintenance"]
    assert not state.quarantined
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_its_events_add_up_to_the_same(old_store: Path) -> None:
    by_checkpoint = recovered(old_store)
    with closing(sqlite3.connect(old_store)) as database, database:
        database.execute("delete from checkpoint")
    by_events = ClusterState.load(recovered(old_store).dump())
    assert comparable(by_events) == comparable(by_checkpoint)


def comparable(state: ClusterState) -> object:
    """What a checkpoint would say of the state, whatever the order of jobs."""
    held = json.loads(state.dump())
    for reservation in held["reservations"].values():
        reservation.pop("owner")  # that old checkpoint does not say who made it
    held["jobs"] = sorted(
        [number, held["specs"][spec], *rest[:2], held["tokens"][rest[2]], *rest[3:]]
        for number, spec, *rest in held["jobs"]
    )
    del held["specs"], held["tokens"]
    del held["run_times"]  # its checkpoint is older than they are
    return held


@pytest.mark.parametrize("brief", [True, False])
def test_its_history_is_complete(old_store: Path, *, brief: bool) -> None:
    recovered(old_store)
    history = History(old_store)
    try:
        asked = HistoryQuery(jobs=JobFilter(user="ann", finished=True), brief=brief)
        told = {each.job_id: each for page in Histories(history, 1000).read(asked) for each in page}
        assert sorted(told) == sorted(
            [*range(1, 10), 11, 12, *(index * ELEMENT + 8 for index in (1, 2, 7, 9)), ELEMENT + 10, 2 * ELEMENT + 10]
        )
        by_group = HistoryQuery(jobs=JobFilter(user="ann", finished=True, group="/group"))
        assert [each.job_id for page in Histories(history, 1000).read(by_group) for each in page] == [3, 4]
    finally:
        history.close()


def test_its_finished_jobs_are_accounted_for(old_store: Path) -> None:
    recovered(old_store)
    history = History(old_store)
    ended = [1, 2, 12, ELEMENT + 10, 2 * ELEMENT + 10, 9 * ELEMENT + 8]
    try:
        whole = {each.job_id: each for each in read_accounts(history, AccountFilter(), jobs=True)}
        costs = {each.job_id: each for page in read_costs(history, AccountFilter()) for each in page}
        assert sorted(whole) == sorted(costs) == ended
        assert [costs[number].cpu_s for number in ended] == [whole[number].cpu_s for number in ended]
        assert costs[12].cpu_s >= 0
    finally:
        history.close()
