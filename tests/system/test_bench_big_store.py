"""The bench of big stores: its past is one that a master could have had, and its last line is JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gsched.base.ids import element_id
from gsched.core.audit import audit
from gsched.core.state.cluster_state import ClusterState
from gsched.master.past.history_rows import array_row, irregular_jobs, job_row
from gsched.model.event import JobForgotten
from gsched.store.tables.schema import ARRAY, IRREGULAR, JobRow
from tests.support.postgresql_server import NoServer, programs

BENCH = Path(__file__).resolve().parents[2] / "bench"
JOBS = 1_000


def test_events_fit_and_rows_are_those_of_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from finished_jobs import Contents, FinishedJobs  # a script's neighbour

    past = FinishedJobs(JOBS, 7, 1_790_000_000.0, Contents(["e"], ["s"]))
    state, rows, irregular, last = ClusterState(), dict[int, JobRow](), set[int](), 0.0
    for event in past.events():
        assert event.at >= last
        last = event.at
        irregular |= irregular_jobs([event])
        if isinstance(event, JobForgotten):
            number = event.job_id
            array = state.arrays.get(number)
            numbers = [element_id(number, index) for index in array.indices] if array is not None else [number]
            rows |= {each: job_row(state.jobs[each], IRREGULAR if each in irregular else 0) for each in numbers}
            if array is not None:
                rows[number] = array_row(array, ARRAY)
        state.apply(event)
    assert audit(state) == [] and not state.jobs and state.next_job_id == past.next_id
    assert {row.job_id: row for row in past.rows} == rows
    assert sum(row.traits != ARRAY for row in past.rows) == JOBS
    assert any(row.traits == IRREGULAR for row in past.rows)
    assert msgspec.json.encode(past.rows)  # as PostgreSQL gets them


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_figures_of_a_small_store(kind: str) -> None:
    if kind == "postgresql":
        try:
            programs()
        except NoServer as problem:
            pytest.skip(str(problem))
    command = [sys.executable, str(BENCH / "big_store.py"), "--jobs", str(JOBS), "--rounds", "1", "--stores", kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert "events, all is well" in done.stdout
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["bench"] == "big_store"
    figures = last["figures"]
    assert figures["jobs"] == JOBS and figures[f"{kind}_events"] > 3 * JOBS
    for name in ("start_s", "restart_s", "empty_restart_s", "ghist_user_day_s", "gacct_user_day_s"):
        assert figures[f"{kind}_{name}"] > 0
    assert figures[f"{kind}_ghist_user_day_lines"] > 3
    for name in ("start", "singles", "bulk"):
        assert figures[f"{kind}_{name}_ratio"] > 0
