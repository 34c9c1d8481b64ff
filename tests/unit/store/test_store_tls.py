"""A store in PostgreSQL over TLS: the server proves who it is, or nothing is sent to it, and one line says why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from store_samples import batch_of, job_row

from gsched.app.installation.authority import Authority, make_authority
from gsched.base.errors import GschedError, Unavailable
from gsched.model.store_url import parse_store_url
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables.postgresql import reader_engine, writer_engine
from gsched.store.transfer import copy_whole_store
from tests.support.certificates import write_certificate
from tests.support.needed_postgresql import needed_server

pytestmark = [pytest.mark.slow, pytest.mark.needs_postgresql]
ADDRESS = "127.0.0.2"
"""Of this machine, and none of those that gsched knows as such: it must prove itself."""


class TlsServer:
    """A server on a port, with a certificate of a CA of its own; and other CAs, one of them of the same name."""

    def __init__(self, server: Any, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.authority: Authority = make_authority(str(folder / "ca"), "db", 10)
        make_authority(str(folder / "other"), "another", 10)
        make_authority(str(folder / "same"), "db", 10)
        self.right, self.wrong, self.same_name = (str(folder / each / "ca.crt") for each in ("ca", "other", "same"))
        write_certificate(folder, self.authority, "here", names=(ADDRESS,))
        write_certificate(folder, self.authority, "elsewhere", names=("db1.example.org",))

    def url(self, options: str, certificate: str = "here") -> str:
        """The address of an empty schema of the server, which shows this certificate now."""
        files = (self.folder / f"{certificate}.crt", self.folder / f"{certificate}.key")
        port = self.server.start_on_network(ADDRESS, *files)
        user = re.findall(r"//(.*)@", self.server.new_url())[0]
        return f"postgresql://{user}@{ADDRESS}:{port}/tests?{options}"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with needed_server() as server:
        yield TlsServer(server, tmp_path_factory.mktemp("tls"))


def test_a_server_that_proves_itself_has_the_store(tls: TlsServer, tmp_path: Path) -> None:
    url = tls.url(f"sslrootcert={tls.right}")
    with closing(EventLog(url, folder=tmp_path)) as log:
        log.append(batch_of(1), [job_row(1)])
        assert [number for number, _ in log.read()] == [1, 2, 3]
        with closing(History(url)) as history:
            assert history.last_seq() == 3
        with tls.server.admin() as connection:
            query = (
                "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'gsched%'"
            )
            assert {row[0] for row in connection.execute(query)} == {True}


@pytest.mark.parametrize(
    ("options", "certificate", "why"),
    [
        ("sslrootcert={tls.wrong}", "here", "certificate verify failed"),
        ("sslmode=verify-ca&sslrootcert={tls.wrong}", "here", "certificate verify failed"),
        ("sslrootcert={tls.same_name}", "here", "SSL error: "),
        ("sslrootcert={tls.right}", "elsewhere", f'does not match host name "{ADDRESS}"'),
        ("sslrootcert={tls.folder}/none.crt", "here", 'root certificate file ".*none.crt" does not exist'),
        ("sslrootcert={tls.right}", "none", "server does not support SSL, but SSL was required"),
    ],
)
def test_one_that_does_not_is_refused_in_one_line(
    tls: TlsServer, tmp_path: Path, options: str, certificate: str, why: str
) -> None:
    url, source, folder = tls.url(options.format(tls=tls), certificate), tmp_path / "gsched.db", tmp_path / "state"
    folder.mkdir()
    EventLog(source).close()
    with pytest.raises(Unavailable, match=why) as refusal:
        EventLog(url, folder=folder)
    with pytest.raises(GschedError, match=why) as second:
        copy_whole_store(str(source), url)
    assert "\n" not in refusal.value.text + second.value.text
    user = re.findall(r"//(.*)@", url)[0]
    with tls.server.admin() as connection:
        found = connection.execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{user}'")
        assert found.fetchall() == [], "nothing was made"


def test_verify_ca_asks_for_no_name(tls: TlsServer, tmp_path: Path) -> None:
    with closing(EventLog(tls.url(f"sslmode=verify-ca&sslrootcert={tls.right}", "elsewhere"), folder=tmp_path)) as log:
        assert log.append(batch_of(1)) == 3


@pytest.mark.parametrize("made", [reader_engine, writer_engine])
def test_the_server_misses_soon_who_was_lost(tls: TlsServer, made: Any) -> None:
    """By default it keeps the session of a host without power for two hours."""
    url = tls.url(f"sslmode=verify-ca&sslrootcert={tls.right}", "elsewhere")
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
    engine = made(parse_store_url(url))
    with engine.connect() as connection:
        found = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
    engine.dispose()
    assert found == ["5", "5", "3", "15000"]
