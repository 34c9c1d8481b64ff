"""Folding and column arithmetic, for plain and for wide characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.cli.render.text.text_columns import (
    cell,
    cut_head,
    fold,
    fold_words,
    head,
    left,
    printable,
    right,
    tail,
    width,
)

TEXTS = st.text(alphabet=st.sampled_from("abc ;<>가나다漢é\u0301"), max_size=300)


@given(TEXTS)
def test_folding_loses_nothing_and_no_line_is_too_wide(text: str) -> None:
    lines = fold(text).removesuffix("\n").split("\n")
    assert lines[0] + "".join(line.removeprefix(" " * 21) for line in lines[1:]) == text
    assert all(width(line) <= 79 for line in lines)
    assert all(width(line) >= 78 for line in lines[:-1])


@given(TEXTS, st.integers(1, 40))
def test_cells_have_their_width(text: str, columns: int) -> None:
    assert width(cell(text, columns)) == columns
    assert width(left(head(text, columns), columns)) == columns
    assert width(right(tail(text, columns), columns)) == columns
    assert text.startswith(head(text, columns))
    assert text.endswith(tail(text, columns))


def test_a_wide_character_is_never_halved() -> None:
    text = "x" * 78 + "가" + "y"
    assert fold(text) == "x" * 78 + "\n" + " " * 21 + "가y\n"
    assert cell("가나다라", 5) == "가나 "


def test_a_blank_at_the_break_is_kept() -> None:
    assert fold("x" * 79 + " y") == "x" * 79 + "\n" + " " * 22 + "y\n"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("short", "short"),
        ("exactly_10", "exactly_10"),
        ("train_quick.sh", "*_quick.sh"),
        ("한글학습스크립트", "*스크립트"),
    ],
)
def test_long_names_keep_their_end(name: str, shown: str) -> None:
    assert cut_head(name, 10) == shown


def test_controls_never_reach_the_terminal() -> None:
    assert printable("a\nb\tc\x1b[31m\u202e\ud800가") == "a;b c?[31m??가"
    assert printable("line\r\nnext") == "line;next"


def test_numbers_are_not_broken_in_lists_of_words() -> None:
    pids = " ".join(str(pid) for pid in range(10000, 10040))
    lines = fold_words(pids).splitlines()
    assert " ".join(line.strip() for line in lines) == pids
    assert all(line.startswith(" " * 21) and len(line) <= 79 for line in lines)
