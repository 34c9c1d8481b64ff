"""Reading the metrics by HTTP: a socket for its owner, a token, certificates; what is wrong names its line."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gsched.app.installation.authority import make_authority, make_host
from gsched.base.errors import Conflict, Unavailable
from gsched.master.metrics.http_server import MOST_READERS, MetricsServer, form_of
from gsched.master.metrics.page import Form
from gsched.model.config import MetricsEndpoint
from gsched.wire.identity.certificates import fingerprint
from tests.support.shared_master import free_port

TOKEN = "0123456789abcdef0123"
LINE = "lsf.conf:7"
Start = Callable[..., MetricsServer]


@pytest.fixture
def start() -> Iterator[Start]:
    servers = []

    def started(
        endpoint: MetricsEndpoint, tls_dir: Path | str = "", page: Callable[[Form], bytes] = page_of
    ) -> MetricsServer:
        server = MetricsServer(endpoint, page, str(tls_dir), "localhost")
        servers.append(server)
        server.start()
        return server

    yield started
    for server in servers:
        server.close()


def page_of(form: Form) -> bytes:
    return form.name.encode()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=120)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120)
        self.sock.connect(str(self._path))


def get(connection: http.client.HTTPConnection, path: str = "/metrics", **headers: str) -> tuple[int, bytes, str]:
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    found = reply.status, reply.read(), reply.getheader("Content-Type", "")
    connection.close()
    return found


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


def at_port(port: int, token_file: Path | str = "") -> MetricsEndpoint:
    return MetricsEndpoint(
        host="localhost", port=port, token_file=str(token_file), source=LINE, token_source="lsf.conf:8"
    )


def test_a_socket_is_for_its_owner_and_goes_with_the_server(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "s"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    old = os.umask(0)
    try:
        server = MetricsServer(MetricsEndpoint(socket=str(path), source=LINE), page_of, "", "h")
    finally:
        os.umask(old)
    server.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert get(UnixConnection(path)) == (200, b"OPENMETRICS", Form.OPENMETRICS.value)
    assert get(UnixConnection(path), Accept="text/plain") == (200, b"TEXT", Form.TEXT.value)
    assert get(UnixConnection(path), path="/")[0] == 404
    with pytest.raises(Conflict, match=rf"^{LINE}: GSCHED_METRICS: .* cannot be listened on: Address already in use"):
        MetricsServer(MetricsEndpoint(socket=str(path), source=LINE), page_of, "", "h")
    server.close()
    assert not path.exists()


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(Conflict, match="cannot be listened on"):
        MetricsServer(MetricsEndpoint(socket=str(path), source=LINE), page_of, "", "h")
    assert path.read_text() == "data"


def test_a_port_wants_the_token(token_file: Path, start: Start) -> None:
    port = free_port()
    start(at_port(port, token_file))

    def ask(**headers: str) -> int:
        return get(http.client.HTTPConnection("localhost", port, timeout=120), **headers)[0]

    assert ask() == 401
    assert ask(Authorization="Bearer wrong") == 401
    assert ask(Authorization=f"Basic {TOKEN}") == 401
    assert ask(Authorization=f"Bearer {TOKEN}") == 200
    token_file.write_text(f"{TOKEN}-new\n")
    assert ask(Authorization=f"Bearer {TOKEN}") == 401
    assert ask(Authorization=f"Bearer {TOKEN}-new") == 200
    token_file.chmod(0o644)
    assert ask(Authorization=f"Bearer {TOKEN}-new") == 401, "what others can read is no secret"


def test_a_token_that_is_none_is_told_with_its_line(tmp_path: Path, token_file: Path) -> None:
    def complaint(path: Path) -> str:
        with pytest.raises(Conflict) as caught:
            MetricsServer(at_port(free_port(), path), page_of, "", "localhost")
        return caught.value.text

    start = "lsf.conf:8: GSCHED_METRICS_TOKEN_FILE: "
    missing = tmp_path / "missing"
    assert complaint(missing) == f"{start}{missing}: cannot be read: No such file or directory"
    assert complaint(tmp_path).startswith(f"{start}{tmp_path}: ")
    token_file.write_text("short\n")
    assert complaint(token_file) == f"{start}{token_file}: its first line must be a token of 16 to 4096 characters"
    token_file.chmod(0o644)
    assert "chmod 0600" in complaint(token_file)


def test_a_port_that_is_taken_is_told_with_its_line(token_file: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Conflict, match=rf"^{LINE}: GSCHED_METRICS: localhost:{port} cannot be listened on: "):
            MetricsServer(at_port(port, token_file), page_of, "", "localhost")


def test_certificates_of_the_cluster_may_read_until_they_are_revoked(tmp_path: Path, start: Start) -> None:
    tls, other = tmp_path / "tls", tmp_path / "other"
    for folder in (tls, other):
        signer = make_authority(str(folder), "c1", 30)
        for host in ("localhost", "prometheus"):
            make_host(str(folder), signer, host, 30)
    port = free_port()
    start(at_port(port), tls)

    def ask(shown: Path | None) -> int:
        context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
        if shown is not None:
            context.load_cert_chain(str(shown / "prometheus.crt"), str(shown / "prometheus.key"))
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=120)
        return get(connection)[0]

    assert ask(tls) == 200
    for stranger in (None, other):
        with pytest.raises(OSError):
            ask(stranger)
    (tls / "revoked").write_text(fingerprint((tls / "prometheus.crt").read_bytes()) + "\n")
    assert ask(tls) == 401


def test_a_token_with_certificates_travels_encrypted(tmp_path: Path, token_file: Path, start: Start) -> None:
    tls = tmp_path / "tls"
    make_host(str(tls), make_authority(str(tls), "c1", 30), "localhost", 30)
    port = free_port()
    start(at_port(port, token_file), tls)
    context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
    for token, status in ((TOKEN, 200), ("wrong", 401)):
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=120)
        assert get(connection, Authorization=f"Bearer {token}")[0] == status


def test_missing_certificates_are_told_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match=rf"^{LINE}: GSCHED_METRICS: .*ca.crt: the file is missing"):
        MetricsServer(at_port(free_port()), page_of, str(tmp_path), "localhost")


def test_a_page_that_is_not_there_is_said(tmp_path: Path, start: Start) -> None:
    def none(_: Form) -> bytes:
        raise Unavailable("not ready")

    start(MetricsEndpoint(socket=str(tmp_path / "s"), source=LINE), page=none)
    assert get(UnixConnection(tmp_path / "s"))[:2] == (503, b"not ready\n")


def test_who_says_nothing_keeps_nobody_else_out_for_ever(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.master.metrics.http_server.PATIENCE_S", 0.2)
    path = tmp_path / "s"
    start(MetricsEndpoint(socket=str(path), source=LINE))
    silent = [socket.socket(socket.AF_UNIX) for _ in range(MOST_READERS)]
    for each in silent:
        each.settimeout(120)
        each.connect(str(path))
    assert [each.recv(1) for each in silent] == [b""] * MOST_READERS, "they are cut off"
    for each in silent:
        each.close()
    assert get(UnixConnection(path))[0] == 200


def test_the_older_format_is_for_those_who_know_no_other() -> None:
    prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    assert [form_of(each) for each in ("", "*/*", prometheus)] == [Form.OPENMETRICS] * 3
    assert form_of("text/plain") is Form.TEXT
