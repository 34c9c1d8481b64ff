"""The message box that gpost -i and gread -i name. Which boxes there are, and who may use them, the master decides."""

from __future__ import annotations

from gsched.base.errors import BadRequest


def box_number(name: str, text: str) -> int:
    """The number of a message box; `name` is the command's. Raises BadRequest."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest(f"{name}: -i {text[:60]}: not the number of a message box")
    return int(text)
