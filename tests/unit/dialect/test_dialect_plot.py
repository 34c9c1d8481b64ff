"""--plot of gsub and gmod: which patterns a job may have, and that a wrong one is refused with its place."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_dialect_bsub import AROUND, refusal, submit

from gsched.base.errors import BadRequest
from gsched.dialect.bmod import read_modification
from gsched.model.jobs.job import JobPlot
from gsched.model.jobs.job_plot import LONGEST_PATTERN, check_plots, fault_in

LOSS = JobPlot(name="loss", pattern="loss = ([0-9.e+-]+)")


def test_several_are_kept_in_their_order() -> None:
    asked = submit("--plot", "loss=loss = ([0-9.e+-]+)", "--plot=top 5=acc/top-5: ([0-9.]+)", "run").spec
    assert asked.plots == (LOSS, JobPlot(name="top 5", pattern="acc/top-5: ([0-9.]+)"))


def test_in_a_script_and_replaced_by_the_command_line() -> None:
    script = b"#!/bin/sh\n#BSUB --plot 'loss=loss = ([0-9.e+-]+)'\nrun\n"
    assert submit(stdin=script).spec.plots == (LOSS,)
    assert submit("--plot", "a=a (.)", stdin=script).spec.plots == (JobPlot(name="a", pattern="a (.)"),)
    wrong = b"#!/bin/sh\n\n#BSUB --plot 'loss=(['\nrun\n"
    assert refusal(stdin=wrong).startswith("line 3 of the script: --plot: loss: character 2 of the pattern: ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("loss", "'loss' is not of the form NAME=PATTERN, as in 'loss=loss = ([0-9.]+)'"),
        ("=a", "the name of a plot is printable and has 1 to 40 characters"),
        ("n" * 41 + "=(.)", "the name of a plot is printable and has 1 to 40 characters"),
        ("a=" + "x" * 200 + "(", "a: the pattern has more than 200 characters"),
        ("a=loss = [0-9]+", "a: character 13 of the pattern: it needs a group for the number, as in loss = ([0-9.]+)"),
        ("a=", "a: character 1 of the pattern: it needs a group for the number, as in loss = ([0-9.]+)"),
        ("a=loss (", "a: character 6 of the pattern: missing ), unterminated subpattern"),
        ("a=(x)\\1", "a: character 4 of the pattern: a pattern cannot refer to its groups"),
        ("a=(?P<n>x)", "a: character 1 of the pattern: of groups that begin with (? only (?: ... ) is known"),
        ("a=(?=x)(x)", "a: character 1 of the pattern: of groups that begin with (? only (?: ... ) is known"),
        ("a=(x*+)", "a: character 4 of the pattern: a + behind another quantifier"),
        (
            "a=(x){,3}",
            "a: character 4 of the pattern: not a count such as {3} or {1,3}; the character { is written \\{",
        ),
        ("a=(\\p)", "a: character 2 of the pattern: \\p is not known here"),
        ("a=(x)\\", "a: character 4 of the pattern: a \\ at the end"),
        ("a=([]a])", "a: character 2 of the pattern: a set that is empty; the character ] is written \\]"),
        ("a=([^]a])", "a: character 2 of the pattern: a set that is empty; the character ] is written \\]"),
        ("a=([[a])", "a: character 3 of the pattern: the character [ in a set is written \\["),
        ("a=([a--b])", "a: character 4 of the pattern: -- in a set: the character - is written \\-"),
        ("a=([z-a])", "a: character 3 of the pattern: bad character range z-a"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(value: str, text: str) -> None:
    assert refusal("--plot", value, "run") == f"--plot: {text}"


@pytest.mark.parametrize(
    "pattern", [r"(\d+\+)", r"(x\\)+", r"a\{(\d{1,3})\}", r"([^\]\[+*-]+)", r"(?:a|b)+ (\S+)", r"\++(x)"]
)
def test_what_is_meant_literally(pattern: str) -> None:
    assert fault_in(pattern) is None


def test_no_more_than_eight_and_no_name_twice() -> None:
    many = [word for number in range(9) for word in ("--plot", f"p{number}=(.)")]
    assert refusal(*many, "run") == "--plot: 9 plots are too many, 8 are the most"
    assert refusal("--plot", "a=(.)", "--plot", "a=x(.)", "run") == "--plot: plot 'a' stands twice"


def test_gmod_gives_them_and_takes_them_back() -> None:
    assert read_modification(["--plot", "loss=loss = ([0-9.e+-]+)", "12"], AROUND).values == {"plots": (LOSS,)}
    assert read_modification(["--plotn", "12"], AROUND).values == {"plots": ()}


@given(st.text(alphabet=r"ab(?:)[]{}^$\d+*-,|.13<>=!P&~", max_size=LONGEST_PATTERN))
def test_any_text_is_taken_or_refused_with_a_place_in_it(pattern: str) -> None:
    fault = fault_in(pattern)
    if fault is None:
        assert re.compile(pattern).groups
    else:
        assert 0 <= fault[0] <= len(pattern) and fault[1]
    try:
        check_plots((JobPlot(name="x", pattern=pattern),))
    except BadRequest as error:
        assert fault is not None and "\n" not in error.text
