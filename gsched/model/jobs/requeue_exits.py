"""Exit codes after which a job waits again: `30 EXCLUDE(20)`, `all ~0 ~1`; and what else it is run again after. Exit
codes with which a job is done: `3 7-9`.

    VALUES = CODES [EXCLUDE(CODES)] | EXCLUDE(CODES)
    CODES = "all" ["~"CODE ...] | CODE ...

Texts are checked (`fault_in`) where they come in; what cannot be read afterwards names no code. Source: lsb.queues(5),
REQUEUE_EXIT_VALUES, and bsub(1), option -Q.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec

_SUCCESS = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?", re.ASCII)
_EXCLUDE = re.compile(r"\bEXCLUDE\s*\(([^()]*)\)", re.IGNORECASE)


class RestartCause(StrEnum):
    """After what the system has run a job again; it counts for --max-restarts."""

    SAVED = "saved"
    """It has saved its state and asked for another run: by EXIT_SAVED, or by `gsched requeue-me`."""
    PREEMPT = "preempt"
    HOST = "host"
    """Its host has gone down or is lost."""
    GPU = "gpu"
    """A GPU of it has failed."""
    TIMELIMIT = "timelimit"
    """It has reached its run limit."""
    IDLE = "idle"
    """GPU_IDLE."""
    DRAIN = "drain"
    """An administrator has drained its host (gadmin drain --requeue)."""


RESTART_CAUSES = tuple(cause for cause in RestartCause if cause is not RestartCause.SAVED)
"""What --restart-on may name."""


class RequeueValues(msgspec.Struct, frozen=True):
    """`codes`: the job is requeued; `elsewhere`: requeued, and never again on the same host."""

    codes: frozenset[int] = frozenset()
    elsewhere: frozenset[int] = frozenset()


@lru_cache(maxsize=1024)
def requeue_values(text: str) -> RequeueValues:
    """The codes of a text; an empty one has none."""
    inside = " ".join(_EXCLUDE.findall(text))
    return RequeueValues(_codes(_EXCLUDE.sub(" ", text)), _codes(inside))


def _codes(text: str) -> frozenset[int]:
    words = text.split()
    if words and words[0].casefold() == "all":
        return frozenset(range(256)) - {int(word[1:]) for word in words[1:] if word[1:].isdecimal()}
    return frozenset(int(word) for word in words if word.isdecimal())


class TextFault(NamedTuple):
    """What is wrong: `quoted`, then `complaint` as it follows the quotation; the whole text or one word is quoted."""

    quoted: str
    complaint: str
    is_word: bool = False


def fault_in(text: str) -> TextFault | None:
    """What keeps the text from being of that form; None when nothing does."""
    excluded = _EXCLUDE.findall(text)
    plain = _EXCLUDE.sub(" ", text)
    if len(excluded) > 1:
        return TextFault(text, ": EXCLUDE() may stand once; it takes several codes")
    for codes in (*([plain] if plain.strip() or not excluded else []), *excluded):
        fault = _fault_in_codes(codes.split(), text)
        if fault is not None:
            return fault
    return None


def _fault_in_codes(words: list[str], text: str) -> TextFault | None:
    if not words:
        return TextFault(text, " names no exit code")
    everything = words[0].casefold() == "all"
    for word in words[1:] if everything else words:
        if everything and not word.startswith("~"):
            return TextFault(word, ": after all only ~CODE may stand", is_word=True)
        digits = word.removeprefix("~") if everything else word
        if not re.fullmatch(r"[0-9]{1,3}", digits) or int(digits) > 255:
            return TextFault(word, " is not an exit code from 0 to 255", is_word=True)
    return None


@lru_cache(maxsize=1024)
def success_codes(text: str) -> frozenset[int]:
    """The exit codes of SUCCESS_EXIT_VALUES; what cannot be read names none."""
    codes: set[int] = set()
    for word in text.split():
        found = _SUCCESS.fullmatch(word)
        if found is not None:
            codes.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(codes)


def success_fault_in(text: str) -> str | None:
    """The word that keeps the text from being a list of exit codes, 1 to 255, and ranges; None when nothing does."""
    for word in text.split() or [text]:
        found = _SUCCESS.fullmatch(word)
        if found is None or not 1 <= int(found[1]) <= int(found[2] or found[1]) <= 255:
            return word
    return None
