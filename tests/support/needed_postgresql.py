"""A server of PostgreSQL for a test that needs one: where there is none the test is skipped, and says why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def needed_server() -> Iterator[Any]:
    """A server of its own, see tests.support.postgresql_server; ended with the block."""
    pytest.importorskip("psycopg", reason="needs psycopg (pip install 'gsched[postgresql]')")
    from tests.support.postgresql_server import NoServer, PostgresqlServer  # needs psycopg

    try:
        server = PostgresqlServer()
    except NoServer as problem:
        pytest.skip(str(problem))
    yield server
    server.close()
