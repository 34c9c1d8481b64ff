"""The prompt of gadmin (badmin) and lsadmin: lines of a pipe and of a terminal, what is kept of them, completion."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gsched.app.commands.groups import gadmin, lsadmin
from gsched.app.commands.prompt import prompt_history
from gsched.app.commands.prompt.administration_prompt import candidates
from gsched.app.commands.prompt.prompt_history import PromptHistory, history_path
from tests.support.terminal import HAS_TERMINAL, PATIENCE_S, Terminal

START = "import sys; sys.argv = [{name!r}]; from gsched.app.entry import {function}; {function}()"


def command(name: str, function: str = "") -> list[str]:
    return [sys.executable, "-X", "utf8", "-c", START.format(name=name, function=function or name)]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own, and no cluster."""
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"}


@pytest.fixture
def badmin(home: dict[str, str]) -> Iterator[Terminal]:
    screen = Terminal(
        lambda theirs: subprocess.Popen(
            [*HAS_TERMINAL, *command("badmin", "gadmin")], stdin=theirs, stdout=theirs, stderr=theirs, env=home
        )
    )
    yield screen
    screen.close()


def piped(home: dict[str, str], lines: bytes, name: str = "badmin") -> tuple[int, str, str]:
    done = subprocess.run(
        command(name, "lsadmin" if name == "lsadmin" else "gadmin"),
        input=lines,
        capture_output=True,
        env=home,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_lines_of_a_pipe_are_carried_out_and_none_ends_it(home: dict[str, str]) -> None:
    code, out, err = piped(home, b"# a comment\n\nnosuch\nperfmon view\nhclose 'a\nhelp hclose\nquit\nnever\n")
    assert (code, out[:35]) == (0, "Usage: badmin hclose [OPTIONS] [HOS")
    assert err == (
        "Invalid command <nosuch> \nhelp lists the commands\n"
        "badmin: perfmon is not supported; gadmin metrics shows what the master counts and times\n"
        "badmin: line 5: hclose 'a: No closing quotation\n"
    )
    assert not list(Path(home["HOME"]).iterdir())  # a script leaves no history


@pytest.mark.parametrize(
    ("name", "lines", "code"),
    [
        ("badmin", b"", 0),
        ("badmin", b"help", 0),
        ("badmin", b"nosuch\nhelp\n", 255),
        ("gadmin", b"nosuch\nhelp\n", 1),
        ("lsadmin", b"hclose\n? limlock limunlock\n", 255),
        ("lsadmin", b"hclose\nexit", 0),
        ("badmin", b"hclose -C \xff\xfe\n", 255),
    ],
)
def test_a_script_sees_that_a_line_has_failed(home: dict[str, str], name: str, lines: bytes, code: int) -> None:
    found, _, err = piped(home, lines, name)
    assert found == code and "Traceback" not in err


def test_no_input_at_all(home: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" <&-', "bash", *command("lsadmin")], env=home, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_nobody_reads_the_output_any_more(home: dict[str, str]) -> None:
    process = subprocess.Popen(
        command("badmin", "gadmin"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=home
    )
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(b"help\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b"nosuch\n")
    process.stdin.close()
    assert (process.stderr.read(), process.wait(PATIENCE_S)) == (b"", 141)
    process.stderr.close()


def given_up(badmin: Terminal) -> None:
    """Press Ctrl-C; again where Python has not noticed: it looks a moment before it waits for the next key."""
    ended = rb"badmin> half a line(\^C)?\r\nbadmin> $"
    while not re.search(ended, badmin.text):
        badmin.type(b"\x03")
        with suppress(AssertionError):
            badmin.until(ended, patience_s=5.0)


def test_a_terminal(badmin: Terminal, home: dict[str, str]) -> None:
    badmin.until(rb"badmin> ")
    badmin.type(b"nosuch one\r")
    badmin.until(rb"Invalid command <nosuch> \r\nhelp lists the commands\r\nbadmin> ")
    badmin.type(b"hclo\t -h\r")
    badmin.until(rb"Usage: badmin hclose (?s:.)*badmin> ")
    badmin.type(b"half a line")
    badmin.until(rb"badmin> half a line$")
    given_up(badmin)
    badmin.type(b"  \r")
    badmin.until(rb"badmin> ", is_new=True)
    badmin.type(b"\x1b[A\x1b[A\r")  # the line before the last
    badmin.until(rb"Invalid command <nosuch> \r\n.*\r\nbadmin> ", is_new=True)
    badmin.type(b"\x04")
    assert badmin.ends() == 0
    kept = Path(home["HOME"], ".local/state/gsched/gadmin_history")
    assert kept.read_text() == "nosuch one\nhclose  -h\nnosuch one\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_quit_on_a_terminal(badmin: Terminal) -> None:
    badmin.until(rb"badmin> ")
    badmin.type(b"qact --nosuch\rquit\r")
    assert badmin.ends() == 0
    assert b"No such option" in badmin.text


def test_completion() -> None:
    assert candidates(gadmin, [], "hclo") == ["hclose"]
    assert {"help", "?", "quit", "ckconfig"} <= set(candidates(lsadmin, [], ""))
    assert candidates(gadmin, ["help"], "mbdh") == ["mbdhist"]
    assert candidates(gadmin, ["hclose"], "--e") == ["--envdir"]
    assert candidates(gadmin, ["hclose"], "") == [] and candidates(gadmin, ["nosuch"], "-") == []


def test_the_history_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_history, "MOST_LINES", 3)
    history = PromptHistory(str(tmp_path / "kept"))
    assert history.lines() == []
    for number in range(7):
        history.add(f"hclose {number}")
    assert history.lines() == ["hclose 4", "hclose 5", "hclose 6"]
    assert (tmp_path / "kept").read_text() == "hclose 4\nhclose 5\nhclose 6\n"
    monkeypatch.setattr(prompt_history, "MOST_BYTES", 12)
    assert history.lines() == ["hclose 6"]


def test_a_history_with_what_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"hclose \xff\nwith a \0 in it\n")
    history = PromptHistory(str(tmp_path / "kept"))
    assert history.lines() == ["hclose \udcff"]
    history.add("hopen \udcff")
    assert history.lines() == ["hclose \udcff", "hopen \udcff"]


def test_a_history_that_others_may_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "kept").touch(mode=0o644)
    PromptHistory(str(tmp_path / "kept")).add("hclose")
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o600


def test_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    assert history_path("gadmin") == ""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_path("gadmin") == str(tmp_path / "gsched/gadmin_history")
    # The home of somebody else, as root may have it under sudo.
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert history_path("gadmin") == ""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for history in (PromptHistory(""), PromptHistory(str(tmp_path / "link"))):
        history.add("hclose")
        assert history.lines() == []
    assert not (tmp_path / "elsewhere").exists()
