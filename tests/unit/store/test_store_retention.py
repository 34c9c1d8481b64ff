"""What a store lets go: finished jobs that the engine has forgotten, below a floor that is kept with each deletion."""

from __future__ import annotations

from datetime import UTC
from types import SimpleNamespace
from typing import Any

import pytest
from filled_store import DAY_S, Filled, at_day, filled_with_a_week
from store_samples import SPEC, job_row, noted, submitted
from stores import StoreAtHand

from gsched.app.stores.kept_history import KeptHistory
from gsched.app.stores.store_checks import check_store
from gsched.base.errors import BadRequest, Conflict, Unavailable
from gsched.base.ids import element_id
from gsched.master.past.past_boards import PastBoards
from gsched.master.recovery import recover
from gsched.model.config import Params
from gsched.model.event import ConfigApplied, HostClosed, JobForgotten, PastJobRecorded
from gsched.sim.history.decision_replay import replay_decisions
from gsched.sim.history.recorded_history import read_history
from gsched.store.backends.reading import reading
from gsched.store.mark import known_on_this_machine
from gsched.store.past_queries import PastStore
from gsched.store.retention.removable_jobs import FIRST
from gsched.store.safeguards.failure import StoreDamaged
from gsched.store.tables.floor import numbers_given_out
from gsched.store.tables.schema import ARRAY


@pytest.fixture
def filled(store: StoreAtHand, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("gsched.store.checkpoint_retention.APART", 1)
    made = filled_with_a_week(store)
    yield made
    made.log.close()


def damage_told(store: StoreAtHand) -> list[str]:
    lines: list[str] = []
    state_dir, spools = str(store.folder), str(store.folder / "spools")
    config: Any = SimpleNamespace(
        locations=SimpleNamespace(store_place=store.place, state_dir=state_dir, spool_dir=spools)
    )
    check_store(config, lines.append)
    return [line for line in lines if "does not fit" not in line]


def test_nothing_goes_without_a_floor(filled: Filled) -> None:
    assert filled.remove(8) == 0
    assert filled.numbers("event") == filled.numbers("job") == [1, 2, 3, 4, 5, 6, 7]


def test_jobs_below_the_floor_go_with_rows_and_events(filled: Filled) -> None:
    seq = filled.log.removal.next_floor(at_day(4.6))
    assert seq == 16
    floor = filled.log.removal.raise_floor(seq)
    assert (floor.seq, floor.at) == (16, at_day(4.5))
    assert filled.store.rows("SELECT min(seq) FROM checkpoint") == [(16,)]
    assert filled.remove(3.0) == 2
    assert filled.numbers("event") == filled.numbers("job") == [3, 4, 5, 6, 7]
    assert filled.remove(100.0) == 2, "those above the floor stay"
    assert filled.numbers("event") == filled.numbers("job") == [5, 6, 7]
    assert filled.log.removal.floor().jobs_from >= at_day(4)
    assert filled.log.removal.next_floor(at_day(4.6)) is None
    assert [line for line in damage_told(filled.store) if "missing" in line or "no row" in line] == []


def test_the_newest_checkpoint_never_becomes_the_floor(filled: Filled) -> None:
    newest = filled.log.newest_checkpoint()
    seq = filled.log.removal.next_floor(at_day(100))
    assert seq is not None and seq < newest
    with pytest.raises(Conflict, match="no checkpoint that could be"):
        filled.log.removal.raise_floor(newest)
    with pytest.raises(Conflict, match="no checkpoint that could be"):
        filled.log.removal.raise_floor(seq + 1)


def test_a_damaged_checkpoint_never_becomes_the_floor(filled: Filled) -> None:
    assert all(filled.log.removal.looked_through(16))
    filled.store.damage("UPDATE checkpoint SET crc = 1 WHERE seq = 16")
    assert list(filled.log.removal.looked_through(16)) == [False]


@pytest.mark.parametrize("keep_rows", [False, True])
def test_no_slice_has_more_events_than_it_may(filled: Filled, keep_rows: bool) -> None:
    filled.log.append([noted(2, f"remark {number}", at_day(2)) for number in range(95)])
    filled.log.append([JobForgotten(at=at_day(2), job_id=2), noted(2, "a late result", at_day(2))])
    filled.move_on(8, 9)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(8)) or 0)
    slices, after = [], FIRST
    while True:
        found = filled.log.removal.remove_finished_jobs(
            0.0, at_day(4), 10, after=after, keep_rows=keep_rows, most_events=20
        )
        if found.last is None:
            break
        after = found.last
        slices.append((found.jobs, found.events))
        if found.events == 20 and not found.jobs:
            assert filled.store.rows("SELECT min(kind) FROM event WHERE job_id = 2") == [("job_forgotten",)]
            assert filled.store.rows("SELECT count(*) FROM event WHERE job_id = 2 AND kind = 'job_submitted'") == [(1,)]
            assert filled.log.removal.floor().events_from >= at_day(2)
    assert max(events for _, events in slices) <= 20 < sum(events for _, events in slices)
    assert sum(jobs for jobs, _ in slices) == 3
    assert filled.numbers("event") == [4, 5, 6, 7]
    assert damage_told(filled.store)[:-1] == []


