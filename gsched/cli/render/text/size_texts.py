"""Sizes as LSF's long formats print them. All values in MiB."""

from __future__ import annotations

from gsched.base.units import format_scaled_mib

_UNITS = {"K": -1, "M": 0, "G": 1, "T": 2, "P": 3, "E": 4, "Z": 5}


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def in_words(mib: float) -> str:
    """`277 Mbytes`, `512 Kbytes`, `2.4 Gbytes`; zero is `0 Mbytes`."""
    if 0 < mib < 1:
        return f"{max(1, round(mib * 1024))} Kbytes"
    if mib < 1024:
        return f"{mib:.0f} Mbytes"
    for name in ("Gbytes", "Tbytes"):
        mib /= 1024
        if mib < 1024:
            return f"{_short(mib)} {name}"
    return f"{_short(mib / 1024)} Pbytes"


def compact_size(mib: float, unit: str) -> str:
    """`37.6G`, as load tables have it; in the unit K, M, G or T when one is given: `38502M`."""
    letter = unit.upper()[:1]
    if letter not in _UNITS:
        return format_scaled_mib(mib)
    return f"{mib / 1024.0 ** _UNITS[letter]:.{0 if letter in 'KM' else 1}f}{letter}"


def in_unit(mib: float, unit: str) -> str:
    """`1.5 Gbytes` in a given unit (`K` to `Z`, with or without `B`); `S` or empty lets the size decide."""
    letter = unit.upper()[:1]
    if letter in ("", "S"):
        return in_words(mib)
    return f"{_short(mib / 1024.0 ** _UNITS[letter])} {letter}bytes"
