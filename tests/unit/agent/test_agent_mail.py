"""Mail about jobs, by a program and by a server."""

from __future__ import annotations

import os
import pwd
import socket
import tempfile
import threading
from pathlib import Path

import msgspec
import pytest
from fork_server import run

from gsched.agent.output.mail import send
from gsched.run.account import look_up
from gsched.run.order import Mail
from gsched.run.report.job_report import ReportFacts

FACTS = ReportFacts(
    job="7",
    name="n",
    command="c",
    sender="ann@h",
    cluster="c",
    submit_host="h",
    user="ann",
    hosts=(("h", 1),),
    queue="normal",
    submitted_at=0.0,
    dispatched_at=0.0,
)


def mail(**how: str) -> Mail:
    return Mail(to="ann@site", sender="LSF System <ann@h>", facts=FACTS, **how)


def program(folder: Path, text: str) -> str:
    path = folder / "mailer"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return f"{path} -oi"


def test_a_program_is_given_the_address_and_the_mail(tmp_path):
    send(
        mail(program=program(tmp_path, f'echo "$@" > {tmp_path}/args; cat > {tmp_path}/mail')),
        "한글\nDone",
        "결과 \udcff\n",
        run,
    )
    assert (tmp_path / "args").read_text() == "-oi ann@site\n"
    from email import policy
    from email.parser import BytesParser

    got = BytesParser(policy=policy.default).parsebytes((tmp_path / "mail").read_bytes())
    assert (got["To"], got["Subject"], got["From"]) == ("ann@site", "한글 Done", "LSF System <ann@h>")
    assert got.get_content() == "결과 \ufffd\n"


@pytest.mark.parametrize(
    "to", ["-oQ/tmp/x", "|/bin/sh", "/etc/passwd", ":include:/x", "a b", "a\nBcc: c", "", "a;b", "$(x)"]
)
def test_what_is_no_address_gets_no_mail(tmp_path, to):
    with pytest.raises(OSError, match="is not an address"):
        send(msgspec.structs.replace(mail(program=program(tmp_path, "exit 0")), to=to), "s", "b", run)


@pytest.mark.parametrize("to", ["ann", "ann@site", "ann.lee+gpu@host.example.org", "김@회사.kr"])
def test_addresses(tmp_path, to):
    send(msgspec.structs.replace(mail(program=program(tmp_path, "exit 0")), to=to), "s", "b", run)


@pytest.mark.needs_root
def test_a_users_mail_is_handed_over_by_that_user():
    account = next(look_up(each.pw_name) for each in pwd.getpwall() if 0 < each.pw_uid < 1000)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        path = folder / "mailer"
        path.write_text(f"#!/bin/sh\n{{ id -u; echo $HOME $LOGNAME; }} > {folder}/out/told\n")
        (folder / "out").mkdir()
        os.chown(folder / "out", account.uid, account.gid)
        for each in (folder, path):
            each.chmod(0o755)
        send(mail(program=str(path)), "s", "b", run, account)
        assert (folder / "out" / "told").read_text() == f"{account.uid}\n{account.home} {account.name}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [("echo no such user >&2; exit 67", "mailer failed with exit code 67: no such user"), (None, "No such file")],
)
def test_a_program_that_fails_is_told_of(tmp_path, text, problem):
    words = program(tmp_path, text) if text else "/nosuch/mailer"
    with pytest.raises(OSError, match=problem):
        send(mail(program=words), "s", "b", run)


def serve(listening: socket.socket, heard: list[bytes], greeting: bytes) -> None:
    connection, _ = listening.accept()
    with connection, connection.makefile("rwb", buffering=0) as file:
        file.write(greeting)
        in_data = False
        for line in file:
            heard.append(line.rstrip())
            if in_data:
                in_data = line != b".\r\n"
                if in_data:
                    continue
            in_data = line.startswith((b"data", b"DATA"))
            if line.lower().startswith(b"quit"):
                file.write(b"221 bye\r\n")
                return
            file.write(b"354 go on\r\n" if in_data else b"250 ok\r\n")


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_a_server_is_given_the_mail(server):
    heard: list[bytes] = []
    thread = threading.Thread(target=serve, args=(server, heard, b"220 hello\r\n"))
    thread.start()
    send(mail(server=f"127.0.0.1:{server.getsockname()[1]}"), "Job 7", "report\n", run)
    thread.join(60)
    assert b"rcpt TO:<ann@site>" in heard and b"Subject: Job 7" in heard and b"report" in heard


def test_a_server_that_refuses_is_told_of(server):
    thread = threading.Thread(target=serve, args=(server, [], b"554 go away\r\n"))
    thread.start()
    with pytest.raises(OSError, match="go away"):
        send(mail(server=f"127.0.0.1:{server.getsockname()[1]}"), "Job 7", "report\n", run)
    thread.join(60)
