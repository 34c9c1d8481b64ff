"""Limits in the unit of the cluster: what a bare number is, and what is rounded up to what."""

from __future__ import annotations

import pytest

from gsched.base.errors import BadRequest
from gsched.base.units import from_mib, parse_limit_mib, unit_letter


@pytest.mark.parametrize(
    ("text", "unit", "mib"),
    [
        ("200000", "K", 195.3125),
        ("1.5", "K", 2 / 1024),
        ("200", "M", 200.0),
        ("1500KB", "M", 2.0),
        ("512MB", "G", 1024.0),
        ("3", "G", 3072.0),
        ("1", "T", 1024.0**2),
    ],
)
def test_limits_are_whole_units(text: str, unit: str, mib: float) -> None:
    assert parse_limit_mib(text, unit) == mib


@pytest.mark.parametrize(("text", "letter"), [("KB", "K"), ("k", "K"), (" gb ", "G"), ("E", "E"), ("PB", "P")])
def test_units(text: str, letter: str) -> None:
    assert unit_letter(text) == letter


@pytest.mark.parametrize("text", ["", "B", "MBB", "pages", "KM"])
def test_what_is_no_unit(text: str) -> None:
    with pytest.raises(BadRequest, match="is none of KB, MB, GB"):
        unit_letter(text)


def test_back_from_mib() -> None:
    assert (from_mib(2.0, "K"), from_mib(512.0, "G")) == (2048.0, 0.5)
