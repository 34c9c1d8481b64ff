"""Spans of time as bacct and badmin hist take them, on Friday 10 March 2017, 14:05:30."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gsched.base.errors import BadRequest
from gsched.dialect.times import parse_moment, parse_span


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type]


NOW = at(2017, 3, 10, 14, 5, 30)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("6", at(2017, 3, 6), at(2017, 3, 6, 23, 59, 59)),
        ("1,8", at(2017, 3, 1), at(2017, 3, 8, 23, 59, 59)),
        ("2/", at(2017, 2, 1), at(2017, 2, 28, 23, 59, 59)),
        ("12/", at(2017, 12, 1), at(2017, 12, 31, 23, 59, 59)),
        ("2016/", at(2016, 1, 1), at(2016, 12, 31, 23, 59, 59)),
        ("2016/2/", at(2016, 2, 1), at(2016, 2, 29, 23, 59, 59)),
        ("2/1,", at(2017, 2, 1), NOW),
        (",2/10", None, at(2017, 2, 10, 23, 59, 59)),
        ("/12:", at(2017, 3, 10, 12), at(2017, 3, 10, 12, 59, 59)),
        ("12:30", at(2017, 3, 10, 12, 30), at(2017, 3, 10, 12, 30, 59)),
        ("2016/12/31/8:15,2017/1/1", at(2016, 12, 31, 8, 15), at(2017, 1, 1, 23, 59, 59)),
        (".-3,.", at(2017, 3, 7, 14, 5, 30), NOW),
        (".-2:,", at(2017, 3, 10, 12, 5, 30), NOW),
        (".-3/,", at(2016, 12, 10, 14, 5, 30), NOW),
    ],
)
def test_spans(text: str, since: float | None, until: float) -> None:
    assert parse_span(text, NOW, UTC) == (since, until)


@pytest.mark.parametrize(
    "text", ["", ",", "13/1", "32", "2/30", "8,1", "1:2:3", "x", "1/2/3/4", "25:00", ".-", "-1", "٣"]
)
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(BadRequest, match="Bad time specification"):
        parse_span(text, NOW, UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20 03:00", datetime(2026, 11, 20, 3, tzinfo=UTC)),
        ("2026-11-20T03:00:07.25", datetime(2026, 11, 20, 3, 0, 7, 250_000, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026/11/20/3:00", datetime(2026, 11, 20, 3, tzinfo=UTC)),
        ("2026/11/", datetime(2026, 11, 1, tzinfo=UTC)),
        (".", datetime.fromtimestamp(NOW, UTC)),
    ],
)
def test_a_moment(text: str, moment: datetime) -> None:
    assert parse_moment(text, NOW, UTC) == moment.timestamp()


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-13-01", "2026-02-30 00:00", "2026-11-20 24:00", "1/2,3/4", "9999-01-01"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^[^\n]*(Bad time specification|is not within the years)[^\n]*$"):
        parse_moment(text, NOW, UTC)
