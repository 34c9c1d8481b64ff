"""Amounts as pages show them: short, with a unit, and nothing where nobody knows."""

from __future__ import annotations

UNKNOWN = "–"


def size(mib: float | None) -> str:
    """`512 MiB`, `79.6 GiB`."""
    if mib is None:
        return UNKNOWN
    if mib == 0:
        return "0"
    for unit in ("MiB", "GiB", "TiB"):
        if abs(mib) < 1024 or unit == "TiB":
            return f"{mib:.0f} {unit}" if mib >= 100 or mib == int(mib) else f"{mib:.1f} {unit}"
        mib /= 1024
    return UNKNOWN


def short_size(mib: float | None) -> str:
    """`512M`, `9.3G`, `29G`: for places where there is no room, four characters at most up to 9999 TiB."""
    text = size(mib)
    if text != UNKNOWN and "." in text and float(text.split()[0]) >= 10:
        text = f"{float(text.split()[0]):.0f} {text.split()[1]}"
    return text if text == UNKNOWN else text.replace(" ", "").removesuffix("iB")


def span(seconds: float | None) -> str:
    """`42 s`, `5 min`, `3:07 h`, `2 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600}:{whole // 60 % 60:02d} h"
    return f"{whole // 86400} d {whole // 3600 % 24} h"


def step(percent: float | None) -> int:
    """Of twenty steps, as the style sheet has bars; unknown is none."""
    return 0 if percent is None else min(20, max(0, round(percent / 5)))
