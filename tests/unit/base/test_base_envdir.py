"""One line of lsf.conf for programs that need no more."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from gsched.base.envdir import conf_dir, home_of, read_setting, setting


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
