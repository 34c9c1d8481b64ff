"""`gsched mcp` as a word: what it says without its extra or at a terminal; no other word loads what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from gsched.app.commands import interface_words
from gsched.base.errors import BadRequest
from gsched.mcp import mcp_server


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface_words, "find_spec", lambda name: None)
    done = CliRunner().invoke(interface_words.mcp, [])
    assert isinstance(done.exception, BadRequest)
    assert done.exception.text == "this needs mcp: pip install 'gsched[mcp]'"


def test_nobody_types_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with pytest.raises(BadRequest, match="gsched mcp --help"):
        mcp_server.run("/nowhere", "")


def test_other_words_do_not_load_it() -> None:
    told = "import sys, gsched.app.entry, gsched.app.commands.groups, gsched.app.commands.interface_words; "
    told += "sys.exit(bool({'mcp', 'pydantic', 'gsched.mcp'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0
