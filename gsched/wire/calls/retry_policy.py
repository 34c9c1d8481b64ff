"""How long commands and programs wait for a master that does not answer: GSCHED_COMMAND_WAIT.

It only reads what it is given; where the setting stands is the caller's to know.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest

DEFAULT_WAIT_S = 60.0
WAIT_VARIABLE = "GSCHED_COMMAND_WAIT"
LONGEST_S = 1e7


def read_wait(text: str) -> float:
    """Seconds of the setting; the default for an empty one. Raises BadRequest."""
    if not text:
        return DEFAULT_WAIT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_S:
        raise BadRequest(f"{WAIT_VARIABLE}={text}: not a number of seconds")
    return seconds
