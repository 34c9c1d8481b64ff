"""A store whose database may be on one of several machines: the dead one is not tried first again and again."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gsched.model.store_url import StoreUrl, parse_store_url
from gsched.store.tables import postgresql

pytestmark = [pytest.mark.slow, pytest.mark.needs_postgresql]

PORT = 5432


class DeadServer:
    """Somebody who hangs up on whoever connects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.callers = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(folder / f".s.PGSQL.{PORT}"))
        self._socket.listen()
        threading.Thread(target=self._hang_up, daemon=True).start()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._socket.accept()
                self.callers += 1
                caller.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def dead(folder: Path) -> Iterator[DeadServer]:
    made = DeadServer(folder)
    yield made
    made.close()


@pytest.fixture
def url(postgresql_server: Any, dead: DeadServer) -> StoreUrl:
    text = str(postgresql_server.new_url())
    return parse_store_url(text.replace("host=", f"host={dead.folder},"))


def test_who_has_answered_is_asked_first(url: StoreUrl, dead: DeadServer, postgresql_server: Any) -> None:
    for _ in range(3):
        with postgresql.connect(url, "test") as connection:
            assert connection.info.host == str(postgresql_server.folder)
    assert dead.callers == 1


def test_others_are_still_asked_when_he_does_not_answer_any_more(url: StoreUrl, dead: DeadServer) -> None:
    postgresql.connect(url, "test").close()
    answered = postgresql._answered[url.libpq]
    postgresql._answered[url.libpq] = (str(dead.folder), str(PORT))  # as if it had died since
    postgresql.connect(url, "test").close()
    assert dead.callers == 2
    assert postgresql._answered[url.libpq] == answered
