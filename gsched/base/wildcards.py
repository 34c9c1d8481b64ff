"""Patterns of names: `*` stands for any text, `?` for one character, everything else for itself.

Matching takes time that grows with the length of the name, however the pattern is made: whoever asks the master may
write a pattern, and it is held against every job. It must never go back over what it has read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

Find = Callable[[str, int, int], int]
"""(name, from, to) -> where the first place ends that a piece fits in there; -1: nowhere."""


class Wildcards:
    """One pattern, read once."""

    def __init__(self, pattern: str, *, any_one: bool = True) -> None:
        """`any_one`: `?` stands for any character, not for itself."""
        pieces = pattern.split("*")
        self._marks = "?" if any_one else ""
        self._exact = pattern if len(pieces) == 1 and not self._has_mark(pattern) else None
        self._is_one_piece = len(pieces) == 1
        self._head, self._tail = pieces[0], pieces[-1]
        self._ends = (self._head, self._tail) if "*" in pattern and not self._has_mark(pattern) else None
        self._middle: list[Find] = [self._finder(piece) for piece in pieces[1:-1] if piece]

    def fits(self, name: str) -> bool:
        """Whether the whole name is as the pattern says."""
        if self._exact is not None:
            return name == self._exact
        if self._ends is not None:
            return self._fits_plain(name, *self._ends)
        if self._is_one_piece:
            return len(name) == len(self._head) and self._fits_at(self._head, name, 0)
        at, end = len(self._head), len(name) - len(self._tail)
        if at > end or not self._fits_at(self._head, name, 0) or not self._fits_at(self._tail, name, end):
            return False
        for find in self._middle:
            at = find(name, at, end)
            if at < 0:
                return False
        return True

    def _fits_plain(self, name: str, head: str, tail: str) -> bool:
        """The same for a pattern without `?`, in fewer steps."""
        if not (name.startswith(head) and name.endswith(tail)):
            return False
        at, end = len(head), len(name) - len(tail)
        for find in self._middle:
            at = find(name, at, end)
            if at < 0:
                return False
        return at <= end

    def _has_mark(self, text: str) -> bool:
        return bool(self._marks) and self._marks in text

    def _fits_at(self, piece: str, name: str, at: int) -> bool:
        """Whether a piece fits there, where as much of the name is left as it is long, or more."""
        if not self._has_mark(piece):
            return name.startswith(piece, at)
        return all(wanted in ("?", found) for wanted, found in zip(piece, name[at : at + len(piece)], strict=True))

    def _finder(self, piece: str) -> Find:
        if self._has_mark(piece):
            return _Shifting(piece).find
        length = len(piece)

        def find(name: str, start: int, end: int) -> int:
            at = name.find(piece, start, end)
            return at + length if at >= 0 else -1

        return find


@lru_cache(maxsize=256)
def wildcards(pattern: str, *, any_one: bool = True) -> Wildcards:
    """The pattern, read: once for all jobs that it is held against."""
    return Wildcards(pattern, any_one=any_one)


def looks(pattern: str, length: int, *, any_one: bool = True) -> int:
    """How often at most a name of that length is looked at: once for each piece, or for each character."""
    stars = pattern.count("*")
    return length if stars and any_one and "?" in pattern else min(stars, length)


class _Shifting:
    """A piece with `?` in it, looked for with one bit for each of its characters (Shift-And)."""

    def __init__(self, piece: str) -> None:
        any_one = 0
        self._bits: dict[str, int] = {}
        for place, char in enumerate(piece):
            if char == "?":
                any_one |= 1 << place
            else:
                self._bits[char] = self._bits.get(char, 0) | 1 << place
        self._bits = {char: bits | any_one for char, bits in self._bits.items()}
        self._any_one = any_one
        self._last = 1 << len(piece) - 1

    def find(self, name: str, start: int, end: int) -> int:
        fitting, bits, any_one, last = 0, self._bits, self._any_one, self._last
        for at in range(start, end):
            fitting = (fitting << 1 | 1) & bits.get(name[at], any_one)
            if fitting & last:
                return at + 1
        return -1
