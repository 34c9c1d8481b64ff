"""What a store lets go because an archive has it: what the archive has whole, below the floor, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from filled_store import Filled, at_day, filled_with_a_week
from store_samples import job_row, noted, submitted
from stores import StoreAtHand

from gsched.base.ids import element_id
from gsched.model.event import JobForgotten
from gsched.store.backends.reading import reading
from gsched.store.tables.floor import numbers_given_out
from gsched.store.tables.schema import ARRAY

ALL = [1, 2, 3, 4, 5, 6, 7]
EVENTS = 3
"""Of each job."""
ARRAY_ID = 20
FIRST, SECOND = element_id(ARRAY_ID, 1), element_id(ARRAY_ID, 2)


@pytest.fixture
def filled(store: StoreAtHand, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("gsched.store.checkpoint_retention.APART", 1)
    made = filled_with_a_week(store)
    yield made
    made.log.close()


def remove(filled: Filled, *numbers: int, until: float = 100.0, last_event: int | None = None) -> int:
    archived = dict.fromkeys(numbers, EVENTS)
    last = filled.log.last_seq if last_event is None else last_event
    return filled.log.removal.remove_archived_jobs(archived, at_day(until), last).gone


def raise_floor(filled: Filled, above: int) -> int:
    return filled.log.removal.raise_floor(filled.log.removal.floors_above(above)[0]).seq


def test_nothing_goes_without_a_floor(filled: Filled) -> None:
    assert remove(filled, 1, 2) == 0
    assert filled.numbers("job") == filled.numbers("event") == ALL


def test_the_floor_rises_no_further_than_it_must(filled: Filled) -> None:
    newest = filled.log.newest_checkpoint()
    assert filled.log.removal.floors_above(11) == [12, 16, 20, 24], "the newest never is it"
    assert newest == 28 and filled.log.removal.floors_above(newest - 1) == []
    assert raise_floor(filled, 11) == 12


def test_what_the_archive_has_goes_and_nothing_else(filled: Filled) -> None:
    raise_floor(filled, 15)
    assert remove(filled, 1, 2) == 2
    assert filled.numbers("job") == filled.numbers("event") == [3, 4, 5, 6, 7]
    floor = filled.log.removal.floor()
    assert (floor.seq, floor.jobs_from, floor.events_from) == (16, at_day(2), at_day(2))
    assert remove(filled, 1, 2, 3) == 3, "what is gone is gone"
    assert filled.numbers("job") == [4, 5, 6, 7]
    assert remove(filled, 4, 5, until=4.0) == 0, "they ended later"
    assert remove(filled, 4, 5) == 1, "the other one is above the floor"
    with reading(filled.log._backend) as connection:
        assert numbers_given_out(connection) == 5


def test_a_job_that_has_changed_since_stays(filled: Filled) -> None:
    last_event = filled.log.last_seq
    filled.log.append([noted(2, "late", at_day(7.6))])
    filled.move_on(8, 9)
    raise_floor(filled, filled.log.last_seq - 2)
    assert remove(filled, 1, 2, 3, last_event=last_event) == 2
    assert filled.numbers("job") == [2, 4, 5, 6, 7]
    assert filled.log.removal.remove_archived_jobs({2: EVENTS}, at_day(100), filled.log.last_seq).gone == 0
    assert filled.log.removal.remove_archived_jobs({2: EVENTS + 1}, at_day(100), filled.log.last_seq).gone == 1


def test_a_job_that_has_lost_its_events_goes(filled: Filled) -> None:
    raise_floor(filled, 15)
    filled.remove(3, keep_rows=True)
    assert filled.numbers("event") == [3, 4, 5, 6, 7]
    assert remove(filled, 1, 2) == 2
    assert filled.numbers("job") == [3, 4, 5, 6, 7]


def test_a_job_that_is_not_over_or_not_forgotten_stays(filled: Filled) -> None:
    filled.live(8, 7.6, forgotten=False)
    filled.log.append([submitted(9, at_day(7.6)), noted(9), noted(9)], [job_row(9, submitted_at=at_day(7.6))])
    filled.move_on(8, 9)
    raise_floor(filled, filled.log.last_seq - 2)
    assert filled.log.removal.remove_archived_jobs({8: 2, 9: 3, 7: 3}, at_day(100), filled.log.last_seq).gone == 1
    assert filled.numbers("job") == [1, 2, 3, 4, 5, 6, 8, 9]


def add_array(filled: Filled) -> dict[int, int]:
    """With two elements that ran. Returns what an archive has of it, elements first."""
    begun, ended = at_day(7.6), at_day(7.7)
    traits = {"submitted_at": begun, "finished_at": ended}
    rows = [job_row(number, state="DONE", **traits) for number in (FIRST, SECOND)]
    filled.log.append(
        [submitted(ARRAY_ID, begun), noted(FIRST), noted(SECOND), JobForgotten(at=ended, job_id=ARRAY_ID)],
        [*rows, job_row(ARRAY_ID, state="", traits=ARRAY, **traits)],
    )
    return {FIRST: 1, SECOND: 1, ARRAY_ID: 2}


@pytest.mark.parametrize("at_once", [1, 3])
def test_an_array_goes_with_its_elements(filled: Filled, at_once: int) -> None:
    archived = list(add_array(filled).items())
    last_event = filled.log.last_seq
    filled.move_on(8, 9)
    raise_floor(filled, last_event)
    slices = [dict(archived[start : start + at_once]) for start in range(0, 3, at_once)]
    gone = [filled.log.removal.remove_archived_jobs(some, at_day(8), last_event).gone for some in slices]
    assert gone == [at_once] * len(slices)
    assert filled.numbers("job") == filled.numbers("event") == ALL


@pytest.mark.parametrize("changed", [FIRST, ARRAY_ID])
def test_an_array_stays_with_what_has_changed(filled: Filled, changed: int) -> None:
    archived = add_array(filled)
    last_event = filled.log.last_seq
    filled.log.append([noted(changed, "late", at_day(7.9))])
    filled.move_on(8, 9)
    raise_floor(filled, last_event + 1)
    gone = filled.log.removal.remove_archived_jobs(archived, at_day(8), last_event).gone
    left = [ARRAY_ID, FIRST] if changed == FIRST else [ARRAY_ID, FIRST, SECOND]
    assert filled.numbers("job")[-len(left) :] == filled.numbers("event")[-len(left) :] == left
    assert gone == 3 - len(left)


def test_a_slice_is_bounded_by_events(filled: Filled) -> None:
    raise_floor(filled, 20)
    remove = filled.log.removal.remove_archived_jobs
    archived = dict.fromkeys((1, 2, 3), EVENTS)
    assert remove(archived, at_day(100), 20, 2 * EVENTS) == (2, True)
    assert remove(archived, at_day(100), 20, 2 * EVENTS) == (3, False)
    assert remove({4: EVENTS}, at_day(100), 20, EVENTS - 1) == (0, True), "some of its events have gone"
    assert remove({4: EVENTS}, at_day(100), 20, EVENTS - 1) == (1, False)
    assert filled.numbers("job") == filled.numbers("event") == [5, 6, 7]
