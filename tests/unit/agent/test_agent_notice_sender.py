"""The program that sends notices: whatever answers, or does not, it ends in time and says what became of each."""

from __future__ import annotations

import datetime
import email.utils
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gsched
from gsched.agent.notices import sender
from gsched.agent.notices.notice_delivery import PRELUDE
from gsched.app.installation.authority import Authority, make_authority
from gsched.base.coded_text import coded, sentence
from tests.support.certificates import write_certificate
from tests.support.hook_server import PATIENCE_S, HookServer, hook_server

ROOTS = [str(Path(file).parents[above]) for file, above in ((gsched.__file__, 1), (msgspec.__file__, 1))]


def order(to: str, way: str = "webhook", **more: Any) -> dict[str, Any]:
    told = {"notice_id": "ab12", "try": 1, "way": way, "to": to, "body": '{"text": "안녕"}', "proxy": ""}
    return told | {"environment": {}} | more


def said(outcome: dict[str, Any]) -> str:
    """The outcome in words; empty where it was sent."""
    if "problem" not in outcome:
        return ""
    return sentence(coded(outcome["problem"], *outcome["values"]))


def run_sender(*orders: dict[str, Any], limit_s: float = 60.0) -> list[str]:
    """The lines of the journal of one run, as a process of its own."""
    batch = json.dumps({"limit_s": limit_s, "deliveries": orders})
    words = [sys.executable, "-I", "-S", "-X", "utf8", "-c", PRELUDE, *ROOTS]
    done = subprocess.run(words, input=batch, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout.splitlines()


def test_a_webhook_gets_the_json_once_under_an_id() -> None:
    with hook_server() as server:
        assert sender.send_webhook(order(server.url("/a?b=c"), **{"try": 3})) == {}
    (got,) = server.received
    assert (got.method, got.target, got.told) == ("POST", "/a?b=c", {"text": "안녕"})
    assert (got.headers["Idempotency-Key"], got.headers["X-Gsched-Try"]) == ("ab12", "3")
    assert got.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "text", "again", "after_s"),
    [
        ("204", "", None, None),
        ("500", "HTTP status 500", True, None),
        ("503 Retry-After: 7", "HTTP status 503", True, 7.0),
        ("429 Retry-After: 30", "HTTP status 429", True, 30.0),
        ("429 Retry-After: 999999", "HTTP status 429", True, 3600.0),
        ("429 Retry-After: soon", "HTTP status 429", True, None),
        ("429 Retry-After: -5", "HTTP status 429", True, None),
        ("408", "HTTP status 408", True, None),
        ("404", "HTTP status 404", False, None),
        ("410", "HTTP status 410", False, None),
        ("garbage", "what answers there does not speak HTTP (BadStatusLine)", True, None),
    ],
)
def test_what_a_server_says_decides_whether_it_is_tried_again(
    answer: str, text: str, again: bool | None, after_s: float | None
) -> None:
    with hook_server(answer) as server:
        outcome = sender.send_webhook(order(server.url()))
    assert (said(outcome), outcome.get("again"), outcome.get("after_s")) == (text, again, after_s)