def test_a_job_that_is_not_forgotten_stays(filled: Filled) -> None:
    filled.live(8, 7.6, forgotten=False)
    filled.live(9, 7.7)
    filled.move_on(8, 9)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(8)) or 0)
    assert filled.remove(100) == 8
    assert filled.numbers("event") == filled.numbers("job") == [8]


def test_events_of_no_job_go_by_their_size(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.store.retention.removal.MOST_BYTES", 1)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(4.6)) or 0)
    counts = []
    while removed := filled.log.removal.remove_other_events(at_day(3.5), 100):
        counts.append(removed)
    assert counts == [1, 1, 1]


def test_jobs_of_another_batch_system_go_as_those_that_are_forgotten(filled: Filled) -> None:
    array, element = 20, element_id(20, 1)
    past = [
        PastJobRecorded(
            at=at_day(7.6),
            job_id=number,
            cluster="hpc",
            spec=SPEC,
            state="DONE",
            submitted_at=at_day(0),
            finished_at=at_day(0.5),
        )
        for number in (8, array, element)
    ]
    filled.log.append(past, [job_row(each.job_id, state=each.state, finished_at=each.finished_at) for each in past])
    filled.move_on(8, 9)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(8)) or 0)
    assert filled.remove(1) == 3
    assert filled.numbers("event") == filled.numbers("job") == [1, 2, 3, 4, 5, 6, 7]


def test_a_job_with_an_event_above_the_floor_stays(filled: Filled) -> None:
    filled.log.append([noted(2, "a late result", at_day(7.6))])
    filled.move_on(8, 9)
    filled.log.removal.raise_floor(16)
    filled.remove(100)
    assert filled.numbers("event") == [2, 5, 6, 7]


def test_an_element_goes_with_its_array(filled: Filled) -> None:
    array, elements = 20, [element_id(20, 1), element_id(20, 2)]
    rows = [job_row(element, state="DONE", finished_at=at_day(1)) for element in elements]
    begun = [submitted(array, at_day(0)), *(noted(element, at=at_day(1)) for element in elements)]
    filled.log.append(begun, [*rows, job_row(array, state="")])
    filled.move_on(8, 9)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(8)) or 0)
    filled.remove(3)
    assert filled.numbers("job")[-3:] == [20, *elements], "it is not over"
    over = job_row(array, state="", finished_at=at_day(9.5))
    filled.log.append([JobForgotten(at=at_day(9.6), job_id=array)], [over])
    filled.move_on(10, 11)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(10)) or 0)
    filled.remove(9)
    assert filled.numbers("job")[-3:] == [20, *elements], "it was over later"
    filled.remove(9.6, most=1)
    assert filled.numbers("job") == filled.numbers("event") == []


