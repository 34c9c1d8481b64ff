"""Text measured in terminal columns: cut, padded, folded. Korean and other wide characters count two columns.

Texts come from users, so nothing here lets a control character through to a terminal: `printable` makes a text safe,
and every other module of this package passes user texts through it before laying them out.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

LINE_WIDTH = 79
"""Columns of a folded line. Source: transcripts of bjobs -l and bhist -l of LSF 10.1."""
INDENT = 21
"""Blanks before a continuation line: the width of a time stamp without year and its colon and blank."""
INDENT_WITH_YEAR = 26

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def printable(text: str) -> str:
    """`text` as one safe line: newlines become `;` (as a script's lines are shown), tabs blanks, other controls `?`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_safe(char) for char in text.replace("\r\n", "\n"))


def _safe(char: str) -> str:
    if char == "\n":
        return ";"
    if char == "\t":
        return " "
    if char in _BIDI or unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp"):
        return "?"
    return char


@lru_cache(maxsize=4096)
def _char_width(char: str) -> int:
    if unicodedata.category(char) in _ZERO_WIDTH or "\u1160" <= char <= "\u11ff":
        return 0  # combining marks, and the Hangul vowels and finals that join the consonant before them
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def width(text: str) -> int:
    """Columns that `text` takes on a terminal."""
    return len(text) if text.isascii() else sum(_char_width(char) for char in text)


def head(text: str, columns: int) -> str:
    """The longest beginning of `text` that takes at most `columns`."""
    if text.isascii():
        return text[:columns]
    used = 0
    for position, char in enumerate(text):
        used += _char_width(char)
        if used > columns:
            return text[:position]
    return text


def tail(text: str, columns: int) -> str:
    """The longest end of `text` that takes at most `columns`."""
    if text.isascii():
        return text[-columns:] if columns else ""
    used = 0
    for position in range(len(text) - 1, -1, -1):
        used += _char_width(text[position])
        if used > columns:
            return text[position + 1 :]
    return text


def left(text: str, columns: int) -> str:
    """`text` padded on its right to at least `columns`."""
    return text + " " * (columns - width(text))


def right(text: str, columns: int) -> str:
    """`text` padded on its left to at least `columns`."""
    return " " * (columns - width(text)) + text


def cell(text: str, columns: int) -> str:
    """`text` cut and padded to exactly `columns`, as C's `%-N.Ns` does for plain characters."""
    if text.isascii():
        return text[:columns].ljust(columns)
    return left(head(text, columns), columns)


def cut_head(text: str, columns: int) -> str:
    """A name too long for its column keeps its end, marked by `*`: `*_quick.sh`."""
    return text if width(text) <= columns else "*" + tail(text, columns - 1)


def fold(text: str, *, indent: int = INDENT, line_width: int = LINE_WIDTH) -> str:
    """`text` broken hard after `line_width` columns, continuation lines indented; blanks at a break are kept.

    Words are broken too, as LSF does. No character is lost or changed: removing newline and indent gives `text` back.
    """
    lines: list[str] = []
    rest, room = text, line_width
    while True:
        part = head(rest, room) or rest[:1]
        lines.append(part)
        rest = rest[len(part) :]
        if not rest:
            break
        room = line_width - indent
    return ("\n" + " " * indent).join(lines) + "\n"


def fold_words(text: str, *, indent: int = INDENT, line_width: int = LINE_WIDTH) -> str:
    """Indented lines of whole words: for lists of process ids, which a broken number would falsify."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and width(longer) > line_width - indent:
            lines.append(line)
            line = word
        else:
            line = longer
    lines.append(line)
    return "".join(" " * indent + each + "\n" for each in lines)
