"""Parts of the front of a shared cluster by themselves: tries, shares, a proxy's word, what is handed on."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.web.front import connection_shares
from gsched.web.front.careful_protocol import CarefulProtocol
from gsched.web.front.connection_shares import ConnectionShares, CountedListener, counted_address
from gsched.web.front.front_application import own_path
from gsched.web.front.keeper_messages import KeeperQuestion, KeeperTask
from gsched.web.front.login_limits import OF_ADDRESS, OF_USER, OF_USER_FROM_ADDRESS, LoginLimits
from gsched.web.front.proxied_user import ProxiedUser
from gsched.web.front.request_carrier import brought_back, passed_on
from gsched.web.front.web_accounts import find_account

COOKIE = "__Host-gsched"


# -- tries ------------------------------------------------------------------------------------------------------------


def test_tries_of_a_user_from_an_address_are_few_and_come_back() -> None:
    now = [100.0]
    limits = LoginLimits(lambda: now[0])
    assert [limits.enter("ann", "a") for _ in range(OF_USER_FROM_ADDRESS.burst)] == [0.0] * OF_USER_FROM_ADDRESS.burst
    wait_s = limits.enter("ann", "a")
    assert 0 < wait_s <= OF_USER_FROM_ADDRESS.every_s
    assert limits.enter("bob", "a") == 0.0 and limits.enter("ann", "b") == 0.0
    now[0] += wait_s
    assert limits.enter("ann", "a") == 0.0 and limits.enter("ann", "a") > 0
    limits.succeeded("ann", "a")
    assert limits.enter("ann", "a") == 0.0


def test_many_users_from_an_address_and_one_from_many_are_limited_too() -> None:
    limits = LoginLimits(lambda: 0.0)
    assert not any(limits.enter(f"u{number}", "a") for number in range(OF_ADDRESS.burst))
    assert limits.enter("another", "a") > 0
    assert not any(limits.enter("ann", f"b{number}") for number in range(OF_USER.burst))
    assert limits.enter("ann", "c") > 0


def test_who_has_no_address_keeps_nobody_else_out() -> None:
    limits = LoginLimits(lambda: 0.0)
    assert not any(limits.enter("ann", "") for _ in range(OF_USER_FROM_ADDRESS.burst))
    assert limits.enter("ann", "") > 0
    assert limits.enter("ann", "b") == 0.0


@pytest.mark.parametrize(("one", "other"), [("ann", "Ann"), ("ann", "ANN@example.org"), ("ann@a", "ann@b")])
def test_tries_of_a_user_count_however_the_name_is_written(one: str, other: str) -> None:
    limits = LoginLimits(lambda: 0.0)
    assert not any(limits.enter(one, "a") for _ in range(OF_USER_FROM_ADDRESS.burst))
    assert limits.enter(other, "a") > 0 and limits.enter("an", "a") == 0.0
    limits.succeeded(other, "a")
    assert limits.enter(one, "a") == 0.0


def test_tries_of_a_network_of_ipv6_are_those_of_an_address() -> None:
    limits = LoginLimits(lambda: 0.0)
    assert not any(limits.enter(f"u{number}", f"2001:db8:0:1::{number:x}") for number in range(OF_ADDRESS.burst))
    assert limits.enter("another", "2001:db8:0:1:ffff::1") > 0
    assert limits.enter("another", "2001:db8:0:2::1") == 0.0


def test_tries_are_remembered_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.web.front.login_limits.MOST_KEPT", 50)
    limits = LoginLimits(lambda: 0.0)
    for number in range(500):
        limits.enter(f"u{number}", f"a{number}")
    assert len(limits._full_at) == 50


# -- shares -----------------------------------------------------------------------------------------------------------


def test_an_address_has_its_share_and_a_proxy_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_shares, "MOST_OF_ADDRESS", 3)
    monkeypatch.setattr(connection_shares, "MOST", 8)
    shares = ConnectionShares(frozenset({"proxy"}))
    assert [shares.enter("a") for _ in range(4)] == [True, True, True, False]
    shares.leave("a")
    assert shares.enter("a") and not shares.enter("a")
    assert [shares.enter("proxy") for _ in range(6)] == [True] * 5 + [False]
    assert not shares.enter("b"), "there is an end for all together"


def test_a_network_of_ipv6_has_the_share_of_an_address_and_a_proxy_in_it_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_shares, "MOST_OF_ADDRESS", 3)
    shares = ConnectionShares(frozenset({"2001:db8::5"}))
    assert [shares.enter(f"2001:db8::{number}") for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert all(shares.enter("2001:db8::5") for _ in range(5)), "the proxy"
    assert shares.enter("2001:db8:0:1::1"), "another network"
    shares.leave("2001:db8::2")
    assert shares.enter("2001:db8::6") and not shares.enter("2001:db8::7")


def test_addresses_as_they_are_counted() -> None:
    written = ["10.0.0.5", "::ffff:10.0.0.5", "2001:db8:1:2:3::4", "fe80::1%eth0", ""]
    assert [counted_address(each) for each in written] == ["10.0.0.5", "10.0.0.5", "2001:db8:1:2::/64", "fe80::/64", ""]


def test_many_addresses_together_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_shares, "MOST", 1000)
    monkeypatch.setattr(connection_shares, "MOST_OF_ADDRESS", 100)
    monkeypatch.setattr(connection_shares, "CROWDED_SHARE", 4)
    shares = ConnectionShares()
    taken = sum(shares.enter(f"10.0.0.{number}") for number in range(50) for _ in range(200))
    assert taken == 500 + 45 * 4
    assert all(shares.enter("somebody") for _ in range(4))


def test_a_listener_hangs_up_on_who_has_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_shares, "MOST_OF_ADDRESS", 2)
    plain = socket.create_server(("127.0.0.1", 0))
    address = plain.getsockname()
    with CountedListener.of(plain, ConnectionShares()) as listening:
        listening.setblocking(False)
        callers = [socket.create_connection(address) for _ in range(3)]
        taken = [listening.accept()[0] for _ in range(2)]
        with pytest.raises(BlockingIOError):
            listening.accept()
        assert callers[2].recv(1) == b"", "it was closed"
        taken[0].close()
        taken[0].close()
        callers.append(socket.create_connection(address))
        taken.append(listening.accept()[0])
        for each in (*callers, *taken):
            each.close()


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Where a server listens that gives a request's head a moment; it answers everything."""
    monkeypatch.setattr("gsched.web.front.careful_protocol.HEAD_S", 0.3)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(application, http=CarefulProtocol, loop="asyncio", log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield listening.getsockname()
    server.should_exit = True
    thread.join(30)
    listening.close()


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_who_does_not_finish_a_request_is_hung_up_on(hurried: tuple[str, int], first: bytes) -> None:
    with socket.create_connection(hurried, timeout=30) as silent:
        silent.sendall(first)
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(100) == b""


def test_who_goes_on_is_answered_and_may_not_stop_in_the_middle(hurried: tuple[str, int]) -> None:
    with socket.create_connection(hurried, timeout=30) as talking:
        for _ in range(3):
            talking.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            said = b""
            while not said.endswith(b"ok"):
                said += talking.recv(1000)
            assert said.startswith(b"HTTP/1.1 200")
        talking.sendall(b"GET / HT")
        with contextlib.suppress(ConnectionResetError):
            assert talking.recv(100) == b""


# -- a proxy's word ---------------------------------------------------------------------------------------------------


def scope(
    *headers: tuple[str, str], client: str | None = "10.0.0.5", scheme: str = "https", **others: object
) -> dict[str, Any]:
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    whose = (client, 1) if client is not None else None
    return {"type": "http", "headers": pairs, "client": whose, "scheme": scheme, **others}


def test_the_named_proxy_names_the_user() -> None:
    proxied = ProxiedUser("remote-user", ["10.0.0.5"], has_socket=True)
    for client in ("10.0.0.5", "::ffff:10.0.0.5"):
        assert proxied.user_of(scope(("Remote-User", "ann"), client=client)) == "ann"
    assert proxied.user_of(scope(("Remote-User", "ann"), client=None, scheme="http")) == "ann"


def test_who_has_reset_a_connection_of_the_port_is_no_proxy() -> None:
    proxied = ProxiedUser("remote-user", ["10.0.0.5"], has_socket=True)
    with pytest.raises(PermissionDenied, match="from the proxy alone"):
        proxied.user_of(scope(("Remote-User", "ann"), client=None))
    without_socket = ProxiedUser("remote-user", ["10.0.0.5"], has_socket=False)
    with pytest.raises(PermissionDenied, match="from the proxy alone"):
        without_socket.user_of(scope(("Remote-User", "ann"), client=None, scheme="http"))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Remote-User", "")],
        [("Remote-User", "ann"), ("Remote-User", "ann")],
        [("Remote-User", "ann"), ("Remote_User", "root")],
        [("remote_user", "bob"), ("Remote-User", "ann")],
        [("Remote-User", "\xe4nn")],
    ],
)
def test_none_or_several_users_of_a_proxy_are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(BadRequest, match="remote-user"):
        ProxiedUser("remote-user", ["10.0.0.5"], has_socket=False).user_of(scope(*headers))


