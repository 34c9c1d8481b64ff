"""Checks REQUEUE_EXIT_VALUES: exit codes after which a job goes back to pending.

    VALUES = CODES [EXCLUDE(CODES)] | EXCLUDE(CODES)
    CODES = "all" ["~"CODE ...] | CODE ...

Source: lsb.queues(5), bsub(1) option -Q. What the values bring about is not decided here.
"""

from __future__ import annotations

import re

from gsched.base.errors import BadRequest
from gsched.config.findings import show

_EXCLUDE = re.compile(r"\bEXCLUDE\s*\(([^()]*)\)", re.IGNORECASE)


def exit_values(text: str) -> str:
    """The text with single blanks. Raises BadRequest when it is not of that form."""
    excluded = _EXCLUDE.findall(text)
    plain = _EXCLUDE.sub(" ", text)
    if len(excluded) > 1:
        raise BadRequest(f"'{show(text)}': EXCLUDE() may stand once; it takes several codes")
    for codes in (*([plain] if plain.strip() or not excluded else []), *excluded):
        _check_codes(codes.split(), text)
    return " ".join(text.split())


def _check_codes(words: list[str], text: str) -> None:
    if not words:
        raise BadRequest(f"'{show(text)}' names no exit code")
    everything = words[0].casefold() == "all"
    for word in words[1:] if everything else words:
        digits = word.removeprefix("~") if everything else word
        if everything and not word.startswith("~"):
            raise BadRequest(f"'{show(word)}': after all only ~CODE may stand")
        if not re.fullmatch(r"[0-9]{1,3}", digits) or int(digits) > 255:
            raise BadRequest(f"'{show(word)}' is not an exit code from 0 to 255")
