"""The language that elims speak: `NUM name1 value1 name2 value2 ...`, read piece by piece. Pure.

It is a stream of words, not of lines: NUM is how many pairs follow, and any white space parts words, a line break as
well as a blank. A report is complete with the white space after its last word. Nothing here knows which names are
wanted, and nothing is kept beyond the bounds below, whatever a program writes.

Source: elim(8), chapter on external load indices of LSF's administration manual.
"""

from __future__ import annotations

import re

from gsched.base.coded_text import coded
from gsched.base.errors import GschedError

MAX_WORD = 4096
"""Most bytes of one word."""

MAX_PAIRS = 4096
"""Most pairs of one report."""

INFINITE_LOAD = 2147483647.0
"""LSF's INFINIT_LOAD: a number beyond it, either way, is no load."""

UNKNOWN = "-"
"""The value by which an elim says that it does not know."""

Report = tuple[tuple[str, str], ...]
"""Pairs of name and value as one report gave them."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_BLANKS = b" \t\n\r\v\f"


class ElimFormatError(GschedError):
    """An elim wrote something that is no report; the stream cannot be trusted from there on."""


class ElimParser:
    """Reads one elim's output. After an ElimFormatError it must not be used any more."""

    def __init__(self) -> None:
        self._rest = b""
        self._missing = 0
        """Words still to come of the report that has begun."""
        self._words: list[str] = []

    @property
    def pending(self) -> str:
        """The beginning of a report that is not complete, as far as it is known; empty where none has begun."""
        count = [str((len(self._words) + self._missing) // 2)] if self._missing else []
        return " ".join([*count, *self._words, *filter(None, [self._rest.decode("utf-8", "backslashreplace")])])

    def feed(self, data: bytes) -> list[Report]:
        """Reports that are complete with this piece of output. Raises ElimFormatError quoting the offending word."""
        data = self._rest + data
        words = data.split()
        # The last word may go on in the next piece, unless something stands behind it.
        self._rest = words.pop() if words and data[-1:] not in _BLANKS_SET else b""
        if len(self._rest) > MAX_WORD:
            raise _too_long(self._rest)
        reports: list[Report] = []
        for word in words:
            if len(word) > MAX_WORD:
                raise _too_long(word)
            self._take(word.decode("utf-8", "backslashreplace"), reports)
        return reports

    def _take(self, word: str, reports: list[Report]) -> None:
        if self._missing:
            self._words.append(word)
            self._missing -= 1
        else:
            self._missing = 2 * _number_of_pairs(word)
        if not self._missing:
            reports.append(tuple(zip(self._words[::2], self._words[1::2], strict=True)))
            self._words = []


_BLANKS_SET = frozenset(_BLANKS[place : place + 1] for place in range(len(_BLANKS)))


def parse_number(text: str) -> float:
    """The number of a word. Raises ElimFormatError for words, NaN, and what is beyond INFINITE_LOAD."""
    if _NUMBER.fullmatch(text) is None:
        raise ElimFormatError(coded("elim.no_number", quote(text)))
    value = float(text)
    if not -INFINITE_LOAD < value < INFINITE_LOAD:
        raise ElimFormatError(coded("elim.out_of_range", quote(text)))
    return value


def quote(text: str, most: int = 40) -> str:
    """A word as a note may show it: printable, short, in quotes."""
    shown = "".join(character if character.isprintable() else "?" for character in text[: most + 1])
    return f"'{shown[:most]}…'" if len(shown) > most else f"'{shown}'"


def _number_of_pairs(word: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 9:
        raise ElimFormatError(coded("elim.no_count", quote(word)))
    if int(word) > MAX_PAIRS:
        raise ElimFormatError(coded("elim.too_many_pairs", word, MAX_PAIRS))
    return int(word)


def _too_long(word: bytes) -> ElimFormatError:
    start = word[:60].decode("utf-8", "backslashreplace")
    return ElimFormatError(coded("elim.word_too_long", MAX_WORD, quote(start)))
