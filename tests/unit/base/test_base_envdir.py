"""One line of lsf.conf for programs that need no more."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from gsched.app.clusters.private_home import Home
from gsched.base.envdir import conf_dir, home_of, in_home, read_setting, setting


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('GSCHED_RUNDIR="/a b/#1/run"  # sockets', "/a b/#1/run"),
        ("GSCHED_RUNDIR='/a\"b'", '/a"b'),
        ("GSCHED_RUNDIR = /run/gsched # sockets", "/run/gsched"),
        ("GSCHED_RUNDIRS=/elsewhere", ""),
        ("# GSCHED_RUNDIR=/old", ""),
    ],
)
def test_a_value_with_quotes_comments_and_blanks(tmp_path: Path, line: str, value: str) -> None:
    (tmp_path / "lsf.conf").write_text(f"LSF_LOGDIR=/x\n{line}\n")
    assert read_setting(str(tmp_path), "GSCHED_RUNDIR") == value


def test_the_environment_comes_first_and_a_missing_file_says_nothing(tmp_path: Path) -> None:
    environment = {"GSCHED_ENVDIR": str(tmp_path), "GSCHED_GPU_INTERVAL": "2"}
    assert setting(environment, "GSCHED_GPU_INTERVAL") == "2"
    assert setting(environment, "GSCHED_RUNDIR") == ""
    assert conf_dir({"HOME": str(tmp_path)}) == "/etc/gsched"


def test_home_is_the_environments_else_the_hosts_else_the_top() -> None:
    own = pwd.getpwuid(os.getuid()).pw_dir
    assert home_of(os.getuid(), {"HOME": "/h"}) == "/h"
    assert home_of(os.getuid(), {}) == home_of(os.getuid(), {"HOME": ""}) == own
    assert home_of(4_000_000_000, {}) == "/"


@pytest.mark.parametrize("home", [None, "", "/h", "set"])
def test_up_and_the_commands_look_in_the_same_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    """HOME may be set to nothing: a password entry says more than that."""
    entry = pwd.struct_passwd(("ann", "x", os.getuid(), 1, "", str(tmp_path / "own"), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry)
    for name in ("HOME", "GSCHED_ENVDIR", "LSF_ENVDIR"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", str(tmp_path / "set") if home == "set" else home)
    found = Home.find(None).conf
    assert found == Home.find("~/.gsched").conf
    if home != "/h":
        found.mkdir(parents=True)
        assert conf_dir(os.environ) == str(found)
        assert found == tmp_path / ("set" if home == "set" else "own") / ".gsched" / "conf"


def test_the_home_of_another_user_is_not_that_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pwd.struct_passwd(("bob", "x", 4_000_000_001, 1, "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry if uid == 4_000_000_001 else pwd.getpwnam("root"))
    (tmp_path / ".gsched" / "conf").mkdir(parents=True)
    assert conf_dir({}, 4_000_000_001) == str(tmp_path / ".gsched" / "conf")


def test_a_path_begins_in_the_home_that_the_environment_says() -> None:
    assert in_home("~/a", {"HOME": "/h"}) == "/h/a" and in_home("~", {"HOME": "/h"}) == "/h"
    assert in_home("~root/a", {"HOME": "/h"}) == os.path.join(pwd.getpwnam("root").pw_dir, "a")
    assert in_home("/a/~", {"HOME": "/h"}) == "/a/~"
