"""How often tests ask whether something that no event tells of has come."""

from __future__ import annotations

SHORTEST_S, LONGEST_S = 0.02, 0.2


def pause_s(waited_s: float) -> float:
    """Until the next question, after waiting so long: a tenth of that.

    Each question costs a command or a call, on the processors that what is waited for needs as well.
    """
    return min(LONGEST_S, max(SHORTEST_S, waited_s / 10))
