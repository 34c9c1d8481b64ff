"""Tests of the reader of `NUM name value ...`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.probe.elims.elim_format import (
    MAX_PAIRS,
    MAX_WORD,
    ElimFormatError,
    ElimParser,
    Report,
    parse_number,
    quote,
)

SEED_LINE = b"4 ngpus 4 ngpus_shared 0 ngpus_excl_t 0 ngpus_excl_p 4\n"
SEED_REPORT = (("ngpus", "4"), ("ngpus_shared", "0"), ("ngpus_excl_t", "0"), ("ngpus_excl_p", "4"))

words = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=12)
reports = st.lists(st.lists(st.tuples(words, words), max_size=5).map(tuple), max_size=5)
blanks = st.text(" \t\n\r\v\f", min_size=1, max_size=3)


def test_line_of_the_seed() -> None:
    assert ElimParser().feed(SEED_LINE) == [SEED_REPORT]


def test_line_breaks_do_not_matter() -> None:
    assert ElimParser().feed(SEED_LINE.replace(b" ", b"\n\n")) == [SEED_REPORT]


def test_last_word_is_complete_only_with_what_follows() -> None:
    parser = ElimParser()
    assert parser.feed(b"1 mem 12") == []
    assert parser.feed(b"34 ") == [(("mem", "1234"),)]


def test_report_without_pairs_is_a_sign_of_life() -> None:
    assert ElimParser().feed(b"0\n1 a 2\n") == [(), (("a", "2"),)]


@given(reports, st.data())
def test_what_is_written_is_read_however_it_is_cut(expected: list[Report], data: st.DataObject) -> None:
    text = ""
    for report in expected:
        for word in [str(len(report)), *(word for pair in report for word in pair)]:
            text += word + data.draw(blanks)
    stream = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parser = ElimParser()
    found: list[Report] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += parser.feed(stream[begin:end])
    assert found == expected


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_rubbish_is_refused_or_read_but_never_raises_anything_else(pieces: list[bytes]) -> None:
    parser = ElimParser()
    try:
        for piece in pieces:
            parser.feed(piece)
    except ElimFormatError as problem:
        assert problem.text.isprintable()


@pytest.mark.parametrize("text", [b"four ngpus 4\n", b"-1 a 2\n", b"1. a 2\n", b"1 a 2 rubbish \n", b"\xff\xfe 1 2 \n"])
def test_a_word_where_a_count_is_wanted_is_an_error(text: bytes) -> None:
    with pytest.raises(ElimFormatError, match="stands where the number of pairs"):
        ElimParser().feed(text)


def test_offending_word_is_quoted_printable_and_short() -> None:
    with pytest.raises(ElimFormatError) as caught:
        ElimParser().feed(b"\x1b[31m" + b"x" * 1000 + b" ")
    assert caught.value.text.startswith("'?[31mxxx")
    assert len(caught.value.text) < 120


def test_what_is_kept_is_bounded() -> None:
    with pytest.raises(ElimFormatError, match="a word of more than"):
        parser = ElimParser()
        for _ in range(10):
            parser.feed(b"x" * MAX_WORD)
    with pytest.raises(ElimFormatError, match="a word of more than"):
        ElimParser().feed(b"1 a " + b"x" * (MAX_WORD + 1) + b"\n")
    with pytest.raises(ElimFormatError, match="pairs are announced"):
        ElimParser().feed(f"{MAX_PAIRS + 1} ".encode())


@pytest.mark.parametrize(("text", "value"), [("4", 4.0), ("-1.5", -1.5), ("+.5", 0.5), ("1.", 1.0), ("1e3", 1000.0)])
def test_numbers(text: str, value: float) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "nan", "inf", "1_0", "0x10", "four", "٤", "1e999", "2147483647", "-2147483647"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ElimFormatError, match=r"is no number|is out of range"):
        parse_number(text)


@given(st.text())
def test_quoted_text_is_fit_for_a_terminal(text: str) -> None:
    assert quote(text).isprintable()
    assert len(quote(text)) <= 43
