"""What is told of a job when its events have gone goes, too, and keeps neither the job nor others in the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from filled_store import Filled, at_day, filled_with_a_week
from store_samples import job_row, noted, submitted
from stores import StoreAtHand

from gsched.base.ids import element_id
from gsched.model.event import JobForgotten, JobNoticeSettled
from gsched.store.tables.schema import ARRAY


@pytest.fixture
def filled(store: StoreAtHand, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    monkeypatch.setattr("gsched.store.checkpoint_retention.APART", 1)
    made = filled_with_a_week(store)
    yield made
    made.log.close()


def settled(number: int, day: float) -> JobNoticeSettled:
    return JobNoticeSettled(at=at_day(day), job_id=number, notice_id=f"n{number}", event="end", way="mail")


def raise_floor(filled: Filled, day: float) -> None:
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(day)) or 0)


def left_over(filled: Filled, most: int = 3) -> int:
    count, are_more = 0, True
    while are_more:
        removed, are_more = filled.log.removal.remove_left_over(most)
        count += removed
    return count


@pytest.mark.parametrize("keep_rows", [False, True])
def test_what_is_told_of_a_job_that_has_gone_goes_at_its_own_age(filled: Filled, keep_rows: bool) -> None:
    raise_floor(filled, 4.6)
    assert filled.remove(3.0, keep_rows=keep_rows) == 2
    filled.log.append([settled(1, 7.6), settled(5, 7.6)])
    assert left_over(filled) == 0, "it is above the floor"
    filled.move_on(8, 9)
    raise_floor(filled, 8.1)
    assert left_over(filled) == 0 and filled.numbers("event")[0] == 1, "jobs that ended then are kept"
    filled.live(8, 9.1)
    filled.move_on(10, 11)
    raise_floor(filled, 10.1)
    assert filled.remove(9.5, keep_rows=keep_rows) + left_over(filled) == 7, "the fifth with what was told late"
    assert filled.numbers("event") == []
    assert left_over(filled) == 0 and not filled.log.removal.may_be_left_over()


def test_it_does_not_keep_the_row_of_its_job(filled: Filled) -> None:
    raise_floor(filled, 4.6)
    assert filled.remove(3.0, keep_rows=True) == 2
    filled.log.append([settled(1, 7.6)])
    filled.move_on(8, 9)
    raise_floor(filled, 8.1)
    assert filled.remove(3.0) == 2
    assert filled.numbers("job") == filled.numbers("event") == [3, 4, 5, 6, 7]


def test_what_jobs_have_that_are_not_over_stays(filled: Filled) -> None:
    array, element = 20, element_id(20, 1)
    filled.log.append([submitted(8, at_day(0)), submitted(array, at_day(0)), settled(30, 0)])
    filled.log.append([settled(8, 0), settled(array, 0), settled(element, 0)])
    filled.log.append([settled(40, 0)], [job_row(40, state="RUN"), job_row(array, state="", traits=ARRAY)])
    filled.move_on(8, 9)
    raise_floor(filled, 8.1)
    filled.remove(3.0)
    assert left_over(filled) == 1
    assert filled.numbers("event") == [3, 4, 5, 6, 7, 8, 20, 40, element], "the row of a job tells that it is not over"


def test_a_job_of_which_some_events_have_gone_is_known(filled: Filled) -> None:
    filled.log.append([noted(2, f"remark {number}", at_day(2)) for number in range(20)])
    filled.log.append([JobForgotten(at=at_day(2), job_id=2)])
    filled.move_on(8, 9)
    raise_floor(filled, 8.1)
    halves = "SELECT value FROM meta WHERE key = 'half_removed_jobs'"
    first = filled.log.removal.remove_finished_jobs(0.0, at_day(4), 10, most_events=5)
    assert first.jobs == 1 and filled.store.rows(halves) == []
    filled.log.removal.remove_finished_jobs(0.0, at_day(4), 10, most_events=5, after=first.last or first.first_kept)
    assert filled.store.rows(halves) == [("2",)]
    assert filled.remove(4, most_events=100) == 2
    assert filled.store.rows(halves) == [("",)]
