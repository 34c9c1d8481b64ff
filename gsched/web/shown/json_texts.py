"""Values as JSON for scripts of pages: it is fetched, or stands in an attribute, escaped as every text."""

from __future__ import annotations

from typing import Any

import msgspec


def json_bytes(value: Any) -> bytes:
    """The value as JSON."""
    return msgspec.json.encode(value)


def json_text(value: Any) -> str:
    """The same, for an attribute of a page."""
    return json_bytes(value).decode()
