"""Finds, for each blob that is stored, an earlier one that it resembles: of environments and scripts most lines are the
same from job to job, and only what differs is kept then.

Two contents resemble each other by the pieces (variables, lines) that they share, whatever these mean. Of what was
stored lately some contents are remembered; what the first of them shares with another one becomes a dictionary of the
store, which has nothing that is one job's alone. There is a limit to their number and size. What resembles nothing is
deflated by itself. It writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gsched.store.packing.packed_blobs import GOOD, MOST_NUMBER, QUICK, pack

SMALLEST = 100
"""Bytes of a content that are not worth the trouble."""
LARGEST = 32_000
"""Bytes of a content that is compared with others: as much as deflate looks back."""
REMEMBERED = 32
"""Contents, and dictionaries, that a content is compared with: the ones that were of use last."""
MOST_DICTIONARIES = 1_000
"""Of a store at a time: some MiB. The number of one that was removed is not given again."""
ENOUGH = 0.5
"""Part of a content that another one must share for them to resemble each other."""
_ENDS = b"\0\n"
_PIECE = re.compile(rb"[^\0\n]+[\0\n]?")
"""A variable or a line with its end, which does not count."""


class _Known:
    """A content that others may resemble, `number` as a dictionary; 0: it is none."""

    def __init__(self, content: bytes, pieces: frozenset[bytes], number: int = 0) -> None:
        self.content = content
        self.pieces = pieces
        self.number = number


class BlobPacking:
    """Of one store, in one thread at a time. `stored`: its newest dictionaries, number and words, oldest first; of
    `count` in all.
    """

    def __init__(self, stored: Iterable[tuple[int, bytes]] = (), count: int = 0) -> None:
        self._dictionaries = [_Known(words, _pieces(words), number) for number, words in stored][-REMEMBERED:]
        """The one that was of use last is the last one."""
        self._lately: list[_Known] = []
        self._newest = max((known.number for known in self._dictionaries), default=0)
        self._count = max(count, len(self._dictionaries))
        self._unsaved: dict[int, bytes] = {}

    @property
    def unsaved(self) -> list[tuple[int, bytes]]:
        """Dictionaries, number and words, that must be stored with what was packed last, or before it."""
        return list(self._unsaved.items())

    def saved(self, dictionaries: Iterable[tuple[int, bytes]]) -> None:
        """These are in the store."""
        for number, _ in dictionaries:
            self._unsaved.pop(number, None)

    def unused_among(self, numbers: Iterable[int]) -> set[int]:
        """Those of these dictionaries that nothing will be packed with any more, not after a restart either."""
        given = sorted(numbers)[:-REMEMBERED]
        return set(given) - {known.number for known in self._dictionaries}

    def removed(self, count: int) -> None:
        """So many dictionaries are not in the store any more."""
        self._count -= count

    def pack(self, content: bytes) -> bytes:
        """The row of a blob."""
        if len(content) < SMALLEST or len(content) > LARGEST:
            return pack(content, level=QUICK if len(content) > LARGEST else GOOD)
        pieces = _pieces(content)
        known = _like(content, pieces, self._dictionaries)
        if known is None and not any(each.content == content for each in self._lately):
            known = self._new_dictionary(content, pieces)
        if known is None:
            self._lately = [*self._lately[1 - REMEMBERED :], _Known(content, pieces)]
            return pack(content)
        self._dictionaries.remove(known)
        self._dictionaries.append(known)
        return pack(content, known.number, known.content)

    def _new_dictionary(self, content: bytes, pieces: frozenset[bytes]) -> _Known | None:
        """Of what it shares with an earlier one; None: nothing is like it, or the very same has been stored."""
        like = _like(content, pieces, self._lately)
        if like is None or self._count >= MOST_DICTIONARIES or self._newest >= MOST_NUMBER:
            return None
        shared = pieces & like.pieces
        words = b"".join(each for each in _PIECE.findall(content) if each.rstrip(_ENDS) in shared)
        self._newest += 1
        self._count += 1
        known = _Known(words, shared, self._newest)
        self._unsaved[known.number] = words
        self._dictionaries = [*self._dictionaries[1 - REMEMBERED :], known]
        return known


def _pieces(content: bytes) -> frozenset[bytes]:
    return frozenset(each.rstrip(_ENDS) for each in _PIECE.findall(content))


def _like(content: bytes, pieces: frozenset[bytes], among: list[_Known]) -> _Known | None:
    """The one that shares most with a content; None: none shares enough."""
    found, most = None, ENOUGH * len(content)
    for known in among:
        shared = sum(map(len, pieces & known.pieces))
        if shared > most:
            found, most = known, shared
    return found
