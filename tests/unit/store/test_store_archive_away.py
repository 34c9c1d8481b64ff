"""PostgreSQL goes away while a month is archived: one line says so, and the next archiver goes on from there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from stores import PostgresqlStore
from test_store_archive_crash import JOBS, check, fill

from gsched.app.archives import part_removal
from gsched.app.archives.archiving import Wanted, archive_history
from gsched.app.archives.months import Month
from gsched.app.archives.part_checking import PartCheck
from gsched.base.errors import GschedError
from gsched.master.archive.archive_files import LineWriter
from gsched.master.upkeep.archived_removal import remove_at_once
from gsched.model.views.archive_question import ArchivedJobs, RemovedArchived
from gsched.store.eventlog import EventLog

pytestmark = [pytest.mark.nightly, pytest.mark.needs_postgresql]


@pytest.fixture
def store(own_server: Any, tmp_path: Path) -> PostgresqlStore:
    return PostgresqlStore(own_server.new_url(), tmp_path, own_server)


def reading(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies between two of the jobs that are written."""
    _dies_before(server, monkeypatch, LineWriter, "write", 100)


def comparing(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _dies_before(server, monkeypatch, PartCheck, "check", 1)


def removing(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies when some of the jobs are out of the store."""
    _dies_before(server, monkeypatch, Removing, "__call__", 4)


def _dies_before(server: Any, monkeypatch: pytest.MonkeyPatch, of: type, name: str, which: int) -> None:
    told, call = count(1), getattr(of, name)

    def counted(self: Any, *given: Any, **named: Any) -> Any:
        if next(told) == which:
            server.kill()
        return call(self, *given, **named)

    monkeypatch.setattr(of, name, counted)


@pytest.mark.parametrize("while_it_is", [reading, comparing, removing])
def test_one_line_says_so_and_the_next_goes_on(
    store: PostgresqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, while_it_is: Callable[..., None]
) -> None:
    fill(store)
    wanted = Wanted("c", Month(2023, 12), tmp_path / "archive", None)
    with monkeypatch.context() as patched, closing(store.open()) as log:
        patched.setattr(part_removal, "JOBS_AT_ONCE", 50)
        while_it_is(store.server, patched)
        with pytest.raises(GschedError, match="cannot be") as told:
            archive_history(log.place, wanted, Removing(log), lambda text: None)
    assert "\n" not in told.value.text
    store.server.start()
    left = check(store, wanted.folder)
    assert (left < JOBS) == (while_it_is is removing)
    with closing(store.open()) as log:
        archive_history(log.place, wanted, Removing(log), lambda text: None)
    assert check(store, wanted.folder) == 0


class Removing(AbstractContextManager[Any]):
    """As the master does it, step by step."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def __enter__(self) -> Any:
        return self

    def __call__(self, wanted: ArchivedJobs) -> RemovedArchived:
        return remove_at_once(self._log, wanted)

    def __exit__(self, *_: object) -> None:
        pass
