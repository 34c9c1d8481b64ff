"""What stands between the parts of a list."""

from __future__ import annotations

LIST_TEXTS: dict[str, str] = {
    "list.comma": "{0}, {1}",
    "list.semicolon": "{0}; {1}",
    "list.sentences": "{0}. {1}",
    "list.and": "{0} and {1}",
}
