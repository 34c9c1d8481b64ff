"""Questions find what they ask for by an index, in a store of whatever size: no plan of SQLite's goes through a table.

Two kinds may go through all jobs, since no index can help: those that ask for nothing that is indexed (a host, an
exit), and searches through all of somebody's jobs for what a row does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from store_samples import job_row, submitted

from gsched.model.views.catalogue import AccountFilter, TimeSpan
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.past_queries import PastStore

DAY = TimeSpan(since=1_000_000.0, until=1_086_400.0)
MOST = 100
Ask = Callable[[History], object]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    log = EventLog(tmp_path / "gsched.db")
    log.append([submitted(1)], rows=[job_row(1)])
    history = History(log.place)
    yield history
    history.close()
    log.close()


def plans_of(history: History, ask: Ask, engine: Engine | None = None) -> list[str]:
    """How SQLite goes about each statement of a question that is asked on these connections."""
    engine = engine or history._engine
    plans: list[str] = []

    def explained(connection: object, cursor: object, statement: str, parameters: object, *_: object) -> None:
        if statement.startswith("SELECT"):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[attr-defined]
            plans.append("; ".join(str(step[-1]) for step in cursor.fetchall()))  # type: ignore[attr-defined]

    event.listen(engine, "before_cursor_execute", explained)
    try:
        ask(history)
    finally:
        event.remove(engine, "before_cursor_execute", explained)
    assert plans
    return plans


def histories(**wanted: object) -> Ask:
    return lambda history: history.newest(HistoryQuery(**wanted), MOST)  # type: ignore[arg-type]


def accounts(**wanted: object) -> Ask:
    return lambda history: history.accounted_costs(AccountFilter(**wanted))  # type: ignore[arg-type]


def jobs(**wanted: object) -> JobFilter:
    return JobFilter(finished=True, **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ask", "indexes"),
    [
        (histories(), ["job_open"]),
        (histories(jobs=jobs()), ["job_submitted"]),
        (histories(jobs=jobs(), submitted=DAY), ["job_submitted"]),
        (histories(jobs=jobs(), completed=DAY), ["job_finished"]),
        (histories(jobs=jobs(), dispatched=DAY), ["job_dispatched"]),
        (histories(jobs=jobs(), active=DAY), ["job_submitted", "job_finished", "job_open"]),
        (histories(jobs=jobs(user="ann")), ["job_user"]),
        (histories(jobs=jobs(user="ann"), submitted=DAY), ["job_user"]),
        (histories(jobs=jobs(user="ann"), completed=DAY), ["job_user_finished"]),
        (histories(jobs=jobs(user="ann"), active=DAY), ["job_user", "job_user_finished", "job_open"]),
        (histories(jobs=jobs(queue="normal")), ["job_queue"]),
        (histories(jobs=jobs(queue="normal"), submitted=DAY), ["job_queue"]),
        (histories(jobs=jobs(project="nlp"), completed=DAY), ["job_project"]),
        (histories(jobs=jobs(ids=(1, 2, 3))), ["INTEGER PRIMARY KEY"]),
        (accounts(completed=DAY), ["job_finished", "job_open"]),
        (accounts(users=("ann",), completed=DAY), ["job_user_finished", "job_open"]),
        (accounts(projects=("nlp",), completed=DAY), ["job_project", "job_open"]),
        (accounts(users=("ann",), submitted=DAY), ["job_user"]),
        (accounts(submitted=DAY), ["job_submitted"]),
        (accounts(dispatched=DAY), ["job_dispatched"]),
        (accounts(users=("ann",)), ["job_user"]),
        (accounts(ids=(1, 2)), ["INTEGER PRIMARY KEY"]),
        (lambda history: history.newest_starts(MOST), ["job_dispatched"]),
        (lambda history: history.events_of(1), ["event_job"]),
        (lambda history: history.events_of_jobs([1, 2], ["job_finished"]), ["event_job"]),
        (lambda history: history.events_of_no_job(DAY), ["event_job"]),
        (lambda history: history.events_after(5, 10), ["INTEGER PRIMARY KEY"]),
        (lambda history: history.times_of([1, 2]), ["INTEGER PRIMARY KEY"]),
        (lambda history: history.told_of([1, 2]), ["sqlite_autoindex_start_estimate_1"]),
    ],
)
def test_each_part_of_a_question_is_served_by_its_index(history: History, ask: Ask, indexes: list[str]) -> None:
    plans = [plan for plan in plans_of(history, ask) if "SCAN start_estimate" not in plan]
    assert len(plans) == len(indexes), plans
    for plan, index in zip(plans, indexes, strict=True):
        words = plan.replace(";", " ").split()
        assert index in plan and (" " in index or index in words), plans


def test_names_are_found_by_their_beginning(history: History) -> None:
    for name in ("train", "train*", "tr*n"):
        for plan in plans_of(history, histories(jobs=jobs(name=name))):
            assert "job_name" in plan, plan


def test_looks_at_the_past_go_through_no_table(history: History) -> None:
    past = PastStore(history)
    asked: list[Ask] = [
        lambda _: past.configurations(),
        lambda _: past.checkpoint_before(1e9),
        lambda _: past.time_of(7),
        lambda _: past.hosts_since(),
    ]
    for ask in asked:
        for plan in plans_of(history, ask, past._engine):
            assert "SCAN event" not in plan and "SCAN host_record" not in plan, plan
    past.close()
