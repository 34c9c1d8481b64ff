"""A store in a folder of its own, in a file of SQLite and in a database of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stores import POSTGRESQL, PostgresqlStore, SqliteStore, StoreAtHand

from gsched.store.eventlog import EventLog


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=["sqlite", POSTGRESQL])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreAtHand:
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "store.db")
    server = request.getfixturevalue("postgresql_server")
    return PostgresqlStore(server.new_url(), tmp_path, server)


@pytest.fixture
def log(store: StoreAtHand) -> Iterator[EventLog]:
    opened = store.open()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[Any]:
    """A server that may be killed, as long as it is started again."""
    from tests.support.postgresql_server import NoServer, PostgresqlServer  # needs psycopg

    try:
        server = PostgresqlServer()
    except NoServer as problem:
        pytest.skip(str(problem))
    yield server
    server.close()
