"""Amounts as pages show them."""

from __future__ import annotations

import pytest

from gsched.web.shown.amounts import short_size


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (None, "–"),
        (0, "0"),
        (512, "512M"),
        (9.5 * 1024, "9.5G"),
        (28.3 * 1024, "28G"),
        (99.96 * 1024, "100G"),
        (141 * 1024, "141G"),
        (1023.9, "1024M"),
    ],
)
def test_where_there_is_no_room_a_size_is_short(mib: float | None, text: str) -> None:
    assert short_size(mib) == text
