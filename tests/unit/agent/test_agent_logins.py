"""Logins by ssh: who is let in, who may ask, and what gsched-pam does when nobody answers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.agent.logins import login_server
from gsched.agent.logins.login_askers import Asker, Opener
from gsched.agent.logins.login_rules import LoginAnswer, LoginJob, LoginVerdict, judge_login
from gsched.agent.logins.login_server import LoginServer
from gsched.agent.logins.login_sessions import HostLogins
from gsched.app import pam_exec
from gsched.base.ids import element_id
from gsched.model.config import SshAccess
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.wire.identity.socket_peer import Peer
from tests.support.folders import new_folder

OLD, NEW = LoginJob((7, 1), 100.0), LoginJob((9, 2), 200.0)
SCRIPT = Path(sys.executable).with_name("gsched-pam")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for sockets."""
    folder = new_folder()
    yield folder
    shutil.rmtree(folder)


def judged(
    *jobs: LoginJob, wanted: str = "", is_admin: bool = False, access: SshAccess = SshAccess.REFUSE
) -> tuple[LoginAnswer, AttemptKey | None]:
    verdict = judge_login("alice", "h1", jobs, wanted=wanted, is_admin=is_admin, access=access)
    assert bool(verdict.line) == (verdict.answer is LoginAnswer.REFUSED)
    return verdict.answer, verdict.key


def test_nobody_is_let_in_by_default() -> None:
    refused = (LoginAnswer.REFUSED, None)
    assert judged() == refused
    assert judged(LoginJob((7, 1), 1.0, is_suspended=True)) == refused
    assert judged(OLD, wanted="8") == judged(OLD, wanted="8", access=SshAccess.OPEN) == refused
    assert judged(LoginJob((7, 1), 1.0, is_suspended=True), wanted="7", access=SshAccess.OPEN) == refused


def test_the_newest_job_is_joined_or_the_one_that_is_named() -> None:
    assert judged(NEW, OLD) == judged(OLD, NEW) == (LoginAnswer.JOIN, (9, 2))
    assert judged(OLD, NEW, wanted="7") == (LoginAnswer.JOIN, (7, 1))
    asleep = LoginJob((9, 2), 200.0, is_suspended=True)
    assert judged(OLD, asleep) == (LoginAnswer.JOIN, (7, 1))
    element = LoginJob((element_id(7, 3), 1), 300.0)
    assert judged(element, NEW, wanted="7[3]") == judged(element, NEW, wanted="7") == (LoginAnswer.JOIN, element.key)


def test_without_a_job_it_is_as_configured() -> None:
    assert judged(access=SshAccess.NO_GPU) == (LoginAnswer.NO_GPU, None)
    assert judged(access=SshAccess.OPEN) == (LoginAnswer.FREE, None)
    assert judged(OLD, access=SshAccess.OPEN) == (LoginAnswer.JOIN, (7, 1))


def test_an_administrator_comes_in_as_is_or_joins_the_job_that_is_named() -> None:
    assert judged(OLD, is_admin=True) == judged(is_admin=True) == (LoginAnswer.FREE, None)
    assert judged(OLD, is_admin=True, wanted="7") == (LoginAnswer.JOIN, (7, 1))


