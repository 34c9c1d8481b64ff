"""Whose jobs an agent starts, as whom, and what it says of those that it does not start."""

from __future__ import annotations

import asyncio
import resource
import stat
import threading
from pathlib import Path

import pytest

from gsched.agent import daemon
from gsched.agent.attempts import job_accounts as module
from gsched.agent.attempts import pam_limits
from gsched.agent.attempts.job_accounts import HostAccounts, Login
from gsched.agent.attempts.job_environment import login_variables
from gsched.agent.attempts.pam_limits import PamLimits, parse_limits
from gsched.base.errors import Conflict, GschedError, NotFound, ResourceExhausted
from gsched.config.configuration import load
from gsched.config.template import NewConfiguration, write_private
from gsched.model.config import Locations
from gsched.run.account import UnixAccount
from gsched.wire.identity.caller_identity import user_name

ALICE = UnixAccount(name="alice", uid=1000, gid=100, groups=(100, 200), home="/home/alice", shell="/bin/zsh")
ROOT = UnixAccount(name="root", uid=0, gid=0, home="/root")


def find(name: str) -> UnixAccount:
    known = {each.name: each for each in (ALICE, ROOT)}
    if name not in known:
        raise LookupError
    return known[name]


def login(user: str, **more: object) -> Login:
    async def ask() -> Login:
        accounts = HostAccounts("h1", **{"uid": 0, "find": find, **more})  # type: ignore[arg-type]
        return await accounts.login(user)

    return asyncio.run(ask())


def test_an_agent_of_root_starts_jobs_as_their_users() -> None:
    assert login("alice") == Login(ALICE)
    assert login("alice", site_user="root") == Login(ALICE, site=ROOT)
    assert login("root", site_user="root") == Login(None, site=ROOT)
    assert HostAccounts("h1", uid=0).only_user == ""


@pytest.mark.parametrize(
    ("user", "more", "kind", "told"),
    [
        ("bob", {}, NotFound, "there is no user bob on host h1"),
        ("alice", {"site_user": "bob"}, NotFound, "there is no user bob on host h1"),
        ("root", {"root_may_run": False}, Conflict, "jobs of root are not started on h1 (LSF_ROOT_USER)"),
        ("alice", {"uid": 54321}, Conflict, "the agent of h1 is not root's: it starts jobs of 54321, not of alice"),
    ],
)
def test_who_cannot_be_served_is_told_why(
    user: str, more: dict[str, object], kind: type[GschedError], told: str
) -> None:
    with pytest.raises(kind) as caught:
        login(user, **more)
    assert str(caught.value) == told


def test_an_agent_of_somebody_starts_that_users_jobs_and_says_so() -> None:
    own = HostAccounts("h1", uid=54321)
    assert own.only_user == user_name(54321) == "54321"
    assert login("54321", uid=54321) == Login()


def test_a_directory_of_users_is_asked_now_and_then_and_may_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    hangs = False
    going_on = threading.Event()

    def slow(name: str) -> UnixAccount:
        asked.append(name)
        if hangs:
            going_on.wait(60)
        return find(name)

    async def story() -> None:
        nonlocal hangs
        users = HostAccounts("h1", uid=0, find=slow)
        await asyncio.gather(users.login("alice"))
        await users.login("alice")
        assert asked == ["alice"]
        hangs = True
        monkeypatch.setattr(module, "PATIENCE_S", 0.05)
        with pytest.raises(ResourceExhausted, match="user root cannot be looked up on host h1: the directory of users"):
            await users.login("root")
        monkeypatch.setattr(module, "KEEP_S", 0.0)
        assert (await users.login("alice")).account == ALICE  # as it was before
        going_on.set()

    asyncio.run(story())


def test_a_login_without_a_shell_runs_scripts_all_the_same() -> None:
    assert login_variables(ALICE) == {
        "HOME": "/home/alice",
        "USER": "alice",
        "LOGNAME": "alice",
        "SHELL": "/bin/zsh",
    }
    nologin = UnixAccount(name="svc", uid=1001, gid=1001, shell="/usr/sbin/nologin")
    assert login_variables(nologin)["SHELL"] == "/bin/sh"


def test_limits_are_read_as_the_kernel_prints_them() -> None:
    limits = {kind: (soft, hard) for kind, soft, hard in parse_limits(Path("/proc/self/limits").read_text())}
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC, resource.RLIMIT_STACK):
        assert limits[kind] == resource.getrlimit(kind)
    assert parse_limits("Max unheard of            1      2      things\nnonsense\n") == ()


WAITS = "echo opened; read end; echo end"
"""What a session says, and how long it is there."""


def pam(folder: Path, text: str) -> tuple[PamLimits, Path]:
    program = folder / "session"
    program.write_text(f"#!/bin/sh\necho asked >> {folder}/asked\n{text}\n")
    program.chmod(stat.S_IRWXU)
    (folder / "limits.conf").write_text("")
    return PamLimits([str(program)], [str(folder / "limits.conf")]), folder / "asked"


