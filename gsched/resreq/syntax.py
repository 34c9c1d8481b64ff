"""Reads requirement strings: simple ones, compounds and alternatives. This is the door to the language.

Whatever LSF's language knows and this does not is refused by name; nothing is read as something else.
Every error is a RequirementError. Source of the grammar: bsub(1), option -R.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from gsched.base.units import from_mib
from gsched.resreq.ast import AnyRequirement, Requirement
from gsched.resreq.braces import MAX_BRACES, has_braces, read_braces
from gsched.resreq.lexer import BAD_NAME, BAD_SYNTAX, Cursor
from gsched.resreq.names import IsName
from gsched.resreq.printer import format_amount, print_any, print_requirement
from gsched.resreq.simple import TextLimits, join, read_simple

__all__ = [
    "BAD_NAME",
    "BAD_SYNTAX",
    "MAX_BRACES",
    "MAX_COMBINED_LENGTH",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "in_unit",
    "merge",
    "parse",
    "parse_any",
    "parse_combined",
    "parse_combined_any",
    "print_any",
    "print_requirement",
    "with_unit",
]

MAX_LENGTH = 4096
"""Characters of one requirement as a user or a queue gives it."""
MAX_DEPTH = 64
"""Levels of nesting of a select expression."""

MAX_COMBINED_LENGTH = 16 * MAX_LENGTH
"""Characters of a combined text: it holds up to three requirements, and sizes grow when they are written in MiB."""
_COMBINED_DEPTH = MAX_DEPTH + 4
REMEMBERED = 256
"""Texts whose reading is kept: a requirement is judged, combined and compiled within moments, always from its text."""


def parse_any(text: str, *, is_increasing: IsName | None = None) -> AnyRequirement:
    """What `text` states, of whatever form; an empty text states nothing. Raises RequirementError.

    `is_increasing` tells for the old form `name=20:...` of which resources more is worse; without it that is known
    of the built-in load indices only.
    """
    return _read(text, TextLimits(MAX_LENGTH, MAX_DEPTH, is_increasing))


def parse(text: str, *, is_increasing: IsName | None = None) -> Requirement:
    """Like `parse_any`, for a simple requirement; compounds and alternatives are refused by name."""
    return _read_simple(text, TextLimits(MAX_LENGTH, MAX_DEPTH, is_increasing))


def parse_combined_any(text: str) -> AnyRequirement:
    """Like `parse_any`, for a text that `combine` wrote: it may be longer and deeper. Raises RequirementError."""
    return _read(text, TextLimits(MAX_COMBINED_LENGTH, _COMBINED_DEPTH))


def parse_combined(text: str) -> Requirement:
    """Like `parse`, for a text that `combine` wrote: it may be longer and deeper. Raises RequirementError."""
    return _read_simple(text, TextLimits(MAX_COMBINED_LENGTH, _COMBINED_DEPTH))


@lru_cache(maxsize=REMEMBERED)
def _read(text: str, limits: TextLimits) -> AnyRequirement:
    return _read_at(Cursor(text, limits.length), limits)


def _read_at(cursor: Cursor, limits: TextLimits) -> AnyRequirement:
    return read_braces(cursor, limits) if has_braces(cursor) else _whole(cursor, limits)


def _read_simple(text: str, limits: TextLimits) -> Requirement:
    cursor = Cursor(text, limits.length)
    if has_braces(cursor):
        is_compound = not cursor.sees("{") or (cursor.sees("*", 2) and cursor.sees("{", 3))
        what = "a compound requirement (n*{...})" if is_compound else "an alternative requirement ({...} || {...})"
        cursor.fail(f"{what} is not supported here")
    return _whole(cursor, limits)


def _whole(cursor: Cursor, limits: TextLimits) -> Requirement:
    requirement = read_simple(cursor, limits)
    if cursor.peek().kind != "end":
        cursor.fail(f"unexpected {cursor.peek()}")
    return requirement


def with_unit(text: str, unit: str) -> str:
    """`text` with `unit` (a letter, `K` to `Z`) behind every size that has none: `mem>=2000KB`.

    What `text` says then no longer hangs on the cluster's LSF_UNIT_FOR_LIMITS. In MiB, which a size without a unit
    has ever after, it stays as it is. Source: lsf.conf(5), LSF_UNIT_FOR_LIMITS. Raises RequirementError.
    """
    return text if unit == "M" else _rewritten(text, TextLimits(MAX_LENGTH, MAX_DEPTH), lambda size: f"{size}{unit}B")


def in_unit(text: str, unit: str) -> str:
    """A text that `combine` wrote, whose sizes are MiB, for a person who reads sizes in `unit` (a letter): nine digits.

    Raises RequirementError.
    """
    if unit == "M":
        return text
    limits = TextLimits(MAX_COMBINED_LENGTH, _COMBINED_DEPTH)
    return _rewritten(text, limits, lambda size: format_amount(float(f"{from_mib(float(size), unit):.9g}")))


def _rewritten(text: str, limits: TextLimits, write: Callable[[str], str]) -> str:
    """`text` with `write` of every size without a unit in its place."""
    cursor = Cursor(text, limits.length)
    _read_at(cursor, limits)
    pieces, done = [], 0
    for start, end in cursor.sizes:
        pieces += [text[done:start], write(text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])


def merge(texts: Sequence[str]) -> str:
    """One requirement text for several -R: selects are ANDed, rusage and same joined, the later of the others wins.

    One text alone comes back as typed, without blanks around it. Compounds and alternatives cannot be merged with
    others. Raises RequirementError.
    """
    given = [text.strip() for text in texts if text.strip()]
    if len(given) < 2:
        for text in given:
            parse_any(text)
        return "".join(given)
    requirements: list[Requirement] = []
    for text in given:
        cursor = Cursor(text, MAX_LENGTH)
        if has_braces(cursor):
            cursor.fail("a compound or alternative requirement stands alone: it cannot be one of several -R")
        requirements.append(parse(text))
    merged = print_requirement(join(requirements, " ".join(given)[:MAX_LENGTH]))
    parse(merged)  # length, depth and a resource reserved twice are judged on the whole
    return merged
