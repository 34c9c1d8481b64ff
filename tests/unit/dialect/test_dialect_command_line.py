"""Command words as the shell on the execution host will see them, tried with a real /bin/sh."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.dialect.command_line import drops_environment, ends_in_background, join_words
from tests.support.property_examples import examples


def through_sh(words: list[str]) -> list[str]:
    """The words that printf gets when sh runs the joined line."""
    line = join_words(["printf", "%s\\0", *words], quote_first=False)
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True, timeout=60)
    return done.stdout.decode("utf-8").split("\0")[:-1]


# The format word of printf holds a backslash, which is escaped, so \0 reaches printf as written.
QUOTES = st.text(alphabet="ab \"'\\$`()\n\t가*;&|<>#~!", min_size=1, max_size=12)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(QUOTES.map(lambda text: f"a {text}"), min_size=1, max_size=6))
def test_words_with_blanks_stay_single_words(words: list[str]) -> None:
    assert through_sh(words) == words


@settings(max_examples=examples(13), deadline=None)
@given(st.lists(st.text(alphabet="ab\"'\\()=-/.:,@%+가", min_size=0, max_size=10), min_size=1, max_size=6))
def test_words_with_quotes_stay_single_words(words: list[str]) -> None:
    assert through_sh(words) == words


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["a; b > c"], "a; b > c"),
        (["sh", "-c", "a; b"], 'sh -c "a; b"'),
        (["sh", "-c", 'echo "$X"'], "sh -c 'echo \"$X\"'"),
        (["echo", "it's $X ok"], "echo 'it'\\''s $X ok'"),
        (["echo", "$HOME"], "echo '$HOME'"),
        (["echo", "a$HOME", "$"], "echo a$HOME '$'"),
        (["prog", ">", "out", "&&", "next"], "prog > out && next"),
        (["echo", "f(x)", 'say"hi"', "back\\slash"], 'echo f\\(x\\) say\\"hi\\" back\\\\slash'),
        (["echo", ""], 'echo ""'),
        (["sudo", "LD_LIBRARY_PATH=/opt/a:/opt/b", "time", "./x.sh"], "sudo LD_LIBRARY_PATH=/opt/a:/opt/b time ./x.sh"),
        ([], ""),
    ],
)
def test_effects_of_the_original(words: list[str], line: str) -> None:
    assert join_words(words) == line


def test_the_first_word_is_quoted_on_request() -> None:
    assert join_words(["my prog", "x"], quote_first=True) == '"my prog" x'


@pytest.mark.parametrize(
    ("command", "drops"),
    [
        ("sudo LD_LIBRARY_PATH=/opt/lib time ./train.sh", True),
        ("env A=1 /usr/bin/sudo -u alice ./train.sh", True),
        ("time sudo ./train.sh -E", True),
        ("sudo -ualice -n python -E x", True),
        ("sudo --preserve-env=PATH,HOME x", True),
        ("sudo -E ./train.sh", False),
        ("sudo -nE ./train.sh", False),
        ("sudo -u alice -E ./train.sh", False),
        ("sudo --preserve-env ./train.sh", False),
        ("sudo --preserve-env=PATH,CUDA_VISIBLE_DEVICES ./x", False),
        ("sudo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES ./x", False),
        ("echo sudo", False),
        ("./sudoku", False),
        ("sudo 'open quote", False),
        ("", False),
        ("sudo", True),
    ],
)
def test_sudo_that_drops_the_environment(command: str, drops: bool) -> None:
    assert drops_environment(command) is drops


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("./server &", True),
        ("nohup ./server > log 2>&1 &", True),
        ("#!/bin/sh\n./a &\n./b &\n# end\n\n", True),
        ("./a & wait", False),
        ("./a &\nwait\n", False),
        ("./a &&", False),
        ("echo \\\\&", False),
        ("echo 'x &", False),
        ("exec 3>&", False),
        ("", False),
    ],
)
def test_commands_that_are_left_in_the_background(text: str, left: bool) -> None:
    assert ends_in_background(text) is left