@pytest.mark.parametrize("client", ["10.0.0.6", "127.0.0.1", "::1", "10.0.0.50", "::ffff:10.0.0.6", None])
def test_nobody_elses_word_counts(client: str | None) -> None:
    proxied = ProxiedUser("remote-user", ["10.0.0.5"], has_socket=False)
    with pytest.raises(PermissionDenied, match="from the proxy alone"):
        proxied.user_of(scope(("Remote_User", "ann"), ("X-Forwarded-For", "10.0.0.5"), client=client))
    assert proxied.user_of(scope(("X-Forwarded-For", "10.0.0.5"), client=client)) == ""


# -- what is handed on ------------------------------------------------------------------------------------------------


def test_only_what_is_the_pages_business_is_handed_on() -> None:
    headers = [
        (b"host", b"h1"),
        (b"gsched-csrf", b"forged"),
        (b"GSCHED_csrf", b"forged"),
        (b"connection", b"keep-alive, x"),
        (b"transfer-encoding", b"chunked"),
        (b"te", b"trailers"),
        (b"cookie", b"__Host-gsched=secret; theirs=1"),
        (b"cookie", b"__Host-gsched=secret"),
    ]
    assert passed_on(headers, COOKIE) == [
        (b"host", b"h1"),
        (b"cookie", b"theirs=1"),
        (b"transfer-encoding", b"chunked"),
    ]


