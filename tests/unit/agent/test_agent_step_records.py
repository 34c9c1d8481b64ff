"""Steps on record: found again by an agent that restarts, told with what the attempt uses, bounded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gsched.agent.tasks import step_records
from gsched.agent.tasks.step_records import StepEnd, StepRecords
from gsched.model.jobs.step_facts import MOST_PACKED_STEPS, StepFacts, unpack_steps
from gsched.model.jobs.step_layout import StepPlan, TaskPlace

KEY = (7, 1)
PLAN = StepPlan((TaskPlace("n1", 0, 0), TaskPlace("n2", 1, 0)), {"n1": 1, "n2": 1}, {"n1": (0,)})


def records(folder: Path) -> StepRecords:
    return StepRecords(lambda key: folder)


def told(known: StepRecords) -> tuple[StepFacts, ...]:
    return unpack_steps(known.packed(KEY, MOST_PACKED_STEPS))


def test_a_step_is_told_while_it_runs_and_with_its_end(tmp_path: Path) -> None:
    known, heard = records(tmp_path), []
    known.changed = heard.append
    assert known.packed(KEY, MOST_PACKED_STEPS) == b""
    known.add(KEY, "aa", "train", PLAN)
    (step,) = told(known)
    assert (step.number, step.name, step.tasks, step.nodes, step.node_count) == (0, "train", 2, "n[1-2]", 2)
    assert (step.cpus, step.gpus, step.ended_at) == (2, 1, None)
    known.note_end(KEY, "aa", StepEnd(code=3, max_rss_mib=1.5, cpu_s=0.5))
    (step,) = told(known)
    assert (step.code, step.max_rss_mib, step.cpu_s) == (3, 1.5, 0.5) and step.ended_at is not None
    known.note_end(KEY, "aa", StepEnd(code=9))  # its end is told once
    assert told(known) == (step,) and heard == [KEY, KEY]


def test_what_a_step_that_runs_has_used_is_told_and_gives_way_to_what_it_had_in_the_end(tmp_path: Path) -> None:
    known = records(tmp_path)
    known.add(KEY, "aa", "one", PLAN)
    known.add(KEY, "bb", "two", PLAN)
    known.note_use(KEY, "aa", StepEnd(code=3, max_rss_mib=7.0, cpu_s=2.5))
    first, second = told(known)
    assert (first.max_rss_mib, first.cpu_s, first.code, first.ended_at) == (7.0, 2.5, 0, None)
    assert (second.max_rss_mib, second.cpu_s) == (None, None)
    known.note_end(KEY, "aa", StepEnd(max_rss_mib=1.5, cpu_s=0.5))
    known.note_use(KEY, "aa", StepEnd(max_rss_mib=9.0, cpu_s=9.0))  # an answer that came late
    assert [(each.max_rss_mib, each.cpu_s) for each in told(known)] == [(1.5, 0.5), (None, None)]


def test_an_agent_that_restarts_finds_them(tmp_path: Path) -> None:
    before = records(tmp_path)
    before.add(KEY, "aa", "one", PLAN)
    before.note_end(KEY, "aa", StepEnd(signal=9))
    before.add(KEY, "bb", "two", PLAN)
    after = records(tmp_path)
    assert told(after) == told(before)
    found = after.find(KEY, "bb")
    assert found is not None and found.plan == PLAN
    assert after.add(KEY, "cc", "three", PLAN).number == 2
    (tmp_path / step_records.STEPS / "1").write_bytes(b"torn")
    assert [step.number for step in told(records(tmp_path))] == [0, 2]


def test_records_of_an_agent_of_before_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / step_records.STEPS
    folder.mkdir()
    plan = b'{"places":[],"slots":{},"gpus":{}}'
    (folder / "4").write_bytes(b'{"number":4,"key":"aa","name":"x","began_at":1.0,"code":3,"plan":%s}' % plan)
    known = records(tmp_path)
    assert told(known) == () and known.find(KEY, "aa") is not None
    assert known.add(KEY, "bb", "x", PLAN).number == 5


def test_the_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_records, "MOST_RECORDS", 3)
    known = records(tmp_path)
    for number in range(6):
        known.add(KEY, f"k{number}", "x", PLAN)
        if number != 1:
            known.note_end(KEY, f"k{number}", StepEnd())
    assert sorted(os.listdir(tmp_path / step_records.STEPS)) == ["1", "4", "5"], "one that runs is kept"
    assert [step.number for step in told(known)] == [1, 4, 5]


def test_of_many_tasks_the_places_are_let_go(tmp_path: Path) -> None:
    known = records(tmp_path)
    places = tuple(TaskPlace("n1", 0, local) for local in range(100))
    known.add(KEY, "aa", "x", StepPlan(places, {"n1": 1}, {}))
    known.note_end(KEY, "aa", StepEnd())
    known.let_go(KEY, "aa")
    found = known.find(KEY, "aa")
    assert found is not None and found.plan.places == () and told(known)[0].tasks == 100


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    known = records(tmp_path)
    known.add(KEY, "aa", "x", PLAN)
    shutil.rmtree(tmp_path / step_records.STEPS)
    known.note_end(KEY, "aa", StepEnd())
    known.forget(KEY)
    assert told(known) == ()


def test_that_there_are_none_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All running attempts are asked for theirs with each sample of what they use."""
    known, looks = records(tmp_path), list[object]()
    listdir = os.listdir
    monkeypatch.setattr(step_records.os, "listdir", lambda folder: looks.append(folder) or listdir(folder))
    for _ in range(3):
        assert told(known) == ()
    assert len(looks) == 1
