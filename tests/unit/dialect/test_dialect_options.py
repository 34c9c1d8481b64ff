"""LSF's option grammar, read by the one reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.options import Option, OptionTable, unsupported

BJOBS = OptionTable(
    summary="show jobs",
    operands="[job ...]",
    options=(
        Option("a", help="finished ones too"),
        Option("l", help="long"),
        Option("p", help="pending"),
        Option("psum", help="reasons counted"),
        Option("noheader", help="no header"),
        Option("o", "FORMAT", "fields", '-o "jobid stat"'),
        Option("J", "NAME", "by name"),
        Option("u", "USER", "by user", "-u all"),
        Option("-at", "TIME", "as it was then"),
        Option("-json", help="JSON"),
        *unsupported("aff", because="it tells nothing"),
        *unsupported("fwd"),
    ),
    interspersed=True,
    examples=("PROGRAM -l 17",),
)


@pytest.mark.parametrize(
    ("words", "given", "rest"),
    [
        (["-n", "8", "prog"], [("n", "8")], ["prog"]),
        (["-n8", "prog", "-n", "9"], [("n", "8")], ["prog", "-n", "9"]),
        (["-qshort", "-oo", "f"], [("q", "short"), ("oo", "f")], []),
        (["-K", "--", "-n", "8"], [("K", "")], ["-n", "8"]),
        (["-R", "a", "-R", "b", "-"], [("R", "a"), ("R", "b")], ["-"]),
        (["-Rselect[ngpus>0]", "-W1:30", "x"], [("R", "select[ngpus>0]"), ("W", "1:30")], ["x"]),
        (["-J", "-5", "x"], [("J", "-5")], ["x"]),
        (["-env all", "-W 5", "-J my job", "prog"], [("env", "all"), ("W", "5"), ("J", "my job")], ["prog"]),
        (
            ["-R  select[mem > 5]", "-o\tout of it", "-K", "x"],
            [("R", "select[mem > 5]"), ("o", "out of it"), ("K", "")],
            ["x"],
        ),
        (["-Jmy job", "-nnodes 2"], [("J", "my job"), ("nnodes", "2")], []),
    ],
)
def test_bsub_words(words: list[str], given: list[tuple[str, str]], rest: list[str]) -> None:
    parsed = BSUB.read(words)
    assert list(parsed.given) == given
    assert parsed.rest == rest


@pytest.mark.parametrize(
    ("words", "given", "rest"),
    [
        (["-noheader", "-aJ", "*uuid*"], [("noheader", ""), ("a", ""), ("J", "*uuid*")], []),
        (["-pl", "-uall", "17"], [("p", ""), ("l", ""), ("u", "all")], ["17"]),
        (["17", "-l", "18", "--", "-a"], [("l", "")], ["17", "18", "-a"]),
        (["-psum"], [("psum", "")], []),
        (["--at=now", "--json", "--at", "then"], [("-at", "now"), ("-json", ""), ("-at", "then")], []),
        (["--at 5 Nov", "--at=5 Nov", "-u all"], [("-at", "5 Nov"), ("-at", "5 Nov"), ("u", "all")], []),
    ],
)
def test_bjobs_words(words: list[str], given: list[tuple[str, str]], rest: list[str]) -> None:
    parsed = BJOBS.read(words)
    assert list(parsed.given) == given
    assert parsed.rest == rest


@pytest.mark.parametrize(
    ("table", "words", "text"),
    [
        (BJOBS, ["-noheadr"], "unknown option -noheadr; did you mean -noheader?"),
        (BJOBS, ["-Z"], "unknown option -Z"),
        (BJOBS, ["--jsn"], "unknown option --jsn; did you mean --json?"),
        (BJOBS, ["--json=1"], "option --json takes no value"),
        (BJOBS, ["-o"], "option -o needs a value (FORMAT)"),
        (BJOBS, ["-aff"], "option -aff is not supported: it tells nothing"),
        (BSUB, ["-q", "-n", "4"], "option -q needs a value (QUEUES); the next word is option -n"),
        (BSUB, ["-oout.txt"], "-oout.txt can be read as -o out.txt or as -oo ut.txt: write a blank between"),
        (BSUB, ["-gpus", "2"], "-gpus can be read as"),
        (
            BSUB,
            ["-rcacct", "sh"],
            "option -rcacct is not supported: there is no resource connector",
        ),
        (
            BSUB,
            ["-rcacct gold", "sh"],
            "option -rcacct is not supported: there is no resource connector",
        ),
        (BSUB, ["-W ", "5"], "option -W needs a value ([HOURS:]MINUTES)"),
        (BSUB, ["-K prog"], "option -K takes no value, and 'prog' stands in one word with it"),
        (BJOBS, ["--at "], "option --at needs a value (TIME)"),
    ],
)
def test_what_cannot_be_read_is_named(table: OptionTable, words: list[str], text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        table.read(words)
    assert caught.value.text.startswith(text)
    assert caught.value.exit_code == 255
    assert "\n" not in caught.value.text


def test_repeated_options() -> None:
    parsed = BSUB.read(["-q", "a", "-R", "x", "-o", "1", "-oo", "2", "-q", "b", "-R", "y"])
    assert parsed.last("q") == "b" and parsed.last("P", "none") == "none"
    assert parsed.all("R") == ("x", "y")
    assert parsed.last_of("o", "oo") == ("oo", "2") and parsed.last_of("e", "eo") is None
    assert parsed.has("e", "o") and not parsed.has("K")


def test_values_that_are_fixed() -> None:
    table = OptionTable("s", "", (Option("sort", "KEY", fixed=frozenset({"cpu", "mem"})),))
    assert table.read(["-sort", "cpu"]).last("sort") == "cpu"
    with pytest.raises(BadRequest, match="option -sort takes cpu or mem, not 'x'"):
        table.read(["-sort", "x"])


def test_help_shows_every_option_that_is_taken() -> None:
    text = BJOBS.help("gjobs")
    lines = text.splitlines()
    assert lines[0] == "gjobs: show jobs" and "Usage: gjobs [options] [job ...]" in lines
    for option in BJOBS.options:
        assert any(line.startswith(f"  -{option.name} ") for line in lines) is not bool(option.refused)
    assert "Known from LSF, refused by name: -aff -fwd" in lines
    assert "  gjobs -l 17" in lines
    assert max(len(line) for line in BSUB.help("gsub").splitlines() if not line.startswith("Known")) <= 140


def test_no_two_options_of_a_table_have_one_name() -> None:
    names = [option.name for option in BSUB.options]
    assert len(names) == len(set(names))


@given(st.lists(st.text(alphabet="-nKqJHoahlR=x8 ", max_size=12), max_size=6))
def test_any_words_are_read_or_refused_with_one_line(words: list[str]) -> None:
    for table in (BSUB, BJOBS):
        try:
            parsed = table.read(words)
        except BadRequest as error:
            assert error.text and "\n" not in error.text
        else:
            assert all(table.option(name) for name, _ in parsed.given)


def test_a_hostile_word_costs_little() -> None:
    with pytest.raises(BadRequest):
        BSUB.read(["-" + "K" * 100_000])
