"""A moment as people read it, in UTC: for sentences that must not depend on anybody's zone."""

from __future__ import annotations

from datetime import UTC, datetime


def shown_utc(at: float) -> str:
    """`2026-11-28 22:05:00 UTC`. `at`: UTC seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
