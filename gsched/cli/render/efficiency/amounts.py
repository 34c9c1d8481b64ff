"""Amounts as geff writes them. None is `-`."""

from __future__ import annotations

from gsched.model.efficiency.cost import J_PER_KWH


def percent(value: float | None) -> str:
    """`97`; a little more than nothing is `<1`."""
    if value is None:
        return "-"
    return "<1" if 0.0 < value < 0.5 else f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """`48:00:05`, hours, minutes and seconds."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def size(mib: float | None) -> str:
    """`18.3 GiB`, `500 MiB`."""
    if mib is None:
        return "-"
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def energy(joules: float | None) -> str:
    """`1.25kWh`, `250Wh`."""
    if joules is None:
        return "-"
    kwh = joules / J_PER_KWH
    return f"{kwh:.2f}kWh" if kwh >= 1.0 else f"{kwh * 1000:.1f}Wh"


def money(amount: float | None, currency: str) -> str:
    """`12.40 EUR`; less than a cent has more digits."""
    if amount is None:
        return "-"
    return f"{amount:.{2 if amount == 0.0 or amount >= 0.01 else 6}f} {currency}"
