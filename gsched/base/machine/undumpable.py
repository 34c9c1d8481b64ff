"""Memory that no other process of the same user looks into, for processes that hold a secret."""

from __future__ import annotations

import ctypes

_PR_SET_DUMPABLE = 4


def be_undumpable() -> None:
    """No core is written, and nobody but root attaches to this process or reads its memory (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