def array_that_is_over(filled: Filled) -> int:
    """With one element, of which a result comes late, above the first floor."""
    array, element = 20, element_id(20, 1)
    begun = [submitted(array, at_day(0)), noted(element, at=at_day(0.1)), JobForgotten(at=at_day(0.2), job_id=array)]
    traits = {"submitted_at": at_day(0), "finished_at": at_day(0.1)}
    rows = [job_row(element, state="DONE", **traits), job_row(array, state="", traits=ARRAY, **traits)]
    filled.log.append(begun, rows)
    filled.move_on(8)
    filled.log.append([noted(element, "a late result", at_day(8.5))])
    filled.move_on(9)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(8)) or 0)
    return element


@pytest.mark.parametrize("keep_rows", [False, True])
def test_an_array_stays_as_long_as_one_of_its_elements(filled: Filled, keep_rows: bool) -> None:
    element = array_that_is_over(filled)
    filled.remove(8, keep_rows=keep_rows)
    assert filled.numbers("event") == [20, element]
    filled.move_on(10, 11)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(10)) or 0)
    filled.remove(8, most=1, keep_rows=keep_rows)
    assert filled.numbers("event") == []


def test_an_element_whose_array_is_gone_goes_too(filled: Filled) -> None:
    element = array_that_is_over(filled)
    filled.store.damage("DELETE FROM event WHERE job_id = 20")
    filled.store.damage("DELETE FROM job WHERE job_id = 20")
    filled.remove(8)
    assert filled.numbers("event") == filled.numbers("job") == [element]
    filled.move_on(10, 11)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(10)) or 0)
    filled.remove(8)
    assert filled.numbers("event") == filled.numbers("job") == []


def test_a_look_needs_a_checkpoint_from_the_floor_on(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.log.append([ConfigApplied(at=at_day(1), digest="d", by="root", files="f")])
    filled.move_on(8)
    filled.log.removal.raise_floor(16)
    filled.store.damage("UPDATE checkpoint SET crc = 1 WHERE seq = 16")
    monkeypatch.setattr("gsched.store.past_queries.PastStore.hosts_since", lambda _: at_day(1))
    monkeypatch.setattr(PastBoards, "_config", lambda *_: None)
    history = filled.store.history()
    told = "the checkpoint that a look begins with is not there"
    with pytest.raises(Unavailable, match=told), PastBoards(history).at(at_day(4.6)):
        pass
    history.close()
    with pytest.raises(BadRequest, match="nothing can be decided again: all events are kept from 16 on"):
        replay_decisions(filled.store.place, at_day(4.6))


@pytest.mark.parametrize("while_reading", ["checkpoint_before", "events"])
def test_a_floor_that_rises_during_a_look_is_noticed(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, while_reading: str
) -> None:
    filled.log.append([ConfigApplied(at=at_day(1), digest="d", by="root", files="f")])
    read = getattr(PastStore, while_reading)

    def risen(*words: Any) -> Any:
        found = list(read(*words)) if while_reading == "events" else read(*words)
        if not filled.log.removal.floor().seq:
            filled.log.removal.raise_floor(16)
            filled.remove(100)
        return found

    monkeypatch.setattr(PastStore, while_reading, risen)
    monkeypatch.setattr(PastStore, "hosts_since", lambda _: at_day(1))
    monkeypatch.setattr(PastStore, "files_of", lambda *_: b"")
    monkeypatch.setattr("gsched.master.past.past_boards.config_of", lambda *_: None)
    history = filled.store.history()
    with pytest.raises(BadRequest, match="is before what is kept"), PastBoards(history).at(at_day(2)):
        pass
    history.close()


def test_events_may_go_before_rows_do(filled: Filled) -> None:
    filled.log.removal.raise_floor(16)
    assert filled.remove(100, keep_rows=True) == 4
    assert filled.numbers("event") == [5, 6, 7] and filled.numbers("job") == [1, 2, 3, 4, 5, 6, 7]
    config: Any = SimpleNamespace(locations=SimpleNamespace(store_place=filled.store.place), params=Params())
    lines: list[str] = []
    KeptHistory(config, lines.append).say_status(at_day(9), UTC)
    assert [line for line in lines if line.startswith("What happened")] and "Jobs that" not in "".join(lines)
    floor = filled.log.removal.floor()
    assert (floor.events_from, floor.jobs_from) == (pytest.approx(at_day(7), abs=4 * DAY_S), 0.0)
    assert filled.remove(100, keep_rows=True) == 0
    assert filled.remove(3) == 2
    assert filled.numbers("job") == [3, 4, 5, 6, 7]


def test_only_what_ended_within_the_time_goes(filled: Filled) -> None:
    filled.log.removal.raise_floor(16)
    removed = filled.log.removal.remove_finished_jobs(at_day(2), at_day(4), 10)
    assert (removed.jobs, removed.events) == (2, 6)
    assert filled.numbers("job") == [1, 4, 5, 6, 7]
    removed = filled.log.removal.remove_finished_jobs(0.0, at_day(100), 10, below=9)
    assert filled.numbers("job") == [4, 5, 6, 7]


def test_events_of_no_job_go_but_for_the_configuration_in_force(filled: Filled) -> None:
    configured = [ConfigApplied(at=at_day(7.6), digest=digest, by="root") for digest in ("old", "new")]
    filled.log.append([*configured, HostClosed(at=at_day(7.6), host="a", by="root")])
    filled.move_on(8, 9)
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(8)) or 0)
    assert filled.log.removal.remove_other_events(at_day(3.5), 100) == 3
    assert filled.log.removal.remove_other_events(at_day(100), 3) == 3
    while filled.log.removal.remove_other_events(at_day(100), 3):
        pass
    below = f"job_id IS NULL AND seq < {filled.log.removal.floor().seq}"
    assert filled.store.rows(f"SELECT kind FROM event WHERE {below}") == [("config_applied",)]