class Logins(HostLogins):
    """Lets everybody in, and notes who was asked about."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int | None]] = []

    async def admit(self, user: str, uid: int, wanted: str, opener: Opener | None) -> LoginVerdict:
        self.asked.append((user, wanted, opener.process.pid if opener is not None else None))
        return LoginVerdict(LoginAnswer.FREE)

    async def describe(self, asker: Asker, wanted: str) -> tuple[dict[str, str], str]:
        return {"ASKED": f"{asker.uid} {wanted}"}, ""


def asked(place: Path, name: str, *lines: bytes) -> list[dict[str, object]]:
    """What the server answers to these lines; the empty dictionary where it hangs up."""
    logins = Logins()

    async def run() -> list[dict[str, object]]:
        server = LoginServer(str(place), logins)
        await server.open()
        found = []
        for line in lines:
            reader, writer = await asyncio.open_unix_connection(str(place / name))
            writer.write(line)
            found.append(json.loads(await reader.readline() or b"{}"))
            writer.close()
        server.close()
        assert not (place / name).exists()
        return found

    told = asyncio.run(run())
    told.append({"asked": logins.asked})
    return told


def test_only_root_asks_for_logins(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps({"user": "root", "type": "account", "job": "7"}).encode() + b"\n"
    monkeypatch.setattr(login_server, "peer_of", lambda _: Peer(os.getpid(), 1000, 1000))
    refused, of_logins = asked(place, login_server.LOGIN_SOCKET, line)
    assert refused == {"answer": "refused", "line": "only root asks for logins"} and of_logins == {"asked": []}
    (in_session, _) = asked(place, login_server.SESSION_SOCKET, b'{"job": "8"}\n')
    assert in_session == {"environment": {"ASKED": "1000 8"}, "line": ""}
    monkeypatch.setattr(login_server, "peer_of", lambda _: Peer(os.getpid(), 0, 0))
    free, of_logins = asked(place, login_server.LOGIN_SOCKET, line)
    assert free == {"answer": "free", "line": ""} and of_logins == {"asked": [("root", "7", None)]}


def test_what_is_no_question_is_not_answered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_server, "peer_of", lambda _: Peer(1, 0, 0))
    nobody = b'{"user": "no such user \\u0000", "type": "account"}\n'
    opened = b'{"user": "root", "type": "open_session"}\n'  # init has no parent whose session it could be
    rubbish = (b"\n", b"[1]\n", b"\xff\xfe\n", b"{" * 3000 + b"\n", b"x" * 200_000 + b"\n")
    *none, unknown, unopened, of_logins = asked(place, login_server.LOGIN_SOCKET, *rubbish, nobody, opened)
    assert none == [{}] * len(rubbish)
    assert unknown["answer"] == unopened["answer"] == "refused" and of_logins == {"asked": []}


def test_both_ends_have_the_same_names() -> None:
    ends = (login_server, pam_exec)
    assert len({(end.LOGIN_SOCKET, end.SESSION_SOCKET) for end in ends}) == 1
    assert {str(answer) for answer in LoginAnswer} - {"refused"} == {*pam_exec.LETS_IN}
    heavy = (
        "import sys, gsched.app.pam_exec; sys.exit(any(name in sys.modules for name in ('grpc', 'msgspec', 'click')))"
    )
    assert subprocess.run([sys.executable, "-c", heavy], timeout=60, check=False).returncode == 0


def login(monkeypatch: pytest.MonkeyPatch, conf: Path, user: str = "alice", kind: str = "account") -> int:
    monkeypatch.setenv("PAM_USER", user)
    monkeypatch.setenv("PAM_TYPE", kind)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    return pam_exec.main(["--envdir", str(conf)])


def test_an_agent_that_is_not_roots_lets_nobody_in(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "lsf.conf").write_text(f"# GSCHED_RUNDIR=/nowhere\nGSCHED_RUNDIR={place}  # ours\n")
    (place / "agent").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(place / "agent" / pam_exec.LOGIN_SOCKET))
        was = os.geteuid()
        if was == 0:
            os.seteuid(65534)  # the kernel keeps who it is that listens
        listening.listen()
        os.seteuid(was)
        assert login(monkeypatch, place) == 1
    shown = capsys.readouterr().out
    assert "login.sock is not root's" in shown and shown.startswith("gsched: the agent") and shown.count("\n") == 1


def test_without_an_agent_root_alone_comes_in(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert login(monkeypatch, place) == login(monkeypatch, place, kind="open_session") == 1
    assert login(monkeypatch, place, "root") == login(monkeypatch, place, kind="close_session") == 0
    assert login(monkeypatch, place, user="") == 2
    assert pam_exec.main(["--envdir", "relative"]) == 2 and pam_exec.main(["--sesion"]) == 2
    assert "--sesion: not an option" in capsys.readouterr().err


def test_the_environment_leads_gsched_pam_nowhere(tmp_path: Path) -> None:
    """What PAM hands on may be the user's: bash and Python read nothing of it."""
    wrong = f"open({str(tmp_path / 'read')!r}, 'w')\n"
    for name in ("gsched/__init__", "gsched/app/__init__", "gsched/app/pam_exec", "socket", "sitecustomize"):
        (tmp_path / f"{name}.py").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.py").write_text(wrong)
    (tmp_path / "env.sh").write_text(f"touch {str(tmp_path / 'read')!r}\n")
    env = {
        "BASH_ENV": str(tmp_path / "env.sh"),
        "ENV": str(tmp_path / "env.sh"),
        "BASH_FUNC_exec%%": f"() {{ touch '{tmp_path / 'read'}'; }}",
        "PYTHONPATH": str(tmp_path),
        "PYTHONHOME": str(tmp_path),
        "PATH": str(tmp_path),
        "GSCHED_ENVDIR": str(tmp_path),
    }
    done = subprocess.run(
        [str(SCRIPT), "--help"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == pam_exec.USAGE and not (tmp_path / "read").exists()
