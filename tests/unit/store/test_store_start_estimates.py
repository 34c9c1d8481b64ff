"""What was said of starts is kept beside the events, comes back as it was, and old stores have none."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_samples import job_row, submitted
from stores import StoreAtHand

from gsched.base.ids import element_id
from gsched.master.past.known_starts import known_starts
from gsched.model.views.start_estimate import StartEstimate
from gsched.policy.future.past_waits import PastStart
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import WITH_ESTIMATES, History
from gsched.store.tables import migrations, schema

FIRST = StartEstimate(job_id=1, at=1001.0, p50_at=1500.0, p90_at=1900.0, mean_at=1600.0)
PLANNED = StartEstimate(job_id=1, at=1060.0, p50_at=1400.0, plan_at=1550.0, limit_at=1550.0)
MOVED = StartEstimate(job_id=1, at=2000.0, plan_at=9000.0)


def test_an_estimate_has_its_values_in_the_order_of_the_columns() -> None:
    assert list(StartEstimate.__struct_fields__) == list(schema.start_estimate.c.keys())


def test_what_was_said_first_is_what_counts(log: EventLog) -> None:
    log.append([submitted(1)], [job_row(1)], estimates=[FIRST])
    log.add_hosts([], [PLANNED, MOVED])
    log.add_hosts([], [FIRST])  # given once more: a commit may have an unknown outcome
    history = History(log.place)
    assert history.told_of([1, 2]) == {
        1: StartEstimate(
            job_id=1, at=1001.0, p50_at=1500.0, p90_at=1900.0, mean_at=1600.0, plan_at=1550.0, limit_at=1550.0
        )
    }
    history.close()


def test_a_store_that_was_not_brought_up_to_date_has_said_nothing(
    store: StoreAtHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gsched sim --history` reads it as it is."""
    with monkeypatch.context() as past:
        past.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[: WITH_ESTIMATES - 1])
        past.setattr(EventLog, "_newest_dictionaries", lambda _: ([], 0))  # there was no such table
        old = store.open()
        old.append([submitted(1)], [job_row(1, dispatched_at=1300.0, gpus=2.0)])
        old.close()
    history = store.history()
    assert history.told_of([1]) == {}
    assert history.newest_starts(10) == [(1, "ann", "normal", 2.0, 1000.0, 1300.0)]
    history.close()


def test_what_a_new_master_knows_of_waits(log: EventLog) -> None:
    element = element_id(5, 3)
    rows = [
        job_row(1, dispatched_at=1300.0, gpus=2.0),
        job_row(2, dispatched_at=1400.0, traits=schema.IRREGULAR),
        job_row(3, submitted_at=2100.0, dispatched_at=2400.0),
        job_row(4, submitted_at=2100.0, dispatched_at=2500.0),
        job_row(element, submitted_at=2100.0, dispatched_at=2600.0, gpus=1.0),
        job_row(6),
    ]
    log.append([submitted(1)], rows)
    since = StartEstimate(job_id=4, at=2000.0)
    log.add_hosts([], [since, StartEstimate(job_id=5, at=2101.0)])
    assert known_starts(log.place) == [
        PastStart("ann", "normal", 1.0, 2100.0, 2600.0),
        PastStart("ann", "normal", 0.0, 2100.0, 2500.0),
        PastStart("ann", "normal", 2.0, 1000.0, 1300.0),
    ], "job 2 was held, job 3 waited for something else; job 1 is of before such things were kept"


def test_a_store_that_cannot_be_read_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert known_starts(tmp_path / "none.db") == []
    assert "how long jobs have waited is not known" in caplog.text
