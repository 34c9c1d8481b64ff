"""Moments in every form of Slurm's manuals."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.dialect.slurm.moments import parse_moment

NOW = datetime(2026, 11, 28, 10, 30, tzinfo=UTC).timestamp()


def shown(text: str, *, past: bool) -> str:
    return datetime.fromtimestamp(parse_moment(text, NOW, UTC, past=past), UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize(
    ("text", "last", "following"),
    [
        ("now", "2026-11-28T10:30:00", "2026-11-28T10:30:00"),
        ("now-1hour", "2026-11-28T09:30:00", "2026-11-28T09:30:00"),
        ("now-7days", "2026-11-21T10:30:00", "2026-11-21T10:30:00"),
        ("now - 2 weeks", "2026-11-14T10:30:00", "2026-11-14T10:30:00"),
        ("now+90", "2026-11-28T10:31:30", "2026-11-28T10:31:30"),
        ("now+16minutes", "2026-11-28T10:46:00", "2026-11-28T10:46:00"),
        ("today", "2026-11-28T00:00:00", "2026-11-28T00:00:00"),
        ("tomorrow", "2026-11-29T00:00:00", "2026-11-29T00:00:00"),
        ("midnight", "2026-11-28T00:00:00", "2026-11-29T00:00:00"),
        ("noon", "2026-11-27T12:00:00", "2026-11-28T12:00:00"),
        ("fika", "2026-11-27T15:00:00", "2026-11-28T15:00:00"),
        ("teatime", "2026-11-27T16:00:00", "2026-11-28T16:00:00"),
        ("09:15", "2026-11-28T09:15:00", "2026-11-29T09:15:00"),
        ("9:15:30AM", "2026-11-28T09:15:30", "2026-11-29T09:15:30"),
        ("3:30pm", "2026-11-27T15:30:00", "2026-11-28T15:30:00"),
        ("12:00AM", "2026-11-28T00:00:00", "2026-11-29T00:00:00"),
        ("1127", "2026-11-27T00:00:00", "2027-11-27T00:00:00"),
        ("1225-08:00", "2025-12-25T08:00:00", "2026-12-25T08:00:00"),
        ("112826", "2026-11-28T00:00:00", "2026-11-28T00:00:00"),
        ("11.28.26-08:15", "2026-11-28T08:15:00", "2026-11-28T08:15:00"),
        ("11/28/26-08:15:07", "2026-11-28T08:15:07", "2026-11-28T08:15:07"),
        ("11/2", "2026-11-02T00:00:00", "2027-11-02T00:00:00"),
        ("2026-11-20", "2026-11-20T00:00:00", "2026-11-20T00:00:00"),
        ("2026-11-20T07:00", "2026-11-20T07:00:00", "2026-11-20T07:00:00"),
        ("2026-11-20T07:00:09", "2026-11-20T07:00:09", "2026-11-20T07:00:09"),
    ],
)
def test_forms(text: str, last: str, following: str) -> None:
    assert shown(text, past=True) == last
    assert shown(text, past=False) == following


@pytest.mark.parametrize(
    "text",
    ["", "soon", "now-", "now-1year", "25:00", "13:00PM", "1332", "2026-13-01", "02/30/26", "now+99999999999", "9"],
)
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(BadRequest, match="Invalid time specification"):
        parse_moment(text, NOW, UTC)


@pytest.mark.parametrize(
    "text",
    ["9001-01-01", "9999-12-31T23:59:59", "1969-12-31", "0001-01-01", "now+999999999weeks", "now-999999999weeks"],
)
def test_what_no_clock_shows_everywhere_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(f"'{text}' is not within the years 1970 to 9000")):
        parse_moment(text, NOW, UTC)
    assert shown("9000-12-31T23:59:59", past=False) == "9000-12-31T23:59:59"


@given(st.text(alphabet="now+-0123456789:/.TAPMtdaysh ", max_size=24), st.booleans())
def test_anything_is_a_time_or_refused(text: str, past: bool) -> None:
    try:
        assert parse_moment(text, NOW, UTC, past=past) == pytest.approx(NOW, abs=1e11)
    except BadRequest:
        pass
