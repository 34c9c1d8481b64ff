"""Who is let in, and from where: tokens, sessions, Host, Origin, forms, headers of each answer."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_master import FakeMaster, spec
from served_pages import COOKIE, HOST, Pages

from gsched.app.commands import interface_words
from gsched.base.errors import BadRequest
from gsched.model.views.view import JobView
from gsched.web.access.form_reading import MOST_BYTES
from gsched.web.access.gate import POLICY, cookie_of
from gsched.web.access.sessions import IDLE_S, LIFETIME_S, MOST_SESSIONS, WebSessions
from gsched.web.serving import WebOptions, new_tcp_socket

PATHS = ("/", "/jobs", "/jobs/17", "/jobs/17/curves", "/jobs/17/output", "/jobs/17/output/stdout", "/live?watch=jobs")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_a_session(outside: Pages, path: str) -> None:
    for cookie in ("-", f"{COOKIE}=", f"{COOKIE}=x", "nonsense", f"other={COOKIE}", f"{COOKIE}=a; {COOKIE}=b"):
        answer = outside.get(path, cookie=cookie)
        assert answer.status == 401 and "gsched web --print-url" in answer.text
        assert "firestone" not in answer.text, "the cluster's name is for those who are in"


def test_a_token_opens_one_session(outside: Pages) -> None:
    token = outside.sessions.new_token()
    answer = outside.get(f"/enter?token={token}")
    assert answer.status == 200 and 'http-equiv="refresh"' in answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie and "Domain" not in cookie
    assert outside.entered_count == 1
    assert outside.get(f"/enter?token={token}").status == 401
    assert outside.get("/", cookie=cookie.partition(";")[0]).status == 200


@pytest.mark.parametrize(
    "line",
    [
        'pref={"theme":"dark"}; X=tok',
        "a=\xe9; X=tok",
        "novalue; X=tok",
        "a[b]=1;X=tok",
        "X=old; X=tok",
        " X = tok ; XX=no; x=no; Y=X=no",
    ],
)
def test_a_cookie_is_found_among_any_others(line: str) -> None:
    assert cookie_of([line], "X") == cookie_of(["", line, "b=1"], "X") == "tok"


@pytest.mark.parametrize("line", ["", "X", "XX=1", "x=1", "a=X=1", "X=", "a=;X"])
def test_no_other_is_taken_for_it(line: str) -> None:
    assert cookie_of([line], "X") == ""


@pytest.mark.parametrize("token", ["", "x", "%00", "a" * 5000])
def test_a_wrong_token_opens_nothing(outside: Pages, token: str) -> None:
    outside.sessions.new_token()
    answer = outside.get(f"/enter?token={token}")
    assert answer.status == 401 and "set-cookie" not in answer.headers
    assert outside.entered_count == 0


def test_a_token_that_was_replaced_opens_nothing() -> None:
    sessions = WebSessions()
    assert sessions.open("") == ""
    first, second = sessions.new_token(), sessions.new_token()
    assert sessions.open(first) == ""
    assert sessions.open(second) and not sessions.open(second)


def test_sessions_are_few_and_end_when_nobody_uses_them() -> None:
    now = [0.0]
    sessions = WebSessions(lambda: now[0])
    cookies = [sessions.open(sessions.new_token()) for _ in range(MOST_SESSIONS + 1)]
    assert sessions.find(cookies[0]) is None and sessions.find(cookies[1]) is not None
    now[0] += IDLE_S - 1
    kept = sessions.find(cookies[1])
    assert kept is not None
    now[0] += 2
    assert sessions.find(cookies[2]) is None and sessions.find(cookies[1]) is kept
    sessions.close(cookies[1])
    assert kept.is_over and sessions.find(cookies[1]) is None


def test_no_session_grows_older_than_a_week_however_much_it_is_used() -> None:
    now = [0.0]
    sessions = WebSessions(lambda: now[0])
    cookie = sessions.begin("ann")
    while now[0] < LIFETIME_S:
        kept = sessions.find(cookie)
        assert kept is not None
        now[0] += IDLE_S / 2
    now[0] = LIFETIME_S + 1
    assert sessions.find(cookie) is None and kept.is_over


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil", "", "10.0.0.1:8080"])
def test_a_foreign_name_is_not_answered(pages: Pages, host: str) -> None:
    answer = pages.get("/", host=host)
    assert answer.status == 421 and len(answer.data) < 100


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:65535", "[::1]:8080"])
def test_names_of_this_machine_are(pages: Pages, host: str) -> None:
    assert pages.get("/", host=host).status == 200


@pytest.mark.parametrize("origin", ["-", "null", "http://evil.example", "https://localhost:8080", "http://localhost"])
def test_a_form_from_elsewhere_is_refused(pages: Pages, master: FakeMaster, origin: str) -> None:
    csrf = pages.csrf
    answer = pages.post("/deeds", {"csrf": csrf, "action": "kill", "job": "17"}, origin=origin)
    assert answer.status == 403 and master.controls == []


@pytest.mark.parametrize("token", ["", "x", None])
def test_a_form_without_the_sessions_token_is_refused(pages: Pages, master: FakeMaster, token: str | None) -> None:
    fields: dict[str, object] = {"action": "kill", "job": "17"} | ({} if token is None else {"csrf": token})
    assert pages.post("/deeds", fields).status == 403 and master.controls == []


def test_another_sessions_token_is_refused(new_pages: Callable[..., Pages], master: FakeMaster) -> None:
    mine = new_pages().entered()
    token, mine_cookie = mine.csrf, mine.cookie
    other = mine.entered()
    assert other.cookie != mine_cookie
    assert other.post("/deeds", {"csrf": token, "action": "kill", "job": "17"}).status == 403
    assert master.controls == []


@pytest.mark.parametrize(
    ("data", "kind", "status"),
    [
        (b"{}", "application/json", 400),
        (b"a=1", "", 400),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"\xff\xfe", "application/x-www-form-urlencoded", 400),
        (b"&".join([b"a=1"] * 20_001), "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * MOST_BYTES, "application/x-www-form-urlencoded", 413),
    ],
)
def test_what_is_no_form_is_refused(pages: Pages, data: bytes, kind: str, status: int) -> None:
    assert pages.post("/deeds", data, **{"content-type": kind}).status == status


@pytest.mark.parametrize("path", [*PATHS[:4], "/enter", "/nothing", "/assets/nothing", "/deeds"])
def test_every_answer_has_the_headers(pages: Pages, path: str) -> None:
    for answer in (pages.get(path), pages.get(path, cookie="-"), pages.get(path, host="evil.example")):
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere(pages: Pages, master: FakeMaster) -> None:
    assert "unsafe" not in POLICY and "http" not in POLICY and "default-src 'none'" in POLICY
    for path in ("/", "/jobs", "/jobs/1", "/enter"):
        text = pages.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text), path
        assert not re.search(r"<script(?! src=\"/assets/)", text), path
        assert not re.search(r"(?:src|href|action)=\"(?!/)", text.replace('href="#main"', "")), path


def test_read_only_pages_have_no_way_to_write(new_pages: Callable[..., Pages], master: FakeMaster) -> None:
    master.views = [JobView(job_id=1, spec=spec(), state="RUN", submitted_at=1.0)]
    pages = new_pages(read_only=True).entered()
    for path in ("/", "/jobs?whose=all", "/jobs/1"):
        assert pages.get("/new").status == 404
        answer = pages.get(path)
        assert answer.status == 200 and 'method="post"' not in answer.text and "csrf" not in answer.text
    session = pages.sessions.find(pages.cookie)
    assert session is not None
    for path in ("/deeds", "/leave", "/new", "/", "/jobs"):
        assert pages.post(path, {"csrf": session.csrf, "action": "kill", "job": "1"}).status in (404, 405)
    assert master.controls == []


def test_leaving_ends_the_session(pages: Pages) -> None:
    assert pages.post("/leave", {"csrf": pages.csrf}).status == 303
    assert pages.get("/").status == 401


@pytest.mark.parametrize(
    "path", ["/assets/../serving.py", "/assets/..%2f..%2fserving.py", "/assets/", "//evil.example/", "/jobs/..%2f.."]
)
def test_tricks_with_paths_find_nothing(pages: Pages, path: str) -> None:
    answer = pages.get(path)
    assert answer.status in (404, 405) and "import" not in answer.text


def test_assets_are_kept_by_browsers_and_need_no_session(outside: Pages) -> None:
    text = outside.get("/").text
    found = re.findall(r'"(/assets/[^"]+)"', text)
    assert len(found) >= 2
    for path in found:
        answer = outside.get(path)
        assert answer.status == 200 and "immutable" in answer.headers["cache-control"]
        packed = outside.get(path, **{"accept-encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip" and len(packed.data) < len(answer.data)
        again = outside.get(path, **{"if-none-match": answer.headers["etag"]})
        assert (again.status, again.data, again.headers["etag"]) == (304, b"", answer.headers["etag"])
        assert outside.get(path, **{"if-none-match": '"another"'}).status == 200


def test_a_page_that_has_not_changed_is_not_sent_again(pages: Pages) -> None:
    """To who says what is there already, as an open page does; browsers keep none of it."""
    mark = pages.get("/jobs?whose=all").headers["etag"]
    for said in (mark, f'"x", {mark}', mark.removeprefix("W/"), f"W/{mark.removeprefix('W/')}"):
        again = pages.get("/jobs?whose=all", **{"if-none-match": said, "accept-encoding": "gzip"})
        assert (again.status, again.data, again.headers["cache-control"]) == (304, b"", "no-store"), said
        assert again.headers["etag"] == mark and again.headers["content-security-policy"] == POLICY
    korean = pages.get("/jobs?whose=all", **{"if-none-match": mark, "accept-language": "ko"})
    assert korean.status == 200 and korean.data
    assert pages.get("/jobs?whose=all", **{"if-none-match": mark, "cookie": "-"}).status == 401
    assert pages.get("/queues").headers["etag"] != mark


def test_a_request_with_two_hosts_is_refused(pages: Pages) -> None:
    connection, _ = pages.stream("/assets/x")
    connection.close()
    answer = pages.ask("GET", "/", None, {"host": HOST, "Host": "evil.example"})
    assert answer.status in (400, 421)


@pytest.mark.parametrize("words", [["--port", "8080"], ["--socket", "/tmp/s"], ["--print-url"]])
def test_in_a_shared_cluster_too_a_user_may_have_pages_of_his_own(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lsf.conf").write_text("LSB_MBD_PORT=6881\n")
    asked: list[WebOptions] = []
    monkeypatch.setattr("gsched.web.serving.run", lambda options, say: asked.append(options) or 0)
    assert CliRunner().invoke(interface_words.web, ["--envdir", str(tmp_path), *words]).exit_code == 0
    assert [options.conf_dir for options in asked] == [str(tmp_path)]


def test_without_its_packages_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface_words, "NEEDED_FOR_WEB", ("starlette", "no_such_package"))
    told = CliRunner().invoke(interface_words.web, [])
    assert isinstance(told.exception, BadRequest)
    assert told.exception.text == "this needs no_such_package: pip install 'gsched[web]'"


def test_what_is_written_is_sent_at_once() -> None:
    """asyncio looks at the protocol of a socket; without it answers took 40 ms longer on a connection used again."""

    async def has_no_delay() -> bool:
        found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            found.set_result(bool(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        with new_tcp_socket() as listening:
            listening.bind(("127.0.0.1", 0))
            async with await asyncio.start_server(served, sock=listening):
                _, writer = await asyncio.open_connection(*listening.getsockname())
                writer.close()
                return await found

    assert asyncio.run(has_no_delay())