def test_a_date_says_when_to_come_back() -> None:
    date = email.utils.format_datetime(
        datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=600), usegmt=True
    )
    after = sender.seconds_of(date)
    assert after is not None and 500 < after <= 600
    assert sender.seconds_of("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0


def test_a_redirect_is_not_followed() -> None:
    with hook_server() as other, hook_server(f"302 Location: {other.url()}") as server:
        outcome = sender.send_webhook(order(server.url()))
        assert said(outcome) == "HTTP status 302: it is redirected, and notices follow no redirects"
        assert outcome["again"] is False and not other.received


@pytest.mark.parametrize("answer", ["wait", "drip"])
def test_one_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setitem(sender._SEND, "webhook", (sender.send_webhook, 0.5))
    with hook_server(answer) as server:
        outcome = sender.bounded(order(server.url()))
    assert (said(outcome), outcome["again"]) == ("no answer within 0 seconds", True)


def test_an_answer_without_end_is_not_read() -> None:
    with hook_server("flood") as server:
        assert sender.send_webhook(order(server.url())) == {}
        assert server.broken_off.wait(PATIENCE_S)


def test_nobody_there_and_no_such_name() -> None:
    with hook_server() as server:
        url = server.url()
    assert said(sender.send_webhook(order(url))) == "no connection: Connection refused"
    outcome = sender.send_webhook(order("http://nosuchhost.invalid/S3CR3T"))
    assert said(outcome).startswith("no connection: ") and outcome["again"] is True
    with hook_server("cut") as server:
        outcome = sender.send_webhook(order(server.url()))
    assert outcome["again"] is True and "RemoteDisconnected" in said(outcome)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://h/x", "gopher://h", "http://", "/etc/passwd", ""])
def test_nothing_but_http_is_ever_opened(url: str) -> None:
    assert sender.send_webhook(order(url)) == {"problem": "notice.no_url", "values": [], "again": False}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Path]:
    folder = tmp_path_factory.mktemp("tls")
    return make_authority(str(folder), "notices", 30), folder


