"""Options as getopt_long(3) reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.dialect.slurm.gnu_options import GnuOption, GnuOptions, refused

TABLE = GnuOptions(
    summary="try",
    operands="[WORD ...]",
    options=(
        GnuOption("time", "t", "TIME", variable="TRY_TIME"),
        GnuOption("time-left", "", help="flag"),
        GnuOption("hold", "H", help="flag"),
        GnuOption("exclusive", "", "user", is_optional=True),
        *refused("qos/q", because="there is none"),
    ),
)


def read(*words: str, line: int = 0) -> list[tuple[str, str]]:
    return [(each.name, each.value) for each in TABLE.read(words, line).given]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--time=5"], [("time", "5")]),
        (["--time", "5"], [("time", "5")]),
        (["-t5"], [("time", "5")]),
        (["-t", "5"], [("time", "5")]),
        (["-Ht5"], [("hold", ""), ("time", "5")]),
        (["--ho"], [("hold", "")]),
        (["--exclusive", "x"], [("exclusive", "")]),
        (["--exclusive=user"], [("exclusive", "user")]),
        (["-t", "-1"], [("time", "-1")]),
    ],
)
def test_forms(words: list[str], found: list[tuple[str, str]]) -> None:
    assert read(*words) == found


def test_what_follows_the_first_other_word_is_no_option() -> None:
    assert TABLE.read(["-H", "job.sh", "-t", "5"]).rest == ("job.sh", "-t", "5")
    assert TABLE.read(["--", "-H"]).rest == ("-H",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tim"], "option '--tim' can mean --time or --time-left"),
        (["--tme=3"], "unrecognized option '--tme'; did you mean --time?"),
        (["--"[:2] + "zzz"], "unrecognized option '--zzz'"),
        (["-x"], "invalid option -- 'x'"),
        (["-t"], "option '-t' needs a value (TIME)"),
        (["--time"], "option '--time' needs a value (TIME)"),
        (["--hold=yes"], "option '--hold' takes no value"),
        (["--qos=high"], "--qos: there is none"),
        (["-q", "high"], "-q: there is none"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], said: str) -> None:
    with pytest.raises(BadRequest) as error:
        read(*words)
    assert error.value.text == said
    with pytest.raises(BadRequest) as error:
        read(*words, line=3)
    assert error.value.text == f"line 3 of the script: {said}"


def test_variables_give_options() -> None:
    (found,) = TABLE.in_environment({"TRY_TIME": "7", "OTHER": "x"}).given
    assert (found.name, found.value, found.place) == ("time", "7", "TRY_TIME")


def test_help_names_what_is_taken() -> None:
    told = TABLE.help("try")
    assert "-t, --time=TIME" in told and "--exclusive[=user]" in told and "qos" not in told


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    try:
        read(*words)
    except BadRequest as error:
        assert "\n" not in error.text or any("\n" in word for word in words)
