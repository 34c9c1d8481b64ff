"""What both sides of the contract must agree on: its version between master and agents, and its limits."""

from __future__ import annotations

PROTOCOL = 4
"""Raised when an old agent would misunderstand a new master, or the reverse; both sides must have the same."""

RETRY_AFTER_MS = "gsched-retry-after-ms"
"""Trailer of a call that was refused because its caller asks too much, and not begun: when to come again."""

ABOUT = "gsched-about"
"""Trailer of a call that was refused: the fields of the request that are wrong, with a comma between them."""

HISTORY_LIMIT = 1_000_000
"""Most jobs that one question after histories looks at, those submitted last."""
