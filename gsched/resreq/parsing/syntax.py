"""Reads requirement strings: simple ones, compounds and alternatives. This is the door to the language.

Whatever LSF's language knows and this does not is refused by name; nothing is read as something else.
Every error is a RequirementError. Source of the grammar: bsub(1), option -R.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from gsched.base.units import from_mib
from gsched.resreq.ast import AnyRequirement, Compound, Requirement
from gsched.resreq.parsing.braces import MAX_BRACES, has_braces, read_braces
from gsched.resreq.parsing.lexer import BAD_NAME, BAD_SYNTAX, Cursor, refuse
from gsched.resreq.parsing.names import IsName
from gsched.resreq.parsing.printer import format_amount, print_any, print_requirement
from gsched.resreq.parsing.simple import TextLimits, is_overdone, join, read_simple

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
MAX_COMBINED_DEPTH = MAX_DEPTH + 4
_COMBINED = TextLimits(MAX_COMBINED_LENGTH, MAX_COMBINED_DEPTH)
REMEMBERED = 256
"""Texts whose reading is kept: a requirement comes in, is judged and combined within moments, and is read once."""


def parse_any(text: str, *, is_increasing: IsName | None = None) -> AnyRequirement:
    """What `text` states, of whatever form; an empty text states nothing. Raises RequirementError.

    `is_increasing` tells for the old form `name=20:...` of which resources more is worse; without it that is known
    of the built-in load indices only.
    """
    found = _read(text, TextLimits(MAX_LENGTH, MAX_DEPTH))
    if found.has_classic and is_increasing is not None:
        found = _read(text, TextLimits(MAX_LENGTH, MAX_DEPTH, is_increasing))
    return found.value


def parse(text: str, *, is_increasing: IsName | None = None) -> Requirement:
    """Like `parse_any`, for a simple requirement; compounds and alternatives are refused by name."""
    return _simple(parse_any(text, is_increasing=is_increasing), text)


def parse_combined_any(text: str) -> AnyRequirement:
    """Like `parse_any`, for a text that `combine` wrote: it may be longer and deeper. Raises RequirementError."""
    return _read(text, _COMBINED).value


class TextReading(msgspec.Struct, frozen=True):
    """What a text states, where its sizes without a unit stand, and whether it has a select section of old."""

    value: AnyRequirement
    sizes: tuple[tuple[int, int], ...]
    has_classic: bool


@lru_cache(maxsize=REMEMBERED)
def _read(text: str, limits: TextLimits) -> TextReading:
    cursor = Cursor(text, limits.length)
    value = read_braces(cursor, limits) if has_braces(cursor) else _whole(cursor, limits)
    return TextReading(value, tuple(cursor.sizes), cursor.has_classic)


def _simple(whole: AnyRequirement, text: str) -> Requirement:
    if not isinstance(whole, Requirement):
        is_compound = isinstance(whole, Compound)
        what = "a compound requirement (n*{...})" if is_compound else "an alternative requirement ({...} || {...})"
        refuse(f"{what} is not supported here", text, len(text) - len(text.lstrip()))
    return whole


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
    return _rewritten(text, _COMBINED, lambda size: format_amount(float(f"{from_mib(float(size), unit):.9g}")))


def _rewritten(text: str, limits: TextLimits, write: Callable[[str], str]) -> str:
    """`text` with `write` of every size without a unit in its place."""
    pieces, done = [], 0
    for start, end in _read(text, limits).sizes:
        pieces += [text[done:start], write(text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])


def merge(texts: Sequence[str]) -> str:
    """One requirement text for several -R: selects are ANDed, rusage and same joined, the later of the others wins.

    One text alone comes back as typed, without blanks around it. Compounds and alternatives cannot be merged with
    others. Raises RequirementError.
    """
    given = [text.strip() for text in texts if text.strip()]
    read = [parse_any(text) for text in given]
    if len(given) < 2:
        return "".join(given)
    requirements: list[Requirement] = []
    for text, each in zip(given, read, strict=True):
        if not isinstance(each, Requirement):
            refuse("a compound or alternative requirement stands alone: it cannot be one of several -R", text, 0)
        requirements.append(each)
    joined = join(requirements, " ".join(given)[:MAX_LENGTH])
    merged = print_requirement(joined)
    if len(merged) > MAX_LENGTH or is_overdone(joined, MAX_DEPTH):
        parse(merged)  # refuses it at its place in the text that all of them make
    return merged