@pytest.mark.parametrize("coding", [b"transfer-encoding", b"Transfer-Encoding", b"transfer_encoding"])
@pytest.mark.parametrize("length", [b"content-length", b"Content-Length", b"content_length"])
def test_a_length_beside_a_transfer_coding_is_not_handed_on(coding: bytes, length: bytes) -> None:
    for headers in ([(length, b"5"), (coding, b"chunked")], [(coding, b"chunked"), (length, b"5")]):
        assert passed_on(headers, COOKIE) == [(b"transfer-encoding", b"chunked")]
    assert passed_on([(length, b"5")], COOKIE) == [(length, b"5")]
    assert brought_back([(b"Content-Length", b"5"), (b"transfer-encoding", b"chunked")], COOKIE) == []


def test_no_page_sets_the_cookie_of_the_front() -> None:
    headers = [
        (b"content-type", b"text/html"),
        (b"set-cookie", b"theirs=1; Path=/x"),
        (b"set-cookie", b'theirs={"__Host-gsched":"x"}; Path=/x'),
        (b"set-cookie", b"__Host-gsched-theirs=1"),
        (b"set-cookie", b"__Host-gsched=other; Path=/; Secure"),
        (b"set-cookie", b" __Host-gsched = other"),
        (b"set-cookie", b'__Host-gsched={"a":"b"}; Path=/'),
        (b"set-cookie", b"=__Host-gsched=other"),
        (b"set-cookie", b"__Host-gsched"),
        (b"connection", b"close"),
        (b"date", b"Sat, 28 Nov 2026 01:25:01 GMT"),
    ]
    assert brought_back(headers, COOKIE) == headers[:4]


@pytest.mark.parametrize(
    "onward", ["", "x", "//evil.example", "/\\evil.example", "https://evil.example", "/a\nb", "/é"]
)
def test_a_log_in_leads_nowhere_else(onward: str) -> None:
    assert own_path(onward) == "/"
    assert own_path("/jobs?whose=all") == "/jobs?whose=all"


def test_a_password_is_in_no_representation() -> None:
    question = KeeperQuestion(number=1, task=KeeperTask.PROVE, user="ann", password="hush")
    assert "hush" not in repr(question) and "hush" not in f"{question}"


@pytest.mark.parametrize("user", ["root", "daemon", "no such", "nosuchuser", "a\0b", ""])
def test_who_has_no_pages(user: str) -> None:
    with pytest.raises(PermissionDenied):
        find_account(user)


def test_who_can_read_a_key_has_no_pages(tmp_path: Any) -> None:
    key = tmp_path / "h1.key"
    key.write_text("")
    key.chmod(0o640)
    found = find_account("nobody", ("nobody",), [str(key), str(tmp_path / "none.key")])
    assert found.name == "nobody" and found.environment("/conf", "/bin")["LOGNAME"] == "nobody"
    key.chmod(0o604)
    with pytest.raises(PermissionDenied, match="by which a host is known"):
        find_account("nobody", ("nobody",), [str(key)])
    assert os.path.exists(key)
