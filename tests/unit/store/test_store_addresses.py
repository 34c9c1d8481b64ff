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
OTHER_PORT = 6000


class DeadServer:
    """Somebody who hangs up on whoever connects."""

    def __init__(self, folder: Path, port: int = PORT) -> None:
        self.folder = folder
        self.callers = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(folder / f".s.PGSQL.{port}"))
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


@pytest.fixture
def dead_elsewhere(folder: Path) -> Iterator[DeadServer]:
    made = DeadServer(folder, OTHER_PORT)
    yield made
    made.close()


@pytest.fixture
def elsewhere(postgresql_server: Any, dead_elsewhere: DeadServer, folder: Path) -> str:
    """The address of two servers on a port that it does not name."""
    live = folder / "live"
    live.mkdir()
    (live / f".s.PGSQL.{OTHER_PORT}").symlink_to(postgresql_server.folder / f".s.PGSQL.{PORT}")
    text = str(postgresql_server.new_url())
    return text.replace(f"host={postgresql_server.folder}", f"host={dead_elsewhere.folder},{live}")


def check_port(text: str, dead: DeadServer) -> None:
    for _ in range(3):
        with postgresql.connect(parse_store_url(text), "test") as connection:
            assert connection.info.port == OTHER_PORT
    assert dead.callers == 1


def test_the_port_of_the_environment_counts(
    elsewhere: str, dead_elsewhere: DeadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", str(OTHER_PORT))
    check_port(elsewhere, dead_elsewhere)


def test_the_port_of_a_service_file_counts(
    elsewhere: str, dead_elsewhere: DeadServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "services").write_text(f"[ours]\nport={OTHER_PORT}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(folder / "services"))
    check_port(f"{elsewhere}&service=ours", dead_elsewhere)


def test_the_one_port_of_an_address_is_that_of_all(elsewhere: str, dead_elsewhere: DeadServer) -> None:
    check_port(f"{elsewhere}&port={OTHER_PORT}", dead_elsewhere)


@pytest.mark.parametrize("is_in_address", [True, False])
def test_each_host_keeps_its_port(
    url: StoreUrl, dead: DeadServer, monkeypatch: pytest.MonkeyPatch, is_in_address: bool
) -> None:
    """Those of the environment go by the order of the address, which stays then."""
    ports, text = f"{OTHER_PORT},{PORT}", url.text
    monkeypatch.setenv("PGPORT", "1" if is_in_address else ports)
    if is_in_address:
        text += f"&port={OTHER_PORT},"
    for _ in range(2):
        with postgresql.connect(parse_store_url(text), "test") as connection:
            assert connection.info.port == PORT
    assert dead.callers == 0