def test_a_session_is_asked_for_once_and_anew_when_its_files_change(tmp_path: Path) -> None:
    limits, asked = pam(tmp_path, f'[ "$*" = alice ] && ulimit -Sn 333 && {WAITS}')

    async def story() -> None:
        first, second = await asyncio.gather(limits.of("alice"), limits.of("alice"))
        assert first == second and (resource.RLIMIT_NOFILE, 333) in {each[:2] for each in first}
        await limits.of("alice")
        assert asked.read_text() == "asked\n"
        (tmp_path / "limits.conf").write_text("* hard nofile 1\n")
        await limits.of("alice")
        assert asked.read_text() == "asked\n" * 2

    asyncio.run(story())


def test_after_a_while_it_is_asked_again_and_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits, asked = pam(tmp_path, f'n=$(wc -l < "${{0%/*}}/asked"); ulimit -Sn $((300 + n)); {WAITS}')

    def files(granted: pam_limits.Granted) -> int:
        return next(soft for kind, soft, _ in granted if kind == resource.RLIMIT_NOFILE)

    async def story() -> None:
        assert files(await limits.of("alice")) == 301
        monkeypatch.setattr(pam_limits, "KEEP_S", 0.0)
        assert files(await limits.of("alice")) == 301
        monkeypatch.setattr(pam_limits, "KEEP_S", 300.0)
        assert files(await limits.of("alice")) == 302
        assert asked.read_text() == "asked\n" * 2

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo no session >&2; exit 1", "no session"),
        ("exit 7", "code 7"),
        ("exec sleep 60", "longer"),
        ("echo opened; exec sleep 60", "longer"),
        ("echo opened; exit 3", "code 3"),
        (f"{WAITS}; echo more", "code 0"),
    ],
)
def test_a_session_that_cannot_be_had_is_told_of(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pam_limits, "PATIENCE_S", 0.5 if told == "longer" else 60.0)
    assert asyncio.run(pam(tmp_path, text)[0].of("alice")) == ()
    assert told in caplog.text and "alice" in caplog.text


def test_who_keeps_a_session_from_opening_has_the_limits_of_before(tmp_path: Path) -> None:
    fails = tmp_path / "fails"
    limits, _ = pam(tmp_path, f"[ ! -e {fails} ] || exit 1; ulimit -n 333; {WAITS}")

    async def story() -> None:
        first = await limits.of("alice")
        assert (resource.RLIMIT_NOFILE, 333, 333) in first
        fails.touch()
        (tmp_path / "limits.conf").write_text("* hard nofile 1\n")
        assert await limits.of("alice") == first

    asyncio.run(story())


def test_who_is_refused_a_session_has_the_limits_that_were_set_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As by maxlogins: nobody has wider limits for being logged in too often."""
    text = "ulimit -n 333; echo Too many logins; read end; echo end"
    granted = asyncio.run(pam(tmp_path, text)[0].of("alice"))
    assert (resource.RLIMIT_NOFILE, 333, 333) in granted
    assert "PAM refuses a session of alice (Too many logins)" in caplog.text


def test_no_program_no_limits(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    assert asyncio.run(PamLimits([str(tmp_path / "none")]).of("alice")) == ()
    assert "No such file" in caplog.text


@pytest.mark.needs_root
@pytest.mark.skipif(not pam_limits.session_words(), reason="PAM has no service runuser")
def test_the_systems_own_session_answers() -> None:
    found = asyncio.run(PamLimits(pam_limits.session_words()).of("root"))
    assert resource.RLIMIT_NOFILE in {kind for kind, _, _ in found}


@pytest.mark.parametrize(("setting", "asks"), [(None, True), (True, True), (False, False)])
def test_a_site_may_do_without_the_limits_of_sessions(
    setting: bool | None, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GSCHED_PAM_LIMITS."""
    program = tmp_path / "session"
    program.write_text(f"#!/bin/sh\nulimit -Sn 333; {WAITS}\n")
    program.chmod(stat.S_IRWXU)
    names = ("state_dir", "log_dir", "server_dir", "run_dir", "spool_dir")
    folders = Locations(conf_dir=str(tmp_path), **{name: f"{tmp_path}/{name}" for name in names})
    write_private(
        str(tmp_path), NewConfiguration(cluster="c", hosts=["h1"], slots=None, folders=folders, gpu_provider="none")
    )
    if setting is not None:
        with (tmp_path / "lsf.conf").open("a") as file:
            file.write(f"GSCHED_PAM_LIMITS={'Y' if setting else 'N'}\n")
    monkeypatch.setattr(daemon.os, "geteuid", lambda: 0)
    monkeypatch.setattr(daemon, "session_words", lambda: (str(program),))
    accounts = daemon._accounts(load(str(tmp_path), "h1").required(), "h1")
    monkeypatch.setattr(accounts, "_find", find)
    granted = asyncio.run(accounts.login("alice")).granted
    assert ((resource.RLIMIT_NOFILE, 333) in {each[:2] for each in granted}) is asks
    assert asks or not granted
