"""Values as JSON for scripts of pages: it is fetched, never part of a page."""

from __future__ import annotations

from typing import Any

import msgspec


def json_bytes(value: Any) -> bytes:
    """The value as JSON."""
    return msgspec.json.encode(value)
