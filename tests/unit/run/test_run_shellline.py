"""Lines that are one program run in the shell's place; all others stay what they are."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from run_host import SEARCHED

from gsched.run.shell_line import in_place, plain_words
from tests.support.property_examples import examples


@pytest.mark.parametrize(
    "line",
    [
        "sleep 30",
        "./train.py --lr=0.1 'a; b' \"c | d\" e\\;f",
        "python train.py > log 2>&1 < in",
        "prog $HOME *.txt ~/x",
        "prog it\\'s",
    ],
)
def test_one_program_replaces_the_shell(line):
    assert in_place(f"  {line} ", {}) == f"exec {line}"


@pytest.mark.parametrize(
    "line",
    [
        "a; b",
        "a & b",
        "a&",
        "a && b",
        "a | b",
        "a\nb",
        "(a)",
        "A=1 prog",
        "if x",
        "exit 3",
        "echo hi",
        "cd /tmp",
        ". ./env",
        "$PROG x",
        "'quoted' x",
        "! true",
        "{ a; }",
        "[ -e x ]",
        "> file",
        "prog $(a; b)",
        'prog "$(a "; b")"',
        "prog `a`",
        "prog ${x:-'}",
        "prog 'open",
        "prog open\\",
        "prog &> both",
        "",
        "  ",
        "# nothing",
    ],
)
def test_all_else_is_left_alone(line):
    assert in_place(line, {}) == line


def test_lines_without_anything_to_expand_need_no_shell():
    assert plain_words("exec ./train.py --lr=0.1  x") == ["./train.py", "--lr=0.1", "x"]
    for line in ("exec a 'b'", "exec a $b", "exec a *", "exec a > b", "exec a ~", "exec a # b", "a b", "exec ", "exec"):
        assert plain_words(line) == []


def test_a_function_that_bash_would_find_stays_a_function():
    assert in_place("module load cuda", {"BASH_FUNC_module%%": "() { :; }"}) == "module load cuda"


@settings(max_examples=examples(20), deadline=None)
@given(
    st.lists(st.sampled_from(["ls", "/bin/echo", "a", " ", ";", "&", "'", '"', "\\", "2>&1", "\n", "|", "#", "exit 3"]))
)
@example(["ls", "ls", " ", "2>&1"])
def test_a_line_does_the_same_in_either_form(parts):
    line = "".join(parts)

    def outcome(text: str) -> tuple[int, bytes]:
        done = subprocess.run(
            ["/bin/sh", "-c", text], stdin=subprocess.DEVNULL, capture_output=True, cwd="/", env={"PATH": SEARCHED}
        )
        # Of a command that is not there the shell says so in other words; with 2>&1 they stand in the output.
        return done.returncode, done.stdout.replace(b": exec: ", b": ")

    if in_place(line, {}) != line:
        assert outcome(in_place(line, {})) == outcome(line)
