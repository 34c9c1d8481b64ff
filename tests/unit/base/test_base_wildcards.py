"""Patterns of names mean what the shell's mean, and are read once over the name, whatever they are."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gsched.base.wildcards import wildcards
from tests.support.property_examples import examples

LETTERS = st.text("ab*?[", max_size=9)


@settings(max_examples=examples(170), deadline=None)
@given(LETTERS, st.text("ab[", max_size=12))
@example("*", "")
@example("a*a", "a")
@example("**", "x")
@example("?", "")
@example("*?b?*a", "ababa")
def test_they_mean_what_the_shell_makes_of_them(pattern: str, name: str) -> None:
    literal_brackets = pattern.replace("[", "[[]")
    assert wildcards(pattern).fits(name) is fnmatchcase(name, literal_brackets), (pattern, name)


class Counting(str):
    """A name that counts how many of its characters are looked at one by one."""

    looked_at = 0

    def __getitem__(self, place: object) -> str:
        self.looked_at += 1
        return super().__getitem__(place)  # type: ignore[index]


@pytest.mark.parametrize(
    "pattern",
    [
        "*a*a*a*a*a*a*a*a*b",
        "*?a*?a*?a*?a*?a*?ab",
        "*" + "?a" * 2000 + "b*",
        "*a?" * 1300 + "b*",
        "*" + "?" * 4000 + "b*",
    ],
)
def test_no_pattern_goes_back_over_a_name(pattern: str) -> None:
    name = Counting("a" * 4094)
    assert not wildcards(pattern).fits(name)
    assert name.looked_at <= len(name)


def test_a_pattern_without_wildcards_is_the_name() -> None:
    assert wildcards("train[3]").fits("train[3]")
    assert not wildcards("train").fits("train2")