def test_a_hole_above_the_floor_is_damage_as_before(filled: Filled) -> None:
    filled.log.removal.raise_floor(16)
    filled.remove(100)
    filled.log.close()
    filled.store.damage("DELETE FROM event WHERE seq = 18")
    assert [line for line in damage_told(filled.store) if "missing" in line] == [
        "attention: record 18 is missing",
    ]


def test_numbers_of_removed_jobs_are_not_given_out_again(filled: Filled) -> None:
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(6.6)) or 0)
    filled.remove(100)
    with reading(filled.log._backend) as connection:
        assert numbers_given_out(connection) == 7
    assert not known_on_this_machine(filled.store.folder)


def test_no_master_begins_below_the_floor(filled: Filled) -> None:
    filled.log.removal.raise_floor(16)
    assert recover(filled.log).next_job_id >= 1
    filled.store.damage("UPDATE checkpoint SET crc = 1")
    with pytest.raises(StoreDamaged, match=r"no checkpoint .* can be used, and its events are kept from 16"):
        recover(filled.log)
    assert any("no master can begin with it" in line for line in damage_told(filled.store))


def test_looks_below_the_floor_are_refused_with_what_is_kept(filled: Filled) -> None:
    filled.log.append([ConfigApplied(at=at_day(7.6), digest="d", by="root", files="f")])
    filled.log.removal.raise_floor(16)
    told = r"is before what is kept: history is kept since .*an archive may have it"
    history = filled.store.history()
    with pytest.raises(BadRequest, match=told), PastBoards(history).at(at_day(1)):
        pass
    history.close()
    with pytest.raises(BadRequest, match=told):
        read_history(filled.store.place, at_day(1))


def test_decisions_below_the_floor_are_not_made_again(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.log.append([ConfigApplied(at=at_day(1), digest="d", by="root", files="f")])
    filled.log.removal.raise_floor(16)
    monkeypatch.setattr("gsched.store.past_queries.PastStore.hosts_since", lambda _: at_day(1))
    with pytest.raises(BadRequest, match="is before what is kept"):
        replay_decisions(filled.store.place, at_day(2))
