"""`gsched top` as a word: what it says without its extra, and that no other command loads what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from gsched.app.commands import interface_words
from gsched.base.errors import BadRequest


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface_words, "find_spec", lambda name: None)
    done = CliRunner().invoke(interface_words.top, [])
    assert isinstance(done.exception, BadRequest)
    assert done.exception.text == "this needs textual: pip install 'gsched[top]'"


def test_only_a_screen_loads_textual() -> None:
    loads = "import sys, gsched.app.commands.groups, gsched.app.commands.interface_words, gsched.top.running"
    told = f"{loads}; sys.exit(bool({{'textual', 'rich'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0


def test_other_words_do_not_even_load_the_package() -> None:
    told = "import sys, gsched.app.entry, gsched.app.commands.groups; sys.exit('gsched.top' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0