def test_https_is_checked(authority: tuple[Authority, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    signer, folder = authority
    write_certificate(folder, signer, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "localhost.crt", folder / "localhost.key")
    with hook_server(tls=context) as server:
        url = server.url().replace("127.0.0.1", "localhost")
        outcome = sender.send_webhook(order(url))
        assert said(outcome) == "no secure connection: CERTIFICATE_VERIFY_FAILED" and outcome["again"] is True
        assert not server.received
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.crt"))
        assert sender.send_webhook(order(url)) == {}
        assert said(sender.send_webhook(order(server.url()))).startswith("no secure connection: ")  # not its name


def test_a_proxy_is_asked_where_the_site_has_one() -> None:
    with hook_server() as proxy:
        at = f"http://127.0.0.1:{proxy.port}"
        assert sender.send_webhook(order("http://hooks.invalid/a?b", proxy=at)) == {}
        assert proxy.wait().target == "http://hooks.invalid/a?b"
        proxy.answers.append("403")
        assert said(sender.send_webhook(order("https://hooks.invalid/S3CR3T", proxy=at))).startswith("no connection")
        connect = proxy.wait()
        assert (connect.method, connect.target) == ("CONNECT", "hooks.invalid:443")


def program(folder: Path, text: str) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_a_program_gets_the_notice_as_its_input(tmp_path: Path) -> None:
    path = program(tmp_path, f'printf "%s|" "$@" "$GSCHED_NOTICE_EVENT" > {tmp_path}/out; cat >> {tmp_path}/out')
    outcome = sender.send_command(order(f"{path} 'a b' \"c'd\"", "command", environment={"GSCHED_NOTICE_EVENT": "end"}))
    assert outcome == {} and (tmp_path / "out").read_text() == 'a b|c\'d|end|{"text": "안녕"}'


def test_a_program_that_fails_floods_or_does_not_read(tmp_path: Path) -> None:
    outcome = sender.send_command(order(program(tmp_path, "exit 3"), "command", body="x" * 1_000_000))
    assert (said(outcome), outcome["again"]) == ("the program ended with exit code 3", True)
    assert sender.send_command(order(program(tmp_path, "head -c 50000000 /dev/zero"), "command")) == {}
    outcome = sender.send_command(order(f"{tmp_path}/nosuch", "command"))
    assert (said(outcome), outcome["again"]) == ("the program cannot be run: No such file or directory", False)


def test_a_program_that_hangs_ends_with_what_it_has_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "COMMAND_S", 6.0)
    path = program(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
    outcome = sender.send_command(order(path, "command"))
    assert said(outcome).startswith("no answer within")
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z":
        assert time.monotonic() < deadline
        os.sched_yield()


def mail(program: str, **more: Any) -> dict[str, Any]:
    how = {"subject": "Job 1 (안녕)", "sender": "LSF System <ann@h>", "message_id": "ab12@h", "mail_server": ""}
    return order("ann@site", "mail", mail_program=program, **(how | more))


def test_mail_goes_by_the_site_s_program_under_the_same_id(tmp_path: Path) -> None:
    path = program(tmp_path, f'echo "$@" > {tmp_path}/args; cat > {tmp_path}/mail')
    assert sender.send_mail(mail(f"{path} -oi")) == {}
    assert (tmp_path / "args").read_text() == "-oi ann@site\n"
    assert "Message-ID: <ab12@h>\n" in (tmp_path / "mail").read_text()
    outcome = sender.send_mail(mail(program(tmp_path, "echo no room >&2; exit 75")))
    assert (said(outcome), outcome["again"]) == (f"{path} failed with exit code 75: no room", True)


def test_a_run_writes_down_each_try_before_and_after_it() -> None:
    with hook_server("500") as server:
        lines = run_sender(order(server.url(), notice_id="a1"), order(server.url(), notice_id="b2", **{"try": 4}))
    assert lines[0] == "try a1 1" and lines[2:] == ["try b2 4", "end b2 4 {}"]
    assert json.loads(lines[1].removeprefix("end a1 1 "))["problem"] == "notice.http"


def test_who_does_not_answer_is_left_alone_for_the_rest_of_the_run() -> None:
    with hook_server() as server:
        gone = server.url()
    with hook_server() as there:
        lines = run_sender(order(gone, notice_id="a1"), order(gone, notice_id="b2"), order(there.url(), notice_id="c3"))
    assert [line.partition(" {")[0] for line in lines] == ["try a1 1", "end a1 1", "skip b2", "try c3 1", "end c3 1"]


def test_a_run_begins_nothing_after_its_time() -> None:
    with hook_server() as server:
        assert run_sender(order(server.url()), limit_s=0.0) == []


def test_where_it_goes_is_neither_in_arguments_nor_in_the_environment_nor_in_the_journal() -> None:
    with hook_server("wait") as server:
        seen = _while_it_waits(server)
    assert "S3CR3T" not in seen["cmdline"] and "S3CR3T" not in seen["environ"]
    assert "S3CR3T" not in seen["journal"] and seen["journal"].startswith("try ab12 1\nend ab12 1 {}")


def _while_it_waits(server: HookServer) -> dict[str, str]:
    batch = json.dumps({"limit_s": 60, "deliveries": [order(server.url())]}).encode()
    words = [sys.executable, "-I", "-S", "-X", "utf8", "-c", PRELUDE, *ROOTS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(batch)
        process.stdin.close()
        server.wait()
        seen = {name: _shown(Path(f"/proc/{process.pid}/{name}")) for name in ("cmdline", "environ")}
        server.go_on.set()
        seen["journal"] = process.stdout.read().decode()
    return seen


def _shown(path: Path) -> str:
    """Nothing where not even the user may read it: the sender cannot be traced."""
    try:
        return path.read_bytes().decode()
    except PermissionError:
        assert os.geteuid() != 0
        return ""


@pytest.mark.needs_root
def test_no_other_process_of_the_user_looks_into_it() -> None:
    """Where a process cannot be traced, its files in /proc are root's."""
    with hook_server("wait") as server:
        owners: list[int] = []

        def look() -> None:
            server.wait()
            (pid,) = [int(each) for each in os.listdir("/proc") if each.isdigit() and _is_sender(int(each))]
            owners.append(os.stat(f"/proc/{pid}/environ").st_uid)
            server.go_on.set()

        thread = threading.Thread(target=look)
        thread.start()
        batch = json.dumps({"limit_s": 60, "deliveries": [order(server.url())]})
        words = [sys.executable, "-I", "-S", "-c", _WITHOUT_IMPORT_RIGHTS, *ROOTS]
        subprocess.run(words, input=batch, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        thread.join(PATIENCE_S)
    assert owners == [0]


_WITHOUT_IMPORT_RIGHTS = """
import sys; sys.path += sys.argv[1:3]
import http.client, ssl, urllib.parse, ctypes, os, encodings.idna
from gsched.agent.notices import sender
text = sys.stdin.buffer.read()
os.setresuid(12345, 12345, 12345)
sender.main(text)
"""


def _is_sender(pid: int) -> bool:
    try:
        return b"setresuid(12345" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
